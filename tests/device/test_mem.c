/* test_mem.c - memory accounting of the allocator. */
#include "harness/device/mem.h"
#include "tests/suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct kvr_dev *open_cpu(void)
{
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    return dev;
}

static struct kvr_buf get(struct kvr_dev *dev, enum kvr_mem_tag tag, size_t n)
{
    struct kvr_buf b = { 0 };

    ck_assert_int_eq(kvr_buf_alloc(&b, dev, tag, n), KVR_OK);
    return b;
}

START_TEST(aligned_and_zero_filled)
{
    static const size_t sizes[] = { 1, 2, 63, 64, 65, 4095, 4096, 1 << 20 };
    struct kvr_dev *dev = open_cpu();

    /* Later iterations reuse freed memory, which must be zero again. */
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct kvr_buf b = get(dev, KVR_MEM_KV, sizes[i]);
            const unsigned char *p = b.p;

            ck_assert_uint_eq((uintptr_t)b.p % 64, 0);
            ck_assert_uint_eq(b.n_bytes, sizes[i]);
            for (size_t j = 0; j < sizes[i]; j++) {
                if (p[j] != 0)
                    ck_abort_msg("byte %zu of %zu is not zero", j, sizes[i]);
            }
            memset(b.p, 0xa5, sizes[i]);
            kvr_buf_free(&b);
            ck_assert_ptr_null(b.p);
            ck_assert_ptr_null(b.dev);
            ck_assert_uint_eq(b.n_bytes, 0);
        }
    }
    kvr_dev_close(&dev);
    ck_assert_ptr_null(dev);
    /* Closing it again has no effect. */
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(zero_bytes_are_no_allocation)
{
    struct kvr_dev *dev = open_cpu();
    struct kvr_mem_stats s;
    struct kvr_buf b = { 0 };

    kvr_mem_fail_after(dev, 1);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_KV, 0), KVR_OK);
    ck_assert_ptr_null(b.p);
    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.n_allocs, 0);
    kvr_buf_free(&b);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_KV, 1), KVR_ENOMEM);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(peak_by_tag_at_its_instant)
{
    struct kvr_dev *dev = open_cpu();
    struct kvr_mem_stats s;
    struct kvr_buf kv = get(dev, KVR_MEM_KV, 1000);
    struct kvr_buf act = get(dev, KVR_MEM_ACT, 5000);
    struct kvr_buf spike, more;

    kvr_buf_free(&act);
    /* At the peak of 10000 bytes, no ACT memory is allocated. */
    spike = get(dev, KVR_MEM_SCRATCH, 9000);
    kvr_buf_free(&spike);
    /* KV memory is at its maximum now, but the total is not. */
    more = get(dev, KVR_MEM_KV, 3000);

    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.live_total, 4000);
    ck_assert_uint_eq(s.live[KVR_MEM_KV], 4000);
    ck_assert_uint_eq(s.live[KVR_MEM_SCRATCH], 0);
    ck_assert_uint_eq(s.peak_total, 10000);
    ck_assert_uint_eq(s.peak[KVR_MEM_KV], 1000);
    ck_assert_uint_eq(s.peak[KVR_MEM_SCRATCH], 9000);
    ck_assert_uint_eq(s.peak[KVR_MEM_ACT], 0);
    ck_assert_uint_eq(s.tag_peak[KVR_MEM_KV], 4000);
    ck_assert_uint_eq(s.tag_peak[KVR_MEM_ACT], 5000);
    ck_assert_uint_eq(s.tag_peak[KVR_MEM_SCRATCH], 9000);
    ck_assert_uint_eq(s.n_allocs, 4);

    kvr_mem_reset_peak(dev);
    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.peak_total, 4000);
    ck_assert_uint_eq(s.peak[KVR_MEM_KV], 4000);
    ck_assert_uint_eq(s.peak[KVR_MEM_SCRATCH], 0);
    ck_assert_uint_eq(s.tag_peak[KVR_MEM_SCRATCH], 0);

    kvr_buf_free(&kv);
    kvr_buf_free(&more);
    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.live_total, 0);
    for (int t = 0; t < KVR_N_MEM_TAGS; t++)
        ck_assert_uint_eq(s.live[t], 0);
    ck_assert_uint_eq(s.peak_total, 4000);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(limit_is_kept_and_lifted)
{
    struct kvr_dev *dev = open_cpu();
    struct kvr_buf a, b = { 0 };
    struct kvr_mem_stats s;

    kvr_mem_set_limit(dev, 1000);
    a = get(dev, KVR_MEM_KV, 600);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_META, 401), KVR_ENOMEM);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "401"));
    ck_assert_ptr_nonnull(strstr(kvr_error(), "META"));
    ck_assert_ptr_nonnull(strstr(kvr_error(), "1000"));
    ck_assert_ptr_null(b.p);
    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.live_total, 600);
    ck_assert_uint_eq(s.peak_total, 600);
    ck_assert_uint_eq(s.n_allocs, 1);
    /* The device is exactly full. */
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_META, 400), KVR_OK);
    kvr_buf_free(&b);
    /* The new limit is below the 600 bytes in use. */
    kvr_mem_set_limit(dev, 100);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_META, 1), KVR_ENOMEM);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_META, SIZE_MAX), KVR_ENOMEM);
    /* A cell that runs out of memory on this device gets the outcome OOM_DEVICE. */
    ck_assert(kvr_dev_was_full(dev));
    kvr_mem_set_limit(dev, 0);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_META, 5000), KVR_OK);
    kvr_buf_free(&b);
    kvr_buf_free(&a);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(more_than_an_address_space_is_refused)
{
    struct kvr_dev *dev = open_cpu();
    struct kvr_buf b = { 0 };

    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_KV, SIZE_MAX), KVR_ENOMEM);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_KV, SIZE_MAX - 63), KVR_ENOMEM);
    ck_assert_ptr_null(b.p);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(nth_allocation_fails_once)
{
    struct kvr_dev *dev = open_cpu();

    for (uint64_t n = 1; n <= 5; n++) {
        struct kvr_buf b[6] = { 0 };

        kvr_mem_fail_after(dev, n);
        for (uint64_t i = 1; i <= 6; i++) {
            enum kvr_status st = kvr_buf_alloc(&b[i - 1], dev, KVR_MEM_KV, 10 * i);

            ck_assert_int_eq(st, i == n ? KVR_ENOMEM : KVR_OK);
            ck_assert_int_eq(b[i - 1].p == NULL, i == n);
        }
        for (int i = 0; i < 6; i++)
            kvr_buf_free(&b[i]);
    }
    kvr_mem_fail_after(dev, 1);
    /* cancels the failure */
    kvr_mem_fail_after(dev, 0);
    kvr_buf_free(&(struct kvr_buf){ 0 });
    struct kvr_buf b = get(dev, KVR_MEM_KV, 1);
    kvr_buf_free(&b);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(reserve_grows_without_counting_twice)
{
    struct kvr_dev *dev = open_cpu();
    struct kvr_mem_stats s;
    struct kvr_buf b = { 0 };
    void *p;

    ck_assert_int_eq(kvr_buf_reserve(&b, dev, KVR_MEM_SCRATCH, 100), KVR_OK);
    p = b.p;
    ck_assert_int_eq(kvr_buf_reserve(&b, dev, KVR_MEM_SCRATCH, 50), KVR_OK);
    ck_assert_ptr_eq(b.p, p);
    ck_assert_uint_eq(b.n_bytes, 100);
    ck_assert_int_eq(kvr_buf_reserve(&b, dev, KVR_MEM_SCRATCH, 1000), KVR_OK);
    ck_assert_uint_eq(b.n_bytes, 1000);
    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.peak_total, 1000);
    kvr_mem_fail_after(dev, 1);
    ck_assert_int_eq(kvr_buf_reserve(&b, dev, KVR_MEM_SCRATCH, 2000), KVR_ENOMEM);
    kvr_buf_free(&b);
    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.live_total, 0);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(a_buffer_outliving_its_device_is_noticed)
{
    pid_t pid = fork();
    int status;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const struct rlimit no_core = { 0, 0 };
        struct kvr_dev *dev;
        struct kvr_buf b = { 0 };

        setrlimit(RLIMIT_CORE, &no_core);
        close(STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        if (kvr_dev_open(&dev, KVR_CPU) != KVR_OK || kvr_buf_alloc(&b, dev, KVR_MEM_KV, 8) != 0)
            _exit(2);
        kvr_dev_close(&dev);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
END_TEST

START_TEST(backends_that_are_not_here_say_so)
{
    struct kvr_dev *dev = open_cpu();

    ck_assert_int_eq(kvr_dev_backend(dev), KVR_CPU);
    kvr_dev_close(&dev);
    ck_assert_int_eq(kvr_dev_open(&dev, (enum kvr_backend)7), KVR_EINVAL);
    ck_assert_ptr_null(dev);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "7"));
    ck_assert_str_eq(kvr_mem_tag_name(KVR_MEM_KV), "KV");
    ck_assert_str_eq(kvr_mem_tag_name(KVR_MEM_IO), "IO");
}
END_TEST

