/* cases_wan.c - what Wan's text encoder does on a device, against its definitions on the CPU.
 *
 * u = 2^-24. A score is a sum of D products and a bias, within (D + 1) u of the sum of their sizes
 * on either side, S. With scores off by as much, and a subtraction and an exponential of up to |s -
 * top|
 * <= 2 S: a weight is off by e = (D + 1) u S + 2 S u + 4 u of itself, and the mean of n values by
 * at most (2 e + (n + 4) u) max|v|. The two sides are within twice that. */
#include "harness/engine/text/umt5_cuda.h"
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

/* Text and heads; `span` beyond the text is of a longer one in the same call. */
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

/* One product each: the same bytes. */
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

TCase *cases_wan(void)
{
    TCase *tc = tcase_create("wan");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, by_distance, 0, sizeof texts / sizeof texts[0]);
    tcase_add_test(tc, multiplying);
    return tc;
}
