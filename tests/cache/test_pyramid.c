/* test_pyramid.c - Pyramid Forcing: the frames that each class of heads keeps, and the means of
 * pooled blocks. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cache/layer.h"
#include "harness/core/rng.h"
#include "tests/suite.h"

enum { S = 6, ROW = 3, F = 3, H = 3, D = 4, CHUNK = S * F, W = H * D, CHUNKS = 12 };
enum { FRAMES = CHUNKS * F, TOKENS = FRAMES * S };

struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_layer_scratch scratch;
    struct kvr_layer layer;
    char path[64];
};

static float keys[TOKENS * W], values[TOKENS * W];

static void open_kit(struct kit *t, const struct kvr_layer_geometry *geo, const char *map,
                     const struct kvr_setting *more, int n_more, bool dry)
{
    struct kvr_setting set[8] = { { "map", "labels" } };
    FILE *f;

    memset(t, 0, sizeof *t);
    if (map) {
        snprintf(t->path, sizeof t->path, "/tmp/kvreel-pyramid-%d", (int)getpid());
        f = fopen(t->path, "w");
        ck_assert_ptr_nonnull(f);
        fprintf(f, "%s\n", map);
        fclose(f);
        set[0].value = t->path;
    }
    for (int i = 0; i < n_more; i++)
        set[1 + i] = more[i];
    ck_assert_int_eq(kvr_dev_open(&t->dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&t->scheme, "PYRAMID_FORCING", set, 1 + n_more) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(kvr_layer_open(&t->layer, t->dev, t->scheme, geo, &t->scratch, dry), KVR_OK);
}

static void close_kit(struct kit *t)
{
    kvr_layer_close(&t->layer);
    kvr_layer_scratch_free(&t->scratch);
    kvr_scheme_close(&t->scheme);
    kvr_dev_close(&t->dev);
    if (t->path[0])
        unlink(t->path);
}

static const struct kvr_layer_geometry small = { .n_layers = 1,
                                                 .n_heads = H,
                                                 .head_dim = D,
                                                 .tokens_per_frame = S,
                                                 .frames_per_chunk = F,
                                                 .capacity = TOKENS };

static void store(struct kit *t, int chunk)
{
    ck_assert_msg(kvr_layer_commit(&t->layer, keys + chunk * CHUNK * W, values + chunk * CHUNK * W,
                                   (int64_t)chunk * CHUNK, CHUNK) == KVR_OK,
                  "%s", kvr_error());
}

static int64_t tokens_of(const struct kvr_layer *l, int h, int64_t begin, int64_t end)
{
    int64_t n = 0;

    for (int i = 0; i < l->n; i++)
        for (int64_t j = 0; j < l->seg[i].n_tok && kvr_segment_has_head(&l->seg[i], h); j++) {
            const int64_t t = kvr_segment_token(&l->seg[i], j);

            n += t >= begin && t < end;
        }
    return n;
}

/* 42 frames are stored, with 60 positions each instead of Wan's 1560. Of 360 heads, 156 keep 26
 * frames, 172 keep 8 and 32 keep 5. The authors' counts, 29, 11 and 8, include the current chunk's
 * 3 frames. */
START_TEST(published)
{
    enum { WAN = 60, WAN_FRAMES = 42 };
    const struct kvr_setting row = { "row", "6" };
    int n[3] = { 0 };

    for (int layer = 0; layer < 30; layer++) {
        const struct kvr_layer_geometry geo = { .layer = layer,
                                                .n_layers = 30,
                                                .n_heads = 12,
                                                .head_dim = 128,
                                                .tokens_per_frame = WAN,
                                                .frames_per_chunk = 3,
                                                .capacity = (int64_t)WAN * WAN_FRAMES };
        struct kit t;

        open_kit(&t, &geo, NULL, &row, 1, true);
        for (int f = 0; f < WAN_FRAMES; f += 3)
            ck_assert_int_eq(
                kvr_layer_commit(&t.layer, NULL, NULL, (int64_t)f * WAN, (int64_t)3 * WAN), KVR_OK);
        for (int h = 0; h < 12; h++) {
            const int64_t held = tokens_of(&t.layer, h, 0, geo.capacity);

            n[0] += held == 26 * WAN;
            n[1] += held == 8 * WAN;
            n[2] += held == 5 * WAN;
        }
        close_kit(&t);
    }
    ck_assert_int_eq(n[0], 156);
    ck_assert_int_eq(n[1], 172);
    ck_assert_int_eq(n[2], 32);
}
END_TEST