START_TEST(cuda_memory_is_booked_and_moved_alike)
{
    struct kvr_dev *dev;
    struct kvr_buf a = { 0 }, b = { 0 };
    struct kvr_mem_stats m;
    const char in[6] = "hello";
    char out[6] = "";

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
    ck_assert_int_eq(kvr_dev_backend(dev), KVR_CUDA);
    ck_assert_ptr_nonnull(kvr_dev_stream(dev));
    ck_assert(kvr_dev_host(dev) != dev);
    ck_assert_int_eq(kvr_buf_alloc(&a, dev, KVR_MEM_KV, 100), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_ACT, 50), KVR_OK);
    kvr_mem_stats(dev, &m);
    ck_assert_uint_eq(m.live[KVR_MEM_KV], 100);
    ck_assert_uint_eq(m.peak_total, 150);
    ck_assert_int_eq(kvr_dev_put(dev, a.p, in, sizeof in), KVR_OK);
    kvr_dev_copy(dev, (char *)b.p + 7, a.p, sizeof in);
    ck_assert_int_eq(kvr_dev_get(dev, out, (char *)b.p + 7, sizeof out), KVR_OK);
    ck_assert_str_eq(out, "hello");
    kvr_dev_zero(dev, b.p, 50);
    ck_assert_int_eq(kvr_dev_get(dev, out, (char *)b.p + 7, sizeof out), KVR_OK);
    ck_assert_str_eq(out, "");
    ck_assert_int_eq(kvr_dev_sync(dev), KVR_OK);
    kvr_dev_copy(dev, (char *)b.p + 48, a.p, 6); /* beyond the end */
    ck_assert_int_ne(kvr_dev_sync(dev), KVR_OK);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "outside device memory"));
    kvr_mem_set_limit(dev, 160);
    struct kvr_buf c = { 0 };

    ck_assert_int_eq(kvr_buf_alloc(&c, dev, KVR_MEM_KV, 11), KVR_ENOMEM);
    kvr_buf_free(&a);
    kvr_buf_free(&b);
    kvr_mem_stats(dev, &m);
    ck_assert_uint_eq(m.live_total, 0);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mem");
    TCase *tc = tcase_create("mem");

    tcase_add_test(tc, aligned_and_zero_filled);
    tcase_add_test(tc, zero_bytes_are_no_allocation);
    tcase_add_test(tc, peak_by_tag_at_its_instant);
    tcase_add_test(tc, limit_is_kept_and_lifted);
    tcase_add_test(tc, more_than_an_address_space_is_refused);
    tcase_add_test(tc, nth_allocation_fails_once);
    tcase_add_test(tc, reserve_grows_without_counting_twice);
    tcase_add_test(tc, a_buffer_outliving_its_device_is_noticed);
    tcase_add_test(tc, backends_that_are_not_here_say_so);
    tcase_add_test(tc, cuda_memory_is_booked_and_moved_alike);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
