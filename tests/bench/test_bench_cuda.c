/* test_bench_cuda.c - benchmarks on an emulated CUDA device: their checks and rows. Rows of an
 * emulated device have no ratio to the reference's time (NaN). */
#include <check.h>
#include <math.h>
#include <string.h>

#include "harness/bench/bench_attention.h"
#include "harness/bench/bench_codec.h"
#include "harness/bench/bench_cudnn.h"
#include "harness/bench/bench_gemm.h"
#include "harness/bench/rounds_cuda.h"
#include "tests/built.h"
#include "tests/suite.h"

static struct kvr_dev *open_device(void)
{
    struct kvr_dev *dev;

    ck_assert_msg(kvr_dev_open(&dev, KVR_CUDA) == KVR_OK, "%s", kvr_error());
    return dev;
}

static void close_device(struct kvr_dev *dev)
{
    struct kvr_mem_stats stats;

    kvr_mem_stats(dev, &stats);
    ck_assert_uint_eq(stats.live_total, 0);
    kvr_dev_close(&dev);
}

/* The sink receives each row once it is complete, in the order of the returned array. */
static int n_told;

static void hear(void *ctx, const struct kvr_bench_row *row)
{
    ck_assert_ptr_eq(row, (const struct kvr_bench_row *)ctx + n_told);
    ck_assert(row->n == 3 && row->median > 0 && row->device && row->reference);
    n_told++;
}

START_TEST(rows_of_coding)
{
    const struct kvr_block_shape shape = { 17, 2, 64 };
    struct kvr_bench_row rows[KVR_BENCH_CODEC_ROWS];
    const struct kvr_bench_sink sink = { hear, NULL, rows };
    struct kvr_dev *dev = open_device();
    int n = 0, lines = 0;

    while (kvr_bench_lines[lines].name)
        lines++;
    ck_assert_int_ge(lines, 7);
    n_told = 0;
    ck_assert_msg(kvr_bench_codec_cuda(dev, &shape, 3, &sink, rows, &n) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(n_told, n);
    ck_assert_int_eq(n, 2 * lines); /* per benchmark line, a `quantise` and a `dequantise` row */
    for (int i = 0; i < n; i++) {
        const char *what = i % 2 ? "dequantise." : "quantise.";

        ck_assert_msg(strncmp(rows[i].name, what, strlen(what)) == 0, "%s", rows[i].name);
        ck_assert_str_eq(rows[i].device, "emulated");
        ck_assert_str_eq(rows[i].reference, "copy within the device");
        ck_assert(rows[i].min > 0 && rows[i].min <= rows[i].median);
        ck_assert(isnan(rows[i].ratio) && isnan(rows[i].ratio_q1) && isnan(rows[i].ratio_q3));
        ck_assert(isnan(rows[i].cold) && isnan(rows[i].warm));
        ck_assert_ptr_nonnull(strstr(rows[i].missing, "emulated"));
    }
    close_device(dev);
}
END_TEST

START_TEST(coding_is_refused)
{
    const struct kvr_block_shape odd = { 17, 2, 48 };
    struct kvr_bench_row rows[KVR_BENCH_CODEC_ROWS];
    struct kvr_dev *dev = open_device();
    int n = -1;

    ck_assert_int_eq(kvr_bench_codec_cuda(dev, NULL, 2, NULL, rows, &n), KVR_EINVAL);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(kvr_bench_codec_cuda(dev, &odd, 3, NULL, rows, &n), KVR_EINVAL);
    for (uint64_t i = 1; i < 10; i++) {
        kvr_mem_fail_after(dev, i);
        ck_assert_int_eq(kvr_bench_codec_cuda(dev, NULL, 3, NULL, rows, &n), KVR_ENOMEM);
    }
    close_device(dev);
}
END_TEST

/* A row is returned only after its result agreed with a direct softmax. Loop index 0 runs the
 * mma.sync kernels of compute capability 8.0, and index 1 the wgmma kernels of 9.0. */
START_TEST(rows_of_attention)
{
    static const char *const paths[] = { "dense", "staged", "fused", "int8" };
    struct kvr_bench_row rows[KVR_BENCH_ATTENTION_ROWS];
    const struct kvr_bench_sink sink = { hear, NULL, rows };
    struct kvr_dev *dev;
    int n = 0, of[4] = { 0 };

    setenv("KVREEL_EMULATED_CAPABILITY", _i ? "9.0" : "8.0", 1);
    dev = open_device();
    unsetenv("KVREEL_EMULATED_CAPABILITY");
    ck_assert_int_eq(kvr_bench_attention_cuda(dev, 2, NULL, rows, &n), KVR_EINVAL);
    n_told = 0;
    ck_assert_msg(kvr_bench_attention_cuda(dev, 3, &sink, rows, &n) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(n_told, n);
    ck_assert_int_eq(n, _i ? 13 : 10);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 4; k++)
            of[k] += strstr(rows[i].name, paths[k]) != NULL;
        ck_assert_str_eq(rows[i].device, "emulated");
        ck_assert_str_eq(rows[i].reference,
                         strstr(rows[i].name, "dense") ? "cuDNN SDPA BF16" : "dense BF16");
        ck_assert(rows[i].median > 0 && isnan(rows[i].ratio));
        ck_assert_ptr_nonnull(strstr(rows[i].missing, "emulated"));
    }
    ck_assert(of[0] == 2 && of[1] == 4 && of[2] == 4 && of[3] == (_i ? 3 : 0));
    for (int i = 0; i < n; i++) /* INT8 attention has a quantization error, but a small one */
        ck_assert(!strstr(rows[i].name, "int8") || (rows[i].error > .001 && rows[i].error < .03));
    ck_assert((kvr_stream_launches(kvr_dev_stream(dev), "attend_list") > 0) == _i);
    ck_assert((kvr_stream_launches(kvr_dev_stream(dev), "attend_mma_rows") > 0) == !_i);
    for (uint64_t i = 1; i < 40; i += 6) {
        kvr_mem_fail_after(dev, i);
        ck_assert_int_eq(kvr_bench_attention_cuda(dev, 3, NULL, rows, &n), KVR_ENOMEM);
    }
    close_device(dev);
}
END_TEST

