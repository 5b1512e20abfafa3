/* test_basis.c - checks that kvr_basis finds the known principal components of synthetic keys
 * (before RoPE) and values, and that a codec can use the file that it writes. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/rng.h"
#include "harness/workload/basis.h"
#include "methods/kernels/rope.h"
#include "tests/suite.h"
#include "tests/workload/observed.h"

enum { S = 12, ROW = 4, F = 3, H = 2, D = 16, T = S * F, W = H * D, LAYERS = 2, CHUNKS = 3 };

/* Fills x [T,H,D] with random keys or values of mean 1. Let c = 3 layer + h for the keys of head h,
 * and one more for values. Channel c has standard deviation 2, channel c + 1 has 1, and all others
 * have 0.01, so the first principal components are channels c and c + 1. Keys are then rotated by
 * RoPE. */
static void draw(float *x, int layer, bool values, int chunk)
{
    double cosines[D], sines[D];

    kvr_normal(x, T * W, 3, KVR_RNG_TEST, (uint32_t)(2 * layer + values), (uint32_t)chunk, 0);
    for (int t = 0; t < T; t++) {
        kvr_rope_angles(D, chunk * F + t / S, t % S / ROW, t % ROW, cosines, sines);
        for (int h = 0; h < H; h++) {
            float *v = x + t * W + h * D;
            const int first = 3 * layer + h + values;

            for (int c = 0; c < D; c++)
                v[c] = 1 + v[c] * (c == first ? 2.0f : c == first + 1 ? 1.0f : 0.01f);
            if (!values)
                kvr_rope_rotate(v, D, cosines, sines, false, v);
            for (int c = 0; c < D; c++)
                v[c] = kvr_bf16_to_f32(kvr_f32_to_bf16(v[c]));
        }
    }
}

/* Sets the keys and values of a pass. Those of denoising passes (pass 0) are unrelated, because the
 * basis must ignore them. */
static void draw_both(int chunk, int pass, int layer, float *k, float *v)
{
    draw(k, layer, false, chunk);
    draw(v, layer, true, chunk);
    for (int i = 0; i < T * W && pass == 0; i++)
        k[i] = v[i] = (float)(i % 7);
}

static struct kvr_basis *see(void)
{
    const struct kvr_cache_shape shape = { .n_layers = LAYERS,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = F,
                                           .capacity_frames = F * CHUNKS,
                                           .exact = KVR_BF16 };
    struct kvr_basis *basis;

    ck_assert_int_eq(kvr_basis_open(&basis, LAYERS, H, D), KVR_OK);
    observe_rollout(&shape, CHUNKS, draw_both, kvr_basis_observe, basis);
    return basis;
}

/* Estimated from 108 tokens, each of the first two components must have cosine similarity >= .98
 * with its channel. Their means must be within .8, or 4 standard errors. The two have variances 4
 * and 1; all other channels together have only .0014. */
START_TEST(planted_directions_are_found)
{
    const int layer = _i % LAYERS;
    const enum kvr_side side = _i / LAYERS ? KVR_V : KVR_K;
    struct kvr_basis *basis = see();
    float out[H][1 + D][D];
    double share[H][D];

    ck_assert_int_eq(kvr_basis_fit(basis, layer, side, &out[0][0][0], &share[0][0]), KVR_OK);
    for (int h = 0; h < H; h++) {
        const int first = 3 * layer + h + (side == KVR_V);

        for (int k = 0; k < 2; k++)
            ck_assert_msg(out[h][1 + k][first + k] >= 0.98f, "head %d: direction %d has %g of it",
                          h, k, (double)out[h][1 + k][first + k]);
        for (int c = 0; c < D; c++)
            ck_assert_msg(fabsf(out[h][0][c] - 1) <= (c == first || c == first + 1 ? 0.8f : 0.01f),
                          "mean %g", (double)out[h][0][c]);
        ck_assert_msg(share[h][0] >= 0.65 && share[h][0] <= 0.9, "%g", share[h][0]);
        ck_assert_msg(share[h][0] + share[h][1] >= 0.999, "%g", share[h][0] + share[h][1]);
        for (int c = 1; c < D; c++)
            ck_assert(share[h][c] <= share[h][c - 1] * (1 + 1e-6) + 1e-9);
    }
    kvr_basis_close(&basis);
}
END_TEST

/* share=0.125 makes the codec keep 2 of 16 components. With the components of its own layer, the
 * codec's error is at most 1 % of the variance. With those of the other layer, it is at least 50 %,
 * which shows that the codec reads the right layer. */
START_TEST(a_codec_reads_them)
{
    const struct kvr_block_shape shape = { T, H, D };
    static float x[T * W], work[T * W], y[T * W];
    struct kvr_basis *basis = see();
    char path[] = "/tmp/kvr_basis_XXXXXX", text[128];
    struct kvr_dev *dev;

    ck_assert_int_ge(close(mkstemp(path)), 0);
    ck_assert_msg(kvr_basis_write(basis, path, NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    for (int i = 0; i < 4; i++) {
        const enum kvr_side side = i % 2 ? KVR_V : KVR_K;
        const bool own = i / 2;
        const struct kvr_place place = {
            .frame_tokens = S, .tok0 = T, .layer = own ? 1 : 0, .n_layers = LAYERS
        };
        double error = 0, all = 0;
        struct kvr_codec *c;
        struct kvr_packed p;

        snprintf(text, sizeof text, "%sprincipal(share=0.125,basis=%s)",
                 side == KVR_V ? "" : "unrope | ", path);
        ck_assert_msg(kvr_codec_open(&c, text, side, false) == KVR_OK, "%s", kvr_error());
        draw(x, 1, side == KVR_V, 1);
        ck_assert_msg(kvr_codec_encode_at(c, dev, x, &shape, &place, work, &p) == KVR_OK, "%s",
                      kvr_error());
        kvr_codec_decode(&p, 0, T, 0, H, y);
        for (int e = 0; e < T * W; e++) {
            error += ((double)x[e] - (double)y[e]) * ((double)x[e] - (double)y[e]);
            all += 5.0 / D;
        }
        if (own)
            ck_assert_msg(error <= 0.01 * all, "%s: %g of %g", text, error, all);
        else
            ck_assert_msg(error >= 0.5 * all, "%s of another layer: %g of %g", text, error, all);
        kvr_packed_free(&p);
        kvr_codec_close(&c);
    }
    kvr_dev_close(&dev);
    kvr_basis_close(&basis);
    remove(path);
}
END_TEST

START_TEST(nothing_seen_is_an_error)
{
    float out[H * (1 + D) * D];
    struct kvr_basis *basis;

    ck_assert_int_eq(kvr_basis_open(&basis, LAYERS, H, D), KVR_OK);
    ck_assert_int_eq(kvr_basis_fit(basis, 1, KVR_K, out, NULL), KVR_EINVAL);
    ck_assert_int_eq(kvr_basis_write(basis, "/tmp/kvr_never_written", NULL), KVR_EINVAL);
    ck_assert_int_eq(access("/tmp/kvr_never_written", F_OK), -1);
    kvr_basis_close(&basis);
    kvr_basis_close(&basis); /* a second call does nothing */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("basis");
    TCase *tc = tcase_create("basis");

    tcase_add_loop_test(tc, planted_directions_are_found, 0, 2 * LAYERS);
    tcase_add_test(tc, a_codec_reads_them);
    tcase_add_test(tc, nothing_seen_is_an_error);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
