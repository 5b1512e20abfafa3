/* ops.h - the operations of a forward other than linear layers and self-attention, as one function
 * table per device.
 *
 *     const struct kvr_ops *ops = kvr_ops_of(dev);
 *     ops->norm_modulate(dev, &rows, x, shift, scale, stride, eps, y);
 *
 * All pointers refer to memory of `dev`; functions of the CPU table ignore `dev`. On CUDA, calls
 * are asynchronous, and kvr_dev_sync() returns their errors. Tensors of N tokens with d values are
 * row-major. A per-frame vector applies to all tokens_per_frame tokens of its frame, and vectors of
 * successive frames are `stride` floats apart. On the CPU, one thread computes each row or partial
 * sum of a result, so results do not depend on the number of threads. NaN propagates. The functions
 * allocate no memory. */
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
    KVR_OPS_MAX_TEXT = 8192,    /* maximum number of keys in cross-attention */
    KVR_OPS_MAX_HEAD_DIM = 256, /* maximum head_dim that kvr_ops_cuda supports */
    KVR_OPS_L1_PARTS = 256,     /* number of partial sums into which kvr_ops.l1 splits a norm */
    KVR_OPS_LANES = 16,         /* cross_pack pads rows of k and v to a multiple of 16 floats */
};

struct kvr_rows {
    int64_t n;            /* N */
    int d;                /* values per token */
    int tokens_per_frame; /* number of consecutive rows that belong to one frame */
};

/* Latent frames of shape [n_frames, channels, height, width], which are split into patches of ph x
 * pw latent pixels. Each patch becomes one token. */
struct kvr_patching {
    int n_frames, channels, height, width, ph, pw;
};

/* The prompt's keys and values, packed by cross_pack for cross_attend. The buffers k and v are
 * large enough for the F32 layout and for the BF16 layout. */
struct kvr_cross {
    int n_keys, n_heads, head_dim;
    /* On CUDA, k and v are [n_keys,H,D] in F32 or BF16. On the CPU, they are BF16 panels
     * (ops_cross_bf16.h), or zero-padded F32 arrays with the shapes given after k and v. round16()
     * rounds up to a multiple of 16. */
    float *k;               /* [H, D, round16(n_keys)] */
    float *v;               /* [H, n_keys, round16(D)] */
    enum kvr_dtype compute; /* compute type of linear layers, which must not change between
                             * cross_pack and cross_attend */
};

/* A deferred residual add, x += gate * y, with one gate vector per frame. If gate is NULL, the gate
 * is 1. If y is NULL, nothing is added. */
struct kvr_residual {
    const kvr_bf16 *y;
    const float *gate;
    int64_t stride;
};

/* Scratch of cross_attend: maximum, sum and accumulator of the online softmax. The three buffers
 * must not overlap. */
struct kvr_cross_work {
    float *max, *sum; /* [N,H] */
    float *acc;       /* [N,H,D] */
};

/* The linear combination c[0] x[0] + ... + c[n-1] x[n-1], which is one step of a multistep
 * solver. */
enum { KVR_BLEND_MAX = 4 };
struct kvr_blend {
    int n;
    double c[KVR_BLEND_MAX];
    const float *x[KVR_BLEND_MAX];
};

