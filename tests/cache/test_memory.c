/* test_memory.c - the moving averages of the retention `memory` equal averages that the test
 * computes from keys before RoPE. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"
#include "harness/core/dtype.h"
#include "harness/core/rng.h"
#include "methods/kernels/rope.h"
#include "tests/cache/layer_kit.h"
#include "tests/suite.h"

enum { S = 6, ROW = 3, F = 3, H = 2, D = 16, CHUNK = S * F, W = H * D, CHUNKS = 8 };
enum { FRAMES = CHUNKS * F, TOKENS = FRAMES * S };

/* `raw` are the keys before rotation, `keys` after. */
static float raw[TOKENS * W], keys[TOKENS * W], values[TOKENS * W];
static float got_k[TOKENS * W], got_v[TOKENS * W];
static uint8_t held[TOKENS];

/* Rotates x to the position of (frame, token), with angles in double precision. */
static void place(const float *x, int frame, int token, float *to)
{
    double co[D / 2], si[D / 2];

    kvr_rope_angles(D, frame, token / ROW, token % ROW, co, si);
    for (int p = 0; p < D / 2; p++) {
        to[2 * p] = (float)(x[2 * p] * co[p] - x[2 * p + 1] * si[p]);
        to[2 * p + 1] = (float)(x[2 * p] * si[p] + x[2 * p + 1] * co[p]);
    }
}