/* Checks after every chunk which frames an oscillating, an anchor and a veil head keep. */
START_TEST(frames_kept_by_class)
{
    const struct kvr_setting row = { "row", "3" };
    struct kit t;

    kvr_normal(keys, TOKENS * W, 5, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(values, TOKENS * W, 5, KVR_RNG_TEST, 2, 0, 0);
    open_kit(&t, &small, "wav", &row, 1, false);
    for (int c = 0; c < CHUNKS; c++) {
        /* Besides the sink, only the newest frame is always kept, the one at index `end`. */
        const int n = (c + 1) * F, end = n - 1;

        store(&t, c);
        for (int f = 0; f < n; f++) {
            int newer = 0, newer_block = (end / 4 - 1) - f / 4;

            for (int g = f + 6; g < end; g += 6)
                newer++;
            ck_assert_int_eq(tokens_of(&t.layer, 0, f * S, (f + 1) * S),
                             f < 1 || f >= end || newer < 4 ? S : 0);
            ck_assert_int_eq(tokens_of(&t.layer, 1, f * S, (f + 1) * S),
                             f < 3 || f >= end || (f % 6 == 0 && newer < 4) ? S : 0);
            /* A frame has 2 rows of 3 positions. Pooling 2 x 2 positions gives two tokens, stored
             * as tokens 0 and 2 of the block's first frame. */
            ck_assert_int_eq(tokens_of(&t.layer, 2, f * S, (f + 1) * S),
                             f < 3 || f >= end                                             ? S
                             : f >= 4 && f % 4 == 0 && newer_block >= 0 && newer_block < 4 ? 2
                                                                                           : 0);
        }
    }
    close_kit(&t);
}
END_TEST

/* A pooled token is the mean of 2 x 2 positions over a block's four frames, also if the chunk that
 * completes the block is stored twice. The mean of equal keys is exactly that key. */
START_TEST(blocks_are_means)
{
    const struct kvr_setting row = { "row", "3" };
    float k[TOKENS * W], v[TOKENS * W];
    struct kit t;

    kvr_normal(keys, TOKENS * W, 5, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(values, TOKENS * W, 5, KVR_RNG_TEST, 2, 0, 0);
    for (int i = 8 * S * W; i < 12 * S * W; i++)
        keys[i] = 0.5f;
    open_kit(&t, &small, "vvv", &row, 1, false);
    for (int c = 0; c < 5; c++) {
        store(&t, c);
        /* chunk 4 completes the third block */
        if (c == 1 || c == 4)
            store(&t, c);
    }
    kvr_layer_dense(&t.layer, 0, 5 * CHUNK, k, v, NULL);
    for (int b = 1; b <= 2; b++)
        for (int square = 0; square < 2; square++)
            for (int c = 0; c < W; c++) {
                const int across = square ? 1 : 2, at = (b * 4 * S + square * 2) * W + c;
                double mean_k = 0, mean_v = 0;

                for (int f = b * 4; f < b * 4 + 4; f++)
                    for (int y = 0; y < 2; y++)
                        for (int x = 0; x < across; x++) {
                            const int from = (f * S + y * ROW + square * 2 + x) * W + c;

                            mean_k += keys[from] / (8.0 * across);
                            mean_v += values[from] / (8.0 * across);
                        }
                /* Means are stored in BF16, with 8 significant bits. */
                ck_assert(fabs(k[at] - mean_k) <= fabs(mean_k) / 256 + 1e-6);
                ck_assert(fabs(v[at] - mean_v) <= fabs(mean_v) / 256 + 1e-6);
                if (b == 2)
                    ck_assert(k[at] == 0.5f);
            }
    close_kit(&t);
}
END_TEST

/* With period=1 and each=4096, an anchor head keeps all frames. */
START_TEST(an_anchor_head_can_keep_all_frames)
{
    const struct kvr_setting set[] = { { "period", "1" }, { "each", "4096" } };
    struct kit t;

    open_kit(&t, &small, "aaa", set, 2, false);
    for (int c = 0; c < CHUNKS; c++)
        store(&t, c);
    for (int h = 0; h < H; h++)
        ck_assert_int_eq(tokens_of(&t.layer, h, 0, TOKENS), TOKENS);
    close_kit(&t);
}
END_TEST

START_TEST(an_invalid_map_is_refused)
{
    struct kit t;

    open_kit(&t, &small, "was", NULL, 0, false);
    ck_assert_int_eq(kvr_layer_commit(&t.layer, keys, values, 0, CHUNK), KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), "need 3 letters out of 'wav'") != NULL, "%s", kvr_error());
    close_kit(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pyramid");
    TCase *tc = tcase_create("pyramid");

    suite_add_tcase(s, tc);
    tcase_add_test(tc, published);
    tcase_add_test(tc, frames_kept_by_class);
    tcase_add_test(tc, blocks_are_means);
    tcase_add_test(tc, an_anchor_head_can_keep_all_frames);
    tcase_add_test(tc, an_invalid_map_is_refused);
    return run_suite(s);
}
