/* trq_cuda.cu - the stage `trq` (residuals between frames) on a CUDA device. A thread encodes one
 * group of channels at one position of every frame, in the order of frames. To decode one element,
 * a thread decodes the same position and channel of every frame from the block's first frame, the
 * anchor (trq.h), to the element's frame. Built with -fmad=false. */
#include "methods/codecs/trq/trq.h"

enum { THREADS = 64 };

static __global__ void __launch_bounds__(THREADS)
    trq_encode(struct trq g, kvr_global<const float> x, kvr_global<uint16_t> scale,
               kvr_global<uint8_t> zero, kvr_global<uint8_t> codes)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, groups = g.channels / g.group;
    const int64_t position = i / groups, at = i % groups * g.group;
    float e[TRQ_MAX_GROUP], r[TRQ_MAX_GROUP];

    if (position >= (g.unit < g.n_tok ? g.unit : g.n_tok))
        return;
    for (int c = 0; c < g.group; c++)
        r[c] = 0;
    for (int64_t t = position; t < g.n_tok; t += g.unit) {
        const bool anchor = t < g.unit;
        const int bits = anchor ? g.anchor : g.bits;
        const int64_t to = trq_codes_at(&g, t) + at * bits / 8;

        for (int c = 0; c < g.group; c++)
            e[c] = anchor ? (float)x[t * g.channels + at + c]
                          : (float)x[t * g.channels + at + c] - r[c];
        const struct trq_fit f = trq_fit(&g, anchor, e);

        scale[t * groups + at / g.group] = (uint16_t)f.raw;
        if (!anchor)
            zero[trq_zero_at(&g, t, at)] = (uint8_t)f.z;
        for (int c = 0; c < g.group; c += 8 / bits) {
            unsigned byte = 0;

            for (int j = 0; j < 8 / bits; j++) {
                const unsigned q = trq_code(anchor, bits, &f, e[c + j]);

                byte = byte << bits | q;
                r[c + j] = trq_kept(trq_value(&g, anchor, &f, q, r[c + j]));
            }
            codes[to + c * bits / 8] = (uint8_t)byte;
        }
    }
}

static __global__ void __launch_bounds__(THREADS)
    trq_decode(struct trq g, struct kvr_part d, kvr_global<const uint8_t> codes,
               kvr_global<const uint16_t> scale, kvr_global<const uint8_t> zero,
               kvr_global<float> out)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, groups = g.channels / g.group;
    const int64_t token = d.t0 + i / d.width, c = d.first + i % d.width;
    float r = 0, v = 0;

    if (token >= d.t0 + d.n)
        return;
    if (g.fine) {
        const int64_t flags = (g.n_tok - (g.unit < g.n_tok ? g.unit : g.n_tok)) * groups;

        g.heads = 0;
        for (int64_t h = 0; h < g.channels / g.head_dim; h++)
            g.heads |= (uint64_t)(unsigned)zero[flags + h] << h;
    }
    for (int64_t t = token % g.unit; t <= token; t += g.unit) {
        const bool anchor = t < g.unit;
        const int bits = trq_bits(&g, anchor, c);
        const unsigned byte = codes[trq_byte_at(&g, t, c)];
        const unsigned q = byte >> (8 - bits - c * bits % 8) & ((1u << bits) - 1u);
        struct trq_fit f;

        f.s = cells_load(CELLS_BF16, scale[t * groups + c / g.group]);
        f.z = anchor ? 0.0f : (float)(unsigned)zero[trq_zero_at(&g, t, c)];
        v = trq_value(&g, anchor, &f, q, r);
        r = trq_kept(v);
    }
    kvr_part_put(d.mode, out, i, v);
}

static uint8_t *zeros_of(const struct trq *g, const void *params)
{
    return (uint8_t *)params + g->n_tok * (g->channels / g->group) * 2;
}

void kvr_trq_encode_cuda(struct kvr_stream *s, const struct trq *g, const float *x, void *codes,
                         void *params)
{
    const int64_t positions = g->unit < g->n_tok ? g->unit : g->n_tok;
    const int64_t n = positions * (g->channels / g->group);

    if (n)
        KVR_LAUNCH(trq_encode, kvr_blocks(n, THREADS), THREADS, 0, s, *g, x, (uint16_t *)params,
                   zeros_of(g, params), (uint8_t *)codes);
}

void kvr_trq_decode_cuda(struct kvr_stream *s, const struct trq *g, const void *codes,
                         const void *params, const struct kvr_part *part, float *out)
{
    if (part->n && part->width)
        KVR_LAUNCH(trq_decode, kvr_blocks(part->n * part->width, THREADS), THREADS, 0, s, *g, *part,
                   (const uint8_t *)codes, (const uint16_t *)params,
                   (const uint8_t *)zeros_of(g, params), out);
}
