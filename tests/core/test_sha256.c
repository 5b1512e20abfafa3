/* test_sha256.c - SHA-256: examples of FIPS 180-4, input in parts, and files. */
#include "harness/core/sha256.h"
#include "tests/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char long_text[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
static const struct {
    const char *text, *hex;
} known[] = {
    { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { long_text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
};
static const char million_a[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

START_TEST(known_digests)
{
    char hex[KVR_SHA256_HEX];

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ck_assert_int_eq(kvr_sha256_hex(known[i].text, strlen(known[i].text), hex), KVR_OK);
        ck_assert_str_eq(hex, known[i].hex);
    }
    ck_assert_int_eq(kvr_sha256_hex(NULL, 0, hex), KVR_OK);
    ck_assert_str_eq(hex, known[0].hex);
}
END_TEST

START_TEST(pieces_are_the_whole)
{
    size_t n = strlen(long_text);

    for (size_t cut = 0; cut <= n; cut++) {
        char hex[KVR_SHA256_HEX];
        struct kvr_sha256 h;

        ck_assert_int_eq(kvr_sha256_open(&h), KVR_OK);
        ck_assert_int_eq(kvr_sha256_add(&h, long_text, cut), KVR_OK);
        ck_assert_int_eq(kvr_sha256_add(&h, long_text + cut, n - cut), KVR_OK);
        ck_assert_int_eq(kvr_sha256_close(&h, hex), KVR_OK);
        ck_assert_str_eq(hex, known[2].hex);
    }
}
END_TEST

START_TEST(dropped_state_and_empty_state)
{
    struct kvr_sha256 h;

    ck_assert_int_eq(kvr_sha256_open(&h), KVR_OK);
    ck_assert_int_eq(kvr_sha256_add(&h, "x", 1), KVR_OK);
    ck_assert_int_eq(kvr_sha256_close(&h, NULL), KVR_OK);
    ck_assert_int_eq(kvr_sha256_close(&h, NULL), KVR_OK);
}
END_TEST

START_TEST(files)
{
    char path[] = "/tmp/kvreel-sha256-XXXXXX";
    char hex[KVR_SHA256_HEX];
    int fd = mkstemp(path);
    FILE *f;

    ck_assert_int_ge(fd, 0);
    f = fdopen(fd, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 1000000; i++)
        fputc('a', f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(kvr_sha256_file(path, hex), KVR_OK);
    ck_assert_str_eq(hex, million_a);
    unlink(path);
    ck_assert_int_eq(kvr_sha256_file(path, hex), KVR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(kvr_error(), path));
    ck_assert_int_eq(kvr_sha256_file("/", hex), KVR_EFORMAT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sha256");
    TCase *tc = tcase_create("sha256");

    tcase_add_test(tc, known_digests);
    tcase_add_test(tc, pieces_are_the_whole);
    tcase_add_test(tc, dropped_state_and_empty_state);
    tcase_add_test(tc, files);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
