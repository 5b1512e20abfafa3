/* test_keep.c - the retention `keep`: a budget of all tokens changes nothing, smaller budgets are
 * met, and protected tokens stay. The attention weights and scores that it ranks tokens by are
 * compared with direct computations. */
#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/attend.h"
#include "harness/cache/cache.h"
#include "harness/cache/layer.h"
#include "harness/core/rng.h"
#include "methods/scores/score.h"
#include "tests/cache/compare.h"
#include "tests/suite.h"

enum { S = 10, FRAMES = 3, H = 2, D = 16, CHUNKS = 5, CHUNK = S * FRAMES, N = CHUNK * H * D };

/* Outputs of the last pass of every chunk, and the tokens stored before the rollout's last pass. */
struct result {
    float out[CHUNKS * N];
    uint8_t held[H][CHUNKS * CHUNK]; /* 1 for each stored token of a head */
    int64_t n[H];
};

static enum kvr_status count_held(void *ctx, const struct kvr_cache_view *view)
{
    struct result *r = ctx;

    memset(r->held, 0, sizeof r->held);
    memset(r->n, 0, sizeof r->n);
    for (int i = 0; i < view->past->n; i++)
        for (int h = 0; h < H; h++)
            for (int64_t j = 0; j < view->past->seg[i].n_tok; j++)
                if (kvr_segment_has_head(&view->past->seg[i], h)) {
                    r->held[h][kvr_segment_token(&view->past->seg[i], j)] = 1;
                    r->n[h]++;
                }
    return KVR_OK;
}

/* Each chunk has two passes. The observer records the tokens that are stored before a pass, so its
 * last record has no tokens of the last chunk. */
static void rollout(const char *spec, const struct kvr_setting *set, int n_set, int window,
                    struct result *r)
{
    const struct kvr_cache_shape shape = {
        .n_layers = 1,
        .n_heads = H,
        .head_dim = D,
        .tokens_per_frame = S,
        .frames_per_chunk = FRAMES,
        .capacity_frames = CHUNKS * FRAMES,
        .window_frames = window,
        .evict = window != 0,
        .exact = KVR_BF16,
    };
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    float *x = malloc(3 * N * sizeof *x);

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&scheme, spec, set, n_set) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED), KVR_OK);
    set_random_salience(cache);
    kvr_cache_observe(cache, count_held, r);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < 2; p++) {
            const struct kvr_pass pass = {
                .chunk = c, .frame0 = c * FRAMES, .n_frames = FRAMES, .index = p, .clean = p == 1
            };

            ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
            kvr_normal(x, 3 * N, 3, KVR_RNG_TEST, (uint32_t)(c * 8 + p * 4), 1, 0);
            ck_assert_int_eq(kvr_cache_append(cache, 0, x, x + N), KVR_OK);
            ck_assert_msg(kvr_cache_attend(cache, 0, x + 2 * N, r->out + (size_t)c * N) == KVR_OK,
                          "%s", kvr_error());
            ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
        }
    free(x);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}

static int n_scores(void)
{
    int n = 0;

    while (kvr_scores[n])
        n++;
    return n;
}

static struct result got, want;

/* With share=1 no token is dropped, so the outputs equal BF16's for every score. The loop covers
 * both scopes, with and without a window. */
START_TEST(a_full_budget_equals_bf16)
{
    const struct kvr_setting set[] = { { "score", kvr_scores[_i / 4]->name },
                                       { "scope", _i % 4 / 2 ? "head" : "layer" },
                                       { "share", "1" },
                                       { "sink_tokens", "0" },
                                       { "recent", "0" },
                                       { "beyond", "false" } };

    rollout("BF16", NULL, 0, _i % 2 ? 9 : 0, &want);
    rollout("STREAMING_LLM", set, 6, _i % 2 ? 9 : 0, &got);
    ck_assert_msg(!memcmp(got.out, want.out, sizeof got.out), "%s %s", set[0].value, set[1].value);
}
END_TEST

