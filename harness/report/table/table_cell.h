/* table_cell.h - formats a table's value as text, for every output format. */
#ifndef KVR_TABLE_TABLE_CELL_H
#define KVR_TABLE_TABLE_CELL_H

#include "harness/report/table/table.h"

enum { KVR_SHOWN_MAX = 352 }; /* upper bound of the length of a double printed with "%.2f" */

/* Returns the displayed text of the value at (row, c), not escaped. Numbers are written to `buf`;
 * texts are borrowed from the table. */
const char *kvr_table_shown(const struct kvr_table *t, int row, int c, enum kvr_table_format format,
                            char buf[KVR_SHOWN_MAX]);

/* Returns the displayed text of a missing value. */
const char *kvr_table_missing(enum kvr_table_format format);
/* Formats x, which is already scaled, in `buf` with the number of decimals of column `col`. */
const char *kvr_table_shown_number(const struct kvr_column *col, double x,
                                   enum kvr_table_format format, char buf[KVR_SHOWN_MAX]);

/* Returns the number of columns, starting at c, that are displayed as one column: three for a
 * number and its interval ("psnr_db", "psnr_lo", "psnr_hi"), else one. */
int kvr_table_span(const struct kvr_table *t, int c);
/* Sets [*lo, *hi] to the confidence interval of the value at (row, c), in displayed units. Returns
 * false if the value has no confidence interval. */
bool kvr_table_ends(const struct kvr_table *t, int row, int c, double *lo, double *hi);

/* Returns whether the name of column c is the name of column `base` followed by `ending`, for
 * example "ssim_se" for base "ssim" and ending "_se". A unit at the end of the name of `base` is
 * ignored, so "psnr_lo" belongs to "psnr_db". */
bool kvr_table_is_of(const struct kvr_table *t, int base, int c, const char *ending);

#endif
