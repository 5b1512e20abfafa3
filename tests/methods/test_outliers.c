/* test_outliers.c - which elements are stored exactly, and the values that replace them for the
 * grid. */
#include "tests/methods/codec_tools.h"
#include "tests/suite.h"
#include "tests/threads.h"

#include <omp.h>

/* Expected result, computed from the stage's definition one element at a time: held[i] is true if
 * element i is stored as an outlier, and n is the number of outliers. */
struct want {
    bool *held;
    int64_t n;
    float *left; /* input of the grid, with outliers replaced */
};

static float bound_by_definition(const float *x, int64_t n, int64_t padded, double tau, bool bf16)
{
    double mean = 0, square = 0;
    float sigma;

    for (int64_t i = 0; i < n; i++)
        mean += (double)x[i];
    mean /= (double)padded;
    for (int64_t i = 0; i < n; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean);
    square += (double)(padded - n) * mean * mean;
    sigma = (float)sqrt(square / (double)padded);
    if (!isfinite(sigma))
        return NAN;
    if (bf16)
        sigma = kvr_bf16_to_f32(kvr_f32_to_bf16(sigma));
    sigma = sigma > 1e-8f ? sigma : 1e-8f;
    sigma = (float)(tau * (double)sigma);
    return bf16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(sigma)) : sigma;
}

enum left { FILL, CLAMP, KEEP };
static const char *const left_names[] = { "fill", "clamp", "keep" };

static struct want define(const float *x, const struct kvr_block_shape *s, double tau,
                          double max_ratio, enum left left, bool study, bool bf16)
{
    const int64_t n = (int64_t)elements(s), width = s->n_heads * s->head_dim;
    const int64_t padded = study && left != KEEP ? (s->n_tok + 15) / 16 * 16 * width : n;
    const float bound = bound_by_definition(x, n, padded, tau, bf16);
    const int64_t most = (int64_t)(max_ratio * (double)n);
    struct want w = { calloc((size_t)n, sizeof *w.held), 0, floats((size_t)n) };

    ck_assert_ptr_nonnull(w.held);
    /* Selects the remaining element of the largest magnitude, on ties the one with the lowest
     * index. */
    while (w.n < most) {
        int64_t best = -1;

        for (int64_t i = 0; i < n; i++)
            if (!w.held[i] && fabsf(x[i]) > bound && (best < 0 || fabsf(x[i]) > fabsf(x[best])))
                best = i;
        if (best < 0)
            break;
        w.held[best] = true;
        w.n++;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t j = i;

        w.left[i] = x[i];
        if (!w.held[i] || left == KEEP)
            continue;
        if (left == CLAMP) {
            w.left[i] = x[i] < 0 ? -bound : bound;
            continue;
        }
        while (j >= 0 && w.held[j])
            j -= width;
        if (j < 0)
            for (j = i; j < n && w.held[j];)
                j += width;
        w.left[i] = j < n ? x[j] : 0;
    }
    return w;
}

static void free_want(struct want *w)
{
    free(w->held);
    free(w->left);
}

static float as_held(float x, bool study)
{
    const float v = kvr_f16_to_f32(kvr_f32_to_f16(x));

    return isinf(v) && !study ? copysignf(65504, v) : v;
}

/* Compares the stage with the reference. With raw(type=f32) as the grid, decoding the grid
 * returns its input. */
