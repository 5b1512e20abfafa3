/* test_phase.c - time measurement of program phases on the CPU and on the emulated device. */
#include <time.h>

#include "harness/core/clock.h"
#include "harness/device/mem.h"
#include "harness/device/phase.h"
#include "harness/device/stream.h"
#include "tests/suite.h"

enum { OUTER, INNER, NEVER, N_PHASES };
enum { PAUSE_NS = 3000000 };

static void pause_a_little(void)
{
    const int64_t until = kvr_now_ns() + PAUSE_NS;
    const struct timespec t = { .tv_nsec = PAUSE_NS };

    while (kvr_now_ns() < until)
        nanosleep(&t, NULL);
}

static struct kvr_dev *open_dev(int which)
{
    struct kvr_dev *dev;

    ck_assert_msg(kvr_dev_open(&dev, which ? KVR_CUDA : KVR_CPU) == KVR_OK, "%s", kvr_error());
    return dev;
}

/* The intervals of a phase add up, and an outer phase's time includes the inner phase's. The
 * emulated device measures host time, so a pause of the host counts there, too. */
START_TEST(intervals_add_up_and_enclose)
{
    struct kvr_dev *dev = open_dev(_i);
    struct kvr_phases *p;
    int64_t ns[N_PHASES], start = kvr_now_ns(), all;

    ck_assert_int_eq(kvr_phases_open(&p, dev, N_PHASES), KVR_OK);
    for (int i = 0; i < 2; i++) {
        kvr_phase_begin(p, OUTER);
        pause_a_little();
        kvr_phase_begin(p, INNER);
        pause_a_little();
        kvr_phase_end(p, INNER);
        kvr_phase_end(p, OUTER);
        pause_a_little();
    }
    all = kvr_now_ns() - start;
    /* Reading does not change the times. */
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(kvr_phases_read(p, ns), KVR_OK);
        ck_assert_int_ge(ns[INNER], 2 * PAUSE_NS);
        ck_assert_int_ge(ns[OUTER], ns[INNER] + 2 * PAUSE_NS);
        ck_assert_int_le(ns[OUTER], all - 2 * PAUSE_NS);
        ck_assert_int_eq(ns[NEVER], 0);
    }
    /* A later interval adds to the time already read. */
    kvr_phase_begin(p, INNER);
    pause_a_little();
    kvr_phase_end(p, INNER);
    all = ns[INNER];
    ck_assert_int_eq(kvr_phases_read(p, ns), KVR_OK);
    ck_assert_int_ge(ns[INNER], all + PAUSE_NS);
    kvr_phases_close(&p);
    ck_assert_ptr_null(p);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(reset_forgets_what_is_open)
{
    struct kvr_dev *dev = open_dev(_i);
    struct kvr_phases *p;
    int64_t ns[N_PHASES];

    ck_assert_int_eq(kvr_phases_open(&p, dev, N_PHASES), KVR_OK);
    kvr_phase_begin(p, OUTER);
    kvr_phase_end(p, OUTER);
    kvr_phase_begin(p, INNER);
    kvr_phases_reset(p);
    /* The reset must have discarded the earlier begin of INNER. */
    kvr_phase_begin(p, INNER);
    kvr_phase_end(p, INNER);
    ck_assert_int_eq(kvr_phases_read(p, ns), KVR_OK);
    ck_assert_int_eq(ns[OUTER], 0);
    ck_assert_int_lt(ns[INNER], 1000000000);
    kvr_phases_close(&p);
    kvr_dev_close(&dev);
}
END_TEST

