/* test_safetensors.c - reading valid and malformed files, and writing. */
#include "harness/core/safetensors.h"
#include "harness/device/array.h"
#include "tests/suite.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Simulates a full disk: this write() replaces the C library's. */
static size_t disk_left = SIZE_MAX;

ssize_t write(int fd, const void *p, size_t n)
{
    if (n > disk_left)
        n = disk_left;
    if (n == 0 && disk_left == 0) {
        errno = ENOSPC;
        return -1;
    }
    if (disk_left != SIZE_MAX)
        disk_left -= n;
    return (ssize_t)syscall(SYS_write, fd, p, n);
}

/* Builds a file in memory from length, header and data. The allocation has the file's exact size,
 * so that sanitizers detect overreads. */
static unsigned char *build(const char *header, size_t n_data, size_t *n)
{
    size_t len = strlen(header);
    unsigned char *bytes = malloc(8 + len + n_data);

    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)len >> (8 * i));
    memcpy(bytes + 8, header, len);
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + len + i] = (unsigned char)(i * 37 + 1);
    *n = 8 + len + n_data;
    return bytes;
}

#define ENTRY(name, dtype, shape, offsets)                                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define A(dtype, shape, offsets) "{" ENTRY("a", dtype, shape, offsets) "}"

static const char small[] =
    "{\"__metadata__\":{\"format\":\"pt\"}," ENTRY("b", "F32", "[2]", "[6,14]") "," ENTRY(
        "a", "BF16", "[3,1]", "[0,6]") "," ENTRY("empty", "I64", "[0,5]",
                                                 "[6,6]") "," ENTRY("scalar", "U8", "[]",
                                                                    "[14,15]") "}";

START_TEST(good_file)
{
    size_t n;
    unsigned char *bytes = build(small, 15, &n);
    struct kvr_tensor t;
    struct kvr_st *f;

    ck_assert_int_eq(kvr_st_open_memory(&f, bytes, n, "small"), KVR_OK);
    ck_assert_int_eq(kvr_st_count(f), 4);
    /* Tensors are ordered by data offset, not by header position. */
    ck_assert_str_eq(kvr_st_name(f, 0), "a");
    ck_assert_str_eq(kvr_st_name(f, 1), "empty");
    ck_assert_str_eq(kvr_st_name(f, 2), "b");
    ck_assert_str_eq(kvr_st_name(f, 3), "scalar");
    ck_assert_str_eq(kvr_st_path(f), "small");
    ck_assert_str_eq(kvr_st_metadata(f, "format"), "pt");
    ck_assert_ptr_null(kvr_st_metadata(f, "b"));
    ck_assert(kvr_st_has(f, "a") && !kvr_st_has(f, "__metadata__") && !kvr_st_has(f, "A"));

    ck_assert_int_eq(kvr_st_get(f, "scalar", &t), KVR_OK);
    ck_assert_int_eq(t.n_dims, 0);
    ck_assert_int_eq(t.dtype, KVR_U8);
    ck_assert_ptr_eq(t.data, bytes + n - 1);
    ck_assert_int_eq(kvr_st_get(f, "empty", &t), KVR_OK);
    ck_assert_int_eq(kvr_tensor_count(&t), 0);
    ck_assert_int_eq(kvr_st_get(f, "c", &t), KVR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "small"));
    ck_assert_ptr_nonnull(strstr(kvr_error(), "'c'"));
    kvr_st_close(&f);
    ck_assert_ptr_null(f);
    kvr_st_close(&f);
    free(bytes);
}
END_TEST

START_TEST(no_tensors_at_all)
{
    static const char *const headers[] = { "{}", "{}   ", "{\"__metadata__\":{}}",
                                           "{\"__metadata__\":null}" };

    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        size_t n;
        unsigned char *bytes = build(headers[i], 0, &n);
        struct kvr_st *f;

        ck_assert_int_eq(kvr_st_open_memory(&f, bytes, n, "none"), KVR_OK);
        ck_assert_int_eq(kvr_st_count(f), 0);
        ck_assert(!kvr_st_has(f, "a"));
        ck_assert_ptr_null(kvr_st_metadata(f, "a"));
        kvr_st_close(&f);
        free(bytes);
    }
}
END_TEST

