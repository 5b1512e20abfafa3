/* ranged.c - the stage `ranged`: integer quantization with one scale per token over all heads. A
 * range coder compresses the integers of each channel, as in CacheGen (arXiv:2310.07240).
 * CacheGen's paper codes differences between tokens; its code and this stage do not. The arithmetic
 * is in ranged.h.
 *
 * The number of coded bytes of a block depends on the data (kvr_stage_data.n_entries). The coder
 * restarts at every segment of RANGED_SEGMENT tokens, so decoding a token starts at the first token
 * of its segment. All symbols of a token of zeros are bins / 2 - 1. A token with a NaN or an
 * infinity has the scale NaN, is coded like a token of zeros, and decodes to NaN. Blocks in CUDA
 * memory are encoded on the host. */
#include "methods/codecs/ranged/ranged.h"

#include <stdlib.h>
#include <string.h>

/* An upper bound of the bytes of one channel's segment: 2 bytes per symbol, because the smallest
 * frequency is 2^-16, and 8 bytes for the end of the code. */
enum { SEGMENT_BYTES = 2 * RANGED_SEGMENT + 8 };

struct ranged_opts {
    int bins;
};
static const struct kvr_opt options[] = {
    KVR_OPT_INT(
        struct ranged_opts, bins, 16, 4, RANGED_MAX_BINS,
        "number of quantization levels plus 1, as in CacheGen's option `bins`; must be even"),
    { 0 }
};

static struct ranged ranged_of(const struct kvr_stage_job *job)
{
    const int64_t n = job->shape.n_tok;

    return (struct ranged){
        .bins = ((const struct ranged_opts *)job->opts)->bins,
        .n_tok = n,
        .channels = (int64_t)job->shape.n_heads * job->shape.head_dim,
        .segments = (n + RANGED_SEGMENT - 1) / RANGED_SEGMENT,
    };
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const int bins = ((const struct ranged_opts *)job->opts)->bins;

    if (bins % 2)
        return kvr_fail(KVR_EINVAL, "bins is %d: must be even, in 4..%d", bins, RANGED_MAX_BINS);
    return KVR_OK;
}

/* Returns an upper bound of the bytes of all channels. A channel's T symbols have bins - 1 possible
 * values and need at most T log2(bins - 1) bits. Rounding of frequencies and intervals adds at most
 * 0.002 bits per symbol. The coder's last bits and padding add at most 2 bytes per segment. */
static int64_t most_of(const struct ranged *g)
{
    const double bits = (double)g->n_tok * (log2(g->bins - 1) + 0.002);

    return g->channels * ((int64_t)ceil(bits / 8) + 2 * g->segments);
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct ranged g = ranged_of(job);

    *out = (struct kvr_layout){
        .bytes.meta = (size_t)ranged_size_at(&g, g.n_tok),
        .entry.codes = 1,
        .most_entries = most_of(&g),
        .form = KVR_FORM_OWN,
        .n_tok = g.n_tok,
    };
}

struct writer {
    unsigned low, high;
    int64_t off, bits; /* number of pending bits, as in arithmetic coding; number of written bits */
    uint8_t *to;
};

static void put_bit(struct writer *w, unsigned bit)
{
    if (w->bits % 8 == 0)
        w->to[w->bits / 8] = 0;
    w->to[w->bits / 8] = (uint8_t)(w->to[w->bits / 8] | bit << (7 - w->bits % 8));
    w->bits++;
}

static void put_bits(struct writer *w, unsigned bit)
{
    put_bit(w, bit);
    for (; w->off; w->off--)
        put_bit(w, !bit);
}

static void put_symbol(const struct ranged *g, const uint8_t *params, int64_t channel, int s,
                       struct writer *w)
{
    const uint64_t span = (uint64_t)w->high - w->low + 1;

    w->high = w->low - 1 + (unsigned)(span * ranged_upper(g, params, channel, s) >> 16);
    w->low += (unsigned)(span * cells_get(params, ranged_f_at(g, channel, s), 2) >> 16);
    for (;;) {
        unsigned off = 0;

        if (w->high < 0x80000000u) {
            put_bits(w, 0);
        } else if (w->low >= 0x80000000u) {
            put_bits(w, 1);
            off = 0x80000000u;
        } else if (w->low >= 0x40000000u && w->high < 0xc0000000u) {
            w->off++;
            off = 0x40000000u;
        } else {
            return;
        }
        w->low = (w->low - off) << 1;
        w->high = (w->high - off) << 1 | 1u;
    }
}

/* Encodes the first n symbols of a channel to `to` and returns the number of bytes. Consecutive
 * symbols of a channel are g->channels apart. */
static int64_t code_segment(const struct ranged *g, const uint8_t *params, const uint8_t *symbols,
                            int64_t channel, int64_t n, uint8_t *to)
{
    struct writer w = { .high = 0xffffffffu, .to = to };

    for (int64_t t = 0; t < n; t++)
        put_symbol(g, params, channel, symbols[t * g->channels + channel], &w);
    w.off++;
    put_bits(&w, w.low >= 0x40000000u);
    return (w.bits + 7) / 8;
}

