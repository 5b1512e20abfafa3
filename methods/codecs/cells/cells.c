/* cells.c - the stages `ints`, `floats`, `gauss` and `iq4_nl`: options, layout and CPU loops. The
 * arithmetic is in cells.h, the kernels in cells_cuda.cu.
 *
 * The formats define their own arithmetic, so compute=bf16 has no effect. The intended version and
 * the study version (grid.h) do not differ. */
#include "methods/codecs/cells/cells.h"

#include <string.h>

#include "methods/kernels/pack.h"

enum { ROWS = 8 };

static const char *const scale_names[] = { "one",  "block", "f32",    "f16", "bf16",
                                           "e4m3", "e8m0",  "e4m3up", NULL };
enum zero { ZERO_NONE, ZERO_F16, ZERO_BF16, ZERO_F32, ZERO_E4M3, ZERO_POINT, ZERO_HIDDEN, N_ZEROS };
static const char *const zero_names[] = {
    [ZERO_NONE] = "none", [ZERO_F16] = "f16",     [ZERO_BF16] = "bf16",     [ZERO_F32] = "f32",
    [ZERO_E4M3] = "e4m3", [ZERO_POINT] = "point", [ZERO_HIDDEN] = "hidden", [N_ZEROS] = NULL
};
static const char *const round_names[] = { "even", "away", "up", "trunc", NULL };
static const char *const by_names[] = { "stored", "unrounded", "inverse", NULL };
enum extreme { EXTREME_ABS, EXTREME_FIRST };
static const char *const extreme_names[] = {
    [EXTREME_ABS] = "abs", [EXTREME_FIRST] = "first", NULL
};
static const char *const pick_names[] = { "top", "floor", "best", NULL };
enum format { FORMAT_E4M3, FORMAT_E5M2, FORMAT_E3M2, FORMAT_E2M3, FORMAT_E2M1, N_FORMATS };
static const char *const format_names[] = {
    [FORMAT_E4M3] = "e4m3", [FORMAT_E5M2] = "e5m2", [FORMAT_E3M2] = "e3m2",
    [FORMAT_E2M3] = "e2m3", [FORMAT_E2M1] = "e2m1", [N_FORMATS] = NULL
};
enum table { TABLE_LLOYD, TABLE_TRAPEZOID };
static const char *const table_names[] = {
    [TABLE_LLOYD] = "lloyd", [TABLE_TRAPEZOID] = "trapezoid", NULL
};
enum norm { NORM_PLAIN, NORM_KEPT };
static const char *const norm_names[] = { [NORM_PLAIN] = "plain", [NORM_KEPT] = "kept", NULL };

struct ints_opts {
    int bits, group, scale, zero, round, by, extreme;
    double clip, quantile, least;
};
static const struct kvr_opt ints_options[] = {
    KVR_OPT_INT(struct ints_opts, bits, 8, 2, 8, "bits per stored element"),
    KVR_OPT_INT(struct ints_opts, group, 0, 0, CELLS_MAX_GROUP,
                "number of channels of a head that share a scale; 0 means the whole head"),
    KVR_OPT_ENUM(struct ints_opts, scale, CELLS_F32, scale_names,
                 "data type of scales (e4m3up: E4M3, rounded up); `block` means one FP32 scale for "
                 "the whole block"),
    KVR_OPT_ENUM(struct ints_opts, zero, ZERO_NONE, zero_names,
                 "offset of codes: none; the group's minimum in FP16, BF16, FP32 or E4M3; or an "
                 "integer zero point, stored in a byte (point) or in the low bits of the scale "
                 "(hidden)"),
    KVR_OPT_ENUM(struct ints_opts, round, CELLS_EVEN, round_names,
                 "rounding of codes: to nearest, with ties to even (even), away from 0 (away) or "
                 "upward (up); or toward 0 (trunc)"),
    KVR_OPT_ENUM(struct ints_opts, by, CELLS_STORED, by_names,
                 "whether elements are divided by the stored scale (stored) or the unrounded scale "
                 "(unrounded), or multiplied by the inverse of the unrounded scale (inverse)"),
    KVR_OPT_ENUM(
        struct ints_opts, extreme, EXTREME_ABS, extreme_names,
        "abs: the largest magnitude sets the scale, and code -2^(bits-1) is unused; first: the "
        "first element of largest magnitude gets code -2^(bits-1), and the scale has the opposite "
        "sign of this element"),
    KVR_OPT_FLOAT(struct ints_opts, clip, 1, 0.1, 1,
                  "factor that scales the quantization range; elements outside it are clipped"),
    KVR_OPT_FLOAT(struct ints_opts, quantile, 1, 0.5, 1,
                  "quantile of the group's magnitudes that sets the quantization range"),
    KVR_OPT_FLOAT(struct ints_opts, least, 0, 0, 1, "lower bound of scales"),
    { 0 }
};

