/* test_policy.c - policies are opened by name, and tiers by position: recent, age, spatial. */
#include "harness/core/rng.h"
#include "methods/kernels/share.h"
#include "methods/kernels/topk.h"
#include "methods/policy.h"
#include "tests/suite.h"
#include "tests/threads.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct kvr_dev *dev;

static void open_dev(void)
{
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
}

/* Asserts that every buffer was freed. */
static void close_dev(void)
{
    kvr_dev_close(&dev);
}

enum { GUARD = 0xa5, MAP_MAX = 4096 };

/* Returns the tier map that the policy `text` assigns, and asserts that the guard bytes after the
 * map are unchanged. */
static uint8_t *assign(const char *text, const struct kvr_policy_ctx *ctx)
{
    static uint8_t map[MAP_MAX];
    struct kvr_policy_state state = { 0 };
    struct kvr_tiers_use use;

    ck_assert(ctx->n_tok < MAP_MAX);
    memset(map, GUARD, sizeof map);
    ck_assert_msg(kvr_tiers_open(&use, text) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(use.part->assign(use.opts, ctx, dev, &state, map), KVR_OK);
    for (int64_t t = ctx->n_tok; t < MAP_MAX; t++)
        /* an `if` instead of an assertion per byte, because the Check library counts and stores
         * every assertion */
        if (map[t] != GUARD)
            ck_abort_msg("%s: wrote behind the map, at %d", text, (int)t);
    kvr_buf_free(&state.buf);
    kvr_tiers_close(&use);
    return map;
}

/* Compares the map with text: '0', '1', ... for a tier, 'z' for zero, '.' for not written. */
static void expect(const uint8_t *map, const char *want)
{
    for (int64_t t = 0; want[t]; t++) {
        const int w = want[t] == 'z' ? KVR_TOKEN_ZERO : want[t] == '.' ? GUARD : want[t] - '0';

        ck_assert_msg(map[t] == w, "token %d: %d, expected '%c' of %s", (int)t, map[t], want[t],
                      want);
    }
}

/* A context with frames of 2 tokens and chunks of 3 frames. */
static struct kvr_policy_ctx small(bool study, int64_t n_tok, int64_t n_active)
{
    return (struct kvr_policy_ctx){ .study = study,
                                    .n_layers = 1,
                                    .tokens_per_frame = 2,
                                    .frames_per_chunk = 3,
                                    .n_heads = 1,
                                    .head_dim = 2,
                                    .beta = 1,
                                    .n_tok = study ? n_tok : n_active,
                                    .n_active = n_active };
}

START_TEST(recent_takes_the_tail)
{
    struct kvr_policy_ctx c = small(true, 24, 18);

    expect(assign("recent(chunks=2)", &c), "000000111111111111zzzzzz");
    expect(assign("recent(chunks=1)", &c), "000000000000111111zzzzzz");
    expect(assign("recent(chunks=9)", &c), "111111111111111111zzzzzz");
    c.n_active = 15; /* in the study's version the window slides by tokens */
    expect(assign("recent(chunks=1)", &c), "000000000111111zzzzzzzzz");
    c.n_active = 0;
    expect(assign("recent", &c), "zzzzzzzzzzzzzzzzzzzzzzzz");
    c = small(false, 24, 15); /* in the intended version the window moves by chunks */
    expect(assign("recent(chunks=1)", &c), "000000000000111");
    expect(assign("recent(chunks=2)", &c), "000000111111111");
    expect(assign("recent(chunks=4)", &c), "111111111111111");
    c = small(false, 24, 24);
    expect(assign("recent", &c), "000000000000111111111111");
}
END_TEST

START_TEST(span_waits_for_whole_ones)
{
    struct kvr_policy_ctx c = small(false, 0, 12);

    /* A span of two chunks is encoded after both are complete and older than the newest chunk. Here
     * only one of the two chunks is older. */
    expect(assign("span(chunks=2)", &c), "111111111111");
    c = small(false, 0, 18);
    expect(assign("span(chunks=2)", &c), "000000000000111111");
    expect(assign("span(chunks=2,recent=2)", &c), "111111111111111111");
    c = small(false, 0, 20); /* the partial chunk is the newest chunk */
    expect(assign("span(chunks=2)", &c), "00000000000011111111");
    expect(assign("span(chunks=1,recent=3)", &c), "00000011111111111111");
    expect(assign("span(chunks=2,sink_keep=1)", &c), "11111100000011111111");
    expect(assign("span(chunks=2,sink_keep=2)", &c), "11111111111111111111");
    expect(assign("span(chunks=1,recent=2,sink_keep=1)", &c), "11111100000011111111");
    c = small(false, 0, 0);
    expect(assign("span", &c), "");
    c = small(true, 20, 18);
    expect(assign("span(chunks=2)", &c), "000000000000111111zz");
}
END_TEST

START_TEST(age_takes_a_share)
{
    struct kvr_policy_ctx c = small(true, 24, 6);

    /* 30 % of the capacity of 24 tokens is 7.2, rounded half to even to 7. None of these 7 tokens
     * is written yet. */
    expect(assign("age(ratio=0.3)", &c), "000000000000000001111111");
    expect(assign("age(ratio=0)", &c), "000000000000000000000001");
    expect(assign("age(ratio=1)", &c), "111111111111111111111111");
    c.n_tok = 5; /* 50 % of 5 tokens is 2.5, rounded to 2 */
    c.n_active = 5;
    expect(assign("age(ratio=0.5)", &c), "00011");
    c = small(false, 24, 24); /* 30 % of 4 chunks is 1.2, rounded to 1 */
    expect(assign("age(ratio=0.3)", &c), "000000000000000000111111");
    /* 40 % of 4 chunks is 1.6, rounded to 2. */
    expect(assign("age(ratio=0.4)", &c), "000000000000111111111111");
    c = small(false, 24, 6);
    expect(assign("age(ratio=0.3)", &c), "111111");
    c = small(false, 24, 0);
    expect(assign("age(ratio=0.3)", &c), "");
}
END_TEST

/* Sets the value v at (frame, position). Frames have S = 4 positions and one head with two
 * channels. */
static void set_v(float *v, int64_t frame, int64_t position, float x)
{
    v[(frame * 4 + position) * 2] = x;
    v[(frame * 4 + position) * 2 + 1] = -x;
}

START_TEST(spatial_ranks_variance_over_frames)
{
    float v[32] = { 0 };
    struct kvr_policy_ctx c = small(true, 12, 8);

    /* Variances over two written frames of a capacity of three. Position 0 stays at 4, position
     * 1 changes from 0 to 1, position 2 from 2 to 2.5, and position 3 is 0. */
    c.tokens_per_frame = 4;
    c.v = v;
    for (int f = 0; f < 2; f++) {
        set_v(v, f, 0, 4);
        set_v(v, f, 1, (float)f);
        set_v(v, f, 2, 2 + 0.5f * (float)f);
    }
    /* The study computes variances over 3 frames, including the empty one. At position 0 the values
     * 4, 4, 0 have variance 3.56. At position 1 it is 0.22 (values 0, 1, 0), at position 2 it is
     * 1.17 (values 2, 2.5, 0), and at position 3 it is 0. */
    expect(assign("spatial(mode=topk,min=0.25,target=0.25)", &c), "100010001000");
    expect(assign("spatial(mode=topk,min=0.25,target=0.5)", &c), "101010101010");
    expect(assign("spatial(mode=threshold,min=0.25,max=1,var=0.2)", &c), "111011101110");
    expect(assign("spatial(mode=threshold,min=0.25,max=0.5,var=0.2)", &c), "101010101010");
    expect(assign("spatial(mode=threshold,min=0.5,max=1,var=2)", &c), "101010101010");
    expect(assign("spatial(mode=hybrid,min=0.25,max=0.75,target=0.25,var=0.2)", &c),
           "111011101110");
    expect(assign("spatial(mode=hybrid,min=0.25,max=0.5,target=0.25,var=0.2)", &c),
           /* three positions pass the threshold, but max allows two, so `target` decides */
           "100010001000");
    c.n_tok = 14; /* tokens after the last whole frame are foreground */
    expect(assign("spatial(mode=topk,min=0.25,target=0.25)", &c), "10001000100011");
    c.n_tok = 7; /* fewer than two frames */
    expect(assign("spatial", &c), "1111111");

    /* The intended version computes variances over the chunk's two written frames and assigns tiers
     * to the chunk's tokens only. Variances of positions 0 to 3 are 0, 0.25, 0.0625 and 0. */
    c = small(false, 0, 16);
    c.tokens_per_frame = 4;
    c.new0 = 8;
    c.v = v;
    expect(assign("spatial(mode=topk,min=0.25,target=0.25)", &c), "........01000100");
    expect(assign("spatial(mode=threshold,min=0.25,max=1,var=0.0624)", &c), "........01100110");
    expect(assign("spatial(mode=threshold,min=0.25,max=1,var=0.0625)", &c), "........01000100");
    c.n_active = c.n_tok = 12; /* a chunk of one frame */
    expect(assign("spatial", &c), "........1111");
}
END_TEST

START_TEST(spatial_counts_without_values)
{
    struct kvr_policy_ctx c = small(true, 8, 8);

    c.tokens_per_frame = 4; /* 0.65 * 4 = 2.6 rounds to 3 */
    expect(assign("spatial", &c), "11101110");
    expect(assign("spatial(mode=threshold)", &c), "11101110");
    c.study = false;
    expect(assign("spatial", &c), "11101110");
    c.frames_per_chunk = 1; /* one frame has no variance: all foreground */
    expect(assign("spatial", &c), "11111111");
}
END_TEST

/* Compares with the two-pass formula of the variance. */
START_TEST(spatial_is_the_formula)
{
    enum { S = 37, F = 7, C = 26 };
    static float v[F * S * C];
    uint8_t want[S];
    double var[S];
    struct kvr_policy_ctx c = small(true, F * S, F * S);

    c.tokens_per_frame = S;
    c.n_heads = 2;
    c.head_dim = C / 2;
    c.v = v;
    kvr_normal(v, F * S * C, 5, KVR_RNG_TEST, 0, 0, 0);
    for (int s = 0; s < S; s++) {
        double a[F], mean = 0;

        var[s] = 0;
        for (int f = 0; f < F; f++) {
            a[f] = 0;
            for (int i = 0; i < C; i++)
                a[f] += fabs((double)v[(f * S + s) * C + i]) / C;
            mean += a[f] / F;
        }
        for (int f = 0; f < F; f++)
            var[s] += (a[f] - mean) * (a[f] - mean) / F;
    }
    memset(want, 0, sizeof want);
    /* 0.65 * 37 = 24.05 rounds to 24. */
    for (int k = 0; k < 24; k++) {
        int best = -1;

        for (int s = 0; s < S; s++)
            if (!want[s] && (best < 0 || var[s] > var[best]))
                best = s;
        want[best] = 1;
    }
    for (int threads = 1; threads <= 4; threads += 3) {
        set_threads(threads);
        const uint8_t *map = assign("spatial(mode=topk)", &c);

        for (int t = 0; t < F * S; t++)
            ck_assert_int_eq(map[t], want[t % S]);
    }
}
END_TEST

START_TEST(not_a_number_stays_inside)
{
    static const char *const texts[] = { "spatial(mode=topk)",
                                         "spatial(mode=threshold)",
                                         "spatial",
                                         "saliency(important=0.3)",
                                         "recent",
                                         "age" };
    float x[80];
    struct kvr_policy_ctx c = small(_i % 2, 40, 30);

    for (int i = 0; i < 80; i++)
        x[i] = i % 3 ? NAN : INFINITY;
    c.k = c.v = x;
    const uint8_t *map = assign(texts[_i / 2], &c);
    for (int64_t t = 0; t < c.n_tok; t++)
        ck_assert(map[t] < 3 || map[t] == KVR_TOKEN_ZERO);
}
END_TEST

START_TEST(spatial_without_memory)
{
    struct kvr_policy_ctx c = small(true, 8, 8);
    struct kvr_tiers_use use;
    uint8_t map[8];

    ck_assert_int_eq(kvr_tiers_open(&use, "spatial"), KVR_OK);
    kvr_mem_fail_after(dev, 1);
    ck_assert_int_eq(use.part->assign(use.opts, &c, dev, NULL, map), KVR_ENOMEM);
    kvr_tiers_close(&use);
}
END_TEST

START_TEST(parts_open_by_name)
{
    struct kvr_tiers_use t;
    struct kvr_retention_use r;

    ck_assert_int_eq(kvr_tiers_open(&t, ""), KVR_OK);
    ck_assert(!t.part && !t.opts);
    kvr_tiers_close(&t);
    ck_assert_int_eq(kvr_tiers_open(&t, NULL), KVR_OK);
    ck_assert(!t.part);
    for (int i = 0; kvr_tiers_parts[i]; i++) {
        const struct kvr_tiers *p = kvr_tiers_parts[i];

        ck_assert_int_eq(kvr_tiers_open(&t, p->name), KVR_OK);
        ck_assert_ptr_eq(t.part, p);
        ck_assert(p->n_tiers >= 2 && p->n_tiers <= KVR_MAX_TIERS);
        for (int k = 0; k < p->n_tiers; k++)
            ck_assert_ptr_nonnull(p->tier_names[k]);
        kvr_tiers_close(&t);
        ck_assert(!t.part && !t.opts);
    }
    ck_assert_int_eq(kvr_tiers_open(&t, " saliency ( important = 0.2 , refresh=on_growth) "),
                     KVR_OK);
    ck_assert_str_eq(t.part->name, "saliency");
    kvr_tiers_close(&t);
    ck_assert_int_eq(kvr_retention_open(&r, "saliency(retained=0.3,fill=pooled)"), KVR_OK);
    ck_assert_str_eq(r.part->name, "saliency");
    kvr_retention_close(&r);
    ck_assert_int_eq(kvr_retention_open(&r, ""), KVR_OK);
    ck_assert(!r.part);
}
END_TEST

static const struct {
    bool retention;
    const char *text;
    enum kvr_status st;
    const char *message;
} refused[] = {
    { false, "salency", KVR_ENOTFOUND, "tiers: unknown name 'salency'; did you mean 'saliency'?" },
    { true, "salency", KVR_ENOTFOUND,
      "retention: unknown name 'salency'; did you mean 'saliency'?" },
    { false, "wombat", KVR_ENOTFOUND, "unknown name 'wombat'" },
    { true, "recent", KVR_ENOTFOUND, "retention: unknown name 'recent'" },
    { false, "recent(chunks=2", KVR_EINVAL, "'(' needs a ')'" },
    { false, "recent(chunks=2)x", KVR_EINVAL, "'(' needs a ')'" },
    { false, "(chunks=2)", KVR_EINVAL, "a name is missing" },
    { false, "recent(chunk=2)", KVR_EINVAL, "did you mean 'chunks'" },
    { false, "recent(chunks=0)", KVR_EINVAL, "1..4096" },
    { false, "recent(chunks=4097)", KVR_EINVAL, "1..4096" },
    { false, "age(ratio=1.01)", KVR_EINVAL, "0..1" },
    { false, "age(ratio=-0.01)", KVR_EINVAL, "0..1" },
    { false, "saliency(recent=2)", KVR_EINVAL, "0..1" },
    { false, "saliency(important=nan)", KVR_EINVAL, "not a number" },
    { false, "saliency(delta_weight=-1)", KVR_EINVAL, "0..1e+06" },
    { false, "saliency(refresh=sometimes)", KVR_EINVAL, "every_call, on_growth" },
    { false, "spatial(min=0.9,max=0.8)", KVR_EINVAL, "min 0.9 is greater than max 0.8" },
    { false, "spatial(mode=top)", KVR_EINVAL, "did you mean 'topk'" },
    { true, "saliency(retained=1.5)", KVR_EINVAL, "0..1" },
    { true, "saliency(fill=drops)", KVR_EINVAL, "did you mean 'drop'" },
};

START_TEST(refusals_name_the_part)
{
    struct kvr_tiers_use t = { 0 };
    struct kvr_retention_use r = { 0 };
    enum kvr_status st = refused[_i].retention ? kvr_retention_open(&r, refused[_i].text)
                                               : kvr_tiers_open(&t, refused[_i].text);

    ck_assert_msg(st == refused[_i].st, "%s: %s", refused[_i].text, kvr_status_name(st));
    ck_assert_msg(strstr(kvr_error(), refused[_i].message), "%s: '%s' lacks '%s'", refused[_i].text,
                  kvr_error(), refused[_i].message);
    ck_assert(!t.part && !t.opts && !r.part && !r.opts);
}
END_TEST

START_TEST(long_text_is_refused)
{
    struct kvr_tiers_use t;
    char text[2000];

    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 0;
    ck_assert_int_eq(kvr_tiers_open(&t, text), KVR_EINVAL);
}
END_TEST

START_TEST(shares_round_half_to_even)
{
    ck_assert_int_eq(kvr_share(2.5, 1, 9), 2);
    ck_assert_int_eq(kvr_share(3.5, 1, 9), 4);
    ck_assert_int_eq(kvr_share(0.2, 1, 9), 1);
    ck_assert_int_eq(kvr_share(9.6, 1, 9), 9);
    /* If there are no tokens, the result is 0 although the lower limit is 1. */
    ck_assert_int_eq(kvr_share(0.2, 1, 0), 0);
    ck_assert_int_eq(kvr_share(NAN, 1, 9), 1);
    ck_assert_int_eq(kvr_share(INFINITY, 1, 9), 9);
}
END_TEST

START_TEST(topk_has_a_total_order)
{
    struct kvr_ranked r[] = { { 1, 5 }, { NAN, 4 }, { 2, 3 }, { 1, 2 }, { NAN, 1 }, { -1, 0 } };
    static const int32_t want[] = { 1, 4, 3, 2, 5, 0 };

    kvr_topk(r, 6);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(r[i].index, want[i]);
}
END_TEST

/* Returns score i of n. `which` selects the sequence: ties and non-finite values, ascending,
 * descending, pseudorandom, or ascending and then descending. */
static float some_score(int which, int i, int n)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1, -1, 1e-40f };

    switch (which % 5) {
    case 0:
        return odd[i * 7919 % 8];
    case 1:
        return (float)i;
    case 2:
        return (float)(n - i);
    case 3:
        return (float)((int64_t)i * 7919 % 4099) - 2000;
    default:
        return i < n / 2 ? (float)i : (float)(n - i); /* ascending, then descending */
    }
}

