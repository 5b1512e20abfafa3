/* grid.c - the CPU definition of the integer grids in grid.h. */
#include "methods/kernels/grid.h"

#include <math.h>

#include "methods/kernels/pack.h"

enum { STRIP = 256, ROWS = 16 }; /* channels, tokens handled together */

const char *const kvr_axis_names[] = { "tokens", "channels", "token", NULL };

enum kvr_status kvr_grid_check(const struct kvr_grid *g, int n_heads, int head_dim)
{
    (void)n_heads;
    if (g->axis == KVR_AXIS_TOKENS && g->group % 8)
        return kvr_fail(KVR_EINVAL, "group %d tokens: must be a multiple of 8", g->group);
    if (g->axis == KVR_AXIS_CHANNELS && head_dim % g->group)
        return kvr_fail(KVR_EINVAL, "group %d channels does not divide head_dim %d", g->group,
                        head_dim);
    return KVR_OK;
}

static int64_t stored_tokens(const struct kvr_stage_job *job)
{
    const int64_t n = job->shape.n_tok;

    return job->study ? (n + KVR_STUDY_BLOCK - 1) / KVR_STUDY_BLOCK * KVR_STUDY_BLOCK : n;
}

static int64_t n_channels(const struct kvr_stage_job *job)
{
    return (int64_t)job->shape.n_heads * job->shape.head_dim;
}

int64_t kvr_grid_sets(const struct kvr_grid *g, const struct kvr_stage_job *job)
{
    const int64_t n = stored_tokens(job);

    switch (g->axis) {
    case KVR_AXIS_TOKENS:
        return (n + g->group - 1) / g->group * n_channels(job);
    case KVR_AXIS_CHANNELS:
        return n * n_channels(job) / g->group;
    default:
        return n;
    }
}

void kvr_grid_bytes(const struct kvr_grid *g, const struct kvr_stage_job *job,
                    struct kvr_stage_bytes *out)
{
    out->codes = kvr_pack_bytes(stored_tokens(job), n_channels(job), g->bits);
    out->meta = (size_t)kvr_grid_sets(g, job) * sizeof(kvr_f16) * (g->asym ? 2 : 1);
}

/* One set: its range in, everything coding and decoding need out. */
struct set {
    float s;         /* the step that codes are fitted to */
    float pre, post; /* q = rne((x - m)/s + pre) + post */
    float m;
    kvr_f16 step, zero; /* as stored */
};

static float round_to(float x, enum kvr_compute compute)
{
    return compute == KVR_COMPUTE_BF16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(x)) : x;
}

/* Nearest FP16 not below (up) or not above x; finite x beyond FP16 becomes +-65504. */
static kvr_f16 f16_towards(float x, bool up)
{
    kvr_f16 h = kvr_f32_to_f16(x);
    float back = kvr_f16_to_f32(h);

    if (!isfinite(x))
        return h;
    if (up ? back < x : back > x) {
        if (back == 0) /* a zero of either sign steps to the smallest subnormal */
            h = up ? 0x0001 : 0x8001;
        else if ((back > 0) == up)
            h++;
        else
            h--;
    }
    if ((h & 0x7fffu) >= 0x7c00u)
        h = (kvr_f16)((h & 0x8000u) | 0x7bffu);
    return h;
}

static float clampf(float x, float lo, float hi)
{
    return x >= lo ? (x <= hi ? x : hi) : lo; /* NaN becomes lo */
}

/* As the study: qmax = 2^(b-1) - 1; INT2 is ternary.
 * As intended: the code -qmax-1 is used too. The side with the larger magnitude takes the
 * negative codes; the sign of s says which side that is. It never clips, and its step is
 * never larger than the study's. */
