/* cases_stream.c - memory, time and graphs of a stream, on any backend. test_stream.c has the
 * checks that only an emulated device can make. */
#include "methods/codecs/hadamard/fwht_cuda.h"
#include "tests/cuda/both.h"

enum { ROWS = 6, DIM = 64, N = ROWS * DIM };

static struct kvr_stream *open_stream(void)
{
    struct kvr_stream *s;

    ck_assert_msg(kvr_stream_open(&s) == KVR_OK, "%s", kvr_error());
    return s;
}

static float *device(struct kvr_stream *s)
{
    void *p;

    ck_assert_msg(kvr_device_alloc(s, &p, N * sizeof(float)) == KVR_OK, "%s", kvr_error());
    return p;
}

static void expect_refusal(enum kvr_status st, const char *call)
{
    ck_assert_msg(st == KVR_EINVAL && strstr(kvr_error(), call), "%s: %s, %s", call,
                  kvr_status_name(st), kvr_error());
}

START_TEST(a_device_tells_of_itself)
{
    struct kvr_device_info info;

    ck_assert_msg(kvr_device_info(both_stream, &info) == KVR_OK, "%s", kvr_error());
    ck_assert(info.name[0] && info.free_bytes > 0 && info.free_bytes <= info.total_bytes);
    ck_assert(info.n_sm > 0 && info.n_sm == kvr_stream_n_sm(both_stream));
    ck_assert(kvr_device_build()->emulated == kvr_stream_emulated());
    if (kvr_stream_emulated())
        ck_assert(info.major == 0 && info.driver == 0 && !kvr_device_build()->archs[0]);
    else
        ck_assert(info.major >= 8 && info.driver >= 12000 && info.runtime >= 12000 &&
                  info.l2_bytes > 0 && kvr_device_build()->archs[0]);
}
END_TEST

START_TEST(a_full_device_says_so)
{
    struct kvr_stream *s = open_stream();
    struct kvr_device_info before, after;
    char asked[64];
    void *p;

    ck_assert(kvr_device_info(s, &before) == KVR_OK);
    snprintf(asked, sizeof asked, "%zu bytes requested", 2 * before.total_bytes);
    ck_assert(!kvr_stream_was_full(s));
    ck_assert(kvr_device_alloc(s, &p, 2 * before.total_bytes) == KVR_ENOMEM && !p);
    ck_assert_msg(strstr(kvr_error(), asked) && strstr(kvr_error(), "free"), "%s", kvr_error());
    ck_assert(kvr_stream_was_full(s));
    /* After an error, the stream remains usable and its accounting correct. */
    ck_assert_msg(kvr_device_alloc(s, &p, 1 << 20) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert(kvr_device_info(s, &after) == KVR_OK && after.taken_peak_bytes >= 1 << 20);
    kvr_device_free(s, p);
    kvr_stream_close(&s);
    ck_assert(!s);
}
END_TEST

/* Copies and fills at all 16 alignments of source and target, between guard bytes. */
START_TEST(copies_and_fills)
{
    unsigned char x[257], got[300], want[300];
    unsigned char *to;
    const size_t at = (size_t)_i, n = sizeof x - at;

    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (unsigned char)(7 * i);
    to = both_out(sizeof got);
    kvr_device_fill(both_stream, to, 0xa5, sizeof got);
    kvr_device_copy(both_stream, to + at + 11, (unsigned char *)both_in(x, sizeof x) + at, n);
    kvr_device_copy(both_stream, to, to + 100, 0);
    memset(want, 0xa5, sizeof want);
    memcpy(want + at + 11, x + at, n);
    both_get(got, to, sizeof got, "copy");
    ck_assert_mem_eq(got, want, sizeof got);
    both_free();
}
END_TEST

START_TEST(marks_are_in_order)
{
    struct kvr_stream *s = open_stream();
    float x[N] = { 1 }, *d = device(s);
    int64_t first = 0, last = 0, ns = -1, back = 1;

    ck_assert(kvr_device_put(s, d, x, sizeof x) == KVR_OK);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 100; i++) {
            last = kvr_stream_mark(s);
            first = i ? first : last;
            kvr_fwht_cuda(s, d, ROWS, DIM, KVR_COMPUTE_F32);
        }
        ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
        ck_assert(kvr_stream_elapsed(s, first, last, &ns) == KVR_OK);
        ck_assert(kvr_stream_elapsed(s, last, first, &back) == KVR_OK);
        ck_assert_msg(ns > 0 && back == -ns, "%lld, %lld", (long long)ns, (long long)back);
        kvr_stream_forget_marks(s);
        ck_assert(kvr_stream_elapsed(s, first, last, &ns) == KVR_EINVAL);
    }
    kvr_stream_close(&s);
}
END_TEST

/* Enqueues a copy, a fill and two transforms: copies `from` to `to`, zeroes the first half of `to`,
 * transforms all rows, and transforms the second half again. */
