/* gnuplot.h - running gnuplot on a script. */
#ifndef KVR_REPORT_GNUPLOT_H
#define KVR_REPORT_GNUPLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

/* Run `gnuplot -d script` inside `dir`, without the user's own start-up file. Where there is none,
 * *drawn is false and `warning` says so; one that fails is a failure, with its last words. */
enum kvr_status kvr_gnuplot_run(const char *dir, const char *script, bool *drawn, char *warning,
                                size_t n);

#endif