static void fit_sym(struct set *r, float lo, float hi, int bits, const struct kvr_stage_job *job)
{
    const float qmax = (float)((1 << (bits - 1)) - 1);
    const float pos = hi > 0 ? hi : 0, neg = lo < 0 ? -lo : 0;

    r->pre = r->m = 0;
    r->post = (float)(1 << (bits - 1));
    r->zero = 0;
    if (job->study) {
        float amax = pos > neg ? pos : neg;

        r->s = round_to(amax / qmax, job->compute);
        if (r->s < round_to(1e-8f, job->compute))
            r->s = round_to(1e-8f, job->compute);
        r->step = kvr_f32_to_f16(r->s);
    } else {
        const bool flip = pos > neg;
        const float wide = (flip ? pos : neg) / (qmax + 1), narrow = (flip ? neg : pos) / qmax;

        r->step = f16_towards(wide > narrow ? wide : narrow, true);
        if (flip)
            r->step |= 0x8000u;
        r->s = kvr_f16_to_f32(r->step);
    }
}

static void fit_asym(struct set *r, float lo, float hi, int bits, const struct kvr_stage_job *job)
{
    const float q_top = (float)((1 << bits) - 1);

    r->post = 0;
    if (job->study) {
        const enum kvr_compute c = job->compute;

        r->s = round_to(round_to(hi - lo, c) / q_top, c);
        if (r->s < round_to(1e-8f, c))
            r->s = round_to(1e-8f, c);
        r->m = 0;
        r->pre = clampf(rintf(round_to(-lo / r->s, c)), 0, q_top);
        r->step = kvr_f32_to_f16(r->s);
        r->zero = kvr_f32_to_f16(r->pre);
    } else {
        r->zero = f16_towards(lo, false);
        r->m = kvr_f16_to_f32(r->zero);
        r->step = f16_towards((hi - r->m) / q_top, true);
        r->s = kvr_f16_to_f32(r->step);
        r->pre = 0;
    }
}

static void fit(const struct kvr_grid *g, const struct kvr_stage_job *job, float lo, float hi,
                struct set *r)
{
    if (g->asym)
        fit_asym(r, lo, hi, g->bits, job);
    else
        fit_sym(r, lo, hi, g->bits, job);
    if (!isfinite(lo) || !isfinite(hi)) {
        r->s = NAN;
        r->step = 0x7e00;
    }
}

static uint8_t quantize(float x, float s, float m, float pre, float post, float top,
                        enum kvr_compute c)
{
    float v = s != 0 ? round_to(round_to((x - m) / s, c) + pre, c) : 0;

    return (uint8_t)clampf(rintf(v) + post, 0, top);
}

/* A NaN once met stays. */
static inline float keep_min(float a, float x)
{
    return a != a || x >= a ? a : x;
}

static inline float keep_max(float a, float x)
{
    return a != a || x <= a ? a : x;
}

static void store_set(const struct kvr_grid *g, struct kvr_stage_data *out, int64_t sets, int64_t i,
                      const struct set *r)
{
    kvr_f16 *meta = out->meta.p;

    meta[i] = r->step;
    if (g->asym)
        meta[sets + i] = r->zero;
}

/* Sets along tokens: one block of tokens, one strip of channels. */
static void encode_block(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                         struct kvr_stage_data *out, int64_t b, int64_t c0, int m)
{
    const int64_t channels = n_channels(job), stored = stored_tokens(job);
    const int64_t sets = kvr_grid_sets(g, job);
    const int64_t t0 = b * g->group;
    const int64_t end = t0 + g->group < stored ? t0 + g->group : stored;
    const int64_t have = end < job->shape.n_tok ? end : job->shape.n_tok;
    const float top = (float)((1 << g->bits) - 1);
    const bool bf16 = job->compute == KVR_COMPUTE_BF16;
    float lo[STRIP], hi[STRIP], s[STRIP], off[STRIP], pre[STRIP], post[STRIP];
    uint8_t codes[ROWS * STRIP];

    for (int c = 0; c < m; c++)
        lo[c] = hi[c] = have < end ? 0 : x[t0 * channels + c0 + c];
    for (int64_t t = t0; t < have; t++) {
        const float *restrict row = x + t * channels + c0;

        for (int c = 0; c < m; c++) {
            lo[c] = keep_min(lo[c], row[c]);
            hi[c] = keep_max(hi[c], row[c]);
        }
    }
    for (int c = 0; c < m; c++) {
        struct set r;

        fit(g, job, lo[c], hi[c], &r);
        store_set(g, out, sets, b * channels + c0 + c, &r);
        s[c] = r.s;
        off[c] = r.m;
        pre[c] = r.pre;
        post[c] = r.post;
    }
    for (int64_t t = t0; t < end; t += ROWS) {
        const int rows = end - t < ROWS ? (int)(end - t) : ROWS;

        for (int i = 0; i < rows; i++) {
            const float *restrict row = x + (t + i) * channels + c0;
            uint8_t *restrict code = codes + i * m;

            if (t + i >= job->shape.n_tok)
                for (int c = 0; c < m; c++)
                    code[c] = quantize(0, s[c], off[c], pre[c], post[c], top, job->compute);
            else if (bf16)
                for (int c = 0; c < m; c++)
                    code[c] =
                        quantize(row[c], s[c], off[c], pre[c], post[c], top, KVR_COMPUTE_BF16);
            else
                for (int c = 0; c < m; c++)
                    code[c] = quantize(row[c], s[c], off[c], pre[c], post[c], top, KVR_COMPUTE_F32);
        }
        kvr_pack(out->codes.p, stored, channels, g->bits, t, rows, c0, m, codes);
    }
}

