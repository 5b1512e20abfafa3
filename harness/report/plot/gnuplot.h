/* gnuplot.h - runs gnuplot on a script. */
#ifndef KVR_PLOT_GNUPLOT_H
#define KVR_PLOT_GNUPLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

/* Runs `gnuplot -d script` inside `dir`, without the user's start-up file. If gnuplot is not
 * installed, *drawn is false, `warning` [n] says so, and the status is KVR_OK. KVR_EIO: gnuplot
 * failed; the error message ends with the last lines of its output. */
enum kvr_status kvr_gnuplot_run(const char *dir, const char *script, bool *drawn, char *warning,
                                size_t n);

#endif
