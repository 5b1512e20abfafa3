/* test_lm.c - compares the language model with a forward pass in NumPy
 * (tools/fixtures/make-lm-fixture.py). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/engine/dit.h"
#include "harness/engine/lm.h"
#include "harness/workload/text.h"
#include "tests/suite.h"

#define FIXTURE "tests/fixtures/lm"
enum { N = 192, D = 64, V = 96 };

static struct kvr_dev *dev;
static struct kvr_model *model;
static struct kvr_tokens ids;
static struct kvr_st *expected;

static void open_all(void)
{
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_model_open(&model, dev, FIXTURE) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_tokens_open(&ids, FIXTURE "/texts.safetensors", "a"), KVR_OK);
    ck_assert_int_eq(kvr_st_open(&expected, FIXTURE "/expected.safetensors"), KVR_OK);
    ck_assert_int_eq(ids.n, N);
}

static void close_all(void)
{
    kvr_st_close(&expected);
    kvr_tokens_close(&ids);
    kvr_model_close(&model);
    kvr_dev_close(&dev);
}

static const float *wanted(const char *name)
{
    struct kvr_tensor t;

    ck_assert_int_eq(kvr_st_get(expected, name, &t), KVR_OK);
    return t.data;
}

/* Runs all tokens in chunks of `chunk` tokens. The cache stores earlier chunks in BF16 and the
 * current chunk in F32. */
static void read_in_chunks(int chunk, float *hidden, float *logits)
{
    struct kvr_cache_shape shape = kvr_lm_cache_shape(model, chunk);
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_lm *lm;

    shape.capacity_frames = N;
    shape.exact = KVR_F32;
    ck_assert_int_eq(kvr_scheme_open(&scheme, "BF16", NULL, 0), KVR_OK);
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(kvr_lm_open(&lm, dev, model, chunk), KVR_OK);
    for (int at = 0; at < N; at += chunk) {
        const int n = N - at < chunk ? N - at : chunk;
        const struct kvr_pass pass = {
            .chunk = at / chunk, .frame0 = at, .n_frames = n, .index = 0, .clean = true
        };

        ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
        ck_assert_msg(kvr_lm_forward(lm, cache, ids.id + at, &pass, hidden + at * D) == KVR_OK,
                      "%s", kvr_error());
        ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
    }
    ck_assert_int_eq(kvr_lm_logits(lm, 1, hidden + (N - 1) * D, logits), KVR_OK);
    kvr_lm_close(&lm);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
}

static double worst(const float *a, const float *b, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);

        most = d <= most ? most : d; /* keeps NaN */
    }
    return most;
}

/* Tests one chunk of 192 tokens, three chunks of 64, and chunks of 50 with a shorter last one. With
 * one chunk, the only errors are the rounding errors of F32 sums of 192 terms. With several chunks,
 * the cache stores earlier chunks in BF16. Keys then have relative errors of up to 2^-8, and scores
 * have errors of a few hundredths, which reach the hidden states through the softmax. */
START_TEST(is_what_numpy_gives)
{
    static const struct {
        int chunk;
        double tol;
    } cases[] = { { N, 1e-4 }, { 64, 0.15 }, { 50, 0.15 } };
    float hidden[N * D], logits[V];

    read_in_chunks(cases[_i].chunk, hidden, logits);
    const double h = worst(hidden, wanted("hidden"), N * D), l = worst(logits, wanted("logits"), V);

    ck_assert_msg(h <= cases[_i].tol, "chunk %d: hidden states are off by %g", cases[_i].chunk, h);
    ck_assert_msg(l <= 3 * cases[_i].tol, "chunk %d: logits are off by %g", cases[_i].chunk, l);
}
END_TEST

START_TEST(likelihood_is_numpys)
{
    float hidden[N * D], logits[V];
    double nll = 0, top1 = 0;
    struct kvr_lm *lm;
    int hits = 0;

    ck_assert_int_eq(kvr_text_nll(dev, model, ids.id, N, &nll, &top1), KVR_OK);
    ck_assert_msg(fabs(nll - (double)*wanted("nll")) <= 1e-4, "%.6f, wanted %.6f", nll,
                  (double)*wanted("nll"));
    read_in_chunks(N, hidden, logits);
    ck_assert_int_eq(kvr_lm_open(&lm, dev, model, N), KVR_OK);
    for (int t = 0; t + 1 < N; t++) {
        int top = 0;

        ck_assert_int_eq(kvr_lm_logits(lm, 1, hidden + t * D, logits), KVR_OK);
        for (int v = 1; v < V; v++)
            top = logits[v] > logits[top] ? v : top;
        hits += top == ids.id[t + 1];
    }
    kvr_lm_close(&lm);
    ck_assert_int_eq((int)lround(top1 * (N - 1)), hits);
}
END_TEST

/* Changing token 100 changes the hidden states of every later token and of no earlier one. */
START_TEST(sees_the_past_and_nothing_else)
{
    float hidden[N * D], other[N * D], logits[V];
    int32_t changed[N];
    const int32_t *kept = ids.id;

    read_in_chunks(N, hidden, logits);
    memcpy(changed, ids.id, sizeof changed);
    changed[100] = (changed[100] + 1) % V;
    ids.id = changed;
    read_in_chunks(N, other, logits);
    ids.id = kept;
    ck_assert_mem_eq(hidden, other, 100 * D * sizeof *hidden);
    for (int t = 100; t < N; t++)
        ck_assert_msg(worst(hidden + t * D, other + t * D, D) > 0, "token %d does not see 100", t);
}
END_TEST

START_TEST(refuses)
{
    struct kvr_lm *lm;
    struct kvr_dit *dit;
    struct kvr_model *nano;
    double nll, top1;
    const int32_t bad[] = { 1, V };
    const struct kvr_pass far = { .frame0 = INT32_MAX, .n_frames = 2 };
    float hidden[2 * D];

    ck_assert_int_eq(kvr_text_nll(dev, model, bad, 2, &nll, &top1), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(),
                     "lm: token 1 has id 96, which is not in the vocabulary: need 0..95");
    ck_assert_int_eq(kvr_lm_open(&lm, dev, model, 2), KVR_OK);
    ck_assert_int_eq(kvr_lm_forward(lm, NULL, ids.id, &far, hidden), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "token positions 2147483647 to 2147483648"));
    kvr_lm_close(&lm);
    ck_assert_int_eq(kvr_dit_open(&dit, dev, model), KVR_EUNSUPPORTED);
    ck_assert_int_eq(kvr_model_open(&nano, dev, "models/nano"), KVR_OK);
    ck_assert_int_eq(kvr_lm_open(&lm, dev, nano, 8), KVR_EUNSUPPORTED);
    kvr_model_close(&nano);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lm");
    TCase *tc = tcase_create("a tiny language model");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, open_all, close_all);
    tcase_add_loop_test(tc, is_what_numpy_gives, 0, 3);
    tcase_add_test(tc, likelihood_is_numpys);
    tcase_add_test(tc, sees_the_past_and_nothing_else);
    tcase_add_test(tc, refuses);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
