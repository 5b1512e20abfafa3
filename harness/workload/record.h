/* record.h - records the inputs of attention while an engine runs, as a trace
 * (harness/workload/trace).
 *
 *     KVR_TRY(kvr_record_open(&r, "red-disc.kvtrace", &info, grid_w, true));
 *     req.observer = kvr_record_observe;
 *     req.observer_ctx = r;
 *     ... a rollout through a BF16 cache; or kvr_cache_observe() of any other cache ...
 *     KVR_TRY(kvr_record_finish(&r, &bytes));
 *     kvr_record_close(&r);                                  accepts a finished one
 *
 * The recorded keys and values are those of the chunk, in the cache's exact type; the queries are
 * attention's F32 inputs. A replay is bit-identical. */
#ifndef KVR_WORKLOAD_RECORD_H
#define KVR_WORKLOAD_RECORD_H

#include "harness/cache/cache.h"
#include "harness/engine/model.h"
#include "harness/workload/trace/write.h"

struct kvr_record;

/* info.layout is the cache's. `grid_w`: tokens per row of a frame, for positions. `outputs`: also record
 * attention's outputs. */
enum kvr_status kvr_record_open(struct kvr_record **out, const char *dir,
                                const struct kvr_trace_info *info, int grid_w, bool outputs);
void kvr_record_close(struct kvr_record **r);
enum kvr_status kvr_record_finish(struct kvr_record **r, int64_t *bytes);

/* A kvr_cache_observer_fn; ctx is the record. */
enum kvr_status kvr_record_observe(void *ctx, const struct kvr_cache_view *view);

/* Describes an open model's attention and RoPE in `info`, with chunks of `chunk` tokens for a
 * language model; other fields of `info` are unchanged. Returns the tokens per row of a frame. */
int kvr_record_describe(const struct kvr_model *m, int chunk, struct kvr_trace_info *info);

/* Records a language model reading n tokens through a BF16 cache, `chunk` at a time. */
enum kvr_status kvr_record_text(struct kvr_record *r, struct kvr_dev *dev, struct kvr_model *m,
                                const int32_t *ids, int n, int chunk);

#endif
