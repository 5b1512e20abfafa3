/* trq.h - arithmetic of the stage `trq`, shared by CPU and CUDA.
 *
 * A block has several frames of `unit` tokens, and the last frame may be shorter. A group has G
 * consecutive channels of a head, at one token position within the frame. In the first frame of a
 * block, the anchor, a group is quantized directly. In later frames, the stage quantizes the
 * difference e between the group x and its decoded value r in the previous frame. A code has ba
 * bits in the anchor and b bits in later frames, and rne rounds to the nearest integer, ties to
 * even:
 *
 *     frame 0, the anchor   s = BF16(max(max |x|, 1e-8) / qa)        q = clamp(rne(x / s), -qa, qa)
 *                           r = BF16(q s)                            qa = 2^(ba-1) - 1
 *     later frames          e = x - r                                qm = 2^b - 1
 *         hi - lo >= 1e-8   s' = (hi - lo) / qm              z = clamp(rne(-lo / s'), 0, qm)
 *         else              s' = max(|lo|, |hi|, 1e-8) / qm  z = lo < 0 ? qm : 0
 *                           s = BF16(s')                     q = clamp(rne(e / s + z), 0, qm)
 *                           r = BF16(r + (q - z) s)
 *
 * The range of the residual e over the group is [lo, hi]. The encoder and the decoder compute
 * bit-identical r. A group with a non-finite value has a scale of NaN and decodes to NaN. In the
 * next frame, the stage then subtracts 0 instead of r.
 *
 * The stage `trq_heads` quantizes the residuals of some heads, called fine heads, with `fine` bits
 * instead of `bits`. */
#ifndef KVR_METHODS_TRQ_H
#define KVR_METHODS_TRQ_H

#include "methods/codecs/cells/cells.h"

enum { TRQ_MAX_GROUP = 256, TRQ_MAX_HEADS = 64 };

/* The codes of a block are the codes of the anchor and then those of the residuals, token by token.
 * Codes fill a byte from its highest bit down. The side information of a block starts with the
 * scales, BF16 [T][C / G]. The zero points of the residuals follow, as bytes [T - unit][C / G]. If
 * there are fine heads, the side information ends with one byte per head, which is 1 for a fine
 * head. */
struct trq {
    int bits, anchor, group;
    int64_t n_tok, unit, channels;
    int fine, n_fine; /* fine: bits per code of a fine head; n_fine: number of fine heads. Both are
                       * 0 if all heads use `bits`. */
    int64_t head_dim;
    uint64_t heads; /* bit h is 1 if head h is a fine head */
};

struct trq_fit {
    float s, z;
    float inverse; /* 1 / s, or 0 if cells_quotient() must divide by s */
    unsigned raw;  /* s as stored */
};

CELLS float trq_round(float x)
{
    return cells_load(CELLS_BF16, cells_store(CELLS_BF16, x));
}

/* Offset in bytes of the codes of token t. */
CELLS int64_t trq_codes_at(const struct trq *g, int64_t t)
{
    const int64_t anchors = t < g->unit ? t : g->unit;
    const int64_t more = g->fine ? g->n_fine * g->head_dim * (g->fine - g->bits) / 8 : 0;

    return anchors * (g->channels * g->anchor / 8) +
           (t - anchors) * (g->channels * g->bits / 8 + more);
}

/* Number of bits per code of channel `at`, in the anchor or in a residual. */
CELLS int trq_bits(const struct trq *g, bool anchor, int64_t at)
{
    return anchor                                             ? g->anchor
           : g->fine && (g->heads >> (at / g->head_dim) & 1u) ? g->fine
                                                              : g->bits;
}

/* Offset in bytes of the code of channel `at` of token t. */
CELLS int64_t trq_byte_at(const struct trq *g, int64_t t, int64_t at)
{
    const bool anchor = t < g->unit;
    const int64_t head = g->fine && !anchor ? at / g->head_dim : 0, in = at - head * g->head_dim;
    int64_t before = 0;

    for (int64_t h = 0; h < head; h++)
        before += (int64_t)(g->heads >> h & 1u);
    return trq_codes_at(g, t) +
           (head * g->head_dim * g->bits + before * g->head_dim * (g->fine - g->bits)) / 8 +
           in * trq_bits(g, anchor, at) / 8;
}

