/* kvcomp.h - format and decoder of the stage `kvcomp`, shared by CPU and CUDA.
 *
 * The codes are those of PackKV (packkv.h), with one scale and zero point per token or per 64
 * tokens, over all heads. These codes are the symbols of a canonical Huffman code, one per block.
 * The Huffman code is computed from the number of occurrences of each symbol in the block, plus
 * one. The code words of one token in one head are a vector, and those of 64 consecutive tokens in
 * one head are a unit. A code word is written from its highest bit down, into bytes that are filled
 * from the lowest bit up. Every unit is padded to a whole byte. */
#ifndef KVR_METHODS_KVCOMP_H
#define KVR_METHODS_KVCOMP_H

#include "methods/codecs/packkv/packkv.h"

enum { KVCOMP_SYMBOLS = 16, KVCOMP_LENGTHS = 16, KVCOMP_BLOCK = 64 };

/* A block of T tokens has `blocks` = floor(T / 64) complete runs of 64 tokens. The remaining T % 64
 * tokens are not compressed; the codes of the block start with their values, BF16 [T % 64][H D].
 * The units [blocks][H] follow. The side information of a block starts with the code lengths of the
 * 16 symbols, one byte each. An array [blocks][H] of 6-byte entries, one per unit, follows: the
 * byte offset of the unit from the first unit, uint32, and its number of bytes, uint16. Next is the
 * number of bits of each vector, uint16 [64 * blocks][H]. The scale s and zero point z of each
 * token, or of each 64 tokens, are last, in FP16. */
struct kvcomp {
    int bits;
    bool by_token;
    float rel;
    int64_t n_tok, blocks, n_heads, head_dim;
};

CELLS int64_t kvcomp_tail(const struct kvcomp *g)
{
    return 2 * (g->n_tok - KVCOMP_BLOCK * g->blocks) * g->n_heads * g->head_dim;
}

CELLS int64_t kvcomp_unit_at(const struct kvcomp *g, int64_t block, int64_t h)
{
    return KVCOMP_SYMBOLS + 6 * (block * g->n_heads + h);
}

CELLS int64_t kvcomp_vector_at(const struct kvcomp *g, int64_t t, int64_t h)
{
    return kvcomp_unit_at(g, g->blocks, 0) + 2 * (t * g->n_heads + h);
}

CELLS int64_t kvcomp_scale_at(const struct kvcomp *g, int64_t t)
{
    return kvcomp_vector_at(g, g->blocks * KVCOMP_BLOCK, 0) +
           4 * (g->by_token ? t : t / KVCOMP_BLOCK);
}

CELLS int64_t kvcomp_params(const struct kvcomp *g)
{
    return kvcomp_scale_at(g, g->blocks * KVCOMP_BLOCK);
}

/* A canonical Huffman code: the number of symbols of each code length, and the symbols in the order
 * of their code words. */
struct kvcomp_code {
    int count[KVCOMP_LENGTHS], symbol[KVCOMP_SYMBOLS];
};

CELLS struct kvcomp_code kvcomp_open(cells_bytes_in params)
{
    struct kvcomp_code k;
    int n = 0;

    for (int l = 0; l < KVCOMP_LENGTHS; l++) {
        k.count[l] = 0;
        for (int q = 0; q < KVCOMP_SYMBOLS && l > 0; q++)
            if ((int)(unsigned)params[q] == l) {
                k.count[l]++;
                k.symbol[n++] = q;
            }
    }
    while (n < KVCOMP_SYMBOLS)
        k.symbol[n++] = 0;
    return k;
}

/* Decodes the symbol whose code word starts at *bit, and advances *bit past it. */
CELLS int kvcomp_next(const struct kvcomp_code *k, cells_bytes_in codes, int64_t at, int64_t *bit)
{
    int code = 0, first = 0, before = 0;

    for (int l = 1; l < KVCOMP_LENGTHS; l++) {
        code |= (int)packkv_bits(codes, at, (*bit)++, 1);
        if (code - first < k->count[l])
            return k->symbol[before + code - first];
        before += k->count[l];
        first = (first + k->count[l]) << 1;
        code <<= 1;
    }
    return 0;
}

/* Returns the bit offset of vector (t, h) from the start of its unit (64 tokens of one head), and
 * sets *at to the byte offset of the unit in `codes`. */
CELLS int64_t kvcomp_find(const struct kvcomp *g, cells_bytes_in params, int64_t t, int64_t h,
                          int64_t *at)
{
    const int64_t block = t / KVCOMP_BLOCK;
    int64_t bit = 0;

    *at = kvcomp_tail(g) + (int64_t)cells_get(params, kvcomp_unit_at(g, block, h), 4);
    for (int64_t i = block * KVCOMP_BLOCK; i < t; i++)
        bit += (int64_t)cells_get(params, kvcomp_vector_at(g, i, h), 2);
    return bit;
}

KVR_DECODE_LAUNCHER(kvcomp);

#endif
