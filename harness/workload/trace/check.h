/* check.h - looks at every value of a trace.
 *
 *     struct kvr_trace_report r;
 *     KVR_TRY(kvr_trace_check(t, NULL, NULL, &r));
 *
 * The first thing that is wrong is the failure, with file, tensor, value and limit. One file is
 * mapped at a time. */
#ifndef KVR_TRACE_CHECK_H
#define KVR_TRACE_CHECK_H

#include "harness/workload/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_trace_report {
    int64_t files, bytes, values; /* bytes: of tensors */
    int64_t tokens;               /* of one layer, every chunk once */
    int outputs;                  /* calls that say what attention returned */
    double most[3];               /* largest |q|, |k|, |v| */
};

/* After each pass; non-zero ends it with KVR_EINTERRUPTED. */
typedef int kvr_trace_progress_fn(void *ctx, int passes_done, int n_passes);

/* KVR_EFORMAT: a file that is no part of it; a position that is negative, or not the same in all
 * passes of a chunk and all layers. KVR_ENAN: a value that is not finite. And what
 * kvr_trace_call_open refuses. */
enum kvr_status kvr_trace_check(const struct kvr_trace *t, kvr_trace_progress_fn *progress,
                                void *ctx, struct kvr_trace_report *out);
/* The values of one call, added to the report. */
enum kvr_status kvr_trace_call_check(const struct kvr_trace_call *c, struct kvr_trace_report *r);

#ifdef __cplusplus
}
#endif
#endif
