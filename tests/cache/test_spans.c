/* test_spans.c - segments that span several chunks, and groups at absolute token positions. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/layer.h"
#include "harness/cache/predict.h"
#include "harness/core/rng.h"
#include "tests/suite.h"

enum { S = 10, F = 3, H = 1, D = 64, CHUNK = S * F, N_CHUNKS = 17, TOKENS = N_CHUNKS * CHUNK };

struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_layer layer;
    struct kvr_layer_scratch scratch;
    float *k, *v; /* [TOKENS,H,D], rounded to BF16 */
};

static float *normal(uint32_t a)
{
    float *x = malloc((size_t)TOKENS * D * sizeof *x);

    ck_assert_ptr_nonnull(x);
    kvr_normal(x, (size_t)TOKENS * D, 5, KVR_RNG_TEST, a, 0, 0);
    for (int i = 0; i < TOKENS * D; i++)
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
    return x;
}

static void kit_open_with(struct kit *t, const char *spec, const struct kvr_setting *set, int n_set)
{
    const struct kvr_layer_geometry geo = { .n_layers = 1,
                                            .n_heads = H,
                                            .head_dim = D,
                                            .tokens_per_frame = S,
                                            .frames_per_chunk = F,
                                            .capacity = TOKENS };

    *t = (struct kit){ .k = normal(1), .v = normal(2) };
    ck_assert_int_eq(kvr_dev_open(&t->dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&t->scheme, spec, set, n_set) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_layer_open(&t->layer, t->dev, t->scheme, &geo, &t->scratch, false),
                     KVR_OK);
}

static void kit_open(struct kit *t, const char *spec)
{
    kit_open_with(t, spec, NULL, 0);
}

static void kit_close(struct kit *t)
{
    struct kvr_mem_stats mem;

    kvr_layer_close(&t->layer);
    kvr_layer_scratch_free(&t->scratch);
    kvr_mem_stats(t->dev, &mem);
    ck_assert_uint_eq(mem.live_total, 0);
    kvr_scheme_close(&t->scheme);
    kvr_dev_close(&t->dev);
    free(t->k);
    free(t->v);
}

static void commit(struct kit *t, int chunk)
{
    const int64_t at = (int64_t)chunk * CHUNK;

    ck_assert_msg(kvr_layer_commit(&t->layer, t->k + at * D, t->v + at * D, at, CHUNK) == KVR_OK,
                  "%s", kvr_error());
}

/* Checks the layer's segments against text such as "0-240:0 240-270:1": token runs and their
 * tiers. */
static void expect(const struct kit *t, const char *want)
{
    char text[512] = "";
    size_t n = 0;

    for (int i = 0; i < t->layer.n; i++) {
        const struct kvr_segment *s = &t->layer.seg[i];

        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d-%d:%d", i ? " " : "", (int)s->tok0,
                              (int)(s->tok0 + s->n_tok), s->tier);
    }
    ck_assert_str_eq(text, want);
}

/* Chunks stay unquantized until eight are complete and a newer one follows. Then all eight are
 * quantized as one segment, whose bytes equal those of one codec call over the eight chunks. */
START_TEST(chunks_wait_for_each_other)
{
    static const char *const specs[] = { "TRQ_INT2", "QVG_INT2@qvg" };
    static const struct kvr_place place = { .frame_tokens = S };
    static const struct kvr_block_shape span = { 8 * CHUNK, H, D };
    float *work = malloc((size_t)TOKENS * D * sizeof *work);
    struct kvr_packed whole;
    struct kit t;

    ck_assert_ptr_nonnull(work);
    kit_open(&t, specs[_i]);
    for (int c = 0; c < 8; c++)
        commit(&t, c);
    expect(&t, "0-30:1 30-60:1 60-90:1 90-120:1 120-150:1 150-180:1 180-210:1 210-240:1");
    /* The newest chunk may be stored again. */
    commit(&t, 7);
    commit(&t, 8);
    expect(&t, "0-240:0 240-270:1");
    ck_assert_int_eq(kvr_codec_encode_at(t.scheme->k[0], t.dev, t.k, &span, &place, work, &whole),
                     KVR_OK);
    for (int i = 0; i < t.scheme->k[0]->n_stages; i++) {
        const struct kvr_stage_data *a = &whole.stage[i], *b = &t.layer.seg[0].k.stage[i];

        ck_assert_uint_eq(a->codes.n_bytes, b->codes.n_bytes);
        ck_assert_uint_eq(a->meta.n_bytes, b->meta.n_bytes);
        /* A stage that rotates keys stores nothing. */
        if (a->codes.n_bytes)
            ck_assert_mem_eq(a->codes.p, b->codes.p, a->codes.n_bytes);
        if (a->meta.n_bytes)
            ck_assert_mem_eq(a->meta.p, b->meta.p, a->meta.n_bytes);
    }
    kvr_packed_free(&whole);
    for (int c = 9; c < N_CHUNKS; c++)
        commit(&t, c);
    expect(&t, "0-240:0 240-480:0 480-510:1");
    free(work);
    kit_close(&t);
}
END_TEST

/* Two options of Quant VideoGen: at least the `recent` newest chunks stay unquantized, and the
 * first `sink_keep` chunks always do. The first span then starts after the sink and has seven
 * chunks. Eviction drops unquantized chunks one by one, and a quantized span only when none of its
 * tokens is visible. */
