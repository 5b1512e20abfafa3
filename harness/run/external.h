/* external.h - runs an external metric program, which reads the files of one measured run (cell)
 * and prints scores as JSON.
 *
 *     json_t *scores;
 *     if (kvr_external_run(&e, &scores, &unsandboxed) == KVR_OK) {"name": number, NaN or null}
 *         ...
 *     else
 *         ... kvr_error() says why there is no score ... */
#ifndef KVR_RUN_EXTERNAL_H
#define KVR_RUN_EXTERNAL_H

#include <jansson.h>

#include "harness/run/sandbox.h"

struct kvr_external {
    const char *command; /* program and arguments, split into words as by a shell (quotes,
                          * backslash), but run without a shell */
    int timeout_s;
    enum kvr_sandbox_kind sandbox; /* harness/run/sandbox.h */
    const char *video, *frames,
        *reference; /* paths that replace {video}, {frames} and {reference} in the command (NULL: no
                     * such file) */
};

/* Runs the program with empty stdin and this process's stderr, and parses its stdout. The call
 * fails if the command has an unclosed quote, a file is missing, or the program cannot be started.
 * The call also fails if the program is killed or exits with a nonzero code. The program's output
 * must be one JSON object of numbers and nulls, of at most 1 MiB; otherwise the call fails. The key
 * "sandbox" is not allowed, because kvreel itself stores a score with this name. Numbers may be NaN
 * or Infinity, in Python's spelling. At the timeout the program's process group is killed. On
 * KVR_OK the caller owns the JSON object *out. *unsandboxed is the reason why the program did not
 * run in the requested sandbox, or NULL if the program ran in that sandbox or no sandbox was
 * requested. */
enum kvr_status kvr_external_run(const struct kvr_external *e, json_t **out,
                                 const char **unsandboxed);

#endif
