/* cases_outliers.c - the stage `outliers`, which stores some elements exactly: CPU against CUDA.
 *
 * Stored entries and replaced values are bit-identical. An element is an outlier if its magnitude
 * exceeds sigma standard deviations of the block. Both backends compute the standard deviation in
 * double precision from the same partial sums, in the same order. */
#include "methods/codecs/outliers/outliers_cuda.h"
#include "tests/cuda/both.h"

static const struct {
    struct kvr_block_shape shape;
    double sigma, max_ratio;
    enum kvr_outliers_left left;
    bool study;
    enum kvr_compute compute;
} outlier_cases[] = {
    { { 37, 2, 32 }, 3, 1, KVR_LEFT_FILL, false, KVR_COMPUTE_F32 },
    /* some outliers exceed the limit and are not stored */
    { { 37, 2, 32 }, 2, 0.01, KVR_LEFT_FILL, false, KVR_COMPUTE_F32 },
    { { 37, 2, 32 }, 1, 0.02, KVR_LEFT_FILL, true, KVR_COMPUTE_BF16 },
    { { 5, 1, 8 }, 1, 1, KVR_LEFT_FILL, false, KVR_COMPUTE_F32 }, /* runs of outliers */
    { { 21, 3, 24 }, 3, 1, KVR_LEFT_CLAMP, true, KVR_COMPUTE_BF16 },
    { { 21, 3, 24 }, 2, 0.005, KVR_LEFT_CLAMP, false, KVR_COMPUTE_F32 },
    { { 33, 2, 40 }, 2, 1, KVR_LEFT_KEEP, true, KVR_COMPUTE_F32 },
    /* the limit is 0, so none may be stored */
    { { 33, 2, 40 }, 2, 0, KVR_LEFT_KEEP, false, KVR_COMPUTE_F32 },
    { { 66, 8, 128 }, 2.5, 0.003, KVR_LEFT_FILL, true, KVR_COMPUTE_F32 }, /* several spans */
    { { 1, 1, 1 }, 1, 1, KVR_LEFT_FILL, false, KVR_COMPUTE_F32 },
    /* no span has more candidates than its list can hold */
    { { 66, 8, 128 }, 3.5, 1, KVR_LEFT_FILL, false, KVR_COMPUTE_F32 },
    /* the limit cuts off the list of candidates */
    { { 66, 8, 128 }, 3.5, 0.0005, KVR_LEFT_CLAMP, false, KVR_COMPUTE_F32 },
};
enum { N_CASES = sizeof outlier_cases / sizeof outlier_cases[0] };

static struct kvr_codec *codec_of(int i)
{
    static const char *const names[] = { "fill", "clamp", "keep" };
    char text[128];

    snprintf(text, sizeof text, "outliers(sigma=%.17g,max_ratio=%.17g,left=%s) | sym",
             outlier_cases[i].sigma, outlier_cases[i].max_ratio, names[outlier_cases[i].left]);
    return open_codec(text, KVR_K, outlier_cases[i].study, outlier_cases[i].compute);
}

/* Decodes part of a block on both backends, from the CPU's entries. Only the stored elements of the
 * output array may be overwritten. */
static void check_put(const struct kvr_stage *stage, const struct kvr_stage_job *job,
                      const struct kvr_stage_data *cpu, int64_t t0, int64_t n, int h0, int nh,
                      const char *what)
{
    const size_t size = (size_t)(n * nh * job->shape.head_dim);
    float *want = floats(size), *got = floats(size), *d_out;

    for (size_t i = 0; i < size; i++)
        want[i] = (float)i;
    d_out = both_inout(want, size * sizeof *want);
    stage->cpu.decode(job, cpu, t0, n, h0, nh, KVR_DECODE_SET, want);
    kvr_outliers_put_cuda(
        both_stream, &job->shape, job->compute, both_in(cpu->codes.p, cpu->codes.n_bytes),
        both_in(cpu->meta.p, cpu->meta.n_bytes), cpu->n_entries, t0, n, h0, nh, d_out);
    both_get(got, d_out, size * sizeof *got, what);
    for (size_t i = 0; i < size; i++)
        ck_assert_msg(same(want[i], got[i]), "%s: put %zu: %a, %a", what, i, (double)want[i],
                      (double)got[i]);
    free(want);
    free(got);
}

/* Checks that the stored values and indices have the CPU's bytes. */
static void check_entries(const struct kvr_stage_data *cpu, const void *values, const void *indices,
                          const char *what)
{
    void *host = malloc(cpu->meta.n_bytes);

    both_get(host, values, cpu->codes.n_bytes, what);
    ck_assert_msg(!memcmp(host, cpu->codes.p, cpu->codes.n_bytes), "%s: values", what);
    both_get(host, indices, cpu->meta.n_bytes, what);
    ck_assert_msg(!memcmp(host, cpu->meta.p, cpu->meta.n_bytes), "%s: indices", what);
    free(host);
}

