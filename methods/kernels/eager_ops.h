/* eager_ops.h - operations on whole tensors for CPU and CUDA; every operation is one kernel launch,
 * as in PyTorch.
 *
 *     kvr_eager_ops_of(dev)->map(dev, KVR_EAGER_DIV, n, 7, 0, false, x, out);     out = x / 7
 *
 * Tensors are F32, and the output tensor may be the input tensor. If `bf16` is set, every operation
 * rounds its input tensors and its result to BF16 values (stored as F32), but not its scalar
 * operands. A NaN stays NaN in every operation. Pointers refer to memory of `dev`; no operation
 * allocates or synchronises. */
#ifndef KVR_METHODS_EAGER_OPS_H
#define KVR_METHODS_EAGER_OPS_H

#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_eager_op {
    KVR_EAGER_ABS,
    KVR_EAGER_NEG,
    KVR_EAGER_ROUND, /* half to even */
    KVR_EAGER_CLAMP, /* clamps to [a, b]; if a is 0, -0 becomes +0 */
    KVR_EAGER_ADD,
    KVR_EAGER_SUB,
    KVR_EAGER_MUL, /* a zero product is stored as +0 */
    KVR_EAGER_DIV,
};

/* Describes a part of a tensor [T, channels]: tokens [t0, t0 + n) and channels [c0, c0 + width).
 * The tensor is divided into quantization groups of `group` elements along `axis` (enum
 * kvr_group_axis). */
struct kvr_eager_part {
    int64_t t0, n, c0, width, channels;
    int axis, group;
};

/* Describes a vector of n elements with one quantization group per element. With this description,
 * the function `zip` below combines two vectors element by element. */
static inline struct kvr_eager_part kvr_eager_each(int64_t n)
{
    struct kvr_eager_part p;

    p.t0 = p.c0 = 0;
    p.n = 1;
    p.width = p.channels = n;
    p.axis = KVR_AXIS_CHANNELS;
    p.group = 1;
    return p;
}

struct kvr_eager_ops {
    /* out[i] = x[i] op a, for n elements; CLAMP also uses b */
    void (*map)(struct kvr_dev *dev, enum kvr_eager_op op, int64_t n, float a, float b, bool bf16,
                const float *x, float *out);
    /* out[i] = x[i] op g[j], where j is the quantization group of element i; x and out are [n,
     * width] */
    void (*zip)(struct kvr_dev *dev, enum kvr_eager_op op, const struct kvr_eager_part *p,
                bool bf16, const float *x, const float *g, float *out);
    void (*zip_half)(struct kvr_dev *dev, enum kvr_eager_op op, const struct kvr_eager_part *p,
                     bool bf16, const float *x, const kvr_f16 *g, float *out);
    /* Computes the smallest element of each group, or the largest element if `most` is set. The
     * result of a group with a non-finite element is NaN. */
    void (*reduce)(struct kvr_dev *dev, bool most, const struct kvr_eager_part *p, int64_t n_groups,
                   const float *x, float *out);
    /* Copies n elements, then appends zeros up to `all` elements. */
    void (*pad)(struct kvr_dev *dev, int64_t n, int64_t all, const float *x, float *out);
    /* Rounds n elements to the nearest FP16; a NaN becomes the FP16 number `nan`. */
    void (*half)(struct kvr_dev *dev, int64_t n, kvr_f16 nan, const float *x, kvr_f16 *out);
    /* Packs the integers x + plus of a tensor [n_tok, channels] as codes of `bits` bits (pack.h);
     * NaN becomes code 0. */
    void (*pack)(struct kvr_dev *dev, int64_t n_tok, int64_t channels, int bits, float plus,
                 const float *x, uint8_t *codes);
    /* Unpacks codes of a tensor [n_tok, channels] and subtracts `minus`. */
    void (*unpack)(struct kvr_dev *dev, int64_t n_tok, int bits, const struct kvr_eager_part *p,
                   float minus, const uint8_t *codes, float *out);
    /* Computes one butterfly stage of the Walsh-Hadamard transform of rows of d elements: replaces
     * elements a and b that are `stride` apart by a + b and a - b. x has n elements in all. */
    void (*butterfly)(struct kvr_dev *dev, int64_t n, int d, int stride, bool bf16, float *x);
};

const struct kvr_eager_ops *kvr_eager_ops_of(const struct kvr_dev *dev); /* NULL: the CPU's */
extern const struct kvr_eager_ops kvr_eager_cpu, kvr_eager_cuda;

#ifdef __cplusplus
}
#endif
#endif
