/* grid.c - the CPU definition of the integer grids in grid.h. */
#include "methods/kernels/grid.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "methods/kernels/pack.h"

enum {
    STRIP = 256,                 /* channels handled together */
    ROWS = 16,                   /* tokens handled together */
    FIT = ROWS * STRIP / 8 + 16, /* sets: 8 is the shortest group; 16 keep rows off one another */
    PARALLEL_FROM = 1 << 17      /* elements worth waking other threads for */
};

/* The tokens that the study adds. */
static const float padding[STRIP];

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

/* Floats as integers of the same order: -NaN, -infinity, ..., -0, 0, ..., infinity, NaN. So
 * minimum and maximum need no thought about NaN, and a compiler may take them in any order. */
static inline int32_t order_of(float x)
{
    const uint32_t u = kvr_f32_bits(x);

    return (int32_t)(u ^ (u >> 31 ? 0x7fffffffu : 0u));
}

static inline float float_of(int32_t order)
{
    const uint32_t u = (uint32_t)order;

    return kvr_bits_f32(u ^ (u >> 31 ? 0x7fffffffu : 0u));
}

/* Sets that are fitted together: each row of numbers is one loop. */
struct sets {
    int32_t low[FIT], high[FIT];  /* range, as order_of() has it */
    float lo[FIT], hi[FIT];       /* range */
    float s[FIT];                 /* q = rne((x - m) / s + pre) + post; s never 0 */
    float m[FIT], pre[FIT];       /* post is the same for all */
    kvr_f16 step[FIT], zero[FIT]; /* as stored */
};

static inline float bf16_of(float x)
{
    return kvr_bf16_to_f32(kvr_f32_to_bf16(x));
}

/* Nearest FP16 not below x[i] >= 0, 65504 at most. */
static void f16_up(kvr_f16 *restrict h, const float *restrict x, int n)
{
    float back[FIT];

    kvr_from_f32(h, KVR_F16, x, (size_t)n);
    kvr_to_f32(back, h, KVR_F16, (size_t)n);
    for (int i = 0; i < n; i++) {
        const unsigned up = h[i] + (back[i] < x[i] ? 1u : 0u);

        h[i] = (kvr_f16)(up < 0x7c00u ? up : 0x7bffu);
    }
}

/* Nearest FP16 not above x[i], -65504 at least. */
static void f16_down(kvr_f16 *restrict h, const float *restrict x, int n)
{
    float back[FIT];

    kvr_from_f32(h, KVR_F16, x, (size_t)n);
    kvr_to_f32(back, h, KVR_F16, (size_t)n);
    for (int i = 0; i < n; i++) {
        const unsigned away = h[i] & 0x8000u ? 1u : 0xffffu; /* +1 or -1 */
        const unsigned down = (h[i] + (back[i] > x[i] ? away : 0u)) & 0xffffu;
        const unsigned size = down & 0x7fffu;

        h[i] = (kvr_f16)((down & 0x8000u) | (size < 0x7c00u ? size : 0x7bffu));
    }
}

/* As the study: step = range / levels, no smaller than 1e-8, used unrounded. */
static void fit_study(const struct kvr_grid *g, bool bf16, struct sets *r, int n)
{
    const float q_top = (float)((1 << g->bits) - 1);
    const float qmax = (float)((1 << (g->bits - 1)) - 1); /* INT2 is ternary */
    const float eps = bf16 ? bf16_of(1e-8f) : 1e-8f;

    for (int i = 0; i < n; i++) {
        const float lo = bf16 ? bf16_of(r->lo[i]) : r->lo[i];
        const float hi = bf16 ? bf16_of(r->hi[i]) : r->hi[i];
        const float wide = g->asym ? hi - lo : hi > -lo ? hi : -lo;
        float s = (bf16 ? bf16_of(wide) : wide) / (g->asym ? q_top : qmax), z;

        s = bf16 ? bf16_of(s) : s;
        s = s < eps ? eps : s;
        z = -lo / s;
        z = rintf(bf16 ? bf16_of(z) : z);
        z = z > 0 ? z : 0;
        r->s[i] = s;
        r->m[i] = 0;
        r->pre[i] = !g->asym ? 0 : z < q_top ? z : q_top;
    }
    kvr_from_f32(r->step, KVR_F16, r->s, (size_t)n);
    kvr_from_f32(r->zero, KVR_F16, r->pre, (size_t)n);
}

