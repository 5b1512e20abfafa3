/* test_stream.c - error messages for unusable devices, and a stream's memory, timing and CUDA
 * graphs. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device/device_check.h"
#include "tests/cuda/faults.h"
#include "tests/suite.h"

enum { N = FAULT_BLOCKS * FAULT_THREADS };

/* ---- refusals ------------------------------------------------------------------------------ */

#define FACTS(driver_, runtime_, n, major_, minor_)                                                \
    .driver = driver_, .runtime = runtime_, .n_devices = n, .name = "NVIDIA X", .major = major_,   \
    .minor = minor_, .archs = "800,900,1000"

static const struct {
    const char *what;
    struct kvr_device_facts facts;
    const char *says[4]; /* texts that the error message contains; none if the device is usable */
} judged[] = {
    { "usable", { FACTS(13000, 13000, 1, 9, 0) }, { NULL } },
    { "oldest", { FACTS(13000, 13000, 1, 8, 0) }, { NULL } },
    { "a newer driver", { FACTS(14020, 13000, 8, 9, 0) }, { NULL } },
    { "an older minor version", { FACTS(13000, 13020, 1, 9, 0) }, { NULL } },
    { "no driver", { FACTS(0, 13000, 0, 0, 0) }, { "no NVIDIA driver", "CUDA 13.0" } },
    { "an old driver",
      { FACTS(12040, 13000, 0, 0, 0) },
      { "the driver supports CUDA 12.4", "needs CUDA 13.0" } },
    { "a driver the runtime refuses",
      { FACTS(13000, 13010, 0, 0, 0), .driver_refused = true },
      { "the driver supports CUDA 13.0", "needs CUDA 13.1" } },
    { "no device", { FACTS(13000, 13000, 0, 0, 0) }, { "found no GPU" } },
    { "hidden devices",
      { FACTS(13000, 13000, 0, 0, 0), .visible = "7" },
      { "CUDA_VISIBLE_DEVICES='7'" } },
    { "an old device",
      { FACTS(13000, 13000, 1, 7, 5) },
      { "NVIDIA X has compute capability 7.5", "need 8.0" } },
    { "no code for it",
      { FACTS(13000, 13000, 1, 12, 1), .no_image = true },
      { "NVIDIA X has compute capability 12.1", "built for 8.0, 9.0, 10.0", "sm_121" } },
    { "anything else",
      { FACTS(13000, 13000, 0, 0, 0), .error = "initialization error" },
      { "initialization error" } },
};

START_TEST(devices_are_judged)
{
    const enum kvr_status st = kvr_device_check_facts(&judged[_i].facts);

    ck_assert_msg((st == KVR_OK) == !judged[_i].says[0], "%s: %s", judged[_i].what, kvr_error());
    for (int i = 0; judged[_i].says[i]; i++)
        ck_assert_msg(strstr(kvr_error(), judged[_i].says[i]) != NULL, "%s: %s", judged[_i].what,
                      kvr_error());
    if (st != KVR_OK) {
        ck_assert_int_eq(st, KVR_EUNSUPPORTED);
        ck_assert_msg(strstr(kvr_error(), "--device cpu") != NULL, "%s", kvr_error());
    }
}
END_TEST

START_TEST(archs_are_readable)
{
    char buf[64], small[8];

    ck_assert_str_eq(kvr_device_archs("800,900,1000", buf, sizeof buf), "8.0, 9.0, 10.0");
    ck_assert_str_eq(kvr_device_archs("1210", buf, sizeof buf), "12.1");
    ck_assert_str_eq(kvr_device_archs("", buf, sizeof buf), "");
    ck_assert_str_eq(kvr_device_archs("800,900,1000", small, sizeof small), "...");
}
END_TEST

/* ---- memory -------------------------------------------------------------------------------- */

static struct kvr_stream *open_stream(void)
{
    struct kvr_stream *s;

    ck_assert_msg(kvr_stream_open(&s) == KVR_OK, "%s", kvr_error());
    return s;
}

static void *device(struct kvr_stream *s, size_t n)
{
    void *p;

    ck_assert_msg(kvr_device_alloc(s, &p, n) == KVR_OK, "%s", kvr_error());
    return p;
}

static void expect(enum kvr_status st, enum kvr_status want, const char *says)
{
    ck_assert_msg(st == want, "%s, not %s: %s", kvr_status_name(st), kvr_status_name(want),
                  kvr_error());
    ck_assert_msg(strstr(kvr_error(), says) != NULL, "'%s' is not in: %s", says, kvr_error());
}

