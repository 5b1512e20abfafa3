/* stat_tables.h - tables that SQL cannot make: paired differences, medians with intervals, and
 * which cell has what.
 *
 * Unlike machines are kept apart: KVR_EINVAL, naming them, when a table would mix them and
 * `across_machines` does not ask for that. The caller closes the table. */
#ifndef KVR_REPORT_STAT_TABLES_H
#define KVR_REPORT_STAT_TABLES_H

#include "harness/report/table.h"
#include "harness/report/nested.h"

struct kvr_stat_options {
    const char *db;
    const char *metric;    /* paired: a metric's name, or a column of cells_wide */
    const char *before;    /* runs: the other database */
    const char *against;   /* paired: label of the method that the others are compared with */
    const char *where;     /* SQL condition on cells_wide; NULL: free rollouts */
    double level;          /* of intervals: 0.95; 1 - level is what the test may err */
    enum kvr_nesting unit; /* paired: what is independent */
    bool across_machines;
    int better; /* paired, of another program's number: +1 higher, -1 lower, 0 as the sweep says */
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

/* Verdicts of a table of o->metric: a method is separable from the next lower one. Per verdict: does it hold with
 * the first or second half of the seeds, half of the prompts, under a teacher, in the other reading? */
enum kvr_status kvr_stat_sensitivity(struct kvr_table **out, const struct kvr_stat_options *o);

/* The same of SSIM over a whole database, as a table of `kvreel report`. */
enum kvr_status kvr_report_sensitivity(struct kvr_table **out, const char *db_path);

/* The cells of both o->db and o->before, by key. Per method: the number with equal frames, the mean difference
 * of the metric with its interval, separable or not, and the median ratio of controlled times. Machines
 * may differ; the note names them. */
enum kvr_status kvr_stat_runs(struct kvr_table **out, const struct kvr_stat_options *o);

/* KVR_EINVAL, naming them, where o->where takes in more than one machine unasked. */
enum kvr_status kvr_stat_one_machine(const struct kvr_stat_options *o);

/* Per rollout that was repeated: median wall time, its interval, the smallest, outliers, and what
 * part of the time the phases explain. */
enum kvr_status kvr_stat_timing(struct kvr_table **out, const struct kvr_stat_options *o);

/* Method by prompt: how many cells are OK of how many there are. */
enum kvr_status kvr_stat_coverage(struct kvr_table **out, const struct kvr_stat_options *o);

#endif