struct floats_opts {
    int format, group, scale, pick, by;
    bool relative;
    double least;
};
static const struct kvr_opt floats_options[] = {
    KVR_OPT_ENUM(struct floats_opts, format, FORMAT_E4M3, format_names,
                 "floating-point format of the elements"),
    KVR_OPT_INT(struct floats_opts, group, 0, 0, CELLS_MAX_GROUP,
                "number of channels of a head that share a scale; 0 means the whole head"),
    KVR_OPT_ENUM(struct floats_opts, scale, CELLS_F32, scale_names,
                 "data type of scales (e4m3up: E4M3, rounded up); `block` means one FP32 scale for "
                 "the whole block, `one` "
                 "means no scale"),
    KVR_OPT_BOOL(
        struct floats_opts, relative, false,
        "whether scales are relative to the block's largest magnitude, which is also stored"),
    KVR_OPT_ENUM(struct floats_opts, pick, CELLS_TOP, pick_names,
                 "choice of the scale: top (no element saturates), floor (power of two rounded "
                 "down, as in OCP) or best (of two candidates, the one with the smaller error)"),
    KVR_OPT_ENUM(struct floats_opts, by, CELLS_STORED, by_names,
                 "whether elements are divided by the stored scale (stored) or the unrounded scale "
                 "(unrounded), or multiplied by the inverse of the unrounded scale (inverse)"),
    KVR_OPT_FLOAT(struct floats_opts, least, 0, 0, 1, "lower bound of scales"),
    { 0 }
};

struct gauss_opts {
    int bits, table, norm;
};
static const struct kvr_opt gauss_options[] = {
    KVR_OPT_INT(struct gauss_opts, bits, 4, 1, 4, "bits per stored element"),
    KVR_OPT_ENUM(struct gauss_opts, table, TABLE_LLOYD, table_names,
                 "how the Lloyd-Max levels of the normal distribution are computed: with exact "
                 "integrals (lloyd), or with the trapezoid rule as in vLLM (trapezoid)"),
    KVR_OPT_ENUM(
        struct gauss_opts, norm, NORM_PLAIN, norm_names,
        "scale that is stored for each token and head: the norm of the head's vector (plain), or "
        "this norm divided by the norm of the quantized levels, so that the decoded vector has the "
        "original norm (kept)"),
    { 0 }
};

struct iq4_nl_opts {
    int group;
};
static const struct kvr_opt iq4_nl_options[] = {
    KVR_OPT_INT(struct iq4_nl_opts, group, 32, 8, CELLS_MAX_GROUP,
                "number of channels of a head that share a scale"),
    { 0 }
};

/* The positive Lloyd-Max levels of the standard normal distribution, for codebooks of 2, 4, 8 and
 * 16 levels. */
static const float lloyd[] = { 0.797884561f,                                         /**/
                               0.452780035f, 1.51041761f,                            /**/
                               0.245094179f, 0.756005281f, 1.34390928f,  2.1519457f, /**/
                               0.12839503f,  0.388048299f, 0.656759119f, 0.942340456f,
                               1.2562312f,   1.61804639f,  2.06901723f,  2.73258957f };