START_TEST(a_full_device_says_so)
{
    struct kvr_stream *s;
    struct kvr_device_info info;
    void *a, *b;

    setenv("KVREEL_EMULATED_BYTES", "1000", 1);
    s = open_stream();
    unsetenv("KVREEL_EMULATED_BYTES");
    a = device(s, 600);
    ck_assert(!kvr_stream_was_full(s));
    expect(kvr_device_alloc(s, &b, 401), KVR_ENOMEM,
           "401 bytes requested, but only 400 of 1000 bytes are free");
    ck_assert_ptr_null(b);
    ck_assert(kvr_stream_was_full(s));
    b = device(s, 400);
    ck_assert_int_eq(kvr_device_info(s, &info), KVR_OK);
    ck_assert_str_eq(info.name, "emulated");
    ck_assert_int_eq(info.major, 0);
    ck_assert_uint_eq(info.total_bytes, 1000);
    ck_assert_uint_eq(info.free_bytes, 0);
    kvr_device_free(s, a);
    kvr_device_free(s, b);
    ck_assert_int_eq(kvr_device_info(s, &info), KVR_OK);
    ck_assert_uint_eq(info.free_bytes, 1000);
    ck_assert_uint_eq(info.taken_peak_bytes, 1000);
    kvr_stream_close(&s);
}
END_TEST

START_TEST(a_capacity_is_a_number)
{
    static const char *const wrong[] = { "", "12k", "-1", "99999999999999999999999" };
    struct kvr_stream *s;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("KVREEL_EMULATED_BYTES", wrong[i], 1);
        expect(kvr_stream_open(&s), KVR_EINVAL, wrong[i]);
        ck_assert_ptr_null(s);
    }
    unsetenv("KVREEL_EMULATED_BYTES");
    /* No GPU has 300000 bytes of shared memory per block. */
    setenv("KVREEL_EMULATED_SHARED", "300000", 1);
    expect(kvr_stream_open(&s), KVR_EINVAL, "KVREEL_EMULATED_SHARED='300000'");
    setenv("KVREEL_EMULATED_SHARED", "101376", 1);
    s = open_stream();
    unsetenv("KVREEL_EMULATED_SHARED");
    ck_assert_uint_eq(kvr_stream_block_shared(s), 101376);
    kvr_stream_close(&s);
}
END_TEST

START_TEST(a_capability_is_two_numbers)
{
    static const char *const wrong[] = { "", "9", "nine", "9.0a", "-9.0", "7.5" };
    struct kvr_device_info info;
    struct kvr_stream *s;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("KVREEL_EMULATED_CAPABILITY", wrong[i], 1);
        expect(kvr_stream_open(&s), KVR_EINVAL, "KVREEL_EMULATED_CAPABILITY");
        ck_assert_ptr_null(s);
    }
    setenv("KVREEL_EMULATED_CAPABILITY", "10.3", 1);
    ck_assert_int_eq(kvr_stream_open(&s), KVR_OK);
    unsetenv("KVREEL_EMULATED_CAPABILITY");
    ck_assert_int_eq(kvr_stream_capability(s), 103);
    ck_assert_int_eq(kvr_device_info(s, &info), KVR_OK);
    ck_assert_int_eq(info.major, 10);
    ck_assert_int_eq(info.minor, 3);
    kvr_stream_close(&s);
}
END_TEST

START_TEST(copies_and_fills)
{
    struct kvr_stream *s = open_stream();
    unsigned char x[64], got[64], *a = device(s, sizeof x), *b = device(s, sizeof x);

    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (unsigned char)(3 * i);
    ck_assert_int_eq(kvr_device_put(s, a, x, sizeof x), KVR_OK);
    kvr_device_fill(s, b, 0xa5, sizeof x);
    kvr_device_copy(s, b + 3, a + 17, 29); /* not word-aligned */
    kvr_device_copy(s, b, a, 0);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, got, b, sizeof got), KVR_OK);
    for (size_t i = 0; i < sizeof got; i++)
        ck_assert_uint_eq(got[i], i >= 3 && i < 32 ? 3 * (i + 14) : 0xa5);
    kvr_stream_close(&s);
}
END_TEST