static float min_of(const float *x, int64_t n)
{
    float a = x[0];

    for (int64_t i = 1; i < n; i++)
        a = keep_min(a, x[i]);
    return a;
}

static float max_of(const float *x, int64_t n)
{
    float a = x[0];

    for (int64_t i = 1; i < n; i++)
        a = keep_max(a, x[i]);
    return a;
}

/* Sets within a token: ROWS tokens, one set (or a strip of a wide one) at a time. */
static void encode_rows(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                        struct kvr_stage_data *out, int64_t t0)
{
    const int64_t channels = n_channels(job), stored = stored_tokens(job);
    const int64_t sets = kvr_grid_sets(g, job);
    const int64_t width = g->axis == KVR_AXIS_TOKEN ? channels : g->group;
    const int rows = stored - t0 < ROWS ? (int)(stored - t0) : ROWS;
    const float top = (float)((1 << g->bits) - 1);
    uint8_t codes[ROWS * STRIP];

    for (int64_t first = 0; first < channels; first += width) {
        struct set r[ROWS];

        for (int i = 0; i < rows; i++) {
            const bool pad = t0 + i >= job->shape.n_tok;
            const float *row = x + (t0 + i) * channels + first;

            fit(g, job, pad ? 0 : min_of(row, width), pad ? 0 : max_of(row, width), &r[i]);
            store_set(g, out, sets, ((t0 + i) * channels + first) / width, &r[i]);
        }
        for (int64_t c0 = first; c0 < first + width; c0 += STRIP) {
            const int m = first + width - c0 < STRIP ? (int)(first + width - c0) : STRIP;

            for (int i = 0; i < rows; i++) {
                const bool pad = t0 + i >= job->shape.n_tok;
                const float *restrict row = x + (t0 + i) * channels + c0;

                for (int c = 0; c < m; c++)
                    codes[i * m + c] = quantize(pad ? 0 : row[c], r[i].s, r[i].m, r[i].pre,
                                                r[i].post, top, job->compute);
            }
            kvr_pack(out->codes.p, stored, channels, g->bits, t0, rows, c0, m, codes);
        }
    }
}

void kvr_grid_encode(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                     struct kvr_stage_data *out)
{
    const int64_t channels = n_channels(job), stored = stored_tokens(job);

    if (g->axis == KVR_AXIS_TOKENS) {
        const int64_t blocks = (stored + g->group - 1) / g->group;
        const int64_t strips = (channels + STRIP - 1) / STRIP;

#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < blocks * strips; i++) {
            const int64_t c0 = i % strips * STRIP;

            encode_block(g, job, x, out, i / strips, c0,
                         channels - c0 < STRIP ? (int)(channels - c0) : STRIP);
        }
    } else {
#pragma omp parallel for schedule(static)
        for (int64_t t = 0; t < stored; t += ROWS)
            encode_rows(g, job, x, out, t);
    }
}

