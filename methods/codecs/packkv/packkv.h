/* packkv.h - format and decoder of the stage `packkv`, shared by CPU and CUDA.
 *
 * The stage quantizes the elements x of a token, over all heads, with every operation rounded to
 * FP16. The bits b and the factor rel are options, and rne rounds to the nearest integer, ties to
 * even:
 *
 *     s = (max x - min x) rel    z = rne(min x / s)    q = clamp(rne(x / s) - z, 0, 2^b - 1)
 *     x^ = (q + z) s
 *
 * The scale s is at least max |x| / 1024, so that FP16 can represent the integer z.
 *
 * Tokens are quantized in batches of 64, and the last T % 64 tokens of a block stay in BF16. A
 * permutation of each batch makes similar tokens consecutive. The permuted tokens are divided into
 * four groups of 16 tokens, called rounds. The codes of a batch in one head are stored together.
 * These bytes are called a unit; they contain for each round:
 *
 *     the smallest code m of each channel, b bits; the number n of bits of q - m, in lens bits;
 *     then channel by channel 16 n-bit numbers q - m, from the lowest bit up
 *
 * The data of each round is padded to a whole byte. */
#ifndef KVR_METHODS_PACKKV_H
#define KVR_METHODS_PACKKV_H

#include "methods/codecs/cells/cells.h"

enum { PACKKV_BLOCK = 64, PACKKV_ROUND = 16, PACKKV_ROUNDS = PACKKV_BLOCK / PACKKV_ROUND };

/* The codes of a block start with the last T % 64 tokens, which are not quantized, in BF16 [T %
 * 64,H,D]. Next are the units [blocks][H], where `blocks` = floor(T / 64) is the number of batches
 * of 64 tokens. A unit has the codes of a batch in one head. The side information of a block starts
 * with an array [blocks][H] of 16-byte entries, one per unit. An entry has the byte offset of the
 * unit from the first unit and the unit's number of bytes, both uint32. It also has four uint16,
 * the byte offsets from the unit's start at which its four rounds (16 tokens each) end. Next are s
 * and z of each quantized token, in FP16. Last are the permutations, uint8 [blocks][64]: element i
 * is the index, 0 to 63, that permuted token i had in its batch before the permutation. */
struct packkv {
    int bits, lens;
    float rel;
    int64_t n_tok, blocks, n_heads, head_dim;
};

/* Reads an n-bit number, n <= 8, that starts at bit `bit` counted from byte p[at]. The number may
 * extend into the next byte. */
CELLS unsigned packkv_bits(cells_bytes_in p, int64_t at, int64_t bit, int n)
{
    const int64_t byte = at + bit / 8;
    const int shift = (int)(bit % 8);
    unsigned raw = p[byte];

    if (shift + n > 8)
        raw |= (unsigned)p[byte + 1] << 8;
    return raw >> shift & ((1u << n) - 1u);
}

CELLS int64_t packkv_tail(const struct packkv *g)
{
    return 2 * (g->n_tok - PACKKV_BLOCK * g->blocks) * g->n_heads * g->head_dim;
}

CELLS int64_t packkv_unit_at(const struct packkv *g, int64_t block, int64_t h)
{
    return 16 * (block * g->n_heads + h);
}

CELLS int64_t packkv_scale_at(const struct packkv *g, int64_t t)
{
    return packkv_unit_at(g, g->blocks, 0) + 4 * t;
}

CELLS int64_t packkv_order_at(const struct packkv *g, int64_t block)
{
    return packkv_scale_at(g, g->blocks * PACKKV_BLOCK) + PACKKV_BLOCK * block;
}

/* Returns the position, 0 to 63, of token t after the permutation of its batch of 64 tokens. */
CELLS int packkv_slot(const struct packkv *g, cells_bytes_in params, int64_t t)
{
    const int64_t at = packkv_order_at(g, t / PACKKV_BLOCK);
    int i = 0;

    while (i + 1 < PACKKV_BLOCK && (int64_t)(unsigned)params[at + i] != t % PACKKV_BLOCK)
        i++;
    return i;
}

/* Returns the byte offset in the codes of a round (16 permuted tokens of head h). The round
 * contains permuted token i, 0 <= i < 64, of batch number `block`. */
CELLS int64_t packkv_round_at(const struct packkv *g, cells_bytes_in params, int64_t block,
                              int64_t h, int i)
{
    const int64_t unit = packkv_unit_at(g, block, h);
    const int round = i / PACKKV_ROUND;
    const int64_t before = round ? (int64_t)cells_get(params, unit + 8 + 2 * (round - 1), 2) : 0;

    return packkv_tail(g) + (int64_t)cells_get(params, unit, 4) + before;
}

/* Returns the number of bits of the header of a round (16 tokens of a head). For every channel of
 * the head, the header has the smallest code m (`bits` bits) and the number n of bits of a
 * difference q - m (`lens` bits). */
CELLS int64_t packkv_head_bits(const struct packkv *g)
{
    return g->head_dim * (g->bits + g->lens);
}

CELLS int packkv_length(const struct packkv *g, cells_bytes_in codes, int64_t round, int64_t c)
{
    return (int)packkv_bits(codes, round, g->head_dim * g->bits + c * g->lens, g->lens);
}

/* Returns the code q of channel c of permuted token i. The codes of the token's round (16 tokens)
 * start at byte `round` of `codes`. The channel's n-bit differences q - m start at bit `bit` of the
 * round, where m is the channel's smallest code in the round. */
CELLS unsigned packkv_code(const struct packkv *g, cells_bytes_in codes, int64_t round, int64_t c,
                           int i, int64_t bit, int n)
{
    const unsigned least = packkv_bits(codes, round, c * g->bits, g->bits);

    return least + (n ? packkv_bits(codes, round, bit + (int64_t)(i % PACKKV_ROUND) * n, n) : 0u);
}

CELLS float packkv_half(float x)
{
    return cells_load(CELLS_F16, cells_store(CELLS_F16, x));
}

/* Scale and zero point of the quantizer that PackKV and KVComp share. The values to quantize are
 * finite FP16 numbers in [lo, hi]. */
struct packkv_fit {
    float s, z;
};

CELLS struct packkv_fit packkv_fit(float lo, float hi, float rel, bool bad)
{
    const float most = fabsf(lo) > fabsf(hi) ? fabsf(lo) : fabsf(hi);
    const float least = packkv_half(most / 1024);
    struct packkv_fit f;

    f.s = bad ? NAN : packkv_half(packkv_half(hi - lo) * rel);
    f.s = f.s < least ? least : f.s; /* with a smaller scale, |z| would exceed 1024, and FP16 might
                                      * not represent z exactly */
    f.z = f.s > 0 ? packkv_half(rintf(packkv_half(lo / f.s))) : 0;
    return f;
}

CELLS unsigned packkv_coded(const struct packkv_fit *f, float x, int bits)
{
    if (!(f->s > 0))
        return 0;
    return (unsigned)cells_clamp(rintf(packkv_half(packkv_half(x) / f->s)) - f->z, 0,
                                 (float)((1 << bits) - 1));
}

CELLS float packkv_value(unsigned q, float s, float z)
{
    return ((float)q + z) * s;
}

KVR_DECODE_LAUNCHER(packkv);

#endif
