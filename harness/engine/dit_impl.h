/* dit_impl.h - state of the diffusion transformer. Private to harness/engine: dit_open.c allocates
 * the state, dit.c runs the network. */
#ifndef KVR_ENGINE_DIT_IMPL_H
#define KVR_ENGINE_DIT_IMPL_H

#include "harness/device/phase.h"
#include "harness/engine/dit.h"
#include "harness/engine/flow.h"
#include "harness/engine/model_impl.h"
#include "harness/engine/ops.h"
#include "harness/engine/reuse.h"

/* Timed phases of a forward pass. KVR_DIT_ALL is the whole pass, which includes the other phases.
 * Self-attention (KVR_DIT_ATTEND) is also timed by the KV cache. */
enum {
    KVR_DIT_ALL,
    KVR_DIT_LINEAR,
    KVR_DIT_CROSS,
    KVR_DIT_ATTEND,
    KVR_DIT_GRAPH,
    KVR_DIT_N_PHASES
};

/* Cosines and sines of the RoPE angles of a chunk that begins at frame rope_frame. */
struct kvr_dit_rope {
    double *cosines, *sines; /* [N, D/2] */
};

/* A forward pass captured as a CUDA graph, and the arguments with which it was captured. */
struct kvr_dit_recording {
    struct kvr_graph *graph; /* NULL: no graph */
    const struct kvr_cache *cache;
    const float *x;
    float *out;
    int frame0;
    bool failed; /* capturing the graph failed; later passes run without a graph */
};

struct kvr_dit {
    struct kvr_dev *dev;
    const struct kvr_model *m;
    const struct kvr_model_config *c;
    const struct kvr_ops *ops;
    int tokens_per_frame; /* S */
    struct kvr_buf arena;
    /* Shapes: F = frames_per_chunk, S = tokens_per_frame, N = F * S, T = text_len, d = dim, f =
     * ffn_dim, C = in_dim, ph = patch_h, pw = patch_w. Arrays of type void * have BF16 elements if
     * flow.narrow is true, otherwise F32 elements. */
    struct kvr_flow flow;
    void *q, *k, *v, *ctx;                  /* [N,d] */
    void *ffn;                              /* [N,f] */
    float *wide[3];                         /* [N,d]: F32 copies of BF16 activations, for kernels
                                             * that need F32 */
    struct kvr_buf wide_scratch;            /* memory of `wide`, allocated at the first use */
    float *patches;                         /* [N, C*ph*pw]: input patches, later the head output */
    float *sinusoid;                        /* [F, freq_dim] */
    float *time_hidden, *time_embed, *silu; /* [F,d] */
    float *time_mod;                        /* [F,6,d]: shifts, scales and gates of each timestep */
    /* [F,6,d]: time_mod plus the learned `modulation` of the current block (mod) or of the previous
     * block (mod_before). mod_before has the gate of a residual add that kvr_flow_add deferred. */
    float *mod, *mod_before;
    float *head_mod;                    /* [F,2,d] */
    float *text, *text_hidden, *text_k; /* [T,d] */
    /* [T, text_dim]: copy of the prompt, for devices whose memory the host cannot access. */
    float *prompt;
    struct kvr_dit_rope rope;
    struct kvr_dit_rope host_rope; /* host copy of `rope`, or `rope` itself if in host memory */
    float *host_sinusoid;          /* host copy of `sinusoid`, or `sinusoid` itself */
    struct kvr_buf host;           /* host memory of the copies host_rope and host_sinusoid */
    struct kvr_buf shown;          /* host copy of the tensor that is passed to `tap` */
    double rope_frame;
    float *inverses; /* [N]: 1 / RMS of each token's query; NULL if flow.fuses is false */
    struct kvr_query_norm query; /* RMSNorm that the attention kernel applies to queries; if
                                  * query.inverses is NULL, the queries are normalized before
                                  * attention */
    struct kvr_cross *cross;     /* [n_layers] */
    struct kvr_cross_work cross_work;
    bool has_prompt;
    kvr_dit_tap_fn *tap;
    void *tap_ctx;
    enum kvr_status tap_status;
    struct kvr_phases *phases;
    struct kvr_reuse reuse;
    bool graphs; /* enabled by kvr_dit_set_graphs */
    struct kvr_dit_recording recording;
    struct kvr_graph_counts graph_counts;
};

/* Returns true if the host cannot access the device's memory. Inputs such as RoPE angles are then
 * computed on the host and copied to the device. Returns false if d->dev is NULL, as in
 * kvr_dit_bytes(), which only computes sizes. */
static inline bool kvr_dit_on_device(const struct kvr_dit *d)
{
    return d->dev && !kvr_dev_in_host(d->dev);
}

#endif
