/* dit.h - the forward of the causal Wan 2.1 DiT over one chunk.
 *
 *     KVR_TRY(kvr_dit_open(&d, dev, model));
 *     KVR_TRY(kvr_dit_set_prompt(d, P));                    P [text_len, text_dim]
 *     KVR_TRY(kvr_cache_begin_pass(cache, &pass));
 *     KVR_TRY(kvr_dit_forward(d, cache, x, t, &pass, out)); x, out [F,C,H,W], t [F]
 *     KVR_TRY(kvr_cache_end_pass(cache));
 *     kvr_dit_close(&d);
 *
 * The DiT owns its activations and the cross-attention keys and values of the current prompt. The
 * DiT uses the KV cache only through kvr_cache_append and kvr_cache_attend. The arguments x and out
 * are device memory. The prompt embedding P, the timesteps t and the tensors that a tap (callback)
 * receives are host memory. On CUDA, a forward is asynchronous: errors are returned by the next
 * kvr_dev_sync. */
#ifndef KVR_ENGINE_DIT_H
#define KVR_ENGINE_DIT_H

#include "harness/cache/cache.h"
#include "harness/engine/model.h"
#include "methods/reuse.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_dit;

enum kvr_status kvr_dit_open(struct kvr_dit **out, struct kvr_dev *dev, struct kvr_model *m);
void kvr_dit_close(struct kvr_dit **d);
/* Bytes of the activations and of the prompt's cross-attention keys and values on the CPU. */
size_t kvr_dit_bytes(const struct kvr_model_config *c);
const struct kvr_model *kvr_dit_model(const struct kvr_dit *d);
struct kvr_dev *kvr_dit_dev(const struct kvr_dit *d);

/* Computes the text MLP and every layer's cross-attention K and V of the prompt P [text_len,
 * text_dim]. The keys and values of the previous prompt are discarded. */
enum kvr_status kvr_dit_set_prompt(struct kvr_dit *d, const float *P);

/* Computes the network's output for the chunk that `pass` describes. The output is the flow or x0,
 * as `prediction` in the model's configuration states. */
enum kvr_status kvr_dit_forward(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                                const float *t, const struct kvr_pass *pass, float *out);

/* Enables feature reuse, which skips the transformer blocks of a denoising step if their input has
 * barely changed (methods/reuse.h). If opts is NULL, feature reuse is disabled, which is the
 * default. */
enum kvr_status kvr_dit_set_reuse(struct kvr_dit *d, const struct kvr_reuse_opts *opts);

/* On CUDA, captures the forward as a CUDA graph at a chunk's second denoising step. This step and
 * the chunk's later steps launch the graph, with the same results as without a graph. A graph is
 * used only for a pass that stores nothing in the KV cache, and only without a tap, a cache
 * observer (cache.h) and feature reuse. The time of graph launches is reported as graph_ns of
 * kvr_dit_times(), not per operation. Graphs are disabled by default. */
void kvr_dit_set_graphs(struct kvr_dit *d, bool on);

struct kvr_graph_counts {
    int64_t captured, launched; /* captured: number of captured graphs; launched: number of forwards
                                 * that were launched as graphs */
};
void kvr_dit_graph_counts(const struct kvr_dit *d, struct kvr_graph_counts *out);

struct kvr_reuse_counts {
    int64_t compared, skipped; /* compared: number of denoising steps whose block input was compared
                                * with the previous step's; skipped: number of steps whose
                                * transformer blocks were skipped */
    double total;              /* sum of the relative L1 changes of the block input over the
                                * compared steps (methods/reuse.h) */
};
void kvr_dit_reuse_counts(const struct kvr_dit *d, struct kvr_reuse_counts *out);

/* A tap is a callback that receives named intermediate tensors, for `kvreel engine check` and for
 * recording traces. Tensor names are those of the recorded files (check.h) without the name of the
 * recorded forward: "block0.q_rope", not "a.block0.q_rope". If fn is NULL, no tap is called. */
typedef void kvr_dit_tap_fn(void *ctx, const char *name, const float *data, int64_t n);
void kvr_dit_tap(struct kvr_dit *d, kvr_dit_tap_fn *fn, void *ctx);

/* Device time in ns since kvr_dit_open, by operation: linear layers, cross-attention, and all other
 * operations except self-attention. */
struct kvr_dit_times {
    int64_t linear_ns, cross_ns, other_ns;
    int64_t graph_ns; /* time of forwards launched as CUDA graphs, including attention */
};
/* Synchronizes the device; on an error `out` is unchanged. */
enum kvr_status kvr_dit_times(const struct kvr_dit *d, struct kvr_dit_times *out);

#ifdef __cplusplus
}
#endif
#endif
