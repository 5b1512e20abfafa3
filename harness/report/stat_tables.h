/* stat_tables.h - tables that SQL cannot make: paired differences, medians with intervals, and
 * which cell has what.
 *
 * Unlike machines are kept apart: KVR_EINVAL, naming them, when a table would mix them and
 * `across_machines` does not ask for that. The caller closes the table. */
#ifndef KVR_REPORT_STAT_TABLES_H
#define KVR_REPORT_STAT_TABLES_H

#include <stdint.h>

#include "harness/report/table.h"

struct kvr_stat_options {
    const char *db;
    const char *metric;  /* paired: a metric's name, or a column of cells_wide */
    const char *against; /* paired: label of the method that the others are compared with */
    const char *where;   /* SQL condition on cells_wide; NULL: all */
    double level;        /* of intervals: 0.95 */
    uint64_t seed;       /* of the bootstrap */
    bool across_machines;
};

/* Per method: mean with its standard error, the mean difference to `against` over the prompts
 * that both have, its BCa interval, and the group of methods that it cannot be told from. */
enum kvr_status kvr_stat_paired(struct kvr_table **out, const struct kvr_stat_options *o);

/* Per rollout that was repeated: median wall time, its interval, the smallest, outliers, and what
 * part of the time the phases explain. */
enum kvr_status kvr_stat_timing(struct kvr_table **out, const struct kvr_stat_options *o);

/* Method by prompt: how many cells are OK of how many there are. */
enum kvr_status kvr_stat_coverage(struct kvr_table **out, const struct kvr_stat_options *o);

#endif