START_TEST(copies_stay_inside)
{
    struct kvr_stream *s = open_stream();
    unsigned char host[8] = { 0 }, *a = device(s, 8), *b = device(s, 8);

    kvr_device_copy(s, a + 1, b, 8);
    expect(kvr_stream_sync(s), KVR_EINTERNAL, "copy of 8 bytes is outside device memory");
    kvr_device_copy(s, a, host, 8);
    expect(kvr_stream_sync(s), KVR_EINTERNAL, "copy of 8 bytes is outside");
    kvr_device_fill(s, host, 1, 8);
    expect(kvr_stream_sync(s), KVR_EINTERNAL, "fill of 8 bytes is outside");
    kvr_device_copy(s, a + 2, a, 4);
    expect(kvr_stream_sync(s), KVR_EINTERNAL, "copy of 4 bytes onto itself");
    ck_assert_int_eq(kvr_stream_sync(s), KVR_OK);
    kvr_stream_close(&s);
}
END_TEST

/* A copy also copies the shadow memory, which records whether each byte is initialized. The last
 * byte of `a` is not, so a sum over the copy must fail. */
START_TEST(copies_of_nothing_are_nothing)
{
    struct kvr_stream *s = open_stream();
    float x[N] = { 0 }, *a = device(s, sizeof x), *b = device(s, sizeof x),
          *y = device(s, FAULT_BLOCKS * sizeof *y);

    ck_assert_int_eq(kvr_device_put(s, a, x, sizeof x - 1), KVR_OK);
    kvr_device_copy(s, b, a, sizeof x);
    fault_sum(s, b, y);
    expect(kvr_stream_sync(s), KVR_EINTERNAL, "byte 1023: read, but never written");
    kvr_device_fill(s, (unsigned char *)b + sizeof x - 1, 0, 1);
    fault_sum(s, b, y);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    kvr_stream_close(&s);
}
END_TEST

/* ---- time ---------------------------------------------------------------------------------- */

START_TEST(marks_are_in_order)
{
    struct kvr_stream *s = open_stream();
    float x[N] = { 0 }, *d = device(s, sizeof x), *y = device(s, FAULT_BLOCKS * sizeof *y);
    int64_t a, b, ns = -1, back = 1;

    ck_assert_int_eq(kvr_device_put(s, d, x, sizeof x), KVR_OK);
    for (int round = 0; round < 2; round++) {
        a = kvr_stream_mark(s);
        fault_sum(s, d, y);
        for (int i = 0; i < 200; i++)
            b = kvr_stream_mark(s);
        ck_assert_int_eq(b - a, 200);
        ck_assert_int_eq(kvr_stream_sync(s), KVR_OK);
        ck_assert_int_eq(kvr_stream_elapsed(s, a, b, &ns), KVR_OK);
        ck_assert_int_eq(kvr_stream_elapsed(s, b, a, &back), KVR_OK);
        ck_assert_int_gt(ns, 0);
        ck_assert_int_eq(back, -ns);
        expect(kvr_stream_elapsed(s, a, b + 1, &ns), KVR_EINVAL, "there are 201");
        expect(kvr_stream_elapsed(s, -1, b, &ns), KVR_EINVAL, "marks -1 and");
        kvr_stream_forget_marks(s);
        expect(kvr_stream_elapsed(s, a, b, &ns), KVR_EINVAL, "there are 0");
    }
    /* The handle of a released mark is used again. */
    a = kvr_stream_mark(s);
    kvr_stream_unmark(s, a);
    ck_assert_int_eq(kvr_stream_mark(s), a);
    ck_assert_int_eq(kvr_stream_most_marks(s), 201);
    kvr_stream_close(&s);
}
END_TEST

/* ---- graphs -------------------------------------------------------------------------------- */

struct work {
    float *x, *copy, *sums; /* device: [N], [N], [2 FAULT_BLOCKS] */
};

static struct work open_work(struct kvr_stream *s)
{
    const struct work w = { device(s, N * sizeof(float)), device(s, N * sizeof(float)),
                            device(s, 2 * FAULT_BLOCKS * sizeof(float)) };
    float x[N];

    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 7);
    ck_assert_int_eq(kvr_device_put(s, w.x, x, sizeof x), KVR_OK);
    return w;
}

/* Runs each kind of operation that a graph may contain: copy, fill and kernel launch. */
static void some_work(struct kvr_stream *s, const struct work *w)
{
    kvr_device_copy(s, w->copy, w->x, N * sizeof(float));
    /* overwrites the values of the first block */
    kvr_device_fill(s, w->copy, 0, FAULT_THREADS * sizeof(float));
    fault_sum(s, w->copy, w->sums);
    fault_sum(s, w->x, w->sums + FAULT_BLOCKS);
}