static void compare(double tau, double max_ratio, enum left left, bool study, bool bf16,
                    const struct kvr_block_shape *s, const float *x, bool want_some)
{
    const size_t n = elements(s), bytes = n * sizeof(float);
    struct kvr_dev *dev = open_dev();
    struct want w = define(x, s, tau, max_ratio, left, study, bf16);
    char text[128];
    float *work = floats(n), *got = guarded(bytes), *grid = floats(n);
    struct kvr_codec *c;
    struct kvr_packed p;
    const int32_t *index;
    int64_t k = 0;

    snprintf(text, sizeof text, "outliers(sigma=%g,max_ratio=%g,left=%s)|raw(type=f32)", tau,
             max_ratio, left_names[left]);
    c = open_codec(text, KVR_K, study, bf16 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, s, work, &p), KVR_OK);
    ck_assert_int_eq(kvr_packed_n_entries(&p), w.n);
    ck_assert(w.n > 0 || !want_some);
    ck_assert_uint_eq(p.stage[0].codes.n_bytes, (size_t)w.n * 2);
    ck_assert_uint_eq(p.stage[0].meta.n_bytes, (size_t)w.n * 4);
    ck_assert_uint_eq(kvr_packed_bytes(&p), n * 4 + (size_t)w.n * 6);
    ck_assert_uint_eq(kvr_packed_bytes(&p),
                      kvr_packed_nominal(&p).codes + kvr_packed_nominal(&p).meta);
    index = p.stage[0].meta.p;
    kvr_codec_decode(&p, 0, s->n_tok, 0, s->n_heads, got);
    check_guards(got, bytes);
    for (size_t i = 0; i < n; i++) {
        float want = w.held[i] ? as_held(x[i], study) : x[i];

        if (w.held[i] && bf16)
            want = kvr_bf16_to_f32(kvr_f32_to_bf16(want));
        if (w.held[i] && index[k++] != (int32_t)i)
            ck_abort_msg("%s: entry %d is element %d, not %zu", text, (int)k - 1, index[k - 1], i);
        if (!same(got[i], want))
            ck_abort_msg("%s: element %zu: %a, not %a", text, i, (double)got[i], (double)want);
    }
    c->stage[1].stage->cpu.decode(&(struct kvr_stage_job){ .opts = c->stage[1].opts, .shape = *s },
                                  &p.stage[1], 0, s->n_tok, 0, s->n_heads, KVR_DECODE_SET, grid);
    for (size_t i = 0; i < n; i++)
        if (!same(grid[i], w.left[i]))
            ck_abort_msg("%s: the grid saw %a, not %a, at %zu", text, (double)grid[i],
                         (double)w.left[i], i);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free_want(&w);
    free(work);
    free(grid);
    guarded_free(got);
}

/* Fills a block with normal numbers and large ones: single, in runs along a channel, at the
 * first tokens, and a channel with large values only. */
static float *block(const struct kvr_block_shape *s)
{
    const size_t n = elements(s), width = (size_t)(s->n_heads * s->head_dim);
    float *x = floats(n);

    fill_block(x, s, FILL_NORMAL, 7);
    for (size_t t = 0; t < (size_t)s->n_tok; t++) {
        x[t * width + 9] = t % 2 ? 90.0f : -91.0f;
        if (t < 4)
            x[t * width + 3] = 100;
        if (t >= 20 && t < 23)
            /* three elements of equal magnitude */
            x[t * width + 5] = -100;
    }
    x[7 * width + 1] = 64;
    return x;
}

START_TEST(holds_and_leaves_what_is_defined)
{
    const struct kvr_block_shape s = { 37, 3, 32 };
    float *x = block(&s);

    compare(3, 1, _i % 3, _i / 3 & 1, _i / 6, &s, x, true);
    free(x);
}
END_TEST

/* max_ratio=0.003 allows 10 outliers among 37 * 96 elements. The tenth and eleventh largest have
 * equal magnitude, so the lower index is selected. */
START_TEST(a_cap_keeps_the_largest)
{
    const struct kvr_block_shape s = { 37, 3, 32 };
    const double caps[] = { 0, 0.0003, 0.001, 0.0015, 0.003, 0.01, 1 };
    float *x = block(&s);

    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        compare(3, caps[i], _i % 3, _i / 3, false, &s, x, false);
    free(x);
}
END_TEST

START_TEST(hostile_fills)
{
    const struct kvr_block_shape s = { 21, 2, 32 };

    for (int how = 0; how < N_FILLS; how++) {
        float *x = floats(elements(&s));

        fill_block(x, &s, how, 8);
        compare(2, 1, _i % 3, _i / 3, false, &s, x, false);
        free(x);
    }
}
END_TEST

/* Outliers beyond the range of FP16 are stored as infinity in the study's version, and as FP16's
 * largest number, 65504, in the intended version. */
