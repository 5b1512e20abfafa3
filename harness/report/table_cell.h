/* table_cell.h - what a cell of a table shows, in every format. */
#ifndef KVR_REPORT_TABLE_CELL_H
#define KVR_REPORT_TABLE_CELL_H

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

/* "ssim" and "ssim_se", "psnr_db" and "psnr_lo": is column c the other's with that ending? */
bool kvr_table_is_of(const struct kvr_table *t, int base, int c, const char *ending);

#endif
