/* test_salience.c - compares kvr_salience, the attention that each token receives over the whole
 * video, with a direct computation in double. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/workload/salience.h"
#include "harness/workload/workload.h"
#include "tests/suite.h"

/* Two query heads per KV head (grouped-query attention), as in language models. */
enum { S = 3, F = 2, HQ = 4, H = 2, D = 8, L = 2, CHUNKS = 4, T = S * F, N = CHUNKS * T };

static float q[L][N * HQ * D], k[L][N * H * D];

static void feed(struct kvr_salience *s, int chunks)
{
    const struct kvr_cache_shape shape = { .n_layers = L,
                                           .n_heads = HQ,
                                           .n_kv_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = F,
                                           .capacity_frames = CHUNKS * F,
                                           .exact = KVR_F32 };

    for (int l = 0; l < L; l++) {
        kvr_normal(q[l], N * HQ * D, 1, KVR_RNG_TEST, (uint32_t)l, 1, 0);
        kvr_normal(k[l], N * H * D, 1, KVR_RNG_TEST, (uint32_t)l, 2, 0);
    }
    for (int c = 0; c < chunks; c++)
        for (int clean = 0; clean < 2; clean++)
            for (int l = 0; l < L; l++) {
                const struct kvr_pass pass = {
                    .chunk = c, .frame0 = c * F, .n_frames = F, .index = clean, .clean = clean
                };
                struct kvr_cache_view view = { .shape = &shape,
                                               .pass = &pass,
                                               .layer = l,
                                               .n_tok = T,
                                               .k = k[l] + c * T * H * D,
                                               .q = q[l] + c * T * HQ * D };

                if (!clean) /* passes other than clean ones must not count */
                    view.k = view.q;
                ck_assert_int_eq(kvr_salience_observe(s, &view), KVR_OK);
            }
}

/* Salience s_j of token j by its definition: all queries, in `chunks` chunks of T tokens. */
static double slow(int l, int j, int chunks)
{
    const int mine = j / T, n = chunks * T;
    double sum = 0;

    for (int h = 0; h < HQ; h++) {
        double part[3] = { 0 };

        for (int i = 0; i < n; i++) {
            double p[N], total = 0;

            for (int m = 0; m < n; m++) {
                p[m] = 0;
                for (int c = 0; c < D; c++)
                    p[m] += (double)q[l][(i * HQ + h) * D + c] * k[l][(m * H + h / 2) * D + c];
                total += p[m] = exp(p[m] / sqrt(D));
            }
            const int which = i / T < mine ? 0 : i / T == mine ? 1 : 2;

            part[which] = fmax(part[which], p[j] / total);
        }
        if (chunks == 1)
            sum += part[1];
        else if (mine == 0)
            sum += (part[1] + part[2]) / 2;
        else if (mine == chunks - 1)
            sum += (part[0] + part[1]) / 2;
        else
            sum += (part[0] + part[1] + part[2]) / 3;
    }
    return sum / HQ;
}

/* Weights are at most 1 and are summed in double. Scores of at most 10 have a relative error of
 * 2^-24, from rounding q / sqrt(D), which changes a weight by at most 6e-7. The table is rounded to
 * F32. */
START_TEST(it_is_its_definition)
{
    const struct kvr_cache_shape shape = { .n_layers = L,
                                           .n_heads = HQ,
                                           .n_kv_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = F,
                                           .capacity_frames = CHUNKS * F };
    const int chunks = _i / 2 ? _i / 2 : CHUNKS;
    const bool last_only = _i % 2;
    struct kvr_salience *s;
    float *table;

    ck_assert_int_eq(kvr_salience_open(&s, &shape, last_only, 0), KVR_OK);
    feed(s, chunks);
    ck_assert_int_eq(kvr_salience_table(s, &table), KVR_OK);
    for (int l = 0; l < L; l++)
        for (int j = 0; j < N; j++) {
            const bool there = j < chunks * T && (!last_only || l == L - 1);
            const double want = there ? slow(l, j, chunks) : 0;

            ck_assert_msg(fabs(table[l * N + j] - want) <= 1e-6, "layer %d token %d: %g, %g", l, j,
                          (double)table[l * N + j], want);
        }
    ck_assert(table[N] != table[N + 1]);
    free(table);
    kvr_salience_close(&s);
}
END_TEST

