/* test_seam.c - properties that codecs declare and the code that uses them: attention in the
 * transformed space of a plug-in, corrections by noise model, and data-dependent sizes. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cache/cache.h"
#include "harness/cache/predict.h"
#include "harness/core/rng.h"
#include "methods/plugin.h"
#include "tests/cache/compare.h"
#include "tests/built.h"
#include "tests/suite.h"

enum { S = 9, FRAMES = 2, H = 3, D = 16, CHUNKS = 4, CHUNK = S * FRAMES, N = CHUNK * H * D };

static float *floats(size_t n)
{
    float *x = calloc(n, sizeof *x);

    ck_assert_ptr_nonnull(x);
    return x;
}

/* Returns the outputs of the last pass of every chunk, [CHUNKS][N]. */
static float *rollout(const char *spec, enum kvr_backend backend, enum kvr_path path)
{
    const struct kvr_cache_shape shape = {
        .n_layers = 1,
        .n_heads = H,
        .head_dim = D,
        .tokens_per_frame = S,
        .frames_per_chunk = FRAMES,
        .capacity_frames = CHUNKS * FRAMES,
        .exact = KVR_F32,
    };
    float *out = floats((size_t)CHUNKS * N), *x = floats(3 * N);
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_buf b = { 0 };

    ck_assert_msg(kvr_dev_open(&dev, backend) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_scheme_open(&scheme, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, path) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_ACT, 4 * N * sizeof *x), KVR_OK);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < 2; p++) {
            const struct kvr_pass pass = {
                .chunk = c, .frame0 = c * FRAMES, .n_frames = FRAMES, .index = p, .clean = p == 1
            };
            float *k = b.p, *to = k + 3 * N;

            ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
            kvr_normal(x, 3 * N, 3, KVR_RNG_TEST, (uint32_t)(c * 8 + p * 4), 1, 0);
            ck_assert_int_eq(kvr_dev_put(dev, k, x, 3 * N * sizeof *x), KVR_OK);
            ck_assert_int_eq(kvr_cache_append(cache, 0, k, k + N), KVR_OK);
            ck_assert_msg(kvr_cache_attend(cache, 0, k + 2 * N, to) == KVR_OK, "%s", kvr_error());
            ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
            ck_assert_int_eq(kvr_dev_get(dev, out + (size_t)c * N, to, N * sizeof *x), KVR_OK);
            ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
        }
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_buf_free(&b);
    kvr_dev_close(&dev);
    free(x);
    return out;
}

/* The transform `skew` scales by powers of two, which does not round. Only the order of F32 sums
 * differs, so 2e-5 is allowed, as in test_paths.c. */
static void same_output(const char *spec, enum kvr_backend backend, enum kvr_path path,
                        const float *want)
{
    float *got = rollout(spec, backend, path);
    const double off = worst(want, got, (size_t)CHUNKS * N);

    ck_assert_msg(off <= 2e-5, "%s, %s: off by %g", spec, kvr_path_names[path], off);
    free(got);
}

/* With transformed keys and values, R^-T maps queries to the keys' space and R^-1 maps outputs
 * back, head by head. The result equals attention over the untransformed keys and values. */
START_TEST(outputs_do_not_depend_on_a_transform)
{
    float *want = rollout("F32", KVR_CPU, KVR_PATH_STAGED);

    same_output("SKEWED_F32", KVR_CPU, KVR_PATH_STAGED, want);
    same_output("SKEWED_F32", KVR_CPU, KVR_PATH_FUSED, want);
    same_output("SKEWED_F32", KVR_CPU, KVR_PATH_DENSE, want);
    same_output("SKEWED_F32", KVR_CUDA, KVR_PATH_STAGED, want);
    free(want);
}
END_TEST

START_TEST(transformed_codes_give_the_same_outputs)
{
    float *want = rollout("SKEWED_INT4", KVR_CPU, KVR_PATH_DENSE);

    same_output("SKEWED_INT4", KVR_CPU, KVR_PATH_STAGED, want);
    same_output("SKEWED_INT4", KVR_CPU, KVR_PATH_FUSED, want);
    same_output("SKEWED_INT4", KVR_CUDA, KVR_PATH_STAGED, want);
    free(want);
}
END_TEST