/* If cuDNN's output is correct, cuDNN gets its own rows and is the reference of all other rows. If
 * the output is wrong or cuDNN has no kernel, cuDNN gets no rows, and the reference of the staged
 * and fused rows is the dense BF16 kernel. The fake cuDNN simulates these three cases. */
START_TEST(attention_with_cudnn)
{
    static const struct {
        const char *trouble, *reason;
    } cases[] = { { "", "" },
                  { "wrong", "relative L2 error" },
                  { "no kernel", "building a kernel" } };
    struct kvr_bench_row rows[KVR_BENCH_ATTENTION_ROWS];
    const struct kvr_bench_sink sink = { hear, NULL, rows };
    char path[4096];

    setenv("KVREEL_CUDNN", built_file("tests/plugins/fake_cudnn.so", path, sizeof path), 1);
    for (int i = 0; i < 3; i++) {
        struct kvr_dev *dev = open_device();
        struct kvr_bench_cudnn b;
        const float q[64] = { 1 };
        int n = 0, own = 0;

        setenv("KVR_TEST_CUDNN", cases[i].trouble, 1);
        n_told = 0;
        ck_assert_msg(kvr_bench_attention_cuda(dev, 3, &sink, rows, &n) == KVR_OK, "%s",
                      kvr_error());
        ck_assert_int_eq(n_told, n);
        ck_assert_int_eq(n, i ? 10 : 12);
        for (int k = 0; k < n; k++) {
            const bool dense = strstr(rows[k].name, ".dense."),
                       its = strstr(rows[k].name, ".cuDNN.");

            own += its;
            ck_assert_str_eq(rows[k].reference,
                             its || (i && !dense) ? "dense BF16" : "cuDNN SDPA BF16");
            ck_assert(rows[k].n == 3 && rows[k].median > 0 && isnan(rows[k].ratio));
        }
        ck_assert_int_eq(own, i ? 0 : 2);
        for (uint64_t k = 1; k < 12; k += 3) { /* allocations for cuDNN fail, too */
            kvr_mem_fail_after(dev, k);
            ck_assert_int_eq(kvr_bench_attention_cuda(dev, 3, NULL, rows, &n), KVR_ENOMEM);
        }
        kvr_mem_fail_after(dev, 0);
        ck_assert_int_eq(kvr_bench_cudnn_open(&b, dev, 1, 64, 1, q), KVR_OK);
        ck_assert_int_eq(kvr_bench_cudnn_keys(&b, 5), KVR_OK);
        ck_assert_msg(i != 2 || strstr(b.why, cases[i].reason), "%s", b.why);
        kvr_bench_cudnn_close(&b);
        close_device(dev);
    }
    unsetenv("KVREEL_CUDNN");
    unsetenv("KVR_TEST_CUDNN");
}
END_TEST

static bool some(void *ctx, const char *name)
{
    const char *const *want = ctx;

    return strstr(name, want[0]) || strstr(name, want[1]);
}

