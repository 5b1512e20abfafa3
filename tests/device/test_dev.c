/* test_dev.c - every backend implements the functions of dev.h and describes its device
 * correctly. */
#include "harness/device/dev.h"

#include <string.h>

#include "harness/device/mem.h"
#include "harness/device/names.h"
#include "tests/suite.h"

enum { N = 1000 };

static struct kvr_dev *open_dev(int backend)
{
    struct kvr_dev *dev;

    ck_assert_msg(kvr_dev_open(&dev, (enum kvr_backend)backend) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_backend(dev), backend);
    return dev;
}

START_TEST(facts_agree)
{
    struct kvr_dev *dev = open_dev(_i), *host = kvr_dev_host(dev);
    struct kvr_device_info info = { 0 };
    enum kvr_backend named;

    ck_assert(kvr_dev_in_host(dev) == kvr_backend_in_host((enum kvr_backend)_i));
    ck_assert(kvr_dev_in_host(dev) == (host == dev));
    ck_assert(kvr_dev_in_host(host));
    ck_assert(kvr_device_backend(kvr_dev_name(dev), &named) && (int)named == _i);
    ck_assert_int_eq(kvr_dev_info(dev, &info), KVR_OK);
    ck_assert_int_gt(strlen(info.name), 0);
    ck_assert(!kvr_dev_was_full(dev));
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(memory_is_moved_in_order)
{
    struct kvr_dev *dev = open_dev(_i);
    struct kvr_buf a = { 0 }, b = { 0 };
    unsigned char in[N], out[N];

    for (int i = 0; i < N; i++)
        in[i] = (unsigned char)(i * 7 + 1);
    ck_assert_int_eq(kvr_buf_alloc(&a, dev, KVR_MEM_KV, N), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_KV, N), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(dev, a.p, in, N), KVR_OK);
    kvr_dev_copy(dev, b.p, a.p, N);
    kvr_dev_zero(dev, (char *)b.p + 10, N - 20);
    /* Must run after the copy, so that b has the bytes that a had before. */
    kvr_dev_zero(dev, a.p, N);
    kvr_dev_zero(dev, a.p, 0);
    kvr_dev_copy(dev, b.p, a.p, 0);
    memset(out, 0xee, N);
    ck_assert_int_eq(kvr_dev_get(dev, out, b.p, N), KVR_OK);
    ck_assert_int_eq(kvr_dev_sync(dev), KVR_OK);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(out[i], i < 10 || i >= N - 10 ? in[i] : 0);
    kvr_buf_free(&a);
    kvr_buf_free(&b);
    kvr_dev_close(&dev);
}
END_TEST

/* On devices that record graphs, recorded work runs at each replay, and not before the first. */
START_TEST(what_is_recorded_is_done_again)
{
    struct kvr_dev *dev = open_dev(_i);
    struct kvr_graph *graph = NULL;
    struct kvr_buf a = { 0 }, b = { 0 };

    /* Closing a NULL graph has no effect on any device. */
    kvr_dev_graph_close(dev, &graph);
    ck_assert(kvr_dev_records(dev) == (_i == KVR_CUDA));
    for (int round = 0; kvr_dev_records(dev) && round < 3; round++) {
        unsigned char value = (unsigned char)(round + 1), out = 0;

        if (round == 0) {
            ck_assert_int_eq(kvr_buf_alloc(&a, dev, KVR_MEM_ACT, 1), KVR_OK);
            ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_ACT, 1), KVR_OK);
            kvr_dev_zero(dev, b.p, 1);
            ck_assert_int_eq(kvr_dev_record_begin(dev), KVR_OK);
            kvr_dev_copy(dev, b.p, a.p, 1);
            ck_assert_msg(kvr_dev_record_end(dev, &graph) == KVR_OK, "%s", kvr_error());
        }
        ck_assert_int_eq(kvr_dev_put(dev, a.p, &value, 1), KVR_OK);
        ck_assert_int_eq(kvr_dev_get(dev, &out, b.p, 1), KVR_OK);
        ck_assert_int_eq(out, round);
        ck_assert_int_eq(kvr_dev_replay(dev, graph), KVR_OK);
        ck_assert_int_eq(kvr_dev_get(dev, &out, b.p, 1), KVR_OK);
        ck_assert_int_eq(out, value);
    }
    kvr_dev_graph_close(dev, &graph);
    ck_assert_ptr_null(graph);
    kvr_buf_free(&a);
    kvr_buf_free(&b);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("devices");
    TCase *tc = tcase_create("devices");

    tcase_add_loop_test(tc, facts_agree, 0, KVR_N_BACKENDS);
    tcase_add_loop_test(tc, memory_is_moved_in_order, 0, KVR_N_BACKENDS);
    tcase_add_loop_test(tc, what_is_recorded_is_done_again, 0, KVR_N_BACKENDS);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
