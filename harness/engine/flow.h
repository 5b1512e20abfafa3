/* flow.h - activations between the linear layers of a transformer block: norms, residual adds,
 * GELU, RoPE.
 *
 *     kvr_flow_open(&f, dev, gemm, eps);
 *     in = kvr_flow_norm(&f, &rows, &norm, false);                  norm of x
 *     KVR_TRY(kvr_flow_layers(&f, &rows, in, 3, qkv, to));          layers over it
 *     KVR_TRY(kvr_flow_add(&f, &rows, from, out, gate, stride, false));    x += gate * out(from)
 *
 * With layers in F32 every activation is F32. With layers in BF16 each layer, norm, RoPE, GELU and
 * residual add computes in F32 and rounds its result to BF16 once. A device stores such results as
 * BF16, the CPU as floats of the same values. The two differ only by the order of sums. */
#ifndef KVR_ENGINE_FLOW_H
#define KVR_ENGINE_FLOW_H

#include "harness/engine/gemm.h"
#include "harness/engine/ops.h"

struct kvr_flow {
    struct kvr_dev *dev;
    const struct kvr_ops *ops;
    struct kvr_gemm *gemm;
    double eps;
    bool rounds;              /* activations are rounded to BF16 */
    bool narrow;              /* activations are also stored as BF16 */
    void *x;                  /* [N,d]: the residual stream */
    void *y;                  /* [N,d]: a norm of x, or a term to be added to x */
    struct kvr_residual left; /* a term not yet added to x; used only if `narrow` */
    bool fuses;               /* one launch multiplies, adds to x and writes sums of squares */
    float *squares; /* [N, kvr_linear_squares(d)]: sums of squares of the first output of the last
                   * kvr_flow_layers */
    bool squared;   /* `squares` is valid */
};

/* Norm and modulation before a group of layers. stride > 0: y = norm(x) (1 + factor) + shift, with
 * factor and shift of the row's frame, `stride` floats apart. stride 0: y = norm(x) factor +
 * shift. */
struct kvr_flow_norm {
    const float *factor, *shift;
    int64_t stride; /* floats between frames */
};

/* Input rows of a layer and their number of columns. x NULL: the input is in the gemm's input
 * buffer. */
struct kvr_flow_in {
    const void *x;
    int columns;
};

/* RoPE angles of every row's pairs, float64. */
struct kvr_flow_angles {
    int head_dim;
    const double *cosines, *sines; /* [N, head_dim / 2] */
};

void kvr_flow_open(struct kvr_flow *f, struct kvr_dev *dev, struct kvr_gemm *gemm, double eps);

/* Bytes of an activation element. */
size_t kvr_flow_size(const struct kvr_flow *f);
/* Allocates all memory for m rows of this layer with this epilogue (KVR_LINEAR_ROUNDED:
 * kvr_flow_layers). */
enum kvr_status kvr_flow_prepare(const struct kvr_flow *f, const struct kvr_linear *l, int64_t m,
                                 enum kvr_linear_end end);

/* Adds the pending term to x, then computes the norm of x. With `shown` the norm is written to y in
 * any case. */
struct kvr_flow_in kvr_flow_norm(struct kvr_flow *f, const struct kvr_rows *r,
                                 const struct kvr_flow_norm *norm, bool shown);
/* Converts floats to a layer's input. */
struct kvr_flow_in kvr_flow_floats(struct kvr_flow *f, int64_t m, int k, const float *x);
/* Writes the results of n layers over the same input to y[i], [N, outputs of layer i] each. */
enum kvr_status kvr_flow_layers(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                                int n, const struct kvr_linear *const *l, void *const *y);
/* y [N, kvr_gemm_columns(n)] receives the GELU of a layer's result; *out describes it as the next
 * layer's input. */
enum kvr_status kvr_flow_gelu(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                              const struct kvr_linear *l, void *y, struct kvr_flow_in *out);
/* y [N,n] in F32, whatever the activation type. `in`: from kvr_flow_floats, or from a norm without
 * `shown`. */
enum kvr_status kvr_flow_out(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                             const struct kvr_linear *l, float *y);
/* x += gate * l(in), now or before the next norm. gate: one vector per frame, `stride` floats
 * apart; NULL: 1. With `shown`, y receives l(in). */
enum kvr_status kvr_flow_add(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                             const struct kvr_linear *l, const float *gate, int64_t stride,
                             bool shown);
/* Adds the pending term to x. */
void kvr_flow_flush(struct kvr_flow *f, const struct kvr_rows *r);

/* RMSNorm of x over all d, in place. kvr_flow_rms_rope also applies RoPE: it writes queries x[0]
 * with weights w[0] to y[0], and keys x[1] with weights w[1] to y[1]. x[1] NULL: there are queries
 * only. In F32 y must be x. */
void kvr_flow_rms(const struct kvr_flow *f, const struct kvr_rows *r, const float *w, void *x);
void kvr_flow_rms_rope(const struct kvr_flow *f, const struct kvr_rows *r, const float *const w[2],
                       const struct kvr_flow_angles *a, void *const x[2], void *const y[2]);

#endif
