/* write.h - writes a trace, one attention call at a time.
 *
 *     KVR_TRY(kvr_trace_create(&w, "red-disc.kvtrace", &info));       info.pass, n_*: ignored
 *     for each pass, for each layer:
 *         KVR_TRY(kvr_trace_put(w, &pass, layer, &call));
 *     KVR_TRY(kvr_trace_finish(&w, &bytes));                          writes index.json last
 *     kvr_trace_drop(&w);                                             or abandons it, at any time
 *
 * The caller owns the tensors. Only the tensors of one attention call need to be in memory. A
 * folder without index.json is an unfinished trace, for which kvr_trace_open() returns
 * KVR_ENOTFOUND. */
#ifndef KVR_TRACE_WRITE_H
#define KVR_TRACE_WRITE_H

#include "harness/workload/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_trace_writer;

/* Creates the folder of a new trace and copies `info`. Returns KVR_EINVAL if the folder exists and
 * is not empty. */
enum kvr_status kvr_trace_create(struct kvr_trace_writer **out, const char *dir,
                                 const struct kvr_trace_info *info);

/* Writes the tensors of one attention call, whose shapes must match the trace's layout. Calls must
 * be written in the order of passes and, within a pass, of layers. If the data of the tensor `out`
 * is NULL, the attention output is not recorded. In a pass without queries, the data of the tensor
 * q must be NULL. */
enum kvr_status kvr_trace_put(struct kvr_trace_writer *w, const struct kvr_trace_pass *pass,
                              int layer, const struct kvr_trace_call *call);

/* Writes index.json. Closes the writer and sets *w to NULL, even after an error. *bytes receives
 * the total size of all files; `bytes` may be NULL. Returns KVR_EINVAL if the last pass lacks
 * layers, or if no pass was written. */
enum kvr_status kvr_trace_finish(struct kvr_trace_writer **w, int64_t *bytes);
/* Closes the writer without writing index.json. The files written so far stay in the folder. *w may
 * be NULL. */
void kvr_trace_drop(struct kvr_trace_writer **w);

#ifdef __cplusplus
}
#endif
#endif
