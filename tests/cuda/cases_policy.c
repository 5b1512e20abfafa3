/* cases_policy.c - statistics, ranks and means for policies: CPU against CUDA, bit-identical. */
#include "methods/kernels/abs_sum.h"
#include "methods/kernels/policy_cuda.h"
#include "methods/kernels/saliency.h"
#include "tests/cuda/both.h"

/* Frames of 7 to 40 tokens; some with a partial last frame or a first frame that lacks tokens. */
static const struct {
    struct kvr_frames_of f;
} frame_cases[] = {
    { { 40, 0, 10, 3, 16 } },
    { { 75, 0, 40, 2, 20 } },
    { { 23, 4, 9, 1, 5 } },
    { { 1, 0, 7, 4, 128 } },
};

static int64_t n_frames(const struct kvr_frames_of *f)
{
    return (f->n_tok + f->skip + f->tokens_per_frame - 1) / f->tokens_per_frame;
}

static void equal(const float *want, const float *got, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(same(want[i], got[i]), "%s: %lld: %a on the CPU, %a on CUDA", what,
                      (long long)i, (double)want[i], (double)got[i]);
}

START_TEST(summaries)
{
    const struct kvr_frames_of f = frame_cases[_i / N_FILLS].f;
    const enum fill fill = (enum fill)(_i % N_FILLS);
    const struct kvr_block_shape shape = { f.n_tok, f.n_heads, f.head_dim };
    const int64_t n = n_frames(&f), S = f.tokens_per_frame;
    const size_t size = elements(&shape) * sizeof(float);
    const size_t out = (size_t)(n * f.n_heads) * sizeof(float);
    float *k = floats(elements(&shape)), *v = floats(elements(&shape));
    float *want = floats((size_t)(n * f.n_heads)), *got = floats((size_t)(n * f.n_heads));
    float *d_out;

    fill_block(k, &shape, fill, 1);
    fill_block(v, &shape, fill, 2);
    for (int64_t i = 0; i < n; i++) {
        const int64_t t0 = i * S > f.skip ? i * S - f.skip : 0;
        const int64_t t1 = (i + 1) * S - f.skip < f.n_tok ? (i + 1) * S - f.skip : f.n_tok;

        kvr_frame_summary(k, v, t0, t1 - t0, f.n_heads, f.head_dim, want + i * f.n_heads);
    }
    d_out = both_out(out);
    kvr_frame_summary_cuda(both_stream, &f, both_in(k, size), both_in(v, size), d_out);
    both_get(got, d_out, out, fill_names[fill]);
    equal(want, got, n * f.n_heads, fill_names[fill]);
    both_free();
    free(k);
    free(v);
    free(want);
    free(got);
}
END_TEST

/* Scores with ties, NaN, infinities and both zeros, and indices in no order. */
START_TEST(topk)
{
    const int64_t n = (int64_t[]){ 1, 7, 256, 600 }[_i % 4];
    const float odd[] = { NAN, INFINITY, -INFINITY, 0, -0.0f, 1, 1, -1, -NAN };
    struct kvr_ranked item[600], got[600], *d_out;
    const size_t size = (size_t)n * sizeof *item;

    for (int64_t i = 0; i < n; i++) {
        item[i].score = _i < 4 ? odd[i * 5 % 9] : (float)(i * 37 % 11);
        item[i].index = (int32_t)(i * 11 % n); /* a permutation: n is coprime to 11 */
    }
    d_out = both_out(size);
    kvr_topk_cuda(both_stream, both_in(item, size), n, d_out);
    both_get(got, d_out, size, "topk");
    kvr_topk(item, n);
    ck_assert_mem_eq(item, got, size);
    both_free();
}
END_TEST

static void variances(const float *v, int64_t frames, int64_t S, int64_t C, struct kvr_ranked *rank)
{
    for (int64_t p = 0; p < S; p++) {
        double mean = 0, m2 = 0;

        for (int64_t f = 0; f < frames; f++) {
            const double a = (float)(kvr_abs_sum(v + (f * S + p) * C, C) / (double)C), d = a - mean;

            mean += d / (double)(f + 1);
            m2 += d * (a - mean);
        }
        rank[p] = (struct kvr_ranked){ (float)(m2 / (double)frames), (int32_t)p };
    }
}

START_TEST(position_variances)
{
    enum { F = 3, S = 45, C = 52 };
    const struct kvr_block_shape shape = { F * S, 1, C };
    const enum fill fill = (enum fill)_i;
    float *v = floats(elements(&shape));
    struct kvr_ranked want[S], got[S], *d_out;

    fill_block(v, &shape, fill, 9);
    variances(v, F, S, C, want);
    d_out = both_out(sizeof got);
    kvr_position_variance_cuda(both_stream, both_in(v, elements(&shape) * sizeof *v), F, S, C,
                               d_out);
    both_get(got, d_out, sizeof got, fill_names[fill]);
    for (int i = 0; i < S; i++) {
        ck_assert_int_eq(got[i].index, i);
        ck_assert_msg(same(want[i].score, got[i].score), "%s: position %d: %a, %a",
                      fill_names[fill], i, (double)want[i].score, (double)got[i].score);
    }
    both_free();
    free(v);
}
END_TEST

START_TEST(pooled_means)
{
    enum { W = 70 };
    const int N = (int[]){ 1, 64, 150 }[_i % 3];
    const struct kvr_block_shape shape = { N, 1, W };
    const enum fill fill = (enum fill)(_i / 3);
    float *x = floats(elements(&shape)), want[W], got[W], *d_out;

    fill_block(x, &shape, fill, 4);
    for (int c = 0; c < W; c++) {
        double sum = 0;

        for (int t = 0; t < N; t++)
            sum += x[t * W + c];
        want[c] = (float)(sum / (double)N);
    }
    d_out = both_out(sizeof got);
    kvr_pool_cuda(both_stream, both_in(x, elements(&shape) * sizeof *x), N, W, d_out);
    both_get(got, d_out, sizeof got, fill_names[fill]);
    equal(want, got, W, fill_names[fill]);
    both_free();
    free(x);
}
END_TEST

TCase *cases_policy(void)
{
    TCase *tc = tcase_create("policy");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, summaries, 0, 4 * N_FILLS);
    tcase_add_loop_test(tc, topk, 0, 8);
    tcase_add_loop_test(tc, position_variances, 0, N_FILLS);
    tcase_add_loop_test(tc, pooled_means, 0, 3 * N_FILLS);
    return tc;
}
