/* test_draw.c - random weights and prompts generated from a seed. Compares elements with the
 * documented formula and their variances with the documented ones. The bytes must not depend on the
 * number of threads. Also tests a rollout of a model without weight files. */
#include "harness/engine/draw.h"

#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/rng.h"
#include "harness/engine/dit.h"
#include "harness/workload/workload.h"
#include "tests/suite.h"
#include "tests/threads.h"

static const int64_t wide[2] = { 300, 500 };
enum { WIDE = 300 * 500, STEPS = 4 };

/* Computes single elements by the formula in harness/engine/draw.h, directly from blocks of the
 * Philox generator. */
START_TEST(formula_holds)
{
    float *w = malloc(WIDE * sizeof *w);
    const char name[] = "blocks.3.ffn.0.weight";
    const float bound = (float)(sqrt(1.0 / 500) * sqrt(3.0));
    /* FNV-1a with its published offset basis, and prime 2^40 + 435 */
    uint64_t h = 14695981039346656037u;

    for (const char *s = name; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    kvr_draw_tensor(0x100000002u, name, 2, wide, w);
    for (uint32_t i = 0; i < WIDE; i += 7919) {
        const uint32_t key[2] = { 2, 1 };
        const uint32_t counter[4] = { i / 4, (uint32_t)KVR_RNG_WEIGHTS << 24, (uint32_t)h,
                                      (uint32_t)(h >> 32) };
        uint32_t u[4];

        kvr_philox(counter, key, u);
        ck_assert(w[i] == bound * (2.0f * ((float)(u[i % 4] >> 8) / 16777216.0f) - 1.0f));
    }
    free(w);
}
END_TEST

static double mean_square(const float *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sum / (double)n;
}

/* The mean square of n uniform numbers has a relative standard deviation of sqrt(0.8 / n), here
 * 0.0023. The tolerance is five standard deviations. */
START_TEST(scales_are_those_stated)
{
    const int64_t conv[5] = { 600, 16, 1, 2, 2 }, rows[3] = { 1, 6, 25000 }, one[1] = { WIDE };
    float *w = malloc(WIDE * sizeof *w);
    const double tol = 5 * 0.0023;

    kvr_draw_tensor(1, "a.weight", 2, wide, w);
    ck_assert(fabs(mean_square(w, WIDE) * 500 - 1) <= tol);
    /* with 38400 elements the standard deviation is twice as large */
    kvr_draw_tensor(1, "patch_embedding.weight", 5, conv, w);
    ck_assert(fabs(mean_square(w, 38400) * 64 - 1) <= 2 * tol);
    kvr_draw_tensor(1, "blocks.0.modulation", 3, rows, w);
    ck_assert(fabs(mean_square(w, WIDE) * 25000 - 1) <= tol);
    kvr_draw_tensor(1, "a.bias", 1, one, w);
    ck_assert(fabs(mean_square(w, WIDE) / (0.02 * 0.02) - 1) <= tol);
    kvr_draw_tensor(1, "blocks.0.norm3.weight", 1, one, w);
    for (int i = 0; i < WIDE; i++)
        ck_assert(w[i] == 1);
    free(w);
}
END_TEST

START_TEST(threads_and_names)
{
    float *a = malloc(WIDE * sizeof *a), *b = malloc(WIDE * sizeof *b);
    const int before = omp_get_max_threads();
    double product = 0;

    omp_set_num_threads(1);
    kvr_draw_tensor(1, "a.weight", 2, wide, a);
    set_threads(3);
    kvr_draw_tensor(1, "a.weight", 2, wide, b);
    omp_set_num_threads(before);
    ck_assert_mem_eq(a, b, WIDE * sizeof *a);
    kvr_draw_tensor(2, "a.weight", 2, wide, b);
    ck_assert_mem_ne(a, b, WIDE * sizeof *a);
    kvr_draw_tensor(1, "b.weight", 2, wide, b);
    for (int i = 0; i < WIDE; i++)
        product += (double)a[i] * b[i] * 500;
    /* the bound is five standard deviations of the mean of products with variance 1 */
    ck_assert(fabs(product / WIDE) <= 5 / sqrt(WIDE));
    free(a);
    free(b);
}
END_TEST

START_TEST(prompts)
{
    enum { LEN = 6, DIM = 1000 };
    float a[LEN * DIM], b[LEN * DIM], zeros[LEN * DIM] = { 0 };

    /* the prompt has three words and an end token */
    kvr_draw_prompt(1, "a red  disc", LEN, DIM, a);
    ck_assert(fabs(mean_square(a, 4 * DIM) - 1) <= 5 * sqrt(0.8 / (4 * DIM)));
    ck_assert_mem_eq(a + 4 * DIM, zeros, 2 * DIM * sizeof *a);
    kvr_draw_prompt(1, "a blue disc", LEN, DIM, b);
    ck_assert_mem_ne(a, b, DIM * sizeof *a);
    kvr_draw_prompt(1, "one two three four five six seven", LEN, DIM, b);
    ck_assert(fabs(mean_square(b, LEN * DIM) - 1) <= 5 * sqrt(0.8 / (LEN * DIM)));
}
END_TEST

/* --- models ------------------------------------------------------------------------------ */

static const char config[] =
    "{\"dim\": 64, \"ffn_dim\": 96, \"freq_dim\": 16, \"text_dim\": 24, \"text_len\": 8,"
    " \"in_dim\": 16, \"out_dim\": 16, \"num_heads\": 4, \"num_layers\": %d,"
    " \"patch_size\": [1, 2, 2], \"eps\": 1e-6, \"latent_height\": 8, \"latent_width\": 12,"
    " \"frames_per_chunk\": 3, \"timestep_shift\": 5.0,"
    " \"denoising_steps\": [1000, 750, 500, 250]%s}";

static struct kvr_dev *dev;
static char dir[64];

static void write_config(int layers, const char *more)
{
    char path[128];
    FILE *f;

    strcpy(dir, "/tmp/kvr_draw_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/config.json", dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, config, layers, more);
    ck_assert_int_eq(fclose(f), 0);
}

static void remove_config(void)
{
    char path[128];

    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    rmdir(dir);
}

static void setup(void)
{
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
}

static void teardown(void)
{
    remove_config();
    kvr_dev_close(&dev);
}

#define RANDOM ", \"weights\": {\"random\": {\"seed\": 5}}"

struct moments {        /* mean squares */
    double least, most; /* smallest and largest mean square of queries, keys and values */
    double stream;      /* largest mean square of the residual stream after a layer */
};

static void on_tap(void *ctx, const char *name, const float *x, int64_t n)
{
    struct moments *m = ctx;
    const char *what = strchr(name, '.');

    if (what && strcmp(what, ".out") == 0)
        m->stream = fmax(m->stream, mean_square(x, n));
    if (!what || (strcmp(what, ".q_rope") && strcmp(what, ".k_rope") && strcmp(what, ".v")))
        return;
    m->least = fmin(m->least, mean_square(x, n));
    m->most = fmax(m->most, mean_square(x, n));
}

/* One pass through thirty layers. In every layer, the mean square of queries, keys and values stays
 * between 0.5 and 2. Each layer adds at most 0.2 to the mean square of the residual stream. */
START_TEST(activations_stay_sane)
{
    const struct kvr_cache_shape shape = { .n_layers = 30,
                                           .n_heads = 4,
                                           .head_dim = 16,
                                           .tokens_per_frame = 24,
                                           .frames_per_chunk = 3,
                                           .capacity_frames = 3,
                                           .exact = KVR_BF16 };
    const struct kvr_pass pass = { .n_frames = 3 };
    const float t[3] = { 900, 900, 900 };
    struct moments m = { INFINITY, 0, 0 };
    static float x[3 * 16 * 96], out[3 * 16 * 96], P[8 * 24];
    struct kvr_model *model = NULL;
    struct kvr_scheme *scheme = NULL;
    struct kvr_cache *cache = NULL;
    struct kvr_dit *dit = NULL;

    write_config(30, RANDOM);
    kvr_normal(x, 3 * 16 * 96, 1, KVR_RNG_TEST, 0, 0, 0);
    ck_assert_msg(kvr_model_open(&model, dev, dir) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_model_draw_prompt(model, "a red disc", P), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "BF16", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED), KVR_OK);
    ck_assert_int_eq(kvr_dit_open(&dit, dev, model), KVR_OK);
    ck_assert_int_eq(kvr_dit_set_prompt(dit, P), KVR_OK);
    kvr_dit_tap(dit, on_tap, &m);
    kvr_cache_reset(cache);
    ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
    ck_assert_msg(kvr_dit_forward(dit, cache, x, t, &pass, out) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
    ck_assert_msg(m.least >= 0.5 && m.most <= 2, "mean squares from %g to %g", m.least, m.most);
    ck_assert_msg(m.stream <= 1 + 0.2 * 30, "mean square %g of the stream", m.stream);
    kvr_dit_close(&dit);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_model_close(&model);
}
END_TEST

static void roll(struct kvr_model *model, const char *method, struct kvr_rollout_result *r)
{
    const struct kvr_rollout_request req = { .model = model,
                                             .prompt = "any text",
                                             .seed = 3,
                                             .latent_frames = 6,
                                             .path = KVR_PATH_STAGED,
                                             .exact = KVR_BF16 };
    struct kvr_scheme *scheme = NULL;

    ck_assert_int_eq(kvr_scheme_open(&scheme, method, NULL, 0), KVR_OK);
    ck_assert_msg(kvr_rollout_run(dev, scheme, &req, NULL, NULL, r) == KVR_OK, "%s", kvr_error());
    kvr_scheme_close(&scheme);
}

/* Without a decoder a rollout ends with latents: it reports bytes, peaks and times, but has no
 * frames. */
START_TEST(rollout_without_frames)
{
    struct kvr_rollout_result exact, coded;
    struct kvr_model *model = NULL;

    write_config(2, RANDOM);
    ck_assert_msg(kvr_model_open(&model, dev, dir) == KVR_OK, "%s", kvr_error());
    roll(model, "BF16", &exact);
    roll(model, "RTN_INT4", &coded);
    ck_assert_ptr_null(exact.rgb);
    ck_assert_int_eq(exact.n, 0);
    ck_assert_int_eq(exact.n_passes, 2 * (STEPS + 1));
    ck_assert_uint_eq(exact.bytes.bf16,
                      /* layers * (K and V) * frames * tokens per frame * width * 2 bytes */
                      2 * 2 * 6 * 24 * 64 * 2);
    ck_assert(coded.bytes.resident < exact.bytes.resident / 2);
    ck_assert_uint_eq(coded.live_at_start, coded.live_at_end);
    ck_assert(coded.dit.linear_ns > 0 && coded.cache.encode_ns > 0);
    kvr_rollout_result_free(&exact);
    kvr_rollout_result_free(&coded);
    kvr_model_close(&model);
}
END_TEST

/* A model opened with n_layers and n_steps has only the first layers and steps of the full model,
 * but the hash of the full model. */
START_TEST(cut_models)
{
    const struct kvr_model_use part = { .n_layers = 2, .n_steps = 1 };
    struct kvr_model *model = NULL, *whole = NULL;
    struct kvr_rollout_result r;

    write_config(3, RANDOM);
    ck_assert_int_eq(kvr_model_open(&whole, dev, dir), KVR_OK);
    ck_assert_int_eq(kvr_model_open_as(&model, dev, dir, &part), KVR_OK);
    ck_assert_str_eq(kvr_model_sha256(model), kvr_model_sha256(whole));
    ck_assert_int_eq(kvr_model_config(model)->n_layers, 2);
    roll(model, "BF16", &r);
    ck_assert_int_eq(r.n_passes, 2 * (1 + 1));
    kvr_rollout_result_free(&r);
    kvr_model_close(&model);
    ck_assert_int_eq(kvr_model_open_as(&model, dev, dir, &(struct kvr_model_use){ .n_layers = 4 }),
                     KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "the model has 3"));
    kvr_model_close(&whole);
}
END_TEST