/* The reference reader (safetensors 0.8.0) accepts these files, too. */
START_TEST(what_the_reference_reads)
{
    static const char entry[] = "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]";
    char headers[3][160];

    snprintf(headers[0], sizeof headers[0], "{\"__metadata__\":null,\"a\":{%s}}", entry);
    snprintf(headers[1], sizeof headers[1], "{\"a\":{%s,\"codec\":{\"bits\":4}}}", entry);
    snprintf(headers[2], sizeof headers[2], "{\"a\":{\"x\":null,%s},\"__metadata__\":null}  ",
             entry);
    for (int i = 0; i < 3; i++) {
        size_t n;
        unsigned char *bytes = build(headers[i], 8, &n);
        struct kvr_st *f;

        ck_assert_msg(kvr_st_open_memory(&f, bytes, n, "ref") == KVR_OK, "%s", kvr_error());
        ck_assert_int_eq(kvr_st_count(f), 1);
        ck_assert_ptr_null(kvr_st_metadata(f, "a"));
        kvr_st_close(&f);
        free(bytes);
    }
}
END_TEST

/* Malformed headers. The error message must contain the file name and both strings `says`. */
static const struct {
    const char *header;
    size_t n_data;
    const char *says[2];
} hostile[] = {
    /* not a JSON object */
    { "", 0, { "JSON object", "" } },
    { " {}", 0, { "JSON object", "" } },
    { "[]", 0, { "JSON object", "" } },
    { "null", 0, { "JSON object", "" } },
    { "{", 0, { "header byte", "" } },
    { "{}x", 0, { "header byte", "" } },
    { "{}{}", 0, { "header byte", "" } },
    { "{'a':1}", 0, { "header byte", "" } },
    { "{\"\xff\":{}}", 0, { "header byte", "" } },
    { "{\"a\\u0000b\":{}}", 0, { "header byte", "" } },
    { "{" ENTRY("a", "U8", "[1]", "[0,1]") ",}", 1, { "header byte", "" } },
    /* duplicate keys */
    { "{" ENTRY("a", "U8", "[1]", "[0,1]") "," ENTRY("a", "U8", "[1]", "[1,2]") "}",
      2,
      { "duplicate", "\"a\"" } },
    { "{" ENTRY("a", "U8", "[1]", "[0,1]") "," ENTRY("\\u0061", "U8", "[1]", "[1,2]") "}",
      2,
      { "duplicate", "\"\\u0061\"" } },
    { "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
      1,
      { "duplicate", "dtype" } },
    { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, { "duplicate", "__metadata__" } },
    /* metadata */
    { "{\"__metadata__\":[]}", 0, { "__metadata__", "object" } },
    { "{\"__metadata__\":{\"epoch\":3}}", 0, { "__metadata__", "'epoch'" } },
    /* entries */
    { "{\"a\":[]}", 0, { "'a'", "object" } },
    { "{\"a\":{}}", 0, { "'a'", "dtype is missing" } },
    { "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", 0, { "'a'", "shape is missing" } },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, { "'a'", "data_offsets is missing" } },
    /* dtypes */
    { "{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, { "'a'", "string" } },
    { A("F31", "[1]", "[0,4]"), 4, { "'a'", "'F31'" } },
    { A("f32", "[1]", "[0,4]"), 4, { "'a'", "'f32'" } },
    { A("", "[1]", "[0,4]"), 4, { "'a'", "''" } },
    /* shapes */
    { A("U8", "4", "[0,4]"), 4, { "'a'", "shape" } },
    { A("U8", "[-4]", "[0,4]"), 4, { "'a'", "shape[0] is -4" } },
    { A("U8", "[-2,-2]", "[0,4]"), 4, { "'a'", "shape[0] is -2" } },
    { A("U8", "[2,2.0]", "[0,4]"), 4, { "'a'", "shape[1]" } },
    { A("U8", "[\"4\"]", "[0,4]"), 4, { "'a'", "shape[0]" } },
    { A("U8", "[true]", "[0,1]"), 1, { "'a'", "shape[0]" } },
    { A("U8", "[null]", "[0,0]"), 0, { "'a'", "shape[0]" } },
    { A("U8", "[[4]]", "[0,4]"), 4, { "'a'", "shape[0]" } },
    { A("U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]"), 4, { "'a'", "9 dimensions" } },
    { A("U8", "[9223372036854775808]", "[0,4]"), 4, { "header byte", "" } },
    { A("F32", "[4611686018427387905]", "[0,4]"), 4, { "'a'", "overflows" } },
    { A("U8", "[4294967296,4294967297]", "[0,4294967296]"), 4, { "'a'", "" } },
    { A("U8", "[4294967296,4294967296]", "[0,0]"), 0, { "'a'", "overflows" } },
    { A("U8", "[4294967296,4294967296,0]", "[0,0]"), 0, { "'a'", "overflows" } },
    { A("F64", "[2305843009213693953]", "[0,8]"), 8, { "'a'", "overflows" } },
    /* offsets */
    { A("U8", "[4]", "4"), 4, { "'a'", "data_offsets" } },
    { A("U8", "[4]", "[4]"), 4, { "'a'", "two integers" } },
    { A("U8", "[4]", "[0,4,8]"), 4, { "'a'", "two integers" } },
    { A("U8", "[4]", "[0.0,4.0]"), 4, { "'a'", "two integers" } },
    { A("U8", "[4]", "[0,\"4\"]"), 4, { "'a'", "two integers" } },
    { A("U8", "[4]", "[0,NaN]"), 4, { "header byte", "" } },
    { A("U8", "[4]", "[0,1e400]"), 4, { "header byte", "" } },
    { A("U8", "[4]", "[0,4e0]"), 4, { "'a'", "two integers" } },
    { A("U8", "[4]", "[-4,0]"), 4, { "'a'", "negative" } },
    { A("U8", "[4]", "[4,0]"), 4, { "'a'", "ascending" } },
    { A("U8", "[4]", "[0,-4]"), 4, { "'a'", "ascending" } },
    { A("U8", "[4]", "[-9223372036854775808,9223372036854775807]"), 4, { "'a'", "negative" } },
    { A("U8", "[4]", "[0,4]"), 3, { "'a'", "truncated" } },
    { A("U8", "[4]", "[4,8]"), 4, { "'a'", "truncated" } },
    { A("U8", "[4]", "[9223372036854775800,9223372036854775804]"), 4, { "'a'", "truncated" } },
    { A("F32", "[1]", "[0,2]"), 2, { "'a'", "need 4" } },
    { A("F32", "[1]", "[0,8]"), 8, { "'a'", "need 4" } },
    { A("F32", "[0]", "[0,4]"), 4, { "'a'", "need 0" } },
    { A("F32", "[]", "[0,0]"), 0, { "'a'", "need 4" } },
    /* layout */
    { A("U8", "[3]", "[1,4]"), 4, { "'a'", "gap" } },
    { A("U8", "[3]", "[0,3]"), 4, { "'a'", "1 bytes after" } },
    { "{}", 1, { "1 bytes after", "" } },
    { "{" ENTRY("a", "U8", "[2]", "[0,2]") "," ENTRY("b", "U8", "[1]", "[3,4]") "}",
      4,
      { "'b'", "gap of 1" } },
    { "{" ENTRY("a", "U8", "[3]", "[0,3]") "," ENTRY("b", "U8", "[2]", "[2,4]") "}",
      4,
      { "'b'", "overlaps tensor 'a'" } },
    { "{" ENTRY("a", "U8", "[4]", "[0,4]") "," ENTRY("b", "U8", "[4]", "[0,4]") "}",
      4,
      { "'b'", "overlaps tensor 'a'" } },
    { "{" ENTRY("a", "U8", "[4]", "[0,4]") "," ENTRY("b", "U8", "[2]", "[1,3]") "}",
      4,
      { "'b'", "overlaps tensor 'a'" } },
    { "{" ENTRY("a", "U8", "[4]", "[0,4]") "," ENTRY("b", "U8", "[0]", "[2,2]") "}",
      4,
      { "'b'", "overlaps" } },
    { "{" ENTRY("a", "F4", "[8]", "[0,4]") "}", 4, { "'a': unknown dtype 'F4'", "BF16, F8_E4M3" } },
    { "{" ENTRY("a", "F8_E8M0", "[4]", "[0,4]") "}", 4, { "dtype 'F8_E8M0'", "I64; convert" } },
    { "{" ENTRY("a", "F6_E2M3", "[4]", "[0,3]") "}", 3, { "dtype 'F6_E2M3'", "F32, F64" } },
    { "{" ENTRY("a", "F8_E4M3FNUZ", "[4]", "[0,4]") "}", 4, { "'F8_E4M3FNUZ'", "F8_E5M2" } },
    { "{" ENTRY("a", "C64", "[1]", "[0,8]") "}", 8, { "dtype 'C64'", "need one of" } },
};