/* After every chunk but the first, each head stores exactly 37 tokens. The outputs must differ
 * from BF16's, which proves that the option has an effect. */
START_TEST(the_budget_is_met)
{
    const struct kvr_setting set[] = { { "score", kvr_scores[_i / 2]->name },
                                       { "scope", _i % 2 ? "head" : "layer" },
                                       { "tokens", "37" },
                                       { "sink_tokens", "2" },
                                       { "recent", "1" } };

    rollout("STREAMING_LLM", set, 5, 9, &got);
    for (int h = 0; h < H; h++) {
        ck_assert_int_eq(got.n[h], 37);
        ck_assert(got.held[h][0] && got.held[h][1]); /* the two protected sink tokens */
        /* the newest frame before the last chunk */
        for (int t = 3 * CHUNK + 2 * S; t < 4 * CHUNK; t++)
            ck_assert(got.held[h][t]);
    }
    rollout("BF16", NULL, 0, 9, &want);
    ck_assert(memcmp(got.out, want.out, sizeof got.out) != 0);
    /* Chunk 0 has no past tokens to evict, so its outputs equal BF16's. */
    ck_assert(memcmp(got.out, want.out, N * sizeof(float)) == 0);
}
END_TEST

/* H2O scores tokens by attention weight, so its heads keep different tokens. */
START_TEST(heads_differ)
{
    rollout("H2O", &(struct kvr_setting){ "frames", "4" }, 1, 0, &got);
    ck_assert_int_eq(got.n[0], 4 * S);
    ck_assert_int_eq(got.n[1], 4 * S);
    ck_assert(memcmp(got.held[0], got.held[1], sizeof got.held[0]) != 0);
}
END_TEST

/* ADA_SNAPKV splits one budget between two heads. Each head keeps at least the fraction `floor` of
 * an even split. With floor=1 each head keeps the same number of tokens. */
START_TEST(heads_share_a_budget)
{
    struct kvr_setting set[] = { { "frames", "4" }, { "recent", "1" }, { "floor", "0.5" } };

    rollout("ADA_SNAPKV", set, 3, 0, &got);
    ck_assert_int_eq(got.n[0] + got.n[1], 2 * 4 * S);
    ck_assert_int_ne(got.n[0], got.n[1]);
    for (int h = 0; h < 2; h++) {
        ck_assert_int_ge(got.n[h], 2 * S);
        for (int t = 4 * CHUNK - S; t < 4 * CHUNK; t++)
            ck_assert(got.held[h][t]);
    }
    set[2].value = "1";
    rollout("ADA_SNAPKV", set, 3, 0, &got);
    set[2] = (struct kvr_setting){ "heads", "even" };
    rollout("ADA_SNAPKV", set, 3, 0, &want);
    ck_assert(memcmp(&got, &want, sizeof got) == 0);
}
END_TEST

/* ROLLING_WINDOW, a method based on `keep`, gives the same outputs as the cache's own window. */
START_TEST(a_rolling_window_is_the_window)
{
    const struct kvr_setting six = { "frames", "6" };

    rollout("BF16", NULL, 0, 9, &want);
    /* 6 past frames and the current chunk's 3 frames equal a window of 9. */
    rollout("ROLLING_WINDOW", &six, 1, 0, &got);
    ck_assert(memcmp(got.out, want.out, sizeof got.out) == 0);
}
END_TEST

START_TEST(random_is_seeded)
{
    struct kvr_setting set[] = { { "frames", "4" }, { "seed", "1" } };

    rollout("RANDOM_KEEP", set, 2, 0, &got);
    rollout("RANDOM_KEEP", set, 2, 0, &want);
    ck_assert(memcmp(&got, &want, sizeof got) == 0);
    set[1].value = "2";
    rollout("RANDOM_KEEP", set, 2, 0, &want);
    ck_assert(memcmp(got.held, want.held, sizeof got.held) != 0);
}
END_TEST

/* When 9 frames are stored, the reset drops all but the sink and the newest frame. Then the
 * cache fills up again. */
