/* test_split.c - how attention over many keys is split into parts
 * (harness/cache/attend_split.h). */
#include "harness/cache/attend_split.h"
#include "tests/suite.h"

enum { SMS = KVR_ATTEND_SPLIT_SMS };

/* The parts of every block cover all its key tiles, and partial results fit the available slots. */
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
                /* no part is empty */
                ck_assert_int_lt((s.parts - 1) * s.tiles, tiles);
                ck_assert(!s.n_cut || s.n_cut * s.parts <= slots[i]);
                ck_assert(s.n_cut ? s.parts > 1 && s.n_whole % SMS == 0 : s.parts == 1);
                ck_assert_int_le(s.n_cut * s.parts, kvr_attend_split_slots(blocks));
            }
}
END_TEST

/* With more blocks of queries, the number of slots for partial results never shrinks. */
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

/* Efficiency with a chunk of Wan (37 blocks of queries times 12 heads) over 1 to 14 chunks of
 * keys, and with a third of a chunk. Last, 64 queries: 12 unsplit blocks would leave nine of ten
 * multiprocessors idle. docs/cuda-internals.md has the figures. */
START_TEST(multiprocessors_end_together)
{
    double balance;

    for (int k = 1; k <= 14; k++) {
        const double e = efficiency(444, 4680 * k, &balance);

        ck_assert_msg(e >= (k < 2 ? 0.92 : k < 4 ? 0.95 : 0.97), "%d keys: %g", 4680 * k, e);
        ck_assert_msg(balance >= (k < 2 ? 0.95 : 0.98), "%d keys: %g", 4680 * k, balance);
        ck_assert_msg(efficiency(156, 4680 * k, &balance) >= (k < 3 ? 0.89 : 0.95), "%d keys", k);
    }
    /* The case that tools/sass/sass_model.py computes: 48 blocks split into 5 parts, of 103
     * tiles each except the last. */
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
