/* dit.h - the causal Wan 2.1 DiT: one forward for one chunk.
 *
 *     KVR_TRY(kvr_dit_open(&d, dev, model));
 *     KVR_TRY(kvr_dit_set_prompt(d, P));                    P [text_len, text_dim]
 *     KVR_TRY(kvr_cache_begin_pass(cache, &pass));
 *     KVR_TRY(kvr_dit_forward(d, cache, x, t, &pass, out)); x, out [F,C,H,W], t [F]
 *     KVR_TRY(kvr_cache_end_pass(cache));
 *     kvr_dit_close(&d);
 *
 * Owns the activations and the cross-attention keys and values of the current prompt. Knows the KV
 * cache only through append and attend. x and out are device memory; P, t and a tap's data are host
 * memory. On CUDA a forward is asynchronous: errors are returned by the next kvr_dev_sync. */
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
/* Bytes of activations on the CPU, with the prompt's keys and values. */
size_t kvr_dit_bytes(const struct kvr_model_config *c);
const struct kvr_model *kvr_dit_model(const struct kvr_dit *d);
struct kvr_dev *kvr_dit_dev(const struct kvr_dit *d);

/* Computes the text MLP and every layer's cross-attention K and V of the prompt P [text_len,
 * text_dim]; they replace those of the previous prompt. */
enum kvr_status kvr_dit_set_prompt(struct kvr_dit *d, const float *P);

/* Computes the network's output, flow or x0 by the configuration, for the chunk of `pass`. */
enum kvr_status kvr_dit_forward(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                                const float *t, const struct kvr_pass *pass, float *out);

/* Enables reuse: denoising steps whose features barely change are skipped. NULL: every step is
 * computed (default). */
enum kvr_status kvr_dit_set_reuse(struct kvr_dit *d, const struct kvr_reuse_opts *opts);

/* On CUDA, captures the forward as a CUDA graph at a chunk's second denoising step and launches the graph from
 * then on, with the same results. Applies to passes that store nothing, without tap, observer or reuse; other
 * passes, and the CPU, run without graphs. A graph's time is not split by phase. Default: false. */
void kvr_dit_set_graphs(struct kvr_dit *d, bool on);

struct kvr_graph_counts {
    int64_t captured, launched; /* graphs captured; forwards launched as graphs */
};
void kvr_dit_graph_counts(const struct kvr_dit *d, struct kvr_graph_counts *out);

struct kvr_reuse_counts {
    int64_t compared, skipped; /* denoising steps after a chunk's first; skipped ones among them */
    double total;              /* sum of the relative feature changes */
};
void kvr_dit_reuse_counts(const struct kvr_dit *d, struct kvr_reuse_counts *out);

/* Receives named intermediate tensors, for `kvreel engine check` and traces. A tap of NULL turns
 * this off. Names are those of the parity fixtures without the test's letter: "block0.q_rope",
 * ... */
typedef void kvr_dit_tap_fn(void *ctx, const char *name, const float *data, int64_t n);
void kvr_dit_tap(struct kvr_dit *d, kvr_dit_tap_fn *fn, void *ctx);

/* Device time in ns since kvr_dit_open: linear layers, cross-attention, and all other operations
 * but self-attention. */
struct kvr_dit_times {
    int64_t linear_ns, cross_ns, other_ns;
    int64_t graph_ns; /* forwards launched as graphs, including attention */
};
/* Synchronizes the device; on an error `out` is unchanged. */
enum kvr_status kvr_dit_times(const struct kvr_dit *d, struct kvr_dit_times *out);

#ifdef __cplusplus
}
#endif
#endif
