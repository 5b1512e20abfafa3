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
    const char *where;     /* SQL condition on the view cells_wide (NULL: cells with free rollouts,
                            * that is, without teacher forcing) */
    double level;          /* confidence level of the intervals, such as 0.95; tests have
                            * significance level 1 - level */
    enum kvr_nesting unit; /* the independent unit of means and tests, prompt or seed */
    bool across_machines;
    int better; /* direction of improvement of an external program's metric: +1 for higher, -1 for
                 * lower, 0 for the sweep's `better` of that program; used by kvr_stat_paired */
};

/* Makes a table of o->metric with a row per method, sorted from best to worst mean. The columns are
 * the mean, its standard error, and the probability that the method is better than the method of
 * the next row. Further columns compare the method with o->against over shared prompts: mean
 * difference, its interval, probability that the method is better than o->against, p-value, and
 * Holm-adjusted p-value. Column `separable` says whether the difference from o->against is
 * significant: "yes", "no", or the number of prompts that the test still needs. Column `tie_group`
 * numbers groups from best to worst: a method starts a new group if it is separable from the first
 * method of the current group. Repeats, draws and seeds are averaged per prompt (pairs.h,
 * nested.h). */
enum kvr_status kvr_stat_paired(struct kvr_table **out, const struct kvr_stat_options *o);

/* Builds a table of a metric of free rollouts (without forcing), with a row per method and part of
 * the video. A part is one chunk, all chunks up to one, the last third, or the whole video. The
 * columns are the mean, its interval, and the chaos floor of the same part of the video. Column
 * `beyond_chaos` says whether the method differs significantly from the BF16 draws (pairs.h), and
 * is worse if the metric compares with the BF16 rollout. The p-values are Holm-adjusted over the
 * methods of the same part of the video. */
enum kvr_status kvr_stat_windows(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table of error growth with a row per method. The injected error is the metric of rollouts
 * with teacher forcing, which generate each chunk from the BF16 rollout's past. The accumulated
 * error is the metric of free rollouts. Further columns are the accumulated minus the injected
 * error, and the metric's change per chunk in free rollouts: the mean of least-squares slopes, one
 * per cell. All these columns have intervals. */
enum kvr_status kvr_stat_growth(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table of the metrics that do not compare with the BF16 rollout, with a row per metric and
 * method. These metrics judge the generated frames alone, or compare them with recorded frames. The
 * columns are the metric's mean paired difference from BF16, its interval, and the standard
 * deviation over the BF16 draws (reruns with slightly perturbed noise) of a prompt. Column
 * `beyond_chaos` says whether the method differs significantly from these draws. */
enum kvr_status kvr_stat_distribution(struct kvr_table **out, const struct kvr_stat_options *o);

/* Tests whether results "method A is better in o->metric than method B" also hold on other
 * rollouts; the table has one row per A. Among the methods that are significantly worse than A
 * (pairs.h), B is the best one. Six columns repeat the comparison on other rollouts. Five of them
 * use the first seed of each prompt, the second seed, the odd prompts, the even prompts, or teacher
 * forcing (each chunk is generated from the BF16 rollout's past). The sixth compares the other
 * variants of A and B, such as NAME@study for NAME. */
enum kvr_status kvr_stat_sensitivity(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes the table of kvr_stat_sensitivity for SSIM and all cells of a database, across machines,
 * for `kvreel report`. */
enum kvr_status kvr_report_sensitivity(struct kvr_table **out, const char *db_path);

/* Compares the databases o->db and o->before over cells with equal keys (input hashes), with a row
 * per method. The columns are the number of cells with equal frames, the mean difference of the
 * metric and its interval, and whether the difference is significant. A further column is the
 * median of the runtime ratio o->db / o->before over cells with valid runtimes in both databases.
 * The databases may come from different machines; the table's note names the machine of each. */
enum kvr_status kvr_stat_runs(struct kvr_table **out, const struct kvr_stat_options *o);

/* Checks that the cells that o->where selects were measured on one machine, unless
 * o->across_machines is set. KVR_EINVAL: they were measured on several machines (the message names
 * them). */
enum kvr_status kvr_stat_one_machine(const struct kvr_stat_options *o);

/* Makes a table with a row per rollout, over its repeats: median wall time, its interval, minimum,
 * and number of outlying repeats. A further column is the fraction of the wall time that the timed
 * phases (encode, attention, ...) account for. */
enum kvr_status kvr_stat_timing(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table with a row per method and a column per prompt: number of OK cells out of all
 * cells. */
enum kvr_status kvr_stat_coverage(struct kvr_table **out, const struct kvr_stat_options *o);

#endif
