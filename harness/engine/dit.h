/* dit.h - one forward of the causal Wan DiT for one chunk (specs: Wan 2.1, causal).
 *
 *     KVR_TRY(kvr_dit_open(&d, dev, model));
 *     KVR_TRY(kvr_dit_set_prompt(d, P));                    P [text_len, text_dim]
 *     KVR_TRY(kvr_cache_begin_pass(cache, &pass));
 *     KVR_TRY(kvr_dit_forward(d, cache, x, t, &pass, out)); x, out [F,C,H,W], t [F]
 *     KVR_TRY(kvr_cache_end_pass(cache));
 *     kvr_dit_close(&d);
 *
 * Owns the activations and the cross-attention keys and values of the current prompt.
 * Knows the KV cache only through append and attend. x and out are memory of the device; P and t
 * are the host's, and so is what a tap is shown. On CUDA a forward returns before its work is
 * done: what goes wrong shows at the next kvr_dev_sync. */
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
/* The activations that an open one of this config holds on the CPU, the prompt's keys and values
 * among them. */
size_t kvr_dit_bytes(const struct kvr_model_config *c);
const struct kvr_model *kvr_dit_model(const struct kvr_dit *d);
struct kvr_dev *kvr_dit_dev(const struct kvr_dit *d);

/* Text MLP and the cross-attention K, V of every layer; replaces the previous prompt's. */
enum kvr_status kvr_dit_set_prompt(struct kvr_dit *d, const float *P);

/* The network's output (flow or x0, as the config says) for the chunk of `pass`. */
enum kvr_status kvr_dit_forward(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                                const float *t, const struct kvr_pass *pass, float *out);

/* Skip denoising steps whose features barely change; NULL: compute every step (the default). */
enum kvr_status kvr_dit_set_reuse(struct kvr_dit *d, const struct kvr_reuse_opts *opts);

/* On a device, from the second denoising step of a chunk on, record the forward once and launch the
 * recording (a CUDA graph) in its place: the same work, the same bytes, one launch. For passes that
 * store nothing, with no tap, no watcher and no reuse; others, and all on the CPU, run as ever.
 * What a recording takes is not told apart by phase. false: never (the default). */
void kvr_dit_set_graphs(struct kvr_dit *d, bool on);

struct kvr_graph_counts {
    int64_t captured, launched; /* graphs; forwards that were launches of one */
};
void kvr_dit_graph_counts(const struct kvr_dit *d, struct kvr_graph_counts *out);

struct kvr_reuse_counts {
    int64_t compared, skipped; /* denoising steps with a step before them; of those, skipped */
    double total;              /* sum of their relative changes */
};
void kvr_dit_reuse_counts(const struct kvr_dit *d, struct kvr_reuse_counts *out);

/* Called with named intermediate tensors; for `kvreel engine check` and traces. NULL: off.
 * Names are those of the parity fixtures without the test letter: "block0.q_rope", ... */
typedef void kvr_dit_tap_fn(void *ctx, const char *name, const float *data, int64_t n);
void kvr_dit_tap(struct kvr_dit *d, kvr_dit_tap_fn *fn, void *ctx);

/* Nanoseconds in linear layers, in cross-attention, and in everything else of prompts and
 * forwards but self-attention, since open: the device's own time. */
struct kvr_dit_times {
    int64_t linear_ns, cross_ns, other_ns;
    int64_t graph_ns; /* whole forwards launched as graphs, attention and all */
};
/* Waits for a device; on its error nothing is written. */
enum kvr_status kvr_dit_times(const struct kvr_dit *d, struct kvr_dit_times *out);

#ifdef __cplusplus
}
#endif
#endif
