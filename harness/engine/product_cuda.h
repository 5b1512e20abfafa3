/* product_cuda.h - linear layers on sm_90 warp groups, with their epilogue in the same launch: Y = A W^T + b.
 *
 *     if (kvr_product_here(s) && kvr_product_can(&p))
 *         done = kvr_product_cuda(s, &p);
 *
 * A and W are BF16, sums are F32, and the result is rounded to BF16 once:
 *
 *     KVR_PRODUCT_STORE       y = sum + b
 *     KVR_PRODUCT_GELU        y = GELU(sum + b), tanh form, within 2^-18 relative before rounding; NaN of -infinity
 *     KVR_PRODUCT_RESIDUAL    y = y + gate BF16(sum + b), fused; without a gate y + BF16(sum + b)
 *
 * A layer can also leave, for each row, the sum of squares of every KVR_PRODUCT_BLOCK columns that it wrote,
 * for an RMS norm. The order of every sum is fixed: the same call gives the same bits.
 *
 * A LayerNorm before the layer is a pass of its own. Normalising in the producer kept the tensor pipe at 35 %
 * on an H100 (docs/cuda-internals.md). */
#ifndef KVR_ENGINE_PRODUCT_CUDA_H
#define KVR_ENGINE_PRODUCT_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_PRODUCT_LAYERS = 4,  /* over the same A, in one launch */
    KVR_PRODUCT_BLOCK = 128, /* columns of one sum of squares */
};

enum kvr_product_end { KVR_PRODUCT_STORE, KVR_PRODUCT_GELU, KVR_PRODUCT_RESIDUAL };

static inline int kvr_product_blocks(int n)
{
    return (n + KVR_PRODUCT_BLOCK - 1) / KVR_PRODUCT_BLOCK;
}

/* Everything is device memory. */
struct kvr_product_layer {
    const kvr_bf16 *w; /* [n,k] */
    const float *bias; /* [n]; NULL: none */
    kvr_bf16 *y;       /* [m,columns], zeros behind n */
    int n, columns;
    float *squares; /* [m, kvr_product_blocks(n)]; NULL: not wanted */
};

struct kvr_product {
    int64_t m;
    int k;                /* of x and every w, zeros where they are padded */
    const kvr_bf16 *x;    /* [m,k] */
    int tokens_per_frame; /* rows of a frame, which share a gate */
    enum kvr_product_end end;
    const float *gate; /* of KVR_PRODUCT_RESIDUAL, [n] of the row's frame; NULL: 1 */
    int64_t gate_stride;
    int n_layers;
    struct kvr_product_layer layer[KVR_PRODUCT_LAYERS];
    int most_blocks; /* of the launch; 0: as many as there are multiprocessors */
};

/* Whether the stream's device is of compute capability 9.0 and the program has its code. */
bool kvr_product_here(const struct kvr_stream *s);

/* Whether the launcher takes it: k a multiple of 32; n and columns multiples of 8, columns >= n (equal for
 * a residual). x, w and y are aligned to 16 bytes, biases, gates and squares to 8; m * columns < 2^31. */
bool kvr_product_can(const struct kvr_product *p);

/* False: nothing was launched, since the driver makes no map of x or w. */
bool kvr_product_cuda(struct kvr_stream *s, const struct kvr_product *p);

#ifdef __cplusplus
}
#endif
#endif
