/* product_cuda.h - linear layers as sm_90 does them best, with the norm before and the residual behind
 * them in the same launch: Y = A W^T + b.
 *
 *     if (kvr_product_here(s) && kvr_product_can(&p))
 *         done = kvr_product_cuda(s, &p);
 *
 * A is rows of BF16, or their LayerNorm: then x is read, its mean and deviation are merged from the
 * moments that the product which wrote x left behind, and what is multiplied is the norm rounded to BF16
 * once. Sums are F32; what is left of them is rounded to BF16 once, at the end:
 *
 *     KVR_PRODUCT_STORE       y = sum + b
 *     KVR_PRODUCT_GELU        y = GELU(sum + b), to 2^-18 of itself before it is rounded; of -infinity NaN
 *     KVR_PRODUCT_RESIDUAL    y = y + gate BF16(sum + b), fused; without a gate y + BF16(sum + b)
 *
 * And of what it wrote, if asked for, a product leaves for each row what the next one needs, one entry for
 * every KVR_PRODUCT_BLOCK columns: mean and sum of squared differences from it, or the sum of squares.
 * The order of every sum is fixed: the same call gives the same bits. */
#ifndef KVR_ENGINE_PRODUCT_CUDA_H
#define KVR_ENGINE_PRODUCT_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_PRODUCT_LAYERS = 4,  /* over the same A, in one launch */
    KVR_PRODUCT_BLOCK = 128, /* columns that share an entry of statistics */
};

enum kvr_product_end { KVR_PRODUCT_STORE, KVR_PRODUCT_GELU, KVR_PRODUCT_RESIDUAL };
enum kvr_product_left { KVR_LEFT_NOTHING, KVR_LEFT_MOMENTS, KVR_LEFT_SQUARES };

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
    enum kvr_product_left left;
    float *of_rows; /* [m, kvr_product_blocks(n)], moments two floats each */
};

/* a = (x - mean) / sqrt(variance + eps), then * (1 + factor) + add of the row's frame, or
 * * factor + add. */
struct kvr_product_norm {
    const float *moments; /* of x: [m, kvr_product_blocks(k)] pairs */
    const float *factor, *add;
    int64_t stride; /* floats from one frame's vectors to the next's */
    bool modulated; /* 1 + factor, of the row's frame; else factor, for all rows */
    float eps;
};

struct kvr_product {
    int64_t m;
    int k;                               /* of x and every w, zeros where they are padded */
    const kvr_bf16 *x;                   /* [m,k] */
    const struct kvr_product_norm *norm; /* NULL: A is x */
    int tokens_per_frame;                /* rows of a frame: for the norm and the gate */
    enum kvr_product_end end;
    const float *gate; /* of KVR_PRODUCT_RESIDUAL, [n] of the row's frame; NULL: 1 */
    int64_t gate_stride;
    int n_layers;
    struct kvr_product_layer layer[KVR_PRODUCT_LAYERS];
    int most_blocks; /* of the launch; 0: as many as there are multiprocessors */
};

/* Whether the stream's device is of compute capability 9.0 and the program has its code. */
bool kvr_product_here(const struct kvr_stream *s);

/* Whether the launcher takes it: k a multiple of 32; n of 8, columns of 8 and not fewer than n (of a
 * residual just n); x, w, y, the vectors of a norm and their strides at multiples of 16 bytes, biases
 * and gates of 8; with a norm k without padding; m and what m rows of columns are below 2^31. */
bool kvr_product_can(const struct kvr_product *p);

/* False: nothing was launched, since the driver makes no map of x or w. */
bool kvr_product_cuda(struct kvr_stream *s, const struct kvr_product *p);

#ifdef __cplusplus
}
#endif
#endif
