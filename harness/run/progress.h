/* progress.h - shows a sweep's progress: on a terminal, a bar with the remaining time; otherwise, a
 * line per finished cell. Each failed cell (single run) is reported on a separate line. */
#ifndef KVR_RUN_PROGRESS_H
#define KVR_RUN_PROGRESS_H

#include <stdio.h>

#include "harness/run/answer.h"

struct kvr_progress {
    FILE *out; /* NULL: quiet */
    bool bar, color;
    int total, done, failed, jobs;
    int64_t t0_ns, estimate_ns; /* estimate_ns: estimated wall time of the whole sweep, from earlier
                                 * cells in the database (0: unknown) */
};

void kvr_progress_begin(struct kvr_progress *p, FILE *out, int total, int jobs,
                        int64_t estimate_ns);
/* Prints a message on a separate line above the bar. */
void kvr_progress_say(struct kvr_progress *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void kvr_progress_cell(struct kvr_progress *p, const struct kvr_cell *c,
                       const struct kvr_verdict *v);
void kvr_progress_tick(struct kvr_progress *p); /* redraws the bar */
void kvr_progress_end(struct kvr_progress *p);

#endif
