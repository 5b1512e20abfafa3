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
    enum kvr_nesting unit; /* the independent unit, prompt or seed, used by kvr_stat_paired */
    bool across_machines;
    int better; /* direction of improvement of an external program's metric: +1 for higher, -1 for
                 * lower, 0 for the direction that the sweep gives; used by kvr_stat_paired */
};

/* Makes a table with a row per method, best first: mean, standard error, and the probability that
 * the method is better than the next row. Further columns compare the method with the method
 * o->against over shared prompts: mean difference, its interval, probability that the method is
 * better, p-value, and Holm-adjusted p-value. Column `separable` is "yes", "no", or the number of
 * prompts that the test still needs. Column `tie_group` numbers groups from best to worst: a method
 * starts a new group if it is separable from the first method of the current group. Repeats, draws
 * and seeds are averaged per prompt (pairs.h, nested.h). */
enum kvr_status kvr_stat_paired(struct kvr_table **out, const struct kvr_stat_options *o);

/* Builds a table of a metric of free rollouts (without forcing), with a row per method and part of
 * the video: a chunk, a prefix, the last third, or the whole video. The columns are the mean, its
 * interval, and the chaos floor of the same part of the video. The last column says whether the
 * metric is significantly beyond the chaos floor (pairs.h). Its p-values are Holm-adjusted over the
 * methods of the same part of the video. */
enum kvr_status kvr_stat_windows(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table of error growth with a row per method. The injected error is the metric of rollouts
 * with teacher forcing, which generate each chunk from the BF16 rollout's past. The accumulated
 * error is the metric of free rollouts. Further columns are the difference of these errors and the
 * metric's slope per chunk of a free rollout, fitted to each cell. All columns have intervals. */
enum kvr_status kvr_stat_growth(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table of the metrics whose reference is not the BF16 rollout, with a row per metric and
 * method. These metrics have no reference, or compare with recorded frames. The columns are the
 * paired difference from BF16, and the spread of the BF16 draws (reruns with slightly perturbed
 * noise). A further column says whether the difference exceeds the effect of chaos (amplified
 * rounding, chaos.h). */
enum kvr_status kvr_stat_distribution(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table of the sensitivity of verdicts. A verdict says that method A is better in o->metric
 * than method B. B is the best method that is worse than A and separable from A (pairs.h). Columns
 * say whether the verdict still holds when only the first (or second) seed of each prompt is used,
 * or only the odd (or even) prompts. A further column gives the verdict with teacher forcing (each
 * chunk is generated from the BF16 rollout's past). Another column gives the verdict for the other
 * variants of the two methods, such as NAME@study for NAME. */
enum kvr_status kvr_stat_sensitivity(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes the table of kvr_stat_sensitivity for SSIM over a whole database, for `kvreel report`. */
enum kvr_status kvr_report_sensitivity(struct kvr_table **out, const char *db_path);

/* Compares the databases o->db and o->before over cells with equal keys (input hashes), with a row
 * per method. The columns are the number of cells with equal frames, the mean difference of the
 * metric and its interval, and whether the difference is significant. A further column is the
 * median of the runtime ratio o->db / o->before over cells with valid runtimes in both databases.
 * The databases may come from different machines, which the note names. */
enum kvr_status kvr_stat_runs(struct kvr_table **out, const struct kvr_stat_options *o);

/* Checks that o->where selects cells of one machine, or that `across_machines` is set. KVR_EINVAL:
 * neither is true (the message names the machines). */
enum kvr_status kvr_stat_one_machine(const struct kvr_stat_options *o);

/* Makes a table with a row per repeated rollout: median wall time, its interval, the minimum, the
 * number of outliers, and the fraction of the wall time spent in measured phases. */
enum kvr_status kvr_stat_timing(struct kvr_table **out, const struct kvr_stat_options *o);

/* Makes a table with a row per method and a column per prompt: number of OK cells out of all
 * cells. */
enum kvr_status kvr_stat_coverage(struct kvr_table **out, const struct kvr_stat_options *o);

#endif
