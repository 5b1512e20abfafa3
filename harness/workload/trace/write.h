/* write.h - writes a trace, call by call.
 *
 *     KVR_TRY(kvr_trace_create(&w, "red-disc.kvtrace", &info));       info.pass, n_*: not looked at
 *     for each pass, for each layer:
 *         KVR_TRY(kvr_trace_put(w, &pass, layer, &call));
 *     KVR_TRY(kvr_trace_finish(&w));                                  index.json, the last file
 *     kvr_trace_drop(&w);                                             or this, at any time
 *
 * One layer's tensors are in memory at a time, the caller's. A folder without index.json is a trace
 * that was not finished, and nothing opens it. */
#ifndef KVR_TRACE_WRITE_H
#define KVR_TRACE_WRITE_H

#include "harness/workload/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_trace_writer;

/* The folder is made. KVR_EINVAL: there is something in it. Strings of `info` are copied. */
enum kvr_status kvr_trace_create(struct kvr_trace_writer **out, const char *dir,
                                 const struct kvr_trace_info *info);

/* Passes in order, layers of a pass from 0 on; of `call` the tensors (out may have no data, q none
 * when the pass is without queries), whose shapes must be the layout's. */
enum kvr_status kvr_trace_put(struct kvr_trace_writer *w, const struct kvr_trace_pass *pass,
                              int layer, const struct kvr_trace_call *call);

/* KVR_EINVAL when a pass lacks layers, or nothing was put. Bytes of all files into *bytes, which
 * may be NULL. *w is NULL afterwards. */
enum kvr_status kvr_trace_finish(struct kvr_trace_writer **w, int64_t *bytes);
/* Accepts NULL; files stay. */
void kvr_trace_drop(struct kvr_trace_writer **w);

#ifdef __cplusplus
}
#endif
#endif
