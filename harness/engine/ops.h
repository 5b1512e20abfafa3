/* ops.h - what a forward does besides linear layers and self-attention; one table per backend.
 *
 *     const struct kvr_ops *ops = &kvr_ops_cpu;
 *     ops->norm_modulate(&rows, x, shift, scale, stride, eps, y);
 *
 * N tokens of d values, row-major; "per frame" vectors belong to tokens_per_frame tokens each and
 * lie `stride` floats apart. Every row is computed by one thread from that row alone, so results
 * do not depend on the number of threads. NaN in, NaN out. Nothing is allocated. */
#ifndef KVR_ENGINE_OPS_H
#define KVR_ENGINE_OPS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_OPS_MAX_TEXT = 8192 }; /* keys of cross-attention: bounds its score buffer */

struct kvr_rows {
    int64_t n;            /* N */
    int d;                /* values per token */
    int tokens_per_frame; /* S; for the per-frame vectors */
};

/* Latent frames and the patches they are cut into: gh x gw tokens of C * ph * pw values. */
struct kvr_patching {
    int n_frames, channels, height, width, ph, pw;
};

/* Keys and values of the prompt, laid out for cross_attend. */
struct kvr_cross {
    int n_keys, n_heads, head_dim;
    float *k; /* [H, D, round16(n_keys)], zero padded */
    float *v; /* [H, n_keys, round16(D)], zero padded */
};

struct kvr_ops {
    /* y = LN(x) * (1 + scale) + shift, LN without affine, biased variance. */
    void (*norm_modulate)(const struct kvr_rows *r, const float *x, const float *shift,
                          const float *scale, int64_t stride, double eps, float *y);
    /* y = LN(x) * w + b. */
    void (*norm_affine)(const struct kvr_rows *r, const float *x, const float *w, const float *b,
                        double eps, float *y);
    /* x = x / sqrt(mean(x^2) + eps) * w, over all d. */
    void (*rms_norm)(const struct kvr_rows *r, const float *w, double eps, float *x);
    /* Rotate adjacent pairs of every head, in float64. cosines, sines [N, head_dim / 2]. */
    void (*rope)(const struct kvr_rows *r, int head_dim, const double *cosines, const double *sines,
                 float *x);
    /* x += y * gate, gate per frame; gate NULL: x += y. */
    void (*add)(const struct kvr_rows *r, const float *y, const float *gate, int64_t stride,
                float *x);
    void (*gelu)(int64_t n, float *x);                 /* tanh form */
    void (*silu)(int64_t n, const float *x, float *y); /* x and y may be one */
    /* [F,C,H,W] -> [N, C*ph*pw] in order (c, p, q). */
    void (*patchify)(const struct kvr_patching *p, const float *x, float *out);
    /* [N, ph*pw*C] in order (p, q, c) -> [F,C,H,W]. */
    void (*unpatchify)(const struct kvr_patching *p, const float *in, float *x);
    /* k, v [n_keys, H*D] into c's layout. */
    void (*cross_pack)(struct kvr_cross *c, const float *k, const float *v);
    /* out = softmax(q k^T / sqrt(D)) v, no mask; q, out [N, H*D]. */
    void (*cross_attend)(const struct kvr_rows *r, const struct kvr_cross *c, const float *q,
                         float *out);
};

extern const struct kvr_ops kvr_ops_cpu;

/* Floats that kvr_cross.k and .v need. */
int64_t kvr_cross_k_floats(int n_keys, int n_heads, int head_dim);
int64_t kvr_cross_v_floats(int n_keys, int n_heads, int head_dim);

/* [cos(t w_k).., sin(t w_k)..], w_k = 10000^(-k / half), half = n / 2; in float64. */
void kvr_time_sinusoid(float t, int n, float *out);

/* Angles of one position for RoPE: pairs [0, c-2g) time, then g height, g width, c = D/2,
 * g = floor(c / 3); every axis has its own geometric sequence from 1. */
void kvr_rope_angles(int head_dim, int frame, int row, int col, double *cosines, double *sines);

#ifdef __cplusplus
}
#endif
#endif
