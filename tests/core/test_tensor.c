/* test_tensor.c - element counts, bytes and text of tensor shapes. */
#include "harness/core/tensor.h"
#include "tests/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(counts_and_bytes)
{
    struct kvr_tensor t = { .dtype = KVR_BF16, .n_dims = 3, .shape = { 2, 3, 5 } };

    ck_assert_int_eq(kvr_tensor_count(&t), 30);
    ck_assert_uint_eq(kvr_tensor_bytes(&t), 60);
    t.shape[1] = 0;
    ck_assert_int_eq(kvr_tensor_count(&t), 0);
    ck_assert_uint_eq(kvr_tensor_bytes(&t), 0);
    t.n_dims = 0;
    ck_assert_int_eq(kvr_tensor_count(&t), 1);
    ck_assert_uint_eq(kvr_tensor_bytes(&t), 2);
}
END_TEST

START_TEST(shape_text)
{
    const int64_t shape[] = { 3, 16, 6, -1 };
    char buf[64];

    ck_assert_str_eq(kvr_shape_text(shape, 4, buf, sizeof buf), "[3, 16, 6, -1]");
    ck_assert_str_eq(kvr_shape_text(shape, 1, buf, sizeof buf), "[3]");
    ck_assert_str_eq(kvr_shape_text(shape, 0, buf, sizeof buf), "[]");
    /* With a short buffer the text is cut off and terminated, and nothing is written past the
     * end. */
    for (size_t n = 1; n < 15; n++) {
        memset(buf, 'x', sizeof buf);
        kvr_shape_text(shape, 4, buf, n);
        ck_assert_uint_eq(strlen(buf), n - 1);
        ck_assert_int_eq(buf[n], 'x');
    }
    buf[0] = 'y';
    kvr_shape_text(shape, 4, buf, 0);
    ck_assert_int_eq(buf[0], 'y');
}
END_TEST

START_TEST(a_shape_is_checked_against_what_is_needed)
{
    const int64_t have[] = { 2, 3 }, any[] = { -1, 3 }, turned[] = { 3, 2 };

    ck_assert_int_eq(kvr_shape_check("f", "w", 2, have, 2, have), KVR_OK);
    ck_assert_int_eq(kvr_shape_check("f", "w", 2, have, 2, any), KVR_OK);
    ck_assert_int_eq(kvr_shape_check("f", "w", 0, NULL, 0, NULL), KVR_OK);
    ck_assert_int_eq(kvr_shape_check("f", "w", 2, have, 2, turned), KVR_EFORMAT);
    ck_assert_str_eq(kvr_error(), "f: tensor 'w': shape is [2, 3], need [3, 2]");
    ck_assert_int_eq(kvr_shape_check("f", "w", 2, have, 1, have), KVR_EFORMAT);
    ck_assert_str_eq(kvr_error(), "f: tensor 'w': shape is [2, 3], need [2]");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tensor");
    TCase *tc = tcase_create("tensor");

    tcase_add_test(tc, counts_and_bytes);
    tcase_add_test(tc, shape_text);
    tcase_add_test(tc, a_shape_is_checked_against_what_is_needed);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
