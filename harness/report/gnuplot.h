/* gnuplot.h - running gnuplot on a script. */
#ifndef KVR_REPORT_GNUPLOT_H
#define KVR_REPORT_GNUPLOT_H

#include <stdbool.h>
#include <stddef.h>

/* Run `gnuplot -d script` inside `dir`, without the user's own start-up file. False, with the
 * reason in `warning`, when gnuplot is not there or fails; its last words are in the reason. */
bool kvr_gnuplot_run(const char *dir, const char *script, char *warning, size_t n);

#endif