START_TEST(a_reset_empties)
{
    const struct kvr_setting set[] = { { "frames", "9" }, { "recent", "1" }, { "sink", "1" } };
    int64_t n = 0;

    /* Storing chunk 2 fills 9 frames and leaves frames 0 and 8; chunk 3 adds frames 9 to 11. */
    rollout("HARD_RESET", set, 3, 0, &got);
    for (int t = 0; t < 4 * CHUNK; t++) {
        const bool held = t < S || t >= 3 * CHUNK - S;

        ck_assert_msg(got.held[0][t] == held, "token %d", t);
        n += held;
    }
    ck_assert_int_eq(got.n[0], n);
}
END_TEST

/* RANDOM_FRAMES (unit=frame) keeps either all tokens of a frame or none. */
START_TEST(units_are_whole)
{
    rollout("RANDOM_FRAMES", &(struct kvr_setting){ "frames", "5" }, 1, 0, &got);
    ck_assert_int_eq(got.n[0], 5 * S);
    for (int t = 0; t < 4 * CHUNK; t++)
        ck_assert_int_eq(got.held[0][t], got.held[0][t / S * S]);
}
END_TEST

/* ---- attention weights per key ------------------------------------------------------------- */

enum { T = 70, KEYS = 150 };

/* Sums and maxima of softmax(q k / sqrt(D)) over queries, in double precision. The queries are
 * the `newest` ones or evenly spread: every 7th if 10 of 70 are used. */
static void slow_columns(const float *q, const float *k, int queries, bool newest, double *sum,
                         double *max)
{
    static double p[KEYS];

    for (int i = 0; i < queries; i++)
        for (int h = 0; h < H; h++) {
            const float *row = q + ((newest ? T - queries + i : i * T / queries) * H + h) * D;
            double top = -INFINITY, total = 0;

            for (int j = 0; j < KEYS; j++) {
                p[j] = 0;
                for (int c = 0; c < D; c++)
                    p[j] += (double)row[c] * k[(j * H + h) * D + c] / sqrt(D);
                top = fmax(top, p[j]);
            }
            for (int j = 0; j < KEYS; j++)
                total += p[j] = exp(p[j] - top);
            for (int j = 0; j < KEYS; j++) {
                sum[j * H + h] += p[j] / total;
                max[j * H + h] = fmax(max[j * H + h], p[j] / total);
            }
        }
}

/* The F32 denominator of a weight has 150 terms and a relative error of at most 150 x 2^-24 = 9e-6.
 * The exponential of a score x adds 2e-7 + 6e-8 |x|. Weights are at most 1, so the error is below
 * 2e-5 per weight, and below n x 2e-5 for the sum over n queries. */
