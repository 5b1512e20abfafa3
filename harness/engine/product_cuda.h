/* product_cuda.h - linear layers by wgmma on sm_90 with fused epilogues: Y = A W^T + b.
 *
 *     if (kvr_product_supported(s) && kvr_product_accepts(&p))
 *         done = kvr_product_cuda(s, &p);
 *
 * A and W are BF16, sums are F32, and the result is rounded to BF16 once:
 *
 *     KVR_PRODUCT_STORE       y = sum + b
 *     KVR_PRODUCT_GELU        y = GELU(sum + b), tanh form, within 2^-18 relative before rounding; NaN of -infinity
 *     KVR_PRODUCT_RESIDUAL    y = y + gate BF16(sum + b), fused; without a gate y + BF16(sum + b)
 *
 * For a following RMSNorm a layer can also write, per row, the sum of squares of every
 * KVR_PRODUCT_BLOCK columns. Results are deterministic: the order of every sum is fixed.
 *
 * A LayerNorm before the layer is a separate pass: fused into the producer it limited the tensor
 * pipe to 35 % on an H100 (docs/cuda-internals.md). */
#ifndef KVR_ENGINE_PRODUCT_CUDA_H
#define KVR_ENGINE_PRODUCT_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_PRODUCT_LAYERS = 4,  /* maximum layers over the same A in one launch */
    KVR_PRODUCT_BLOCK = 128, /* columns of one sum of squares */
};

enum kvr_product_end { KVR_PRODUCT_STORE, KVR_PRODUCT_GELU, KVR_PRODUCT_RESIDUAL };

static inline int kvr_product_blocks(int n)
{
    return (n + KVR_PRODUCT_BLOCK - 1) / KVR_PRODUCT_BLOCK;
}

/* All pointers are device memory. */
struct kvr_product_layer {
    const kvr_bf16 *w; /* [n,k] */
    const float *bias; /* [n]; NULL: 0 */
    kvr_bf16 *y;       /* [m,columns], zero from column n on */
    int n, columns;
    float *squares; /* sums of squares [m, kvr_product_blocks(n)]; NULL: not written */
};

struct kvr_product {
    int64_t m;
    int k;                /* columns of x and w, including zero padding */
    const kvr_bf16 *x;    /* [m,k] */
    int tokens_per_frame; /* rows per frame; the rows of a frame share a gate */
    enum kvr_product_end end;
    const float *gate; /* KVR_PRODUCT_RESIDUAL: [n] per frame; NULL: 1 */
    int64_t gate_stride;
    int n_layers;
    struct kvr_product_layer layer[KVR_PRODUCT_LAYERS];
    int most_blocks; /* maximum CTAs of the launch; 0: one per SM */
};

/* Whether the device has compute capability 9.0 and the program contains sm_90a code. */
bool kvr_product_supported(const struct kvr_stream *s);

/* Whether the launcher supports these arguments: k a multiple of 32; n and columns multiples of 8,
 * columns >= n (equal for a residual); x, w and y 16-byte aligned; biases, gates and squares 8-byte
 * aligned; m * columns < 2^31. */
bool kvr_product_accepts(const struct kvr_product *p);

/* False: the driver refuses a tensor map of x or w, and nothing was launched. */
bool kvr_product_cuda(struct kvr_stream *s, const struct kvr_product *p);

#ifdef __cplusplus
}
#endif
#endif
