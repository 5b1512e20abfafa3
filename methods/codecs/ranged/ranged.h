/* ranged.h - arithmetic of the stage `ranged`, shared by CPU and CUDA.
 *
 * For a token over all heads, let A = BF16(max |x|). Let C = bins / 2 - 1, where the option `bins`
 * is even. An element x becomes the symbol rne(x * (C / A) + C) in [0, 2 C], where rne rounds to
 * the nearest integer, ties to even. A symbol decodes to (symbol - C) / C * A. An integer range
 * coder with per-channel frequencies compresses the symbols of a channel, as in CacheGen's code:
 *
 *     f[i] = floor((65535 - bins) h[i] / T) + i,  i = 0 .. bins
 *     span = high - low + 1;  high = low - 1 + (span f[s + 1] >> 16);  low += span f[s] >> 16
 *
 * In the formula of f, h[i] is how many of the channel's T symbols are less than i. In the formula
 * of high, CacheGen's code uses 65536, the end of the frequency range, in place of f[bins]. While
 * low and high have equal top bits, the coder outputs this bit and shifts it out of both numbers.
 * While low is in [2^30, 2^31) and high is in [2^31, 3 * 2^30), the coder replaces low by 2 low -
 * 2^31 and high by 2 high - 2^31 + 1, and increments the number of pending bits. At the end of a
 * segment, the coder increments the number of pending bits. It then outputs one bit, 0 if low <
 * 2^30 and else 1, followed by the pending bits, each the inverse of that bit. Bytes are filled
 * from the highest bit down. The coder restarts for every segment of RANGED_SEGMENT tokens, with
 * the same frequencies. */
#ifndef KVR_METHODS_RANGED_H
#define KVR_METHODS_RANGED_H

#include "methods/codecs/cells/cells.h"

enum { RANGED_SEGMENT = 256, RANGED_MAX_BINS = 64 };

/* The codes of a block are the coder's output bytes, segment by segment, and channel by channel
 * within a segment. The side information of a block starts with the offsets in `codes` at which the
 * bytes of each segment and channel end, uint32 [segments][channels]. Next are the cumulative
 * symbol frequencies f, uint16 [channels][bins + 1]. The tokens' maxima A are last, BF16 [T]. */
struct ranged {
    int bins;
    int64_t n_tok, channels, segments;
};

CELLS int64_t ranged_f_at(const struct ranged *g, int64_t channel, int64_t i)
{
    return 4 * g->segments * g->channels + 2 * (channel * (g->bins + 1) + i);
}

CELLS int64_t ranged_size_at(const struct ranged *g, int64_t t)
{
    return ranged_f_at(g, g->channels, 0) + 2 * t;
}

CELLS float ranged_value(const struct ranged *g, int symbol, float size)
{
    const float c = (float)(g->bins / 2 - 1);

    return ((float)symbol - c) / c * size;
}

/* Bit number `bit` of the n bytes that start at codes[from], or 0 beyond the last of these
 * bytes. */
CELLS unsigned ranged_bit(cells_bytes_in codes, int64_t from, int64_t n, int64_t bit)
{
    return bit / 8 < n ? (unsigned)codes[from + bit / 8] >> (7 - bit % 8) & 1u : 0u;
}

/* State of the range decoder in one channel of a segment (RANGED_SEGMENT tokens). */
struct ranged_reader {
    unsigned low, high, value;
    int64_t from, n, bit; /* offset in `codes` and number of the bytes to decode, and index of the
                           * next bit to read */
};

CELLS struct ranged_reader ranged_open(cells_bytes_in codes, int64_t from, int64_t n)
{
    struct ranged_reader r;

    r.low = 0;
    r.high = 0xffffffffu;
    r.value = 0;
    r.from = from;
    r.n = n;
    for (r.bit = 0; r.bit < 32; r.bit++)
        r.value = r.value << 1 | ranged_bit(codes, from, n, r.bit);
    return r;
}

CELLS unsigned ranged_upper(const struct ranged *g, cells_bytes_in params, int64_t channel, int s)
{
    return s + 1 == g->bins ? 65536u : cells_get(params, ranged_f_at(g, channel, s + 1), 2);
}

CELLS int ranged_next(const struct ranged *g, cells_bytes_in codes, cells_bytes_in params,
                      int64_t channel, struct ranged_reader *r)
{
    const uint64_t span = (uint64_t)r->high - r->low + 1;
    const unsigned target = (unsigned)((((uint64_t)r->value - r->low + 1) * 65536 - 1) / span);
    int s = 0;

    while (s + 1 < g->bins && ranged_upper(g, params, channel, s) <= target)
        s++;
    r->high = r->low - 1 + (unsigned)(span * ranged_upper(g, params, channel, s) >> 16);
    r->low += (unsigned)(span * cells_get(params, ranged_f_at(g, channel, s), 2) >> 16);
    for (;;) {
        unsigned off;

        if (r->high < 0x80000000u)
            off = 0;
        else if (r->low >= 0x80000000u)
            off = 0x80000000u;
        else if (r->low >= 0x40000000u && r->high < 0xc0000000u)
            off = 0x40000000u;
        else
            return s;
        r->low = (r->low - off) << 1;
        r->high = (r->high - off) << 1 | 1u;
        r->value = (r->value - off) << 1 | ranged_bit(codes, r->from, r->n, r->bit++);
    }
}

KVR_DECODE_LAUNCHER(ranged);

#endif
