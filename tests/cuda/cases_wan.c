/* cases_wan.c - kernels of Wan's text encoder and VAE decoder on a device, compared with the CPU's
 * results or with sums in float64.
 *
 * Let u = 2^-24. On either backend, a score s is a sum of D products and a bias, within (D + 1) u
 * of the sum S of their magnitudes. Its weight is exp(s - top), where `top` is the largest score
 * and |s - top| <= 2 S. The subtraction adds an error of 2 S u, the exponential 4 u. The relative
 * error of a weight is therefore e = (D + 1) u S + 2 S u + 4 u. The mean of n values is within (2 e
 * + (n + 4) u) max|v|. The backends may differ by twice this bound. A convolution sums N products
 * in some order, with an error of N u times the sum of their magnitudes. */
#include "harness/engine/linear_cuda.h"
#include "harness/engine/text/umt5_cuda.h"
#include "harness/engine/vae/conv_aid_cuda.h"
#include "harness/engine/vae/vae_cuda.h"
#include "harness/engine/vae/vae_ops.h"
#include "tests/cuda/both.h"

static const double u = 0x1p-24;

static float *drawn(int64_t n, uint32_t seed)
{
    const struct kvr_block_shape shape = { n, 1, 1 };
    float *x = floats((size_t)n);

    fill_block(x, &shape, FILL_NORMAL, seed);
    return x;
}

static void near_to(float want, float got, double tol, const char *what, int64_t at)
{
    if (!same(want, got) && !(fabs((double)want - (double)got) <= tol))
        ck_abort_msg("%s[%lld]: %a on the CPU, %a on CUDA, may differ by %g", what, (long long)at,
                     (double)want, (double)got, tol);
}

static double largest(const float *x, int64_t n)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Text lengths and heads. `span` is the length of the longest text in the same call, for which the
 * biases are laid out. */
static const struct {
    int n, n_heads, head_dim, span;
} texts[] = {
    { 1, 2, 8, 1 }, { 7, 3, 16, 9 }, { 33, 1, 64, 33 }, { 41, 2, 70, 50 }, { 9, 1, 256, 9 }
};

START_TEST(by_distance)
{
    const int n = texts[_i].n, H = texts[_i].n_heads, D = texts[_i].head_dim, span = texts[_i].span;
    const int64_t all = (int64_t)n * H * D, near = (int64_t)H * (2 * span - 1);
    const size_t size = (size_t)all * sizeof(float);
    float *q = drawn(all, 1), *k = drawn(all, 2), *v = drawn(all, 3), *bias = drawn(near, 4);
    float *want = floats((size_t)all), *got = floats((size_t)all), *scores = floats((size_t)n);
    float *d_out = both_out(size);
    struct kvr_umt5_heads a = {
        .q = q,
        .k = k,
        .v = v,
        .bias = bias,
        .scores = scores,
        .out = want,
        .n = n,
        .n_heads = H,
        .head_dim = D,
        .span = span,
    };
    const double S = D * largest(q, all) * largest(k, all) + largest(bias, near);
    const double e = (D + 1) * u * S + 2 * S * u + 4 * u;

    kvr_umt5_ops_cpu.attend(NULL, &a);
    a.q = both_in(q, size);
    a.k = both_in(k, size);
    a.v = both_in(v, size);
    a.bias = both_in(bias, (size_t)near * sizeof(float));
    a.out = d_out;
    a.scores = NULL;
    kvr_umt5_attend_cuda(both_stream, &a);
    both_get(got, d_out, size, "attention by distance");
    for (int64_t i = 0; i < all; i++)
        near_to(want[i], got[i], 2 * (2 * e + (n + 4) * u) * largest(v, all),
                "attention by distance", i);
    both_free();
    free(q);
    free(k);
    free(v);
    free(bias);
    free(want);
    free(got);
    free(scores);
}
END_TEST

/* Each element is one product, so results are bit-identical. */
START_TEST(multiplying)
{
    enum { N = 700 };
    float *x = drawn(N, 1), *y = drawn(N, 2), got[N];
    float *d_x = both_inout(x, sizeof got);

    kvr_multiply_cuda(both_stream, N, both_in(y, sizeof got), d_x);
    both_get(got, d_x, sizeof got, "product");
    kvr_umt5_ops_cpu.multiply(NULL, N, y, x);
    for (int i = 0; i < N; i++)
        ck_assert(same(x[i], got[i]));
    both_free();
    free(x);
    free(y);
}
END_TEST