/* Opening with `look` reads a model's config and hash, but does not generate weights of several
 * gigabytes. */
START_TEST(looking_draws_nothing)
{
    const struct kvr_model_use look = { .look = true };
    struct kvr_model *model = NULL;
    struct kvr_mem_stats mem;

    write_config(1, RANDOM);
    ck_assert_int_eq(kvr_model_open_as(&model, dev, "models/wan-1.3b-random", &look), KVR_OK);
    kvr_mem_stats(dev, &mem);
    ck_assert_uint_eq(mem.peak_total, 0);
    ck_assert_int_eq(kvr_model_tokens_per_frame(model), 1560);
    ck_assert_int_eq(kvr_model_head_dim(model), 128);
    ck_assert_int_eq(kvr_model_config(model)->n_layers, 30);
    kvr_model_close(&model);
}
END_TEST

/* Opening trained weights with `look` reads names and shapes, but packs no matrix. */
START_TEST(looking_packs_nothing)
{
    const struct kvr_model_use look = { .look = true };
    struct kvr_model *model = NULL;
    struct kvr_mem_stats mem;

    write_config(1, RANDOM);
    ck_assert_int_eq(kvr_model_open_as(&model, dev, "models/nano", &look), KVR_OK);
    kvr_mem_stats(dev, &mem);
    ck_assert_uint_le(mem.peak_total, 64 << 10); /* the embedding table of the vocabulary alone
                                                  * would take 16 MB */
    ck_assert_int_eq(kvr_model_config(model)->n_layers, 6);
    kvr_model_close(&model);
}
END_TEST