/* The same levels as computed by vLLM for 8 and 16 levels: the distribution is truncated at 10.5
 * sigma and integrated with 200 trapezoids per quantization interval. */
static const float trapezoid[] = { 0,
                                   0,
                                   0, /**/
                                   0.244983594f,
                                   0.755645504f,
                                   1.34318001f,
                                   2.15034955f, /**/
                                   0.128427661f,
                                   0.388137791f,
                                   0.656879919f,
                                   0.942448243f,
                                   1.25625757f,
                                   1.61788176f,
                                   2.06844712f,
                                   2.73092222f };
static const float iq4_levels[] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113 };

/* Functions that set the fields of struct cells from a stage's options. The function cells_of()
 * adds the shape of the block. */

static void ints_rule(const void *opts, struct cells *c)
{
    static const struct {
        int zero, second; /* kind of the offset, and the data type in which it is stored */
    } of[N_ZEROS] = {
        [ZERO_NONE] = { CELLS_NO_ZERO, CELLS_ONE },  [ZERO_F16] = { CELLS_MINIMUM, CELLS_F16 },
        [ZERO_BF16] = { CELLS_MINIMUM, CELLS_BF16 }, [ZERO_F32] = { CELLS_MINIMUM, CELLS_F32 },
        [ZERO_E4M3] = { CELLS_MINIMUM, CELLS_E4M3 }, [ZERO_POINT] = { CELLS_POINT, CELLS_U8 },
        [ZERO_HIDDEN] = { CELLS_HIDDEN, CELLS_ONE },
    };
    const struct ints_opts *o = opts;

    c->kind = CELLS_INTS;
    c->bits = o->bits;
    c->group = o->group;
    c->scale = o->scale;
    c->zero = of[o->zero].zero;
    c->second = of[o->zero].second;
    c->round = o->round;
    c->by = o->by;
    c->first_extreme = o->extreme == EXTREME_FIRST;
    c->clip = (float)o->clip;
    c->quantile = (float)o->quantile;
    c->least = (float)o->least;
}

static void floats_rule(const void *opts, struct cells *c)
{
    static const struct {
        int bits, man, emin, nan;
        float top;
    } of[N_FORMATS] = {
        [FORMAT_E4M3] = { 8, 3, -6, 0x7f, 448 }, [FORMAT_E5M2] = { 8, 2, -14, 0x7f, 57344 },
        [FORMAT_E3M2] = { 6, 2, -2, -1, 28 },    [FORMAT_E2M3] = { 6, 3, 0, -1, 7.5f },
        [FORMAT_E2M1] = { 4, 1, 0, -1, 6 },
    };
    const struct floats_opts *o = opts;

    c->kind = CELLS_FLOATS;
    c->bits = of[o->format].bits;
    c->man = of[o->format].man;
    c->emin = of[o->format].emin;
    c->nan = of[o->format].nan;
    c->top = of[o->format].top;
    c->group = o->group;
    c->scale = o->scale;
    c->relative = o->relative;
    c->pick = o->pick;
    c->by = o->by;
    c->least = (float)o->least;
}

static void gauss_rule(const void *opts, struct cells *c)
{
    const struct gauss_opts *o = opts;
    const int half = 1 << (o->bits - 1);
    const float *upper = (o->table == TABLE_TRAPEZOID ? trapezoid : lloyd) + half - 1;

    c->kind = CELLS_LEVELS;
    c->bits = o->bits;
    c->scale = CELLS_F16;
    c->of_levels = o->norm == NORM_KEPT ? CELLS_NORM_KEPT : CELLS_NORM;
    for (int i = 0; i < half; i++) {
        c->level[half + i] = upper[i];
        c->level[half - 1 - i] = -upper[i];
    }
}

static void iq4_nl_rule(const void *opts, struct cells *c)
{
    c->kind = CELLS_LEVELS;
    c->bits = 4;
    c->group = ((const struct iq4_nl_opts *)opts)->group;
    c->scale = CELLS_F16;
    c->of_levels = CELLS_REFIT;
    memcpy(c->level, iq4_levels, sizeof iq4_levels);
}