START_TEST(values_beyond_fp16)
{
    const struct kvr_block_shape s = { 16, 1, 64 };
    float *x = floats(elements(&s));

    fill_block(x, &s, FILL_NORMAL, 9);
    x[100] = 1e6f;
    x[200] = -1e6f;
    compare(6, 1, FILL, _i, false, &s, x, true);
    free(x);
}
END_TEST

/* A non-finite value reaches the output; storing it as an outlier must not hide it. */
START_TEST(nan_reaches_the_output)
{
    const struct kvr_block_shape s = { 32, 2, 32 };
    const size_t n = elements(&s);
    struct kvr_dev *dev = open_dev();
    float *x = floats(n), *work = floats(n), *got = floats(n);

    for (int left = 0; left < 3; left++)
        for (int how = FILL_NAN; how <= FILL_INF; how++) {
            char text[64];
            struct kvr_codec *c;
            struct kvr_packed p;

            snprintf(text, sizeof text, "outliers(left=%s)|asym", left_names[left]);
            c = open_codec(text, KVR_K, _i, KVR_COMPUTE_F32);
            fill_block(x, &s, how, 10);
            ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
            kvr_codec_decode(&p, 0, s.n_tok, 0, s.n_heads, got);
            ck_assert(!isfinite(got[spoiled(&s)]));
            kvr_packed_free(&p);
            kvr_codec_close(&c);
        }
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(got);
}
END_TEST

/* In the intended version, a replaced outlier does not widen the range of its group: the grid's
 * scales equal those of a block in which the replacement value stands instead. */