/* With `loud`, the spans from which the kernel estimates the outlier bound are multiplied by 8. */
static void check_outliers(int which, enum fill fill, bool loud)
{
    const struct kvr_block_shape shape = outlier_cases[which].shape;
    const int64_t n = (int64_t)elements(&shape), C = (int64_t)shape.n_heads * shape.head_dim;
    struct kvr_codec *codec = codec_of(which);
    struct kvr_stage_job job = { .stage = codec->stage[0].stage,
                                 .opts = codec->stage[0].opts,
                                 .study = codec->study,
                                 .compute = codec->compute,
                                 .shape = shape };
    struct kvr_outliers_rule rule = {
        .sigma = outlier_cases[which].sigma,
        .most = (int64_t)(outlier_cases[which].max_ratio * (double)n),
        .n = n,
        .channels = C,
        .left = outlier_cases[which].left,
        .study = codec->study,
        .compute = codec->compute,
    };
    struct kvr_dev *dev = open_dev();
    struct kvr_stage_data cpu = { 0 };
    float *x = floats((size_t)n), *y = floats((size_t)n), *d_x;
    int64_t n_exact = -1;
    void *work, *values, *indices;
    char what[96];

    snprintf(what, sizeof what, "case %d, %s", which, fill_names[fill]);
    if (rule.study && rule.left != KVR_LEFT_KEEP && shape.n_tok % 16)
        rule.padded = (16 - shape.n_tok % 16) * C;
    fill_block(x, &shape, fill, (uint32_t)which);
    for (int64_t i = 0; i < n && fill == FILL_NORMAL; i += 11)
        x[i] = i % 2 ? 7 : -7; /* ties */
    for (int64_t span = 0, spans = (n + 1023) / 1024; span < spans && loud; span++) {
        bool sampled = false;

        for (int64_t w = 0; w < 16; w++)
            sampled = sampled || spans * w / 16 == span;
        for (int64_t i = 1024 * span; i < 1024 * (span + 1) && i < n && sampled; i++)
            x[i] *= 8;
    }
    for (int64_t i = 2048; i < 3072 && loud; i += 100)
        /* outliers below the estimated bound */
        x[i] = i % 200 ? 40 : -41;
    d_x = both_inout(x, (size_t)n * sizeof *x);
    work = both_out(kvr_outliers_work_bytes(&rule));
    kvr_outliers_find_cuda(both_stream, &rule, d_x, work);
    ck_assert_msg(kvr_stream_sync(both_stream) == KVR_OK, "%s: %s", what, kvr_error());
    ck_assert_int_eq(
        kvr_device_get(both_stream, &n_exact, kvr_outliers_count(work), sizeof n_exact), KVR_OK);
    job.dev = dev;
    ck_assert_int_eq(codec->stage[0].stage->cpu.encode(&job, x, &cpu), KVR_OK);
    ck_assert_msg(n_exact == cpu.n_entries, "%s: %lld kept on the CPU, %lld on CUDA", what,
                  (long long)cpu.n_entries, (long long)n_exact);
    values = both_out(cpu.codes.n_bytes);
    indices = both_out(cpu.meta.n_bytes);
    kvr_outliers_take_cuda(both_stream, &rule, d_x, work, n_exact, values, indices);
    both_get(y, d_x, (size_t)n * sizeof *y, what);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(same(x[i], y[i]), "%s: the grid sees %a, on CUDA %a at %lld", what,
                      (double)x[i], (double)y[i], (long long)i);
    if (n_exact)
        check_entries(&cpu, values, indices, what);
    check_put(codec->stage[0].stage, &job, &cpu, 0, shape.n_tok, 0, shape.n_heads, what);
    check_put(codec->stage[0].stage, &job, &cpu, shape.n_tok / 2, 1, shape.n_heads - 1, 1, what);
    both_free();
    kvr_buf_free(&cpu.codes);
    kvr_buf_free(&cpu.meta);
    kvr_codec_close(&codec);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}

START_TEST(outliers)
{
    for (int fill = 0; fill < N_FILLS; fill++)
        check_outliers(_i, (enum fill)fill, false);
}
END_TEST

/* If the estimated bound is too high, the list of candidates lacks some outliers. The result
 * must still equal the CPU's. */
START_TEST(loud_samples)
{
    check_outliers(10, FILL_NORMAL, true);
}
END_TEST

/* On normal values, case 1 stores as many outliers as its limit allows: 1 % of the elements.
 * Otherwise the tests above might compare empty lists. */
START_TEST(cases_are_not_empty)
{
    const struct kvr_block_shape shape = outlier_cases[1].shape;
    struct kvr_codec *codec = codec_of(1);
    struct kvr_stage_job job = { .stage = codec->stage[0].stage,
                                 .opts = codec->stage[0].opts,
                                 .shape = shape };
    struct kvr_dev *dev = open_dev();
    struct kvr_stage_data cpu = { 0 };
    float *x = floats(elements(&shape));

    fill_block(x, &shape, FILL_NORMAL, 1);
    job.dev = dev;
    ck_assert_int_eq(codec->stage[0].stage->cpu.encode(&job, x, &cpu), KVR_OK);
    ck_assert_int_eq(cpu.n_entries, (int64_t)(0.01 * (double)elements(&shape)));
    kvr_buf_free(&cpu.codes);
    kvr_buf_free(&cpu.meta);
    kvr_codec_close(&codec);
    kvr_dev_close(&dev);
    free(x);
}
END_TEST

TCase *cases_outliers(void)
{
    TCase *tc = tcase_create("outliers");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, outliers, 0, N_CASES);
    tcase_add_test(tc, loud_samples);
    tcase_add_test(tc, cases_are_not_empty);
    return tc;
}