static void some_work(struct kvr_stream *s, float *to, const float *from)
{
    kvr_device_copy(s, to, from, N * sizeof *to);
    kvr_device_fill(s, to, 0, N / 2 * sizeof *to);
    kvr_fwht_cuda(s, to, ROWS, DIM, KVR_COMPUTE_F32);
    kvr_fwht_cuda(s, to + N / 2, ROWS / 2, DIM, KVR_COMPUTE_F32);
}

START_TEST(a_graph_does_it_again)
{
    struct kvr_stream *s = open_stream();
    float x[N], plain[N], got[N], *from = device(s), *to = device(s);
    struct kvr_graph *g;

    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 11) - 5;
    ck_assert(kvr_device_put(s, from, x, sizeof x) == KVR_OK);
    some_work(s, to, from);
    ck_assert(kvr_device_get(s, plain, to, sizeof plain) == KVR_OK);
    ck_assert(plain[0] == 0 && plain[N - 1] != 0);

    ck_assert_msg(kvr_stream_capture_begin(s) == KVR_OK, "%s", kvr_error());
    some_work(s, to, from);
    ck_assert_msg(kvr_stream_capture_end(s, &g) == KVR_OK, "%s", kvr_error());
    /* Capturing runs nothing. */
    ck_assert_int_eq(kvr_stream_launches(s, "fwht_rows"), 2);
    for (int i = 1; i <= 3; i++) {
        kvr_device_fill(s, to, 0xff, sizeof got);
        ck_assert_msg(kvr_graph_launch(s, g) == KVR_OK, "%s", kvr_error());
        ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
        ck_assert(kvr_device_get(s, got, to, sizeof got) == KVR_OK);
        ck_assert_mem_eq(got, plain, sizeof got);
        ck_assert_int_eq(kvr_stream_launches(s, "fwht_rows"), 2 + 2 * i);
    }
    kvr_graph_close(&g);
    kvr_stream_close(&s);
}
END_TEST

static enum kvr_status forbidden(struct kvr_stream *s, int what, float *spare)
{
    struct kvr_graph *g = NULL;
    float x = 0;
    void *p;

    switch (what) {
    case 0:
        return kvr_device_alloc(s, &p, 4);
    case 1:
        kvr_device_free(s, spare);
        return KVR_EINVAL;
    case 2:
        return kvr_device_put(s, spare, &x, sizeof x);
    case 3:
        return kvr_device_get(s, &x, spare, sizeof x);
    case 4:
        return kvr_stream_sync(s);
    case 5:
        return kvr_stream_mark(s) == -1 ? KVR_EINVAL : KVR_OK;
    case 6:
        return kvr_stream_capture_begin(s);
    default:
        return kvr_graph_launch(s, g);
    }
}
static const char *const forbidden_calls[] = {
    "kvr_device_alloc", "kvr_device_free", "kvr_device_put",           "kvr_device_get",
    "kvr_stream_sync",  "kvr_stream_mark", "kvr_stream_capture_begin", "kvr_graph_launch",
};
enum { N_FORBIDDEN = sizeof forbidden_calls / sizeof *forbidden_calls };

START_TEST(captures_forbid)
{
    struct kvr_stream *s = open_stream();
    float x[N] = { 1 }, *from = device(s), *to = device(s);
    struct kvr_graph *g;

    ck_assert(kvr_device_put(s, from, x, sizeof x) == KVR_OK);
    some_work(s, to, from);
    ck_assert(kvr_stream_capture_begin(s) == KVR_OK);
    some_work(s, to, from);
    expect_refusal(forbidden(s, _i, to), forbidden_calls[_i]);
    expect_refusal(kvr_stream_capture_end(s, &g), forbidden_calls[_i]);
    ck_assert(!g);
    expect_refusal(kvr_stream_capture_end(s, &g), "no graph is being captured");
    /* The stream remains usable. */
    ck_assert(kvr_stream_capture_begin(s) == KVR_OK);
    some_work(s, to, from);
    ck_assert_msg(kvr_stream_capture_end(s, &g) == KVR_OK, "%s", kvr_error());
    ck_assert(kvr_graph_launch(s, g) == KVR_OK);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    kvr_graph_close(&g);
    kvr_stream_close(&s);
}
END_TEST

TCase *cases_stream(void)
{
    TCase *tc = tcase_create("stream");

    tcase_add_test(tc, a_device_tells_of_itself);
    tcase_add_test(tc, a_full_device_says_so);
    tcase_add_loop_test(tc, copies_and_fills, 0, 16);
    tcase_add_test(tc, marks_are_in_order);
    tcase_add_test(tc, a_graph_does_it_again);
    tcase_add_loop_test(tc, captures_forbid, 0, N_FORBIDDEN);
    return tc;
}
