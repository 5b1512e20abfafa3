/* ratios.h - runtimes relative to BF16, from consecutive rollouts of BF16 (A) and a method (B) in
 * the order A B B A or B A A B (setting `abba`).
 *
 *     KVR_TRY(kvr_ratios_read(&t, db, KVR_RATIOS_BY_SETTINGS, NULL));
 *     row = kvr_ratio_find(t, "RTN_INT4", "nano, frames 42, ...");
 *     kvr_table_number(t, row, KVR_RATIO);     NaN: no ratio, for the reason in KVR_RATIO_CODES
 *
 * The ratio is the geometric mean over pairs of consecutive rollouts A and B, with a 95 % interval.
 * A ratio is invalid if the machine was loaded or throttled (codes of docs/sweeps.md), or if the
 * interval's upper end is more than 1.1 times the lower end (code WIDE). A ratio with the code
 * DRIFT (BF16's time changed during the session) is valid, because a slower machine slows down both
 * rollouts of a pair. */
#ifndef KVR_REPORT_RATIOS_H
#define KVR_REPORT_RATIOS_H

#include "harness/report/table/table.h"

enum {
    KVR_RATIO_METHOD,
    KVR_RATIO_PLACE,
    KVR_RATIO_PAIRS,
    KVR_RATIO,
    KVR_RATIO_LO,
    KVR_RATIO_HI,
    KVR_RATIO_CODES
}; /* columns */

#define KVR_RATIOS_BY_SETTINGS "settings || ', ' || machine"
#define KVR_RATIOS_BY_UNIT "rollout || machine || code || method"

/* Makes a table of the runtime ratios in a database, one row per method and group. `by` is the SQL
 * expression that defines a group, such as KVR_RATIOS_BY_SETTINGS. A database without rollouts with
 * the setting `abba` yields a table without rows. */
enum kvr_status kvr_ratios_read(struct kvr_table **out, const char *db_path, const char *by);
/* Returns the row of method `method` and group `place` in the table `t` of kvr_ratios_read, or -1
 * if there is no such row. `place` is the group's value of the SQL expression `by`. */
int kvr_ratio_find(const struct kvr_table *t, const char *method, const char *place);

/* Fills the columns runtime_ratio (runtime relative to BF16), ratio_lo and ratio_hi (95 % interval
 * of the ratio), and ratio_codes (why there is no ratio) from the database's ratios. `t` must have
 * these four columns, and the columns `method` and `of_settings`, which identify a ratio. The four
 * columns are dropped if no row has a ratio. */
enum kvr_status kvr_report_add_ratios(struct kvr_table *t, const char *db_path);

#endif