START_TEST(filled_outliers_leave_the_range_alone)
{
    const struct kvr_block_shape s = { 16, 1, 64 };
    const size_t n = elements(&s);
    struct kvr_dev *dev = open_dev();
    float *x = floats(n), *work = floats(n);
    struct kvr_codec *with = open_codec("outliers|asym", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_codec *without = open_codec("asym", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_packed a, b;
    struct kvr_coding_noise sa, sb;

    fill_block(x, &s, FILL_NORMAL, 12);
    x[5 * 64 + 7] = x[4 * 64 + 7]; /* the value that replaces the outlier */
    ck_assert_int_eq(kvr_codec_encode(without, dev, x, &s, work, &b), KVR_OK);
    x[5 * 64 + 7] = 500;
    ck_assert_int_eq(kvr_codec_encode(with, dev, x, &s, work, &a), KVR_OK);
    kvr_codec_noise(&a, &sa);
    kvr_codec_noise(&b, &sb);
    ck_assert_int_eq(sa.n_exact, 1);
    ck_assert_int_eq(sa.exact[0], 5 * 64 + 7);
    ck_assert_int_eq(sb.n_exact, 0);
    ck_assert(memcmp(sa.scale, sb.scale, 64 * sizeof *sa.scale) == 0);
    kvr_packed_free(&a);
    kvr_packed_free(&b);
    kvr_codec_close(&with);
    kvr_codec_close(&without);
    kvr_dev_close(&dev);
    free(x);
    free(work);
}
END_TEST

/* Checks that two packed blocks have the same bytes, both of the outliers and of the grid. */
static void same_stages(const struct kvr_packed *want, const struct kvr_packed *got)
{
    for (int k = 0; k < 2; k++) {
        const struct kvr_stage_data *a = &want->stage[k], *b = &got->stage[k];

        ck_assert_uint_eq(a->codes.n_bytes, b->codes.n_bytes);
        ck_assert_uint_eq(a->meta.n_bytes, b->meta.n_bytes);
        ck_assert(!a->codes.n_bytes || memcmp(a->codes.p, b->codes.p, a->codes.n_bytes) == 0);
        ck_assert(!a->meta.n_bytes || memcmp(a->meta.p, b->meta.p, a->meta.n_bytes) == 0);
    }
}

/* Encodes with outlier thresholds equal to the magnitude v of an element, and above and below it by
 * relative differences of 2^-22 to 2^-14. The BF16 encoder computes the threshold from F32 sums,
 * with errors of up to 2^-18, but must select the same outliers as the F32 encoder. */
static void same_at_threshold(const float *x, const kvr_bf16 *narrow,
                              const struct kvr_block_shape *s, float sigma, float v)
{
    const size_t n = elements(s);
    struct kvr_dev *dev = open_dev();
    float *work = floats(n);

    for (int i = -9; i <= 9; i++) {
        const double off = i == 0 ? 0 : copysign(ldexp(1, -23 + abs(i)), i);
        struct kvr_packed p[2];
        struct kvr_codec *c;
        char text[80];

        snprintf(text, sizeof text, "outliers(sigma=%.17g)|asym", (double)v / sigma * (1 + off));
        c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
        ck_assert_int_eq(kvr_codec_encode(c, dev, x, s, work, &p[0]), KVR_OK);
        ck_assert_int_eq(kvr_codec_encode_bf16(c, dev, narrow, s, work, &p[1]), KVR_OK);
        same_stages(&p[0], &p[1]);
        kvr_packed_free(&p[0]);
        kvr_packed_free(&p[1]);
        kvr_codec_close(&c);
    }
    kvr_dev_close(&dev);
    free(work);
}

START_TEST(bf16_selects_what_f32_does)
{
    const struct kvr_block_shape s = { 96, 3, 64 };
    const size_t n = elements(&s);
    float *x = floats(n), sigma;
    kvr_bf16 *narrow = calloc(n, sizeof *narrow);
    int tried = 0;

    ck_assert_ptr_nonnull(narrow);
    fill_block(x, &s, FILL_OUTLIER_CHANNEL, 21 + (uint64_t)_i);
    kvr_from_f32(narrow, KVR_BF16, x, n);
    sigma = bound_by_definition(x, (int64_t)n, (int64_t)n, 1, false);
    for (size_t i = 0; i < n && tried < 20; i++)
        if (fabsf(x[i]) > 1.5f * sigma) {
            same_at_threshold(x, narrow, &s, sigma, fabsf(x[i]));
            tried++;
        }
    ck_assert_int_eq(tried, 20);
    free(x);
    free(narrow);
}
END_TEST

/* One element in 64 is an outlier. With max_ratio=0.05 all of them are stored, and one pass finds
 * and encodes them. With max_ratio=0.01 the largest must be selected, in several passes. */
START_TEST(same_bytes_for_any_thread_count)
{
    const char *const text =
        _i < 2 ? "outliers(sigma=2,max_ratio=0.01)|asym" : "outliers(sigma=2,max_ratio=0.05)|asym";
    const struct kvr_block_shape s = { 1400, 3, 64 };
    const size_t n = elements(&s);
    const int before = omp_get_max_threads();
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = open_codec(text, KVR_K, _i % 2, KVR_COMPUTE_F32);
    float *x = floats(n), *work = floats(n);
    struct kvr_packed p[3];

    fill_block(x, &s, FILL_OUTLIER_CHANNEL, 13);
    for (int i = 0; i < 3; i++) {
        set_threads((int[]){ 1, 2, 5 }[i]);
        ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p[i]), KVR_OK);
    }
    omp_set_num_threads(before);
    for (int i = 1; i < 3; i++)
        same_stages(&p[0], &p[i]);
    for (int i = 0; i < 3; i++)
        kvr_packed_free(&p[i]);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
}
END_TEST

/* Puts outliers at the first tokens, in a run of 40 tokens that crosses the boundaries of groups
 * and of the threads' parts of the block, and at the last tokens. One channel has only outliers,
 * and one has some in every group. */
static void fill_runs(float *x, kvr_bf16 *narrow, const struct kvr_block_shape *s)
{
    const size_t n = elements(s), width = (size_t)(s->n_heads * s->head_dim);

    fill_block(x, s, FILL_NORMAL, 31);
    for (size_t t = 0; t < (size_t)s->n_tok; t++) {
        x[t * width + 11] = t % 3 ? 60.0f : -61.0f;
        x[t * width + 12] *= 12;
        if (t < 21)
            x[t * width + 3] = 70 + (float)t;
        if (t >= 690 && t < 730)
            x[t * width + 70] = -80;
        if (t + 5 > (size_t)s->n_tok)
            x[t * width + 100] = 90;
        if (t % 37 == 0)
            x[t * width + t % width] = 50;
    }
    kvr_from_f32(narrow, KVR_BF16, x, n);
    kvr_to_f32(x, narrow, KVR_BF16, n);
}

