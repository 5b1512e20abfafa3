/* flow.h - what lies between the linear layers of a network's blocks, and the steps there.
 *
 *     kvr_flow_open(&f, dev, gemm, eps);
 *     in = kvr_flow_norm(&f, &rows, &norm, false);                  half a block begins: a norm of x
 *     KVR_TRY(kvr_flow_layers(&f, &rows, in, 3, qkv, to));          and layers over it,
 *     KVR_TRY(kvr_flow_add(&f, &rows, from, out, gate, stride, false));    and ends: x += gate * out(from)
 *
 * Where layers compute in F32 all of it are floats. Where they compute in BF16, what a layer leaves, a
 * norm, a rotation, GELU, and x after each sum is rounded to BF16; sums and whatever goes on within one
 * of these is F32. Such numbers are BF16 in memory on a device whose layers take them, floats
 * of the same values on the CPU; the two differ where sums are taken in another order. */
#ifndef KVR_ENGINE_FLOW_H
#define KVR_ENGINE_FLOW_H

#include "harness/engine/gemm.h"
#include "harness/engine/ops.h"

struct kvr_flow {
    struct kvr_dev *dev;
    const struct kvr_ops *ops;
    struct kvr_gemm *gemm;
    double eps;
    bool rounds;              /* to BF16 */
    bool narrow;              /* and it lies as BF16 */
    void *x;                  /* [N,d]: what blocks add to */
    void *y;                  /* [N,d]: a norm of it, or what is to be added */
    struct kvr_residual left; /* still to be added to x; narrow alone */
    bool fuses; /* a layer's epilogue adds to x, and leaves sums of squares, in one launch */
    float
        *squares; /* [N, kvr_linear_squares(d)]: of the first output of the last kvr_flow_layers, */
    bool squared; /* if it left them */
};

/* The norm that half a block begins with: * (1 + factor) + shift of the row's frame, frames so many floats
 * apart, or * factor + shift. */
struct kvr_flow_norm {
    const float *factor, *shift;
    int64_t stride; /* 0: the latter */
};

/* Input rows of a layer and their columns; x NULL: they are in the gemm's own input buffer. */
struct kvr_flow_in {
    const void *x;
    int columns;
};

/* Angles of every row's pairs, float64. */
struct kvr_flow_angles {
    int head_dim;
    const double *cosines, *sines; /* [N, head_dim / 2] */
};

void kvr_flow_open(struct kvr_flow *f, struct kvr_dev *dev, struct kvr_gemm *gemm, double eps);

/* Bytes of a number between layers. */
size_t kvr_flow_size(const struct kvr_flow *f);
/* m rows of such a layer, ending so (KVR_LINEAR_ROUNDED: kvr_flow_layers), allocate nothing. */
enum kvr_status kvr_flow_prepare(const struct kvr_flow *f, const struct kvr_linear *l, int64_t m,
                                 enum kvr_linear_end end);

/* Of x, after what was left to be added to it; shown: in y for sure. */
struct kvr_flow_in kvr_flow_norm(struct kvr_flow *f, const struct kvr_rows *r,
                                 const struct kvr_flow_norm *norm, bool shown);
/* Floats as a layer takes them. */
struct kvr_flow_in kvr_flow_floats(struct kvr_flow *f, int64_t m, int k, const float *x);
/* y[i] [N,n] of layers that share k. */
enum kvr_status kvr_flow_layers(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                                int n, const struct kvr_linear *const *l, void *const *y);
/* y [N, kvr_gemm_columns(n)]: GELU of a layer; *out says how the next one takes it. */
enum kvr_status kvr_flow_gelu(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                              const struct kvr_linear *l, void *y, struct kvr_flow_in *out);
/* y [N,n] in floats, whatever lies between layers. Of what kvr_flow_floats gave, or a norm not shown. */
enum kvr_status kvr_flow_out(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                             const struct kvr_linear *l, float *y);
/* x += gate * l(in), gate per frame (NULL: 1), now or before the next norm; shown: y has l(in). */
enum kvr_status kvr_flow_add(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                             const struct kvr_linear *l, const float *gate, int64_t stride,
                             bool shown);
/* Add to x what is left. */
void kvr_flow_settle(struct kvr_flow *f, const struct kvr_rows *r);

/* RMS norm of x over all d; and rotation of the heads, of queries and keys, each with its w, from x to y.
 * Where all are floats y is x. Else of one alone where x[1] is NULL. */
void kvr_flow_rms(const struct kvr_flow *f, const struct kvr_rows *r, const float *w, void *x);
void kvr_flow_rms_rope(const struct kvr_flow *f, const struct kvr_rows *r, const float *const w[2],
                       const struct kvr_flow_angles *a, void *const x[2], void *const y[2]);

#endif