static void open_kit(struct kit *t, const char *retention)
{
    const struct kvr_setting set[] = { { "retention", retention } };
    const struct kvr_layer_geometry geo = { .n_layers = 1,
                                            .n_heads = H,
                                            .head_dim = D,
                                            .tokens_per_frame = S,
                                            .frames_per_chunk = F,
                                            .capacity = TOKENS };

    kvr_normal(raw, TOKENS * W, 5, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(values, TOKENS * W, 5, KVR_RNG_TEST, 2, 0, 0);
    for (int i = 0; i < TOKENS; i++)
        for (int h = 0; h < H; h++)
            place(raw + i * W + h * D, i / S, i % S, keys + i * W + h * D);
    kit_open(t, "F32", set, &geo);
}

static void store(struct kit *t, int chunk)
{
    kit_store(t, keys, values, W, (int64_t)chunk * CHUNK, CHUNK, got_k, got_v, held);
}

/* Checks that head h's entry at `token` equals key x, rotated to frame position `time`, and
 * value v. */
static void is_held(int64_t token, int h, int time, const float *x, const float *v)
{
    float want[D];

    place(x, time, (int)(token % S), want);
    ck_assert_int_eq(held[token], 1);
    for (int c = 0; c < D; c++) {
        /* The stored key was rotated back and forth in F32. For values of a few units this
         * rounds by up to 4e-6. */
        ck_assert_msg(fabsf(got_k[token * W + h * D + c] - want[c]) <= 4e-6f,
                      "token %lld head %d channel %d: %g, not %g", (long long)token, h, c,
                      (double)got_k[token * W + h * D + c], (double)want[c]);
        ck_assert(fabsf(got_v[token * W + h * D + c] - v[c]) <= 2e-6f);
    }
}

/* Checks that of n frames exactly frames [0, first) and [recent, n) are stored. */
static void holds(int n, int first, int recent)
{
    for (int f = 0; f < n; f++)
        for (int s = 0; s < S; s++)
            ck_assert_msg(held[f * S + s] == (f < first || f >= recent), "of %d frames %d", n, f);
}

/* For every evicted chunk, each sink token S becomes rate E + (1 - rate) S, where E is the evicted
 * token at S's position in the chunk. A chunk that is stored twice must be averaged once. At rate 0
 * only the RoPE time of the sink changes. At rate 1 the sink equals the chunk evicted last. */
START_TEST(sinks_are_means)
{
    static const double rates[] = { 0, 0.25, 1 };
    static float want_k[CHUNK * W], want_v[CHUNK * W];
    const double rate = rates[_i];
    char text[80];
    struct kit t;

    snprintf(text, sizeof text, "memory(rule=sinks,rate=%g)", rate);
    open_kit(&t, text);
    memcpy(want_k, raw, sizeof want_k);
    memcpy(want_v, values, sizeof want_v);
    for (int c = 0; c < CHUNKS; c++) {
        const int n = (c + 1) * F;

        store(&t, c);
        if (c % 3 == 2)
            store(&t, c);
        if (c < 2) {
            holds(n, n, n);
            ck_assert(!memcmp(got_k, keys, (size_t)(n * S * W) * sizeof *keys));
            continue;
        }
        /* the chunk before the newest, now evicted */
        for (int i = 0; i < CHUNK * W; i++) {
            const int at = (c - 1) * CHUNK * W + i;

            want_k[i] = (float)(rate * raw[at] + (1 - rate) * want_k[i]);
            want_v[i] = (float)(rate * values[at] + (1 - rate) * want_v[i]);
        }
        holds(n, F, n - F);
        for (int64_t i = 0; i < CHUNK; i++)
            for (int h = 0; h < H; h++)
                is_held(i, h, n - 2 * F + (int)i / S, want_k + i * W + h * D,
                        want_v + i * W + h * D);
        ck_assert(
            !memcmp(got_k + (n - F) * S * W, keys + (n - F) * S * W, CHUNK * W * sizeof *keys));
    }
    kit_close(&t);
}
END_TEST

/* Writes to k [D] and v [D] the means of head h's keys before rotation and of its values over
 * frames [begin, end). */
static void mean_of(int begin, int end, int h, float *k, float *v)
{
    double sum[2 * D] = { 0 };

    for (int t = begin * S; t < end * S; t++)
        for (int c = 0; c < D; c++) {
            sum[c] += raw[t * W + h * D + c];
            sum[D + c] += values[t * W + h * D + c];
        }
    for (int c = 0; c < D; c++) {
        k[c] = (float)(sum[c] / ((end - begin) * S));
        v[c] = (float)(sum[D + c] / ((end - begin) * S));
    }
}

/* Checks MemRoPE with 3 sink frames and 4 recent frames. As in the authors' example, both averages
 * start as the mean of frames 5 to 7, and each later chunk adds the mean of three more frames. */
START_TEST(frames_are_means)
{
    float mean[2][2][D], m[2][D];
    struct kit t;

    open_kit(&t, "memory(rule=frames,recent=4,row=3)");
    for (int c = 0; c < CHUNKS; c++) {
        const int n = (c + 1) * F;

        store(&t, c);
        if (c == 3 || c == 5)
            store(&t, c);
        if (c < 3) {
            holds(n, n, n);
            continue;
        }
        holds(n, 5, n - 4);
        for (int h = 0; h < H; h++) {
            for (int i = 3; i <= c; i++) {
                mean_of((i + 1) * F - 7, (i + 1) * F - 4, h, m[0], m[1]);
                for (int j = 0; j < 2 * D; j++) {
                    const double x = m[j / D][j % D];
                    float *slow = &mean[0][j / D][j % D], *fast = &mean[1][j / D][j % D];

                    *slow = (float)(i == 3 ? x : .01 * x + .99 * *slow);
                    *fast = (float)(i == 3 ? x : .1 * x + .9 * *fast);
                }
            }
            for (int s = 0; s < S; s++) {
                for (int f = 0; f < 3; f++)
                    is_held(f * S + s, h, n - 9 + f, raw + (f * S + s) * W + h * D,
                            values + (f * S + s) * W + h * D);
                is_held(3 * S + s, h, n - 6, mean[0][0], mean[0][1]);
                is_held(4 * S + s, h, n - 5, mean[1][0], mean[1][1]);
            }
        }
    }
    kit_close(&t);
}
END_TEST

/* The authors' published numbers, for values that equal their frame's index. */
START_TEST(published_example)
{
    struct kit t;

    open_kit(&t, "memory(rule=frames,recent=4)");
    for (int i = 0; i < TOKENS * W; i++)
        values[i] = (float)(i / W / S);
    for (int c = 0; c < 5; c++)
        store(&t, c);
    /* frames stored: 0 1 2 | means 6.03 6.3 | 11 12 13 14 */
    for (int c = 0; c < 4; c++) {
        ck_assert(fabsf(got_v[3 * S * W + c] - 6.03f) <= 1e-5f);
        ck_assert(fabsf(got_v[4 * S * W + c] - 6.3f) <= 1e-5f);
        ck_assert(got_v[2 * S * W + c] == 2 && got_v[11 * S * W + c] == 11);
    }
    kit_close(&t);
}
END_TEST

/* With rate .001, a mean stored in BF16 stays unchanged at most positions, since the update
 * rounds away. In F32 it changes at nearly all of them. */
START_TEST(bf16_stalls)
{
    int same[2] = { 0 };

    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct kit t;

        open_kit(&t, bf16 ? "memory(state=bf16)" : "memory");
        for (int i = 0; i < TOKENS * W; i++)
            values[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(values[i]));
        for (int c = 0; c < 3; c++)
            store(&t, c);
        for (int i = 0; i < CHUNK * W; i++)
            same[bf16] += got_v[i] == values[i];
        kit_close(&t);
    }
    ck_assert_int_le(same[0], CHUNK * W / 50);
    ck_assert_int_ge(same[1], CHUNK * W / 2);
}
END_TEST

