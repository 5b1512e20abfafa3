/* test_last_layer.c - with `layers=last`, all layers keep the tokens that the last layer
 * selects, at the predicted size. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"
#include "harness/cache/predict.h"
#include "tests/cache/compare.h"
#include "tests/suite.h"

enum { S = 6, F = 3, H = 2, D = 16, LAYERS = 3, CHUNKS = 5, CHUNK = S * F, N = CHUNK * H * D };

struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    uint8_t held[LAYERS][H][CHUNKS * CHUNK]; /* tokens held by each head before the last pass */
};

static enum kvr_status see(void *ctx, const struct kvr_cache_view *view)
{
    uint8_t(*held)[CHUNKS * CHUNK] = ((struct kit *)ctx)->held[view->layer];

    memset(held, 0, sizeof((struct kit *)ctx)->held[0]);
    for (int i = 0; i < view->past->n; i++)
        for (int h = 0; h < H; h++)
            for (int64_t j = 0; j < view->past->seg[i].n_tok; j++)
                if (kvr_segment_has_head(&view->past->seg[i], h))
                    held[h][kvr_segment_token(&view->past->seg[i], j)] = 1;
    return KVR_OK;
}

static struct kvr_cache_shape shape_of(int layers)
{
    return (struct kvr_cache_shape){ .n_layers = layers,
                                     .n_heads = H,
                                     .head_dim = D,
                                     .tokens_per_frame = S,
                                     .frames_per_chunk = F,
                                     .capacity_frames = CHUNKS * F,
                                     .exact = KVR_BF16 };
}

/* Runs a video over `layers` layers. With one layer, its inputs are those of the video's last
 * layer. */
static void run(struct kit *t, const char *spec, const struct kvr_setting *set, int n, int layers,
                enum kvr_backend backend)
{
    const struct kvr_cache_shape shape = shape_of(layers);
    struct kvr_buf b = { 0 };
    static float x[3 * N];

    memset(t, 0, sizeof *t);
    ck_assert_int_eq(kvr_dev_open(&t->dev, backend), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&t->scheme, spec, set, n) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_cache_open(&t->cache, t->dev, t->scheme, &shape, KVR_PATH_STAGED) == KVR_OK,
                  "%s", kvr_error());
    set_random_salience(t->cache);
    kvr_cache_observe(t->cache, see, t);
    ck_assert_int_eq(kvr_buf_alloc(&b, t->dev, KVR_MEM_ACT, 4 * N * sizeof *x), KVR_OK);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < 2; p++) {
            const struct kvr_pass pass = {
                .chunk = c, .frame0 = c * F, .n_frames = F, .index = p, .clean = p == 1
            };
            float *on = b.p;

            ck_assert_int_eq(kvr_cache_begin_pass(t->cache, &pass), KVR_OK);
            for (int l = 0; l < layers; l++) {
                const int as = layers == 1 ? LAYERS - 1 : l;

                kvr_normal(x, 3 * N, 3, KVR_RNG_TEST, (uint32_t)(c * 100 + p * 10 + as), 1, 0);
                ck_assert_int_eq(kvr_dev_put(t->dev, on, x, sizeof x), KVR_OK);
                ck_assert_int_eq(kvr_cache_append(t->cache, l, on, on + N), KVR_OK);
                ck_assert_msg(kvr_cache_attend(t->cache, l, on + 2 * N, on + 3 * N) == KVR_OK, "%s",
                              kvr_error());
            }
            ck_assert_int_eq(kvr_cache_end_pass(t->cache), KVR_OK);
        }
    kvr_buf_free(&b);
}

static void close_kit(struct kit *t)
{
    kvr_cache_close(&t->cache);
    kvr_scheme_close(&t->scheme);
    kvr_dev_close(&t->dev);
}

static struct kit all, one, each;

/* Every layer keeps the tokens that a cache of the last layer alone keeps. With layers=each the
 * layers keep different tokens. */
