/* test_split.c - split-KV: how attention over many keys is divided among CTAs
 * (harness/cache/attend_split.h). */
#include "harness/cache/attend_split.h"
#include "tests/suite.h"

enum { SMS = KVR_ATTEND_SPLIT_SMS };

/* The KV splits of a query block cover all its tiles of keys, and the number of partial results is
 * at most the number of slots. */
START_TEST(all_tiles_are_covered)
{
    static const int64_t slots[] = { 0, 1, 7, 264 };

    for (int64_t blocks = 1; blocks < 700; blocks += blocks < 140 ? 1 : 37)
        for (int64_t tiles = 1; tiles < 520; tiles += tiles < 40 ? 1 : 41)
            for (int i = 0; i < 4; i++) {
                const struct kvr_attend_split s = kvr_attend_split_of(blocks, tiles, slots[i]);

                ck_assert_int_eq(s.n_whole + s.n_cut, blocks);
                ck_assert_int_ge(s.parts, 1);
                ck_assert_int_ge(s.parts * s.tiles, tiles);
                /* no KV split is empty */
                ck_assert_int_lt((s.parts - 1) * s.tiles, tiles);
                ck_assert(!s.n_cut || s.n_cut * s.parts <= slots[i]);
                ck_assert(s.n_cut ? s.parts > 1 && s.n_whole % SMS == 0 : s.parts == 1);
                ck_assert_int_le(s.n_cut * s.parts, kvr_attend_split_slots(blocks));
            }
}
END_TEST

/* kvr_attend_split_slots() never decreases with the number of query blocks, so memory reserved for
 * the largest launch suffices for every smaller one. */
START_TEST(room_grows_with_queries)
{
    for (int64_t blocks = 1; blocks < 700; blocks++)
        ck_assert_int_ge(kvr_attend_split_slots(blocks + 1), kvr_attend_split_slots(blocks));
}
END_TEST

static double efficiency(int64_t blocks, int64_t keys, double *balance)
{
    const int64_t tiles = (keys + 127) / 128;
    const struct kvr_attend_split s =
        kvr_attend_split_of(blocks, tiles, kvr_attend_split_slots(blocks));
    const int64_t time = kvr_attend_split_time(&s, tiles);
    const int64_t beside =
        (s.n_cut * s.parts + SMS - 1) / SMS * (s.n_cut ? KVR_ATTEND_SPLIT_OVERHEAD : 0);
    const double ideal = (double)(blocks * tiles) / SMS;

    *balance = ideal / (double)(time - beside);
    return ideal / (double)time;
}

/* The estimated efficiency of Wan's attention over 1 to 14 chunks of keys: the time at full
 * utilization of all SMs, divided by the estimated time. The queries are those of a chunk (37 query
 * blocks x 12 heads) or of one of its three latent frames (13 x 12). In the last case, 64 queries
 * attend to 14 chunks: without splits, 12 query blocks would leave 120 of 132 SMs idle.
 * docs/cuda-internals.md has the figures. */
START_TEST(multiprocessors_end_together)
{
    double balance;

    for (int k = 1; k <= 14; k++) {
        const double e = efficiency(444, 4680 * k, &balance);

        ck_assert_msg(e >= (k < 2 ? 0.92 : k < 4 ? 0.95 : 0.97), "%d keys: %g", 4680 * k, e);
        ck_assert_msg(balance >= (k < 2 ? 0.95 : 0.98), "%d keys: %g", 4680 * k, balance);
        ck_assert_msg(efficiency(156, 4680 * k, &balance) >= (k < 3 ? 0.89 : 0.95), "%d keys", k);
    }
    /* tools/sass/sass_model.py computes this case: 48 query blocks have 5 KV splits each, of 103
     * tiles, or 100 tiles in the last split. */
    const struct kvr_attend_split s = kvr_attend_split_of(444, 512, KVR_ATTEND_SPLIT_SLOTS);

    ck_assert(s.n_whole == 396 && s.n_cut == 48 && s.parts == 5 && s.tiles == 103);
    ck_assert_double_ge(efficiency(12, 65520, &balance), 0.91);
    ck_assert_double_ge(balance, 0.99);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("split");
    TCase *tc = tcase_create("split");

    tcase_add_test(tc, all_tiles_are_covered);
    tcase_add_test(tc, room_grows_with_queries);
    tcase_add_test(tc, multiprocessors_end_together);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