/* ---- VAE decoder ----------------------------------------------------------------------------- */

static const struct {
    struct kvr_conv_shape s;
    int n_frames, stride; /* input frames; floats from one pixel to the next */
} convs[] = {
    { { .in = 5, .out = 7, .taps = 3, .kernel = 3, .height = 3, .width = 4, .up = 1 }, 1, 5 },
    { { .in = 5, .out = 7, .taps = 3, .kernel = 3, .height = 3, .width = 4, .up = 1 }, 2, 5 },
    { { .in = 18, .out = 33, .taps = 3, .kernel = 3, .height = 9, .width = 15, .up = 1 }, 3, 18 },
    { { .in = 6, .out = 12, .taps = 3, .kernel = 1, .height = 5, .width = 3, .up = 1 }, 3, 6 },
    { { .in = 4, .out = 3, .taps = 1, .kernel = 3, .height = 6, .width = 10, .up = 2 }, 1, 9 },
    { { .in = 16, .out = 16, .taps = 1, .kernel = 1, .height = 1, .width = 1, .up = 1 }, 1, 16 },
};

/* Returns an output of the convolution without its bias, computed in float64. Missing frames and
 * pixels outside the frame contribute nothing. *sizes is increased by the products' magnitudes. */
static double convolved(const struct kvr_conv_shape *c, const float *const *frame, int stride,
                        const float *w, int64_t pixel, int out, double *sizes)
{
    const int y0 = (int)(pixel / c->width), x0 = (int)(pixel % c->width), b = c->kernel / 2;
    double sum = 0;

    for (int t = 0; t < c->taps; t++)
        for (int i = 0; frame[t] && i < c->kernel * c->kernel; i++) {
            const int y = y0 + i / c->kernel - b, x = x0 + i % c->kernel - b;

            if (y < 0 || y >= c->height || x < 0 || x >= c->width)
                continue;
            for (int k = 0; k < c->in; k++) {
                const int64_t at = (int64_t)(y / c->up) * (c->width / c->up) + x / c->up;
                const int64_t of = ((t * c->out + out) * c->kernel * c->kernel + i) * c->in + k;
                const double p = (double)frame[t][at * stride + k] * (double)w[of];

                sum += p;
                *sizes += fabs(p);
            }
        }
    return sum;
}

START_TEST(convolving)
{
    const struct kvr_conv_shape c = convs[_i].s;
    const int stride = convs[_i].stride, around = c.taps * c.kernel * c.kernel;
    const int64_t in = (int64_t)(c.height / c.up) * (c.width / c.up) * stride;
    const int64_t pixels = (int64_t)c.height * c.width, n = pixels * c.out;
    float *w = drawn((int64_t)c.out * around * c.in, 1), *bias = drawn(c.out, 2);
    float *got = floats((size_t)n), *d_y = both_out((size_t)n * sizeof(float));
    float *frame[3] = { NULL, NULL, NULL };
    struct kvr_conv_frame f[3] = { 0 };

    for (int t = c.taps - convs[_i].n_frames; t < c.taps; t++) {
        frame[t] = drawn(in, (uint32_t)(3 + t));
        f[t] = (struct kvr_conv_frame){ both_in(frame[t], (size_t)in * sizeof(float)), stride };
    }
    kvr_conv_cuda_run(both_stream, KVR_F32, &c, f,
                      both_in(w, (size_t)(c.out * around * c.in) * sizeof(float)),
                      both_in(bias, (size_t)c.out * sizeof(float)), d_y);
    both_get(got, d_y, (size_t)n * sizeof(float), "convolution");
    for (int64_t i = 0; i < n; i++) {
        double sizes = fabs((double)bias[i % c.out]);
        const double want = convolved(&c, (const float *const *)frame, stride, w, i / c.out,
                                      (int)(i % c.out), &sizes) +
                            bias[i % c.out];

        if (!(fabs(got[i] - want) <= (around * c.in + 2) * u * sizes))
            ck_abort_msg("[%lld]: %g, want %g", (long long)i, (double)got[i], want);
    }
    both_free();
    free(w);
    free(bias);
    free(got);
    for (int t = 0; t < 3; t++)
        free(frame[t]);
}
END_TEST

