/* stat_tables.h - tables computed in C: paired differences, medians with intervals, coverage.
 *
 * KVR_EINVAL, with the machines' names: a table would mix different machines without
 * `across_machines`. The caller closes the table. */
#ifndef KVR_REPORT_STAT_TABLES_H
#define KVR_REPORT_STAT_TABLES_H

#include "harness/report/table.h"
#include "harness/report/nested.h"

struct kvr_stat_options {
    const char *db;
    const char *metric;    /* for kvr_stat_paired: a metric's name, or a column of cells_wide */
    const char *before;    /* for kvr_stat_runs: the other database */
    const char *against;   /* for kvr_stat_paired: label of the method that the others are compared
                            * with */
    const char *where;     /* SQL condition on cells_wide; NULL: free rollouts */
    double level;          /* confidence level of intervals, 0.95; 1 - level is the test's error
                            * rate */
    enum kvr_nesting unit; /* for kvr_stat_paired: the independent unit */
    bool across_machines;
    int better; /* for kvr_stat_paired with a metric of an external program: +1 higher is better, -1
                 * lower, 0 as in the sweep */
};

/* Per method, best first: mean with its standard error and the probability of beating the next. Then, against
 * `against` over shared prompts: the mean difference with its interval, the probability of being better, p,
 * Holm-adjusted p, and separable or the number of missing pairs. Last, its tie group. Repeats, draws and
 * seeds are averaged per prompt (pairs.h, nested.h).
 */
enum kvr_status kvr_stat_paired(struct kvr_table **out, const struct kvr_stat_options *o);

/* The metric of free rollouts, per window (chunk, prefix, last third, whole) and method: mean, interval, and the
 * chaos floor of the same window. A column says whether the metric is beyond the floor (pairs.h, Holm-adjusted
 * over the methods of a window). */
enum kvr_status kvr_stat_windows(struct kvr_table **out, const struct kvr_stat_options *o);

/* Per method, each with its interval: injected error (forcing teacher), accumulated error (free rollout), their
 * difference, and the slope of the metric per chunk of a free rollout, fitted per cell. */
enum kvr_status kvr_stat_growth(struct kvr_table **out, const struct kvr_stat_options *o);

/* Metrics without the BF16 reference (no reference, or the truth). Per metric and method: the paired difference
 * to BF16, the spread of BF16's draws, and whether the difference is beyond chaos. */
enum kvr_status kvr_stat_distribution(struct kvr_table **out, const struct kvr_stat_options *o);

/* Sensitivity of the verdicts of o->metric, a method being separable from the next lower one. Per
 * verdict: whether it holds with the first or second half of the seeds, half of the prompts, under
 * a teacher, in the other reading. */
enum kvr_status kvr_stat_sensitivity(struct kvr_table **out, const struct kvr_stat_options *o);

/* kvr_stat_sensitivity for SSIM over a whole database, as a table of `kvreel report`. */
enum kvr_status kvr_report_sensitivity(struct kvr_table **out, const char *db_path);

/* The cells of both o->db and o->before, by key. Per method: the number with equal frames, the mean difference
 * of the metric with its interval, separable or not, and the median ratio of controlled times. Machines
 * may differ; the note names them. */
enum kvr_status kvr_stat_runs(struct kvr_table **out, const struct kvr_stat_options *o);

/* KVR_EINVAL, with the machines' names: o->where selects several machines without
 * `across_machines`. */
enum kvr_status kvr_stat_one_machine(const struct kvr_stat_options *o);

/* Per repeated rollout: median wall time, its interval, the minimum, outliers, and the share of the
 * time that the phases explain. */
enum kvr_status kvr_stat_timing(struct kvr_table **out, const struct kvr_stat_options *o);

/* A row per method and a column per prompt: the number of OK cells out of all cells. */
enum kvr_status kvr_stat_coverage(struct kvr_table **out, const struct kvr_stat_options *o);

#endif
