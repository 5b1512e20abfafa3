/* table_cell.h - displayed text of a table cell, for every format. */
#ifndef KVR_REPORT_TABLE_CELL_H
#define KVR_REPORT_TABLE_CELL_H

#include "harness/report/table.h"

enum { KVR_SHOWN_MAX = 352 }; /* "%.2f" of the largest double */

/* Displayed text of a cell before escaping: `buf` for numbers, else the table's text. */
const char *kvr_table_shown(const struct kvr_table *t, int row, int c, enum kvr_table_format format,
                            char buf[KVR_SHOWN_MAX]);

/* Displayed text of a missing value. */
const char *kvr_table_missing(enum kvr_table_format format);
/* Displayed text of the number x as in column `col`. */
const char *kvr_table_shown_number(const struct kvr_column *col, double x,
                                   enum kvr_table_format format, char buf[KVR_SHOWN_MAX]);

/* Number of adjacent columns from c on that are displayed as one: three for a number and the ends
 * of its interval ("psnr_db", "psnr_lo", "psnr_hi"), else one. */
int kvr_table_span(const struct kvr_table *t, int c);
/* The ends of the interval of column c, in displayed units; false if there is no interval. */
bool kvr_table_ends(const struct kvr_table *t, int row, int c, double *lo, double *hi);

/* Whether column c is `base`'s with this ending: "ssim" and "ssim_se", "psnr_db" and "psnr_lo". */
bool kvr_table_is_of(const struct kvr_table *t, int base, int c, const char *ending);

#endif
