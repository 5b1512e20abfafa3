/* table_latex.h - a table for a paper, and what it shares with the other ways to text. */
#ifndef KVR_REPORT_TABLE_LATEX_H
#define KVR_REPORT_TABLE_LATEX_H

#include "harness/report/table.h"

enum { KVR_SHOWN_MAX = 352 }; /* "%.2f" of the largest double */

/* What people see of a cell, before escaping: `buf`, which holds numbers, or the table's text. */
const char *kvr_table_shown(const struct kvr_table *t, int row, int c, enum kvr_table_format format,
                            char buf[KVR_SHOWN_MAX]);

/* head, right: [n_columns], the first escaped here, the second for flush right. A number with its
 * interval or its standard error behind it is one cell; the best of a column that has a better end
 * is bold, of the rows with the same settings that save memory (compression is not 1). */
void kvr_table_write_latex(const struct kvr_table *t, char *const *head, const bool *right,
                           FILE *to);

#endif