/* Encoding a BF16 block finds and encodes outliers in one pass. Encoding x in place runs the
 * stages one after the other. Both give the same bytes. */
static void same_in_one_pass(const float *x, const kvr_bf16 *narrow,
                             const struct kvr_block_shape *s, int sigma, const char *grid)
{
    const size_t n = elements(s);
    const int before = omp_get_max_threads();
    struct kvr_dev *dev = open_dev();
    float *work = floats(n);
    char text[80];

    snprintf(text, sizeof text, "outliers(sigma=%d)|%s", sigma, grid);
    for (int i = 0; i < 3; i++) {
        struct kvr_codec *c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
        struct kvr_packed steps, once;

        set_threads((int[]){ 1, 2, 5 }[i]);
        ck_assert_int_eq(kvr_codec_encode_bf16(c, dev, narrow, s, work, &once), KVR_OK);
        memcpy(work, x, n * sizeof *x);
        ck_assert_int_eq(kvr_codec_encode(c, dev, work, s, work, &steps), KVR_OK);
        ck_assert_int_gt(kvr_packed_n_entries(&steps), 1400);
        same_stages(&steps, &once);
        kvr_packed_free(&steps);
        kvr_packed_free(&once);
        kvr_codec_close(&c);
    }
    omp_set_num_threads(before);
    kvr_dev_close(&dev);
    free(work);
}

static const char *const grids[] = { "asym(bits=4)",
                                     "asym(bits=2)",
                                     "asym(bits=8)",
                                     "asym(bits=4,axis=token)",
                                     "asym(bits=2,axis=token)",
                                     "sym(bits=4)",
                                     "sym(bits=2,axis=token)",
                                     "sym(bits=8)" };

START_TEST(one_pass_stores_what_the_stages_do)
{
    /* With sigma=2 many channels have outliers, with sigma=3 some, with sigma=6 few. */
    static const int sigma[] = { 2, 3, 6 };
    const struct kvr_block_shape s = { _i % 2 ? 1403 : 1408, 3, 64 };
    float *x = floats(elements(&s));
    kvr_bf16 *narrow = calloc(elements(&s), sizeof *narrow);

    ck_assert_ptr_nonnull(narrow);
    fill_runs(x, narrow, &s);
    same_in_one_pass(x, narrow, &s, sigma[_i / 16], grids[_i / 2 % 8]);
    free(x);
    free(narrow);
}
END_TEST

/* The encoder estimates the outlier threshold from every 40th span of 1024 elements. Here these
 * spans have six times larger values than the others, so the estimate is too high and the encoder
 * must correct it. */
START_TEST(a_loud_sample)
{
    const struct kvr_block_shape s = { 1408, 3, 64 };
    const size_t n = elements(&s);
    float *x = floats(n);
    kvr_bf16 *narrow = calloc(n, sizeof *narrow);

    ck_assert_ptr_nonnull(narrow);
    fill_block(x, &s, FILL_NORMAL, 32);
    for (size_t i = 0; i < n; i++)
        x[i] *= i / 1024 % 40 ? 1 : 6;
    kvr_from_f32(narrow, KVR_BF16, x, n);
    kvr_to_f32(x, narrow, KVR_BF16, n);
    same_in_one_pass(x, narrow, &s, 3, grids[_i]);
    free(x);
    free(narrow);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("outliers");
    TCase *tc = tcase_create("outliers");

    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, holds_and_leaves_what_is_defined, 0, 12);
    tcase_add_loop_test(tc, a_cap_keeps_the_largest, 0, 6);
    tcase_add_loop_test(tc, hostile_fills, 0, 6);
    tcase_add_loop_test(tc, values_beyond_fp16, 0, 2);
    tcase_add_loop_test(tc, nan_reaches_the_output, 0, 2);
    tcase_add_test(tc, filled_outliers_leave_the_range_alone);
    tcase_add_loop_test(tc, bf16_selects_what_f32_does, 0, 4);
    tcase_add_loop_test(tc, same_bytes_for_any_thread_count, 0, 4);
    tcase_add_loop_test(tc, one_pass_stores_what_the_stages_do, 0, 48);
    tcase_add_loop_test(tc, a_loud_sample, 0, 8);
    return run_suite(s);
}
