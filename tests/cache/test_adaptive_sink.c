/* test_adaptive_sink.c - the retention `adaptive_sink` selects the same sink frames as a direct
 * implementation of its rule. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/layer.h"
#include "harness/core/rng.h"
#include "tests/cache/layer_kit.h"
#include "tests/suite.h"

enum { S = 4, F = 3, H = 2, D = 16, W = H * D, CHUNK = S * F, CHUNKS = 7, FRAMES = CHUNKS * F };
enum { TOKENS = FRAMES * S, SINKS = 3, RECENT = 3 };

static float keys[TOKENS * W], values[TOKENS * W];
static uint8_t held[TOKENS];

static void open_kit(struct kit *t, const char *threshold)
{
    const struct kvr_setting set[] = { { "threshold", threshold } };
    const struct kvr_layer_geometry geo = { .n_layers = 1,
                                            .n_heads = H,
                                            .head_dim = D,
                                            .tokens_per_frame = S,
                                            .frames_per_chunk = F,
                                            .capacity = TOKENS };

    kit_open(t, "STREAMV2_SINK3", set, &geo);
}

static void store(struct kit *t, int chunk)
{
    kit_store(t, keys, values, W, (int64_t)chunk * CHUNK, CHUNK, NULL, NULL, held);
}

static double cosine(const float *x, int a, int b)
{
    double ab = 0, aa = 0, bb = 0;

    for (int c = 0; c < W; c++) {
        double ma = 0, mb = 0;

        for (int s = 0; s < S; s++) {
            ma += x[(a * S + s) * W + c];
            mb += x[(b * S + s) * W + c];
        }
        ab += ma * mb;
        aa += ma * ma;
        bb += mb * mb;
    }
    return ab / sqrt(aa * bb);
}

static bool among(const int *list, int n, int frame)
{
    for (int i = 0; i < n; i++)
        if (list[i] == frame)
            return true;
    return false;
}

/* The test applies the rule of methods/retention/adaptive_sink.c frame by frame, with a list of
 * sink frames and a queue of recent frames. Storing a chunk a second time must not change the
 * selection. */
START_TEST(the_least_similar_sink_is_replaced)
{
    static const char *const thresholds[] = { "-2", "0", "0.2", "1.01" };
    int sink[SINKS] = { 0, 1, 2 }, queue[RECENT] = { -1, -1, -1 }, replaced = 0;
    struct kit t;

    kvr_normal(keys, TOKENS * W, 5, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(values, TOKENS * W, 5, KVR_RNG_TEST, 2, 0, 0);
    open_kit(&t, thresholds[_i]);
    store(&t, 0);
    for (int c = 1; c < CHUNKS; c++) {
        for (int f = c * F; f < (c + 1) * F; f++) {
            double least = strtod(thresholds[_i], NULL);
            int slot = -1;

            for (int i = 0; i < SINKS; i++) {
                const double a = (cosine(keys, sink[i], f) + cosine(values, sink[i], f)) / 2;

                if (f >= SINKS + RECENT && sink[i] < c * F && a < least) {
                    least = a;
                    slot = i;
                }
            }
            if (slot >= 0) {
                sink[slot] = f;
                replaced++;
                continue;
            }
            memmove(queue, queue + 1, (RECENT - 1) * sizeof *queue);
            queue[RECENT - 1] = f;
        }
        store(&t, c);
        for (int f = 0; f < (c + 1) * F; f++)
            for (int s = 0; s < S; s++)
                ck_assert_msg(held[f * S + s] == (among(sink, SINKS, f) || among(queue, RECENT, f)),
                              "threshold %s: frame %d after chunk %d", thresholds[_i], f, c);
    }
    ck_assert(_i == 0 ? replaced == 0 : _i == 3 ? replaced == (CHUNKS - 2) * F : replaced > 0);
    kit_close(&t);
}
END_TEST

/* In a video of equal frames, no sink frame is ever replaced. */
START_TEST(equal_frames_replace_no_sink)
{
    struct kit t;

    kvr_normal(keys, S * W, 5, KVR_RNG_TEST, 1, 0, 0);
    for (int i = 0; i < TOKENS * W; i++)
        keys[i] = values[i] = keys[i % (S * W)];
    open_kit(&t, "0.999");
    for (int c = 0; c < CHUNKS; c++) {
        store(&t, c);
        store(&t, c);
    }
    for (int f = 0; f < FRAMES; f++)
        ck_assert_int_eq(held[f * S], f < SINKS || f >= FRAMES - RECENT);
    kit_close(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("adaptive sink");
    TCase *tc = tcase_create("adaptive sink");

    suite_add_tcase(s, tc);
    tcase_add_loop_test(tc, the_least_similar_sink_is_replaced, 0, 4);
    tcase_add_test(tc, equal_frames_replace_no_sink);
    return run_suite(s);
}
