/* record.h - records the inputs, and optionally the outputs, of all attention calls of a rollout as
 * a trace (harness/workload/trace).
 *
 *     KVR_TRY(kvr_record_open(&r, "red-disc.kvtrace", &info, grid_w, true));
 *     req.observer = kvr_record_observe;
 *     req.observer_ctx = r;
 *     ... a rollout through a BF16 cache; or kvr_cache_observe() of any other cache ...
 *     KVR_TRY(kvr_record_finish(&r, &bytes));
 *     kvr_record_close(&r);                                  accepts a finished one
 *
 * For each attention call, the trace has the keys and values of the current chunk, in the type in
 * which the KV cache stores unquantized tokens, and the queries in F32. The inputs are not rounded,
 * so a replay with the rollout's method and settings reproduces the rollout's attention outputs bit
 * for bit. */
#ifndef KVR_WORKLOAD_RECORD_H
#define KVR_WORKLOAD_RECORD_H

#include "harness/cache/cache.h"
#include "harness/engine/model.h"
#include "harness/workload/trace/write.h"

struct kvr_record;

/* Opens a recording; info.layout must match the KV cache. Each token's row and column in its frame
 * are computed from grid_w, the number of tokens per row of a frame. If `outputs` is true,
 * attention outputs are also recorded. */
enum kvr_status kvr_record_open(struct kvr_record **out, const char *dir,
                                const struct kvr_trace_info *info, int grid_w, bool outputs);
void kvr_record_close(struct kvr_record **r);
/* Writes the trace's index.json, closes the recording and sets *r to NULL, even after an error. */
enum kvr_status kvr_record_finish(struct kvr_record **r, int64_t *bytes);

/* Observer of attention calls (kvr_cache_observer_fn) that appends an attention call to the trace.
 * `ctx` is a struct kvr_record *. */
enum kvr_status kvr_record_observe(void *ctx, const struct kvr_cache_view *view);

/* Sets the fields of `info` that describe the model's attention and RoPE; other fields are
 * unchanged. For a language model, `chunk` is the number of tokens per chunk; for a video model,
 * `chunk` is unused. Returns the number of tokens per row of a frame (1 for a language model),
 * which is the argument grid_w of kvr_record_open(). */
int kvr_record_describe(const struct kvr_model *m, int chunk, struct kvr_trace_info *info);

/* Records a language model that reads n tokens through a BF16 KV cache, `chunk` tokens at a
 * time. */
enum kvr_status kvr_record_text(struct kvr_record *r, struct kvr_dev *dev, struct kvr_model *m,
                                const int32_t *ids, int n, int chunk);

#endif
