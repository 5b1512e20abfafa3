/* test_files.c - paths, atomic output files, the clock and the build's identity. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "harness/core/clock.h"
#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/core/version.h"
#include "tests/suite.h"

static void check_text(char *got, const char *want)
{
    ck_assert_ptr_nonnull(got);
    ck_assert_str_eq(got, want);
    free(got);
}

START_TEST(joining_and_splitting)
{
    check_text(kvr_path_join("a", "b"), "a/b");
    check_text(kvr_path_join("a/", "b"), "a/b");
    check_text(kvr_path_join("/", "b"), "/b");
    check_text(kvr_path_join("", "b"), "b");
    check_text(kvr_path_join("a", "/b"), "/b");
    check_text(kvr_path_dir("a/b/c"), "a/b");
    check_text(kvr_path_dir("a/b/"), "a");
    check_text(kvr_path_dir("a//b"), "a");
    check_text(kvr_path_dir("c"), ".");
    check_text(kvr_path_dir(""), ".");
    check_text(kvr_path_dir("/c"), "/");
    check_text(kvr_path_dir("/"), "/");
    ck_assert_str_eq(kvr_path_base("a/b.c"), "b.c");
    ck_assert_str_eq(kvr_path_base("b.c"), "b.c");
    ck_assert_str_eq(kvr_path_base("a/"), "");
}
END_TEST

static char *read_text(const char *path, char buf[64])
{
    FILE *f = fopen(path, "r");
    size_t n;

    ck_assert_ptr_nonnull(f);
    n = fread(buf, 1, 63, f);
    fclose(f);
    buf[n] = '\0';
    return buf;
}

static void put(const char *path, const char *text)
{
    struct kvr_out *o;

    ck_assert_int_eq(kvr_out_open(&o, path), KVR_OK);
    ck_assert_int_eq(kvr_out_write(o, text, strlen(text)), KVR_OK);
    ck_assert_int_eq(kvr_out_commit(&o), KVR_OK);
    ck_assert_ptr_null(o);
}

START_TEST(folders_and_whole_files)
{
    char root[] = "/tmp/kvreel-files-XXXXXX", deep[96], file[128], below[160], buf[64];
    struct kvr_out *o;

    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(deep, sizeof deep, "%s/x//y/z/", root);
    ck_assert(!kvr_path_exists(deep));
    ck_assert_int_eq(kvr_mkdirs(deep), KVR_OK);
    ck_assert_int_eq(kvr_mkdirs(deep), KVR_OK);
    ck_assert(kvr_path_exists(deep) && kvr_path_is_dir(deep));
    ck_assert_int_eq(kvr_mkdirs(""), KVR_EINVAL);

    snprintf(file, sizeof file, "%sfile", deep);
    put(file, "old");
    ck_assert(kvr_path_exists(file) && !kvr_path_is_dir(file));
    snprintf(below, sizeof below, "%s/below", file);
    ck_assert_int_eq(kvr_mkdirs(below), KVR_EIO);
    ck_assert_ptr_nonnull(strstr(kvr_error(), file));
    ck_assert_int_eq(kvr_mkdirs(file), KVR_EIO);

    ck_assert_int_eq(kvr_out_open(&o, file), KVR_OK);
    ck_assert_int_eq(kvr_out_write(o, "new", 3), KVR_OK);
    /* The old content stays until the commit. */
    ck_assert_str_eq(read_text(file, buf), "old");
    kvr_out_drop(&o);
    ck_assert_ptr_null(o);
    kvr_out_drop(&o);
    ck_assert_str_eq(read_text(file, buf), "old");
    put(file, "newer");
    ck_assert_str_eq(read_text(file, buf), "newer");
    ck_assert_int_eq(kvr_out_save(file, "newest text", 6), KVR_OK);
    ck_assert_str_eq(read_text(file, buf), "newest");
    ck_assert_int_eq(kvr_out_save(below, "x", 1), KVR_EIO);
    ck_assert_ptr_nonnull(strstr(kvr_error(), below));
    /* A folder cannot be opened for writing. */
    ck_assert_int_eq(kvr_out_open(&o, deep), KVR_EIO);
    ck_assert_ptr_null(o);

    ck_assert_int_eq(unlink(file), 0);
    /* rmdir() removes only empty folders, so it would fail if a temporary file were left. */
    while (strlen(deep) > strlen(root)) {
        char *up = kvr_path_dir(deep);

        ck_assert_int_eq(rmdir(deep), 0);
        ck_assert_ptr_nonnull(up);
        strcpy(deep, up);
        free(up);
    }
    ck_assert_int_eq(rmdir(root), 0);
}
END_TEST

