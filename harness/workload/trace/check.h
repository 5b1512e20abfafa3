/* check.h - checks every value of a trace.
 *
 *     struct kvr_trace_report r;
 *     KVR_TRY(kvr_trace_check(t, NULL, NULL, &r));
 *
 * Fails at the first invalid value, with file, tensor, value and limit. One file is mapped at a
 * time. */
#ifndef KVR_TRACE_CHECK_H
#define KVR_TRACE_CHECK_H

#include "harness/workload/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_trace_report {
    int64_t files, bytes, values; /* bytes: of tensors */
    int64_t tokens;               /* tokens of one layer, with every chunk counted once */
    int outputs;                  /* calls with recorded outputs */
    double most[3];               /* largest |q|, |k|, |v| */
};

/* Called after each pass; nonzero ends the check with KVR_EINTERRUPTED. */
typedef int kvr_trace_progress_fn(void *ctx, int passes_done, int n_passes);

/* KVR_EFORMAT: a file that does not belong to the trace; a position that is negative, or differs
 * between passes of a chunk or between layers. KVR_ENAN: a value that is not finite. Errors of
 * kvr_trace_call_open. */
enum kvr_status kvr_trace_check(const struct kvr_trace *t, kvr_trace_progress_fn *progress,
                                void *ctx, struct kvr_trace_report *out);
/* Checks the values of one call and adds them to the report. */
enum kvr_status kvr_trace_call_check(const struct kvr_trace_call *c, struct kvr_trace_report *r);

#ifdef __cplusplus
}
#endif
#endif
