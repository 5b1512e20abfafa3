/* dit.h - the forward of the causal Wan 2.1 DiT over one chunk.
 *
 *     KVR_TRY(kvr_dit_open(&d, dev, model));
 *     KVR_TRY(kvr_dit_set_prompt(d, P));                    P [text_len, text_dim]
 *     KVR_TRY(kvr_cache_begin_pass(cache, &pass));
 *     KVR_TRY(kvr_dit_forward(d, cache, x, t, &pass, out)); x, out [F,C,H,W], t [F]
 *     KVR_TRY(kvr_cache_end_pass(cache));
 *     kvr_dit_close(&d);
 *
 * The DiT owns its activations and the cross-attention keys and values of the current prompt. It
 * stores keys and values in the KV cache by kvr_cache_append, or directly in a BF16 cache
 * (kvr_cache_current), and computes attention by kvr_cache_attend or its BF16 variants. The
 * arguments x and out point to device memory. The prompt embedding P, the timesteps t and the
 * tensors that a tap (callback) receives are in host memory. On CUDA, a forward is asynchronous:
 * errors are returned by the next kvr_dev_sync. */
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
/* Returns how many bytes a DiT on the CPU allocates for its activations and for the prompt's
 * cross-attention keys and values. */
size_t kvr_dit_bytes(const struct kvr_model_config *c);
const struct kvr_model *kvr_dit_model(const struct kvr_dit *d);
struct kvr_dev *kvr_dit_dev(const struct kvr_dit *d);

/* Applies the text MLP to the prompt embedding P [text_len, text_dim], and computes every layer's
 * cross-attention keys and values from the result. The keys and values of the previous prompt are
 * discarded. */
enum kvr_status kvr_dit_set_prompt(struct kvr_dit *d, const float *P);

/* Computes the network's output for the chunk that `pass` describes. The output is the flow or x0,
 * as `prediction` in the model's configuration states. */
enum kvr_status kvr_dit_forward(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                                const float *t, const struct kvr_pass *pass, float *out);

/* Enables feature reuse, which skips the transformer blocks of a denoising step if their input has
 * barely changed (methods/reuse.h). If opts is NULL, feature reuse is disabled, which is the
 * default. */
enum kvr_status kvr_dit_set_reuse(struct kvr_dit *d, const struct kvr_reuse_opts *opts);

/* Enables or disables CUDA graphs, which are disabled by default and have no effect on the CPU. The
 * forward is captured as a graph at a chunk's second denoising step. This step and the chunk's
 * later steps launch the graph, with the same results as without a graph. A forward runs without a
 * graph if it stores keys and values in the KV cache. All forwards run without a graph while a tap
 * (kvr_dit_tap), a cache observer (cache.h) or feature reuse is enabled, and if a codec has no CUDA
 * functions. kvr_dit_times() reports only the total time of graph launches, as graph_ns, and not
 * the time of each operation in a graph. */
void kvr_dit_set_graphs(struct kvr_dit *d, bool on);

struct kvr_graph_counts {
    int64_t captured, launched; /* captured: number of captured graphs; launched: number of forwards
                                 * that were launched as graphs */
};
void kvr_dit_graph_counts(const struct kvr_dit *d, struct kvr_graph_counts *out);

struct kvr_reuse_counts {
    int64_t compared, skipped; /* compared: number of denoising steps in which the input of the
                                * transformer blocks was compared with that of the previous step;
                                * skipped: number of steps in which the blocks were skipped */
    double total;              /* relative L1 change of the blocks' input since the previous step,
                                * summed over the compared steps (methods/reuse.h) */
};
void kvr_dit_reuse_counts(const struct kvr_dit *d, struct kvr_reuse_counts *out);

/* A tap is a callback that receives named intermediate tensors, for `kvreel engine check` and for
 * recording traces. The names are those of the tensors in the recorded files (check.h), without the
 * prefix that tells the recorded forwards apart: "block0.q_rope", not "a.block0.q_rope". If fn is
 * NULL, no tap is called. */
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
