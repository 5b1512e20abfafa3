/* external.h - any program as a metric: it is given the files of a cell and prints JSON.
 *
 *     json_t *scores;
 *     if (kvr_external_run(&e, &scores, &unheld) == KVR_OK)      {"name": number, NaN or null}
 *         ...
 *     else
 *         ... kvr_error() says why there is no score ... */
#ifndef KVR_RUN_EXTERNAL_H
#define KVR_RUN_EXTERNAL_H

#include <jansson.h>

#include "harness/run/sandbox.h"

struct kvr_external {
    const char *command; /* words as a shell splits them (quotes, backslash); no shell runs it */
    int timeout_s;
    enum kvr_sandbox_kind sandbox;          /* harness/run/sandbox.h */
    const char *video, *frames, *reference; /* what {video} .. stand for; NULL: there is none */
};

/* Runs the program with its stderr as ours and no stdin, waits, reads its stdout. Failures, each
 * with the reason: a quote that is not closed, a file that is not there, a program that cannot be
 * started, is killed, ends with another code than 0, prints more than 1 MiB, is not done in time
 * (it and what it started are killed), or prints anything but one JSON object of numbers and
 * nulls, none of them named "sandbox". NaN and infinities, as Python prints them, are told by
 * kvr_json_not_finite(). On KVR_OK *out is the caller's. *unheld: NULL, or why the
 * program ran without a sandbox though it was to have one. */
enum kvr_status kvr_external_run(const struct kvr_external *e, json_t **out, const char **unheld);

#endif