static void refuse(const void *bytes, size_t n, const char *what, const char *const says[2])
{
    struct kvr_st *f = (void *)1;
    enum kvr_status st = kvr_st_open_memory(&f, bytes, n, "evil.file");

    ck_assert_msg(st == KVR_EFORMAT, "%s: %s", what, kvr_status_name(st));
    ck_assert_ptr_null(f);
    ck_assert_msg(strncmp(kvr_error(), "evil.file: ", 11) == 0, "%s: no file in '%s'", what,
                  kvr_error());
    for (int i = 0; i < 2; i++)
        ck_assert_msg(strstr(kvr_error(), says[i]), "%s: '%s' does not say '%s'", what, kvr_error(),
                      says[i]);
}

START_TEST(headers_that_lie)
{
    size_t n;
    unsigned char *bytes = build(hostile[_i].header, hostile[_i].n_data, &n);

    refuse(bytes, n, hostile[_i].header, hostile[_i].says);
    free(bytes);
}
END_TEST

START_TEST(header_lengths_that_lie)
{
    static const uint64_t lengths[] = {
        3, 100, 99999999, 100000001, 1ull << 32, 1ull << 63, UINT64_MAX, UINT64_MAX - 7,
    };
    static const char *const says[2] = { "header has", "" };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        unsigned char *bytes = malloc(10);

        ck_assert_ptr_nonnull(bytes);
        for (int j = 0; j < 8; j++)
            bytes[j] = (unsigned char)(lengths[i] >> (8 * j));
        memcpy(bytes + 8, "{}", 2);
        refuse(bytes, 10, "length", says);
        free(bytes);
    }
}
END_TEST

