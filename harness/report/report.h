/* report.h - predefined tables of results, computed from a database.
 *
 *     struct kvr_table *t;
 *     KVR_TRY(kvr_report_table(&t, "kvreel.db", "summary"));
 *     st = kvr_table_write(t, KVR_TABLE_TEXT, stdout);
 *     kvr_table_close(&t);
 *
 * Each table is defined by one entry of the array in tables.c. An entry has the SQL statement, the
 * formats of the table's columns, and the names of the columns that move to the table's note if all
 * their rows are equal (`fold`). */
#ifndef KVR_REPORT_REPORT_H
#define KVR_REPORT_REPORT_H

#include "harness/report/table/table.h"

struct kvr_report {
    const char *name, *title;
    const char *sql;         /* SQL statement of the table, from a file in harness/report/sql */
    const char *const *with; /* names and values of the placeholders {NAME} in `sql` (statement.h;
                              * NULL: no placeholders) */
    enum kvr_status (*make)(struct kvr_table **out,
                            const char *db_path); /* callback that computes the table in C (NULL:
                                                   * the table comes from `sql`) */
    const struct kvr_column *columns;             /* the last entry's name is NULL */
    const char *const *fold;                      /* ends with NULL */
    bool intervals; /* whether to fill the columns of 95 % confidence intervals
                        * (kvr_report_add_intervals) */
    bool chaos;     /* whether the table's note gives the chaos floor: the distance of the BF16
                        * rollout from BF16 reruns with slightly perturbed noise (chaos.h) */
    const char
        *empty; /* message printed after the database's name if the table has no rows (NULL: a
                        * default message) */
};

extern const struct kvr_report kvr_reports[]; /* the last entry's name is NULL */

/* KVR_ENOTFOUND: no such table (the message suggests the nearest name). Other errors are those of
 * kvr_table_query(). */
enum kvr_status kvr_report_table(struct kvr_table **out, const char *db_path, const char *name);

/* Adds to the table's note the numbers of missing and failed cells (rollouts) of each incomplete
 * sweep. */
enum kvr_status kvr_report_note_plan(struct kvr_table *t, const char *db_path);

/* Sets *out to the text below a figure, which names the hosts and gives the numbers of missing and
 * failed cells. The caller frees *out. */
enum kvr_status kvr_report_footer(char **out, const char *db_path);

#endif
