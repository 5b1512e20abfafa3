/* test_array.c - tensors that own their memory. */
#include "harness/device/array.h"
#include "tests/suite.h"

START_TEST(array_owns_and_is_counted)
{
    const int64_t shape[] = { 4, 0x10 };
    struct kvr_array a = { 0 };
    struct kvr_mem_stats s;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_array_alloc(&a, dev, KVR_MEM_ACT, KVR_F32, 2, shape), KVR_OK);
    ck_assert_ptr_eq(a.t.data, a.buf.p);
    ck_assert_int_eq(a.t.shape[1], 16);
    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.live[KVR_MEM_ACT], 256);
    for (int i = 0; i < 64; i++)
        ck_assert(((float *)a.t.data)[i] == 0.0f);
    kvr_array_free(&a);
    ck_assert_ptr_null(a.t.data);
    kvr_array_free(&a);
    ck_assert_int_eq(kvr_array_alloc(&a, dev, KVR_MEM_ACT, KVR_F64, 0, NULL), KVR_OK);
    ck_assert_uint_eq(a.buf.n_bytes, 8);
    kvr_array_free(&a);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(impossible_shapes_are_refused)
{
    static const struct {
        int n_dims;
        int64_t shape[9];
    } cases[] = {
        { 9, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
        { -1, { 0 } },
        { 2, { 3, -1 } },
        { 1, { INT64_MAX } },
        { 2, { INT64_MAX / 4, 2 } },
        { 3, { 1ll << 40, 1ll << 40, 0 } },
        { 3, { 0, 1ll << 40, 1ll << 40 } },
    };
    struct kvr_array a = { 0 };
    struct kvr_mem_stats s;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(
            kvr_array_alloc(&a, dev, KVR_MEM_ACT, KVR_F32, cases[i].n_dims, cases[i].shape),
            KVR_EINVAL);
        ck_assert_ptr_null(a.buf.p);
    }
    kvr_mem_fail_after(dev, 1);
    ck_assert_int_eq(kvr_array_alloc(&a, dev, KVR_MEM_ACT, KVR_F32, 1, (int64_t[]){ 3 }),
                     KVR_ENOMEM);
    ck_assert_ptr_null(a.t.data);
    ck_assert_int_eq(kvr_array_alloc(&a, dev, KVR_MEM_ACT, KVR_F32, 2, (int64_t[]){ 3, 0 }),
                     KVR_OK);
    ck_assert_ptr_null(a.t.data);
    kvr_mem_stats(dev, &s);
    ck_assert_uint_eq(s.live_total, 0);
    kvr_array_free(&a);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("array");
    TCase *tc = tcase_create("array");

    tcase_add_test(tc, array_owns_and_is_counted);
    tcase_add_test(tc, impossible_shapes_are_refused);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