/* A sum of C squares has a relative error of at most C u, its square root half of that. */
START_TEST(pixel_norms)
{
    static const int widths[] = { 1, 7, 32, 100 };
    enum { N = 21 };
    const int C = widths[_i];
    const size_t size = (size_t)(N * C) * sizeof(float);
    float *x = drawn(N * C, 1), *gamma = drawn(C, 2), *want = floats(size / 4),
          *got = floats(size / 4);

    for (int silu = 0; silu < 2; silu++) {
        float *d_y = both_out(size);

        kvr_vae_ops_cpu.norm(NULL, N, C, silu, x, gamma, want);
        kvr_pixel_norm_cuda(both_stream, KVR_F32, N, C, silu, both_in(x, size),
                            both_in(gamma, (size_t)C * sizeof(float)), d_y);
        both_get(got, d_y, size, "pixel norm");
        for (int i = 0; i < N * C; i++) {
            /* The slope of x / (1 + e^-x) is at most 1.1. */
            const double v = sqrt((double)C) * fabs((double)gamma[i % C]);

            near_to(want[i], got[i], 1.1 * (C / 2.0 + 16) * u * v, "pixel norm", i);
        }
    }
    both_free();
    free(x);
    free(gamma);
    free(want);
    free(got);
}
END_TEST

/* An element is rounded once, so results are bit-identical. NaN propagates. */
START_TEST(rectifying)
{
    enum { N = 700 };
    float *y = drawn(N, 2), *x = drawn(N, 1), got[N], want[N];

    x[3] = NAN;
    y[9] = NAN;
    for (int added = 0; added < 2; added++) {
        float *d_x = both_inout(x, sizeof got);

        memcpy(want, x, sizeof want);
        kvr_vae_ops_cpu.rectify(NULL, N, added ? y : NULL, want);
        kvr_rectify_cuda(both_stream, N, added ? both_in(y, sizeof got) : NULL, d_x);
        both_get(got, d_x, sizeof got, "rectified");
        ck_assert(isnan(got[3]) && (isnan(got[9]) != 0) == added);
        for (int i = 0; i < N; i++)
            ck_assert(same(want[i], got[i]) && !(got[i] < 0));
        both_free();
    }
    free(x);
    free(y);
}
END_TEST

/* ---- shortcuts, patches and auxiliary kernels of convolutions ------------------------------- */

static const struct {
    int in, out, times, which;
} spreads[] = { { 8, 8, 2, 0 }, { 8, 8, 2, 1 }, { 8, 4, 1, 0 }, { 4, 4, 1, 0 }, { 3, 6, 2, 1 } };

/* The shortcut of a VAE decoder level is bit-identical to the CPU's and to its definition. It
 * repeats every channel and rearranges the repeats as [out, times, 2, 2]. */
START_TEST(spreading_a_level)
{
    enum { H = 3, W = 5 };
    const int in = spreads[_i].in, out = spreads[_i].out, times = spreads[_i].times;
    const int repeats = out * times * 4 / in;
    const int64_t n_in = (int64_t)H * W * in, n = (int64_t)4 * H * W * out;
    const size_t size = (size_t)n * sizeof(float);
    float *from = drawn(n_in, 1), *to = drawn(n, 2), *want = floats((size_t)n),
          *got = floats((size_t)n);
    float *d_to = both_inout(to, size);

    memcpy(want, to, size);
    for (int64_t p = 0; p < H * W; p++)
        for (int c = 0; c < in; c++)
            for (int r = 0; r < repeats; r++) {
                const int f = c * repeats + r, o = f / 4 / times;
                const int64_t y = 2 * (p / W) + f / 2 % 2, x = 2 * (p % W) + f % 2;

                if (f / 4 % times == spreads[_i].which)
                    want[(y * 2 * W + x) * out + o] += from[p * in + c];
            }
    kvr_spread_cuda(both_stream, KVR_F32, H, W, in, out, times, spreads[_i].which,
                    both_in(from, (size_t)n_in * sizeof *from), d_to);
    both_get(got, d_to, size, "spread");
    kvr_vae_ops_cpu.spread(NULL, H, W, in, out, times, spreads[_i].which, from, to);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(want[i] == to[i] && same(to[i], got[i]), "[%lld] %a, %a, %a", (long long)i,
                      (double)want[i], (double)to[i], (double)got[i]);
    both_free();
    free(from);
    free(to);
    free(want);
    free(got);
}
END_TEST

