/* test_drop.c - kvr_cache_drop() empties the cache in the middle of a video. Chunks inside the
 * window are then stored again, and the video continues with every method. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/core/rng.h"
#include "tests/cache/read_tokens.h"
#include "tests/some_methods.h"
#include "tests/suite.h"

enum {
    S = 36,
    FRAMES = 3,
    H = 3,
    D = 64,
    CHUNKS = 9,
    T = S * FRAMES,
    N = T * H * D,
    WINDOW = 12,
    SINK = 3
};

static float k[CHUNKS][N], v[CHUNKS][N], q[CHUNKS][N], out[N];
static struct kvr_dev *dev;

static void open_all(void)
{
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    for (int c = 0; c < CHUNKS; c++) {
        kvr_normal(k[c], N, 6, KVR_RNG_TEST, (uint32_t)c, 0, 0);
        kvr_normal(v[c], N, 6, KVR_RNG_TEST, (uint32_t)c, 1, 0);
        kvr_normal(q[c], N, 6, KVR_RNG_TEST, (uint32_t)c, 2, 0);
    }
}

static void close_all(void)
{
    kvr_dev_close(&dev);
}

static enum kvr_status pass(struct kvr_cache *c, int chunk)
{
    const struct kvr_pass p = {
        .chunk = chunk, .frame0 = chunk * FRAMES, .n_frames = FRAMES, .clean = true
    };

    KVR_TRY(kvr_cache_begin_pass(c, &p));
    KVR_TRY(kvr_cache_append(c, 0, k[chunk], v[chunk]));
    KVR_TRY(kvr_cache_attend(c, 0, q[chunk], out));
    return kvr_cache_end_pass(c);
}

static struct kvr_cache *open_cache(struct kvr_scheme *scheme, enum kvr_status *st)
{
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = FRAMES,
                                           .capacity_frames = CHUNKS * FRAMES,
                                           .window_frames = WINDOW,
                                           .sink_frames = SINK,
                                           .evict = true,
                                           .exact = KVR_BF16 };
    struct kvr_cache *c = NULL;

    *st = kvr_cache_open(&c, dev, scheme, &shape, KVR_PATH_STAGED);
    return c;
}

/* Drops the cache before chunk 7, as a rollout with a recache at a shot cut does. With a window
 * of 12 frames and a sink of 3, chunks 0, 5 and 6 are stored again. */
START_TEST(every_method_goes_on_from_what_is_stored_again)
{
    const struct kvr_method *m = kvr_method_at(_i);
    float table[CHUNKS * T];
    struct kvr_scheme *scheme;
    struct kvr_cache *c;
    enum kvr_status st;

    if (!brings_a_part(_i))
        return;
    for (int i = 0; i < CHUNKS * T; i++)
        table[i] = (float)(i % 17);
    ck_assert_msg(kvr_scheme_open(&scheme, m->name, NULL, 0) == KVR_OK, "%s", kvr_error());
    c = open_cache(scheme, &st);
    if (st == KVR_OK) {
        kvr_cache_set_salience(c, table);
        for (int i = 0; i < 7 && st == KVR_OK; i++)
            st = pass(c, i);
        if (st == KVR_OK)
            st = kvr_cache_drop(c, 0);
        for (int i = 0; i < 7 && st == KVR_OK; i++)
            if (kvr_cache_in_window(c, i * FRAMES, FRAMES, 7 * FRAMES))
                st = pass(c, i);
        for (int i = 7; i < CHUNKS && st == KVR_OK; i++) {
            st = pass(c, i);
            for (int j = 0; j < N && st == KVR_OK; j++)
                ck_assert_msg(isfinite(out[j]), "%s: chunk %d: %g", m->name, i, (double)out[j]);
        }
    }
    ck_assert_msg(st == KVR_OK || st == KVR_EUNSUPPORTED, "%s: %s", m->name, kvr_error());
    kvr_cache_close(&c);
    kvr_scheme_close(&scheme);
}
END_TEST

/* After a drop and a refill, a BF16 cache returns the frames of the window with the same bits as
 * before. */
START_TEST(what_is_seen_is_what_was_seen)
{
    static float before[N];
    struct kvr_scheme *scheme;
    struct kvr_cache *c;
    enum kvr_status st;
    int n = 0;

    ck_assert_int_eq(kvr_scheme_open(&scheme, "BF16", NULL, 0), KVR_OK);
    c = open_cache(scheme, &st);
    ck_assert_int_eq(st, KVR_OK);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pass(c, i), KVR_OK);
    memcpy(before, out, sizeof before);
    ck_assert_int_eq(kvr_cache_drop(c, 0), KVR_OK);
    for (int i = 0; i < 7; i++)
        if (kvr_cache_in_window(c, i * FRAMES, FRAMES, 7 * FRAMES)) {
            ck_assert_int_eq(pass(c, i), KVR_OK);
            n++;
        }
    ck_assert_int_eq(n, 3);
    ck_assert_int_eq(pass(c, 7), KVR_OK);
    ck_assert_mem_eq(before, out, sizeof before);
    ck_assert_int_eq(kvr_cache_drop(c, SINK), KVR_OK);
    ck_assert_int_eq(read_tokens(c, 0, NULL, NULL), SINK * S);
    kvr_cache_close(&c);
    kvr_scheme_close(&scheme);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("drop");
    TCase *tc = tcase_create("drop");
    int n = 0;

    while (kvr_method_at(n))
        n++;
    tcase_set_timeout(tc, 0);
    tcase_add_unchecked_fixture(tc, open_all, close_all);
    tcase_add_loop_test(tc, every_method_goes_on_from_what_is_stored_again, 0, n);
    tcase_add_test(tc, what_is_seen_is_what_was_seen);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
