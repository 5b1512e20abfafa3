/* table.h - a small typed table with six text formats.
 *
 *     struct kvr_table *t;
 *     KVR_TRY(kvr_table_query(&t, "kvreel.db", "SELECT method, ssim FROM summary"));
 *     st = kvr_table_write(t, KVR_TABLE_MD, stdout);
 *     kvr_table_close(&t);
 *
 * Text, Markdown and LaTeX are for readers: they show column headers, units, scaled and rounded
 * values, and "-" for a missing value. CSV, JSON and JSONL (one object per line) are for programs:
 * they have column names and stored values; a missing value is an empty field or null. Every format
 * escapes its separators, its markup and control characters. */
#ifndef KVR_TABLE_TABLE_H
#define KVR_TABLE_TABLE_H

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
/* Parses "txt", "md", "csv", "json", "latex" or "jsonl"; KVR_EINVAL: any other name (the message
 * lists the valid names). */
enum kvr_status kvr_table_format_parse(const char *name, enum kvr_table_format *out);

struct kvr_column {
    const char *name; /* column name in SQL, CSV and JSON */
    const char *head; /* displayed column header (NULL: `name` is displayed) */
    const char *unit; /* unit, displayed after the column header (NULL: no unit) */
    double scale;     /* displayed value = stored value * scale; 0 means 1 */
    int digits;       /* number of displayed decimals; < 0: six significant digits */
    int better;       /* direction of improvement, +1 for higher, -1 for lower, 0 for neither; LaTeX
                       * prints the best value in bold */
    bool groups;      /* whether the column is a setting (kvr_table_fold); LaTeX compares only rows
                       * with equal settings to find the best value */
};

struct kvr_table {
    /* Title and notes, shown in text, Markdown and LaTeX; owned; may be NULL. `note` has one line
     * per note, without a newline at the end. */
    char *title, *note;
    int n_columns, n_rows;
    struct kvr_column *column; /* columns [n_columns]; the table owns their names and headers */
    struct kvr_value *cell;    /* values [n_rows, n_columns]; the table owns the texts, which are
                                * NUL-terminated */
    int capacity;              /* number of rows allocated in `cell` */
};

enum kvr_status kvr_table_open(struct kvr_table **out, int n_columns,
                               const struct kvr_column *columns);
/* Appends a copy of a row [n_columns]. After KVR_ENOMEM the table is unchanged. */
enum kvr_status kvr_table_add(struct kvr_table *t, const struct kvr_value *row);
/* Replaces the value at (row, column) by a copy of v. */
enum kvr_status kvr_table_set(struct kvr_table *t, int row, int column, struct kvr_value v);
void kvr_table_close(struct kvr_table **t);

/* Makes a table of the rows of one read-only SQL statement. The function kvr_settings_sql first
 * replaces placeholders; {group}, for example, stands for the columns that hold settings. `known`
 * gives the format of columns by name; the array ends with an entry whose name is NULL. If `known`
 * is NULL, all columns have the default format. */
enum kvr_status kvr_table_query(struct kvr_table **out, const char *db_path, const char *sql,
                                const struct kvr_column *known);
/* Like kvr_table_query, but first replaces placeholders in the statement (kvr_statement_fill). The
 * NULL-terminated list `with` alternates names of placeholders and their replacements; `with` may
 * be NULL. */
enum kvr_status kvr_table_query_with(struct kvr_table **out, const char *db_path, const char *sql,
                                     const char *const *with, const struct kvr_column *known);
/* Like kvr_table_query, for a statement written by a user, with limits on its time and memory. */
enum kvr_status kvr_table_query_within(struct kvr_table **out, const char *db_path, const char *sql,
                                       const struct kvr_query_limits *limits);

int kvr_table_find(const struct kvr_table *t, const char *name); /* column or -1 */
const struct kvr_value *kvr_table_at(const struct kvr_table *t, int row, int column);
double kvr_table_number(const struct kvr_table *t, int row, int column);    /* NaN: no number */
const char *kvr_table_text(const struct kvr_table *t, int row, int column); /* "": no text */

/* Drops each column of `names` (ends with NULL) that has the same value in all rows. Their names
 * and values become one note, for example "model nano, frames 42". The note omits a missing value
 * and the default of an optional setting (kvr_setting_is_omitted). If the values of a column of
 * `names` differ, the column stays and its field `groups` is set. */
enum kvr_status kvr_table_fold(struct kvr_table *t, const char *const *names);
/* Drops the columns of `names` (ends with NULL) that have no value in any row. */
void kvr_table_drop_empty(struct kvr_table *t, const char *const *names);
/* Removes the column `name`, if the table has it. */
void kvr_table_drop(struct kvr_table *t, const char *name);
/* Appends a note. Newlines in `text` become blanks; an empty text is no note. */
enum kvr_status kvr_table_note(struct kvr_table *t, const char *text);

/* Shows columns that contain bytes in MiB in text, Markdown and LaTeX: columns named *_bytes, and
 * at_peak, tag_peak and live_end of the database table `mem`. The header keeps the column's name,
 * which SQL knows. CSV and JSON still contain bytes. */
enum kvr_status kvr_table_mib(struct kvr_table *t);

/* Writes the table to the stream `to`. KVR_EFULL, KVR_EIO: a write failed. */
enum kvr_status kvr_table_write(const struct kvr_table *t, enum kvr_table_format format, FILE *to);

#endif