/* unpatch() moves channel (c, column, row) of a pixel to its position among the four output
 * pixels. */
START_TEST(taking_patches_apart)
{
    enum { H = 2, W = 3, N = 12 * H * W };
    float *from = drawn(N, 1), to[N], got[N];
    float *d_to = both_out(sizeof to);

    kvr_vae_ops_cpu.unpatch(NULL, H, W, from, to);
    kvr_unpatch_cuda(both_stream, KVR_F32, H, W, both_in(from, sizeof to), d_to);
    both_get(got, d_to, sizeof got, "pixels");
    for (int c = 0; c < 3; c++)
        for (int r = 0; r < 2; r++)
            for (int q = 0; q < 2; q++)
                for (int p = 0; p < H * W; p++) {
                    const int y = 2 * (p / W) + q, x = 2 * (p % W) + r;
                    const int at = (y * 2 * W + x) * 3 + c;

                    ck_assert(to[at] == from[p * 12 + (c * 2 + r) * 2 + q] &&
                              same(to[at], got[at]));
                }
    both_free();
    free(from);
}
END_TEST

/* patch() is the inverse of unpatch(). halve() copies the pixels with odd row and column. Neither
 * rounds. */
START_TEST(making_patches_and_halving)
{
    enum { H = 2, W = 3, C = 5, N = 12 * H * W, IN = 4 * H * W * C, OUT = H * W * C };
    float *pixels = drawn(N, 1), *frame = drawn(IN, 2), back[N], patches[N], got[N], half[OUT],
          got_half[OUT];
    float *d_to = both_out(sizeof got), *d_half = both_out(sizeof half);

    kvr_vae_ops_cpu.patch(NULL, H, W, pixels, patches);
    kvr_vae_ops_cpu.unpatch(NULL, H, W, patches, back);
    ck_assert_mem_eq(back, pixels, sizeof back);
    kvr_patch_cuda(both_stream, H, W, both_in(pixels, sizeof got), d_to);
    both_get(got, d_to, sizeof got, "patches");
    ck_assert_mem_eq(got, patches, sizeof got);
    kvr_vae_ops_cpu.halve(NULL, H, W, C, frame, half);
    kvr_halve_cuda(both_stream, H, W, C, both_in(frame, IN * sizeof *frame), d_half);
    both_get(got_half, d_half, sizeof half, "halves");
    for (int i = 0; i < OUT; i++) {
        const int y = 2 * (i / C / W) + 1, x = 2 * (i / C % W) + 1;

        ck_assert(half[i] == frame[(y * 2 * W + x) * C + i % C] && same(half[i], got_half[i]));
    }
    both_free();
    free(pixels);
    free(frame);
}
END_TEST

static const struct {
    int in, out, times;
} gathers[] = { { 6, 6, 1 }, { 4, 8, 2 }, { 8, 4, 2 } };

/* The shortcut of a VAE encoder level: channels are viewed as [in, times, 2, 2] and averaged in
 * groups of `group`. Of the `times` frames, all but the last are zero. Sums have at most 16 terms,
 * so at most 16 roundings. */
