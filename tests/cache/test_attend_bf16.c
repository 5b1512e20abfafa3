/* test_attend_bf16.c - CPU attention in BF16 against a softmax in double precision, within the
 * bound of attend_bf16.h. The kernels in portable C and those with AMX, if the CPU has AMX, give
 * bit-identical results. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/attend_cpu.h"
#include "harness/core/rng.h"
#include "tests/suite.h"

enum { HEADS = 2, QUERIES = 70, RAW = 300, WIDE = 37, ZEROS = 1, CAUSAL = QUERIES, D_MAX = 160 };
enum { MAX_KEYS = RAW + WIDE + ZEROS + CAUSAL };

static const int widths[] = { 16, 24, 64, 80, 128, 160 };
enum { N_WIDTHS = (int)(sizeof widths / sizeof *widths) };

/* k and v [MAX_KEYS,HEADS,d] contain the keys and values of all spans, one span after another,
 * rounded to their stored type. The double-precision reference reads them. */
struct kit {
    struct kvr_dev *dev;
    int d;
    float q[QUERIES * HEADS * D_MAX], out[QUERIES * HEADS * D_MAX];
    float k[MAX_KEYS * HEADS * D_MAX], v[MAX_KEYS * HEADS * D_MAX];
    kvr_bf16 k16[MAX_KEYS * HEADS * D_MAX], v16[MAX_KEYS * HEADS * D_MAX];
    float log_m[MAX_KEYS];
    struct kvr_segment zero;
    struct kvr_span span[4];
    struct kvr_attend_job job;
};

static void round_some(float *x, kvr_bf16 *x16, size_t n)
{
    kvr_from_f32(x16, KVR_BF16, x, n);
    kvr_to_f32(x, x16, KVR_BF16, n);
}

/* Four spans of keys: 300 in BF16 (four whole tiles and a partial one), 37 in F32, one zero
 * token with multiplicity 5, and the queries' own keys in BF16 with a causal mask. */
static struct kit *kit_of(int d, bool fused)
{
    struct kit *t = calloc(1, sizeof *t);
    const size_t row = (size_t)(HEADS * d);