START_TEST(a_graph_does_it_again)
{
    struct kvr_stream *s = open_stream();
    const struct work w = open_work(s);
    float plain[2 * FAULT_BLOCKS], before[2 * FAULT_BLOCKS], after[2 * FAULT_BLOCKS], x[N];
    struct kvr_graph *g;

    some_work(s, &w);
    ck_assert_int_eq(kvr_device_get(s, plain, w.sums, sizeof plain), KVR_OK);
    ck_assert_float_eq(plain[0], 0);
    kvr_device_fill(s, w.sums, 0xff, sizeof plain);
    ck_assert_int_eq(kvr_device_get(s, before, w.sums, sizeof before), KVR_OK);

    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    some_work(s, &w);
    ck_assert_msg(kvr_stream_capture_end(s, &g) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, after, w.sums, sizeof after), KVR_OK);
    /* Capturing runs nothing. */
    ck_assert_mem_eq(before, after, sizeof after);
    ck_assert_int_eq(kvr_stream_launches(s, "sum_kernel"), 2);

    for (int i = 0; i < 3; i++) {
        kvr_stream_seed(s, (uint64_t)i);
        kvr_device_fill(s, w.sums, 0xff, sizeof plain);
        ck_assert_int_eq(kvr_graph_launch(s, g), KVR_OK);
        ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
        ck_assert_int_eq(kvr_device_get(s, after, w.sums, sizeof after), KVR_OK);
        ck_assert_mem_eq(plain, after, sizeof after);
    }
    ck_assert_int_eq(kvr_stream_launches(s, "sum_kernel"), 8);

    /* The graph reads memory at launch, not at capture. */
    for (int i = 0; i < N; i++)
        x[i] = 1;
    ck_assert_int_eq(kvr_device_put(s, w.x, x, sizeof x), KVR_OK);
    ck_assert_int_eq(kvr_graph_launch(s, g), KVR_OK);
    ck_assert_int_eq(kvr_device_get(s, after, w.sums, sizeof after), KVR_OK);
    for (int i = 0; i < 2 * FAULT_BLOCKS; i++)
        ck_assert_float_eq(after[i], i ? FAULT_THREADS : 0);
    kvr_graph_close(&g);
    ck_assert_ptr_null(g);
    kvr_graph_close(&g);
    kvr_stream_close(&s);
}
END_TEST

/* Each of these functions makes one call that is forbidden during capture. `spare` is 4 bytes of
 * device memory. */
static enum kvr_status sin_alloc(struct kvr_stream *s, void *spare)
{
    void *p;
    enum kvr_status st = kvr_device_alloc(s, &p, 4);

    (void)spare;
    ck_assert_ptr_null(p);
    return st;
}
static enum kvr_status sin_free(struct kvr_stream *s, void *spare)
{
    kvr_device_free(s, spare);
    return KVR_EINVAL;
}
static enum kvr_status sin_put(struct kvr_stream *s, void *spare)
{
    return kvr_device_put(s, spare, "abc", 4);
}
static enum kvr_status sin_get(struct kvr_stream *s, void *spare)
{
    char x[4];

    return kvr_device_get(s, x, spare, sizeof x);
}
static enum kvr_status sin_begin(struct kvr_stream *s, void *spare)
{
    (void)spare;
    return kvr_stream_capture_begin(s);
}
static enum kvr_status sin_sync(struct kvr_stream *s, void *spare)
{
    (void)spare;
    return kvr_stream_sync(s);
}
static enum kvr_status sin_mark(struct kvr_stream *s, void *spare)
{
    (void)spare;
    return kvr_stream_mark(s) == -1 ? KVR_EINVAL : KVR_OK;
}

static const struct {
    const char *call;
    enum kvr_status (*commit)(struct kvr_stream *s, void *spare);
} forbidden[] = {
    { "kvr_device_alloc", sin_alloc },
    { "kvr_device_free", sin_free },
    { "kvr_device_put", sin_put },
    { "kvr_device_get", sin_get },
    { "kvr_stream_sync", sin_sync },
    { "kvr_stream_mark", sin_mark },
    { "kvr_stream_capture_begin", sin_begin },
};

static void capture_some(struct kvr_stream *s, const struct work *w, struct kvr_graph **g)
{
    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    some_work(s, w);
    ck_assert_msg(kvr_stream_capture_end(s, g) == KVR_OK, "%s", kvr_error());
}