START_TEST(trained_models_are_not_cut)
{
    struct kvr_model *model = NULL;
    float P[16 * 192];

    write_config(1, RANDOM);
    ck_assert_int_eq(
        kvr_model_open_as(&model, dev, "models/nano", &(struct kvr_model_use){ .n_layers = 2 }),
        KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "trained"));
    ck_assert_int_eq(kvr_model_open(&model, dev, "models/nano"), KVR_OK);
    ck_assert_int_eq(kvr_model_draw_prompt(model, "red", P), KVR_EUNSUPPORTED);
    kvr_model_close(&model);
}
END_TEST

static const struct {
    const char *keys, *says;
} refused[] = {
    { ", \"weights\": {\"random\": {\"seed\": -1}}", "seed" },
    { ", \"weights\": {\"random\": {}}", "seed" },
    { ", \"weights\": {\"random\": {\"seed\": 1, \"sed\": 2}}", "need" },
    { ", \"weights\": {\"rnadom\": {\"seed\": 1}}", "random" },
    { ", \"weights\": \"random\"", "object" },
    { RANDOM ", \"vocabulary\": [\"<pad>\"]", "vocabulary" },
};

START_TEST(config_is_refused)
{
    struct kvr_model *model = NULL;

    write_config(1, refused[_i].keys);
    ck_assert_int_ne(kvr_model_open(&model, dev, dir), KVR_OK);
    ck_assert_msg(strstr(kvr_error(), refused[_i].says) != NULL, "%s", kvr_error());
    ck_assert_ptr_null(model);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("draw");
    TCase *draw = tcase_create("draw"), *models = tcase_create("models");

    tcase_set_timeout(draw, 60);
    tcase_add_test(draw, formula_holds);
    tcase_add_test(draw, scales_are_those_stated);
    tcase_add_test(draw, threads_and_names);
    tcase_add_test(draw, prompts);
    suite_add_tcase(s, draw);
    tcase_set_timeout(models, 120);
    tcase_add_checked_fixture(models, setup, teardown);
    tcase_add_test(models, activations_stay_sane);
    tcase_add_test(models, rollout_without_frames);
    tcase_add_test(models, cut_models);
    tcase_add_test(models, looking_draws_nothing);
    tcase_add_test(models, looking_packs_nothing);
    tcase_add_test(models, trained_models_are_not_cut);
    tcase_add_loop_test(models, config_is_refused, 0, sizeof refused / sizeof *refused);
    suite_add_tcase(s, models);
    return run_suite(s);
}
