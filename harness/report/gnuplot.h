/* gnuplot.h - runs gnuplot on a script. */
#ifndef KVR_REPORT_GNUPLOT_H
#define KVR_REPORT_GNUPLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

/* Runs `gnuplot -d script` inside `dir`, without the user's start-up file. Without gnuplot
 * *drawn is false and `warning` gives the reason. If gnuplot fails, the error has the end of its
 * output. */
enum kvr_status kvr_gnuplot_run(const char *dir, const char *script, bool *drawn, char *warning,
                                size_t n);

#endif