START_TEST(deep_nesting)
{
    static const char *const says[2] = { "depth", "" };
    enum { DEPTH = 200000 };
    char *header = malloc(DEPTH + 6);
    unsigned char *bytes;
    size_t n;

    ck_assert_ptr_nonnull(header);
    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', DEPTH);
    header[DEPTH + 5] = '\0';
    bytes = build(header, 0, &n);
    refuse(bytes, n, "nesting", says);
    free(bytes);
    free(header);
}
END_TEST

START_TEST(truncated_anywhere)
{
    static const char *const says[2] = { "", "" };
    size_t n;
    unsigned char *whole = build(small, 15, &n);

    for (size_t cut = 0; cut < n; cut++) {
        unsigned char *bytes = malloc(cut ? cut : 1);

        ck_assert_ptr_nonnull(bytes);
        memcpy(bytes, whole, cut);
        refuse(bytes, cut, "truncated", says);
        free(bytes);
    }
    free(whole);
}
END_TEST

/* Replaces each byte of a small file by characters of JSON syntax and by other values. The reader
 * must refuse the file, or return only tensors that lie inside the file. */
START_TEST(damaged_anywhere)
{
    static const unsigned char with[] = {
        0, 1, '"', '-', '9', '[', ']', '{', '}', ',', 0x7f, 0xff
    };
    int accepted = 0, refused = 0;
    size_t n;
    unsigned char *bytes = build(small, 15, &n);

    for (size_t at = 0; at < n; at++) {
        unsigned char was = bytes[at];

        for (size_t k = 0; k < sizeof with; k++) {
            struct kvr_st *f;

            bytes[at] = with[k];
            if (kvr_st_open_memory(&f, bytes, n, "damaged") != KVR_OK) {
                refused++;
                continue;
            }
            accepted++;
            for (int i = 0; i < kvr_st_count(f); i++) {
                struct kvr_tensor t;

                ck_assert_int_eq(kvr_st_view(f, kvr_st_name(f, i), &t), KVR_OK);
                ck_assert((unsigned char *)t.data + kvr_tensor_bytes(&t) <= bytes + n);
                ck_assert_int_eq(kvr_st_get(f, kvr_st_name(f, i), &t), KVR_OK);
                ck_assert(kvr_tensor_bytes(&t) == 0 ||
                          (uintptr_t)t.data % kvr_dtype_size(t.dtype) == 0);
            }
            kvr_st_close(&f);
        }
        bytes[at] = was;
    }
    /* Some files remain valid: if the byte belongs to the data or is a letter of a name. */
    ck_assert_int_gt(accepted, 0);
    ck_assert_int_gt(refused, accepted);
    free(bytes);
}
END_TEST

