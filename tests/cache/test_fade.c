/* test_fade.c - FadeMem and Rolling Sink: source frame and key position of every stored frame. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/layer.h"
#include "harness/core/dtype.h"
#include "methods/kernels/rope.h"
#include "tests/suite.h"

enum { S = 4, F = 3, H = 2, D = 16, CHUNK = S * F, W = H * D, CHUNKS = 121 };
enum { FRAMES = CHUNKS * F, TOKENS = FRAMES * S };

static float keys[TOKENS * W], values[TOKENS * W], got_k[TOKENS * W], got_v[TOKENS * W];
static uint8_t held[TOKENS];

/* Before RoPE, all keys are the same vector. Channels 0 to 2 of a value contain the indices of its
 * frame, of its token within the frame, and of its head. */
static void make(void)
{
    double co[D / 2], si[D / 2];
    float raw[D];

    for (int c = 0; c < D; c++)
        raw[c] = (float)(c % 5) - 1.5f;
    for (int i = 0; i < TOKENS; i++)
        for (int h = 0; h < H; h++) {
            float *v = values + i * W + h * D;

            kvr_rope_angles(D, i / S, i % S / 2, i % 2, co, si);
            kvr_rope_rotate(raw, D, co, si, false, keys + i * W + h * D);
            memset(v, 0, D * sizeof *v);
            v[0] = (float)(i / S);
            v[1] = (float)(i % S);
            v[2] = (float)h;
        }
}

struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_layer_scratch scratch;
    struct kvr_layer layer;
};

/* Stores the chunks of a rollout over `frames` frames, the last chunk twice, and decodes the layer
 * to got_k and got_v. */
static void roll(struct kit *t, const char *retention, int frames)
{
    const struct kvr_setting set[] = { { "retention", retention } };
    const struct kvr_layer_geometry geo = { .n_layers = 1,
                                            .n_heads = H,
                                            .head_dim = D,
                                            .tokens_per_frame = S,
                                            .frames_per_chunk = F,
                                            .capacity = TOKENS };

    memset(t, 0, sizeof *t);
    make();
    ck_assert_int_eq(kvr_dev_open(&t->dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&t->scheme, "F32", set, 1) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_layer_open(&t->layer, t->dev, t->scheme, &geo, &t->scratch, false),
                     KVR_OK);
    for (int i = 0; i <= frames / F; i++) {
        const int chunk = i < frames / F ? i : i - 1;

        ck_assert_msg(kvr_layer_commit(&t->layer, keys + chunk * CHUNK * W,
                                       values + chunk * CHUNK * W, (int64_t)chunk * CHUNK,
                                       CHUNK) == KVR_OK,
                      "%s", kvr_error());
    }
    kvr_layer_dense(&t->layer, 0, (int64_t)frames * S, got_k, got_v, held);
}

static void done(struct kit *t)
{
    kvr_layer_close(&t->layer);
    kvr_layer_scratch_free(&t->scratch);
    kvr_scheme_close(&t->scheme);
    kvr_dev_close(&t->dev);
}

/* Checks that the entry of frame `at` is rotated to frame position `time`. The limit 2e-5 allows
 * for up to 121 rotations, each rounded to F32. */
static void is_turned_to(int at, int time)
{
    for (int i = at * S * W; i < (at + 1) * S * W; i++) {
        const float want = keys[time * S * W + i - at * S * W];

        ck_assert_msg(fabsf(got_k[i] - want) <= 2e-5f, "entry %d, time %d: %g, not %g", at, time,
                      (double)got_k[i], (double)want);
    }
}

/* FadeMem's worked examples: after `frames` frames, entry i averages span[i] frames and is read
 * at frame position time[i]. */
static const struct {
    int frames, span[12], time[12];
} fade_cases[] = {
    { 12, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 } },
    { 15, { 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { 0, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14 } },
    /* FadeMem publishes positions relative to frame 21, which is 18 frames before the current
     * chunk: 0 1 2 3 4 5 8 11 13 15 16 17. */
    { 39,
      { 4, 8, 4, 4, 4, 4, 4, 2, 2, 1, 1, 1 },
      { 21, 22, 23, 24, 25, 26, 29, 32, 34, 36, 37, 38 } },
};