/* Runs a rollout of the bundled model with method `spec` and its option `frames` (NULL: the
 * default). */
static void roll(struct kvr_dev *dev, struct kvr_model *m, const char *spec, const char *frames,
                 struct kvr_rollout_result *out)
{
    const struct kvr_setting set = { "frames", frames };
    const struct kvr_rollout_request req = {
        .model = m,
        .prompt = "a large red disc bounces over a plain blue background",
        .seed = 1,
        .latent_frames = 9,
        .path = KVR_PATH_STAGED,
        .exact = KVR_BF16,
    };
    struct kvr_scheme *p;

    ck_assert_msg(kvr_scheme_open(&p, spec, &set, frames ? 1 : 0) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_rollout_run(dev, p, &req, NULL, NULL, out) == KVR_OK, "%s", kvr_error());
    ck_assert_uint_eq(out->live_at_start, out->live_at_end);
    kvr_scheme_close(&p);
}

/* PAFU_ORACLE_NONCAUSAL keeps the tokens with the largest salience, which depends on later chunks.
 * Its cache has the size of its budget, and with a budget of all frames it equals BF16. PAFU_SEH,
 * whose trained head only estimates the salience, gives different frames. */
START_TEST(a_rollout_is_told)
{
    struct kvr_rollout_result bf16, all, few, seh;
    struct kvr_dev *dev;
    struct kvr_model *m;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_model_open(&m, dev, "models/nano") == KVR_OK, "%s", kvr_error());
    roll(dev, m, "BF16", NULL, &bf16);
    roll(dev, m, "PAFU_ORACLE_NONCAUSAL", "9", &all);
    roll(dev, m, "PAFU_ORACLE_NONCAUSAL", "3", &few);
    roll(dev, m, "PAFU_SEH", "3", &seh);
    ck_assert(!memcmp(bf16.rgb, all.rgb, (size_t)bf16.n * 48 * 48 * 3));
    ck_assert(memcmp(bf16.rgb, few.rgb, (size_t)bf16.n * 48 * 48 * 3) != 0);
    ck_assert(memcmp(seh.rgb, few.rgb, (size_t)bf16.n * 48 * 48 * 3) != 0);
    ck_assert_uint_eq(few.bytes.resident_kv, bf16.bytes.resident_kv / 3);
    ck_assert_uint_eq(seh.bytes.resident_kv, bf16.bytes.resident_kv / 3);
    kvr_rollout_result_free(&bf16);
    kvr_rollout_result_free(&all);
    kvr_rollout_result_free(&few);
    kvr_rollout_result_free(&seh);
    kvr_model_close(&m);
    kvr_dev_close(&dev);
}
END_TEST

static enum kvr_status count_chunk(void *ctx, int frame0, int n_frames, const float *x0)
{
    int *n = ctx;

    (void)frame0, (void)n_frames, (void)x0;
    ++*n;
    return KVR_OK;
}

/* The BF16 rollout that measures salience does not report its chunks to the caller. */
START_TEST(chunks_are_reported_once)
{
    struct kvr_rollout_request req = {
        .prompt = "a large red disc bounces over a plain blue background",
        .seed = 1,
        .latent_frames = 6,
        .path = KVR_PATH_STAGED,
        .exact = KVR_BF16,
        .chunk = count_chunk,
    };
    struct kvr_rollout_result out;
    struct kvr_scheme *scheme;
    struct kvr_dev *dev;
    int n = 0;

    req.chunk_ctx = &n;
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_model_open(&req.model, dev, "models/nano") == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_scheme_open(&scheme, "PAFU_ORACLE_NONCAUSAL", NULL, 0), KVR_OK);
    ck_assert_msg(kvr_rollout_run(dev, scheme, &req, NULL, NULL, &out) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(n, 6 / kvr_model_config(req.model)->frames_per_chunk);
    kvr_rollout_result_free(&out);
    kvr_scheme_close(&scheme);
    kvr_model_close(&req.model);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("salience");
    TCase *tc = tcase_create("salience");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, it_is_its_definition, 0, 6);
    tcase_add_test(tc, a_rollout_is_told);
    tcase_add_test(tc, chunks_are_reported_once);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