    ck_assert_ptr_nonnull(t);
    t->d = d;
    ck_assert_int_eq(kvr_dev_open(&t->dev, KVR_CPU), KVR_OK);
    kvr_normal(t->q, QUERIES * row, 1, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(t->k, MAX_KEYS * row, 1, KVR_RNG_TEST, 2, 0, 0);
    kvr_normal(t->v, MAX_KEYS * row, 1, KVR_RNG_TEST, 3, 0, 0);
    memset(t->k + (RAW + WIDE) * row, 0, row * sizeof *t->k);
    memset(t->v + (RAW + WIDE) * row, 0, row * sizeof *t->v);
    round_some(t->k, t->k16, RAW * row);
    round_some(t->v, t->v16, RAW * row);
    round_some(t->k + (RAW + WIDE + ZEROS) * row, t->k16, CAUSAL * row);
    round_some(t->v + (RAW + WIDE + ZEROS) * row, t->v16, CAUSAL * row);
    kvr_from_f32(t->k16, KVR_BF16, t->k, MAX_KEYS * row);
    kvr_from_f32(t->v16, KVR_BF16, t->v, MAX_KEYS * row);
    t->log_m[RAW + WIDE] = logf(5);
    t->zero = (struct kvr_segment){ .kind = KVR_SEG_ZERO, .n_tok = 5 };
    t->span[0] = (struct kvr_span){ .raw = { t->k16, t->v16, KVR_BF16 }, .n = RAW };
    t->span[1] = (struct kvr_span){ .raw = { t->k, t->v, KVR_F32 }, .t0 = RAW, .n = WIDE };
    t->span[2] = (struct kvr_span){ .seg = &t->zero, .n = 1, .log_m = logf(5) };
    t->span[3] = (struct kvr_span){
        .raw = { t->k16, t->v16, KVR_BF16 }, .t0 = 0, .n = CAUSAL, .causal = true
    };
    t->span[3].raw.k = t->k16 + (RAW + WIDE + ZEROS) * row;
    t->span[3].raw.v = t->v16 + (RAW + WIDE + ZEROS) * row;
    t->job = (struct kvr_attend_job){ .n_heads = HEADS,
                                      .head_dim = d,
                                      .n_query = QUERIES,
                                      .q = t->q,
                                      .out = t->out,
                                      .spans = t->span,
                                      .n_spans = 4,
                                      .bf16 = true,
                                      .fused = fused };
    return t;
}

static void kit_close(struct kit *t)
{
    kvr_dev_close(&t->dev);
    free(t);
}

static void attend(struct kit *t)
{
    const struct kvr_attend_needs needs = { .n_heads = HEADS,
                                            .head_dim = t->d,
                                            .max_query = QUERIES,
                                            .exact = KVR_BF16,
                                            .staged = !t->job.fused };
    struct kvr_attend_scratch s = { 0 };

    ck_assert_int_eq(kvr_attend_reserve(&s, t->dev, &needs), KVR_OK);
    kvr_attend(&t->job, &s);
    kvr_attend_release(&s);
}

/* Sums of the squared errors (off) and of the squared reference outputs (all). */
struct squares {
    double off, all;
};

/* Returns the largest error over the channels of query r, head h, as a multiple of its bound. */
static double error_of(const struct kit *t, int r, int h, struct squares *squares)
{
    const int d = t->d, n = RAW + WIDE + ZEROS + r + 1;
    const float *q = t->q + (r * HEADS + h) * d, *got = t->out + (r * HEADS + h) * d;
    const double u = 0x1p-8, e = 0x1p-24, w = 8e-6 + 1.2e-7 * 88;
    double s[MAX_KEYS], top = -INFINITY, sum = 0, delta = 0, grow, worst = 0;

    for (int j = 0; j < n; j++) {
        const float *k = t->k + (j * HEADS + h) * d;
        double size = 0;

        s[j] = (double)t->log_m[j];
        for (int c = 0; c < d; c++) {
            s[j] += (double)q[c] * (double)k[c] / sqrt(d);
            size += fabs((double)q[c] * (double)k[c]) / sqrt(d);
        }
        delta = fmax(delta, ((1 + u) * (1 + u) - 1 + (d + 2) * e) * size);
        top = fmax(top, s[j]);
    }
    for (int j = 0; j < n; j++)
        sum += s[j] = exp(s[j] - top);
    grow = exp(2 * delta) * (1 + u) * (1 + u) * (1 + 2 * w + 2 * n * e) - 1;
    for (int c = 0; c < d; c++) {
        double out = 0, size = 0, err;

        for (int j = 0; j < n; j++) {
            const double x = (double)t->v[(j * HEADS + h) * d + c];

            out += s[j] / sum * x;
            size += s[j] / sum * fabs(x);
        }
        err = fabs((double)got[c] - out) / (grow * size);
        squares->off += ((double)got[c] - out) * ((double)got[c] - out);
        squares->all += out * out;
        if (!(err <= worst)) /* once NaN, `worst` stays NaN */
            worst = err;
    }
    return worst;
}

/* Every output is within its error bound. The test loops over head widths, the staged and the fused
 * path, and the portable and the AMX kernels. */
START_TEST(within_the_bound)
{
    const char *by = _i / (2 * N_WIDTHS) ? "amx_bf16" : "portable";
    struct kit *t = kit_of(widths[_i / 2 % N_WIDTHS], _i % 2);
    struct squares squares = { 0, 0 };
    double worst = 0, off;

    if (kvr_isa_force(by) == KVR_OK) {
        attend(t);
        for (int r = 0; r < QUERIES; r++)
            for (int h = 0; h < HEADS; h++) {
                const double err = error_of(t, r, h, &squares);

                ck_assert_msg(err <= 1, "%s, D %d: query %d, head %d: error is %g times the bound",
                              by, t->d, r, h, err);
                worst = fmax(worst, err);
            }
        off = sqrt(squares.off / squares.all);
        printf("D %d, %s, %s: errors up to %.3f of the bound, relative L2 error %.2g\n", t->d,
               t->job.fused ? "fused" : "staged", by, worst, off);
        /* BF16 rounding gives a relative L2 error between 2^-12 and 2^-7. F32 arithmetic would give
         * 1e-6, and a skipped key .05. */
        ck_assert_msg(off <= 0x1p-7 && off >= 0x1p-12, "relative L2 error %g", off);
    }
    kit_close(t);
}
END_TEST

/* Each kernel gives the same bits in portable C as on AMX. Without AMX the test is skipped. */
START_TEST(portable_tiles_equal_amx)
{
    enum { M = 45, N = 96, D = 80 };
    static kvr_bf16 q[M * N], panels[N * N];
    static float x[N * N], s[2][M * N], out[2][M * D];
    static const char *const by[] = { "portable", "amx_bf16" };

    kvr_normal(x, M * N, 7, KVR_RNG_TEST, 1, 0, 0);
    kvr_from_f32(q, KVR_BF16, x, M * N);
    kvr_normal(x, N * N, 7, KVR_RNG_TEST, 2, 0, 0);
    for (int i = 0; i < N * N; i += 7)
        x[i] *= 1e-38f; /* makes products denormal */
    kvr_from_f32(panels, KVR_BF16, x, N * N);
    for (int i = 0; i < 2; i++) {
        const struct kvr_bf16_kernels *f;

        if (kvr_isa_force(by[i]) != KVR_OK)
            return;
        f = kvr_bf16_kernels();
        f->scores(q, N, N, panels, s[i], N, M, N);
        for (int j = 0; j < M * D; j++)
            out[i][j] = x[j];
        f->add_values(q, N, panels, KVR_ATTEND_TILE * D, N, out[i], D, M, D);
    }
    ck_assert_mem_eq(s[0], s[1], sizeof s[0]);
    ck_assert_mem_eq(out[0], out[1], sizeof out[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention in BF16");
    TCase *tc = tcase_create("attend_bf16");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, within_the_bound, 0, 4 * N_WIDTHS);
    tcase_add_test(tc, portable_tiles_equal_amx);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
