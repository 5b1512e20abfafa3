/* external.h - external programs as metrics: a program gets a cell's files and prints JSON.
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
    const char *command; /* words split as in a shell (quotes, backslash); not run by a shell */
    int timeout_s;
    enum kvr_sandbox_kind sandbox; /* harness/run/sandbox.h */
    const char *video, *frames,
        *reference; /* values of {video}, {frames}, {reference}; NULL: no such file */
};

/* Runs the program without stdin and with this process's stderr, and reads its stdout. Fails, with
 * the reason, on an unclosed quote, a missing file, or a program that cannot be started, is killed
 * or exits with a nonzero code. Also fails if it prints more than 1 MiB, or anything but one JSON
 * object of numbers and nulls, none named "sandbox". At the timeout its process group is killed.
 * kvr_json_not_finite() recognises NaN and infinities as Python prints them. On KVR_OK the caller
 * owns *out. *unheld: why a requested sandbox was not used; NULL if it was used or none was
 * requested. */
enum kvr_status kvr_external_run(const struct kvr_external *e, json_t **out, const char **unheld);

#endif
