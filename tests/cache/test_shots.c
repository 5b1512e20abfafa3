/* test_shots.c - the retention `multi_shot_sink` keeps the same frames as the frame buffer of
 * LongLive 2.0. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"
#include "harness/core/rng.h"
#include "tests/suite.h"

enum { S = 3, H = 2, D = 16, CHUNKS = 14, MAX_FRAMES = 8 * CHUNKS };

static const struct kind {
    int frames, sink, chunk;
    int cuts[4]; /* first chunks of new shots; 0 ends the list */
} kinds[] = {
    { 8, 2, 2, { 2, 5 } },      { 8, 2, 2, { 0 } },     { 8, 2, 2, { 1, 2, 3, 9 } },
    { 32, 8, 8, { 3, 4, 11 } }, { 12, 4, 2, { 2, 7 } }, { 12, 3, 3, { 1, 6, 7 } },
    { 12, 0, 3, { 4 } },
};

/* LongLive 2.0's buffer: indices of the stored frames, oldest first. When it is full, the oldest
 * frames behind a protected prefix are dropped and later frames move left. */
struct buffer {
    int frame[MAX_FRAMES];
    /* pinned_at: index of the pinned frames, or -1 if none are pinned */
    int n, pinned_at;
};

/* A chunk's first pass drops as many frames as needed to fit the chunk, and then appends it. */
static void enter(struct buffer *b, const struct kind *k, int frame0)
{
    const int pinned = k->sink < k->chunk ? k->sink : k->chunk;
    const int over = b->n + k->chunk - k->frames;

    if (over > 0) {
        const bool stands = b->pinned_at == k->sink;
        const int prefix = k->sink + (stands ? pinned : 0);

        memmove(b->frame + prefix, b->frame + prefix + over,
                (size_t)(b->n - prefix - over) * sizeof *b->frame);
        b->n -= over;
        if (b->pinned_at >= 0 && !stands)
            b->pinned_at -= over;
    }
    for (int i = 0; i < k->chunk; i++)
        b->frame[b->n++] = frame0 + i;
}

static bool is_cut(const struct kind *k, int chunk)
{
    for (int i = 0; i < 4; i++)
        if (k->cuts[i] && k->cuts[i] == chunk)
            return true;
    return false;
}

struct seen {
    bool frame[MAX_FRAMES];
    int n;
};

static enum kvr_status look(void *ctx, const struct kvr_cache_view *view)
{
    struct seen *s = ctx;

    *s = (struct seen){ 0 };
    for (int i = 0; i < view->past->n; i++)
        for (int64_t j = 0; j < view->past->seg[i].n_tok; j++) {
            const int64_t f = kvr_segment_token(&view->past->seg[i], j) / S;

            s->n += !s->frame[f];
            s->frame[f] = true;
        }
    return KVR_OK;
}

/* Every pass of every chunk sees the frames in the buffer, with any codec. The clean pass runs
 * twice, so that each chunk is stored twice. */
static void follow(const struct kind *k, const char *codec)
{
    char text[64];
    const struct kvr_setting set = { "retention", text };
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = k->chunk,
                                           .capacity_frames = CHUNKS * k->chunk,
                                           .exact = KVR_BF16 };
    const int n = k->chunk * S * H * D;
    float *x = calloc((size_t)n, sizeof *x);
    struct buffer b = { .pinned_at = -1 };
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_dev *dev;
    struct seen seen;

    snprintf(text, sizeof text, "multi_shot_sink(frames=%d,sink=%d)", k->frames, k->sink);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&scheme, codec, &set, 1) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED), KVR_OK);
    kvr_cache_observe(cache, look, &seen);
    kvr_normal(x, (size_t)n, 1, KVR_RNG_TEST, 0, 0, 0);
    for (int c = 0; c < CHUNKS; c++) {
        enter(&b, k, c * k->chunk);
        for (int p = 0; p < 3; p++) {
            const struct kvr_pass pass = { .chunk = c,
                                           .frame0 = c * k->chunk,
                                           .n_frames = k->chunk,
                                           .index = p,
                                           .clean = p > 0,
                                           .cut = is_cut(k, c) };

            ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
            ck_assert_int_eq(kvr_cache_append(cache, 0, x, x), KVR_OK);
            ck_assert_int_eq(kvr_cache_attend(cache, 0, x, x), KVR_OK);
            ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
            /* After a clean pass the chunk's own tokens are stored as well. */
            if (p == 2)
                continue;
            for (int i = 0; i < b.n - k->chunk; i++)
                ck_assert_msg(seen.frame[b.frame[i]], "%s: chunk %d pass %d: frame %d is gone",
                              text, c, p, b.frame[i]);
            ck_assert_msg(seen.n == b.n - k->chunk, "%s: chunk %d: %d frames, not %d", text, c,
                          seen.n, b.n - k->chunk);
        }
        if (is_cut(k, c) && k->sink)
            b.pinned_at = b.n - k->chunk;
    }
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
    free(x);
}

START_TEST(a_chunk_sees_what_the_buffer_has)
{
    follow(&kinds[_i], "BF16");
    follow(&kinds[_i], "NVFP4_4OVER6");
}
END_TEST

START_TEST(sinks_need_room)
{
    const struct kvr_setting set = { "retention", "multi_shot_sink(frames=16,sink=8)" };
    struct kvr_scheme *scheme;

    ck_assert_int_eq(kvr_scheme_open(&scheme, "BF16", &set, 1), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "two sinks of 8"));
}
END_TEST

/* Earlier prompt switches shift the RoPE times of a pass (kvr_pass.shift), so that they differ from
 * frame indices. A method that undoes RoPE by frame index refuses a shifted pass. */
START_TEST(shifted_positions_are_not_turned_back)
{
    static const char *const specs[] = { "BF16", "SINK_WINDOW_NEAR" };
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = 2,
                                           .capacity_frames = 4,
                                           .exact = KVR_BF16 };
    const struct kvr_pass pass = { .n_frames = 2, .shift = 8 };
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&scheme, specs[_i], NULL, 0) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED), KVR_OK);
    ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), _i ? KVR_EUNSUPPORTED : KVR_OK);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("shots");
    TCase *tc = tcase_create("shots");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, a_chunk_sees_what_the_buffer_has, 0, sizeof kinds / sizeof *kinds);
    tcase_add_test(tc, sinks_need_room);
    tcase_add_loop_test(tc, shifted_positions_are_not_turned_back, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