/* As intended: the code -qmax-1 is used too. The side with the larger magnitude takes the
 * negative codes; the sign of s says which side that is. It never clips, and its step is
 * never larger than the study's. */
static void fit_sym(int bits, struct sets *r, int n)
{
    const float qmax = (float)((1 << (bits - 1)) - 1);

    for (int i = 0; i < n; i++) {
        const float pos = r->hi[i] > 0 ? r->hi[i] : 0, neg = r->lo[i] < 0 ? -r->lo[i] : 0;
        const float wide = (pos > neg ? pos : neg) / (qmax + 1);
        const float narrow = (pos > neg ? neg : pos) / qmax;

        r->s[i] = wide > narrow ? wide : narrow;
        r->m[i] = r->pre[i] = 0;
    }
    f16_up(r->step, r->s, n);
    for (int i = 0; i < n; i++) {
        const float pos = r->hi[i] > 0 ? r->hi[i] : 0, neg = r->lo[i] < 0 ? -r->lo[i] : 0;

        r->step[i] = (kvr_f16)(r->step[i] | (pos > neg ? 0x8000u : 0u));
    }
    kvr_to_f32(r->s, r->step, KVR_F16, (size_t)n);
}

/* As intended: from the minimum up. */
static void fit_asym(int bits, struct sets *r, int n)
{
    const float q_top = (float)((1 << bits) - 1);

    f16_down(r->zero, r->lo, n);
    kvr_to_f32(r->m, r->zero, KVR_F16, (size_t)n);
    for (int i = 0; i < n; i++) {
        r->s[i] = (r->hi[i] - r->m[i]) / q_top;
        r->pre[i] = 0;
    }
    f16_up(r->step, r->s, n);
    kvr_to_f32(r->s, r->step, KVR_F16, (size_t)n);
}

static void fit(const struct kvr_grid *g, const struct kvr_stage_job *job, struct sets *r, int n)
{
    const int32_t infinity = order_of(INFINITY), minus_infinity = order_of(-INFINITY);

    for (int i = 0; i < n; i++) {
        r->lo[i] = float_of(r->low[i]);
        r->hi[i] = float_of(r->high[i]);
    }
    if (job->study)
        fit_study(g, job->compute == KVR_COMPUTE_BF16, r, n);
    else if (g->asym)
        fit_asym(g->bits, r, n);
    else
        fit_sym(g->bits, r, n);
    for (int i = 0; i < n; i++) {
        const bool bad = r->high[i] >= infinity || r->low[i] <= minus_infinity;

        /* A step of 0 means a range of 0: every x - m is 0, whatever divides it. */
        r->s[i] = bad ? NAN : r->s[i] == 0 ? 1 : r->s[i];
        r->step[i] = bad ? 0x7e00 : r->step[i];
    }
}

/* NaN gives code 0; the step of its set is NaN. */
static inline uint8_t code_of(float x, float s, float m, float pre, float post, float top,
                              bool bf16)
{
    float v;

    if (bf16)
        v = bf16_of(bf16_of(bf16_of(x - m) / s) + pre);
    else
        v = (x - m) / s + pre;
    v = rintf(v) + post;
    v = v > 0 ? v : 0;
    v = v < top ? v : top;
    return (uint8_t)(int)v;
}

/* A row whose every element has a set of its own. */
static void code_across(uint8_t *restrict code, const float *restrict x,
                        const struct sets *restrict r, int n, float post, float top, bool bf16)
{
    if (bf16)
        for (int c = 0; c < n; c++)
            code[c] = code_of(x[c], r->s[c], r->m[c], r->pre[c], post, top, true);
    else
        for (int c = 0; c < n; c++)
            code[c] = code_of(x[c], r->s[c], r->m[c], r->pre[c], post, top, false);
}

/* A row of one set. */
static void code_along(uint8_t *restrict code, const float *restrict x, float s, float m, float pre,
                       int n, float post, float top, bool bf16)
{
    if (bf16)
        for (int c = 0; c < n; c++)
            code[c] = code_of(x[c], s, m, pre, post, top, true);
    else
        for (int c = 0; c < n; c++)
            code[c] = code_of(x[c], s, m, pre, post, top, false);
}

static void range_across(struct sets *restrict r, const float *restrict x, int n)
{
    for (int c = 0; c < n; c++) {
        const int32_t v = order_of(x[c]);

        r->low[c] = v < r->low[c] ? v : r->low[c];
        r->high[c] = v > r->high[c] ? v : r->high[c];
    }
}

