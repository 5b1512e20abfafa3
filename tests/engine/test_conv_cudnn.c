/* test_conv_cudnn.c - compares convolutions on the emulated device, computed by a stand-in for
 * cuDNN, with convolutions on the CPU. Also tests a missing library and a library with wrong
 * results. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/device/stream.h"
#include "harness/engine/vae/check_vae.h"
#include "harness/engine/vae/conv.h"
#include "tests/built.h"
#include "tests/suite.h"

static char fake[4096];

static void use_fake(void)
{
    built_file("tests/plugins/fake_cudnn_conv.so", fake, sizeof fake);
    setenv("KVREEL_CUDNN", fake, 1);
    unsetenv("KVR_TEST_CUDNN");
}

struct rig {
    enum kvr_dtype type;
    struct kvr_dev *dev;
    struct kvr_conv_context *context;
    struct kvr_conv *conv;
    struct kvr_buf x[3], y;
};

/* A convolution of random numbers. Its newest `there` input frames exist; the others are NULL.
 * Pixels are `stride` values apart. */
struct job {
    struct kvr_conv_shape s;
    int there, stride;
};
static const struct job jobs[] = {
    { { .in = 5, .out = 7, .taps = 3, .kernel = 3, .height = 3, .width = 4, .up = 1 }, 1, 5 },
    { { .in = 5, .out = 7, .taps = 3, .kernel = 3, .height = 3, .width = 4, .up = 1 }, 3, 5 },
    { { .in = 6, .out = 4, .taps = 2, .kernel = 3, .height = 5, .width = 3, .up = 1 }, 2, 6 },
    { { .in = 6, .out = 12, .taps = 3, .kernel = 1, .height = 5, .width = 3, .up = 1 }, 2, 6 },
    { { .in = 4, .out = 12, .taps = 1, .kernel = 1, .height = 1, .width = 2, .up = 1 }, 1, 4 },
    /* inputs are upsampled by 2 before the convolution: one band of 6 rows, then four bands of 35
     * rows */
    { { .in = 4, .out = 3, .taps = 1, .kernel = 3, .height = 6, .width = 10, .up = 2 }, 1, 9 },
    { { .in = 2, .out = 2, .taps = 1, .kernel = 3, .height = 140, .width = 2, .up = 2 }, 1, 4 },
    /* channels in multiples of 8, for vector loads and for the outputs of tensor cores */
    { { .in = 8, .out = 16, .taps = 3, .kernel = 3, .height = 3, .width = 4, .up = 1 }, 2, 8 },
    { { .in = 8, .out = 8, .taps = 1, .kernel = 1, .height = 3, .width = 4, .up = 1 }, 1, 8 },
    /* more than 48 channels: oneDNN computes them on the CPU */
    { { .in = 50, .out = 4, .taps = 2, .kernel = 1, .height = 4, .width = 3, .up = 1 }, 2, 50 },
    { { .in = 5, .out = 52, .taps = 3, .kernel = 3, .height = 3, .width = 4, .up = 1 }, 3, 5 },
};
enum { N_JOBS = sizeof jobs / sizeof *jobs };

static float *drawn(int64_t n, int key)
{
    float *x = malloc((size_t)n * sizeof *x);

    kvr_uniform(x, (size_t)n, 1, KVR_RNG_SYNTHETIC, (uint64_t)key, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] -= 0.5f;
    return x;
}

static enum kvr_status rig_open_as(struct rig *r, enum kvr_backend backend, enum kvr_dtype type,
                                   const struct job *j)
{
    const struct kvr_conv_shape *s = &j->s;
    float *w = drawn((int64_t)s->out * s->in * s->taps * s->kernel * s->kernel, 1);
    float *bias = drawn(s->out, 2);
    enum kvr_status st;

    *r = (struct rig){ .type = type };
    ck_assert_int_eq(kvr_dev_open(&r->dev, backend), KVR_OK);
    st = kvr_conv_context_open(&r->context, r->dev, type);
    if (st == KVR_OK)
        st = kvr_conv_open(&r->conv, r->context, s, w, bias);
    free(w);
    free(bias);
    return st;
}