START_TEST(best_are_the_first_of_a_sort)
{
    enum { MOST = 5000 };
    static const int size[] = { 1, 2, 3, 16, 17, 100, MOST };
    static struct kvr_ranked sorted[MOST], parted[MOST];
    static bool among[MOST];

    for (size_t a = 0; a < sizeof size / sizeof *size; a++) {
        const int n = size[a], share[] = { 0, 1, n / 3, n / 2, n - 1, n };

        for (size_t b = 0; b < sizeof share / sizeof *share; b++) {
            const int k = share[b];

            for (int i = 0; i < n; i++)
                sorted[i] = parted[i] = (struct kvr_ranked){ some_score(_i, i, n), i };
            kvr_topk(sorted, n);
            kvr_best(parted, n, k);
            memset(among, 0, sizeof among);
            for (int i = 0; i < k; i++)
                among[parted[i].index] = true;
            for (int i = 0; i < n; i++)
                ck_assert_msg(among[sorted[i].index] == (i < k), "%d of %d: rank %d", k, n, i);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("policy");
    TCase *tc = tcase_create("policy");

    tcase_add_checked_fixture(tc, open_dev, close_dev);
    tcase_add_test(tc, recent_takes_the_tail);
    tcase_add_test(tc, span_waits_for_whole_ones);
    tcase_add_test(tc, age_takes_a_share);
    tcase_add_test(tc, spatial_ranks_variance_over_frames);
    tcase_add_test(tc, spatial_counts_without_values);
    tcase_add_test(tc, spatial_is_the_formula);
    tcase_add_loop_test(tc, not_a_number_stays_inside, 0, 12);
    tcase_add_test(tc, spatial_without_memory);
    tcase_add_test(tc, parts_open_by_name);
    tcase_add_loop_test(tc, refusals_name_the_part, 0, sizeof refused / sizeof *refused);
    tcase_add_test(tc, long_text_is_refused);
    tcase_add_test(tc, shares_round_half_to_even);
    tcase_add_test(tc, topk_has_a_total_order);
    tcase_add_loop_test(tc, best_are_the_first_of_a_sort, 0, 5);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
