/* external.h - runs an external program that scores a cell's files and prints the scores as JSON.
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
    const char *command; /* program and arguments, split like shell words (quotes, backslash); no
                          * shell runs */
    int timeout_s;
    enum kvr_sandbox_kind sandbox; /* harness/run/sandbox.h */
    const char *video, *frames,
        *reference; /* paths that replace {video}, {frames} and {reference} (NULL: no such file) */
};

/* Runs the program with empty stdin and this process's stderr, and parses its stdout. The call
 * fails if the command has an unclosed quote, a file is missing, or the program cannot be started,
 * is killed or exits with a nonzero code. The call also fails if the output exceeds 1 MiB or is not
 * one JSON object of numbers and nulls; the key "sandbox" is not allowed. At the timeout the
 * program's process group is killed. kvr_json_not_finite() recognises NaN and infinities as Python
 * prints them. On KVR_OK the caller owns the JSON object *out. *unheld is the reason why a
 * requested sandbox was not used, or NULL if the sandbox was used or not requested. */
enum kvr_status kvr_external_run(const struct kvr_external *e, json_t **out, const char **unheld);

#endif
