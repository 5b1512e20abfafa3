/* table_latex.h - writes tables as LaTeX. */
#ifndef KVR_TABLE_TABLE_LATEX_H
#define KVR_TABLE_TABLE_LATEX_H

#include "harness/report/table/table.h"

/* Writes the table with the column headers `head` [n_columns], and escapes them. Column i is
 * right-aligned if right [i] is true. A number and its interval or standard error are written to
 * one table cell. In a column whose metric has a direction of improvement, the best value is bold.
 * The best value is chosen among rows of compressed methods with equal settings. A method counts as
 * compressed if its value in the column `compression` is not 1. In a table without this column, a
 * method counts as compressed if its value in the column `bits` is not 16. `notes` has the table's
 * notes, each ending with a zero byte, and then an empty note. */
void kvr_table_write_latex(const struct kvr_table *t, char *const *head, const bool *right,
                           const char *notes, FILE *to);

#endif
