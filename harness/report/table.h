/* table.h - a small typed table, and its six ways to text.
 *
 *     struct kvr_table *t;
 *     KVR_TRY(kvr_table_query(&t, "kvreel.db", "SELECT method, ssim FROM summary"));
 *     st = kvr_table_write(t, KVR_TABLE_MD, stdout);
 *     kvr_table_close(&t);
 *
 * Text, Markdown and LaTeX are for reading: heads, units, scaled and rounded values, "-" for
 * what is missing. CSV, JSON and JSONL (an object a line) are for programs: the columns' own names,
 * values as they are stored, an empty field or null for what is missing. Whatever a cell holds, it
 * stays in its cell: separators, markup and control characters are escaped. */
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
/* "txt", "md", "csv", "json", "latex", "jsonl"; KVR_EINVAL names them all. */
enum kvr_status kvr_table_format_parse(const char *name, enum kvr_table_format *out);

struct kvr_column {
    const char *name; /* as in SQL, CSV and JSON */
    const char *head; /* as shown; NULL: name */
    const char *unit; /* shown behind the head; NULL: none */
    double scale;     /* shown value = stored value * scale; 0 means 1 */
    int digits;       /* behind the point of what is shown; < 0: six significant ones */
    int better;       /* +1: more is, -1: less is; 0: neither. For a paper the best is bold */
    bool groups;      /* a setting in which rows differ (kvr_table_fold) */
};

struct kvr_table {
    char *title, *note; /* owned; NULL: none. Text, Markdown and LaTeX show them */
    int n_columns, n_rows;
    struct kvr_column *column; /* [n_columns], names and heads owned */
    struct kvr_value *cell;    /* [n_rows, n_columns], texts owned and terminated */
    int room;                  /* rows that `cell` has room for */
};

enum kvr_status kvr_table_open(struct kvr_table **out, int n_columns,
                               const struct kvr_column *columns);
/* Copies one row [n_columns]. On KVR_ENOMEM the table is as before. */
enum kvr_status kvr_table_add(struct kvr_table *t, const struct kvr_value *row);
/* Replaces a cell by a copy of v. */
enum kvr_status kvr_table_set(struct kvr_table *t, int row, int column, struct kvr_value v);
void kvr_table_close(struct kvr_table **t);

/* The rows of one reading statement, in which {group} and the like stand for settings
 * (kvr_settings_sql). `known` (may be NULL; ends with name NULL) tells how to
 * show the columns that it names; the others are shown as they come. */
enum kvr_status kvr_table_query(struct kvr_table **out, const char *db_path, const char *sql,
                                const struct kvr_column *known);
/* The same of a statement with places (kvr_statement_fill). `with` may be NULL. */
enum kvr_status kvr_table_query_with(struct kvr_table **out, const char *db_path, const char *sql,
                                     const char *const *with, const struct kvr_column *known);
/* The same of somebody's own statement, whose table is held to the limits, too. */
enum kvr_status kvr_table_query_within(struct kvr_table **out, const char *db_path, const char *sql,
                                       const struct kvr_query_limits *limits);

int kvr_table_find(const struct kvr_table *t, const char *name); /* column or -1 */
const struct kvr_value *kvr_table_at(const struct kvr_table *t, int row, int column);
double kvr_table_number(const struct kvr_table *t, int row, int column);    /* NaN: none */
const char *kvr_table_text(const struct kvr_table *t, int row, int column); /* "": none */

/* Moves columns of `names` (ends with NULL) with one value in all rows into the note: "model nano, frames 42".
 * Drops empty columns and settings at an uninteresting default (kvr_setting_is_omitted). The others group the
 * rows. */
enum kvr_status kvr_table_fold(struct kvr_table *t, const char *const *names);
/* Drops the columns of `names` (ends with NULL) that have no value in any row. */
void kvr_table_drop_empty(struct kvr_table *t, const char *const *names);
/* Without this column, where there is one. */
void kvr_table_drop(struct kvr_table *t, const char *name);
/* Put ", text" behind the note. */
enum kvr_status kvr_table_note(struct kvr_table *t, const char *text);

/* For people: columns of bytes (NAME_bytes, and those of the table `mem`) are shown in MiB, under a
 * head that says so. CSV and JSON are unchanged. */
enum kvr_status kvr_table_mib(struct kvr_table *t);

/* KVR_EFULL or KVR_EIO when `to` does not take it. */
enum kvr_status kvr_table_write(const struct kvr_table *t, enum kvr_table_format format, FILE *to);

#endif