START_TEST(gathering_a_level)
{
    enum { H = 3, W = 2, MOST = 4 * H * W * 8 };
    const int in = gathers[_i].in, out = gathers[_i].out, times = gathers[_i].times;
    const int group = in * times * 4 / out, n = H * W * out, n_in = 4 * H * W * in;
    float *from = drawn(MOST, 1), *to = drawn(MOST, 2), got[MOST];
    double want[MOST];
    float *d_to = both_inout(to, (size_t)n * sizeof *to);

    for (int i = 0; i < n; i++)
        want[i] = (double)to[i];
    for (int p = 0; p < n_in / in; p++)
        for (int c = 0; c < in; c++) {
            const int y = p / (2 * W), x = p % (2 * W);
            const int e = ((c * times + times - 1) * 2 + y % 2) * 2 + x % 2;

            want[(y / 2 * W + x / 2) * out + e / group] += (double)from[p * in + c] / group;
        }
    kvr_gather_cuda(both_stream, H, W, in, out, times, both_in(from, (size_t)n_in * sizeof *from),
                    d_to);
    both_get(got, d_to, (size_t)n * sizeof *got, "means");
    kvr_vae_ops_cpu.gather(NULL, H, W, in, out, times, from, to);
    for (int i = 0; i < n; i++)
        ck_assert_msg(fabs(want[i] - (double)to[i]) <= 16 * 6e-8 * 4 && same(to[i], got[i]),
                      "[%d] %g, %a, %a", i, want[i], (double)to[i], (double)got[i]);
    both_free();
    free(from);
    free(to);
}
END_TEST

/* kvr_frame_rows_cuda() copies rows of an upsampled frame exactly, and writes zeros for rows
 * outside the frame. kvr_bias_rows_cuda() writes the bias to every pixel. */
START_TEST(around_a_convolution)
{
    enum { H = 6, W = 10, IN = 4, STRIDE = 9, FIRST = -1, ROWS = 8 };
    const struct kvr_conv_shape c = {
        .in = IN, .out = 3, .taps = 1, .kernel = 3, .height = H, .width = W, .up = 2
    };
    const int64_t n = (int64_t)(H / 2) * (W / 2) * STRIDE;
    float *x = drawn(n, 1), *bias = drawn(5, 2), got[ROWS * W * IN], y[7 * 5];
    const struct kvr_conv_frame f = { both_in(x, (size_t)n * sizeof *x), STRIDE };
    float *d_rows = both_out(sizeof got), *d_y = both_out(sizeof y);

    kvr_frame_rows_cuda(both_stream, KVR_F32, &c, 1, &f, FIRST, ROWS, d_rows);
    both_get(got, d_rows, sizeof got, "rows");
    for (int i = 0; i < ROWS * W * IN; i++) {
        const int row = FIRST + i / IN / W, column = i / IN % W;
        const bool inside = row >= 0 && row < H;

        ck_assert(got[i] == (inside ? x[(row / 2 * (W / 2) + column / 2) * STRIDE + i % IN] : 0));
    }
    kvr_bias_rows_cuda(both_stream, KVR_F32, 7, 5, both_in(bias, 5 * sizeof *bias), d_y);
    both_get(y, d_y, sizeof y, "bias");
    for (int i = 0; i < 7 * 5; i++)
        ck_assert(y[i] == bias[i % 5]);
    both_free();
    free(x);
    free(bias);
}
END_TEST

/* kvr_fill_random_cuda() writes numbers in [-1, 1] with a mean near 0. kvr_max_difference_cuda()
 * finds the largest difference at any position, and also a NaN. */
START_TEST(how_far_apart)
{
    enum { N = 40000 };
    const int places[] = { 0, 255, 256, 16384, N - 1 };
    float *x = floats(N), *other = floats(N), pair[KVR_MAX_DIFFERENCE_PARTS][2];
    float *d_x = both_out(N * sizeof *x), *d_pair = both_out(sizeof pair);
    double sum = 0;

    kvr_fill_random_cuda(both_stream, KVR_F32, N, d_x);
    both_get(x, d_x, N * sizeof *x, "numbers");
    for (int i = 0; i < N; i++) {
        ck_assert(x[i] >= -1 && x[i] <= 1);
        sum += x[i];
    }
    /* The mean of N such numbers has a standard deviation of 0.003. */
    ck_assert_msg(fabs(sum / N) <= 0.02, "a mean of %g", sum / N);
    for (size_t k = 0; k < 2 * sizeof places / sizeof *places; k++) {
        const int at = places[k / 2];
        float d = 0, most = 0;

        memcpy(other, x, N * sizeof *x);
        other[at] = k % 2 ? NAN : x[at] + 3;
        kvr_max_difference_cuda(both_stream, KVR_F32, N, both_in(other, N * sizeof *x), d_x,
                                d_pair);
        both_get(pair, d_pair, sizeof pair, "furthest");
        for (int i = 0; i < KVR_MAX_DIFFERENCE_PARTS; i++) {
            d = pair[i][0] > d || isnan(pair[i][0]) ? pair[i][0] : d;
            most = fmaxf(most, pair[i][1]);
        }
        ck_assert(k % 2 ? isnan(d) : d == other[at] - x[at]);
        ck_assert(most > 0.99f && most <= 1);
    }
    both_free();
    free(x);
    free(other);
}
END_TEST

