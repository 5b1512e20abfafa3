/* test_places.c - codec stages receive the positions of a block's tokens on both backends. A
 * block's tokens are a run of positions, or a token list that a tier or a retention selected. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"
#include "harness/core/rng.h"
#include "methods/kernels/rope.h"
#include "tests/cache/compare.h"
#include "tests/suite.h"

enum { S = 12, FRAMES = 3, H = 2, D = 32, W = H * D, CHUNKS = 4, CHUNK = S * FRAMES, LAYERS = 2 };
enum { N = CHUNK * W, ROW = 4 };

static float keys[LAYERS][CHUNKS * N];

struct seen {
    int segments, lists, summaries;
    /* squared error and squared norm of the decoded keys, summed over all stored tokens */
    double error, size;
};

static void record_segment(struct seen *all, const struct kvr_segment *s, int layer)
{
    const int heads = s->k.shape.n_heads;
    float *back = malloc((size_t)(s->n_tok * heads) * D * sizeof *back);

    ck_assert_ptr_nonnull(back);
    ck_assert_int_eq(s->k.place.frame_tokens, S);
    ck_assert_int_eq(s->k.place.tok0, kvr_segment_token(s, 0));
    ck_assert_int_eq(s->k.place.layer, layer);
    ck_assert_int_eq(s->v.place.n_layers, LAYERS);
    ck_assert_int_eq(s->k.place.list != NULL, s->listed);
    ck_assert_ptr_eq(s->v.place.list, s->k.place.list);
    for (int64_t i = 0; s->listed && i < s->n_tok; i++)
        ck_assert_int_eq(s->k.place.list[i], kvr_segment_token(s, i));
    kvr_codec_decode(&s->k, 0, s->n_tok, 0, heads, back);
    for (int64_t i = 0; i < s->n_tok && !s->summary; i++)
        for (int j = 0; j < heads * D; j++) {
            const double want = keys[layer][kvr_segment_token(s, i) * W + s->head0 * D + j];
            const double e = (double)back[i * heads * D + j] - want;

            all->error += e * e;
            all->size += want * want;
        }
    all->segments++;
    all->lists += s->listed;
    all->summaries += s->summary;
    free(back);
}

/* On a device, the observer gets a host copy of the stored segments, with their token lists. */
static enum kvr_status look(void *ctx, const struct kvr_cache_view *view)
{
    for (int i = 0; i < view->past->n; i++)
        if (view->past->seg[i].kind == KVR_SEG_CODED)
            record_segment(ctx, &view->past->seg[i], view->layer);
    return KVR_OK;
}

/* Draws keys that are one vector plus a little noise before RoPE. KVQUANT_3BIT undoes RoPE and
 * quantizes the result to 8 levels. At a wrong position, the result would vary too much for 8
 * levels. */
static void draw(float *x, int layer, int chunk)
{
    float base[W], noise[W];
    double cosines[D], sines[D];

    kvr_normal(base, W, 3, KVR_RNG_TEST, (uint32_t)layer, 0, 0);
    for (int t = 0; t < CHUNK; t++) {
        kvr_normal(noise, W, 4, KVR_RNG_TEST, (uint32_t)(chunk * CHUNK + t), (uint32_t)layer, 0);
        kvr_rope_angles(D, chunk * FRAMES + t / S, t % S / ROW, t % ROW, cosines, sines);
        for (int h = 0; h < H; h++) {
            float *k = x + t * W + h * D;

            for (int i = 0; i < D; i++)
                k[i] = 4 * base[h * D + i] + 0.1f * noise[h * D + i];
            kvr_rope_rotate(k, D, cosines, sines, false, k);
        }
    }
}

static const struct {
    const char *spec;
    struct kvr_setting set[3];
    int lists; /* nonzero: segments with token lists must occur */
} cases[] = {
    { "KVQUANT_3BIT", { { NULL, NULL } }, 0 },
    { "KVQUANT_3BIT", { { "retention", "KEY_DIFF" }, { "retention.frames", "5" } }, 1 },
    { "KVQUANT_3BIT",
      { { "retention", "RANDOM_KEEP" },
        { "retention.frames", "5" },
        { "retention.scope", "head" } },
      1 },
    { "KVQUANT_3BIT", { { "retention", "MEMROPE_S3M2R4" }, { "retention.sink", "1" } }, 0 },
    { "SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT4", { { "bits", "8" } }, 1 },
};
enum { N_CASES = sizeof cases / sizeof *cases };

START_TEST(stages_receive_positions)
{
    const struct kvr_cache_shape shape = { .n_layers = LAYERS,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = FRAMES,
                                           .capacity_frames = CHUNKS * FRAMES,
                                           .exact = KVR_BF16 };
    const enum kvr_backend backend = _i % 2 ? KVR_CUDA : KVR_CPU;
    const int which = _i / 2;
    struct seen seen = { 0 };
    struct kvr_buf buf = { 0 };
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_dev *dev;
    float host[3 * N], *x;
    int n_set = 0;

    while (n_set < 3 && cases[which].set[n_set].value)
        n_set++;
    ck_assert_int_eq(kvr_dev_open(&dev, backend), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&scheme, cases[which].spec, cases[which].set, n_set) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(kvr_buf_alloc(&buf, dev, KVR_MEM_ACT, sizeof host), KVR_OK);
    x = buf.p;
    kvr_cache_observe(cache, look, &seen);
    for (int c = 0; c < CHUNKS; c++) {
        const struct kvr_pass pass = {
            .chunk = c, .frame0 = c * FRAMES, .n_frames = FRAMES, .index = 0, .clean = true
        };

        ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
        for (int l = 0; l < LAYERS; l++) {
            draw(host, l, c);
            kvr_normal(host + N, 2 * N, 5, KVR_RNG_TEST, (uint32_t)c, (uint32_t)l, 0);
            for (int i = 0; i < N; i++)
                keys[l][c * N + i] = kvr_bf16_to_f32(kvr_f32_to_bf16(host[i]));
            ck_assert_int_eq(kvr_dev_put(dev, x, host, sizeof host), KVR_OK);
            ck_assert_int_eq(kvr_cache_append(cache, l, x, x + N), KVR_OK);
            ck_assert_msg(kvr_cache_attend(cache, l, x + 2 * N, x + 2 * N) == KVR_OK, "%s",
                          kvr_error());
        }
        ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
    }
    ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
    ck_assert_int_gt(seen.segments, 0);
    ck_assert_msg((seen.lists > 0) >= cases[which].lists, "no segment has a token list");
    /* 8 levels over noise of .1 around a vector of size 4 give a relative error of 1e-5. With a
     * wrong position it is .1 or more. */
    ck_assert_msg(seen.error <= 1e-3 * seen.size, "%s: %g of %g", cases[which].spec, seen.error,
                  seen.size);
    kvr_buf_free(&buf);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}
END_TEST

/* kvr_cache_open() refuses a codec with the stage `unrope` for causal models: language models have
 * no RoPE over frames, rows and columns. */
START_TEST(causal_keys_are_refused)
{
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .causal = true,
                                           .tokens_per_frame = 1,
                                           .frames_per_chunk = S,
                                           .capacity_frames = 2 * S,
                                           .exact = KVR_BF16 };
    struct kvr_scheme *scheme;
    struct kvr_cache *cache = NULL;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "KVQUANT_3BIT", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED),
                     KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "'unrope' undoes RoPE on keys"));
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("places");
    TCase *tc = tcase_create("places");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, stages_receive_positions, 0, 2 * N_CASES);
    tcase_add_test(tc, causal_keys_are_refused);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