static void range_along(struct sets *r, int i, const float *x, int64_t n)
{
    int32_t low = INT32_MAX, high = INT32_MIN;

    for (int64_t c = 0; c < n; c++) {
        const int32_t v = order_of(x[c]);

        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    r->low[i] = low;
    r->high[i] = high;
}

static void store_sets(const struct kvr_grid *g, struct kvr_stage_data *out, int64_t n_sets,
                       int64_t at, const struct sets *r, int from, int n)
{
    kvr_f16 *meta = out->meta.p;

    memcpy(meta + at, r->step + from, (size_t)n * sizeof *meta);
    if (g->asym)
        memcpy(meta + n_sets + at, r->zero + from, (size_t)n * sizeof *meta);
}

static float post_of(const struct kvr_grid *g)
{
    return g->asym ? 0 : (float)(1 << (g->bits - 1));
}

/* Sets along tokens: one block of tokens, one strip of channels. */
static void encode_block(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                         struct kvr_stage_data *out, int64_t b, int64_t c0, int m)
{
    const int64_t channels = n_channels(job), stored = stored_tokens(job);
    const int64_t t0 = b * g->group;
    const int64_t end = t0 + g->group < stored ? t0 + g->group : stored;
    const int64_t have = end < job->shape.n_tok ? end : job->shape.n_tok;
    const float top = (float)((1 << g->bits) - 1), post = post_of(g);
    const bool bf16 = job->compute == KVR_COMPUTE_BF16;
    const float *first = have < end ? padding : x + t0 * channels + c0;
    uint8_t codes[ROWS * STRIP];
    struct sets r;

    for (int c = 0; c < m; c++)
        r.low[c] = r.high[c] = order_of(first[c]);
    for (int64_t t = t0; t < have; t++)
        range_across(&r, x + t * channels + c0, m);
    fit(g, job, &r, m);
    store_sets(g, out, kvr_grid_sets(g, job), b * channels + c0, &r, 0, m);
    for (int64_t t = t0; t < end; t += ROWS) {
        const int rows = end - t < ROWS ? (int)(end - t) : ROWS;

        for (int i = 0; i < rows; i++)
            code_across(codes + i * m, t + i < have ? x + (t + i) * channels + c0 : padding, &r, m,
                        post, top, bf16);
        kvr_pack(out->codes.p, stored, channels, g->bits, t, rows, c0, m, codes);
    }
}

/* Sets within a token: ROWS tokens; as many sets of each as fill a strip, or one wide set. */
static void encode_rows(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                        struct kvr_stage_data *out, int64_t t0)
{
    const int64_t channels = n_channels(job), stored = stored_tokens(job);
    const int64_t n_sets = kvr_grid_sets(g, job);
    const int64_t width = g->axis == KVR_AXIS_TOKEN ? channels : g->group;
    const int64_t span = width < STRIP ? STRIP / width * width : width;
    const int rows = stored - t0 < ROWS ? (int)(stored - t0) : ROWS;
    const int have = job->shape.n_tok - t0 < rows ? (int)(job->shape.n_tok - t0) : rows;
    const float top = (float)((1 << g->bits) - 1), post = post_of(g);
    const bool bf16 = job->compute == KVR_COMPUTE_BF16;
    uint8_t codes[ROWS * STRIP];
    struct sets r;

    for (int64_t first = 0; first < channels; first += span) {
        const int64_t last = channels - first < span ? channels : first + span;
        const int k = (int)((last - first) / width); /* sets of a token */

        for (int i = 0; i < rows; i++)
            for (int j = 0; j < k; j++) {
                if (i < have)
                    range_along(&r, i * k + j, x + (t0 + i) * channels + first + j * width, width);
                else
                    range_along(&r, i * k + j, padding, 1);
            }
        fit(g, job, &r, rows * k);
        for (int i = 0; i < rows; i++)
            store_sets(g, out, n_sets, ((t0 + i) * channels + first) / width, &r, i * k, k);
        for (int64_t c0 = first; c0 < last; c0 += STRIP) {
            const int m = last - c0 < STRIP ? (int)(last - c0) : STRIP;
            const int piece = k > 1 ? (int)width : m;

            for (int i = 0; i < rows; i++)
                for (int j = 0; j < k; j++) {
                    const float *row = i < have ? x + (t0 + i) * channels + c0 : padding;
                    const int at = i * k + j;

                    code_along(codes + i * m + j * piece, row + j * piece, r.s[at], r.m[at],
                               r.pre[at], piece, post, top, bf16);
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

/* x^ = (q - z) s + off of some sets. */
struct levels {
    float s[STRIP], z[STRIP], off[STRIP];
};

static inline float level(unsigned byte, int shift, unsigned mask, float s, float z, float off,
                          bool bf16)
{
    const float x = ((float)(int)((byte >> shift) & mask) - z) * s;

    return bf16 ? bf16_of(bf16_of(x) + off) : x + off;
}

static inline float combine(float old, float x, enum kvr_decode_mode mode)
{
    return mode == KVR_DECODE_SET ? x : mode == KVR_DECODE_ADD ? old + x : old - x;
}

/* A packed row of one token: where it begins, what part of each byte. */
struct code_row {
    const uint8_t *p;
    int shift;
    unsigned mask;
};

static inline __attribute__((always_inline)) void across(float *restrict out, struct code_row r,
                                                         int n, const struct levels *restrict v,
                                                         bool bf16, enum kvr_decode_mode mode)
{
    const uint8_t *restrict code = r.p;

    for (int c = 0; c < n; c++)
        out[c] = combine(out[c], level(code[c], r.shift, r.mask, v->s[c], v->z[c], v->off[c], bf16),
                         mode);
}

static inline __attribute__((always_inline)) void along(float *restrict out, struct code_row r,
                                                        int n, float s, float z, float off,
                                                        bool bf16, enum kvr_decode_mode mode)
{
    const uint8_t *restrict code = r.p;

    for (int c = 0; c < n; c++)
        out[c] = combine(out[c], level(code[c], r.shift, r.mask, s, z, off, bf16), mode);
}

/* Every element of the row has a set of its own. */
static void decode_across(float *out, struct code_row r, int n, const struct levels *v, bool bf16,
                          enum kvr_decode_mode mode)
{
    if (bf16)
        across(out, r, n, v, true, mode);
    else if (mode == KVR_DECODE_SET)
        across(out, r, n, v, false, KVR_DECODE_SET);
    else if (mode == KVR_DECODE_ADD)
        across(out, r, n, v, false, KVR_DECODE_ADD);
    else
        across(out, r, n, v, false, KVR_DECODE_SUB);
}

/* Set i has all of the row. */
static void decode_along(float *out, struct code_row r, int n, const struct levels *v, int i,
                         bool bf16, enum kvr_decode_mode mode)
{
    const float s = v->s[i], z = v->z[i], off = v->off[i];

    if (bf16)
        along(out, r, n, s, z, off, true, mode);
    else if (mode == KVR_DECODE_SET)
        along(out, r, n, s, z, off, false, KVR_DECODE_SET);
    else if (mode == KVR_DECODE_ADD)
        along(out, r, n, s, z, off, false, KVR_DECODE_ADD);
    else
        along(out, r, n, s, z, off, false, KVR_DECODE_SUB);
}

/* Sets [at, at + n). */
static void load_levels(const struct kvr_grid *g, const struct kvr_stage_job *job,
                        const struct kvr_stage_data *in, int64_t at, int n, struct levels *v)
{
    const kvr_f16 *steps = in->meta.p;
    const float half = post_of(g);

    kvr_to_f32(v->s, steps + at, KVR_F16, (size_t)n);
    for (int c = 0; c < n; c++) {
        v->z[c] = half;
        v->off[c] = 0;
    }
    if (g->asym)
        kvr_to_f32(job->study ? v->z : v->off, steps + kvr_grid_sets(g, job) + at, KVR_F16,
                   (size_t)n);
}

/* Codes of channels [c0, c0 + n) of token t; `spare` holds n bytes. */
static struct code_row code_row(const struct kvr_grid *g, const struct kvr_stage_job *job,
                                const struct kvr_stage_data *in, int64_t t, int64_t c0, int n,
                                uint8_t *spare)
{
    const int64_t channels = n_channels(job);

    if (g->bits & (g->bits - 1)) { /* several planes: put together */
        kvr_unpack_token(in->codes.p, stored_tokens(job), channels, g->bits, t, c0, n, spare);
        return (struct code_row){ spare, 0, 255 };
    }
    return (struct code_row){
        (const uint8_t *)in->codes.p + t / (8 / g->bits) * channels + c0,
        (int)(t % (8 / g->bits)) * g->bits,
        (1u << g->bits) - 1u,
    };
}

/* What is decoded, and where to. */
struct decode {
    const struct kvr_grid *g;
    const struct kvr_stage_job *job;
    const struct kvr_stage_data *in;
    int64_t first, width; /* channels */
    enum kvr_decode_mode mode;
};

/* Tokens [t, end) within one block, all channels. */
static void decode_block(const struct decode *d, int64_t t0, int64_t end, float *out)
{
    const bool bf16 = d->job->compute == KVR_COMPUTE_BF16;
    uint8_t spare[STRIP];
    struct levels v;

    for (int64_t c0 = 0; c0 < d->width; c0 += STRIP) {
        const int m = d->width - c0 < STRIP ? (int)(d->width - c0) : STRIP;

        load_levels(d->g, d->job, d->in, t0 / d->g->group * n_channels(d->job) + d->first + c0, m,
                    &v);
        for (int64_t t = t0; t < end; t++) {
            const struct code_row r = code_row(d->g, d->job, d->in, t, d->first + c0, m, spare);

            decode_across(out + (t - t0) * d->width + c0, r, m, &v, bf16, d->mode);
        }
    }
}

/* One token whose sets lie along its channels. */
static void decode_token(const struct decode *d, int64_t t, float *out)
{
    const int64_t channels = n_channels(d->job), end = d->first + d->width;
    const int64_t set = d->g->axis == KVR_AXIS_TOKEN ? channels : d->g->group;
    const bool bf16 = d->job->compute == KVR_COMPUTE_BF16;
    uint8_t spare[STRIP];
    struct levels v;

    for (int64_t c0 = d->first; c0 < end; c0 += STRIP) {
        const int m = end - c0 < STRIP ? (int)(end - c0) : STRIP;
        const int64_t first_set = (t * channels + c0) / set;
        const int64_t last_set = (t * channels + c0 + m - 1) / set;
        struct code_row r = code_row(d->g, d->job, d->in, t, c0, m, spare);

        load_levels(d->g, d->job, d->in, first_set, (int)(last_set - first_set) + 1, &v);
        for (int64_t c = c0, i = 0; c < c0 + m; i++) {
            const int64_t next = (first_set + i + 1) * set - t * channels;
            const int n = (int)((next < c0 + m ? next : c0 + m) - c);

            decode_along(out + c - d->first, r, n, &v, (int)i, bf16, d->mode);
            r.p += n;
            c += n;
        }
    }
}

/* Tokens [t0, end) to out, whose first row is t0. */
static void decode_run(const struct decode *d, int64_t t0, int64_t end, float *out)
{
    const int64_t group = d->g->group;
    const int64_t begin = t0;

    while (t0 < end) {
        int64_t next = t0 + 1;

        if (d->g->axis == KVR_AXIS_TOKENS) {
            next = (t0 / group + 1) * group;
            next = next < end ? next : end;
            decode_block(d, t0, next, out + (t0 - begin) * d->width);
        } else {
            decode_token(d, t0, out + (t0 - begin) * d->width);
        }
        t0 = next;
    }
}

void kvr_grid_decode(const struct kvr_grid *g, const struct kvr_stage_job *job,
                     const struct kvr_stage_data *in, int64_t t0, int64_t n, int h0, int nh,
                     enum kvr_decode_mode mode, float *out)
{
    const struct decode d = {
        .g = g,
        .job = job,
        .in = in,
        .first = (int64_t)h0 * job->shape.head_dim,
        .width = (int64_t)nh * job->shape.head_dim,
        .mode = mode,
    };
    /* Cut where blocks are, so that no block's steps are loaded twice. */
    const int64_t cut = g->axis == KVR_AXIS_TOKENS ? g->group : ROWS;
    const int64_t first = t0 / cut, last = (t0 + n - 1) / cut;

    if (n * d.width < PARALLEL_FROM || omp_in_parallel()) {
        decode_run(&d, t0, t0 + n, out);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t b = first; b <= last; b++) {
        const int64_t begin = b * cut > t0 ? b * cut : t0;
        const int64_t end = (b + 1) * cut < t0 + n ? (b + 1) * cut : t0 + n;

        decode_run(&d, begin, end, out + (begin - t0) * d.width);
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