/* Attention over all pixels of a frame. The device uses three kernels and two matrix products. The
 * last case has more queries than fit in one pass. */
START_TEST(attention_of_pixels)
{
    static const struct {
        int n, d;
    } cases[] = { { 1, 8 }, { 6, 16 }, { 77, 20 }, { 1030, 4 } };
    const int n = cases[_i].n, d = cases[_i].d;
    const size_t out_size = (size_t)(3 * n * d) * sizeof(float);
    float *qkv = drawn(3 * n * d, 1), *want = floats((size_t)(3 * n * d)),
          *got = floats((size_t)(n * d));
    float *scores = floats((size_t)kvr_vae_ops_cpu.score_floats(1, n, d)),
          *d_out = both_out(out_size);
    float *d_scores = both_out((size_t)n * (size_t)n * sizeof(float));
    const float *d_qkv = both_in(qkv, out_size);
    const double most = largest(qkv, 3 * n * d), S = sqrt((double)d) * most * most;
    const double e = (d + 3) * u * S + 2 * S * u + 4 * u;

    ck_assert_int_eq(kvr_vae_ops_cpu.attend(NULL, 1, n, d, qkv, scores, want), KVR_OK);
    ck_assert_int_eq(kvr_vae_ops_cuda.attend(both_dev, 1, n, d, d_qkv, d_scores, d_out), KVR_OK);
    ck_assert_msg(kvr_stream_sync(kvr_dev_stream(both_dev)) == KVR_OK, "%s", kvr_error());
    both_get(got, d_out, (size_t)(n * d) * sizeof(float), "attention of pixels");
    for (int i = 0; i < n * d; i++)
        near_to(want[i], got[i], 2 * (2 * e + (n + 6) * u) * most, "attention of pixels", i);
    both_free();
    free(qkv);
    free(want);
    free(got);
    free(scores);
}
END_TEST

/* ---- frames in BF16 ------------------------------------------------------------------------- */

static kvr_bf16 *drawn_bf16(int64_t n, uint32_t seed)
{
    kvr_bf16 *to = malloc((size_t)n * sizeof *to);
    float *x = drawn(n, seed);

    kvr_from_f32(to, KVR_BF16, x, (size_t)n);
    free(x);
    return to;
}

/* Checks that two BF16 results are equal or adjacent, with an additional tolerance `besides`. Both
 * backends round an F32 result once, and the F32 results differ only by rounding errors. */
static void neighbours(const kvr_bf16 *want, const kvr_bf16 *got, int64_t n, double besides,
                       const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)kvr_bf16_to_f32(want[i]), b = (double)kvr_bf16_to_f32(got[i]);

        if (!(fabs(a - b) <= 0x1p-7 * fabs(a) + besides))
            ck_abort_msg("%s[%lld]: %g on the CPU, %g on CUDA", what, (long long)i, a, b);
    }
}

/* Norms with even and odd numbers of channels. kvr_add_pixels_cuda() adds 8 elements at a time if
 * their number is a multiple of 8, otherwise one at a time. */