static void count_channel(const struct ranged *g, const uint8_t *symbols, int64_t channel,
                          uint8_t *params)
{
    int64_t below[RANGED_MAX_BINS + 1] = { 0 };

    for (int64_t t = 0; t < g->n_tok; t++)
        below[symbols[t * g->channels + channel] + 1]++;
    for (int i = 0; i <= g->bins; i++) {
        below[i] += i ? below[i - 1] : 0;
        cells_put(params, ranged_f_at(g, channel, i), 2,
                  (unsigned)((65535 - g->bins) * below[i] / g->n_tok + i));
    }
}

static void take_symbols(const struct ranged *g, const float *x, uint8_t *symbols, uint8_t *params)
{
    const float c = (float)(g->bins / 2 - 1);

#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < g->n_tok; t++) {
        uint32_t most = 0;
        float size;

        for (int64_t i = 0; i < g->channels; i++) {
            const uint32_t u = kvr_f32_bits(x[t * g->channels + i]) & 0x7fffffffu;

            most = u > most ? u : most;
        }
        size = most < 0x7f800000u ? kvr_bf16_to_f32(kvr_f32_to_bf16(kvr_bits_f32(most))) : NAN;
        cells_put(params, ranged_size_at(g, t), 2, cells_store(CELLS_BF16, size));
        for (int64_t i = 0; i < g->channels; i++) {
            const float s = size > 0 ? rintf(x[t * g->channels + i] * (c / size) + c) : c;

            symbols[t * g->channels + i] = (uint8_t)cells_clamp(s, 0, 2 * c);
        }
    }
}

static enum kvr_status code_block(const struct kvr_stage_job *job, const struct ranged *g,
                                  const float *x, uint8_t *symbols, uint8_t *scratch,
                                  struct kvr_stage_data *out)
{
    const int64_t n = g->segments * g->channels;
    uint8_t *params;
    int64_t end = 0;

    KVR_TRY(kvr_buf_alloc(&out->meta, job->dev, KVR_MEM_META, (size_t)ranged_size_at(g, g->n_tok)));
    params = out->meta.p;
    take_symbols(g, x, symbols, params);
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < g->channels; c++)
        count_channel(g, symbols, c, params);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t t0 = i / g->channels * RANGED_SEGMENT;
        const int64_t m = g->n_tok - t0 < RANGED_SEGMENT ? g->n_tok - t0 : RANGED_SEGMENT;

        cells_put(params, 4 * i, 4,
                  (unsigned)code_segment(g, params, symbols + t0 * g->channels, i % g->channels, m,
                                         scratch + i * SEGMENT_BYTES));
    }
    for (int64_t i = 0; i < n; i++) {
        end += (int64_t)cells_get(params, 4 * i, 4);
        cells_put(params, 4 * i, 4, (unsigned)end);
    }
    out->n_entries = end;
    KVR_TRY(kvr_buf_alloc(&out->codes, job->dev, KVR_MEM_KV, (size_t)end));
    for (int64_t i = 0, at = 0; i < n; i++) {
        const int64_t stop = (int64_t)cells_get(params, 4 * i, 4);

        memcpy((uint8_t *)out->codes.p + at, scratch + i * SEGMENT_BYTES, (size_t)(stop - at));
        at = stop;
    }
    return KVR_OK;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct ranged g = ranged_of(job);
    const size_t symbols = (size_t)(g.n_tok * g.channels);
    uint8_t *scratch = malloc(symbols + (size_t)(g.segments * g.channels) * SEGMENT_BYTES + 1);
    enum kvr_status st;

    if (!scratch)
        return kvr_fail(KVR_ENOMEM, "ranged: out of memory while allocating %zu symbols", symbols);
    st = code_block(job, &g, x, scratch, scratch + symbols, out);
    free(scratch);
    return st;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct ranged g = ranged_of(job);
    const int64_t first = (int64_t)h0 * job->shape.head_dim;
    const int64_t width = (int64_t)nh * job->shape.head_dim, end = t0 + n;
    const uint8_t *codes = in->codes.p, *params = in->meta.p;

    for (int64_t begin = t0 / RANGED_SEGMENT * RANGED_SEGMENT; begin < end; begin += RANGED_SEGMENT)
        for (int64_t c = 0; c < width; c++) {
            const int64_t at = begin / RANGED_SEGMENT * g.channels + first + c;
            const int64_t from = at ? (int64_t)cells_get(params, 4 * (at - 1), 4) : 0;
            struct ranged_reader r =
                ranged_open(codes, from, (int64_t)cells_get(params, 4 * at, 4) - from);

            for (int64_t t = begin; t < end && t < begin + RANGED_SEGMENT; t++) {
                const int symbol = ranged_next(&g, codes, params, first + c, &r);
                const int64_t to = (t - t0) * width + c;
                float v;

                if (t < t0)
                    continue;
                v = ranged_value(
                    &g, symbol,
                    cells_load(CELLS_BF16, cells_get(params, ranged_size_at(&g, t), 2)));
                kvr_part_put(mode, out, to, v);
            }
        }
}

KVR_READ_CUDA(ranged)

const struct kvr_stage kvr_stage_ranged = {
    KVR_CODED_STAGE(ranged),
    .title = "integers with one scale per token, entropy-coded per channel",
    .check = check,
    .noise = kvr_noise_measured,
};