struct kvr_ops {
    /* LayerNorm with modulation: y = LN(x) * (1 + scale) + shift, where LN has biased variance and
     * no affine parameters. */
    void (*norm_modulate)(struct kvr_dev *dev, const struct kvr_rows *r, const float *x,
                          const float *shift, const float *scale, int64_t stride, double eps,
                          float *y);
    /* LayerNorm of each row: y = LN(x) * w + b, with weight w [d] and bias b [d]. */
    void (*norm_affine)(struct kvr_dev *dev, const struct kvr_rows *r, const float *x,
                        const float *w, const float *b, double eps, float *y);
    /* RMSNorm in place: x = x / sqrt(mean(x^2) + eps) * w, with the mean over all d values of a
     * row. */
    void (*rms_norm)(struct kvr_dev *dev, const struct kvr_rows *r, const float *w, double eps,
                     float *x);
    /* Applies RoPE to x in place, in float64: rotates each pair of adjacent elements of a head. The
     * arrays `cosines` and `sines` are [N, head_dim / 2]. */
    void (*rope)(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim, const double *cosines,
                 const double *sines, float *x);
    /* Applies rms_norm, then rope, in one pass over x. The pointer rms_rope is NULL on devices
     * where one pass is not faster. */
    void (*rms_rope)(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim, const float *w,
                     double eps, const double *cosines, const double *sines, float *x);
    /* Functions whose names end in _bf16 read and write BF16, compute in F32 and round each result
     * once; on the CPU their pointers are NULL. The norms norm_modulate_bf16 and norm_affine_bf16
     * first add the residual `before` to x and store the rounded sum in x. The output y of these
     * two norms has `columns` columns; columns after the first d are zero. */
    void (*norm_modulate_bf16)(struct kvr_dev *dev, const struct kvr_rows *r,
                               const struct kvr_residual *before, kvr_bf16 *x, const float *shift,
                               const float *scale, int64_t stride, double eps, kvr_bf16 *y,
                               int columns);
    void (*norm_affine_bf16)(struct kvr_dev *dev, const struct kvr_rows *r,
                             const struct kvr_residual *before, kvr_bf16 *x, const float *w,
                             const float *b, double eps, kvr_bf16 *y, int columns);
    void (*rms_norm_bf16)(struct kvr_dev *dev, const struct kvr_rows *r, const float *w, double eps,
                          kvr_bf16 *x);
    /* For i = 0, 1, applies RMSNorm with weights w[i] and then RoPE to x[i], and writes the result
     * to y[i]. If x[1] is NULL, only y[0] is written. */
    void (*rms_rope_bf16)(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim,
                          const float *const *w, double eps, const double *cosines,
                          const double *sines, const kvr_bf16 *const *x, kvr_bf16 *const *y);
    void (*add_bf16)(struct kvr_dev *dev, const struct kvr_rows *r, const struct kvr_residual *from,
                     kvr_bf16 *x);
    /* Adds a gated residual: x += y * gate, with one gate vector per frame; if gate is NULL, x +=
     * y. */
    void (*add)(struct kvr_dev *dev, const struct kvr_rows *r, const float *y, const float *gate,
                int64_t stride, float *x);
    void (*gelu)(struct kvr_dev *dev, int64_t n, float *x);                 /* tanh form */
    void (*silu)(struct kvr_dev *dev, int64_t n, const float *x, float *y); /* y may be x */
    /* Splits x [F,C,H,W] into patches, and writes each patch as a row of `out` [N, C*ph*pw]. The
     * elements of a row are ordered by channel, patch row and patch column. */
    void (*patchify)(struct kvr_dev *dev, const struct kvr_patching *p, const float *x, float *out);
    /* Assembles x [F,C,H,W] from patches, which are the rows of `in` [N, ph*pw*C]. The elements of
     * a row are ordered by patch row, patch column and channel. */
    void (*unpatchify)(struct kvr_dev *dev, const struct kvr_patching *p, const float *in,
                       float *x);
    /* Packs the prompt's keys and values k, v [n_keys, H*D] into the layout of `c`. */
    void (*cross_pack)(struct kvr_dev *dev, struct kvr_cross *c, const float *k, const float *v);
    /* Computes out = softmax(q k^T / sqrt(D)) v without a mask, for q and out [N, H*D]. */
    void (*cross_attend)(struct kvr_dev *dev, const struct kvr_rows *r, const struct kvr_cross *c,
                         const struct kvr_cross_work *work, const float *q, float *out);
    /* Like cross_attend, for q and out in BF16, both 16-byte aligned. Returns false and writes
     * nothing if the kernel does not support the shape of `c`. If q is NULL, cross_attend_bf16 only
     * returns whether the shape is supported. The pointer cross_attend_bf16 is NULL on devices
     * without such a kernel. */
    bool (*cross_attend_bf16)(struct kvr_dev *dev, const struct kvr_rows *r,
                              const struct kvr_cross *c, const struct kvr_cross_work *work,
                              const kvr_bf16 *q, kvr_bf16 *out);
    /* Computes 1 / RMS of each of n rows of `width` elements: inverses[i] = 1 / sqrt(s / width +
     * eps). Here s is the sum of squares of row i. The function computes s from partial sums, which
     * are row i of `squares` [n,parts]. */
    void (*query_inverses)(struct kvr_dev *dev, int64_t n, const float *squares, int parts,
                           int width, double eps, float *inverses);
    /* Like cross_attend_bf16, but applies RMSNorm to q while loading q. */
    bool (*cross_attend_normed)(struct kvr_dev *dev, const struct kvr_rows *r,
                                const struct kvr_cross *c, const struct kvr_cross_work *work,
                                const kvr_bf16 *q, const struct kvr_query_norm *norm,
                                kvr_bf16 *out);
    /* out[f][row] = base[row] + per_frame[f][row], for base [rows,d], per_frame [F,rows,d] and out
     * [F,rows,d]. If same_for_rows is true, per_frame is [F,d] and out[f][row] = base[row] +
     * per_frame[f]. */
    void (*add_modulation)(struct kvr_dev *dev, int n_frames, int n_rows, int d, const float *base,
                           const float *per_frame, bool same_for_rows, float *out);
    /* Computes out = x - y for n elements. */
    void (*subtract)(struct kvr_dev *dev, int64_t n, const float *x, const float *y, float *out);
    /* Computes the L1 norms of x - y and of y, each as KVR_OPS_L1_PARTS partial sums. The partial
     * sums of |x - y| are row 0 of sums [2, KVR_OPS_L1_PARTS], and those of |y| are row 1. */
    void (*l1)(struct kvr_dev *dev, int64_t n, const float *x, const float *y, double *sums);
    /* Computes the denoised sample x0 = x - sigma * flow in float64 and rounds it to float; `flow`
     * is the network's output. */
    void (*x0_from_flow)(struct kvr_dev *dev, int64_t n, const float *x, const float *flow,
                         float sigma, float *x0);
    /* Re-noises x0: x = (1 - sigma) * x0 + sigma * eps, computed in float32. */
    void (*renoise)(struct kvr_dev *dev, int64_t n, const float *x0, const float *eps, float sigma,
                    float *x);
    /* Computes the linear combination `b` of arrays with n elements: terms are added in order in
     * float64, and the sum is rounded once to float. `out` may be any of the arrays of `b`. */
    void (*blend)(struct kvr_dev *dev, int64_t n, const struct kvr_blend *b, float *out);
    /* Clamps the n values of x to [lo, hi], where NaN stays NaN. */
    void (*clamp)(struct kvr_dev *dev, int64_t n, float lo, float hi, float *x);
    /* Sets *flag to 1 if any of the n values is not finite, otherwise to 0. */
    void (*not_finite)(struct kvr_dev *dev, int64_t n, const float *x, int32_t *flag);

