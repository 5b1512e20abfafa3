/* ops.h - a forward's operations other than linear layers and self-attention; one table per device.
 *
 *     const struct kvr_ops *ops = kvr_ops_of(dev);
 *     ops->norm_modulate(dev, &rows, x, shift, scale, stride, eps, y);
 *
 * Pointers are memory of `dev`; the CPU's table ignores `dev`. On CUDA calls are asynchronous;
 * errors are returned by kvr_dev_sync(). N tokens of d values, row-major; "Per frame" vectors apply
 * to tokens_per_frame tokens each and are `stride` floats apart. One thread computes each row from
 * that row alone, so results do not depend on the number of threads. NaN propagates. Nothing is
 * allocated. */
#ifndef KVR_ENGINE_OPS_H
#define KVR_ENGINE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/cache/query_norm.h"
#include "harness/core/dtype.h"
#include "harness/core/isa.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_OPS_MAX_TEXT = 8192,    /* keys of cross-attention: bounds its score buffer */
    KVR_OPS_MAX_HEAD_DIM = 256, /* limit of CUDA's table */
    KVR_OPS_L1_PARTS = 256,     /* partial sums of kvr_ops.l1 */
    KVR_OPS_LANES = 16,         /* rows of kvr_cross are padded to multiples of this many floats */
};

struct kvr_rows {
    int64_t n;            /* N */
    int d;                /* values per token */
    int tokens_per_frame; /* S, for the per-frame vectors */
};

/* Latent frames and their patches: gh x gw tokens of C * ph * pw values. */
struct kvr_patching {
    int n_frames, channels, height, width, ph, pw;
};

/* Keys and values of the prompt in the layout of cross_attend; the buffers fit either layout. */
struct kvr_cross {
    int n_keys, n_heads, head_dim;
    float *k; /* [H, D, round16(n_keys)] on the CPU, zero padded */
    float *v; /* [H, n_keys, round16(D)] on the CPU. CUDA: k, v [n_keys,H,D], BF16 if used */
    enum kvr_dtype compute; /* compute type of linear layers; constant from pack to attend */
};

/* A residual added to x: gate * y, with `gate` per frame (NULL: 1). If y is NULL nothing is
 * added. */
struct kvr_residual {
    const kvr_bf16 *y;
    const float *gate;
    int64_t stride;
};

/* Scratch of cross_attend: the softmax state (m, l, acc). The buffers do not overlap. */
struct kvr_cross_work {
    float *max, *sum; /* [N,H] */
    float *acc;       /* [N,H,D] */
};

/* Linear combination c[0] x[0] + ... + c[n-1] x[n-1]: a step of a multistep solver. */
enum { KVR_BLEND_MAX = 4 };
struct kvr_blend {
    int n;
    double c[KVR_BLEND_MAX];
    const float *x[KVR_BLEND_MAX];
};