/* kvr_stage.variant of these stages points to a pointer to such a function. */
typedef void rule_fn(const void *opts, struct cells *c);

static struct cells cells_of(const struct kvr_stage_job *job)
{
    struct cells c = { .nan = -1 };
    size_t scales, seconds, at;

    (*(rule_fn *const *)job->stage->variant)(job->opts, &c);
    c.group = c.group ? c.group : job->shape.head_dim;
    c.n_tok = job->shape.n_tok;
    c.channels = (int64_t)job->shape.n_heads * job->shape.head_dim;
    c.n_groups = c.n_tok * c.channels / c.group;
    at = c.relative || c.scale == CELLS_BLOCK ? sizeof(float) : 0;
    scales = (size_t)c.n_groups * cells_size(c.scale);
    seconds = (size_t)c.n_groups * cells_size(c.second);
    c.scale_at = at + (cells_size(c.second) > cells_size(c.scale) ? seconds : 0);
    c.second_at = at + (cells_size(c.second) > cells_size(c.scale) ? 0 : scales);
    c.params_bytes = at + scales + seconds;
    return c;
}

static enum kvr_status check_group(int group, int d)
{
    if (d > CELLS_MAX_GROUP && !group)
        return kvr_fail(KVR_EINVAL,
                        "group=0 is not allowed: it means the whole head of %d channels, but a "
                        "group may have at most %d; set group to a divisor of %d",
                        d, CELLS_MAX_GROUP, d);
    if (group && (group < 8 || d % group))
        return kvr_fail(KVR_EINVAL,
                        "group is %d channels: must be at least 8 and divide head_dim %d", group,
                        d);
    return KVR_OK;
}

static enum kvr_status ints_check(const struct kvr_stage_job *job)
{
    const struct ints_opts *o = job->opts;

    if (o->scale == CELLS_ONE)
        return kvr_fail(
            KVR_EINVAL,
            "scale=one is not allowed: integer codes need a scale, for example scale=f32");
    if (o->zero != ZERO_NONE && o->scale == CELLS_BLOCK)
        return kvr_fail(KVR_EINVAL, "scale=block needs zero=none, not zero=%s",
                        zero_names[o->zero]);
    if (o->zero == ZERO_HIDDEN && (o->scale != CELLS_F32 || o->bits > 4))
        return kvr_fail(KVR_EINVAL,
                        "zero=hidden uses 4 low bits of an FP32 scale, so it needs bits of at most "
                        "4 and scale=f32 (not bits=%d, scale=%s)",
                        o->bits, scale_names[o->scale]);
    if (o->extreme == EXTREME_FIRST &&
        (o->zero != ZERO_NONE || o->scale == CELLS_BLOCK || o->scale == CELLS_E8M0))
        return kvr_fail(KVR_EINVAL,
                        "extreme=first needs zero=none and a scale that can be negative (not block "
                        "or e8m0), but got zero=%s and scale=%s",
                        zero_names[o->zero], scale_names[o->scale]);
    if (o->quantile < 1 &&
        (o->zero != ZERO_NONE || o->extreme != EXTREME_ABS || o->scale == CELLS_BLOCK))
        return kvr_fail(KVR_EINVAL,
                        "quantile=%g applies to a group's magnitudes, so it needs zero=none, "
                        "extreme=abs and a scale other than block, but got zero=%s, extreme=%s and "
                        "scale=%s",
                        o->quantile, zero_names[o->zero], extreme_names[o->extreme],
                        scale_names[o->scale]);
    return check_group(o->group, job->shape.head_dim);
}

static enum kvr_status floats_check(const struct kvr_stage_job *job)
{
    const struct floats_opts *o = job->opts;

