/* test_names.c - opening devices by name, and describing them in a child process without opening
 * them in this one. */
#include <check.h>
#include <string.h>

#include "harness/device/names.h"
#include "harness/device/stream.h"
#include "tests/suite.h"

static const char *mine(void)
{
    return kvr_stream_emulated() ? "emulated" : "cuda";
}

START_TEST(names_open_what_they_say)
{
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open_named(&dev, "cpu"), KVR_OK);
    ck_assert_int_eq(kvr_dev_backend(dev), KVR_CPU);
    ck_assert_str_eq(kvr_dev_name(dev), "cpu");
    kvr_dev_close(&dev);
    ck_assert_msg(kvr_dev_open_named(&dev, mine()) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_backend(dev), KVR_CUDA);
    ck_assert_str_eq(kvr_dev_name(dev), mine());
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(other_names_are_refused)
{
    static const char *const unknown[] = { "", "gpu", "CPU", "cuda:1" };
    struct kvr_dev *dev;

    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        ck_assert_int_eq(kvr_dev_open_named(&dev, unknown[i]), KVR_EINVAL);
        ck_assert_ptr_null(dev);
        ck_assert_ptr_nonnull(strstr(kvr_error(), "need cpu, cuda or emulated"));
    }
    ck_assert_int_eq(kvr_dev_open_named(&dev, kvr_stream_emulated() ? "cuda" : "emulated"),
                     KVR_EUNSUPPORTED);
    ck_assert_ptr_null(dev);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "CUDA=1"));
}
END_TEST

START_TEST(a_child_asks)
{
    struct kvr_device_words words, here;
    struct kvr_dev *dev;

    ck_assert_msg(kvr_device_query("cpu", &words) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(words.name, "none");
    ck_assert_str_eq(words.driver, "none");
    ck_assert_msg(kvr_device_query(mine(), &words) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_open_named(&dev, mine()), KVR_OK);
    ck_assert_int_eq(kvr_dev_describe(dev, &here), KVR_OK);
    ck_assert_str_eq(words.name, here.name);
    ck_assert_str_eq(words.driver, here.driver);
    kvr_dev_close(&dev);
    ck_assert_int_eq(kvr_device_query("gpu", &words), KVR_EINVAL);
}
END_TEST

/* This process reports a failure of the child process. */
START_TEST(a_child_fails)
{
    struct kvr_device_words words;

    setenv("KVREEL_EMULATED_BYTES", "many", 1);
    ck_assert_int_eq(kvr_device_query("emulated", &words), KVR_EINVAL);
    unsetenv("KVREEL_EMULATED_BYTES");
    ck_assert_ptr_nonnull(strstr(kvr_error(), "KVREEL_EMULATED_BYTES='many'"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device names");
    TCase *tc = tcase_create("device names");

    suite_add_tcase(s, tc);
    /* This test runs first: it forks, and an initialized CUDA driver does not work in a child
     * process. */
    tcase_add_test(tc, a_child_asks);
    tcase_add_test(tc, names_open_what_they_say);
    tcase_add_test(tc, other_names_are_refused);
    if (kvr_stream_emulated())
        tcase_add_test(tc, a_child_fails);
    return run_suite(s);
}