static enum kvr_status rig_open(struct rig *r, enum kvr_backend backend, const struct job *j)
{
    return rig_open_as(r, backend, KVR_F32, j);
}

static void rig_close(struct rig *r)
{
    struct kvr_mem_stats mem;

    kvr_conv_close(&r->conv);
    kvr_conv_context_close(&r->context);
    for (int i = 0; i < 3; i++)
        kvr_buf_free(&r->x[i]);
    kvr_buf_free(&r->y);
    kvr_mem_stats(r->dev, &mem);
    ck_assert_uint_eq(mem.live_total, 0);
    kvr_dev_close(&r->dev);
}

/* Allocates n values of type r->type in device memory and fills them with random numbers of stream
 * `key`. */
static void put_drawn(struct rig *r, struct kvr_buf *to, int64_t n, int key)
{
    const size_t bytes = (size_t)n * kvr_dtype_size(r->type);
    float *x = drawn(n, key);
    void *raw = malloc(bytes);

    kvr_from_f32(raw, r->type, x, (size_t)n);
    ck_assert_int_eq(kvr_buf_alloc(to, r->dev, KVR_MEM_ACT, bytes), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(r->dev, to->p, raw, bytes), KVR_OK);
    free(raw);
    free(x);
}

/* Runs the convolution and sets *y to a malloc'ed float array [height, width, out]. */
static enum kvr_status convolve(struct rig *r, const struct job *j, float **y)
{
    const struct kvr_conv_shape *s = &j->s;
    const int64_t n = (int64_t)(s->height / s->up) * (s->width / s->up) * j->stride;
    const size_t n_y = (size_t)s->height * (size_t)s->width * (size_t)s->out;
    const size_t bytes = n_y * kvr_dtype_size(r->type);
    struct kvr_conv_frame f[3] = { 0 };
    void *raw = malloc(bytes);
    enum kvr_status st;

    *y = malloc(n_y * sizeof **y);
    ck_assert_int_eq(kvr_buf_alloc(&r->y, r->dev, KVR_MEM_ACT, bytes), KVR_OK);
    for (int t = s->taps - j->there; t < s->taps; t++) {
        put_drawn(r, &r->x[t], n, 3 + t);
        f[t] = (struct kvr_conv_frame){ r->x[t].p, j->stride };
    }
    st = kvr_conv_run(r->conv, f, r->y.p);
    if (st == KVR_OK) {
        ck_assert_msg(kvr_dev_sync(r->dev) == KVR_OK, "%s", kvr_error());
        st = kvr_dev_get(r->dev, raw, r->y.p, bytes);
    }
    if (st == KVR_OK)
        kvr_to_f32(*y, raw, r->type, n_y);
    free(raw);
    return st;
}

/* Returns the largest difference of two F32 results. A sum of 144 products below 1/4 is at most 36
 * in size. Two F32 sums in different orders differ by at most 144 x 2^-23 x 36 = 6.2e-4; about 1e-7
 * was measured. */
static double furthest(const struct job *j, const float *a, const float *b)
{
    const int64_t n = (int64_t)j->s.height * j->s.width * j->s.out;
    double most = 0;

    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);

        most = d > most || isnan(d) ? d : most;
    }
    return most;
}

static long convolutions(void)
{
    void *library = dlopen(fake, RTLD_NOW);
    const long *n = dlsym(library, "kvr_test_convolutions");
    const long now = *n;

    dlclose(library);
    return now;
}