/* Index of the zero point of the group that contains channel `at` of token t. Token t must not be
 * in the block's first frame (the anchor), whose symmetric groups have no zero points. */
CELLS int64_t trq_zero_at(const struct trq *g, int64_t t, int64_t at)
{
    return (t - g->unit) * (g->channels / g->group) + at / g->group;
}

/* Fits scale and zero point to a group with the smallest value `lo` and the largest value `hi`.
 * bad: whether the group has a non-finite value; then lo and hi are not used. */
CELLS struct trq_fit trq_fit_range(bool anchor, int bits, float lo, float hi, bool bad)
{
    const float qm = (float)(anchor ? (1 << (bits - 1)) - 1 : (1 << bits) - 1);
    float most = fabsf(lo) > fabsf(hi) ? fabsf(lo) : fabsf(hi), s;
    struct trq_fit f;

    most = most < 1e-8f ? 1e-8f : most;
    f.z = 0;
    if (anchor) {
        s = most / qm;
    } else if (hi - lo >= 1e-8f) {
        s = (hi - lo) / qm;
        f.z = cells_clamp(rintf(-lo / s), 0, qm);
    } else {
        s = most / qm;
        f.z = lo < 0 ? qm : 0;
    }
    bad = bad || cells_bits(s) >= 0x7f800000u; /* range beyond FP32 */
    f.raw = cells_store(CELLS_BF16, bad ? cells_float(0x7fc00000u) : s);
    f.s = cells_load(CELLS_BF16, f.raw);
    f.z = bad ? 0 : f.z;
    f.inverse = cells_inverse(f.s);
    return f;
}

/* Fits scale and zero point to the values e [group] of a group. */
CELLS struct trq_fit trq_fit_bits(const struct trq *g, bool anchor, int bits, const float *e)
{
    float lo = e[0], hi = e[0];
    bool bad = false;

    for (int i = 0; i < g->group; i++) {
        bad = bad || (cells_bits(e[i]) & 0x7fffffffu) >= 0x7f800000u;
        lo = e[i] < lo ? e[i] : lo;
        hi = e[i] > hi ? e[i] : hi;
    }
    return trq_fit_range(anchor, bits, lo, hi, bad);
}

CELLS struct trq_fit trq_fit(const struct trq *g, bool anchor, const float *e)
{
    return trq_fit_bits(g, anchor, anchor ? g->anchor : g->bits, e);
}

CELLS unsigned trq_code(bool anchor, int bits, const struct trq_fit *f, float e)
{
    const float qa = (float)((1 << (bits - 1)) - 1), qm = (float)((1 << bits) - 1);
    const float steps = cells_quotient(e, f->s, f->inverse);

    if (f->s != f->s)
        return 0;
    if (anchor)
        return (unsigned)(cells_clamp(rintf(steps), -qa, qa) + qa);
    return (unsigned)cells_clamp(rintf(steps + f->z), 0, qm);
}

/* Decodes code q of an element, where r is the decoded value of the element in the previous
 * frame. */
CELLS float trq_value(const struct trq *g, bool anchor, const struct trq_fit *f, unsigned q,
                      float r)
{
    const float qa = (float)((1 << (g->anchor - 1)) - 1);

    if (f->s != f->s)
        return f->s;
    return trq_round(anchor ? ((float)q - qa) * f->s : r + ((float)q - f->z) * f->s);
}

/* Value that the stage subtracts from the element in the next frame: the decoded value r, or 0 if r
 * is NaN. */
CELLS float trq_kept(float r)
{
    return r != r ? 0 : r;
}

KVR_ENCODE_LAUNCHER(trq);
KVR_DECODE_LAUNCHER(trq);

#endif
