/* write.h - writes a trace, call by call.
 *
 *     KVR_TRY(kvr_trace_create(&w, "red-disc.kvtrace", &info));       info.pass, n_*: ignored
 *     for each pass, for each layer:
 *         KVR_TRY(kvr_trace_put(w, &pass, layer, &call));
 *     KVR_TRY(kvr_trace_finish(&w));                                  writes index.json last
 *     kvr_trace_drop(&w);                                             or abandons it, at any time
 *
 * Only one layer's tensors are in memory at a time, owned by the caller. A folder without
 * index.json is an unfinished trace, which kvr_trace_open() refuses. */
#ifndef KVR_TRACE_WRITE_H
#define KVR_TRACE_WRITE_H

#include "harness/workload/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_trace_writer;

/* Creates the folder. KVR_EINVAL: it is not empty. Strings of `info` are copied. */
enum kvr_status kvr_trace_create(struct kvr_trace_writer **out, const char *dir,
                                 const struct kvr_trace_info *info);

/* Passes in order, layers of a pass from 0 on. Uses the tensors of `call`, whose shapes must match
 * the layout; out may have no data, and q none in a pass without queries. */
enum kvr_status kvr_trace_put(struct kvr_trace_writer *w, const struct kvr_trace_pass *pass,
                              int layer, const struct kvr_trace_call *call);

/* KVR_EINVAL: a pass lacks layers, or there is no pass. *bytes, which may be NULL, receives the
 * size of all files. *w becomes NULL. */
enum kvr_status kvr_trace_finish(struct kvr_trace_writer **w, int64_t *bytes);
/* Accepts NULL; files stay. */
void kvr_trace_drop(struct kvr_trace_writer **w);

#ifdef __cplusplus
}
#endif
#endif