START_TEST(captures_forbid)
{
    struct kvr_stream *s = open_stream();
    const struct work w = open_work(s);
    void *spare = device(s, 4);
    struct kvr_graph *g;

    ck_assert_int_eq(kvr_device_put(s, spare, "xyz", 4), KVR_OK);
    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    some_work(s, &w);
    expect(forbidden[_i].commit(s, spare), KVR_EINVAL, forbidden[_i].call);
    some_work(s, &w);
    expect(kvr_stream_capture_end(s, &g), KVR_EINVAL, forbidden[_i].call);
    ck_assert_ptr_null(g);
    /* The stream remains usable after the failed capture. */
    capture_some(s, &w, &g);
    ck_assert_int_eq(kvr_graph_launch(s, g), KVR_OK);
    ck_assert_int_eq(kvr_stream_sync(s), KVR_OK);
    kvr_device_free(s, spare);
    kvr_graph_close(&g);
    kvr_stream_close(&s);
}
END_TEST

START_TEST(captures_do_not_nest_graphs)
{
    struct kvr_stream *s = open_stream();
    const struct work w = open_work(s);
    struct kvr_graph *g, *outer;

    capture_some(s, &w, &g);
    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    expect(kvr_graph_launch(s, g), KVR_EINVAL, "kvr_graph_launch during");
    expect(kvr_stream_capture_end(s, &outer), KVR_EINVAL, "kvr_graph_launch during");
    expect(kvr_stream_capture_end(s, &outer), KVR_EINVAL, "no graph is being captured");
    kvr_graph_close(&g);
    kvr_stream_close(&s);
}
END_TEST

/* An invalid launch configuration (2048 threads per block) fails the capture. An out-of-bounds
 * write in a captured kernel is reported each time the graph has run. */
START_TEST(graphs_report_their_faults)
{
    struct kvr_stream *s = open_stream();
    const struct work w = open_work(s);
    struct kvr_graph *g;

    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    for (int i = 0; i < n_faults; i++)
        if (!strcmp(faults[i].name, "too_many_threads"))
            faults[i].commit(s, w.x);
    expect(kvr_stream_capture_end(s, &g), KVR_EINTERNAL, "a block of 2048");
    ck_assert_int_eq(kvr_stream_sync(s), KVR_OK);

    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    for (int i = 0; i < n_faults; i++)
        if (!strcmp(faults[i].name, "global_past_the_end"))
            faults[i].commit(s, w.x);
    ck_assert_int_eq(kvr_stream_capture_end(s, &g), KVR_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(kvr_graph_launch(s, g), KVR_OK);
        expect(kvr_stream_sync(s), KVR_EINTERNAL, "4 bytes written at byte 1024 of 1024");
    }
    kvr_graph_close(&g);
    kvr_stream_close(&s);
}
END_TEST

START_TEST(graphs_notice_freed_memory)
{
    struct kvr_stream *s = open_stream();
    const struct work w = open_work(s);
    struct kvr_graph *g;

    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    fault_sum(s, w.x, w.sums);
    ck_assert_int_eq(kvr_stream_capture_end(s, &g), KVR_OK);
    kvr_device_free(s, w.x);
    ck_assert_int_eq(kvr_graph_launch(s, g), KVR_OK);
    expect(kvr_stream_sync(s), KVR_EINTERNAL, "is not device memory");
    kvr_graph_close(&g);
    kvr_stream_close(&s);
}
END_TEST

START_TEST(a_stream_closes_in_mid_capture)
{
    struct kvr_stream *s = open_stream();
    const struct work w = open_work(s);

    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    some_work(s, &w);
    kvr_stream_close(&s);
    ck_assert_ptr_null(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stream");
    TCase *tc = tcase_create("stream");

    suite_add_tcase(s, tc);
    tcase_add_loop_test(tc, devices_are_judged, 0, sizeof judged / sizeof judged[0]);
    tcase_add_test(tc, archs_are_readable);
    tcase_add_test(tc, a_full_device_says_so);
    tcase_add_test(tc, a_capacity_is_a_number);
    tcase_add_test(tc, a_capability_is_two_numbers);
    tcase_add_test(tc, copies_and_fills);
    tcase_add_test(tc, copies_stay_inside);
    tcase_add_test(tc, copies_of_nothing_are_nothing);
    tcase_add_test(tc, marks_are_in_order);
    tcase_add_test(tc, a_graph_does_it_again);
    tcase_add_loop_test(tc, captures_forbid, 0, sizeof forbidden / sizeof forbidden[0]);
    tcase_add_test(tc, captures_do_not_nest_graphs);
    tcase_add_test(tc, graphs_report_their_faults);
    tcase_add_test(tc, graphs_notice_freed_memory);
    tcase_add_test(tc, a_stream_closes_in_mid_capture);
    return run_suite(s);
}
