/* check.h - checks every value of a trace.
 *
 *     struct kvr_trace_report r;
 *     KVR_TRY(kvr_trace_check(t, NULL, NULL, &r));
 *
 * The check ends at the first invalid value, and the error message names the file, tensor, value
 * and limit. Only one file is mapped at a time. */
#ifndef KVR_TRACE_CHECK_H
#define KVR_TRACE_CHECK_H

#include "harness/workload/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_trace_report {
    int64_t files, bytes, values; /* bytes: of tensors */
    int64_t tokens;               /* number of tokens in all chunks; a token counts once, not once
                                   * per layer and pass */
    int outputs;                  /* number of attention calls with recorded outputs */
    double most[3];               /* largest absolute element of q, of k and of v */
};

/* Callback after each pass; a nonzero return value ends the check with KVR_EINTERRUPTED. */
typedef int kvr_trace_progress_fn(void *ctx, int passes_done, int n_passes);

/* Checks all files of a trace. Returns KVR_EFORMAT if the folder has a file that does not belong to
 * the trace. Returns KVR_EFORMAT if a token's position is negative, or differs between layers or
 * between passes of its chunk. Returns KVR_ENAN if a value is not finite. For other errors, returns
 * the status of kvr_trace_call_open(). */
enum kvr_status kvr_trace_check(const struct kvr_trace *t, kvr_trace_progress_fn *progress,
                                void *ctx, struct kvr_trace_report *out);
/* Checks the values of one attention call and updates the report: adds the number of values to
 * r->values, and raises r->most to the call's largest absolute values. */
enum kvr_status kvr_trace_call_check(const struct kvr_trace_call *c, struct kvr_trace_report *r);

#ifdef __cplusplus
}
#endif
#endif
