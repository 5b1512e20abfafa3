/* test_result_cache.c - hashes of large files are cached, and a cached hash is never outdated. */
#include "harness/core/result_cache.h"
#include "tests/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64], large[80];

static void open_folder(void)
{
    strcpy(dir, "/tmp/kvreel-remember-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("XDG_CACHE_HOME", dir, 1);
    snprintf(large, sizeof large, "%s/large", dir);
}

static void close_folder(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* Makes a sparse file, which takes no disk space. Its first byte is `c`. */
static void make_large(char c)
{
    const int fd = open(large, O_WRONLY | O_CREAT, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, KVR_REMEMBER_BYTES), 0);
    ck_assert_int_eq(pwrite(fd, &c, 1, 0), 1);
    close(fd);
}

static void write_cache(const char *text)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/kvreel/remembered", dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

START_TEST(a_large_file_is_read_once)
{
    char a[KVR_SHA256_HEX], b[KVR_SHA256_HEX], stamp[KVR_STAMP_LEN], line[400];
    bool settled = true;

    make_large('a');
    ck_assert_int_eq(kvr_file_sha256_known(large, b), KVR_OK);
    ck_assert_str_eq(b, ""); /* not hashed yet */
    ck_assert_int_eq(kvr_file_sha256(large, a), KVR_OK);
    ck_assert_int_eq(kvr_file_sha256_known(large, b), KVR_OK);
    /* The file was written a moment ago. Its timestamp might not change with the next write, so
     * its hash is not cached. */
    ck_assert_str_eq(b, "");
    usleep(2200000);
    ck_assert_int_eq(kvr_file_sha256(large, b), KVR_OK);
    ck_assert_str_eq(a, b);
    ck_assert_int_eq(kvr_file_sha256_known(large, b), KVR_OK);
    ck_assert_str_eq(a, b);
    /* A cached hash is returned only if its line in the cache file is complete, with a newline and
     * 64 hexadecimal digits. */
    ck_assert(kvr_file_stamp(large, stamp, &settled) && settled);
    memset(a, '7', sizeof a - 1);
    snprintf(line, sizeof line, "sha256 %s = %s\n", stamp, a);
    write_cache(line);
    ck_assert_int_eq(kvr_file_sha256(large, b), KVR_OK);
    ck_assert_str_eq(a, b);
    line[strlen(line) - 1] = 0;
    write_cache(line);
    ck_assert_int_eq(kvr_file_sha256_known(large, b), KVR_OK);
    ck_assert_str_eq(b, "");
    snprintf(line, sizeof line, "sha256 %s = %.60szzzz\n", stamp, a);
    write_cache(line);
    ck_assert_int_eq(kvr_file_sha256_known(large, b), KVR_OK);
    ck_assert_str_eq(b, "");
    /* After a write the cached hash is not used. */
    ck_assert_int_eq(kvr_file_sha256(large, a), KVR_OK);
    make_large('b');
    ck_assert_int_eq(kvr_file_sha256_known(large, b), KVR_OK);
    ck_assert_str_eq(b, "");
    ck_assert_int_eq(kvr_file_sha256(large, b), KVR_OK);
    ck_assert_str_ne(a, b);
}
END_TEST

START_TEST(a_small_file_is_always_known)
{
    char path[80], hex[KVR_SHA256_HEX];
    FILE *f;

    snprintf(path, sizeof path, "%s/small", dir);
    f = fopen(path, "w");
    fputs("abc", f);
    fclose(f);
    ck_assert_int_eq(kvr_file_sha256_known(path, hex), KVR_OK);
    ck_assert_int_eq(strncmp(hex, "ba7816bf", 8), 0);
    snprintf(path, sizeof path, "%s/none", dir);
    ck_assert_int_eq(kvr_file_sha256_known(path, hex), KVR_ENOTFOUND);
    ck_assert_int_eq(kvr_file_sha256(path, hex), KVR_ENOTFOUND);
}
END_TEST

START_TEST(the_best_of_all_runs_counts)
{
    ck_assert_double_eq(kvr_max_remembered("rate", "a", 2.5), 2.5);
    ck_assert_double_eq(kvr_max_remembered("rate", "a", 1.5), 2.5);
    ck_assert_double_eq(kvr_max_remembered("rate", "b", 1.5), 1.5);
    ck_assert_double_eq(kvr_max_remembered("rate", "a", 3), 3);
    ck_assert_double_eq(kvr_max_remembered("rate", "a", 0), 3);
    write_cache("rate a = much\nrate b = nan\n");
    ck_assert_double_eq(kvr_max_remembered("rate", "a", 1), 1);
    ck_assert_double_eq(kvr_max_remembered("rate", "b", 1), 1);
    /* If the cache file cannot be written, kvr_max_remembered() returns the number that it was
     * given. */
    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    ck_assert_double_eq(kvr_max_remembered("rate", "a", 0.5), 0.5);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("result_cache");
    TCase *tc = tcase_create("result_cache");

    tcase_add_checked_fixture(tc, open_folder, close_folder);
    tcase_add_test(tc, a_large_file_is_read_once);
    tcase_add_test(tc, a_small_file_is_always_known);
    tcase_add_test(tc, the_best_of_all_runs_counts);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
