/* test_paths.c - the attention paths decoded, dense, staged and fused give the same outputs, for
 * every method. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/attend_dot.h"
#include "harness/cache/cache.h"
#include "tests/cache/compare.h"
#include "tests/normals.h"
#include "tests/some_methods.h"
#include "tests/suite.h"

enum { S = 18, FRAMES = 3, H = 2, LAYERS = 2, CHUNKS = 6, CHUNK = S * FRAMES };

/* Channels per head: 32, or more if the method needs more. */
static int D = 32;

/* Runs a rollout and writes the outputs of layer 1 in the last pass of every chunk. */
static void rollout_as(const char *spec, enum kvr_path path, enum kvr_dtype exact, int window,
                       enum kvr_attend_as attend, float *out)
{
    const struct kvr_cache_shape shape = {
        .n_layers = LAYERS,
        .n_heads = H,
        .head_dim = D,
        .tokens_per_frame = S,
        .frames_per_chunk = FRAMES,
        .capacity_frames = CHUNKS * FRAMES,
        .window_frames = window,
        .evict = window != 0,
        .exact = exact,
        .attend = attend,
    };
    const size_t n = (size_t)(CHUNK * H * D);
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    float *x = malloc(3 * n * sizeof *x);

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&scheme, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, path) == KVR_OK, "%s", kvr_error());
    set_random_salience(cache);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < 2; p++) {
            const struct kvr_pass pass = {
                .chunk = c, .frame0 = c * FRAMES, .n_frames = FRAMES, .index = p, .clean = p == 1
            };

            ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
            for (int l = 0; l < LAYERS; l++) {
                drawn_normals(x, 3 * n, 3, (uint32_t)(c * 8 + p * 4 + l), 1);
                ck_assert_int_eq(kvr_cache_append(cache, l, x, x + n), KVR_OK);
                ck_assert_msg(kvr_cache_attend(cache, l, x + 2 * n, out + (size_t)c * n) == KVR_OK,
                              "%s: %s", spec, kvr_error());
            }
            ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
        }
    free(x);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}

static void rollout(const char *spec, enum kvr_path path, enum kvr_dtype exact, int window,
                    float *out)
{
    rollout_as(spec, path, exact, window, KVR_ATTEND_FLOAT, out);
}

/* Unquantized tokens are F32, so the dense copy is exact, also in study versions. The paths add up
 * to 324 F32 terms in different orders, and some paths transform queries where others transform
 * keys. For values of order 1 this gives errors of sqrt(324) x 2^-24 = 1e-6; 2e-5 is allowed. An
 * error of a score becomes a relative error of its weight. */
START_TEST(paths_agree)
{
    const struct kvr_method *m = kvr_methods[_i];

    if (left_out_sanitized(_i))
        return;
    D = head_dim_for(m->name, H, 32);

    const size_t n = (size_t)(CHUNKS * CHUNK * H * D);
    float *staged = malloc(n * sizeof *staged), *other = malloc(n * sizeof *other);

    for (int i = 0; i < 2 * (1 + m->study); i++) {
        const int window = i % 2 ? 9 : 0;
        char spec[96];
        double fused, dense;

        snprintf(spec, sizeof spec, "%s%s", m->name, i / 2 ? "@study" : "");
        rollout(spec, KVR_PATH_STAGED, KVR_F32, window, staged);
        rollout(spec, KVR_PATH_FUSED, KVR_F32, window, other);
        fused = worst(staged, other, n);
        ck_assert_msg(fused <= 2e-5, "%s window %d: fused differs by %g", spec, window, fused);
        if (keeps_by_head(spec))
            continue;
        rollout(spec, KVR_PATH_DENSE, KVR_F32, window, other);
        dense = worst(staged, other, n);
        ck_assert_msg(dense <= 2e-5, "%s window %d: dense differs by %g", spec, window, dense);
        rollout(spec, KVR_PATH_DECODED, KVR_F32, window, other);
        dense = worst(staged, other, n);
        ck_assert_msg(dense <= 2e-5, "%s window %d: decoded differs by %g", spec, window, dense);
        other[7] = NAN;
        ck_assert(!(worst(staged, other, n) <= 2e-5));
    }
    free(staged);
    free(other);
}
END_TEST

static double relative_l2(const float *reference, const float *x, size_t n)
{
    double e = 0, all = 0;

    for (size_t i = 0; i < n; i++) {
        e += ((double)x[i] - reference[i]) * ((double)x[i] - reference[i]);
        all += (double)reference[i] * reference[i];
    }
    return sqrt(e / all);
}

/* Elements are normally distributed, so the largest is near 2.2 in a key's row of 32 and near 2.5
 * in a value channel of 64 tokens. With codes up to 63, the steps are .035 and .04, and the RMS
 * errors (step / sqrt 12) .010 and .011. Query codes up to 127 have an error of .005. The error of
 * scores and weights is sqrt(.010^2 + .005^2) = .011. Together with the .011 of the values, the
 * relative error of the output is .016, or .009 with codes up to 127. The limits are twice as
 * large, because coarse codecs decode some rows to larger values. */
