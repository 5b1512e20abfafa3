/* test_levels.c - quantization levels calibrated over a rollout. For one chunk they equal the
 * levels that the codec fits itself; of several chunks, those with a larger range have more
 * weight. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/workload/levels.h"
#include "methods/codecs/nuq/nuq.h"
#include "tests/suite.h"
#include "tests/workload/observed.h"

enum { S = 12, F = 3, H = 2, D = 32, T = S * F, W = H * D, LAYERS = 2, BITS = 2, N = 1 << BITS };

/* Fills x with random values around two modes, 1.5 and -0.5. The fraction of values around each
 * mode depends on the layer, and differs between keys and values. */
static void draw(float *x, int layer, bool values, int chunk)
{
    kvr_normal(x, T * W, 3, KVR_RNG_TEST, (uint32_t)(2 * layer + values), (uint32_t)chunk, 0);
    for (int i = 0; i < T * W; i++) {
        x[i] = 0.2f * x[i] + (i * 7 % (11 + 6 * layer + 2 * values) < 5 ? 1.5f : -0.5f);
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
    }
}

static struct kvr_levels *levels;

static float later; /* factor by which chunks after the first are multiplied */

/* Sets the keys and values of a pass. Those of denoising passes (pass 0) are distorted, because the
 * calibration must ignore them. */
static void draw_both(int chunk, int pass, int layer, float *k, float *v)
{
    draw(k, layer, false, chunk);
    draw(v, layer, true, chunk);
    for (int i = 0; i < T * W; i++) {
        k[i] *= pass ? (chunk ? later : 1) : (float)(i % 5);
        v[i] *= pass ? (chunk ? later : 1) : (float)(i % 3);
    }
}

static void see(int n_chunks, float scale)
{
    const struct kvr_cache_shape shape = { .n_layers = LAYERS,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = F,
                                           .capacity_frames = F * n_chunks,
                                           .exact = KVR_BF16 };

    later = scale;
    observe_rollout(&shape, n_chunks, draw_both, kvr_levels_observe, levels);
}

/* Computes the levels that the codec stage `kvquant` fits to chunk c alone. */
static void own_levels(int layer, enum kvr_side side, int c, double level[N])
{
    const struct kvr_place place = {
        .frame_tokens = S, .tok0 = c * T, .layer = layer, .n_layers = LAYERS
    };
    const struct kvr_block_shape shape = { T, H, D };
    static float x[T * W], work[T * W];
    struct kvr_codec *codec;
    struct kvr_packed p;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(
        kvr_codec_open(&codec,
                       side == KVR_V ? "kvquant(bits=2,axis=token)" : "unrope | kvquant(bits=2)",
                       side, false) == KVR_OK,
        "%s", kvr_error());
    draw(x, layer, side == KVR_V, c);
    ck_assert_int_eq(kvr_codec_encode_at(codec, dev, x, &shape, &place, work, &p), KVR_OK);
    for (int q = 0; q < N; q++)
        level[q] = (double)cells_float(cells_get(p.stage[codec->n_stages - 1].meta.p, 4 * q, 4));
    kvr_packed_free(&p);
    kvr_codec_close(&codec);
    kvr_dev_close(&dev);
}

/* Tolerance of a level in [-1, 1], two histogram bins of 2 / 1024. The rounding of the RoPE
 * rotation can move an element to the next bin. */
static const double near = 4e-3;

START_TEST(one_chunk_has_its_own)
{
    const int layer = _i / 2;
    const enum kvr_side side = _i % 2 ? KVR_V : KVR_K;
    double want[N], other[N], got[N];
    int differ = 0;

    ck_assert_int_eq(kvr_levels_open(&levels, LAYERS, H, D, BITS, 0.01), KVR_OK);
    see(1, 1);
    ck_assert_int_eq(kvr_levels_fit(levels, layer, side, got), KVR_OK);
    own_levels(layer, side, 0, want);
    own_levels(1 - layer, side, 0, other);
    for (int q = 0; q < N; q++) {
        ck_assert_msg(fabs(got[q] - want[q]) <= near, "level %d: %g, the codec's own %g", q, got[q],
                      want[q]);
        differ += fabs(got[q] - other[q]) > near;
    }
    ck_assert_int_gt(differ, 0);
    kvr_levels_close(&levels);
}
END_TEST

/* Squared errors are weighted by the squared range. A second chunk with 1/1024 of the first chunk's
 * range must not affect the levels; with 1024 times the range, it must determine them. */
START_TEST(chunks_weigh_as_their_ranges)
{
    double want[N], got[N];

    ck_assert_int_eq(kvr_levels_open(&levels, LAYERS, H, D, BITS, 0.01), KVR_OK);
    see(2, _i ? 1024 : 0x1p-10f);
    ck_assert_int_eq(kvr_levels_fit(levels, 1, KVR_V, got), KVR_OK);
    own_levels(1, KVR_V, _i, want);
    for (int q = 0; q < N; q++)
        ck_assert_msg(fabs(got[q] - want[q]) <= near, "level %d: %g, chunk %d's own %g", q, got[q],
                      _i, want[q]);
    kvr_levels_close(&levels);
}
END_TEST

START_TEST(nothing_seen_is_an_error)
{
    double level[N];

    ck_assert_int_eq(kvr_levels_open(&levels, LAYERS, H, D, BITS, 0.01), KVR_OK);
    ck_assert_int_eq(kvr_levels_fit(levels, 1, KVR_K, level), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "layer 1: cannot fit levels to the keys"));
    kvr_levels_close(&levels);
    kvr_levels_close(&levels); /* a second call does nothing */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("levels");
    TCase *tc = tcase_create("levels");

    tcase_add_loop_test(tc, one_chunk_has_its_own, 0, 2 * LAYERS);
    tcase_add_loop_test(tc, chunks_weigh_as_their_ranges, 0, 2);
    tcase_add_test(tc, nothing_seen_is_an_error);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