START_TEST(as_on_the_cpu)
{
    const struct job *j = &jobs[_i];
    struct kvr_mem_stats mem;
    struct rig host, there;
    float *want, *got;
    long before;

    use_fake();
    ck_assert_msg(rig_open(&host, KVR_CPU, j) == KVR_OK, "%s", kvr_error());
    ck_assert_ptr_nonnull(strstr(kvr_conv_context_library(host.context), "oneDNN "));
    ck_assert_int_eq(convolve(&host, j, &want), KVR_OK);
    ck_assert_msg(rig_open(&there, KVR_CUDA, j) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(kvr_conv_context_library(there.context), "cuDNN 9.10");
    before = convolutions();
    ck_assert_msg(convolve(&there, j, &got) == KVR_OK, "%s", kvr_error());
    /* one library call per existing input frame, or per band if the input is upsampled */
    ck_assert_int_eq(convolutions() - before, j->s.height == 140 ? 4 : j->there);
    ck_assert_msg(furthest(j, got, want) <= 1e-6, "%g", furthest(j, got, want));
    /* The library's workspace is counted as scratch memory. The frames allocated for the trial run
     * are freed. */
    kvr_mem_stats(there.dev, &mem);
    ck_assert_uint_eq(mem.live[KVR_MEM_SCRATCH],
                      4096 + (j->s.up == 1 ? 0
                                           : (size_t)(j->s.height == 140 ? 37 : 8) *
                                                 (size_t)(j->s.width * j->s.in) * sizeof(float)));
    free(want);
    free(got);
    rig_close(&host);
    rig_close(&there);
}
END_TEST

/* Fails unless each value is at most one BF16 step (2^-7 of its size) plus `besides` from `want`,
 * and at least 7 of 8 values are equal. */
static void as_rounded(const struct job *j, const float *want, const float *got, double besides)
{
    const int64_t n = (int64_t)j->s.height * j->s.width * j->s.out;
    int64_t same = 0;

    for (int64_t i = 0; i < n; i++) {
        const double off = fabs((double)want[i] - (double)got[i]);

        ck_assert_msg(off <= 0x1p-7 * fabs((double)want[i]) + besides, "[%lld] %g, want %g",
                      (long long)i, (double)got[i], (double)want[i]);
        same += off == 0;
    }
    ck_assert_int_ge(same, n - n / 8);
}

/* In BF16 the CPU, the library and kvreel's kernel multiply the same rounded numbers and round each
 * sum once. Before rounding, their F32 sums may differ by 1e-6, as in as_on_the_cpu. */
START_TEST(in_bf16)
{
    const struct job *j = &jobs[_i];
    const bool in_place = j->s.taps == 1 && j->s.up == 1 && j->s.out % 8 == 0;
    float *want, *got[2], *exact;
    struct kvr_mem_stats mem;
    struct rig r;
    long before;

    use_fake();
    ck_assert_int_eq(rig_open(&r, KVR_CPU, j), KVR_OK);
    ck_assert_int_eq(convolve(&r, j, &exact), KVR_OK);
    rig_close(&r);
    ck_assert_msg(rig_open_as(&r, KVR_CPU, KVR_BF16, j) == KVR_OK, "%s", kvr_error());
    ck_assert_ptr_nonnull(strstr(kvr_conv_context_library(r.context), "BF16"));
    ck_assert_int_eq(convolve(&r, j, &want), KVR_OK);
    rig_close(&r);
    ck_assert_msg(rig_open_as(&r, KVR_CUDA, KVR_BF16, j) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(kvr_conv_context_library(r.context), "cuDNN 9.10, BF16");
    kvr_mem_stats(r.dev, &mem);
    ck_assert_int_eq(mem.live[KVR_MEM_SCRATCH] == 4096, in_place);
    before = convolutions();
    ck_assert_msg(convolve(&r, j, &got[0]) == KVR_OK, "%s", kvr_error());
    /* one call for all taps */
    ck_assert_int_eq(convolutions() - before, j->s.height == 140 ? 4 : 1);
    rig_close(&r);
    setenv("KVREEL_CUDNN", "none", 1);
    ck_assert_int_eq(rig_open_as(&r, KVR_CUDA, KVR_BF16, j), KVR_OK);
    ck_assert_ptr_nonnull(
        strstr(kvr_conv_context_library(r.context), "kvreel, BF16 (cuDNN: disabled"));
    ck_assert_int_eq(convolve(&r, j, &got[1]), KVR_OK);
    rig_close(&r);
    as_rounded(j, want, got[0], 1e-6);
    as_rounded(j, want, got[1], 1e-6);
    /* BF16 rounding changes a factor below 1/2 by at most 2^-10, and therefore a product by at most
     * 2^-10. Errors have random signs, so a sum is far more accurate than 135 x 2^-10. */
    ck_assert_msg(furthest(j, want, exact) <= 135 * 0x1p-10 && furthest(j, want, exact) > 0, "%g",
                  furthest(j, want, exact));
    free(exact);
    free(want);
    free(got[0]);
    free(got[1]);
}
END_TEST

/* Convolutions for on_tensor_cores. kvr_conv_mma_accepts() accepts the first ON_TENSOR_CORES. */
static const struct job own_jobs[] = {
    { { .in = 32, .out = 34, .taps = 3, .kernel = 3, .height = 3, .width = 4, .up = 1 }, 1, 32 },
    { { .in = 64, .out = 40, .taps = 3, .kernel = 1, .height = 5, .width = 3, .up = 1 }, 3, 64 },
    { { .in = 32, .out = 3, .taps = 1, .kernel = 3, .height = 6, .width = 10, .up = 2 }, 1, 64 },
    { { .in = 32, .out = 3, .taps = 1, .kernel = 3, .height = 6, .width = 10, .up = 2 }, 1, 68 },
    { { .in = 48, .out = 16, .taps = 1, .kernel = 1, .height = 3, .width = 4, .up = 1 }, 1, 48 },
};
enum { N_OWN = sizeof own_jobs / sizeof *own_jobs, ON_TENSOR_CORES = 3 };

/* Without the library, or where it refuses a shape, kvreel's own kernels run. In BF16 they use
 * tensor cores if the shape fits; in F32 they never do. A sum of 288 products below 1/4 is at most
 * 72 in size. Two F32 sums in different orders differ by at most 288 x 2^-23 x 72 = 2.5e-3; less
 * than 1e-5 was measured. */
START_TEST(on_tensor_cores)
{
    const struct job *j = &own_jobs[_i];
    float *want, *got;
    struct rig r;

    use_fake();
    ck_assert_int_eq(rig_open_as(&r, KVR_CPU, KVR_BF16, j), KVR_OK);
    ck_assert_int_eq(convolve(&r, j, &want), KVR_OK);
    rig_close(&r);
    for (int refuses = 0; refuses < 2; refuses++) {
        if (refuses)
            setenv("KVR_TEST_CUDNN", "refuses", 1);
        setenv("KVREEL_CUDNN", refuses ? fake : "none", 1);
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const struct kvr_stream *s;

            ck_assert_int_eq(rig_open_as(&r, KVR_CUDA, bf16 ? KVR_BF16 : KVR_F32, j), KVR_OK);
            s = kvr_dev_stream(r.dev);
            ck_assert_int_eq(convolve(&r, j, &got), KVR_OK);
            ck_assert_int_eq(kvr_stream_launches(s, "conv_mma"), bf16 && _i < ON_TENSOR_CORES);
            ck_assert(bf16 || kvr_stream_launches(s, "conv_pixels") > 0);
            if (bf16)
                as_rounded(j, want, got, 1e-5);
            free(got);
            rig_close(&r);
        }
    }
    unsetenv("KVR_TEST_CUDNN");
    free(want);
}
END_TEST

/* In BF16, too, the library's result is compared with kvreel's kernel before it is used. */
START_TEST(wrong_in_bf16)
{
    const struct job *j = &jobs[1];
    struct rig r;

    use_fake();
    setenv("KVR_TEST_CUDNN", "wrong", 1);
    ck_assert_int_eq(rig_open_as(&r, KVR_CUDA, KVR_BF16, j), KVR_OK);
    ck_assert_ptr_nonnull(
        strstr(kvr_conv_context_library(r.context),
               "cuDNN 9.10, BF16, 1 of 1 convolutions kvreel (cuDNN: the convolution of 5 to 7 "
               "channels with 3 x 3 filters differs "));
    rig_close(&r);
    unsetenv("KVR_TEST_CUDNN");
}
END_TEST

/* library: the library's path. does: the fault of the stand-in. message: text that
 * kvr_conv_context_library() must contain. */
static const struct {
    const char *library, *does, *message;
} without[] = {
    { NULL, NULL, "kvreel (cuDNN: not used, since the kernels are emulated on the CPU)" },
    { "none", NULL, "kvreel (cuDNN: disabled by KVREEL_CUDNN=none)" },
    { "/nowhere/libcudnn.so.9", NULL, "kvreel (cuDNN: /nowhere/libcudnn.so.9: " },
    { "tests/plugins/no_export.so", NULL, "needs a GPU; unset KVREEL_CUDNN)" },
    { "fake", "dead", "kvreel (cuDNN: cudnnCreate: CUDNN_STATUS_EXECUTION_FAILED (5000))" },
    { "fake", "refuses",
      "cuDNN 9.10, 1 of 1 convolutions kvreel (cuDNN: algorithms: CUDNN_STATUS_NOT_SUPPORTED "
      "(3000))" },
    { "fake", "wrong",
      "cuDNN 9.10, 1 of 1 convolutions kvreel (cuDNN: the convolution of 5 to 7 channels with 3 x "
      "3 "
      "filters differs "
      "from kvreel's own kernel by 0.000" },
    { "fake", "nan", "differs from kvreel's own kernel by nan of the largest output" },
    { "fake", "fails", "CUDNN_STATUS_EXECUTION_FAILED (5000))" },
};

/* If the library cannot be used, kvreel's kernel gives the same bytes as without a library. */
START_TEST(by_the_own_kernel)
{
    const struct job *j = &jobs[1];
    struct rig none, there;
    float *want, *got;
    char path[4096];

    use_fake();
    setenv("KVREEL_CUDNN", "none", 1);
    ck_assert_int_eq(rig_open(&none, KVR_CUDA, j), KVR_OK);
    ck_assert_int_eq(convolve(&none, j, &want), KVR_OK);
    if (!without[_i].library)
        unsetenv("KVREEL_CUDNN");
    else if (strcmp(without[_i].library, "fake") == 0)
        setenv("KVREEL_CUDNN", fake, 1);
    else if (strncmp(without[_i].library, "tests/", 6) == 0)
        setenv("KVREEL_CUDNN", built_file(without[_i].library, path, sizeof path), 1);
    else
        setenv("KVREEL_CUDNN", without[_i].library, 1);
    if (without[_i].does)
        setenv("KVR_TEST_CUDNN", without[_i].does, 1);
    ck_assert_msg(rig_open(&there, KVR_CUDA, j) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(strstr(kvr_conv_context_library(there.context), without[_i].message) != NULL,
                  "%s", kvr_conv_context_library(there.context));
    ck_assert_int_eq(convolve(&there, j, &got), KVR_OK);
    ck_assert(memcmp(want, got, (size_t)(3 * 4 * 7) * sizeof *got) == 0);
    free(want);
    free(got);
    rig_close(&none);
    rig_close(&there);
    unsetenv("KVR_TEST_CUDNN");
}
END_TEST

/* A library call that fails after the first comparison has passed is an error of the
 * computation. */
START_TEST(a_late_failure)
{
    const struct job *j = &jobs[0];
    struct rig r;
    float *got;

    use_fake();
    ck_assert_int_eq(rig_open(&r, KVR_CUDA, j), KVR_OK);
    setenv("KVR_TEST_CUDNN", "fails", 1);
    ck_assert_int_eq(convolve(&r, j, &got), KVR_EINTERNAL);
    ck_assert_str_eq(kvr_error(), "decoder: cuDNN: cudnnConvolutionForward: "
                                  "CUDNN_STATUS_EXECUTION_FAILED (5000)");
    unsetenv("KVR_TEST_CUDNN");
    free(got);
    rig_close(&r);
}
END_TEST

/* If a frame's pixels are more values apart than it has channels, kvreel's own kernel computes the
 * convolution. */
START_TEST(apart)
{
    const struct job j = { jobs[3].s, 3, 8 };
    struct rig host, there;
    float *want, *got;
    long before;

    use_fake();
    ck_assert_int_eq(rig_open(&host, KVR_CPU, &j), KVR_OK);
    ck_assert_int_eq(convolve(&host, &j, &want), KVR_OK);
    ck_assert_int_eq(rig_open(&there, KVR_CUDA, &j), KVR_OK);
    before = convolutions();
    ck_assert_int_eq(convolve(&there, &j, &got), KVR_OK);
    ck_assert_int_eq(convolutions(), before);
    ck_assert_msg(furthest(&j, got, want) <= 1e-6, "%g", furthest(&j, got, want));
    free(want);
    free(got);
    rig_close(&host);
    rig_close(&there);
}
END_TEST

/* On a device, a convolution whose frame has more rows or columns than the kernel can address is
 * not opened. */
START_TEST(too_large)
{
    const int sizes[][2] = { { 32768, 65536 }, { 32769, 2 }, { 2, 65537 } };

    setenv("KVREEL_CUDNN", "none", 1);
    for (int i = 0; i < 3; i++) {
        struct job j = { .s = { .in = 1, .out = 1, .taps = 1, .kernel = 1, .up = 1 } };
        char size[64];
        struct rig r;

        j.s.height = sizes[i][0];
        j.s.width = sizes[i][1];
        snprintf(size, sizeof size, " of %d x %d pixels", sizes[i][0], sizes[i][1]);
        ck_assert_int_eq(rig_open(&r, KVR_CUDA, &j), i ? KVR_EUNSUPPORTED : KVR_OK);
        ck_assert_msg(!i || strstr(kvr_error(), size), "%s", kvr_error());
        rig_close(&r);
    }
    unsetenv("KVREEL_CUDNN");
}
END_TEST

/* Runs the decoder and encoder of Wan 2.2 with the stand-in and compares their results with
 * recorded ones. */
START_TEST(a_whole_vae)
{
    const struct kvr_check_how how = { .device = "emulated" };
    struct kvr_check_report r = { 0 };
    void *kept; /* keeps the library loaded: unloading it would lose its count of convolutions */
    long before;

    use_fake();
    kept = dlopen(fake, RTLD_NOW);
    before = convolutions();
    ck_assert_msg(kvr_check_vae(&r, "tests/fixtures/wan22", &how) == KVR_OK, "%s", kvr_error());
    ck_assert_int_gt(convolutions() - before, 400);
    dlclose(kept);
    ck_assert_int_eq(r.n, 3); /* raw_one, raw, encoder.latent */
    for (int i = 0; i < r.n; i++)
        ck_assert_msg(r.entries[i].status == KVR_CHECK_OK && r.entries[i].rel_l2 <= 1e-5,
                      "%s: %g %s", r.entries[i].name, r.entries[i].rel_l2, r.entries[i].note);
    kvr_check_report_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("conv_cudnn");
    TCase *tc = tcase_create("conv_cudnn");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, as_on_the_cpu, 0, N_JOBS);
    tcase_add_loop_test(tc, in_bf16, 0, N_JOBS);
    tcase_add_loop_test(tc, on_tensor_cores, 0, N_OWN);
    tcase_add_test(tc, wrong_in_bf16);
    tcase_add_loop_test(tc, by_the_own_kernel, 0, sizeof without / sizeof *without);
    tcase_add_test(tc, a_late_failure);
    tcase_add_test(tc, apart);
    tcase_add_test(tc, too_large);
    tcase_add_test(tc, a_whole_vae);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
