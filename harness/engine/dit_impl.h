/* dit_impl.h - state of the network. Private to harness/engine: dit_open.c allocates it, dit.c runs
 * it. */
#ifndef KVR_ENGINE_DIT_IMPL_H
#define KVR_ENGINE_DIT_IMPL_H

#include "harness/device/phase.h"
#include "harness/engine/dit.h"
#include "harness/engine/flow.h"
#include "harness/engine/model_impl.h"
#include "harness/engine/ops.h"
#include "harness/engine/reuse.h"

/* Timed phases. KVR_DIT_ALL encloses the others; the cache times KVR_DIT_ATTEND itself. */
enum {
    KVR_DIT_ALL,
    KVR_DIT_LINEAR,
    KVR_DIT_CROSS,
    KVR_DIT_ATTEND,
    KVR_DIT_GRAPH,
    KVR_DIT_N_PHASES
};

/* RoPE angles of the frames from rope_frame on. */
struct kvr_dit_rope {
    double *cosines, *sines; /* [N, D/2] */
};

/* A forward captured as a graph, and the parameters that it was captured with. */
struct kvr_dit_recording {
    struct kvr_graph *graph; /* NULL: none */
    const struct kvr_cache *cache;
    const float *x;
    float *out;
    int frame0;
    bool failed; /* this work cannot be captured: not tried again */
};

struct kvr_dit {
    struct kvr_dev *dev;
    const struct kvr_model *m;
    const struct kvr_model_config *c;
    const struct kvr_ops *ops;
    int tokens_per_frame; /* S */
    struct kvr_buf arena;
    /* N = frames_per_chunk * S tokens, T = text_len, F = frames_per_chunk, d, f: see config */
    struct kvr_flow flow;     /* and what it says that numbers between layers are: */
    void *q, *k, *v, *ctx;    /* [N,d] */
    void *ffn;                /* [N,f] */
    float *wide[3];           /* [N,d]: floats beside such numbers, once something takes floats */
    struct kvr_buf wide_room; /* NULL: nothing has yet */
    float *patches;           /* [N, C*ph*pw]: in, and the head's out */
    float *sinusoid;          /* [F, freq_dim] */
    float *time_hidden, *time_embed, *silu; /* [F,d] */
    float *time_mod;                        /* [F,6,d]: e0 */
    float *mod, *mod_before;            /* with a block's modulation; with that of the one before,
                                             * where what it gates may not have been added yet */
    float *head_mod;                    /* [F,2,d] */
    float *text, *text_hidden, *text_k; /* [T,d] */
    float *prompt; /* [T, text_dim]; where the host's memory is apart, and so below */
    struct kvr_dit_rope rope;
    struct kvr_dit_rope host_rope; /* as the host made it; else the same memory */
    float *host_sinusoid;          /* likewise */
    struct kvr_buf host;           /* what host_rope and host_sinusoid point into */
    struct kvr_buf shown;          /* what a tap is shown */
    double rope_frame;
    float *inverses;             /* [N], where layers leave sums of squares */
    struct kvr_query_norm query; /* what attention does to q; without inverses: nothing */
    struct kvr_cross *cross;     /* [n_layers] */
    struct kvr_cross_work cross_work;
    bool has_prompt;
    kvr_dit_tap_fn *tap;
    void *tap_ctx;
    enum kvr_status tap_status;
    struct kvr_phases *phases;
    struct kvr_reuse reuse;
    bool graphs; /* wanted */
    struct kvr_dit_recording recording;
    struct kvr_graph_counts graph_counts;
};

/* Whether the host computes and copies its inputs; false if only sizes are needed. */
static inline bool kvr_dit_apart(const struct kvr_dit *d)
{
    return d->dev && !kvr_dev_in_host(d->dev);
}

#endif