START_TEST(all_keep_what_the_last_keeps)
{
    static const char *const specs[] = { "H2O", "PAFU_CAUSAL_INT8", "PAFU_SEH", "RANDOM_KEEP" };
    const enum kvr_backend backend = _i / 4 ? KVR_CUDA : KVR_CPU;
    const struct kvr_setting set[] = {
        { "tokens", "31" }, { "layers", "last" }, { "recent", "0" }, { "seed", "4" }
    };
    struct kvr_setting own[4];
    struct kvr_cache_bytes a, b;
    const char *spec = specs[_i % 4];

    memcpy(own, set, sizeof own);
    own[1].value = "each";
    run(&all, spec, set, 4, LAYERS, backend);
    run(&one, spec, set, 4, 1, backend);
    run(&each, spec, own, 4, LAYERS, backend);
    for (int l = 0; l < LAYERS; l++)
        for (int h = 0; h < H; h++) {
            int64_t n = 0;

            /* RANDOM_KEEP is left out, because its random numbers depend on the layer's index. */
            if (strcmp(spec, "RANDOM_KEEP") != 0)
                ck_assert_msg(!memcmp(all.held[l][h], one.held[0][h], sizeof one.held[0][h]),
                              "%s: layer %d, head %d", spec, l, h);
            ck_assert(!memcmp(all.held[l][h], all.held[LAYERS - 1][h], sizeof one.held[0][h]));
            for (int i = 0; i < CHUNKS * CHUNK; i++)
                n += all.held[l][h][i];
            ck_assert_int_eq(n, 31);
        }
    ck_assert(memcmp(each.held[0], each.held[LAYERS - 1], sizeof each.held[0]) != 0);
    kvr_cache_bytes(all.cache, &a);
    kvr_cache_bytes(one.cache, &b);
    if (strcmp(spec, "RANDOM_KEEP") != 0)
        ck_assert_uint_eq(a.resident_kv, LAYERS * b.resident_kv);
    close_kit(&all);
    close_kit(&one);
    close_kit(&each);
}
END_TEST

/* Until the last layer has selected tokens, the other layers hold the whole chunk. The predicted
 * peak includes this, to the byte. */
START_TEST(the_peak_is_predicted)
{
    const struct kvr_setting set[] = { { "tokens", "31" }, { "layers", _i ? "last" : "each" } };
    const struct kvr_geometry geo = { .name = "three layers",
                                      .n_layers = LAYERS,
                                      .n_heads = H,
                                      .head_dim = D,
                                      .tokens_per_frame = S,
                                      .frames_per_chunk = F,
                                      .pixel_frames = 1,
                                      .weight_bytes = 2 };
    const struct kvr_predict_run as = { .latent_frames = CHUNKS * F };
    struct kvr_prediction p, peak;
    struct kvr_mem_stats mem;
    struct kvr_cache_bytes bytes;

    run(&all, "STREAMING_LLM", set, 2, LAYERS, KVR_CPU);
    ck_assert_msg(kvr_predict(all.scheme, &geo, &as, &p) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_predict_peak(all.scheme, &geo, &as, &peak) == KVR_OK, "%s", kvr_error());
    kvr_mem_stats(all.dev, &mem);
    kvr_cache_bytes(all.cache, &bytes);
    ck_assert(!p.data_dependent);
    ck_assert_uint_eq(p.nominal, bytes.nominal);
    ck_assert_uint_eq(mem.peak[KVR_MEM_KV], p.at_peak.kv);
    ck_assert_uint_eq(peak.peak, p.peak);
    ck_assert_uint_eq(peak.nominal, p.nominal);
    close_kit(&all);
}
END_TEST

/* A non-causal method reads importance scores of the whole video (kvr_cache_set_salience). Without
 * them, kvr_cache_attend() fails, and the message gives the reason. */
START_TEST(non_causal_needs_the_future)
{
    const struct kvr_cache_shape shape = shape_of(1);
    const struct kvr_pass pass = {
        .chunk = 0, .frame0 = 0, .n_frames = F, .index = 0, .clean = true
    };
    static float x[N];
    struct kvr_cache *cache;
    struct kvr_scheme *scheme;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "PAFU_ORACLE_NONCAUSAL", NULL, 0), KVR_OK);
    ck_assert(strstr(kvr_scheme_warning(scheme), "not causal"));
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED), KVR_OK);
    ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
    ck_assert_int_eq(kvr_cache_append(cache, 0, x, x), KVR_OK);
    ck_assert_int_eq(kvr_cache_attend(cache, 0, x, x), KVR_EUNSUPPORTED);
    ck_assert(strstr(kvr_error(), "PAFU_ORACLE_NONCAUSAL") && strstr(kvr_error(), "whole video"));
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("last layer");
    TCase *tc = tcase_create("last layer");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, all_keep_what_the_last_keeps, 0, 8);
    tcase_add_loop_test(tc, the_peak_is_predicted, 0, 2);
    tcase_add_test(tc, non_causal_needs_the_future);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
