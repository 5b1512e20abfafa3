/* test_hostmem.c - memory peaks of one millisecond are measured, and kernel counters increase. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "harness/core/hostmem.h"
#include "harness/device/mem.h"
#include "tests/suite.h"

enum { SPIKE = 64 << 20 };

/* Maps and touches SPIKE bytes for about one millisecond. */
static void spike(void)
{
    char *p = mmap(NULL, SPIKE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert(p != MAP_FAILED);
    for (size_t i = 0; i < SPIKE; i += 4096)
        p[i] = 1;
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    munmap(p, SPIKE);
}

START_TEST(host_peak_sees_a_spike)
{
    int64_t before, after;

    if (!kvr_host_peak_reset())
        return; /* without a reset, the kernel reports the peak since the process started */
    before = kvr_host_peak_bytes();
    ck_assert_int_gt(before, 0);
    spike();
    after = kvr_host_peak_bytes();
    /* The process may free other pages during the spike, which lowers the peak. The limit allows
     * for SPIKE / 8 bytes of them. */
    ck_assert_int_ge(after - before, SPIKE - SPIKE / 8);
    ck_assert(kvr_host_peak_reset());
    /* The reset removes the spike from the peak. */
    ck_assert_int_lt(kvr_host_peak_bytes(), after - SPIKE / 2);
}
END_TEST

START_TEST(allocator_peak_sees_a_spike)
{
    struct kvr_mem_stats s;
    struct kvr_buf held = { 0 }, b = { 0 };
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&held, dev, KVR_MEM_KV, 1 << 20), KVR_OK);
    kvr_mem_reset_peak(dev);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_SCRATCH, SPIKE), KVR_OK);
    kvr_buf_free(&b);
    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.peak_total, (size_t)SPIKE + (1 << 20));
    ck_assert_uint_eq(s.peak[KVR_MEM_SCRATCH], SPIKE); /* bytes when the total peaked */
    ck_assert_uint_eq(s.peak[KVR_MEM_KV], 1 << 20);
    ck_assert_uint_eq(s.live[KVR_MEM_SCRATCH], 0);
    kvr_buf_free(&held);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(counters_move)
{
    int64_t busy = kvr_host_busy_ns();
    struct timespec t;

    ck_assert_int_ge(kvr_host_oom_kills(), 0);
    ck_assert_int_gt(busy, 0);
    /* The kernel counts busy time in units of 10 ms. The test therefore spins until the process has
     * used 200 ms of CPU time, and expects at least 50 ms. */
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    while (t.tv_sec == 0 && t.tv_nsec < 200000000);
    ck_assert_int_ge(kvr_host_busy_ns() - busy, 50000000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hostmem");
    TCase *tc = tcase_create("hostmem");

    tcase_add_test(tc, host_peak_sees_a_spike);
    tcase_add_test(tc, allocator_peak_sees_a_spike);
    tcase_add_test(tc, counters_move);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