START_TEST(columns_are_softmax)
{
    const enum kvr_backend backend = _i % 2 ? KVR_CUDA : KVR_CPU;
    const int queries = _i / 2 ? 10 : T;
    const bool newest = _i / 2 == 2;
    static float q[T * H * D], k[KEYS * H * D], sum[KEYS * H], max[KEYS * H];
    static double slow_sum[KEYS * H], slow_max[KEYS * H];
    struct kvr_attend_scratch scratch = { 0 };
    struct kvr_buf on = { 0 };
    struct kvr_dev *dev;

    memset(sum, 0, sizeof sum);
    memset(max, 0, sizeof max);
    memset(slow_sum, 0, sizeof slow_sum);
    memset(slow_max, 0, sizeof slow_max);
    kvr_normal(q, T * H * D, 3, KVR_RNG_TEST, 1, 1, 0);
    kvr_normal(k, KEYS * H * D, 3, KVR_RNG_TEST, 2, 1, 0);
    slow_columns(q, k, queries, newest, slow_sum, slow_max);
    ck_assert_int_eq(kvr_dev_open(&dev, backend), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&on, dev, KVR_MEM_ACT, sizeof q + sizeof k), KVR_OK);
    float *dq = on.p, *dk = dq + T * H * D;

    ck_assert_int_eq(kvr_dev_put(dev, dq, q, sizeof q), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(dev, dk, k, sizeof k), KVR_OK);
    const struct kvr_attend_needs needs = {
        .n_heads = H, .head_dim = D, .max_query = T, .exact = KVR_F32, .columns = true
    };
    const struct kvr_span spans[] = { { .raw = { dk, dk, KVR_F32 }, .n = KEYS } };
    const struct kvr_attend_job attend = {
        .n_heads = H, .head_dim = D, .n_query = T, .q = dq, .spans = spans, .n_spans = 1
    };
    const struct kvr_column_job job = {
        .attend = &attend, .queries = queries, .newest = newest, .sum = sum, .max = max
    };

    ck_assert_int_eq(kvr_attend_reserve(&scratch, dev, &needs), KVR_OK);
    ck_assert_msg(kvr_attend_columns(&job, &scratch) == KVR_OK, "%s", kvr_error());
    for (int i = 0; i < KEYS * H; i++) {
        ck_assert_msg(fabs(sum[i] - slow_sum[i]) <= 2e-5 * queries, "%d: sum %g, %g", i,
                      (double)sum[i], slow_sum[i]);
        ck_assert_msg(fabs(max[i] - slow_max[i]) <= 2e-5, "%d: max %g, %g", i, (double)max[i],
                      slow_max[i]);
    }
    /* Sums of neighbouring keys differ by more than the limit. */
    ck_assert(!(fabs(sum[3] - slow_sum[4]) <= 2e-5 * queries));
    kvr_attend_release(&scratch);
    kvr_buf_free(&on);
    kvr_dev_close(&dev);
}
END_TEST

/* Values of `query` and `queries` that select the same queries keep the same tokens. With the five
 * newest queries, other tokens are kept than with all queries of the chunk (query=chunk). */
START_TEST(queries_are_selected)
{
    static const struct {
        const char *query, *queries, *same_query, *same_queries;
    } cases[] = { { "chunk", "3", "spread", "0" },
                  { "frame", "3", "newest", "10" },
                  { "newest", "0", "spread", "0" },
                  { "newest", "5", NULL, NULL } };
    static struct result chunk;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct kvr_setting is[] = { { "query", cases[i].query },
                                          { "queries", cases[i].queries },
                                          { "frames", "4" } },
                                 same[] = { { "query", cases[i].same_query },
                                            { "queries", cases[i].same_queries },
                                            { "frames", "4" } };

        rollout("SNAPKV", is, 3, 0, &got);
        if (!i)
            chunk = got;
        if (cases[i].same_query) {
            rollout("SNAPKV", same, 3, 0, &want);
            ck_assert_msg(memcmp(&got, &want, sizeof got) == 0, "query %s", cases[i].query);
            /* The five newest queries. */
        } else {
            ck_assert(memcmp(got.held, chunk.held, sizeof got.held) != 0);
        }
    }
}
END_TEST

START_TEST(refused)
{
    struct kvr_scheme *p = NULL;
    const struct kvr_setting even = { "pool", "4" }, none = { "frames", "0" };

    ck_assert_int_eq(kvr_scheme_open(&p, "SNAPKV", &even, 1), KVR_EINVAL);
    ck_assert(strstr(kvr_error(), "pool 4"));
    ck_assert_int_eq(kvr_scheme_open(&p, "SNAPKV", &none, 1), KVR_EINVAL);
    ck_assert(strstr(kvr_error(), "one of them must set the budget"));
    ck_assert_int_eq(
        kvr_scheme_open(&p, "KEY_DIFF", &(struct kvr_setting){ "heads", "adaptive" }, 1),
        KVR_EINVAL);
    ck_assert(strstr(kvr_error(), "heads=adaptive needs scope=head"));
}
END_TEST

/* ---- scores -------------------------------------------------------------------------------- */

