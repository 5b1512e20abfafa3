/* table_latex.c - see table_latex.h. */
#include "harness/report/table/table_latex.h"

#include <math.h>
#include <string.h>

#include "harness/report/table/escape.h"
#include "harness/report/table/table_cell.h"

/* Returns the number of table columns that one LaTeX column combines, starting at column c: a value
 * with its standard error, or with its interval. */
static int span(const struct kvr_table *t, int c)
{
    return kvr_table_is_of(t, c, c + 1, "_se") ? 2 : kvr_table_span(t, c);
}

/* Returns whether two rows have equal settings, that is, belong to the same group of rows. */
static bool same_span(const struct kvr_table *t, int a, int b)
{
    char x[KVR_SHOWN_MAX], y[KVR_SHOWN_MAX];

    for (int c = 0; c < t->n_columns; c++)
        if (t->column[c].groups && strcmp(kvr_table_shown(t, a, c, KVR_TABLE_LATEX, x),
                                          kvr_table_shown(t, b, c, KVR_TABLE_LATEX, y)) != 0)
            return false;
    return true;
}

static bool saves(const struct kvr_table *t, int row)
{
    const int c = kvr_table_find(t, "compression"), bits = kvr_table_find(t, "bits");

    if (c >= 0)
        return kvr_table_number(t, row, c) != 1.0;
    return bits < 0 || kvr_table_number(t, row, bits) != 16.0;
}

/* Returns whether a value is the best of its group of rows, as displayed. A group of one row has no
 * best value. */
static bool is_best(const struct kvr_table *t, int row, int c)
{
    const int better = t->column[c].better;
    const double x = better * kvr_table_number(t, row, c);
    char mine[KVR_SHOWN_MAX], other[KVR_SHOWN_MAX];
    int n = 0;

    if (!better || !isfinite(x) || !saves(t, row))
        return false;
    kvr_table_shown(t, row, c, KVR_TABLE_LATEX, mine);
    for (int r = 0; r < t->n_rows; r++) {
        const double y = better * kvr_table_number(t, r, c);

        if (!isfinite(y) || !saves(t, r) || !same_span(t, r, row))
            continue;
        n++;
        kvr_table_shown(t, r, c, KVR_TABLE_LATEX, other);
        if (y > x && strcmp(mine, other) != 0)
            return false;
    }
    return n > 1;
}

static void put_number(const struct kvr_table *t, int row, int c, int n, FILE *to)
{
    const struct kvr_column *col = &t->column[c];
    const double scale = col->scale == 0.0 ? 1.0 : col->scale;
    const double x = scale * kvr_table_number(t, row, c);
    const bool best = is_best(t, row, c);
    char buf[KVR_SHOWN_MAX];
    const char *s = kvr_table_shown(t, row, c, KVR_TABLE_LATEX, buf);
    double lo = NAN, hi = NAN;

    if (s == kvr_table_missing(KVR_TABLE_LATEX)) {
        fputs(s, to); /* written without escapes, so that TeX prints its two hyphens as a dash */
        return;
    }
    if (n == 1 || !isfinite(x) || !isfinite(kvr_table_number(t, row, c + 1))) {
        fputs(best ? "\\textbf{" : "", to);
        kvr_escape_latex(to, s);
        fputs(best ? "}" : "", to);
        return;
    }
    fprintf(to, best ? "$\\mathbf{%s}" : "$%s", s);
    if (n == 2) {
        kvr_table_shown(t, row, c + 1, KVR_TABLE_LATEX, buf);
        fprintf(to, " \\pm %s$", buf);
        return;
    }
    kvr_table_ends(t, row, c, &lo, &hi);
    fprintf(to, "_{-%.*f}^{+%.*f}$", col->digits < 0 ? 4 : col->digits, x - lo,
            col->digits < 0 ? 4 : col->digits, hi - x);
}

void kvr_table_write_latex(const struct kvr_table *t, char *const *head, const bool *right,
                           const char *notes, FILE *to)
{
    bool tall = false; /* whether a column has an interval, set as subscript and superscript */

    for (int c = 0; c < t->n_columns; c++)
        tall = tall || kvr_table_span(t, c) > 1;
    fputs("% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}\n"
          "\\begin{table}\n\\centering\n",
          to);
    fputs(tall ? "\\renewcommand{\\arraystretch}{1.3}\n" : "", to);
    fputs("\\begin{tabular}{", to);
    for (int c = 0; c < t->n_columns; c += span(t, c))
        fputc(right[c] ? 'r' : 'l', to);
    fputs("}\n\\toprule\n", to);
    for (int r = -1; r < t->n_rows; r++) {
        for (int c = 0; c < t->n_columns; c += span(t, c)) {
            if (c > 0)
                fputs(" & ", to);
            if (r < 0)
                kvr_escape_latex(to, head[c]);
            else
                put_number(t, r, c, span(t, c), to);
        }
        fputs(r < 0 ? " \\\\\n\\midrule\n" : " \\\\\n", to);
    }
    fputs("\\bottomrule\n\\end{tabular}\n", to);
    if (t->title || t->note) {
        fputs("\\caption{", to);
        kvr_escape_latex(to, t->title ? t->title : "");
        for (const char *s = notes; *s; s += strlen(s) + 1) {
            fputs(s > notes ? "; " : t->title ? ". " : "", to);
            kvr_escape_latex(to, s);
        }
        fputs("}\n", to);
    }
    fputs("\\end{table}\n", to);
}