/* Once the window is full, neither the stored tokens nor the policy's state grow. */
START_TEST(bytes_are_flat)
{
    size_t before = 0, codes;
    struct kit t;

    open_kit(&t, "memory(rule=frames,recent=4)");
    for (int c = 0; c < CHUNKS; c++) {
        store(&t, c);
        ck_assert(c < 4 || kvr_layer_resident(&t.layer, &codes) == before);
        before = kvr_layer_resident(&t.layer, &codes);
    }
    /* The layer stores 9 frames of F32 keys and values. The state is a frame index of 8 B and
     * two means of a key and a value per head. */
    ck_assert_uint_eq(kvr_layer_nominal(&t.layer), 9 * S * W * 2 * sizeof(float));
    ck_assert_uint_eq(before, 9 * S * W * 2 * sizeof(float) + 8 + 4 * W * sizeof(float));
    kit_close(&t);
}
END_TEST

/* `row` must divide the number of tokens per frame. Every retention with that option refuses other
 * values. */
START_TEST(rows_divide_a_frame)
{
    static const char *const kinds[] = { "memory(rule=frames,row=4)", "merge(row=4)",
                                         "pyramid(row=4)" };
    struct kit t;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        open_kit(&t, kinds[i]);
        ck_assert_int_eq(kvr_layer_commit(&t.layer, keys, values, 0, CHUNK), KVR_EUNSUPPORTED);
        ck_assert_msg(
            strstr(kvr_error(), "row is 4 tokens, but must divide the 6 tokens of a frame"), "%s",
            kvr_error());
        kit_close(&t);
    }
}
END_TEST

/* kvr_cache_open() refuses `memory` for causal models: `memory` changes the RoPE time of keys, and
 * language models have no RoPE over frames, rows and columns. */
START_TEST(causal_models_are_refused)
{
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .causal = true,
                                           .tokens_per_frame = 1,
                                           .frames_per_chunk = 8,
                                           .capacity_frames = 64,
                                           .exact = KVR_BF16 };
    struct kvr_cache *cache;
    struct kit t;

    open_kit(&t, "memory");
    ck_assert_int_eq(kvr_cache_open(&cache, t.dev, t.scheme, &shape, KVR_PATH_STAGED),
                     KVR_EUNSUPPORTED);
    ck_assert_msg(strstr(kvr_error(), "rotates keys") != NULL, "%s", kvr_error());
    kit_close(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("memory");
    TCase *tc = tcase_create("memory");

    suite_add_tcase(s, tc);
    tcase_add_loop_test(tc, sinks_are_means, 0, 3);
    tcase_add_test(tc, frames_are_means);
    tcase_add_test(tc, published_example);
    tcase_add_test(tc, bf16_stalls);
    tcase_add_test(tc, bytes_are_flat);
    tcase_add_test(tc, rows_divide_a_frame);
    tcase_add_test(tc, causal_models_are_refused);
    return run_suite(s);
}