/* Scores four tokens of one head. The last two are new. */
static void rate_by(const struct kvr_score *by, const struct kvr_score_opts *opts,
                    const struct kvr_policy_ctx *ctx, float *memory, float *score)
{
    static const int32_t token[] = { 0, 1, 2, 3 };
    float work[4 + 2 * 3];

    by->rate(&(struct kvr_score_job){ .ctx = ctx,
                                      .opts = opts,
                                      .n_heads = 1,
                                      .n = 4,
                                      .first_new = 2,
                                      .token = token,
                                      .memory = memory,
                                      .score = score,
                                      .work = work });
}

static void rate(const struct kvr_score *by, const struct kvr_policy_ctx *ctx, float *memory,
                 float *score)
{
    const struct kvr_score_opts opts = { .pool = 1, .lambda = 0.5 };

    rate_by(by, &opts, ctx, memory, score);
}

static const struct kvr_score *score_named(const char *name)
{
    for (int i = 0; kvr_scores[i]; i++)
        if (!strcmp(kvr_scores[i]->name, name))
            return kvr_scores[i];
    ck_abort_msg("no score %s", name);
}

START_TEST(scores_by_hand)
{
    const float k[] = { 3, 4, 0, 2 }; /* keys of the new tokens, 2 and 3 */
    const float all[] = { 1, 0, 1, 0, 3, 4, 0, 2 };
    const float sum[] = { .25f, .5f, 1, .25f }, max[] = { .5f, .75f, .25f, 1 };
    const struct kvr_columns columns = { 2, sum, max };
    const struct kvr_policy_ctx ctx = { .tokens_per_frame = 1,
                                        .frames_per_chunk = 2,
                                        .n_heads = 1,
                                        .head_dim = 2,
                                        .n_tok = 4,
                                        .n_active = 4,
                                        .new0 = 2,
                                        .k = k,
                                        .all_keys = all,
                                        .columns = &columns };
    float memory[8] = { -1, -2 }, score[4];

    rate(score_named("key_norm"), &ctx, memory, score);
    ck_assert(score[0] == -1 && score[1] == -2 && score[2] == -5 && score[3] == -2);
    memset(memory, 0, sizeof memory);
    /* The mean key is (1.5, 3). */
    rate(score_named("key_diff"), &ctx, memory, score);
    ck_assert(fabs(score[2] + (4.5 + 12) / (5 * sqrt(11.25))) <= 1e-6);
    ck_assert(fabs(score[3] + 3 / sqrt(11.25)) <= 1e-6);
    memory[0] = 1;
    memory[2] = memory[3] = memory[1] = 0;
    rate(score_named("attention_sum"), &ctx, memory, score);
    ck_assert(score[0] == 1.25f && score[1] == .5f && score[2] == 1 && score[3] == .25f);
    memset(memory, 0, sizeof memory);
    memory[0] = 1;
    /* Tokens 0 and 1 have been seen by 4 queries, tokens 2 and 3 by 2. */
    rate(score_named("attention_mean"), &ctx, memory, score);
    ck_assert(score[0] == 1.25f / 4 && score[1] == .5f / 4 && score[2] == .5f);
    memset(memory, 0, sizeof memory);
    memory[1] = .875f;
    rate(score_named("attention_max"), &ctx, memory, score);
    ck_assert(score[0] == .5f && score[1] == .875f && score[3] == 1);
    memset(memory, 0, sizeof memory);
    memory[0] = .125f; /* state of token 0: its largest weight within its own chunk */
    memory[1] = .875f; /* state of token 0: its largest weight from later chunks */
    rate(score_named("attention_causal"), &ctx, memory, score);
    ck_assert(score[0] == .5f && score[1] == .375f && score[2] == .125f && score[3] == .5f);
    /* Two query heads read one KV head. Their queries are (1,2), (3,4) and (5,6), (7,8), with
     * the sum (16,20). */
    struct kvr_policy_ctx asked = ctx;

    asked.q = (const float[]){ 1, 2, 3, 4, 5, 6, 7, 8 };
    asked.n_query_heads = 2;
    rate(score_named("logits"), &asked, memory, score);
    ck_assert(score[0] == 16 && score[1] == 16 && score[2] == 128 && score[3] == 40);
    /* Unit keys are (1,0) twice, (.6,.8) and (0,1), with the sum (2.6,1.8). The redundancy of the
     * four keys is the softmax of their summed cosines with the other keys, divided by 4: (2.6-1)/4
     * twice, (1.56+1.44-1)/4 and (1.8-1)/4. */
    rate(score_named("redundancy"), &ctx, memory, score);
    const double e[] = { exp(.4), exp(.4), exp(.5), exp(.2) };

    for (int i = 0; i < 4; i++)
        ck_assert(fabs(score[i] - .5 * sum[i] / 2 + .5 * e[i] / (e[0] + e[1] + e[2] + e[3])) <=
                  1e-6);
}
END_TEST

