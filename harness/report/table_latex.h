/* table_latex.h - LaTeX output of tables. */
#ifndef KVR_REPORT_TABLE_LATEX_H
#define KVR_REPORT_TABLE_LATEX_H

#include "harness/report/table.h"

/* Writes the table with the column heads head [n_columns], which are escaped. Columns with right
 * [n_columns] true are flush right. A number with its interval or standard error is one cell. In
 * columns with a better direction the best value is bold, among rows with the same settings that
 * save memory (compression is not 1). */
void kvr_table_write_latex(const struct kvr_table *t, char *const *head, const bool *right,
                           FILE *to);

#endif
