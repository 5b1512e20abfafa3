/* product_cuda.h - linear layers y = x w^T + bias by wgmma on sm_90, with fused epilogues.
 *
 *     if (kvr_product_supported(s) && kvr_product_accepts(&p))
 *         done = kvr_product_cuda(s, &p);
 *
 * The operands x and w are BF16, z = x w^T + bias is F32, and y is rounded to BF16.
 * KVR_PRODUCT_STORE computes y = z. KVR_PRODUCT_GELU computes y = GELU(z) in the tanh form. Before
 * rounding, the relative error of this GELU, which uses the approximate instructions ex2 and rcp,
 * is at most 2^-18. GELU(-infinity) is NaN.
 * KVR_PRODUCT_RESIDUAL computes y = y + gate * r, or y = y + r without a gate, where r is z rounded
 * to BF16.
 *
 * For a subsequent RMSNorm, a layer can also write sums of squares of its outputs, with one sum per
 * row and per KVR_PRODUCT_BLOCK columns. Results are deterministic, because the order of every sum
 * is fixed.
 *
 * A LayerNorm before the layer is a separate kernel. A GEMM that normalized x while loading it used
 * an H100's tensor cores only 35 % of the time (docs/decisions.md). */
#ifndef KVR_ENGINE_PRODUCT_CUDA_H
#define KVR_ENGINE_PRODUCT_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_PRODUCT_LAYERS = 4,  /* maximum number of layers per launch, all with the same input x */
    KVR_PRODUCT_BLOCK = 128, /* number of columns of y whose squares are added to one partial sum */
};

enum kvr_product_end { KVR_PRODUCT_STORE, KVR_PRODUCT_GELU, KVR_PRODUCT_RESIDUAL };

static inline int kvr_product_blocks(int n)
{
    return (n + KVR_PRODUCT_BLOCK - 1) / KVR_PRODUCT_BLOCK;
}

/* All pointers are device pointers. */
struct kvr_product_layer {
    const kvr_bf16 *w; /* [n,k] */
    const float *bias; /* [n]; NULL: 0 */
    kvr_bf16 *y;       /* output [m,columns]; columns n to columns - 1 are set to 0 */
    int n, columns;
    float *squares; /* sums of squares of y [m, kvr_product_blocks(n)]; NULL: not computed */
};

struct kvr_product {
    int64_t m;
    int k;                /* number of columns of x and w, including zero padding */
    const kvr_bf16 *x;    /* [m,k] */
    int tokens_per_frame; /* number of rows per frame; the rows of a frame share a gate */
    enum kvr_product_end end;
    const float *gate; /* [frames, n] with row stride gate_stride, for KVR_PRODUCT_RESIDUAL;
                        * NULL: all gates are 1 */
    int64_t gate_stride;
    int n_layers;
    struct kvr_product_layer layer[KVR_PRODUCT_LAYERS];
    int most_blocks; /* maximum number of CTAs per launch; 0: the number of SMs */
};

/* Whether the device has compute capability 9.0 and the program contains sm_90a code. */
bool kvr_product_supported(const struct kvr_stream *s);

/* Whether the kernel supports these arguments. The depth k must be a multiple of 32. A layer's
 * number n of outputs and the row length `columns` of its y must be multiples of 8, with n <=
 * columns; KVR_PRODUCT_RESIDUAL requires n = columns. With sums of squares, n and `columns` must
 * have equally many blocks of KVR_PRODUCT_BLOCK columns. The number of elements of y, m * columns,
 * must be below 2^31. The arrays x, w and y must be 16-byte aligned, and biases, gates and sums of
 * squares must be 8-byte aligned. */
bool kvr_product_accepts(const struct kvr_product *p);

/* Launches one kernel that computes all layers of p. Returns false, without a launch, if the driver
 * cannot create a tensor map of x or of a layer's w. */
bool kvr_product_cuda(struct kvr_stream *s, const struct kvr_product *p);

#ifdef __cplusplus
}
#endif
#endif