/* Two query heads with two tokens each: (1,2), (3,4) and (5,6), (7,8). Their mean is (4,5), and
 * all entries of their covariance are 5. */
START_TEST(expectation_by_hand)
{
    const float q[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    const float k[] = { 1, 0, 1, 0, .5f, -.25f, 0, -.5f }, v[] = { 1, 0, 0, 3, 3, 4, 0, 2 };
    const double length[] = { 1, 3, 5, 2 };
    const struct kvr_policy_ctx ctx = { .tokens_per_frame = 1,
                                        .frames_per_chunk = 2,
                                        .n_heads = 1,
                                        .n_query_heads = 2,
                                        .head_dim = 2,
                                        .n_tok = 4,
                                        .n_active = 4,
                                        .new0 = 2,
                                        .q = q,
                                        .all_keys = k,
                                        .all_values = v };
    double e[4], total = 0;
    float score[4];

    rate(score_named("expected"), &ctx, NULL, score);
    for (int i = 0; i < 4; i++) {
        const double a = k[2 * i], b = k[2 * i + 1];

        e[i] = exp((4 * a + 5 * b) / sqrt(2) + 5 * (a + b) * (a + b) / 4);
        total += e[i];
    }
    for (int i = 0; i < 4; i++)
        ck_assert_msg(fabs(score[i] - e[i] / total * length[i]) <= 1e-5, "%d: %g, not %g", i,
                      (double)score[i], e[i] / total * length[i]);
}
END_TEST

/* With two channels, RoPE rotates by the frame only. Before rotation the queries are Q and -Q /
 * 2, at frames 2 and 3. Their mean is Q / 4 and their mean length 3 |Q| / 4. */
START_TEST(trig_by_hand)
{
    const double Q[] = { 1.5, -.5 }, size = sqrt(2.5);
    const float k[] = { 1, 0, 0, 1, -1, 2, .5f, .5f };
    struct kvr_policy_ctx ctx = { .tokens_per_frame = 1,
                                  .frames_per_chunk = 2,
                                  .n_heads = 1,
                                  .n_query_heads = 1,
                                  .head_dim = 2,
                                  .n_tok = 4,
                                  .n_active = 4,
                                  .new0 = 2,
                                  .all_keys = k };
    double re = 0, im = 0;
    float score[4], q[4];

    for (int i = 0; i < 2; i++) {
        const double by = i ? -.5 : 1, co = cos(2 + i), si = sin(2 + i);

        q[2 * i] = (float)(by * (Q[0] * co - Q[1] * si));
        q[2 * i + 1] = (float)(by * (Q[0] * si + Q[1] * co));
    }
    ctx.q = q;
    rate(score_named("trig"), &ctx, NULL, score);
    for (int f = 1; f <= 64; f *= 2) {
        re += cos(3 + f) / 7;
        im += sin(3 + f) / 7;
    }
    for (int i = 0; i < 4; i++) {
        const double a = k[2 * i], b = k[2 * i + 1];
        const double due = ((Q[0] * re - Q[1] * im) * a + (Q[0] * im + Q[1] * re) * b) / 4 +
                           (.75 - .25) * size * sqrt(a * a + b * b);

        ck_assert_msg(fabs(score[i] - due) <= 1e-5, "%d: %g, not %g", i, (double)score[i], due);
    }
}
END_TEST

/* Compares position weights of four tokens in chunks of two with the formulas of enum
 * kvr_place_weight. A weight multiplies the token's score minus the smallest score. */
START_TEST(position_weights_follow_the_formulas)
{
    const float all[] = { 1, 0, 1, 0, 3, 4, 0, 2 }, sum[] = { .25f, .5f, 1, .25f };
    const struct kvr_columns columns = { 2, sum, sum };
    const struct kvr_policy_ctx ctx = { .tokens_per_frame = 1,
                                        .frames_per_chunk = 2,
                                        .n_heads = 1,
                                        .head_dim = 2,
                                        .n_tok = 4,
                                        .n_active = 4,
                                        .new0 = 2,
                                        .all_keys = all,
                                        .columns = &columns };
    const double least = exp(-.5 * 9), e2 = exp(-2.0);
    const double weight[][4] = {
        { 1, 1, 1, 1 },
        { 1, 1, 1, 1 },
        { .1, .1 + .9 * (1 - exp(-2 / 3.)) / (1 - e2), .1 + .9 * (1 - exp(-4 / 3.)) / (1 - e2), 1 },
        { .1, .1 + .9 / 27, .1 + .9 * 8 / 27, 1 },
        { 0, 2 * (1 - 8 / 27.), 2 * (1 - 1 / 27.), 2 },
        { 1, .1 + .9 * (exp(-.5) - least) / (1 - least),
          .1 + .9 * (exp(-2.0) - least) / (1 - least), .1 },
    };
    float plain[4], score[4], bottom;

    rate(score_named("redundancy"), &ctx, NULL, plain);
    bottom = fminf(fminf(plain[0], plain[1]), fminf(plain[2], plain[3]));
    for (int w = KVR_PLACE_FIRST; w <= KVR_PLACE_GAUSSIAN; w++) {
        const struct kvr_score_opts opts = {
            .pool = 1, .lambda = 0.5, .weight = (enum kvr_place_weight)w, .power = 3
        };

        rate_by(score_named("redundancy"), &opts, &ctx, NULL, score);
        for (int i = 0; i < 4; i++) {
            const double off = w == KVR_PLACE_FIRST && i < 2 ? 1e6 : 0;

            /* F32 numbers near 10^6 are spaced 1/16 apart, so rounding is off by up to 1/32. */
            ck_assert_msg(fabs(score[i] + off - (plain[i] - bottom) * weight[w][i]) <=
                              (off > 0 ? .04 : 1e-6),
                          "weight %d, token %d: %g", w, i, (double)score[i]);
        }
    }
}
END_TEST

START_TEST(pooling)
{
    float x[] = { 1, 5, 2, 0, 0, 3 }, work[6];

    kvr_pool_max(x, 6, 3, work);
    ck_assert(x[0] == 5 && x[1] == 5 && x[2] == 5 && x[3] == 2 && x[4] == 3 && x[5] == 3);
    kvr_pool_max(x, 6, 1, work);
    ck_assert(x[3] == 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("keep");
    TCase *tc = tcase_create("keep");

    omp_set_num_threads(1);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_full_budget_equals_bf16, 0, 4 * n_scores());
    tcase_add_loop_test(tc, the_budget_is_met, 0, 2 * n_scores());
    tcase_add_test(tc, heads_differ);
    tcase_add_test(tc, heads_share_a_budget);
    tcase_add_test(tc, a_rolling_window_is_the_window);
    tcase_add_test(tc, random_is_seeded);
    tcase_add_test(tc, a_reset_empties);
    tcase_add_test(tc, units_are_whole);
    tcase_add_loop_test(tc, columns_are_softmax, 0, 6);
    tcase_add_test(tc, queries_are_selected);
    tcase_add_test(tc, position_weights_follow_the_formulas);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, scores_by_hand);
    tcase_add_test(tc, expectation_by_hand);
    tcase_add_test(tc, trig_by_hand);
    tcase_add_test(tc, pooling);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