START_TEST(norms_and_sums_in_bf16)
{
    static const int widths[] = { 7, 32, 100 };
    enum { N = 24 };
    const int C = widths[_i], n = N * C;
    const size_t size = (size_t)n * sizeof(kvr_bf16);
    kvr_bf16 *x = drawn_bf16(n, 1), *y = drawn_bf16(n, 2), *want = malloc(size),
             *got = malloc(size);
    float *gamma = drawn(C, 3);
    void *d_x;

    for (int silu = 0; silu < 2; silu++) {
        kvr_bf16 *d_y = both_out(size);

        kvr_vae_ops_cpu_bf16.norm(NULL, N, C, silu, x, gamma, want);
        kvr_pixel_norm_cuda(both_stream, KVR_BF16, N, C, silu, both_in(x, size),
                            both_in(gamma, (size_t)C * sizeof(float)), d_y);
        both_get(got, d_y, size, "pixel norm");
        neighbours(want, got, n, 1e-5, "pixel norm");
    }
    for (int odd = 0; odd < 2; odd++) {
        d_x = both_inout(x, size);
        memcpy(want, x, size);
        kvr_vae_ops_cpu_bf16.add(NULL, n - odd, y, want);
        kvr_add_pixels_cuda(both_stream, KVR_BF16, n - odd, both_in(y, size), d_x);
        both_get(got, d_x, size, "sum");
        ck_assert_mem_eq(want, got, size);
    }
    both_free();
    free(x);
    free(y);
    free(want);
    free(got);
    free(gamma);
}
END_TEST

/* In F32, kvr_add_pixels_cuda() adds 4 elements at a time if their number is a multiple of 4,
 * otherwise one at a time. */
START_TEST(sums_of_pixels)
{
    enum { N = 1028 };
    float *x = drawn(N, 1), *y = drawn(N, 2), got[N], want[N];

    for (int odd = 0; odd < 2; odd++) {
        float *d_x = both_inout(x, sizeof got);

        memcpy(want, x, sizeof want);
        kvr_vae_ops_cpu.add(NULL, N - odd, y, want);
        kvr_add_pixels_cuda(both_stream, KVR_F32, N - odd, both_in(y, sizeof got), d_x);
        both_get(got, d_x, sizeof got, "sum");
        ck_assert_mem_eq(want, got, sizeof got);
    }
    both_free();
    free(x);
    free(y);
}
END_TEST

/* spread() and unpatch() in BF16 are bit-identical to the CPU's, whose F32 results follow the
 * definition. */
START_TEST(around_a_level_in_bf16)
{
    enum { H = 3, W = 5, N_P = 12 * H * W };
    const int in = spreads[_i].in, out = spreads[_i].out, times = spreads[_i].times;
    const int64_t n_in = (int64_t)H * W * in, n = (int64_t)4 * H * W * out;
    const size_t size = (size_t)n * sizeof(kvr_bf16);
    kvr_bf16 *from = drawn_bf16(n_in, 1), *to = drawn_bf16(n, 2), *got = malloc(size);
    kvr_bf16 *patches = drawn_bf16(N_P, 3), pixels[N_P], got_pixels[N_P];
    kvr_bf16 *d_to = both_inout(to, size), *d_pixels = both_out(sizeof pixels);

    kvr_spread_cuda(both_stream, KVR_BF16, H, W, in, out, times, spreads[_i].which,
                    both_in(from, (size_t)n_in * sizeof *from), d_to);
    both_get(got, d_to, size, "spread");
    kvr_vae_ops_cpu_bf16.spread(NULL, H, W, in, out, times, spreads[_i].which, from, to);
    ck_assert_mem_eq(to, got, size);
    kvr_unpatch_cuda(both_stream, KVR_BF16, H, W, both_in(patches, sizeof pixels), d_pixels);
    both_get(got_pixels, d_pixels, sizeof pixels, "pixels");
    kvr_vae_ops_cpu_bf16.unpatch(NULL, H, W, patches, pixels);
    ck_assert_mem_eq(pixels, got_pixels, sizeof pixels);
    both_free();
    free(from);
    free(to);
    free(got);
    free(patches);
}
END_TEST

/* Gathers rows of three adjacent frames; the oldest frame is missing. Pixels of 8 channels are
 * copied as vectors, pixels of 5 channels are not. kvr_narrow_rows_cuda() removes padding
 * channels. */