/* Per-channel step, zero and offset of token t, for m channels from c0 on. */
static void load_sets(const struct kvr_grid *g, const struct kvr_stage_job *job,
                      const struct kvr_stage_data *in, int64_t t, int64_t c0, int m, float *s,
                      float *z, float *off)
{
    const int64_t channels = n_channels(job), sets = kvr_grid_sets(g, job);
    const kvr_f16 *steps = in->meta.p, *zeros = steps + sets;
    const float half = (float)(1 << (g->bits - 1));

    if (g->axis == KVR_AXIS_TOKENS) {
        const int64_t i = t / g->group * channels + c0;

        kvr_to_f32(s, steps + i, KVR_F16, (size_t)m);
        if (g->asym)
            kvr_to_f32(job->study ? z : off, zeros + i, KVR_F16, (size_t)m);
    } else {
        const int64_t width = g->axis == KVR_AXIS_TOKEN ? channels : g->group;

        for (int c = 0; c < m;) {
            const int64_t i = (t * channels + c0 + c) / width;
            const int64_t end = (i + 1) * width - t * channels - c0;
            const int stop = end < m ? (int)end : m;
            const float si = kvr_f16_to_f32(steps[i]);
            const float zi = g->asym ? kvr_f16_to_f32(zeros[i]) : 0;

            for (; c < stop; c++) {
                s[c] = si;
                z[c] = job->study ? zi : 0;
                off[c] = job->study ? 0 : zi;
            }
        }
    }
    for (int c = 0; c < m; c++) {
        if (!g->asym) {
            z[c] = half;
            off[c] = 0;
        } else if (g->axis == KVR_AXIS_TOKENS) {
            if (job->study)
                off[c] = 0;
            else
                z[c] = 0;
        }
    }
}

void kvr_grid_decode(const struct kvr_grid *g, const struct kvr_stage_job *job,
                     const struct kvr_stage_data *in, int64_t t0, int64_t n, int h0, int nh,
                     enum kvr_decode_mode mode, float *out)
{
    const int64_t channels = n_channels(job), stored = stored_tokens(job);
    const int64_t width = (int64_t)nh * job->shape.head_dim;
    const int64_t first = (int64_t)h0 * job->shape.head_dim;
    const bool bf16 = job->compute == KVR_COMPUTE_BF16;

    for (int64_t c0 = 0; c0 < width; c0 += STRIP) {
        const int m = width - c0 < STRIP ? (int)(width - c0) : STRIP;
        int64_t block = -1;
        float s[STRIP], z[STRIP], off[STRIP];
        uint8_t code[STRIP];

        for (int64_t t = t0; t < t0 + n; t++) {
            float *restrict dst = out + (t - t0) * width + c0;

            if (g->axis != KVR_AXIS_TOKENS || t / g->group != block) {
                block = t / g->group;
                load_sets(g, job, in, t, first + c0, m, s, z, off);
            }
            kvr_unpack_token(in->codes.p, stored, channels, g->bits, t, first + c0, m, code);
            for (int c = 0; c < m; c++) {
                float v = ((float)code[c] - z[c]) * s[c] + off[c];

                if (bf16)
                    v = round_to(v, KVR_COMPUTE_BF16);
                dst[c] = mode == KVR_DECODE_SET   ? v
                         : mode == KVR_DECODE_ADD ? dst[c] + v
                                                  : dst[c] - v;
            }
        }
    }
}

void kvr_grid_steps(const struct kvr_grid *g, const struct kvr_stage_job *job,
                    const struct kvr_stage_data *in, struct kvr_steps *out)
{
    static const enum kvr_steps_kind kind[] = {
        [KVR_AXIS_TOKENS] = KVR_STEPS_TOKENS,
        [KVR_AXIS_CHANNELS] = KVR_STEPS_CHANNELS,
        [KVR_AXIS_TOKEN] = KVR_STEPS_TOKEN,
    };

    out->kind = kind[g->axis];
    out->group = g->axis == KVR_AXIS_TOKEN ? 0 : g->group;
    out->step = in->meta.p;
    out->sign = job->study && !g->asym && g->bits == 2 ? KVR_NOISE_TERNARY : KVR_NOISE_DITHER;
}