START_TEST(shapes_are_checked_and_both_are_said)
{
    size_t n;
    unsigned char *bytes = build(small, 15, &n);
    struct kvr_tensor t;
    struct kvr_st *f;

    ck_assert_int_eq(kvr_st_open_memory(&f, bytes, n, "small"), KVR_OK);
    ck_assert_int_eq(kvr_st_get_shaped(f, "empty", 2, (int64_t[]){ 0, 5 }, &t), KVR_OK);
    ck_assert_int_eq(kvr_st_get_shaped(f, "empty", 2, (int64_t[]){ -1, 5 }, &t), KVR_OK);
    ck_assert_int_eq(kvr_st_get_shaped(f, "empty", 2, (int64_t[]){ 5, 0 }, &t), KVR_EFORMAT);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "shape is [0, 5], need [5, 0]"));
    ck_assert_int_eq(kvr_st_get_shaped(f, "scalar", 0, NULL, &t), KVR_OK);
    ck_assert_int_eq(kvr_st_get_shaped(f, "scalar", 1, (int64_t[]){ -1 }, &t), KVR_EFORMAT);
    ck_assert_ptr_null(t.data);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "small: tensor 'scalar': shape is [], need [-1]"));
    kvr_st_close(&f);
    free(bytes);
}
END_TEST

