/* cases_conv.c - convolutions in BF16 on tensor cores, against sums in float64.
 *
 * u = 2^-24. An output sums N products and a bias; S is the sum of their magnitudes. Products of
 * BF16 values are exact in F32. Tensor cores add groups of 16 in an unspecified order and may
 * truncate bits below 2^-23 of the largest term. That is 16 truncations per group, or an error
 * of 2^-23 N S in all. The result is rounded to BF16 once, with an error of at most 2^-8 of its
 * value. A wrong tap, frame, channel or border would change most outputs by far more, about S /
 * sqrt(N). */
#include "harness/engine/vae/conv_mma.h"
#include "harness/engine/vae/vae_cuda.h"
#include "tests/cuda/both.h"

static const struct {
    struct kvr_conv_shape s;
    int n_frames, stride; /* number of input frames; elements from one pixel to the next */
} convs[] = {
    /* 1, 2 and 3 of the 3 input frames; odd and even numbers of output channels, below the tile's
     * width */
    { { .in = 32, .out = 7, .taps = 3, .kernel = 3, .height = 5, .width = 7, .up = 1 }, 1, 32 },
    { { .in = 32, .out = 3, .taps = 3, .kernel = 3, .height = 5, .width = 7, .up = 1 }, 2, 32 },
    { { .in = 64, .out = 12, .taps = 3, .kernel = 3, .height = 9, .width = 15, .up = 1 }, 3, 64 },
    /* no input frame */
    { { .in = 32, .out = 34, .taps = 3, .kernel = 3, .height = 2, .width = 3, .up = 1 }, 0, 32 },
    /* Wan's 96 channels, with 29 of 128 pixels in the third tile */
    { { .in = 96, .out = 96, .taps = 3, .kernel = 3, .height = 15, .width = 19, .up = 1 }, 3, 96 },
    /* tiles of 32, 96 and 128 columns, partial and full */
    { { .in = 32, .out = 33, .taps = 1, .kernel = 3, .height = 1, .width = 257, .up = 1 }, 1, 40 },
    { { .in = 32, .out = 130, .taps = 2, .kernel = 3, .height = 4, .width = 5, .up = 1 }, 2, 32 },
    { { .in = 64, .out = 256, .taps = 1, .kernel = 1, .height = 32, .width = 8, .up = 1 }, 1, 64 },
    { { .in = 32, .out = 226, .taps = 1, .kernel = 3, .height = 7, .width = 2, .up = 1 }, 1, 32 },
    /* a 3 x 1 x 1 kernel; a 3 x 3 kernel on an upsampled frame, interleaved with another frame */
    { { .in = 64, .out = 128, .taps = 3, .kernel = 1, .height = 5, .width = 3, .up = 1 }, 2, 64 },
    { { .in = 64, .out = 48, .taps = 1, .kernel = 3, .height = 10, .width = 14, .up = 2 }, 1, 128 },
    { { .in = 32, .out = 1, .taps = 1, .kernel = 1, .height = 1, .width = 1, .up = 1 }, 1, 32 },
};
enum { N_CONVS = sizeof convs / sizeof *convs, BIAS = 2, WEIGHTS = 1, FRAMES = 3 };

struct job {
    struct kvr_conv_shape s;
    int stride;
    int64_t n_in, n_w, n_y;
    kvr_bf16 *w, *frame[3], *y;
    float *bias;
};

static kvr_bf16 *filled(int64_t n, enum fill fill, uint32_t seed)
{
    const struct kvr_block_shape shape = { n, 1, 1 };
    kvr_bf16 *to = malloc((size_t)n * sizeof *to);
    float *x = floats((size_t)n);

    fill_block(x, &shape, fill, seed);
    kvr_from_f32(to, KVR_BF16, x, (size_t)n);
    free(x);
    return to;
}

/* Memory that the kernel must not read contains NaN: the padding between pixels, and the weights of
 * missing frames. */