    if (o->scale == CELLS_ONE && o->format != FORMAT_E4M3 && o->format != FORMAT_E5M2)
        return kvr_fail(KVR_EINVAL,
                        "scale=one is not allowed with format=%s, which has no code for NaN "
                        "elements; use another scale, or format e4m3 or e5m2",
                        format_names[o->format]);
    if (o->relative && o->scale != CELLS_E4M3)
        return kvr_fail(KVR_EINVAL, "relative=true needs scale=e4m3, not %s",
                        scale_names[o->scale]);
    if (o->pick == CELLS_FLOOR && o->scale != CELLS_E8M0)
        return kvr_fail(KVR_EINVAL, "pick=floor needs scale=e8m0, not %s", scale_names[o->scale]);
    if (o->pick == CELLS_BEST && (o->scale != CELLS_E4M3 || o->format != FORMAT_E2M1))
        return kvr_fail(KVR_EINVAL, "pick=best needs format=e2m1 and scale=e4m3, not %s and %s",
                        format_names[o->format], scale_names[o->scale]);
    return check_group(o->group, job->shape.head_dim);
}

static enum kvr_status gauss_check(const struct kvr_stage_job *job)
{
    const struct gauss_opts *o = job->opts;

    if (o->table == TABLE_TRAPEZOID && o->bits < 3)
        return kvr_fail(KVR_EINVAL, "table=trapezoid needs bits=3 or bits=4, not bits=%d", o->bits);
    return check_group(0, job->shape.head_dim);
}

static enum kvr_status iq4_nl_check(const struct kvr_stage_job *job)
{
    return check_group(((const struct iq4_nl_opts *)job->opts)->group, job->shape.head_dim);
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct cells c = cells_of(job);

    *out = (struct kvr_layout){
        .bytes = { .codes = kvr_pack_bytes(c.n_tok, c.channels, c.bits), .meta = c.params_bytes },
        .form = KVR_FORM_OWN,
        .bits = c.bits,
        .n_tok = c.n_tok,
    };
}

/* Returns whether the quantization error of an element is at most about half of its group's
 * scale. */
static bool has_steps(const struct cells *c)
{
    return c->kind == CELLS_INTS && c->scale != CELLS_BLOCK && c->round != CELLS_TRUNC &&
           !(c->quantile < 1);
}

/* For floating-point elements, the quantization step is proportional to the value. For values with
 * a log-uniformly distributed mantissa, the mean of (step / value)^2 is 3 / (8 ln 2) 2^(-2 n) with
 * n mantissa bits. Formats with clamped extremes or non-uniform levels have no such model, and
 * their error must be measured. */
static void noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                  struct kvr_coding_noise *out)
{
    const struct cells c = cells_of(job);

    (void)in;
    out->kind = KVR_NOISE_MEASURED;
    if (has_steps(&c)) {
        out->kind = KVR_NOISE_SCALES;
        out->axis = KVR_AXIS_CHANNELS;
        out->group = c.group;
        out->dead_zone = c.zero == CELLS_NO_ZERO && c.bits == 2;
    }
    if (c.kind == CELLS_FLOATS && c.bits == 8 && c.pick != CELLS_FLOOR) {
        out->kind = KVR_NOISE_RELATIVE;
        out->relative = sqrtf(0.541f) / (float)(1 << c.man);
    }
}

/* ---- CPU --------------------------------------------------------------------------------- */

static void put_number(uint8_t *params, size_t at, int number, int64_t i, unsigned raw)
{
    const size_t size = cells_size(number);
    const uint16_t half = (uint16_t)raw;
    const uint8_t byte = (uint8_t)raw;

    if (size)
        memcpy(params + at + (size_t)i * size,
               size == 4   ? (const void *)&raw
               : size == 2 ? (const void *)&half
                           : (const void *)&byte,
               size);
}

static unsigned get_number(const uint8_t *params, size_t at, int number, int64_t i)
{
    const uint8_t *p = params + at + (size_t)i * cells_size(number);
    uint16_t half;
    uint32_t word;

    switch (cells_size(number)) {
    case 4:
        memcpy(&word, p, 4);
        return word;
    case 2:
        memcpy(&half, p, 2);
        return half;
    case 1:
        return *p;
    default:
        return 0;
    }
}

static bool has_most(const struct cells *c)
{
    return c->relative || c->scale == CELLS_BLOCK;
}