struct kvr_ops {
    /* y = LN(x) * (1 + scale) + shift; LN without affine parameters, biased variance. */
    void (*norm_modulate)(struct kvr_dev *dev, const struct kvr_rows *r, const float *x,
                          const float *shift, const float *scale, int64_t stride, double eps,
                          float *y);
    /* y = LN(x) * w + b. */
    void (*norm_affine)(struct kvr_dev *dev, const struct kvr_rows *r, const float *x,
                        const float *w, const float *b, double eps, float *y);
    /* x = x / sqrt(mean(x^2) + eps) * w, over all d. */
    void (*rms_norm)(struct kvr_dev *dev, const struct kvr_rows *r, const float *w, double eps,
                     float *x);
    /* Rotates adjacent pairs of every head, in float64. cosines, sines [N, head_dim / 2]. */
    void (*rope)(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim, const double *cosines,
                 const double *sines, float *x);
    /* rms_norm followed by rope. NULL if fusing both gains nothing. */
    void (*rms_rope)(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim, const float *w,
                     double eps, const double *cosines, const double *sines, float *x);
    /* BF16 variants: computed in F32, rounded once. `before` is added to x first, and x keeps the rounded sum;
     * y has `columns` columns, zero after the first d. All NULL on the CPU. */
    void (*norm_modulate_bf16)(struct kvr_dev *dev, const struct kvr_rows *r,
                               const struct kvr_residual *before, kvr_bf16 *x, const float *shift,
                               const float *scale, int64_t stride, double eps, kvr_bf16 *y,
                               int columns);
    void (*norm_affine_bf16)(struct kvr_dev *dev, const struct kvr_rows *r,
                             const struct kvr_residual *before, kvr_bf16 *x, const float *w,
                             const float *b, double eps, kvr_bf16 *y, int columns);
    void (*rms_norm_bf16)(struct kvr_dev *dev, const struct kvr_rows *r, const float *w, double eps,
                          kvr_bf16 *x);
    /* rms_rope of two tensors: writes x[i] with weights w[i] to y[i]. x[1] NULL: only x[0] is
     * computed. */
    void (*rms_rope_bf16)(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim,
                          const float *const *w, double eps, const double *cosines,
                          const double *sines, const kvr_bf16 *const *x, kvr_bf16 *const *y);
    void (*add_bf16)(struct kvr_dev *dev, const struct kvr_rows *r, const struct kvr_residual *from,
                     kvr_bf16 *x);
    /* x += y * gate, gate per frame; gate NULL: x += y. */
    void (*add)(struct kvr_dev *dev, const struct kvr_rows *r, const float *y, const float *gate,
                int64_t stride, float *x);
    void (*gelu)(struct kvr_dev *dev, int64_t n, float *x);                 /* tanh form */
    void (*silu)(struct kvr_dev *dev, int64_t n, const float *x, float *y); /* y may be x */
    /* [F,C,H,W] -> [N, C*ph*pw] in order (c, p, q). */
    void (*patchify)(struct kvr_dev *dev, const struct kvr_patching *p, const float *x, float *out);
    /* [N, ph*pw*C] in order (p, q, c) -> [F,C,H,W]. */
    void (*unpatchify)(struct kvr_dev *dev, const struct kvr_patching *p, const float *in,
                       float *x);
    /* Packs k, v [n_keys, H*D] into c's layout. */
    void (*cross_pack)(struct kvr_dev *dev, struct kvr_cross *c, const float *k, const float *v);
    /* out = softmax(q k^T / sqrt(D)) v, no mask; q, out [N, H*D]. */
    void (*cross_attend)(struct kvr_dev *dev, const struct kvr_rows *r, const struct kvr_cross *c,
                         const struct kvr_cross_work *work, const float *q, float *out);
    /* cross_attend with BF16 q and out, both 16-byte aligned. Returns false, without effect, if c's
     * layout is not supported; with q NULL it only returns whether the layout is supported. The
     * pointer is NULL on devices without such a kernel. */
    bool (*cross_attend_bf16)(struct kvr_dev *dev, const struct kvr_rows *r,
                              const struct kvr_cross *c, const struct kvr_cross_work *work,
                              const kvr_bf16 *q, kvr_bf16 *out);
    /* inverses [n] = 1 / sqrt(sum of squares [n,parts] / width + eps). */
    void (*query_inverses)(struct kvr_dev *dev, int64_t n, const float *squares, int parts,
                           int width, double eps, float *inverses);
    /* cross_attend_bf16 with an RMSNorm fused into the load of q. */
    bool (*cross_attend_normed)(struct kvr_dev *dev, const struct kvr_rows *r,
                                const struct kvr_cross *c, const struct kvr_cross_work *work,
                                const kvr_bf16 *q, const struct kvr_query_norm *norm,
                                kvr_bf16 *out);
    /* out[f][row] = base[row] + per_frame[f][row], or base[row] + per_frame[f] with same_for_rows.
     * base [rows,d], per_frame [F,rows,d] or [F,d], out [F,rows,d]. */
    void (*add_modulation)(struct kvr_dev *dev, int n_frames, int n_rows, int d, const float *base,
                           const float *per_frame, bool same_for_rows, float *out);
    /* out = x - y. */
    void (*subtract)(struct kvr_dev *dev, int64_t n, const float *x, const float *y, float *out);
    /* sums [2, KVR_OPS_L1_PARTS]: partial sums of |x - y|, then partial sums of |y|. */
    void (*l1)(struct kvr_dev *dev, int64_t n, const float *x, const float *y, double *sums);
    /* x0 = x - sigma flow, in float64, rounded. */
    void (*x0_from_flow)(struct kvr_dev *dev, int64_t n, const float *x, const float *flow,
                         float sigma, float *x0);
    /* x = (1 - sigma) x0 + sigma eps, in float32. */
    void (*renoise)(struct kvr_dev *dev, int64_t n, const float *x0, const float *eps, float sigma,
                    float *x);
    /* out = the linear combination `b` of n-element arrays, summed in float64 in the order of its
     * terms, rounded once. out may be the array of one term. */
    void (*blend)(struct kvr_dev *dev, int64_t n, const struct kvr_blend *b, float *out);
    /* Clamps x to [lo, hi]; NaN stays NaN. */
    void (*clamp)(struct kvr_dev *dev, int64_t n, float lo, float hi, float *x);
    /* *flag = 1 if any value is not finite, else 0. */
    void (*not_finite)(struct kvr_dev *dev, int64_t n, const float *x, int32_t *flag);

    int max_head_dim; /* largest head_dim of rope and cross_attend; 0: unlimited */
    bool cross_works; /* cross_attend needs a kvr_cross_work */
};

KVR_ISA_TABLES(struct kvr_ops, kvr_ops_cpu) /* the selected CPU variant */
extern const struct kvr_ops kvr_ops_cuda;
const struct kvr_ops *kvr_ops_of(const struct kvr_dev *dev);

/* The sampler's arithmetic on n numbers, on the host: x0 = x - sigma flow; x = (1 - sigma) x0 + sigma eps;
 * out = a weighted sum (struct kvr_blend). */
void kvr_x0_from_flow(int64_t n, const float *x, const float *flow, float sigma, float *x0);
void kvr_renoise(int64_t n, const float *x0, const float *eps, float sigma, float *x);
void kvr_blend(int64_t n, const struct kvr_blend *b, float *out);

/* Sizes of kvr_cross.k and .v in floats. */
int64_t kvr_cross_k_floats(int n_keys, int n_heads, int head_dim);
int64_t kvr_cross_v_floats(int n_keys, int n_heads, int head_dim);

/* [cos(t w_k).., sin(t w_k)..], w_k = 10000^(-k / half), half = n / 2; in float64. */
void kvr_time_sinusoid(float t, int n, float *out);

#ifdef __cplusplus
}
#endif
#endif