START_TEST(int8_agrees)
{
    const struct kvr_method *m = kvr_methods[_i];

    if (left_out_sanitized(_i))
        return;
    D = head_dim_for(m->name, H, 32);

    const size_t n = (size_t)(CHUNKS * CHUNK * H * D);
    float *reference = malloc(n * sizeof *reference), *staged = malloc(n * sizeof *staged),
          *fused = malloc(n * sizeof *fused);

    rollout(m->name, KVR_PATH_STAGED, KVR_F32, 9, reference);
    for (int isa = 0; isa < KVR_N_ISA; isa++) {
        if (!kvr_isa_usable((enum kvr_isa)isa))
            continue;
        ck_assert_int_eq(kvr_isa_force(kvr_isa_name((enum kvr_isa)isa)), KVR_OK);

        const double allowed = kvr_dot_kernels()->top == 127 ? .018 : .032;
        double off;

        rollout_as(m->name, KVR_PATH_STAGED, KVR_F32, 9, KVR_ATTEND_INT8, staged);
        rollout_as(m->name, KVR_PATH_FUSED, KVR_F32, 9, KVR_ATTEND_INT8, fused);
        off = relative_l2(reference, staged, n);
        ck_assert_msg(off <= allowed, "%s, %s: off by %g > %g", m->name,
                      kvr_isa_name((enum kvr_isa)isa), off, allowed);
        ck_assert_msg(memcmp(staged, fused, n * sizeof *staged) == 0, "%s, %s: fused differs",
                      m->name, kvr_isa_name((enum kvr_isa)isa));
    }
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
    free(reference);
    free(staged);
    free(fused);
}
END_TEST

/* INT8 arithmetic applies to quantized tokens, so the outputs of RTN_INT4 differ from those of F32
 * arithmetic. A BF16 cache has no quantized tokens, so its outputs are bit-identical. */
START_TEST(int8_changes_quantized_tokens_only)
{
    const size_t n = (size_t)(CHUNKS * CHUNK * H * D);
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);

    rollout("RTN_INT4", KVR_PATH_STAGED, KVR_F32, 0, a);
    rollout_as("RTN_INT4", KVR_PATH_STAGED, KVR_F32, 0, KVR_ATTEND_INT8, b);
    ck_assert(relative_l2(a, b, n) > 1e-3);
    rollout("BF16", KVR_PATH_STAGED, KVR_F32, 0, a);
    rollout_as("BF16", KVR_PATH_STAGED, KVR_F32, 0, KVR_ATTEND_INT8, b);
    ck_assert(memcmp(a, b, n * sizeof *a) == 0);
    free(a);
    free(b);
}
END_TEST

/* With a BF16 cache, the dense path rounds decoded values to BF16, with an RMS relative error of
 * 0.0017 in keys. For scores of order 1, this also moves scores, weights and outputs by about
 * 0.0017. The limit 2^-6 is nine standard deviations. */
START_TEST(dense_rounds_to_bf16)
{
    const size_t n = (size_t)(CHUNKS * CHUNK * H * D);
    float *staged = malloc(n * sizeof *staged), *dense = malloc(n * sizeof *dense);

    rollout("QUAROT_KV_INT4", KVR_PATH_STAGED, KVR_BF16, 0, staged);
    rollout("QUAROT_KV_INT4", KVR_PATH_DENSE, KVR_BF16, 0, dense);
    ck_assert(worst(staged, dense, n) <= 1.0 / 64);
    ck_assert(worst(staged, dense, n) > 0);
    free(staged);
    free(dense);
}
END_TEST

static const char *const corrected[] = {
    "KIVI_INT2+taylor", "QUAROT_KV_INT2+exact", "RTN_INT2@study+energy",
    "QAQ_INT2+taylor",  "AGE_TIER_INT2+flat",   "FLOWCACHE_SOFT_PRUNE_INT2+energy"
};

START_TEST(corrected_paths_agree)
{
    const size_t n = (size_t)(CHUNKS * CHUNK * H * D);
    float *staged = malloc(n * sizeof *staged), *other = malloc(n * sizeof *other);
    char plain[64];

    rollout(corrected[_i], KVR_PATH_STAGED, KVR_F32, 0, staged);
    rollout(corrected[_i], KVR_PATH_FUSED, KVR_F32, 0, other);
    ck_assert_msg(worst(staged, other, n) <= 2e-5, "%s", corrected[_i]);
    /* The correction changes the outputs, except for the first chunk, which has no coded past. */
    snprintf(plain, sizeof plain, "%s", corrected[_i]);
    *strchr(plain, '+') = 0;
    rollout(plain, KVR_PATH_STAGED, KVR_F32, 0, other);
    ck_assert(worst(staged, other, (size_t)(CHUNK * H * D)) == 0);
    ck_assert(worst(staged, other, n) > 1e-4);
    free(staged);
    free(other);
}
END_TEST

START_TEST(dense_refuses_a_correction)
{
    const struct kvr_cache_shape shape = {
        .n_layers = 1,
        .n_heads = 1,
        .head_dim = 32,
        .tokens_per_frame = 4,
        .frames_per_chunk = 1,
        .capacity_frames = 2,
        .exact = KVR_F32,
    };
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache = NULL;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "KIVI_INT2+taylor", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_DENSE), KVR_EUNSUPPORTED);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("paths");
    TCase *t = tcase_create("paths");

    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, paths_agree, 0, n_methods());
    tcase_add_loop_test(t, int8_agrees, 0, n_methods());
    tcase_add_test(t, int8_changes_quantized_tokens_only);
    tcase_add_test(t, dense_rounds_to_bf16);
    tcase_add_loop_test(t, corrected_paths_agree, 0, (int)(sizeof corrected / sizeof *corrected));
    tcase_add_test(t, dense_refuses_a_correction);
    suite_add_tcase(s, t);
    return run_suite(s);
}
