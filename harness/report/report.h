/* report.h - predefined tables of a database.
 *
 *     struct kvr_table *t;
 *     KVR_TRY(kvr_report_table(&t, "kvreel.db", "summary"));
 *     st = kvr_table_write(t, KVR_TABLE_TEXT, stdout);
 *     kvr_table_close(&t);
 *
 * A table is a row of tables.c: a statement, the display of its columns, and the columns that move
 * to the note if they are constant. */
#ifndef KVR_REPORT_REPORT_H
#define KVR_REPORT_REPORT_H

#include "harness/report/table.h"

struct kvr_report {
    const char *name, *title;
    const char *sql;         /* a statement of sql/ */
    const char *const *with; /* texts for the placeholders of sql (statement.h); NULL: it has
                              * none */
    enum kvr_status (*make)(struct kvr_table **out,
                            const char *db_path); /* computed in C, instead of sql */
    const struct kvr_column *columns;             /* ends with name NULL */
    const char *const *fold;                      /* ends with NULL */
    bool intervals;    /* add the confidence intervals of the table `intervals` */
    bool chaos;        /* the note has the chaos floor (chaos.h) */
    const char *empty; /* why there may be no rows; NULL: no cells of this kind */
};

extern const struct kvr_report kvr_reports[]; /* ends with name NULL */

/* KVR_ENOTFOUND with the nearest name; errors of kvr_table_query(). */
enum kvr_status kvr_report_table(struct kvr_table **out, const char *db_path, const char *name);

/* "nano-host (CPU model)" of every session with cells, joined by "; ". The caller frees *out. */
enum kvr_status kvr_report_hosts(char **out, const char *db_path);

/* Adds a note for each incomplete sweep of the database: missing and failed cells. */
enum kvr_status kvr_report_note_plan(struct kvr_table *t, const char *db_path);

/* Text below a figure: the hosts and the note of kvr_report_note_plan. The caller frees *out. */
enum kvr_status kvr_report_footer(char **out, const char *db_path);

#endif