START_TEST(two_transforms_are_refused)
{
    struct kvr_scheme *p;

    ck_assert_msg(kvr_scheme_open(&p, "TWO_SPACES", NULL, 0) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_scheme_check(p, H, D), KVR_EUNSUPPORTED);
    ck_assert(strstr(kvr_error(), "skew") && strstr(kvr_error(), "hadamard"));
    kvr_scheme_close(&p);
}
END_TEST

/* For each method and correction: 1 if kvr_scheme_open() accepts the correction. This depends on
 * the noise model that the codec declares. */
static const struct {
    const char *method;
    int taylor, exact, flat, energy;
    const char *why;
} corrected[] = {
    { "RTN_INT4", 1, 1, 1, 1, "" },
    { "BF16", 1, 1, 1, 1, "" },
    { "SHORT_E4M3", 1, 1, 1, 1, "" },
    { "SPARSE_F16", 0, 0, 0, 1, "energy" },
    { "MUTE_F16", 0, 0, 0, 0, "has no function noise() that describes its quantization error" },
};

START_TEST(corrections_need_a_noise_model)
{
    const int want[] = { corrected[_i].taylor, corrected[_i].exact, corrected[_i].flat,
                         corrected[_i].energy };
    const char *const names[] = { "taylor", "exact", "flat", "energy" };

    for (int c = 0; c < 4; c++) {
        struct kvr_scheme *p = NULL;
        char spec[64];
        enum kvr_status st;

        snprintf(spec, sizeof spec, "%s+%s", corrected[_i].method, names[c]);
        st = kvr_scheme_open(&p, spec, NULL, 0);
        ck_assert_msg(st == (want[c] ? KVR_OK : KVR_EUNSUPPORTED), "%s: %s", spec, kvr_error());
        if (st != KVR_OK)
            ck_assert_msg(strstr(kvr_error(), corrected[_i].why) && strstr(kvr_error(), names[c]),
                          "%s", kvr_error());
        /* Where the codec has no quantization error, the correction changes nothing and a
         * warning says so. */
        else
            ck_assert_int_eq(kvr_scheme_warning(p) != NULL, !strcmp(corrected[_i].method, "BF16"));
        kvr_scheme_close(&p);
    }
}
END_TEST

/* The codec's step is .09 times the decoded value. The correction changes the outputs, equally
 * on both backends. */
START_TEST(relative_noise_is_corrected)
{
    float *plain = rollout("SHORT_E4M3", KVR_CPU, KVR_PATH_STAGED);
    float *want = rollout("SHORT_E4M3+taylor", KVR_CPU, KVR_PATH_STAGED);
    enum { T = 20 };
    float *x = floats((size_t)T * H * D), *work = floats((size_t)T * H * D), back[D], s2[D];
    const struct kvr_block_shape shape = { T, H, D };
    struct kvr_dev *dev;
    struct kvr_codec *c;
    struct kvr_packed p;

    ck_assert(worst(plain, want, (size_t)CHUNKS * N) > 1e-5);
    same_output("SHORT_E4M3+taylor", KVR_CPU, KVR_PATH_FUSED, want);
    same_output("SHORT_E4M3+taylor", KVR_CUDA, KVR_PATH_STAGED, want);
    /* For steps this small, the corrections `exact` and `taylor` give the same outputs within
     * 2e-5. */
    same_output("SHORT_E4M3+exact", KVR_CUDA, KVR_PATH_STAGED, want);
    kvr_normal(x, (size_t)T * H * D, 3, KVR_RNG_TEST, 9, 1, 0);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_codec_open(&c, "short", KVR_K, false), KVR_OK);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
    kvr_codec_decode(&p, 7, 1, 1, 1, back);
    kvr_squared_scales(&p, 1, 7, 1, s2);
    for (int i = 0; i < D; i++)
        ck_assert(s2[i] == 0.09f * back[i] * (0.09f * back[i]));
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(plain);
    free(want);
    free(x);
    free(work);
}
END_TEST