/* A tensor at an unaligned address is copied once, to aligned memory. */
START_TEST(unaligned_data)
{
    static const char header[] =
        "{" ENTRY("u", "U8", "[1]", "[0,1]") "," ENTRY("x", "F32", "[2]", "[1,9]") "}";
    const float want[2] = { 1.5f, -2.0f };
    struct kvr_array a = { 0 };
    struct kvr_tensor t, again;
    struct kvr_dev *dev;
    struct kvr_st *f;
    size_t n;
    unsigned char *bytes = build(header, 9, &n);
    unsigned char *odd = malloc(n + 4), *at = odd;

    ck_assert_ptr_nonnull(odd);
    while ((uintptr_t)(at + n - 8) % 4 != 1)
        at++;
    memcpy(at, bytes, n);
    memcpy(at + n - 8, want, 8);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_st_open_memory(&f, at, n, "odd"), KVR_OK);
    ck_assert_int_eq(kvr_st_get(f, "x", &t), KVR_OK);
    ck_assert_uint_eq((uintptr_t)t.data % sizeof(float), 0);
    ck_assert_int_eq(memcmp(t.data, want, sizeof want), 0);
    ck_assert_int_eq(kvr_st_get(f, "x", &again), KVR_OK);
    ck_assert_ptr_eq(again.data, t.data);
    ck_assert_int_eq(kvr_array_read(&a, dev, KVR_MEM_IO, f, "x", 1, (int64_t[]){ 2 }), KVR_OK);
    ck_assert_int_eq(memcmp(a.t.data, want, sizeof want), 0);
    kvr_array_free(&a);
    ck_assert_int_eq(kvr_array_read(&a, dev, KVR_MEM_IO, f, "u", 1, (int64_t[]){ 1 }), KVR_EFORMAT);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "U8"));
    kvr_mem_fail_after(dev, 1);
    ck_assert_int_eq(kvr_array_read(&a, dev, KVR_MEM_IO, f, "x", 1, (int64_t[]){ 2 }), KVR_ENOMEM);
    kvr_st_close(&f);
    kvr_dev_close(&dev);
    free(odd);
    free(bytes);
}
END_TEST

/* A temporary folder for files. */
static char dir[PATH_MAX], target[PATH_MAX + 32];

