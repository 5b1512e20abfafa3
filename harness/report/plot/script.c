/* script.c - see script.h. */
#include "harness/report/plot/script.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/report/plot/plot.h"
#include "harness/report/table/escape.h"

/* Writes the arguments of gnuplot's command `set terminal` for one output format. The font scales
 * correct gnuplot's text sizes, so that a point is 1/72 inch in SVG, PNG and PDF. A PNG picture
 * narrower than 900 pixels is for print, so it has 300 dots per inch instead of 96. */
static void put_terminal(FILE *to, unsigned format, double width, double height)
{
    const double k = width < 900 ? 300.0 / 96.0 : 1.0;

    if (format == KVR_PLOT_SVG)
        fprintf(to,
                "svg size %.0f,%.0f dynamic noenhanced background '#ffffff' font font "
                "fontscale 1.333",
                width, height);
    else if (format == KVR_PLOT_PNG && k > 1)
        fprintf(to,
                "pngcairo size %.0f,%.0f noenhanced background '#ffffff' font font "
                "fontscale %.4g linewidth %.4g pointscale %.4g",
                k * width, k * height, k, k, k);
    else if (format == KVR_PLOT_PNG)
        fprintf(to, "pngcairo size %.0f,%.0f noenhanced background '#ffffff' font font", width,
                height);
    else
        fprintf(to,
                "pdfcairo size %.4gin,%.4gin noenhanced background '#ffffff' font font "
                "fontscale 0.75",
                width / 96.0, height / 96.0);
}

bool kvr_script_output(FILE *to, unsigned formats, int i, const char *stem, double width,
                       double height)
{
    static const struct {
        unsigned format;
        const char *suffix;
    } terminals[KVR_N_PLOT_FORMATS] = { { KVR_PLOT_SVG, "svg" },
                                        { KVR_PLOT_PNG, "png" },
                                        { KVR_PLOT_PDF, "pdf" } };

    if (!(formats & terminals[i].format))
        return false;
    fputs("\nset terminal ", to);
    put_terminal(to, terminals[i].format, width, height);
    fprintf(to, "\nset output '%s.%s'\n", stem, terminals[i].suffix);
    return true;
}

/* gnuplot's tags (numbers) of the first line of the title and of the captions. Tags below 10001 are
 * for the labels of points and curves. */
enum { TITLE = 10001, NOTES = 10011 };

/* Writes lines of text at the left edge; `top` and `step` are fractions of the figure's height. */
static void put_lines(FILE *to, int tag, const char line[][KVR_FIG_LINE_MAX], int n, double top,
                      double step, double size, const char *colour)
{
    for (int i = 0; i < n; i++) {
        fprintf(to, "set label %d ", tag + i);
        kvr_escape_gnuplot(to, line[i]);
        fprintf(to, " at screen 0.02, %.5f left font 'sans-serif,%.3g' textcolor rgb %s\n",
                top - i * step, size, colour);
    }
}

void kvr_script_title(FILE *to, const char line[][KVR_FIG_LINE_MAX], int n, double size,
                      double height)
{
    const double step = 1.35 * size * kvr_px_per_pt / height;

    put_lines(to, TITLE, line, n, 1.0 - 0.85 * step, step, size, "ink");
}

void kvr_script_notes(FILE *to, const char line[][KVR_FIG_LINE_MAX], int n, double size,
                      double height)
{
    const double step = 1.36 * size * kvr_px_per_pt / height;

    put_lines(to, NOTES, line, n, (n - 0.3) * step, step, size, "'#666666'");
}

enum kvr_status kvr_script_save(const char *dir, const char *stem, const char *suffix,
                                const char *text, size_t n)
{
    char *name = NULL, *path = NULL;
    enum kvr_status st;

    if (asprintf(&name, "%s%s", stem, suffix) < 0)
        name = NULL;
    path = name ? kvr_path_join(dir, name) : NULL;
    st = path ? kvr_out_save(path, text, n) : kvr_fail(KVR_ENOMEM, "plot: out of memory");
    free(path);
    free(name);
    return st;
}
