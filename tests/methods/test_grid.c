/* test_grid.c - `sym` and `asym` against their definitions, one element at a time.
 *
 * The reference implementation collects the elements of one group, computes their scale, and
 * quantizes and decodes each element, independently of the packed layout. The codec rounds in the
 * same order as the reference, so decoded values must be bit-identical. Codes need no separate
 * comparison: within a group, equal decoded values have equal codes. */
#include "tests/methods/codec_tools.h"
#include "tests/suite.h"

/* Rounds to the arithmetic type, BF16 or F32. */
static float r16(float x, bool bf16)
{
    return bf16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(x)) : x;
}

static float clamp(float x, float lo, float hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Returns the smallest FP16 number >= x, at most 65504, by binary search. */
static float half_at_least(float x)
{
    unsigned lo = 0, hi = 0x7bff; /* FP16 magnitudes, in the order of their values */

    /* Finds the largest magnitude up to -x. */
    if (x < 0) {
        while (lo < hi) {
            const unsigned mid = (lo + hi + 1) / 2;

            if (kvr_f16_to_f32((kvr_f16)mid) <= -x)
                lo = mid;
            else
                hi = mid - 1;
        }
        return -kvr_f16_to_f32((kvr_f16)lo);
    }
    while (lo < hi) {
        const unsigned mid = (lo + hi) / 2;

        if (kvr_f16_to_f32((kvr_f16)mid) >= x)
            hi = mid;
        else
            lo = mid + 1;
    }
    return kvr_f16_to_f32((kvr_f16)lo);
}

static float half_at_most(float x)
{
    return -half_at_least(-x);
}

static float half(float x)
{
    return kvr_f16_to_f32(kvr_f32_to_f16(x));
}

struct spec {
    bool asym, study, bf16;
    int bits;
};

/* Quantizes one group of n elements in place. `padded` means that the group has additional
 * elements, zeros, which the array x does not contain. */
static void define_set(const struct spec *g, float *x[], int n, bool padded)
{
    const float top = (float)((1 << g->bits) - 1), qmax = (float)((1 << (g->bits - 1)) - 1);
    float lo = padded ? 0 : *x[0], hi = lo;
    bool finite = true;

    for (int i = 0; i < n; i++) {
        finite = finite && isfinite(*x[i]);
        lo = *x[i] < lo ? *x[i] : lo;
        hi = *x[i] > hi ? *x[i] : hi;
    }
    /* A non-finite element makes the whole group NaN. */
    if (!finite) {
        for (int i = 0; i < n; i++)
            *x[i] = NAN;
        return;
    }
    if (g->study && !g->asym) {
        const float amax = hi > -lo ? hi : -lo;
        const float s = fmaxf(r16(amax / qmax, g->bf16), r16(1e-8f, g->bf16));

        for (int i = 0; i < n; i++) {
            const float q = clamp(rintf(r16(*x[i] / s, g->bf16)), -qmax - 1, qmax);

            *x[i] = r16(q * half(s), g->bf16);
        }
    } else if (g->study) {
        const float s = fmaxf(r16(r16(hi - lo, g->bf16) / top, g->bf16), r16(1e-8f, g->bf16));
        const float z = clamp(rintf(r16(-lo / s, g->bf16)), 0, top);

        for (int i = 0; i < n; i++) {
            const float v = r16(r16(*x[i] / s, g->bf16) + z, g->bf16);

            *x[i] = r16((clamp(rintf(v), 0, top) - half(z)) * half(s), g->bf16);
        }
    } else if (g->asym) {
        const float m = half_at_most(lo), s = half_at_least((hi - m) / top);

        for (int i = 0; i < n; i++) {
            const float v = s > 0 ? r16(r16(*x[i] - m, g->bf16) / s, g->bf16) : 0;

            *x[i] = r16(r16(clamp(rintf(v), 0, top) * s, g->bf16) + m, g->bf16);
        }
    } else {
        const float pos = hi > 0 ? hi : 0, neg = lo < 0 ? -lo : 0;
        const float big = pos > neg ? pos : neg, small = pos > neg ? neg : pos;
        const float size = half_at_least(fmaxf(big / (qmax + 1), small / qmax));
        const float s = pos > neg ? -size : size;

        for (int i = 0; i < n; i++) {
            const float v = size > 0 ? r16(*x[i] / s, g->bf16) : 0;

            *x[i] = r16(clamp(rintf(v), -qmax - 1, qmax) * s, g->bf16);
        }
    }
}

enum axis { TOKENS, CHANNELS, TOKEN };

static void define_block(const struct spec *g, enum axis axis, int group,
                         const struct kvr_block_shape *shape, float *x)
{
    const int t_end = (int)shape->n_tok, width = shape->n_heads * shape->head_dim;
    float **set = malloc(sizeof *set * (size_t)(t_end + width));

    ck_assert_ptr_nonnull(set);
    for (int t0 = 0; axis == TOKENS && t0 < t_end; t0 += group)
        for (int c = 0; c < width; c++) {
            int n = 0;

            for (int t = t0; t < t_end && t < t0 + group; t++)
                set[n++] = &x[t * width + c];
            /* The study pads to whole blocks of 16 tokens. */
            define_set(g, set, n, g->study && n < group && (t0 + n) % 16 != 0);
        }
    for (int t = 0; axis != TOKENS && t < t_end; t++)
        for (int c0 = 0; c0 < width;) {
            int n = 0;

            for (; n < (axis == TOKEN ? width : group); n++)
                set[n] = &x[t * width + c0 + n];
            define_set(g, set, n, false);
            c0 += n;
        }
    free(set);
}

static const struct kvr_block_shape shapes[] = {
    { 1, 1, 16 }, { 15, 2, 16 }, { 16, 2, 32 }, { 33, 3, 16 }, { 49, 1, 128 }, { 19, 5, 64 },
};
static const struct {
    enum axis axis;
    int group;
    const char *text;
} layouts[] = {
    { TOKENS, 16, "axis=tokens,group=16" },     { TOKENS, 8, "axis=tokens,group=8" },
    { TOKENS, 24, "axis=tokens,group=24" },     { CHANNELS, 8, "axis=channels,group=8" },
    { CHANNELS, 16, "axis=channels,group=16" }, { TOKEN, 0, "axis=token" },
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_LAYOUTS = sizeof layouts / sizeof *layouts };

static void compare(const struct spec *g, int layout, const struct kvr_block_shape *shape,
                    enum fill how)
{
    const size_t n = elements(shape), bytes = n * sizeof(float);
    struct kvr_dev *dev = open_dev();
    char text[96];
    float *x = floats(n), *want = floats(n), *work = floats(n), *got = guarded(bytes);
    struct kvr_codec *c;
    struct kvr_packed p;

    snprintf(text, sizeof text, "%s(bits=%d,%s)", g->asym ? "asym" : "sym", g->bits,
             layouts[layout].text);
    c = open_codec(text, KVR_K, g->study, g->bf16 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);
    ck_assert_int_eq(kvr_codec_check(c, shape->n_heads, shape->head_dim), KVR_OK);
    fill_block(x, shape, how, 1);
    memcpy(want, x, bytes);
    define_block(g, layouts[layout].axis, layouts[layout].group, shape, want);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, shape, work, &p), KVR_OK);
    ck_assert_uint_eq(kvr_packed_bytes(&p), kvr_codec_bytes(c, shape));
    kvr_codec_decode(&p, 0, shape->n_tok, 0, shape->n_heads, got);
    check_guards(got, bytes);
    for (size_t i = 0; i < n; i++)
        if (!same(got[i], want[i]))
            ck_abort_msg("%s%s%s, %s, [%d,%d,%d], element %zu: %a, not %a", text,
                         g->study ? " @study" : "", g->bf16 ? " bf16" : "", fill_names[how],
                         (int)shape->n_tok, shape->n_heads, shape->head_dim, i, (double)got[i],
                         (double)want[i]);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(want);
    free(work);
    guarded_free(got);
}

