/* script.h - the commands that the gnuplot scripts of all figures share: title, captions and output
 * files.
 *
 *     for (int i = 0; i < KVR_N_PLOT_FORMATS; i++)
 *         if (kvr_script_output(to, formats, i, "pareto", width, height))
 *             fputs("plot ...\n", to);
 *
 * Widths and heights are in pixels of 1/96 inch, text sizes in points of 1/72 inch. */
#ifndef KVR_PLOT_SCRIPT_H
#define KVR_PLOT_SCRIPT_H

#include <stdbool.h>
#include <stdio.h>

#include "harness/core/status.h"
#include "harness/report/plot/figure.h"

static const double kvr_px_per_pt = 96.0 / 72.0; /* pixels per point */

enum { KVR_N_PLOT_FORMATS = 3 };

/* Returns whether `formats`, a bit mask of KVR_PLOT_SVG, KVR_PLOT_PNG and KVR_PLOT_PDF, contains
 * the i-th format. If so, the function writes the commands that select gnuplot's terminal for this
 * format and the output file STEM.svg, STEM.png or STEM.pdf; STEM is `stem`. */
bool kvr_script_output(FILE *to, unsigned formats, int i, const char *stem, double width,
                       double height);
/* Writes commands that put the n lines of the figure's title at the top left. */
void kvr_script_title(FILE *to, const char line[][KVR_FIG_LINE_MAX], int n, double size,
                      double height);
/* Writes commands that put the n lines of the figure's captions at the bottom left. */
void kvr_script_notes(FILE *to, const char line[][KVR_FIG_LINE_MAX], int n, double size,
                      double height);

/* Writes the n bytes at `text` to a file in the folder `dir`. The file's name is `stem` followed by
 * `suffix`. */
enum kvr_status kvr_script_save(const char *dir, const char *stem, const char *suffix,
                                const char *text, size_t n);

#endif