START_TEST(rows_of_all_taps)
{
    enum { H = 5, W = 3, FIRST = -1, ROWS = 4, TAPS = 3 };
    const int in = _i ? 8 : 5;
    const struct kvr_conv_shape c = {
        .in = in, .out = 3, .taps = TAPS, .kernel = 3, .height = H, .width = W, .up = 1
    };
    const int64_t n = (int64_t)H * W * in, n_rows = (int64_t)ROWS * W * TAPS * in;
    const size_t size = (size_t)n * sizeof(kvr_bf16);
    kvr_bf16 *x[TAPS] = { NULL, drawn_bf16(n, 1), drawn_bf16(n, 2) };
    kvr_bf16 *got = malloc((size_t)n_rows * sizeof *got), narrow[H * W * 3];
    const struct kvr_conv_frame f[TAPS] = { { NULL, in },
                                            { both_in(x[1], size), in },
                                            { both_in(x[2], size), in } };
    kvr_bf16 *d_rows = both_out((size_t)n_rows * sizeof *got), *d_narrow = both_out(sizeof narrow);

    kvr_frame_rows_cuda(both_stream, KVR_BF16, &c, TAPS, f, FIRST, ROWS, d_rows);
    both_get(got, d_rows, (size_t)n_rows * sizeof *got, "rows");
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t pixel = i / (TAPS * in), row = FIRST + pixel / W;
        const kvr_bf16 *frame = x[i / in % TAPS];

        ck_assert_int_eq(
            got[i], frame && row >= 0 && row < H ? frame[(row * W + pixel % W) * in + i % in] : 0);
    }
    kvr_narrow_rows_cuda(both_stream, H * W, in, 3, both_in(x[1], size), d_narrow);
    both_get(narrow, d_narrow, sizeof narrow, "pixels");
    for (int i = 0; i < H * W * 3; i++)
        ck_assert_int_eq(narrow[i], x[1][i / 3 * in + i % 3]);
    both_free();
    free(x[1]);
    free(x[2]);
    free(got);
}
END_TEST

/* Attention is computed in F32 on both backends, so the BF16 results are equal or adjacent. */
START_TEST(attention_of_pixels_in_bf16)
{
    enum { N = 77, D = 20 };
    const size_t size = (size_t)3 * N * D * sizeof(kvr_bf16);
    kvr_bf16 *qkv = drawn_bf16(3 * N * D, 1), want[N * D], got[N * D];
    const size_t on_host = (size_t)kvr_vae_ops_cpu_bf16.score_floats(1, N, D),
                 there = (size_t)kvr_vae_ops_cuda_bf16.score_floats(1, N, D);
    float *scores = floats(on_host);
    kvr_bf16 *d_out = both_out(sizeof got);

    ck_assert_int_eq(kvr_vae_ops_cpu_bf16.attend(NULL, 1, N, D, qkv, scores, want), KVR_OK);
    ck_assert_int_eq(kvr_vae_ops_cuda_bf16.attend(both_dev, 1, N, D, both_in(qkv, size),
                                                  both_out(there * sizeof(float)), d_out),
                     KVR_OK);
    ck_assert_msg(kvr_stream_sync(kvr_dev_stream(both_dev)) == KVR_OK, "%s", kvr_error());
    both_get(got, d_out, sizeof got, "attention of pixels");
    neighbours(want, got, N * D, 1e-5, "attention of pixels");
    both_free();
    free(qkv);
    free(scores);
}
END_TEST

TCase *cases_wan(void)
{
    TCase *tc = tcase_create("wan");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, by_distance, 0, sizeof texts / sizeof texts[0]);
    tcase_add_test(tc, multiplying);
    tcase_add_loop_test(tc, convolving, 0, sizeof convs / sizeof convs[0]);
    tcase_add_loop_test(tc, pixel_norms, 0, 4);
    tcase_add_test(tc, rectifying);
    tcase_add_loop_test(tc, spreading_a_level, 0, sizeof spreads / sizeof spreads[0]);
    tcase_add_test(tc, taking_patches_apart);
    tcase_add_test(tc, making_patches_and_halving);
    tcase_add_loop_test(tc, gathering_a_level, 0, sizeof gathers / sizeof gathers[0]);
    tcase_add_test(tc, around_a_convolution);
    tcase_add_test(tc, how_far_apart);
    tcase_add_loop_test(tc, attention_of_pixels, 0, 4);
    tcase_add_test(tc, sums_of_pixels);
    tcase_add_loop_test(tc, norms_and_sums_in_bf16, 0, 3);
    tcase_add_loop_test(tc, around_a_level_in_bf16, 0, sizeof spreads / sizeof spreads[0]);
    tcase_add_loop_test(tc, rows_of_all_taps, 0, 2);
    tcase_add_test(tc, attention_of_pixels_in_bf16);
    return tc;
}