START_TEST(every_width_and_layout)
{
    const struct spec g = { _i & 1, _i >> 1 & 1, _i >> 2 & 1, _i / 8 + 2 };

    for (int l = 0; l < N_LAYOUTS; l++)
        for (int s = 1; s < 4; s++)
            compare(&g, l, &shapes[s], FILL_OUTLIER_CHANNEL);
}
END_TEST

START_TEST(hostile_fills)
{
    const struct spec g = { _i & 1, _i >> 1 & 1, _i >> 2 & 1, _i >> 3 ? 2 : 4 };

    for (int how = 0; how < N_FILLS; how++)
        for (int l = 0; l < N_LAYOUTS; l++)
            compare(&g, l, &shapes[3], how);
}
END_TEST

START_TEST(ragged_shapes)
{
    const struct spec g = { _i & 1, _i >> 1 & 1, false, 3 };

    for (int s = 0; s < N_SHAPES; s++)
        for (int l = 0; l < N_LAYOUTS; l++)
            compare(&g, l, &shapes[s], FILL_NORMAL);
}
END_TEST

/* Quantizes values from 8 to 12, a range without 0. The study's zero point saturates at 0 and every
 * code at 15, so all values decode to 15 steps of 4/15, about 4. In the intended version the error
 * is at most half a step. */
