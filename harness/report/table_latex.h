/* table_latex.h - a table for a paper, and what it shares with the other ways to text. */
#ifndef KVR_REPORT_TABLE_LATEX_H
#define KVR_REPORT_TABLE_LATEX_H

#include "harness/report/table.h"

enum { KVR_SHOWN_MAX = 352 }; /* "%.2f" of the largest double */

/* What people see of a cell, before escaping: `buf`, which holds numbers, or the table's text. */
const char *kvr_table_shown(const struct kvr_table *t, int row, int c, enum kvr_table_format format,
                            char buf[KVR_SHOWN_MAX]);

/* What it is where there is nothing. */
const char *kvr_table_missing(enum kvr_table_format format);
/* The same of another number in a column's place. */
const char *kvr_table_shown_number(const struct kvr_column *col, double x,
                                   enum kvr_table_format format, char buf[KVR_SHOWN_MAX]);

/* Columns that people see as one, with column c at the left: three of a number and the two ends of
 * its interval ("psnr_db", "psnr_lo", "psnr_hi"), else one. */
int kvr_table_span(const struct kvr_table *t, int c);
/* The ends, as the number is shown: false where it has none. */
bool kvr_table_ends(const struct kvr_table *t, int row, int c, double *lo, double *hi);

/* head [n_columns] is escaped here; right [n_columns]: flush right. A number with its interval or standard error
 * is one cell. In columns with a better direction the best value is bold, among rows that have the same
 * settings and save memory (compression is not 1). */
void kvr_table_write_latex(const struct kvr_table *t, char *const *head, const bool *right,
                           FILE *to);

#endif