static void count(void *ctx, const struct kvr_bench_row *row)
{
    (void)ctx, (void)row;
    n_told++;
}

/* A benchmark measures only the rows whose names the filter accepts, and an accepted row does not
 * depend on a rejected one. */
START_TEST(rows_are_filtered)
{
    static const struct {
        const char *want[2];
        int codec, attention, gemm;
    } cases[] = { { { "dense", "fused.RTN" }, 0, 3, 0 },
                  { { "quantise.RTN_INT4", "gemm.own.BF16.33x" }, 2, 0, 1 },
                  { { "nothing", "of this" }, 0, 0, 0 } };
    static const struct kvr_block_shape shape = { 40, 2, 128 };
    struct kvr_bench_row rows[KVR_BENCH_CODEC_ROWS + KVR_BENCH_ATTENTION_ROWS];
    struct kvr_dev *dev = open_device();

    for (int i = 0; i < 3; i++) {
        const struct kvr_bench_sink sink = { count, some, (void *)(uintptr_t)cases[i].want };
        int n[3];

        n_told = 0;
        ck_assert_int_eq(kvr_bench_codec_cuda(dev, &shape, 3, &sink, rows, &n[0]), KVR_OK);
        ck_assert_int_eq(kvr_bench_attention_cuda(dev, 3, &sink, rows, &n[1]), KVR_OK);
        ck_assert_int_eq(kvr_bench_gemm_cuda(dev, 3, &sink, rows, &n[2]), KVR_OK);
        ck_assert_int_eq(n[0], cases[i].codec);
        ck_assert_int_eq(n[1], cases[i].attention);
        ck_assert_int_eq(n[2], cases[i].gemm);
        ck_assert_int_eq(n_told, n[0] + n[1] + n[2]);
    }
    close_device(dev);
}
END_TEST

