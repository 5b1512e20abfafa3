/* test_heads.c - classification of attention heads whose attention pattern is known by construction
 * of the keys. */
#include <check.h>
#include <stdlib.h>

#include "harness/workload/heads.h"
#include "tests/suite.h"

enum { S = 4, F = 3, H = 3, D = 4, CHUNKS = 4, T = S * F, W = H * D };

static struct kvr_heads *heads;

/* Runs the passes of a rollout with constructed tensors. Every query is (8, 0, 0, 0), and the keys
 * of head h in frame f are (x[h][f], 0, 0, 0), so a key's attention score is 4 x[h][f]. */
static void see(float x[H][CHUNKS * F])
{
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = F,
                                           .capacity_frames = F * CHUNKS,
                                           .exact = KVR_F32 };
    float q[T * W] = { 0 }, k[T * W], out[T * W];
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "F32", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED), KVR_OK);
    ck_assert_int_eq(kvr_heads_open(&heads, 1, H, 0, F * CHUNKS), KVR_OK);
    kvr_cache_observe(cache, kvr_heads_observe, heads);
    for (int c = 0; c < CHUNKS; c++) {
        const struct kvr_pass pass = { .chunk = c, .frame0 = c * F, .n_frames = F, .clean = true };

        for (int i = 0; i < T * W; i++) {
            q[i] = i % D ? 0 : 8;
            k[i] = i % D ? 0 : x[i / D % H][c * F + i / W / S];
        }
        ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
        ck_assert_int_eq(kvr_cache_append(cache, 0, k, k), KVR_OK);
        ck_assert_int_eq(kvr_cache_attend(cache, 0, q, out), KVR_OK);
        ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
    }
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}

static void class_is(enum kvr_head_rule rule, const char *want)
{
    const struct kvr_head_rule_opts o = { rule, 0.8, 1.0 / 3, 0.25 };
    char class[H + 1] = "";
    double measure[H];

    ck_assert_int_eq(kvr_heads_classify(heads, &o, class, measure), KVR_OK);
    ck_assert_str_eq(class, want);
}

/* Head 0 attends to near frames, head 1 equally to all frames, head 2 mainly to the first frame. */
START_TEST(where_they_look)
{
    float x[H][CHUNKS * F] = { { 0 } };

    for (int f = 0; f < CHUNKS * F; f++) {
        x[0][f] = (float)(2 * f); /* weights grow by exp(8) per frame */
        x[2][f] = f == 0 ? 4 : 0;
    }
    see(x);
    /* The rule of Forcing-KV ignores the first frame, so head 2 is like head 1: it attends equally
     * to all other frames. The near frames are four of five in chunk 1, but four of 11 in chunk
     * 3. */
    class_is(KVR_HEADS_FORCING, "sdd");
    class_is(KVR_HEADS_DUMMY, "xnf");
    kvr_heads_close(&heads);
}
END_TEST

START_TEST(how_they_vary)
{
    float x[H][CHUNKS * F];

    for (int f = 0; f < CHUNKS * F; f++) {
        x[0][f] = f % 2 ? 1 : -1;
        x[1][f] = 1 + (float)f / 100;
        x[2][f] = -1 - (float)f / 100;
    }
    see(x);
    /* The scores of head 0 alternate by frame. They also alternate with the distance d after
     * averaging over a chunk's three query frames t: frame t - d is odd for one of three t at one
     * d, and for two at the next. */
    class_is(KVR_HEADS_PYRAMID, "wav");
    kvr_heads_close(&heads);
}
END_TEST

START_TEST(nothing_seen)
{
    const struct kvr_head_rule_opts o = { KVR_HEADS_FORCING, 0.8, 0.5, 0.25 };
    char class[H];
    double measure[H];

    ck_assert_int_eq(kvr_heads_open(&heads, 1, H, 0, 4), KVR_OK);
    ck_assert_int_eq(kvr_heads_classify(heads, &o, class, measure), KVR_EINVAL);
    kvr_heads_close(&heads);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heads");
    TCase *tc = tcase_create("heads");

    suite_add_tcase(s, tc);
    tcase_add_test(tc, where_they_look);
    tcase_add_test(tc, how_they_vary);
    tcase_add_test(tc, nothing_seen);
    return run_suite(s);
}
