/* test_conv.c - compares convolutions on the CPU with sums in F64. Layers of at most 48 channels
 * must equal the F64 sum rounded to F32; others may differ by the error bound of an F32 sum. */
#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/engine/vae/conv.h"
#include "tests/suite.h"

static const struct job {
    struct kvr_conv_shape s;
    /* number of existing input frames: the newest of the s.taps frames; the others are NULL */
    int there;
    bool narrow; /* true if the layer has at most 48 input and output channels */
} jobs[] = {
    { { .in = 5, .out = 7, .taps = 3, .kernel = 3, .height = 3, .width = 4, .up = 1 }, 1, true },
    { { .in = 5, .out = 7, .taps = 3, .kernel = 3, .height = 9, .width = 4, .up = 1 }, 3, true },
    { { .in = 48, .out = 48, .taps = 1, .kernel = 1, .height = 5, .width = 3, .up = 1 }, 1, true },
    { { .in = 48, .out = 8, .taps = 3, .kernel = 3, .height = 4, .width = 6, .up = 1 }, 2, true },
    { { .in = 4, .out = 3, .taps = 1, .kernel = 3, .height = 6, .width = 10, .up = 2 }, 1, true },
    { { .in = 49, .out = 48, .taps = 2, .kernel = 3, .height = 5, .width = 3, .up = 1 }, 2, false },
    { { .in = 12, .out = 49, .taps = 3, .kernel = 3, .height = 7, .width = 4, .up = 1 }, 3, false },
    { { .in = 50, .out = 52, .taps = 1, .kernel = 3, .height = 6, .width = 6, .up = 2 }, 1, false },
};
enum { N_JOBS = sizeof jobs / sizeof *jobs };

static float *drawn(size_t n, int key)
{
    float *x = malloc(n * sizeof *x);

    kvr_uniform(x, n, 1, KVR_RNG_SYNTHETIC, (uint64_t)key, 0, 0);
    for (size_t i = 0; i < n; i++)
        x[i] -= 0.5f;
    return x;
}

static size_t n_y(const struct kvr_conv_shape *s)
{
    return (size_t)s->height * (size_t)s->width * (size_t)s->out;
}

/* Returns output `o` of pixel (y, x) in F64; *size is the sum of the products' absolute values. */
static double direct(const struct job *j, const float *w, const float *bias, float *const *frame,
                     int y, int x, int o, double *size)
{
    const struct kvr_conv_shape *s = &j->s;
    const int b = s->kernel / 2, wide = s->width / s->up;
    double sum = (double)bias[o];

    *size = fabs(sum);
    for (int t = s->taps - j->there; t < s->taps; t++)
        for (int dy = -b; dy <= b; dy++)
            for (int dx = -b; dx <= b; dx++)
                for (int i = 0; i < s->in; i++) {
                    const int at = ((o * s->in + i) * s->taps + t) * s->kernel * s->kernel;
                    double v;

                    if (y + dy < 0 || y + dy >= s->height || x + dx < 0 || x + dx >= s->width)
                        continue;
                    v = (double)w[at + (dy + b) * s->kernel + dx + b] *
                        (double)frame[t][((y + dy) / s->up * wide + (x + dx) / s->up) * s->in + i];
                    sum += v;
                    *size += fabs(v);
                }
    return sum;
}

/* Let A be the sum of the N products' absolute values. An F32 sum has an error of at most (N + 1)
 * 2^-24 A. A narrow layer sums in F64, with an error of at most (N + 1) 2^-53 A, and rounds once to
 * F32. */
static void compare(const struct job *j, const float *w, const float *bias, float *const *frame,
                    const float *got)
{
    const struct kvr_conv_shape *s = &j->s;
    const double n = 1 + s->in * s->taps * s->kernel * s->kernel;

    for (int y = 0; y < s->height; y++)
        for (int x = 0; x < s->width; x++)
            for (int o = 0; o < s->out; o++) {
                double size;
                const double want = direct(j, w, bias, frame, y, x, o, &size);
                const double off = fabs((double)got[(y * s->width + x) * s->out + o] - want);
                const double tol =
                    j->narrow ? fabs(want) * 0x1p-24 + 2 * n * 0x1p-53 * size : n * 0x1p-24 * size;

                ck_assert_msg(off <= tol, "row %d, column %d, channel %d: %g > %g", y, x, o, off,
                              tol);
            }
}

START_TEST(sums)
{
    const struct job *j = &jobs[_i];
    const struct kvr_conv_shape *s = &j->s;
    const size_t n_x = (size_t)(s->height / s->up) * (size_t)(s->width / s->up) * (size_t)s->in;
    float *w = drawn((size_t)(s->out * s->in * s->taps * s->kernel * s->kernel), 1);
    float *bias = drawn((size_t)s->out, 2), *frame[3] = { 0 }, *y[2];
    struct kvr_conv_frame f[3] = { 0 };

    for (int t = s->taps - j->there; t < s->taps; t++) {
        frame[t] = drawn(n_x, 3 + t);
        f[t] = (struct kvr_conv_frame){ frame[t], s->in };
    }
    for (int i = 0; i < 2; i++) {
        struct kvr_conv_context *context;
        struct kvr_mem_stats mem;
        struct kvr_conv *c;
        struct kvr_dev *dev;

        omp_set_num_threads(i ? 3 : 1);
        y[i] = malloc(n_y(s) * sizeof **y);
        ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
        ck_assert_msg(kvr_conv_context_open(&context, dev, KVR_F32) == KVR_OK, "%s", kvr_error());
        ck_assert_msg(kvr_conv_open(&c, context, s, w, bias) == KVR_OK, "%s", kvr_error());
        ck_assert_msg(kvr_conv_run(c, f, y[i]) == KVR_OK, "%s", kvr_error());
        kvr_conv_close(&c);
        kvr_conv_context_close(&context);
        kvr_mem_stats(dev, &mem);
        ck_assert_uint_eq(mem.live_total, 0);
        kvr_dev_close(&dev);
    }
    compare(j, w, bias, frame, y[0]);
    ck_assert_mem_eq(y[0], y[1], n_y(s) * sizeof **y);
    for (int t = 0; t < 3; t++)
        free(frame[t]);
    free(y[0]);
    free(y[1]);
    free(bias);
    free(w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("conv");
    TCase *tc = tcase_create("conv");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, sums, 0, N_JOBS);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
