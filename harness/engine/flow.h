/* flow.h - runs the operations of a transformer block other than attention: linear layers, norms,
 * residual adds, GELU and RoPE.
 *
 *     kvr_flow_open(&f, dev, gemm, eps);
 *     in = kvr_flow_norm(&f, &rows, &norm, false);                  norm of x
 *     KVR_TRY(kvr_flow_layers(&f, &rows, in, 3, qkv, to));          layers over it
 *     KVR_TRY(kvr_flow_add(&f, &rows, from, out, gate, stride, false));    x += gate * out(from)
 *
 * If the compute type of layers is F32, every activation is F32. If the compute type is BF16, each
 * layer, norm, RoPE, GELU and residual add computes in F32 and rounds its result to BF16 once. The
 * rounded results are stored as BF16 on a GPU, and as floats with BF16 values on the CPU. Results
 * of CPU and GPU differ only by the order of summation. adaLN modulation, norm weights, time
 * embedding, output layer and latents stay F32. */
#ifndef KVR_ENGINE_FLOW_H
#define KVR_ENGINE_FLOW_H

#include "harness/engine/gemm.h"
#include "harness/engine/ops.h"

struct kvr_flow {
    struct kvr_dev *dev;
    const struct kvr_ops *ops;
    struct kvr_gemm *gemm;
    double eps;
    bool rounds;              /* whether activations are rounded to BF16 */
    bool narrow;              /* whether activations are stored as BF16, not only rounded */
    void *x;                  /* [N,d]: the residual stream */
    void *y;                  /* [N,d]: buffer for the normalized x, or for a layer's result before
                               * it is added to x */
    struct kvr_residual left; /* residual whose addition to x is deferred; used only if `narrow` */
    bool fuses;               /* whether one kernel can fuse a GEMM with the residual add and with
                               * partial sums of squares for a later RMSNorm */
    float *squares; /* [N, kvr_linear_squares(d)]: partial sums of squares of each row of the first
                     * layer's result in the last kvr_flow_layers call */
    bool squared;   /* whether the last linear layers that ran wrote `squares` */
};

/* Parameters of the norm before a group of layers. If stride > 0, the norm is modulated: y =
 * norm(x) (1 + factor) + shift. For a modulated norm, `factor` and `shift` have one vector per
 * frame; vectors of successive frames are `stride` floats apart. If stride is 0, y = norm(x) factor
 * + shift with the same vectors for all frames. */
struct kvr_flow_norm {
    const float *factor, *shift;
    int64_t stride; /* floats between frames */
};

/* Input rows of a layer and their number of columns. If x is NULL, the layer reads the buffer that
 * kvr_gemm_input() returns. */
struct kvr_flow_in {
    const void *x;
    int columns;
};

/* Cosines and sines, in float64, of the angles by which RoPE rotates each of the N tokens. */
struct kvr_flow_angles {
    int head_dim;
    const double *cosines, *sines; /* [N, head_dim / 2] */
};

void kvr_flow_open(struct kvr_flow *f, struct kvr_dev *dev, struct kvr_gemm *gemm, double eps);

/* Size of one activation element in bytes. */
size_t kvr_flow_size(const struct kvr_flow *f);
/* Allocates the memory that layer `l` needs for m rows with epilogue `end`. If the layer is run by
 * kvr_flow_layers, `end` must be KVR_LINEAR_ROUNDED. */
enum kvr_status kvr_flow_prepare(const struct kvr_flow *f, const struct kvr_linear *l, int64_t m,
                                 enum kvr_linear_end end);

/* Adds the deferred residual, if any, to x, then normalizes x for the next layer. If `shown` is
 * true or f->narrow is false, the normalized x is written to f->y, where a tap (a callback, see
 * dit.h) can read it. Otherwise it is written to the buffer that kvr_gemm_input() returns. */
struct kvr_flow_in kvr_flow_norm(struct kvr_flow *f, const struct kvr_rows *r,
                                 const struct kvr_flow_norm *norm, bool shown);
/* Makes the F32 matrix x [m,k] the input of the next layer. If f->narrow is true, x is converted to
 * BF16. */
struct kvr_flow_in kvr_flow_floats(struct kvr_flow *f, int64_t m, int k, const float *x);
/* Runs n layers on the same input. The result of layer i is written to y[i], which has N rows and a
 * column for each output of the layer. */
enum kvr_status kvr_flow_layers(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                                int n, const struct kvr_linear *const *l, void *const *y);
/* Runs a layer with n outputs, and writes the GELU of its result to y [N, kvr_gemm_columns(n)].
 * *out then describes y as the next layer's input. */
enum kvr_status kvr_flow_gelu(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                              const struct kvr_linear *l, void *y, struct kvr_flow_in *out);
/* Runs a layer with n outputs, and writes its result to y [N,n] in F32 even if activations are
 * BF16. If f->narrow is true, `in` must be the return value of kvr_flow_floats, or of kvr_flow_norm
 * with shown = false. */
enum kvr_status kvr_flow_out(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                             const struct kvr_linear *l, float *y);
/* Computes x += gate * l(in); the addition may be deferred until the next norm. `gate` has one
 * vector per frame, and vectors of successive frames are `stride` floats apart. If gate is NULL,
 * the gate is 1. If `shown` is true, the layer's result l(in) is also written to f->y, where a tap
 * can read it. */
enum kvr_status kvr_flow_add(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                             const struct kvr_linear *l, const float *gate, int64_t stride,
                             bool shown);
/* Adds the residual that kvr_flow_add deferred, if any, to x. */
void kvr_flow_flush(struct kvr_flow *f, const struct kvr_rows *r);

/* Computes the RMSNorm of x over all d channels, in place, with weights w [d]. */
void kvr_flow_rms(const struct kvr_flow *f, const struct kvr_rows *r, const float *w, void *x);
/* For i = 0, 1, applies RMSNorm with weights w[i] and then RoPE to x[i], an array of queries or
 * keys. The result is written to y[i]. If x[1] is NULL, only y[0] is written. With F32 activations,
 * y[i] must be x[i]. */
void kvr_flow_rms_rope(const struct kvr_flow *f, const struct kvr_rows *r, const float *const w[2],
                       const struct kvr_flow_angles *a, void *const x[2], void *const y[2]);

#endif