static void job_open(struct job *j, int which, enum fill fill)
{
    const struct kvr_block_shape b = { convs[which].s.out, 1, 1 };
    const kvr_bf16 nan = kvr_f32_to_bf16(NAN);

    *j = (struct job){ .s = convs[which].s, .stride = convs[which].stride };
    j->n_in = (int64_t)(j->s.height / j->s.up) * (j->s.width / j->s.up) * j->stride;
    j->n_w = (int64_t)j->s.out * j->s.kernel * j->s.kernel * j->s.taps * j->s.in;
    j->n_y = (int64_t)j->s.height * j->s.width * j->s.out;
    j->w = filled(j->n_w, FILL_NORMAL, WEIGHTS);
    j->y = malloc((size_t)j->n_y * sizeof *j->y);
    j->bias = floats((size_t)j->s.out);
    fill_block(j->bias, &b, FILL_NORMAL, BIAS);
    for (int64_t i = 0; i < j->n_w; i++)
        if (i / j->s.in % j->s.taps < j->s.taps - convs[which].n_frames)
            j->w[i] = nan;
    for (int t = j->s.taps - convs[which].n_frames; t < j->s.taps; t++) {
        j->frame[t] = filled(j->n_in, fill, (uint32_t)(FRAMES + t));
        for (int64_t i = 0; i < j->n_in; i++)
            if (i % j->stride >= j->s.in)
                j->frame[t][i] = nan;
    }
}

static void job_close(struct job *j)
{
    both_free();
    for (int t = 0; t < 3; t++)
        free(j->frame[t]);
    free(j->w);
    free(j->y);
    free(j->bias);
}

static void compute(struct job *j)
{
    const size_t size = (size_t)j->n_y * sizeof *j->y, in = (size_t)j->n_in * sizeof *j->y;
    kvr_bf16 *d_y = both_out(size);
    struct kvr_conv_frame f[3] = { 0 };

    for (int t = 0; t < j->s.taps; t++)
        f[t] = (struct kvr_conv_frame){ j->frame[t] ? both_in(j->frame[t], in) : NULL, j->stride };
    ck_assert(kvr_conv_mma_accepts(&j->s, f));
    kvr_conv_mma_run(both_stream, &j->s, f, both_in(j->w, (size_t)j->n_w * sizeof *j->w),
                     both_in(j->bias, (size_t)j->s.out * sizeof *j->bias), d_y);
    both_get(j->y, d_y, size, "convolution");
}

/* Returns element i of y, computed in float64. *sizes receives the sum of the magnitudes of the
 * element's terms. */
static double defined(const struct job *j, int64_t i, double *sizes)
{
    const struct kvr_conv_shape *c = &j->s;
    const int out = (int)(i % c->out), k = c->kernel;
    const int y0 = (int)(i / c->out / c->width), x0 = (int)(i / c->out % c->width);
    double sum = (double)j->bias[out];

    *sizes = fabs(sum);
    for (int a = 0; a < k * k; a++) {
        const int y = y0 + a / k - k / 2, x = x0 + a % k - k / 2;

        if (y < 0 || y >= c->height || x < 0 || x >= c->width)
            continue;
        for (int t = 0; t < c->taps; t++)
            for (int e = 0; j->frame[t] && e < c->in; e++) {
                const int64_t at = (int64_t)(y / c->up) * (c->width / c->up) + x / c->up;
                const int64_t of = (((int64_t)out * k * k + a) * c->taps + t) * c->in + e;
                const double p = (double)kvr_bf16_to_f32(j->frame[t][at * j->stride + e]) *
                                 (double)kvr_bf16_to_f32(j->w[of]);

                sum += p;
                *sizes += fabs(p);
            }
    }
    return sum;
}

static void check_all(const struct job *j)
{
    const double n = 1 + (double)j->s.taps * j->s.kernel * j->s.kernel * j->s.in;

    for (int64_t i = 0; i < j->n_y; i++) {
        double sizes;
        const double want = defined(j, i, &sizes), got = (double)kvr_bf16_to_f32(j->y[i]);
        const double tol = n * 0x1p-23 * sizes * (1 + 0x1p-8) + 0x1p-8 * fabs(want);

        /* If partial sums may exceed the range of F32, the result must be non-finite. */
        if (sizes < 3e38 ? !(fabs(got - want) <= tol) : isfinite(got))
            ck_abort_msg("pixel %lld, channel %lld: %g, want %g within %g",
                         (long long)(i / j->s.out), (long long)(i % j->s.out), got, want, tol);
    }
}

START_TEST(sums_on_tensor_cores)
{
    struct job j;

    job_open(&j, _i / N_FILLS, (enum fill)(_i % N_FILLS));
    compute(&j);
    check_all(&j);
    job_close(&j);
}
END_TEST

/* The kernels on tensor cores and on CUDA cores may differ by twice the bound at the top of this
 * file. */