START_TEST(the_study_saturates_a_range_without_zero)
{
    const struct kvr_block_shape shape = { 16, 1, 16 };
    struct kvr_dev *dev = open_dev();
    float x[256], work[256], got[256];

    /* 8, 8.25, ..., 11.5, 12, so the step is 4/15 */
    for (int i = 0; i < 256; i++)
        x[i] = i / 16 == 15 ? 12.0f : 8.0f + 0.25f * (float)(i / 16);
    for (int study = 0; study < 2; study++) {
        struct kvr_codec *c = open_codec("asym(bits=4)", KVR_K, study, KVR_COMPUTE_F32);
        struct kvr_packed p;

        ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
        kvr_codec_decode(&p, 0, 16, 0, 1, got);
        for (int i = 0; i < 256; i++) {
            /* zero point 0, code 15, scale 4/15 in FP16 */
            if (study)
                ck_assert(same(got[i], 15 * half(4.0f / 15)));
            /* half a step; the step is rounded up to FP16, by at most 2^-10 relative */
            else
                ck_assert(fabsf(got[i] - x[i]) <= 0.5f * 4 / 15 * (1 + 0x1p-10f));
        }
        kvr_packed_free(&p);
        kvr_codec_close(&c);
    }
    /* In a constant group the study's scale is its lower limit, 1e-8, which is 0 in FP16. All
     * elements then decode to 0. */
    for (int i = 0; i < 256; i++)
        x[i] = 0.75f;
    for (int study = 0; study < 2; study++) {
        struct kvr_codec *c = open_codec("asym(bits=4)", KVR_K, study, KVR_COMPUTE_F32);
        struct kvr_packed p;

        ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
        kvr_codec_decode(&p, 0, 16, 0, 1, got);
        for (int i = 0; i < 256; i++)
            ck_assert(same(got[i], study ? 0 : 0.75f));
        kvr_packed_free(&p);
        kvr_codec_close(&c);
    }
    kvr_dev_close(&dev);
}
END_TEST

/* Quantizes values from -2 to 1 with 2 bits. The intended version has step 1 and uses the four
 * levels -2 to 1. The study's version has step 2, where 1 is half a step and rounds to 0, so it
 * uses two levels, -2 and 0. */
START_TEST(levels_in_use)
{
    const struct kvr_block_shape shape = { 16, 1, 16 };
    struct kvr_dev *dev = open_dev();
    float x[256], work[256], got[256];

    for (int i = 0; i < 256; i++)
        x[i] = (float)(i / 16) / 5 - 2;
    for (int study = 0; study < 2; study++) {
        struct kvr_codec *c = open_codec("sym(bits=2)", KVR_K, study, KVR_COMPUTE_F32);
        struct kvr_packed p;
        int n = 1;

        ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
        kvr_codec_decode(&p, 0, 16, 0, 1, got);
        /* x ascends, so each change is a new level. */
        for (int t = 1; t < 16; t++)
            n += got[t * 16] != got[(t - 1) * 16];
        ck_assert_int_eq(n, study ? 2 : 4);
        kvr_packed_free(&p);
        kvr_codec_close(&c);
    }
    kvr_dev_close(&dev);
}
END_TEST

/* The sign of a computed NaN depends on the processor and must not reach stored bytes. Blocks
 * with NaNs in several groups give the same bytes for positive and negative NaNs, in F32 and in
 * BF16. */
