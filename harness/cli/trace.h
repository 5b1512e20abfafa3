/* trace.h - options and output shared by the subcommands of `kvreel trace`. */
#ifndef KVR_CLI_TRACE_H
#define KVR_CLI_TRACE_H

#include <jansson.h>

#include "harness/workload/trace/check.h"

struct kvr_trace_opts {
    const char *model, *prompt, *tokens, *tensor, *device, *name, *licence, *source;
    int chunk, frames, window;
    /* For `synth`. */
    const char *like, *preset;
    int layers, passes, outliers;
    double size, rho, toward;
    uint64_t seed;
    bool no_outputs, json, quiet;
};

/* Returns a JSON object with the properties of the trace `t` and the result `r` of
 * kvr_trace_check(), or NULL if out of memory. */
json_t *kvr_cli_trace_json(const struct kvr_trace *t, const struct kvr_trace_report *r);

/* Runs `kvreel trace synth` and returns its exit code. */
int kvr_cli_trace_synth(const struct kvr_trace_opts *o, const char *out);

/* Prints the path and the size of a trace that was written; returns the exit code. */
int kvr_cli_trace_written(const struct kvr_trace_opts *o, const char *out, int64_t bytes);

#endif