START_TEST(as_on_cuda_cores)
{
    struct job j;
    kvr_bf16 *d_y, *plain;
    struct kvr_conv_frame f[3] = { 0 };

    job_open(&j, _i, FILL_NORMAL);
    compute(&j);
    d_y = both_out((size_t)j.n_y * sizeof *d_y);
    plain = malloc((size_t)j.n_y * sizeof *plain);
    for (int t = 0; t < j.s.taps; t++)
        if (j.frame[t])
            f[t] = (struct kvr_conv_frame){ both_in(j.frame[t], (size_t)j.n_in * sizeof *d_y),
                                            j.stride };
    kvr_conv_cuda_run(both_stream, KVR_BF16, &j.s, f, both_in(j.w, (size_t)j.n_w * sizeof *j.w),
                      both_in(j.bias, (size_t)j.s.out * sizeof *j.bias), d_y);
    both_get(plain, d_y, (size_t)j.n_y * sizeof *plain, "convolution on CUDA cores");
    for (int64_t i = 0; i < j.n_y; i++) {
        double sizes;
        const double n = 1 + (double)j.s.taps * j.s.kernel * j.s.kernel * j.s.in;
        const double a = (double)kvr_bf16_to_f32(j.y[i]), b = (double)kvr_bf16_to_f32(plain[i]);
        const double want = defined(&j, i, &sizes);

        ck_assert_msg(fabs(a - b) <=
                          2 * n * 0x1p-23 * sizes * (1 + 0x1p-8) + 2 * 0x1p-8 * fabs(want),
                      "[%lld] %g on tensor cores, %g on CUDA cores", (long long)i, a, b);
    }
    free(plain);
    job_close(&j);
}
END_TEST

/* A NaN in one channel of one pixel of one frame reaches every output that reads it, and no
 * other. */
START_TEST(not_a_number)
{
    static const int which[] = { 1, 4, 9, 10 };
    struct job j;
    int spread = 0;

    job_open(&j, which[_i], FILL_NORMAL);
    j.frame[j.s.taps - 1][j.n_in / j.stride / 2 * j.stride + j.s.in - 1] = kvr_f32_to_bf16(NAN);
    compute(&j);
    for (int64_t i = 0; i < j.n_y; i++) {
        double sizes;
        const double want = defined(&j, i, &sizes);

        ck_assert_int_eq(isnan(want) != 0, isnan(kvr_bf16_to_f32(j.y[i])) != 0);
        spread += isnan(want) != 0;
    }
    ck_assert_int_ge(spread, j.s.out);
    ck_assert_int_lt(spread, (int)j.n_y);
    job_close(&j);
}
END_TEST

/* Results are bit-identical for any order of warps. */
START_TEST(same_every_time)
{
    kvr_bf16 *before;
    struct job j;

    job_open(&j, 2, FILL_NORMAL);
    compute(&j);
    before = malloc((size_t)j.n_y * sizeof *before);
    memcpy(before, j.y, (size_t)j.n_y * sizeof *before);
    compute(&j);
    ck_assert_mem_eq(before, j.y, (size_t)j.n_y * sizeof *before);
    free(before);
    job_close(&j);
}
END_TEST

/* Shapes that kvr_conv_mma_accepts() must refuse. */
START_TEST(refused)
{
    const struct kvr_conv_shape fits = {
        .in = 96, .out = 3, .taps = 3, .kernel = 3, .height = 480, .width = 832, .up = 1
    };
    struct kvr_conv_shape c = fits;
    _Alignas(16) kvr_bf16 memory[16];
    struct kvr_conv_frame f[3] = { { NULL, 0 }, { memory, 96 }, { memory, 96 } };

    ck_assert(kvr_conv_mma_accepts(&c, f));
    c.in = 16;
    ck_assert(!kvr_conv_mma_accepts(&c, f));
    c = fits;
    c.height = c.width = 16384; /* 2^28 pixels of 96 channels are too many */
    ck_assert(!kvr_conv_mma_accepts(&c, f));
    f[1].stride = 100;
    ck_assert(!kvr_conv_mma_accepts(&fits, f));
    f[1] = (struct kvr_conv_frame){ memory + 4, 96 };
    ck_assert(!kvr_conv_mma_accepts(&fits, f));
    f[1] = (struct kvr_conv_frame){ memory, 192 };
    ck_assert(!kvr_conv_mma_accepts(&fits, f));
    f[1] = (struct kvr_conv_frame){ memory + 8, 96 };
    ck_assert(kvr_conv_mma_accepts(&fits, f));
}
END_TEST

TCase *cases_conv(void)
{
    TCase *tc = tcase_create("conv");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, sums_on_tensor_cores, 0, N_CONVS * N_FILLS);
    tcase_add_loop_test(tc, as_on_cuda_cores, 0, N_CONVS);
    tcase_add_loop_test(tc, not_a_number, 0, 4);
    tcase_add_test(tc, same_every_time);
    tcase_add_test(tc, refused);
    return tc;
}