START_TEST(fademem_has_the_published_positions)
{
    struct kit t;
    int first = 0;

    roll(&t, "fade", fade_cases[_i].frames);
    for (int i = 0; i < 12; i++) {
        const int span = fade_cases[_i].span[i];

        is_turned_to(i, fade_cases[_i].time[i]);
        for (int s = 0; s < S * H; s++) {
            const float *v = got_v + i * S * W + s * D;

            if (i == 0) /* entry 0, the anchor, is frame 0 alone */
                ck_assert(v[0] == 0);
            /* An entry is a weighted mean of its frames. The mean of two or more frame indices lies
             * strictly between the first and the last index. */
            else
                ck_assert_msg(v[0] >= (float)first && v[0] <= (float)(first + span - 1) &&
                                  (span == 1 || (v[0] > (float)first + .2f &&
                                                 v[0] < (float)(first + span - 1) - .2f)),
                              "entry %d: %g of %d..%d", i, (double)v[0], first, first + span - 1);
            ck_assert(fabsf(v[1] - (float)(s / H)) <= 1e-5f &&
                      fabsf(v[2] - (float)(s % H)) <= 1e-5f);
        }
        first += span;
    }
    ck_assert_int_eq(first, fade_cases[_i].frames);
    for (int i = 12 * S; i < fade_cases[_i].frames * S; i++)
        ck_assert(!held[i]);
    done(&t);
}
END_TEST

/* The newest frame is not merged, even where recent frames are the most similar. */
START_TEST(the_newest_is_not_merged)
{
    struct kit t;

    roll(&t, "fade(fading=2)", 15);
    ck_assert(got_v[11 * S * W] == 14);
    ck_assert_msg(got_v[10 * S * W] < 13 && got_v[10 * S * W] > 10, "%g",
                  (double)got_v[10 * S * W]);
    done(&t);
}
END_TEST

/* After 360 frames, keys of entries 0 to 2 are rotated to frame positions 342 to 344, and keys of
 * the three newest entries to their own frames, 357 to 359. */
START_TEST(fademem_after_360_frames)
{
    struct kit t;

    roll(&t, "fade", 360);
    for (int i = 0; i < 12; i++) {
        ck_assert_msg(held[i * S], "entry %d", i);
        if (i < 3 || i > 8)
            is_turned_to(i, i > 8 ? 348 + i : 342 + i);
    }
    done(&t);
}
END_TEST

/* Rolling Sink with a window of 21 frames. When the chunk that begins at frame `begin` is stored,
 * the chunk before it is overwritten by copies of frames first, first + step and first + 2 step. */
static const struct {
    int begin, first, step;
} replay_cases[] = { { 21, 17, -1 }, { 24, 14, -1 }, { 36, 2, -1 }, { 39, 0, 1 }, { 57, 17, -1 } };

START_TEST(rolling_sink_copies_the_published_frames)
{
    const int begin = replay_cases[_i].begin, before = begin - F;
    struct kit t;

    roll(&t, "replay(frames=21)", begin + F);
    for (int f = 0; f < begin + F; f++)
        ck_assert_msg(held[f * S] == (f >= begin + F - 18), "frame %d", f);
    for (int i = 0; i < F; i++) {
        is_turned_to(begin + i, begin + i); /* the newest chunk */
        ck_assert(got_v[(begin + i) * S * W] == (float)(begin + i));
        for (int j = (before + i) * S * W; j < (before + i + 1) * S * W; j++) {
            const float want = keys[j];

            ck_assert_msg(fabsf(got_k[j] - want) <= .04f, "%g, not %g", (double)got_k[j],
                          (double)want); /* stored as BF16 */
        }
        ck_assert_msg(got_v[(before + i) * S * W] ==
                          (float)(replay_cases[_i].first + i * replay_cases[_i].step),
                      "%g", (double)got_v[(before + i) * S * W]);
    }
    done(&t);
}
END_TEST

/* Before the window is full, no frame is overwritten by a copy. */
START_TEST(replay_waits_for_the_window)
{
    struct kit t;

    roll(&t, "replay(frames=21)", 21);
    ck_assert_mem_eq(got_k + 3 * S * W, keys + 3 * S * W, 18 * S * W * sizeof(float));
    ck_assert_mem_eq(got_v + 3 * S * W, values + 3 * S * W, 18 * S * W * sizeof(float));
    /* The layer stores the window's 18 past frames in F32, and copies of the video's first 18
     * frames in BF16. */
    ck_assert_uint_eq(kvr_layer_nominal(&t.layer),
                      2 * 18 * S * W * (sizeof(float) + sizeof(kvr_bf16)));
    done(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fade");
    TCase *tc = tcase_create("fade");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, fademem_has_the_published_positions, 0, 3);
    tcase_add_test(tc, the_newest_is_not_merged);
    tcase_add_test(tc, fademem_after_360_frames);
    tcase_add_loop_test(tc, rolling_sink_copies_the_published_frames, 0, 5);
    tcase_add_test(tc, replay_waits_for_the_window);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
