/* stat_tables.h - tables computed in C: paired differences, medians with intervals, numbers of
 * completed cells.
 *
 * The caller closes the tables that these functions make. KVR_EINVAL: a table would mix several
 * machines, and `across_machines` is false (the message names the machines). */
#ifndef KVR_REPORT_STAT_TABLES_H
#define KVR_REPORT_STAT_TABLES_H

#include "harness/report/table/table.h"
#include "harness/report/stats/nested.h"

struct kvr_stat_options {
    const char *db;
    const char *metric;    /* name of the metric, or in kvr_stat_paired the name of a column of the
                            * view cells_wide */
    const char *before;    /* path of the earlier database, used by kvr_stat_runs */
    const char *against;   /* label of the method that all others are compared with, used by
                            * kvr_stat_paired */
    const char *where;     /* SQL condition on the view cells_wide that selects cells (NULL: cells
                            * without teacher forcing) */
    double level;          /* confidence level of the intervals, such as 0.95; tests have
                            * significance level 1 - level */
    enum kvr_nesting unit; /* the independent unit of means and tests, prompt or seed */
    bool across_machines;
    int better; /* for kvr_stat_paired with a metric of an external program: +1: higher values are
                 * better, -1: lower values are better, 0: the key `better` in the sweep's YAML file
                 * decides */
};

/* Makes a table of o->metric with a row per method, sorted from best to worst mean. The columns are
 * the mean, its standard error, and the probability that the method is better than the method of
 * the next row. Further columns compare the method with o->against over shared prompts: mean
 * difference, its interval, probability that the method is better than o->against, p-value, and
 * Holm-adjusted p-value. Column `separable` says whether the difference from o->against is
 * significant: "yes", "no", or if the test needs more shared prompts, the number of additional
 * ones. Column `tie_group` numbers groups of methods from best to worst. A method starts a new
 * group if it differs significantly from the first method of the current group. Repeats, seeds, and
 * reruns with perturbed noise are averaged per prompt (pairs.h, nested.h). */
enum kvr_status kvr_stat_paired(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table of o->metric in free rollouts (without teacher forcing), with a row per method and
 * part of the video. A part is chunk i, the chunks 0 to i, the last third, or the whole video. The
 * columns are the mean, its interval, and the chaos floor of the same part of the video. The chaos
 * floor is the mean of the metric over BF16 reruns with slightly perturbed noise. Column
 * `beyond_chaos` says whether the method differs significantly from these reruns (pairs.h). For
 * metrics that compare with the BF16 rollout, the method must also be worse than the reruns. The
 * p-values are Holm-adjusted over the methods of the same part of the video. */
enum kvr_status kvr_stat_windows(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table of error growth with a row per method. The injected error is o->metric in rollouts
 * with teacher forcing, which generate each chunk from the BF16 rollout's past. The accumulated
 * error is o->metric in free rollouts. A further column is the accumulated minus the injected
 * error. Another is the metric's change per chunk: the mean over free rollouts of the slope of a
 * least-squares line through the chunks' values. All these columns have confidence intervals. */
enum kvr_status kvr_stat_growth(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table of the metrics that do not compare with the BF16 rollout, with a row per metric and
 * method. These metrics judge the generated frames alone, or compare them with recorded frames. The
 * columns are the metric's mean paired difference from BF16, its interval, and the metric's
 * standard deviation over a prompt's BF16 reruns with slightly perturbed noise. Column
 * `beyond_chaos` says whether the method differs significantly from these reruns. */
enum kvr_status kvr_stat_distribution(struct kvr_table **out, const struct kvr_stat_options *o);

/* Tests whether the result "method A is better in o->metric than method B" depends on the selected
 * rollouts; the table has one row per method A. B is the best of the methods that are significantly
 * worse than A on all rollouts (pairs.h). Six columns repeat the comparison on a selection of
 * rollouts. Five use the first seed of each prompt, the second seed, the odd prompts, the even
 * prompts, or rollouts with teacher forcing (each chunk is generated from the BF16 rollout's past).
 * The sixth compares the other versions of both methods: NAME@study (as the 33-method study
 * implemented it) instead of NAME, or the reverse. */
enum kvr_status kvr_stat_sensitivity(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes the table of kvr_stat_sensitivity with SSIM as the metric and all cells of a database, even
 * of several machines; used by `kvreel report`. */
enum kvr_status kvr_report_sensitivity(struct kvr_table **out, const char *db_path);

/* Compares the databases o->db and o->before over cells with equal keys (input hashes); the table
 * has a row per method. The columns are the number of cells whose frames are equal in both
 * databases, the mean difference of o->metric and its interval, and whether the difference is
 * significant. A further column is the median of the runtime ratio o->db / o->before over cells
 * with valid runtimes in both databases. The databases may come from different machines; the
 * table's note names the machine of each. */
enum kvr_status kvr_stat_runs(struct kvr_table **out, const struct kvr_stat_options *o);

/* Checks that the cells that o->where selects were measured on one machine, unless
 * o->across_machines is set. KVR_EINVAL: they were measured on several machines (the message names
 * them). */
enum kvr_status kvr_stat_one_machine(const struct kvr_stat_options *o);

/* Makes a table with a row per rollout. The columns are the median wall time over the rollout's
 * repeats, the median's interval, the minimum, and the number of outlying repeats. A further column
 * is the fraction of the wall time that the timed phases (encode, attention, ...) account for. */
enum kvr_status kvr_stat_timing(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table with a row per method and a column per prompt: number of OK cells out of all
 * cells. */
enum kvr_status kvr_stat_coverage(struct kvr_table **out, const struct kvr_stat_options *o);

#endif
