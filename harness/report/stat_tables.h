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

/* Per method, best first: mean with its standard error, the probability that it is better than the
 * next, the mean difference to `against` over the prompts that both have with its interval, the
 * probability that it is better, the p-value of a test, the same after Holm for all methods of the
 * table, whether the two are separable or how many pairs are missing, and the group of methods that
 * it is not separable from. Repeats, draws and seeds are means of their prompt (pairs.h, nested.h).
 */
enum kvr_status kvr_stat_paired(struct kvr_table **out, const struct kvr_stat_options *o);

/* Of free rollouts the metric by window, chunk, prefix, last third and whole, and by method: its
 * mean and interval, the floor of the same window (BF16's draws), and whether it is beyond that by
 * the test of pairs.h, Holm over the methods of a window. */
enum kvr_status kvr_stat_windows(struct kvr_table **out, const struct kvr_stat_options *o);

/* Per method: what it puts in (forcing teacher), what comes of it (free), the difference, and the
 * rate by which the metric moves from chunk to chunk of a free rollout, fitted cell by cell; each
 * with its interval. */
enum kvr_status kvr_stat_growth(struct kvr_table **out, const struct kvr_stat_options *o);

/* The metrics that are no distance from BF16, of the video by itself or beside the truth: per
 * metric and method the paired difference to BF16, what BF16's own draws stray by, beyond chaos or
 * not. */
enum kvr_status kvr_stat_distribution(struct kvr_table **out, const struct kvr_stat_options *o);

/* Per verdict of a table of o->metric (a method is above the next that it is separable from): does
 * it survive the first or second seeds alone, half of the prompts, the metric under a teacher, the
 * other reading. */
enum kvr_status kvr_stat_sensitivity(struct kvr_table **out, const struct kvr_stat_options *o);

/* The same of SSIM over a whole database, as a table of `kvreel report`. */
enum kvr_status kvr_report_sensitivity(struct kvr_table **out, const char *db_path);

/* The cells that o->db and o->before both have, by their keys: by method how many have the same
 * frames, the mean difference of the metric with its interval, whether it is separable, and the
 * median ratio of times that count. Machines may differ: the note says who measured what. */
enum kvr_status kvr_stat_runs(struct kvr_table **out, const struct kvr_stat_options *o);

/* KVR_EINVAL, naming them, where o->where takes in more than one machine unasked. */
enum kvr_status kvr_stat_one_machine(const struct kvr_stat_options *o);

/* Per rollout that was repeated: median wall time, its interval, the smallest, outliers, and what
 * part of the time the phases explain. */
enum kvr_status kvr_stat_timing(struct kvr_table **out, const struct kvr_stat_options *o);

/* Method by prompt: how many cells are OK of how many there are. */
enum kvr_status kvr_stat_coverage(struct kvr_table **out, const struct kvr_stat_options *o);

#endif