static void make_dir(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(dir, sizeof dir, "%s/kvreel-st-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(target, sizeof target, "%s/t.safetensors", dir);
}

static void remove_dir(void)
{
    unlink(target);
    ck_assert_msg(rmdir(dir) == 0, "%s: something was left behind: %s", dir, strerror(errno));
}

static int count_files(void)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    ck_assert_ptr_nonnull(d);
    while ((e = readdir(d)))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static uint8_t bytes_data[3] = { 1, 2, 3 };
static float float_data[4] = { 1.0f, -0.0f, 3.5f, 1e-30f };
static double double_data[2] = { 1e300, -2.0 };
static kvr_bf16 half_data[5] = { 0x3f80, 0x4000, 0x4040, 0xc080, 0 };
static const struct kvr_st_item items[] = {
    { "bytes", { bytes_data, KVR_U8, 1, { 3 } } },
    { "weight", { float_data, KVR_F32, 2, { 2, 2 } } },
    { "n\"ame \xc3\xa9/\n", { double_data, KVR_F64, 1, { 2 } } },
    { "half", { half_data, KVR_BF16, 3, { 1, 5, 1 } } },
    { "empty", { NULL, KVR_F32, 2, { 3, 0 } } },
    { "one", { &bytes_data[2], KVR_I8, 0, { 0 } } },
};
enum { N_ITEMS = sizeof items / sizeof *items };
static const char *const metadata[] = { "made", "by a test", "model", "\xe2\x82\xac \\ \"", NULL };

static void check_round_trip(void)
{
    struct kvr_st *f;

    ck_assert_msg(kvr_st_open(&f, target) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_st_count(f), N_ITEMS);
    ck_assert_str_eq(kvr_st_metadata(f, "made"), "by a test");
    ck_assert_str_eq(kvr_st_metadata(f, "model"), metadata[3]);
    for (int i = 0; i < N_ITEMS; i++) {
        const struct kvr_tensor *want = &items[i].t;
        struct kvr_tensor t;

        ck_assert_msg(kvr_st_get_shaped(f, items[i].name, want->n_dims, want->shape, &t) == KVR_OK,
                      "%s", kvr_error());
        ck_assert_int_eq(t.dtype, want->dtype);
        ck_assert_uint_eq((uintptr_t)t.data % kvr_dtype_size(t.dtype), 0);
        if (kvr_tensor_bytes(want) > 0)
            ck_assert_int_eq(memcmp(t.data, want->data, kvr_tensor_bytes(want)), 0);
    }
    kvr_st_close(&f);
}

START_TEST(what_is_written_reads_back)
{
    struct stat sb;
    mode_t mask = umask(022);

    make_dir();
    ck_assert_msg(kvr_st_write(target, items, N_ITEMS, metadata) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(stat(target, &sb), 0);
    ck_assert_int_eq(sb.st_mode & 0777, 0644);
    check_round_trip();
    /* The file is overwritten. */
    ck_assert_int_eq(kvr_st_write(target, items, N_ITEMS, metadata), KVR_OK);
    check_round_trip();
    ck_assert_int_eq(count_files(), 1);
    umask(mask);
    remove_dir();
}
END_TEST

START_TEST(nothing_is_written_as_an_empty_file)
{
    struct kvr_st *f;

    make_dir();
    ck_assert_int_eq(kvr_st_write(target, NULL, 0, NULL), KVR_OK);
    ck_assert_int_eq(kvr_st_open(&f, target), KVR_OK);
    ck_assert_int_eq(kvr_st_count(f), 0);
    kvr_st_close(&f);
    remove_dir();
}
END_TEST

START_TEST(read_f32_converts)
{
    struct kvr_array a = { 0 };
    struct kvr_dev *dev;
    struct kvr_st *f;

    make_dir();
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_st_write(target, items, N_ITEMS, NULL), KVR_OK);
    ck_assert_int_eq(kvr_st_open(&f, target), KVR_OK);
    ck_assert_int_eq(
        kvr_array_read(&a, dev, KVR_MEM_WEIGHTS, f, "half", 3, (int64_t[]){ 1, -1, 1 }), KVR_OK);
    ck_assert_int_eq(a.t.dtype, KVR_F32);
    ck_assert_int_eq(a.t.shape[1], 5);
    for (int i = 0; i < 5; i++)
        ck_assert(((float *)a.t.data)[i] == kvr_bf16_to_f32(half_data[i]));
    kvr_array_free(&a);
    kvr_st_close(&f);
    kvr_dev_close(&dev);
    remove_dir();
}
END_TEST

/* Simulates a disk that becomes full after k bytes, for every k below the file's size. The old file
 * stays unchanged, and no temporary file is left. */
START_TEST(full_disk_leaves_the_old_file)
{
    struct stat sb;

    make_dir();
    ck_assert_int_eq(kvr_st_write(target, items, N_ITEMS, metadata), KVR_OK);
    ck_assert_int_eq(stat(target, &sb), 0);
    for (off_t room = 0; room < sb.st_size; room++) {
        float other[2] = { 9, 9 };
        struct kvr_st_item more[N_ITEMS + 1];
        enum kvr_status st;

        memcpy(more, items, sizeof items);
        more[N_ITEMS] = (struct kvr_st_item){ "more", { other, KVR_F32, 1, { 2 } } };
        disk_left = (size_t)room;
        st = kvr_st_write(target, more, N_ITEMS + 1, metadata);
        disk_left = SIZE_MAX;
        ck_assert_int_eq(st, KVR_EFULL);
        ck_assert_ptr_nonnull(strstr(kvr_error(), target));
        ck_assert_int_eq(count_files(), 1);
    }
    check_round_trip();
    remove_dir();
}
END_TEST

START_TEST(unwritable_places)
{
    char path[PATH_MAX + 64];

    make_dir();
    snprintf(path, sizeof path, "%s/no/such/folder.safetensors", dir);
    ck_assert_int_eq(kvr_st_write(path, items, N_ITEMS, NULL), KVR_EIO);
    ck_assert_ptr_nonnull(strstr(kvr_error(), path));
    /* The target is a folder. */
    ck_assert_int_eq(kvr_st_write(dir, items, N_ITEMS, NULL), KVR_EIO);
    ck_assert_int_eq(kvr_st_write(target, items, N_ITEMS, metadata), KVR_OK);
    /* For root, chmod() would not prevent the write. */
    if (geteuid() != 0) {
        ck_assert_int_eq(chmod(dir, 0500), 0);
        ck_assert_int_eq(kvr_st_write(target, items, 1, NULL), KVR_EIO);
        ck_assert_int_eq(chmod(dir, 0700), 0);
    }
    check_round_trip();
    remove_dir();
}
END_TEST

START_TEST(impossible_items_are_refused)
{
    static const struct kvr_st_item bad[][2] = {
        { { "a", { bytes_data, KVR_U8, 1, { 1 } } }, { "a", { bytes_data, KVR_U8, 1, { 1 } } } },
        { { "a", { bytes_data, KVR_U8, 1, { 1 } } },
          { "__metadata__", { bytes_data, KVR_U8, 1, { 1 } } } },
        { { "a", { bytes_data, KVR_U8, 1, { 1 } } }, { "b", { bytes_data, KVR_U8, 1, { -1 } } } },
        { { "a", { bytes_data, KVR_U8, 1, { 1 } } },
          { "b", { NULL, KVR_F64, 2, { 1ll << 40, 1ll << 40 } } } },
        { { "a", { bytes_data, KVR_U8, 1, { 1 } } }, { "\xff", { bytes_data, KVR_U8, 1, { 1 } } } },
        { { "a", { bytes_data, KVR_U8, 1, { 1 } } }, { "b", { bytes_data, KVR_U8, 9, { 1 } } } },
        { { "a", { bytes_data, KVR_U8, 1, { 1 } } },
          { "b", { bytes_data, KVR_N_DTYPES, 1, { 1 } } } },
    };
    static const char *const twice[] = { "k", "1", "k", "2", NULL };
    static const char *const half[] = { "k", NULL };
    static const char *const binary[] = { "k", "\xff", NULL };

    make_dir();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(kvr_st_write(target, bad[i], 2, NULL), KVR_EINVAL);
    ck_assert_int_eq(kvr_st_write(target, items, 1, twice), KVR_EINVAL);
    ck_assert_int_eq(kvr_st_write(target, items, 1, half), KVR_EINVAL);
    ck_assert_int_eq(kvr_st_write(target, items, 1, binary), KVR_EINVAL);
    ck_assert_int_eq(count_files(), 0);
    remove_dir();
}
END_TEST

START_TEST(files_that_are_none)
{
    struct kvr_st *f = (void *)1;
    FILE *file;

    make_dir();
    ck_assert_int_eq(kvr_st_open(&f, target), KVR_ENOTFOUND);
    ck_assert_ptr_null(f);
    ck_assert_ptr_nonnull(strstr(kvr_error(), target));
    ck_assert_int_eq(kvr_st_open(&f, dir), KVR_EIO);
    ck_assert_int_eq(mkfifo(target, 0600), 0);
    /* A FIFO is refused without waiting for a writer. */
    ck_assert_int_eq(kvr_st_open(&f, target), KVR_EIO);
    unlink(target);
    file = fopen(target, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert_int_eq(kvr_st_open(&f, target), KVR_EFORMAT); /* an empty file */
    ck_assert_ptr_nonnull(strstr(kvr_error(), target));
    remove_dir();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("safetensors");
    TCase *tc = tcase_create("safetensors");

    tcase_add_test(tc, good_file);
    tcase_add_test(tc, no_tensors_at_all);
    tcase_add_test(tc, what_the_reference_reads);
    tcase_add_loop_test(tc, headers_that_lie, 0, sizeof hostile / sizeof *hostile);
    tcase_add_test(tc, header_lengths_that_lie);
    tcase_add_test(tc, deep_nesting);
    tcase_add_test(tc, truncated_anywhere);
    tcase_add_test(tc, damaged_anywhere);
    tcase_add_test(tc, shapes_are_checked_and_both_are_said);
    tcase_add_test(tc, unaligned_data);
    tcase_add_test(tc, what_is_written_reads_back);
    tcase_add_test(tc, nothing_is_written_as_an_empty_file);
    tcase_add_test(tc, read_f32_converts);
    tcase_add_test(tc, full_disk_leaves_the_old_file);
    tcase_add_test(tc, unwritable_places);
    tcase_add_test(tc, impossible_items_are_refused);
    tcase_add_test(tc, files_that_are_none);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