    int max_head_dim; /* largest head_dim that rope and cross_attend support, or 0 if there is no
                       * limit */
    bool cross_works; /* whether cross_attend uses its scratch `work`; if not, work is ignored */
};

KVR_ISA_TABLES(struct kvr_ops, kvr_ops_cpu) /* kvr_ops_cpu(): table of the selected CPU variant */
extern const struct kvr_ops kvr_ops_cuda;
const struct kvr_ops *kvr_ops_of(const struct kvr_dev *dev);

/* The functions x0_from_flow, renoise and blend of struct kvr_ops, for arrays in host memory. */
void kvr_x0_from_flow(int64_t n, const float *x, const float *flow, float sigma, float *x0);
void kvr_renoise(int64_t n, const float *x0, const float *eps, float sigma, float *x);
void kvr_blend(int64_t n, const struct kvr_blend *b, float *out);

/* Return the numbers of floats to allocate for k and v of a struct kvr_cross. */
int64_t kvr_cross_k_floats(int n_keys, int n_heads, int head_dim);
int64_t kvr_cross_v_floats(int n_keys, int n_heads, int head_dim);

/* Computes the sinusoidal timestep embedding out [n]: n/2 values cos(t w_k), then n/2 values sin(t
 * w_k), with w_k = 10000^(-k / (n/2)), in float64. */
void kvr_time_sinusoid(float t, int n, float *out);

#ifdef __cplusplus
}
#endif
#endif