START_TEST(the_sign_of_a_nan_is_not_stored)
{
    const struct kvr_block_shape shape = { 32, 2, 32 };
    const bool study = _i & 1, bf16_in = _i >> 1 & 1;
    static const char *const texts[] = { "sym(bits=4)", "asym(bits=2)", "asym(bits=3,axis=token)",
                                         "asym(bits=4,axis=channels,group=32)",
                                         "asym(bits=4) + asym(bits=2)" };
    enum { N = 32 * 2 * 32 };
    struct kvr_dev *dev = open_dev();
    float x[N], work[N];
    kvr_bf16 narrow[N];

    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        struct kvr_codec *c = open_codec(texts[t], KVR_K, study, KVR_COMPUTE_F32);
        struct kvr_packed p[2];

        for (int negative = 0; negative < 2; negative++) {
            fill_block(x, &shape, FILL_OFFSET, 7);
            for (int i = 0; i < N; i += 5 * 37)
                x[i] = negative ? -NAN : NAN;
            for (int i = 0; i < N; i++)
                narrow[i] = (kvr_bf16)(kvr_f32_bits(x[i]) >> 16);
            ck_assert_int_eq(bf16_in
                                 ? kvr_codec_encode_bf16(c, dev, narrow, &shape, work, &p[negative])
                                 : kvr_codec_encode(c, dev, x, &shape, work, &p[negative]),
                             KVR_OK);
        }
        for (int i = 0; i < KVR_MAX_STAGES; i++) {
            const struct kvr_buf *codes[2] = { &p[0].stage[i].codes, &p[1].stage[i].codes };
            const struct kvr_buf *meta[2] = { &p[0].stage[i].meta, &p[1].stage[i].meta };

            ck_assert_msg(!codes[0]->n_bytes ||
                              !memcmp(codes[0]->p, codes[1]->p, codes[0]->n_bytes),
                          "%s: codes differ", texts[t]);
            ck_assert_msg(!meta[0]->n_bytes || !memcmp(meta[0]->p, meta[1]->p, meta[0]->n_bytes),
                          "%s: scales or zero points differ", texts[t]);
        }
        kvr_packed_free(&p[0]);
        kvr_packed_free(&p[1]);
        kvr_codec_close(&c);
    }
    kvr_dev_close(&dev);
}
END_TEST

/* One flipped bit in the codes changes exactly one decoded element, which the comparison
 * detects. */
START_TEST(a_damaged_byte_is_seen)
{
    const struct kvr_block_shape shape = { 33, 2, 16 };
    const size_t n = elements(&shape);
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = open_codec("sym(bits=4)", KVR_K, false, KVR_COMPUTE_F32);
    float *x = floats(n), *work = floats(n), *a = floats(n), *b = floats(n);
    struct kvr_packed p;
    int differ = 0;

    fill_block(x, &shape, FILL_NORMAL, 2);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, shape.n_tok, 0, shape.n_heads, a);
    ((uint8_t *)p.stage[0].codes.p)[5] ^= 1;
    kvr_codec_decode(&p, 0, shape.n_tok, 0, shape.n_heads, b);
    for (size_t i = 0; i < n; i++)
        differ += !same(a[i], b[i]);
    ck_assert_int_eq(differ, 1);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(a);
    free(b);
}
END_TEST

START_TEST(impossible_settings_are_refused)
{
    struct kvr_codec *c = open_codec("asym(axis=channels,group=48)", KVR_K, false, KVR_COMPUTE_F32);

    ck_assert_int_eq(kvr_codec_check(c, 2, 128), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "48"));
    ck_assert_ptr_nonnull(strstr(kvr_error(), "128"));
    kvr_codec_close(&c);
    ck_assert_int_eq(kvr_codec_open(&c, "asym(bits=1)", KVR_K, false), KVR_EINVAL);
    ck_assert_int_eq(kvr_codec_open(&c, "asym(bits=9)", KVR_K, false), KVR_EINVAL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("grid");
    TCase *tc = tcase_create("grid");

    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_width_and_layout, 0, 8 * 7);
    tcase_add_loop_test(tc, hostile_fills, 0, 16);
    tcase_add_loop_test(tc, ragged_shapes, 0, 4);
    tcase_add_test(tc, the_study_saturates_a_range_without_zero);
    tcase_add_test(tc, levels_in_use);
    tcase_add_loop_test(tc, the_sign_of_a_nan_is_not_stored, 0, 4);
    tcase_add_test(tc, a_damaged_byte_is_seen);
    tcase_add_test(tc, impossible_settings_are_refused);
    return run_suite(s);
}