/* A sparse codec leaves out zeros, here a third of the elements. Its bytes follow the data on
 * both backends, and a prediction gives their minimum and maximum. */
START_TEST(bytes_follow_the_data)
{
    const struct kvr_block_shape shape = { 20, H, D };
    const size_t n = (size_t)20 * H * D, some = n - (n + 2) / 3;
    const struct kvr_geometry geo = { .n_layers = 2,
                                      .n_heads = H,
                                      .head_dim = D,
                                      .tokens_per_frame = S,
                                      .frames_per_chunk = FRAMES };
    const struct kvr_predict_run run = { .latent_frames = 4 };
    float *x = floats(n), *work = floats(n), *back = floats(n);
    struct kvr_prediction guess;
    struct kvr_scheme *scheme;

    for (size_t i = 0; i < n; i++)
        x[i] = i % 3 ? (float)(i % 50) + 1 : 0;
    for (int b = 0; b < 2; b++) {
        struct kvr_buf on = { 0 };
        struct kvr_stage_bytes nominal;
        struct kvr_dev *dev;
        struct kvr_codec *c;
        struct kvr_packed p;

        ck_assert_int_eq(kvr_dev_open(&dev, b ? KVR_CUDA : KVR_CPU), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&on, dev, KVR_MEM_ACT, 2 * n * sizeof *x), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, on.p, x, n * sizeof *x), KVR_OK);
        ck_assert_int_eq(kvr_codec_open(&c, "sparse", KVR_K, false), KVR_OK);
        ck_assert_msg(kvr_codec_encode(c, dev, on.p, &shape, (float *)on.p + n, &p) == KVR_OK, "%s",
                      kvr_error());
        nominal = kvr_packed_nominal(&p);
        ck_assert_uint_eq(kvr_packed_bytes(&p), 6 * some);
        ck_assert_uint_eq(nominal.codes + nominal.meta, 6 * some);
        ck_assert_uint_eq(kvr_codec_bytes(c, &shape), 0);
        kvr_codec_decode(&p, 0, 20, 0, H, (float *)on.p + n);
        ck_assert_int_eq(kvr_dev_sync(dev), KVR_OK);
        ck_assert_int_eq(kvr_dev_get(dev, back, (float *)on.p + n, n * sizeof *x), KVR_OK);
        ck_assert_mem_eq(back, x, n * sizeof *x);
        kvr_packed_free(&p);
        kvr_codec_close(&c);
        kvr_buf_free(&on);
        kvr_dev_close(&dev);
    }
    ck_assert_int_eq(kvr_scheme_open(&scheme, "SPARSE_F16", NULL, 0), KVR_OK);
    ck_assert(kvr_scheme_bits(scheme, H, 64) < 0);
    ck_assert_msg(kvr_predict(scheme, &geo, &run, &guess) == KVR_OK, "%s", kvr_error());
    ck_assert(guess.data_dependent);
    ck_assert_uint_eq(guess.nominal, 0);
    ck_assert_uint_eq(guess.nominal_max, (size_t)2 * 2 * 4 * S * H * D * 6);
    kvr_scheme_close(&scheme);
    free(x);
    free(work);
    free(back);
}
END_TEST

static bool load(void)
{
    char path[4096];

    return kvr_plugin_load(built_file("tests/plugins/odd.so", path, sizeof path)) == KVR_OK;
}

int main(void)
{
    Suite *s = suite_create("seam");
    TCase *tc = tcase_create("seam");

    if (!load()) {
        fprintf(stderr, "%s\n", kvr_error());
        return EXIT_FAILURE;
    }
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, outputs_do_not_depend_on_a_transform);
    tcase_add_test(tc, transformed_codes_give_the_same_outputs);
    tcase_add_test(tc, two_transforms_are_refused);
    tcase_add_loop_test(tc, corrections_need_a_noise_model, 0,
                        (int)(sizeof corrected / sizeof *corrected));
    tcase_add_test(tc, relative_noise_is_corrected);
    tcase_add_test(tc, bytes_follow_the_data);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