START_TEST(chunks_are_kept_and_evicted)
{
    static const struct kvr_setting set[] = { { "recent", "2" }, { "sink_keep", "1" } };
    struct kvr_visible seen = { .n = 1, .run = { { 210, 330 } } };
    struct kit t;

    kit_open_with(&t, "QVG_INT2@qvg", set, 2);
    for (int c = 0; c < 9; c++)
        commit(&t, c);
    ck_assert_int_eq(t.layer.n, 9);
    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(t.layer.seg[i].tier, 1);
    commit(&t, 9);
    expect(&t, "0-30:1 30-240:0 240-270:1 270-300:1");
    commit(&t, 10);
    /* one chunk of the quantized span is still visible */
    kvr_layer_evict(&t.layer, &seen);
    expect(&t, "30-240:0 240-270:1 270-300:1 300-330:1");
    seen.run[0][0] = 240;
    kvr_layer_evict(&t.layer, &seen);
    expect(&t, "240-270:1 270-300:1 300-330:1");
    kit_close(&t);
}
END_TEST

/* A chunk has 30 tokens, a group 64. An incomplete group is requantized together with the next
 * chunk, so the layer takes as many bytes as one codec call over all tokens. Tokens that are
 * requantized are first decoded, so their error grows. */
START_TEST(groups_lie_at_absolute_places)
{
    struct kvr_block_shape all = { 5 * CHUNK, H, D };
    float *k = malloc((size_t)TOKENS * D * sizeof *k);
    struct kit t;

    ck_assert_ptr_nonnull(k);
    kit_open(&t, "KIVI_INT8@lightx2v");
    commit(&t, 0);
    expect(&t, "0-30:0");
    commit(&t, 1);
    expect(&t, "0-60:0");
    commit(&t, 2);
    expect(&t, "0-64:0 64-90:0");
    commit(&t, 3);
    /* Storing chunk 3 again keeps the tokens of chunk 2 that share a group with it. */
    commit(&t, 3);
    expect(&t, "0-64:0 64-120:0");
    commit(&t, 4);
    expect(&t, "0-64:0 64-128:0 128-150:0");
    ck_assert_uint_eq(kvr_layer_nominal(&t.layer), kvr_codec_bytes(t.scheme->k[0], &all) +
                                                       kvr_codec_bytes(t.scheme->v[0], &all));
    kvr_layer_dense(&t.layer, 0, 5 * CHUNK, k, NULL, NULL);
    /* A token is quantized at most four times, with 8 bits over a range of about 6 standard
     * deviations. */
    for (int i = 0; i < 5 * CHUNK * D; i++)
        ck_assert_msg(fabsf(k[i] - t.k[i]) <= 0.15f, "token %d: %g, was %g", i / D, (double)k[i],
                      (double)t.k[i]);
    free(k);
    kit_close(&t);
}
END_TEST

/* If a retention evicts single tokens, each chunk is quantized separately, not in a span of
 * eight. */
START_TEST(evicting_tokens_disables_spans)
{
    static const struct kvr_setting keep = { "retention", "keep(score=age,frames=40)" };
    struct kit t;

    kit_open(&t, "TRQ_INT2");
    kvr_scheme_close(&t.scheme);
    ck_assert_msg(kvr_scheme_open(&t.scheme, "TRQ_INT2", &keep, 1) == KVR_OK, "%s", kvr_error());
    t.layer.scheme = t.scheme;
    for (int c = 0; c < 9; c++)
        commit(&t, c);
    ck_assert_int_eq(t.layer.n, 9);
    ck_assert_int_eq(t.layer.seg[0].tier, 0);
    ck_assert_int_eq(t.layer.seg[8].tier, 1);
    kit_close(&t);
}
END_TEST

/* A dry rollout over 21 and 42 frames of Wan 1.3B predicts the pool sizes in bytes that LightX2V
 * publishes for Self-Forcing. */
START_TEST(a_rollout_takes_the_published_bytes)
{
    static const struct {
        const char *spec;
        size_t frames_21, frames_42;
    } want[] = { { "KIVI_INT8@lightx2v", 3397386240, 6794772480 },
                 { "KIVI_INT4@lightx2v", 1887436800, 3774873600 },
                 { "KIVI_INT2@lightx2v", 1132462080, 2264924160 } };
    struct kvr_scheme *scheme;

    ck_assert_msg(kvr_scheme_open(&scheme, want[_i].spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    for (int twice = 0; twice < 2; twice++) {
        const struct kvr_predict_run run = { .latent_frames = twice ? 42 : 21 };
        struct kvr_prediction p;

        ck_assert_int_eq(kvr_predict(scheme, &kvr_wan_1_3b, &run, &p), KVR_OK);
        ck_assert_uint_eq(p.nominal, twice ? want[_i].frames_42 : want[_i].frames_21);
    }
    kvr_scheme_close(&scheme);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("spans");
    TCase *tc = tcase_create("spans");

    tcase_add_loop_test(tc, chunks_wait_for_each_other, 0, 2);
    tcase_add_test(tc, chunks_are_kept_and_evicted);
    tcase_add_test(tc, groups_lie_at_absolute_places);
    tcase_add_test(tc, evicting_tokens_disables_spans);
    tcase_add_loop_test(tc, a_rollout_takes_the_published_bytes, 0, 3);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
