/* blocks.h - dequantizes the block types of GGUF files.
 *
 *     const struct kvr_quant *b = kvr_quant_find("Q4_1");
 *     b->to_f32(bytes, n_blocks, rows);                        n_blocks x b->n floats
 *
 * The block formats are those of ggml. A block stores a scale d, in some formats a minimum m, and
 * integer codes q; d and m are little-endian F16. Dequantization computes values x. The number
 * after a format's name is the number of elements per block.
 *
 *     Q4_0  32: d, 16 bytes.          x = d (q - 8). Byte j: element j low, element j + 16 high
 *     Q4_1  32: d, m, 16 bytes.       x = d q + m
 *     Q5_1  32: d, m, 4 bytes of fifth bits (element j: bit j), 16 bytes.   x = d q + m
 *     Q8_0  32: d, 32 int8.           x = d q
 *     Q4_K 256: d, m, 12 bytes of 8 six-bit scales s and 8 minima t, 128 bytes.
 *               Of each 64 elements the first 32 are the low nibbles of 32 bytes, the others the
 *               high ones; each 32 have one s and t.   x = (d s) q - (m t)
 *     Q6_K 256: 128 bytes of low 4 bits, 64 bytes of high 2 bits, 16 int8 scales s, one per 16
 *               elements, d last.     x = (d s) (q - 32)
 *
 * Each product in these formulas is rounded to F32, and products in parentheses are computed
 * first. */
#ifndef KVR_WEIGHTS_BLOCKS_H
#define KVR_WEIGHTS_BLOCKS_H

#include "harness/core/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_quant {
    const char *name;
    int n, n_bytes; /* number of elements per block, and size of a block in bytes */
    void (*to_f32)(const unsigned char *blocks, int64_t n_blocks, float *to);
};

/* A GGUF tensor type. */
struct kvr_gguf_type {
    uint32_t number;
    const char *name;
    enum kvr_dtype dtype;           /* element type of an unquantized type, or KVR_N_DTYPES
                                     * for a block-quantized type */
    const struct kvr_quant *blocks; /* block format; NULL for an unquantized type, and for
                                     * a block-quantized type that kvreel cannot dequantize */
};
const struct kvr_gguf_type *kvr_gguf_type_find(uint32_t number); /* NULL: unknown */
/* Finds a block format by its name, such as "Q4_1"; returns NULL if that format is not
 * supported. */
const struct kvr_quant *kvr_quant_find(const char *name);

#ifdef __cplusplus
}
#endif
#endif