static float largest(const float *x, int64_t n)
{
    uint32_t most = 0;

#pragma omp parallel for schedule(static) reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        const uint32_t u = kvr_f32_bits(x[i]) & 0x7fffffffu;

        most = u > most ? u : most;
    }
    return kvr_bits_f32(most);
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct cells c = cells_of(job);
    uint8_t *params = out->meta.p;
    float most = 0;

    if (has_most(&c)) {
        most = largest(x, c.n_tok * c.channels);
        memcpy(params, &most, sizeof most);
    }
#pragma omp parallel for schedule(static)
    for (int64_t t0 = 0; t0 < c.n_tok; t0 += ROWS) {
        const int rows = c.n_tok - t0 < ROWS ? (int)(c.n_tok - t0) : ROWS;
        uint8_t codes[ROWS * CELLS_MAX_GROUP];

        for (int64_t at = 0; at < c.channels; at += c.group) {
            for (int r = 0; r < rows; r++) {
                const int64_t first = (t0 + r) * c.channels + at;
                const struct cells_fit f = cells_fit(&c, x, first, most);

                put_number(params, c.scale_at, c.scale, first / c.group, f.raw);
                put_number(params, c.second_at, c.second, first / c.group, f.z);
                for (int i = 0; i < c.group; i++)
                    codes[r * c.group + i] = (uint8_t)cells_code(&c, &f, x[first + i]);
            }
            kvr_pack(out->codes.p, c.n_tok, c.channels, c.bits, t0, rows, at, c.group, codes);
        }
    }
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct cells c = cells_of(job);
    const int64_t d = job->shape.head_dim;
    const uint8_t *params = in->meta.p;
    uint8_t codes[CELLS_MAX_GROUP];
    float most = 0;

    if (has_most(&c))
        memcpy(&most, params, sizeof most);
    for (int64_t t = t0; t < t0 + n; t++)
        for (int64_t at = h0 * d; at < (h0 + nh) * d; at += c.group, out += c.group) {
            const int64_t g = (t * c.channels + at) / c.group;
            struct cells_fit f;

            cells_read(&c, get_number(params, c.scale_at, c.scale, g),
                       get_number(params, c.second_at, c.second, g), most, &f);
            for (int i = 0; i < c.group && mode == KVR_DECODE_SCALES; i++)
                out[i] = f.s;
            if (mode == KVR_DECODE_SCALES)
                continue;
            kvr_unpack_token(in->codes.p, c.n_tok, c.channels, c.bits, t, at, c.group, codes);
            for (int i = 0; i < c.group; i++) {
                const float v = cells_value(&c, &f, codes[i]);

                kvr_part_put(mode, out, i, v);
            }
        }
}

/* ---- CUDA -------------------------------------------------------------------------------- */

KVR_CODED_CUDA(cells)

#define CELLS_STAGE(stage, what)                                                                   \
    static rule_fn *const stage##_variant = stage##_rule;                                          \
    const struct kvr_stage kvr_stage_##stage = {                                                   \
        .name = #stage,                                                                            \
        .title = what,                                                                             \
        .kind = KVR_STAGE_GRID,                                                                    \
        .options = stage##_options,                                                                \
        .opts_size = sizeof(struct stage##_opts),                                                  \
        .variant = &stage##_variant,                                                               \
        .deterministic = true,                                                                     \
        .check = stage##_check,                                                                    \
        .layout = layout,                                                                          \
        .noise = noise,                                                                            \
        .cpu = { .encode = encode, .decode = decode },                                             \
        .cuda = &cuda,                                                                             \
    }

CELLS_STAGE(
    ints,
    "integers, with one scale per group of a head's channels; option `scale` sets its data type");
CELLS_STAGE(floats, "low-precision floats, with one scale per group of a head's channels; option "
                    "`scale` sets its data type");
CELLS_STAGE(gauss, "divides each token's vector of a head by its norm, and quantizes it to levels "
                   "for the normal distribution");
CELLS_STAGE(iq4_nl,
            "16 non-uniform levels, with one FP16 scale per group, fitted by least squares");