static mode_t mode_of(const char *path)
{
    struct stat s;

    ck_assert_int_eq(lstat(path, &s), 0);
    return s.st_mode;
}

START_TEST(what_is_no_file_stays_what_it_is)
{
    char root[] = "/tmp/kvreel-files-XXXXXX", fifo[64], node[64], link[64], file[64], buf[64] = "";
    struct kvr_out *o;
    int reader;

    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(fifo, sizeof fifo, "%s/fifo", root);
    snprintf(node, sizeof node, "%s/node", root);
    snprintf(link, sizeof link, "%s/link", root);
    snprintf(file, sizeof file, "%s/file", root);

    ck_assert_int_eq(mkfifo(fifo, 0640), 0);
    reader = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    put(fifo, "through");
    ck_assert(S_ISFIFO(mode_of(fifo)));
    ck_assert_int_eq(read(reader, buf, sizeof buf), 7);
    ck_assert_str_eq(buf, "through");
    ck_assert_int_eq(kvr_out_open(&o, fifo), KVR_OK);
    kvr_out_drop(&o);
    ck_assert(S_ISFIFO(mode_of(fifo)));
    ck_assert_int_eq(close(reader), 0);

    /* A character device like /dev/null. Only root can make one; for other users, the check is
     * skipped. */
    if (mknod(node, S_IFCHR | 0600, makedev(1, 3)) == 0) {
        put(node, "nothing");
        ck_assert(S_ISCHR(mode_of(node)));
        unlink(node);
    }

    put(file, "old");
    ck_assert_int_eq(symlink(file, link), 0);
    ck_assert_int_eq(kvr_out_open(&o, link), KVR_EIO);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "symbolic link"));
    ck_assert(S_ISLNK(mode_of(link)));
    ck_assert_str_eq(read_text(file, buf), "old");

    ck_assert_int_eq(chmod(file, 0640), 0);
    put(file, "new");
    ck_assert_int_eq(mode_of(file) & 07777, 0640);
    ck_assert_str_eq(read_text(file, buf), "new");

    /* The path becomes a symbolic link while the file is being written. */
    ck_assert_int_eq(unlink(link), 0);
    ck_assert_int_eq(kvr_out_open(&o, link), KVR_OK);
    ck_assert_int_eq(symlink(file, link), 0);
    ck_assert_int_eq(kvr_out_commit(&o), KVR_EIO);
    ck_assert(S_ISLNK(mode_of(link)));

    unlink(link);
    unlink(file);
    unlink(fifo);
    ck_assert_int_eq(rmdir(root), 0);
}
END_TEST

START_TEST(clock_moves_forward)
{
    int64_t t0 = kvr_now_ns(), t1;

    usleep(2000);
    t1 = kvr_now_ns();
    ck_assert_int_ge(t1 - t0, 2000000); /* usleep sleeps at least this long */
}
END_TEST

START_TEST(the_build_knows_itself)
{
    int major = -1, minor = -1, patch = -1;
    size_t n = strlen(kvr_git_hash());

    ck_assert_int_eq(sscanf(kvr_version(), "%d.%d.%d", &major, &minor, &patch), 3);
    ck_assert(n == 40 || strcmp(kvr_git_hash(), "unknown") == 0);
    ck_assert_ptr_nonnull(strstr(kvr_compiler(), __VERSION__));
    ck_assert_ptr_nonnull(kvr_cflags());
}
END_TEST

int main(void)
{
    Suite *s = suite_create("files");
    TCase *tc = tcase_create("files");

    tcase_add_test(tc, joining_and_splitting);
    tcase_add_test(tc, folders_and_whole_files);
    tcase_add_test(tc, what_is_no_file_stays_what_it_is);
    tcase_add_test(tc, clock_moves_forward);
    tcase_add_test(tc, the_build_knows_itself);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