/* Work captured in a graph is not timed, and timing does not disturb the capture. */
START_TEST(a_capture_is_not_timed)
{
    struct kvr_dev *dev = open_dev(1);
    struct kvr_stream *s = kvr_dev_stream(dev);
    struct kvr_buf b = { 0 };
    struct kvr_graph *g;
    struct kvr_phases *p;
    int64_t ns[N_PHASES];

    ck_assert_int_eq(kvr_phases_open(&p, dev, N_PHASES), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_ACT, 64), KVR_OK);
    ck_assert(!kvr_stream_capturing(s));
    kvr_phase_begin(p, OUTER);
    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    ck_assert(kvr_stream_capturing(s));
    kvr_phase_begin(p, INNER);
    kvr_dev_zero(dev, b.p, 64);
    pause_a_little();
    kvr_phase_end(p, INNER);
    ck_assert_msg(kvr_stream_capture_end(s, &g) == KVR_OK, "%s", kvr_error());
    ck_assert(!kvr_stream_capturing(s));
    ck_assert_int_eq(kvr_graph_launch(s, g), KVR_OK);
    kvr_phase_end(p, OUTER);
    ck_assert_int_eq(kvr_phases_read(p, ns), KVR_OK);
    ck_assert_int_eq(ns[INNER], 0);
    /* The outer phase began before the capture and ended after it. */
    ck_assert_int_ge(ns[OUTER], PAUSE_NS);
    kvr_graph_close(&g);
    kvr_buf_free(&b);
    kvr_phases_close(&p);
    kvr_dev_close(&dev);
}
END_TEST

/* The number of timing marks stays below 4096 in 20000 iterations: marks of completed phases are
 * reused after their times have been added up. Closed or reset phases free their marks. */
START_TEST(marks_are_used_again)
{
    enum { MANY = 20000, PHASES = 3 };
    struct kvr_dev *dev = open_dev(1);
    const struct kvr_stream *s = kvr_dev_stream(dev);
    struct kvr_phases *p;
    int64_t ns[N_PHASES], start, most;

    for (int round = 0; round < PHASES; round++) {
        ck_assert_int_eq(kvr_phases_open(&p, dev, N_PHASES), KVR_OK);
        start = kvr_now_ns();
        for (int i = 0; i < MANY; i++) {
            kvr_phase_begin(p, OUTER);
            kvr_phase_begin(p, INNER);
            kvr_phase_end(p, INNER);
            kvr_phase_end(p, OUTER);
            if (round == 1 && i % 100 == 99) {
                kvr_phase_begin(p, NEVER);
                kvr_phases_reset(p);
            }
        }
        start = kvr_now_ns() - start;
        most = kvr_stream_most_marks(s);
        ck_assert_msg(most > 0 && most <= 4096, "%lld marks", (long long)most);
        if (round == 2)
            /* Pending marks become invalid and are not freed twice. */
            kvr_phases_forget(dev);
        ck_assert_int_eq(kvr_phases_read(p, ns), round == 2 ? KVR_EINVAL : KVR_OK);
        if (!round) {
            ck_assert(ns[INNER] > 0 && ns[INNER] <= ns[OUTER] && ns[OUTER] <= start);
            ck_assert_int_eq(ns[NEVER], 0);
        }
        kvr_phases_close(&p);
    }
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(nobody_measures)
{
    struct kvr_phases *none = NULL;

    kvr_phase_begin(none, OUTER);
    kvr_phase_end(none, OUTER);
    kvr_phases_close(&none);
}
END_TEST

START_TEST(an_error_of_the_device_is_not_a_time)
{
    struct kvr_dev *dev = open_dev(1);
    struct kvr_buf b = { 0 };
    struct kvr_phases *p;
    int64_t ns[1] = { -7 };

    ck_assert_int_eq(kvr_phases_open(&p, dev, 1), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_ACT, 8), KVR_OK);
    kvr_phase_begin(p, 0);
    kvr_dev_zero(dev, b.p, 9); /* beyond the end */
    kvr_phase_end(p, 0);
    ck_assert_int_ne(kvr_phases_read(p, ns), KVR_OK);
    ck_assert_int_eq(ns[0], -7);
    kvr_buf_free(&b);
    kvr_phases_close(&p);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("phase");
    TCase *tc = tcase_create("phase");

    tcase_add_loop_test(tc, intervals_add_up_and_enclose, 0, 2);
    tcase_add_loop_test(tc, reset_forgets_what_is_open, 0, 2);
    tcase_add_test(tc, a_capture_is_not_timed);
    tcase_add_test(tc, marks_are_used_again);
    tcase_add_test(tc, nobody_measures);
    tcase_add_test(tc, an_error_of_the_device_is_not_a_time);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
