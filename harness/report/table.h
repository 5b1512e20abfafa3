/* table.h - a small typed table with six text formats.
 *
 *     struct kvr_table *t;
 *     KVR_TRY(kvr_table_query(&t, "kvreel.db", "SELECT method, ssim FROM summary"));
 *     st = kvr_table_write(t, KVR_TABLE_MD, stdout);
 *     kvr_table_close(&t);
 *
 * Text, Markdown and LaTeX are for reading: heads, units, scaled and rounded values, "-" for
 * missing ones. CSV, JSON and JSONL (one object per line) are for programs: column names, stored
 * values, an empty field or null for missing ones. Separators, markup and control characters in
 * cells are escaped. */
#ifndef KVR_REPORT_TABLE_H
#define KVR_REPORT_TABLE_H

#include <stdio.h>

#include "harness/store/store.h"

enum kvr_table_format {
    KVR_TABLE_TEXT,
    KVR_TABLE_MD,
    KVR_TABLE_CSV,
    KVR_TABLE_JSON,
    KVR_TABLE_LATEX,
    KVR_TABLE_JSONL,
    KVR_N_TABLE_FORMATS
};
/* "txt", "md", "csv", "json", "latex", "jsonl"; KVR_EINVAL lists them. */
enum kvr_status kvr_table_format_parse(const char *name, enum kvr_table_format *out);

struct kvr_column {
    const char *name; /* as in SQL, CSV and JSON */
    const char *head; /* displayed name; NULL: name */
    const char *unit; /* displayed after the head; NULL: no unit */
    double scale;     /* displayed value = stored value * scale; 0 means 1 */
    int digits;       /* displayed decimals; < 0: six significant digits */
    int better;       /* +1: higher is better, -1: lower, 0: neither; LaTeX sets the best in bold */
    bool groups;      /* a setting that groups rows (kvr_table_fold) */
};

struct kvr_table {
    char *title, *note; /* owned; may be NULL. Displayed in Text, Markdown and LaTeX */
    int n_columns, n_rows;
    struct kvr_column *column; /* [n_columns], names and heads owned */
    struct kvr_value *cell;    /* [n_rows, n_columns], texts owned and terminated */
    int capacity;              /* allocated rows of `cell` */
};

enum kvr_status kvr_table_open(struct kvr_table **out, int n_columns,
                               const struct kvr_column *columns);
/* Appends a copy of a row [n_columns]. On KVR_ENOMEM the table is unchanged. */
enum kvr_status kvr_table_add(struct kvr_table *t, const struct kvr_value *row);
/* Replaces a cell by a copy of v. */
enum kvr_status kvr_table_set(struct kvr_table *t, int row, int column, struct kvr_value v);
void kvr_table_close(struct kvr_table **t);

/* Rows of one read-only statement, in which {group} and similar placeholders stand for settings
 * (kvr_settings_sql). `known` (may be NULL; ends with name NULL) describes the display of columns
 * by name. */
enum kvr_status kvr_table_query(struct kvr_table **out, const char *db_path, const char *sql,
                                const struct kvr_column *known);
/* Like kvr_table_query, for a statement with placeholders (kvr_statement_fill). `with` may be
 * NULL. */
enum kvr_status kvr_table_query_with(struct kvr_table **out, const char *db_path, const char *sql,
                                     const char *const *with, const struct kvr_column *known);
/* Like kvr_table_query, for a user's statement, with limits on time and size. */
enum kvr_status kvr_table_query_within(struct kvr_table **out, const char *db_path, const char *sql,
                                       const struct kvr_query_limits *limits);

int kvr_table_find(const struct kvr_table *t, const char *name); /* column or -1 */
const struct kvr_value *kvr_table_at(const struct kvr_table *t, int row, int column);
double kvr_table_number(const struct kvr_table *t, int row, int column);    /* NaN: no number */
const char *kvr_table_text(const struct kvr_table *t, int row, int column); /* "": no text */

/* Moves columns of `names` (ends with NULL) with one value in all rows into the note: "model nano, frames 42".
 * Drops empty columns and settings at an uninteresting default (kvr_setting_is_omitted). The
 * remaining columns group the rows. */
enum kvr_status kvr_table_fold(struct kvr_table *t, const char *const *names);
/* Drops the columns of `names` (ends with NULL) that have no value in any row. */
void kvr_table_drop_empty(struct kvr_table *t, const char *const *names);
/* Removes this column, if present. */
void kvr_table_drop(struct kvr_table *t, const char *name);
/* Appends ", text" to the note. */
enum kvr_status kvr_table_note(struct kvr_table *t, const char *text);

/* Converts columns of bytes (NAME_bytes, and those of the table `mem`) to MiB in displayed formats,
 * with the unit in the head. CSV and JSON are unchanged. */
enum kvr_status kvr_table_mib(struct kvr_table *t);

/* KVR_EFULL or KVR_EIO if a write to `to` fails. */
enum kvr_status kvr_table_write(const struct kvr_table *t, enum kvr_table_format format, FILE *to);

#endif