START_TEST(rows_of_layers)
{
    struct kvr_bench_row rows[KVR_BENCH_GEMM_ROWS];
    const struct kvr_bench_sink sink = { hear, NULL, rows };
    struct kvr_dev *dev;
    int n = 0, forward = 0;

    setenv("KVREEL_EMULATED_CAPABILITY", _i ? "9.0" : "8.0", 1);
    dev = open_device();
    unsetenv("KVREEL_EMULATED_CAPABILITY");
    ck_assert_int_eq(kvr_bench_gemm_cuda(dev, 2, NULL, rows, &n), KVR_EINVAL);
    n_told = 0;
    ck_assert_msg(kvr_bench_gemm_cuda(dev, 3, &sink, rows, &n) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(n_told, n);
    ck_assert_int_eq(n, 3 + KVR_BENCH_LAYER_CALLS);
    for (int i = 0; i < n; i++) {
        ck_assert_str_eq(rows[i].device, "emulated");
        ck_assert(!strncmp(rows[i].reference, "cuBLASLt BF16", 13));
        forward += !strncmp(rows[i].name, "gemm.forward.", 13);
        ck_assert(rows[i].median > 0 && isnan(rows[i].ratio));
        ck_assert_ptr_nonnull(strstr(rows[i].missing, "emulated"));
    }
    ck_assert_int_eq(forward, KVR_BENCH_LAYER_CALLS);
    ck_assert((kvr_stream_launches(kvr_dev_stream(dev), "linear_wgmma") > 0) == _i);
    for (uint64_t i = 1; i < 6; i++) {
        kvr_mem_fail_after(dev, i);
        ck_assert_int_eq(kvr_bench_gemm_cuda(dev, 3, NULL, rows, &n), KVR_ENOMEM);
    }
    close_device(dev);
}
END_TEST

struct diary {
    int n;
    char what[64];
    int iter[64];
};

static enum kvr_status note(struct diary *d, char what, int iter)
{
    ck_assert_int_lt(d->n, 64);
    d->what[d->n] = what;
    d->iter[d->n++] = iter;
    return iter == 13 ? kvr_fail(KVR_EINTERNAL, "unlucky") : KVR_OK;
}

static enum kvr_status work(void *ctx, int iter)
{
    return note(ctx, 'w', iter);
}

static enum kvr_status reference(void *ctx, int iter)
{
    return note(ctx, 'r', iter);
}

static enum kvr_status clocked(void *ctx, int iter)
{
    setenv("KVR_TEST_GPU", "1755 83 0 100 1", 1);
    return note(ctx, 'w', iter);
}

/* kvr_rounds_run() makes two warm-up rounds, runs the work three times on one buffer (`warm`), and
 * then makes three measured rounds. A round runs the reference on two buffers and then the work on
 * the same two. */
START_TEST(turns_alternate)
{
    enum { WARM = 2 * 4, SAME = 3, ALL = WARM + SAME + 3 * 4 };
    struct kvr_round_times *times = calloc(1, sizeof *times);
    struct kvr_dev *dev = open_device();
    struct diary d = { 0 };
    struct kvr_rounds t = {
        .dev = dev, .ctx = &d, .run = work, .reference = reference, .rounds = 3, .times = 2
    };
    struct kvr_bench_row row = { 0 };

    ck_assert_int_eq(kvr_rounds_run(&t, times), KVR_OK);
    ck_assert_int_eq(d.n, ALL);
    for (int i = 0; i < d.n; i++) {
        const int k = i < WARM ? i : i - SAME; /* index without the runs on one buffer */
        const bool same = i >= WARM && i < WARM + SAME;

        ck_assert_int_eq(d.what[i], !same && k % 4 < 2 ? 'r' : 'w');
        ck_assert_int_eq(d.iter[i], same ? 0 : k / 4 * 2 + k % 2);
    }
    ck_assert_int_eq(times->n, 3);
    ck_assert_int_eq(times->n_warm, 1);
    for (int i = 0; i < 3; i++)
        ck_assert(times->ns[i] > 0 && times->reference_ns[i] > 0);
    ck_assert(times->warm_ns[0] > 0);
    kvr_rounds_fill(&row, times, 1);
    ck_assert_int_eq(row.n, 3);
    ck_assert(row.cold == row.median && row.warm > 0 && row.ratio > 0);
    ck_assert(row.mhz == 0 && row.watts == 0); /* NVML is absent */
    t.times = 3;
    d.n = 0;
    ck_assert_int_eq(kvr_rounds_run(&t, times), KVR_EINTERNAL);
    free(times);
    close_device(dev);
}
END_TEST

/* Clocks are read while the work runs, not on the idle device before or after it. */
START_TEST(clocks_are_read_under_load)
{
    struct kvr_round_times *times = calloc(1, sizeof *times);
    struct kvr_dev *dev;
    struct diary d = { 0 };
    struct kvr_rounds t = {
        .ctx = &d, .run = clocked, .reference = reference, .rounds = 3, .times = 1
    };
    struct kvr_bench_row row = { 0 };
    char path[4096];

    setenv("KVREEL_NVML", built_file("tests/plugins/fake_nvml.so", path, sizeof path), 1);
    setenv("KVREEL_EMULATED_DEVICES", "1", 1);
    setenv("KVR_TEST_GPU", "300 40 0 0 0", 1); /* idle */
    dev = t.dev = open_device();
    ck_assert_int_eq(kvr_rounds_run(&t, times), KVR_OK);
    kvr_rounds_fill(&row, times, 1);
    ck_assert(row.mhz == 1755 && row.watts == 123.456);
    unsetenv("KVREEL_NVML");
    unsetenv("KVREEL_EMULATED_DEVICES");
    unsetenv("KVR_TEST_GPU");
    free(times);
    close_device(dev);
}
END_TEST

START_TEST(quartiles_are_over_rounds)
{
    double v[5] = { 5, 1, 4, 2, 3 }, ratio[5] = { 10, 50, 20, 40, 30 };
    struct kvr_bench_row row = { .missing = "nothing yet" };

    kvr_bench_fill(&row, v, ratio, 5);
    ck_assert(row.median == 3 && row.min == 1 && row.ratio == 30);
    ck_assert(row.ratio_q1 == 20 && row.ratio_q3 == 40);
    ck_assert_str_eq(row.missing, "");
    ck_assert(isnan(row.cold) && isnan(row.warm) && !row.steady);
    kvr_bench_fill_caches(&row, (double[]){ 3, 1, 2 }, (double[]){ 9, 7, 8 }, 3);
    ck_assert(row.cold == 2 && row.warm == 8);
    kvr_bench_without(&row, "because");
    ck_assert(isnan(row.ratio) && row.median == 3);
    ck_assert_str_eq(row.missing, "because");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bench_cuda");
    TCase *tc = tcase_create("bench_cuda");

    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, rows_of_coding);
    tcase_add_test(tc, coding_is_refused);
    tcase_add_loop_test(tc, rows_of_attention, 0, 2);
    tcase_add_test(tc, attention_with_cudnn);
    tcase_add_test(tc, rows_are_filtered);
    tcase_add_loop_test(tc, rows_of_layers, 0, 2);
    tcase_add_test(tc, turns_alternate);
    tcase_add_test(tc, clocks_are_read_under_load);
    tcase_add_test(tc, quartiles_are_over_rounds);
    return run_suite(s);
}
