/* test_saliency.c - FlowCache's tiers and retention: frame counts, bytes, scores, and state. */
#include "harness/core/rng.h"
#include "methods/kernels/saliency.h"
#include "methods/policy.h"
#include "tests/threads.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 30, S = 1560, CAPACITY = 42 * S, C = 1536 };
enum { OLD, RECENT, IMPORTANT }; /* tiers */

static struct kvr_dev *dev;

static void open_dev(void)
{
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
}

/* Asserts that every buffer was freed. */
static void close_dev(void)
{
    kvr_dev_close(&dev);
}

/* A tier policy, a retention policy, and the state of one layer, which both use. */
struct parts {
    struct kvr_tiers_use tiers;
    struct kvr_retention_use retention;
    struct kvr_policy_state state;
};

static struct parts open_parts(const char *tiers, const char *retention)
{
    struct parts p = { 0 };

    ck_assert_msg(kvr_tiers_open(&p.tiers, tiers) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_retention_open(&p.retention, retention) == KVR_OK, "%s", kvr_error());
    return p;
}

static void forget(struct parts *p)
{
    kvr_buf_free(&p->state.buf);
    p->state = (struct kvr_policy_state){ 0 };
}

static void close_parts(struct parts *p)
{
    forget(p);
    kvr_tiers_close(&p->tiers);
    kvr_retention_close(&p->retention);
}

static enum kvr_status try_assign(struct parts *p, const struct kvr_policy_ctx *ctx, uint8_t *map)
{
    KVR_TRY(p->tiers.part->assign(p->tiers.opts, ctx, dev, &p->state, map));
    if (p->retention.part)
        KVR_TRY(p->retention.part->assign(p->retention.opts, ctx, dev, &p->state, map));
    return KVR_OK;
}

static void assign(struct parts *p, const struct kvr_policy_ctx *ctx, uint8_t *map)
{
    ck_assert_msg(try_assign(p, ctx, map) == KVR_OK, "%s", kvr_error());
}

/* Published numbers of frames per tier: the study's results for 42 frames. movie and story are each
 * layer's budget factors from MovieGen and StoryEval prompts. recent and important are for movie
 * and important=0.2. The arrays are {recent, important, retained, pruned} for important=0.1: at30
 * for movie and retained=0.3, at45 for movie and retained=0.45, story45 for story and
 * retained=0.45. */
static const struct {
    double movie;
    int recent, important;
    int at30[4], at45[4];
    double story;
    int story45[4];
} published[LAYERS] = {
    { 1.300000, 14, 7, { 14, 4, 9, 15 }, { 14, 4, 14, 10 }, 1.292982, { 14, 4, 14, 10 } },
    { 1.021789, 11, 6, { 11, 3, 9, 19 }, { 11, 3, 13, 15 }, 1.038908, { 11, 3, 13, 15 } },
    { 1.016014, 11, 6, { 11, 3, 9, 19 }, { 11, 3, 13, 15 }, 1.046793, { 11, 3, 13, 15 } },
    { 0.878231, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 12, 18 }, 0.944405, { 10, 3, 12, 17 } },
    { 0.866943, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 12, 18 }, 0.956743, { 10, 3, 12, 17 } },
    { 0.889184, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 12, 18 }, 0.928384, { 10, 3, 12, 17 } },
    { 1.013305, 11, 6, { 11, 3, 9, 19 }, { 11, 3, 13, 15 }, 0.980934, { 10, 3, 13, 16 } },
    { 0.915302, 10, 6, { 10, 3, 8, 21 }, { 10, 3, 12, 17 }, 0.940340, { 10, 3, 12, 17 } },
    { 0.819521, 9, 5, { 9, 3, 7, 23 }, { 9, 3, 11, 19 }, 0.912700, { 10, 3, 12, 17 } },
    { 1.016254, 11, 6, { 11, 3, 9, 19 }, { 11, 3, 13, 15 }, 0.951366, { 10, 3, 12, 17 } },
    { 0.787800, 8, 5, { 8, 3, 7, 24 }, { 8, 3, 11, 20 }, 0.761365, { 8, 3, 11, 20 } },
    { 0.888918, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 12, 18 }, 0.804711, { 8, 3, 11, 20 } },
    { 0.808426, 8, 5, { 8, 3, 8, 23 }, { 8, 3, 11, 20 }, 0.751533, { 8, 3, 10, 21 } },
    { 0.727477, 8, 5, { 8, 2, 7, 25 }, { 8, 2, 10, 22 }, 0.700000, { 7, 2, 10, 23 } },
    { 0.709998, 7, 5, { 7, 2, 7, 26 }, { 7, 2, 11, 22 }, 0.738458, { 8, 3, 10, 21 } },
    { 0.798615, 8, 5, { 8, 3, 7, 24 }, { 8, 3, 11, 20 }, 0.776196, { 8, 3, 11, 20 } },
    { 0.700000, 7, 5, { 7, 2, 7, 26 }, { 7, 2, 10, 23 }, 0.709960, { 7, 2, 11, 22 } },
    { 0.757429, 8, 5, { 8, 3, 7, 24 }, { 8, 3, 11, 20 }, 0.752904, { 8, 3, 11, 20 } },
    { 0.850682, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 11, 19 }, 0.826925, { 9, 3, 11, 19 } },
    { 0.838337, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 11, 19 }, 0.830164, { 9, 3, 11, 19 } },
    { 0.856398, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 12, 18 }, 0.854336, { 9, 3, 12, 18 } },
    { 0.895711, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 12, 18 }, 0.889522, { 9, 3, 12, 18 } },
    { 0.878232, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 12, 18 }, 0.894001, { 9, 3, 12, 18 } },
    { 0.874938, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 12, 18 }, 0.921040, { 10, 3, 12, 17 } },
    { 0.971747, 10, 6, { 10, 3, 8, 21 }, { 10, 3, 13, 16 }, 1.002187, { 11, 3, 13, 15 } },
    { 0.918749, 10, 6, { 10, 3, 8, 21 }, { 10, 3, 12, 17 }, 0.972096, { 10, 3, 13, 16 } },
    { 0.862443, 9, 6, { 9, 3, 8, 22 }, { 9, 3, 12, 18 }, 0.943160, { 10, 3, 12, 17 } },
    { 1.054499, 11, 7, { 11, 3, 9, 19 }, { 11, 3, 13, 15 }, 1.073388, { 11, 3, 14, 14 } },
    { 0.979173, 10, 6, { 10, 3, 9, 20 }, { 10, 3, 13, 16 }, 1.064358, { 11, 3, 13, 15 } },
    { 1.112231, 12, 7, { 12, 3, 9, 18 }, { 12, 3, 14, 13 }, 1.300000, { 14, 4, 14, 10 } },
};

static struct kvr_policy_ctx study_ctx(double beta, int n)
{
    return (struct kvr_policy_ctx){ .study = true,
                                    .n_layers = LAYERS,
                                    .tokens_per_frame = S,
                                    .frames_per_chunk = 3,
                                    .n_heads = 12,
                                    .head_dim = 128,
                                    .beta = beta,
                                    .n_tok = CAPACITY,
                                    .n_active = (int64_t)n * S };
}

/* Number of tokens per tier and per special byte among the first n_active tokens. The byte of every
 * later token must be KVR_TOKEN_ZERO. */
struct tally {
    int64_t tier[3], zero, pooled, dropped;
};

static struct tally count(const uint8_t *map, const struct kvr_policy_ctx *ctx)
{
    struct tally n = { 0 };
    /* Number of unexpected bytes, asserted once at the end: the Check library stores every passed
     * assertion, and one per token would need too much memory. */
    int64_t odd = 0;

    for (int64_t t = 0; t < ctx->n_tok; t++) {
        if (t >= ctx->n_active)
            odd += map[t] != KVR_TOKEN_ZERO;
        else if (map[t] == KVR_TOKEN_ZERO)
            n.zero++;
        else if (map[t] == KVR_TOKEN_POOLED)
            n.pooled++;
        else if (map[t] == KVR_TOKEN_DROPPED)
            n.dropped++;
        else if (map[t] < 3)
            n.tier[map[t]]++;
        else
            odd++;
    }
    ck_assert_int_eq(odd, 0);
    return n;
}

/* Assigns tiers with token counts alone (k and v are NULL), and counts the tokens per tier. */
static struct tally predict(const char *tiers, const char *retention, double beta, int n)
{
    static uint8_t map[CAPACITY];
    struct kvr_policy_ctx ctx = study_ctx(beta, n);
    struct parts p = open_parts(tiers, retention);

    assign(&p, &ctx, map);
    close_parts(&p);
    return count(map, &ctx);
}

#define TIERS10 "saliency(important=0.1,refresh=on_growth)"
#define TIERS20 "saliency(important=0.2)"
#define HYBRID "saliency"

static void check_four(struct tally t, const int want[4])
{
    ck_assert_int_eq(t.tier[RECENT], want[0] * S);
    ck_assert_int_eq(t.tier[IMPORTANT], want[1] * S);
    ck_assert_int_eq(t.tier[OLD], want[2] * S);
    ck_assert_int_eq(t.zero + t.pooled, want[3] * S);
}

START_TEST(published_counts)
{
    const int l = _i;
    struct tally t;

    t = predict(HYBRID, "", published[l].movie, 42);
    ck_assert_int_eq(t.tier[RECENT], published[l].recent * S);
    ck_assert_int_eq(t.tier[OLD], (42 - published[l].recent) * S);
    t = predict(TIERS20, "", published[l].movie, 42);
    ck_assert_int_eq(t.tier[RECENT], published[l].recent * S);
    ck_assert_int_eq(t.tier[IMPORTANT], published[l].important * S);
    check_four(predict(TIERS10, "saliency(retained=0.3)", published[l].movie, 42),
               published[l].at30);
    check_four(predict(TIERS10, "saliency(retained=0.45)", published[l].movie, 42),
               published[l].at45);
    check_four(predict(TIERS10, "saliency(fill=pooled)", published[l].movie, 42),
               published[l].at45);
    check_four(predict(TIERS10, "saliency", published[l].story, 42), published[l].story45);
}
END_TEST

/* Compares the fraction of tokens per tier, averaged over 14 cache sizes and 30 layers, with the
 * six digits that the study logged. The tolerance is 1e-6 because the study rounded twice: it
 * logged 0.472505 for 0.47250445. */
static void check_averages(const char *tiers, const char *retention, const double want[4])
{
    double share[4] = { 0 };

    for (int n = 3; n <= 42; n += 3) {
        for (int l = 0; l < LAYERS; l++) {
            struct tally t = predict(tiers, retention, published[l].movie, n);
            const double per = (double)n * S * 14 * LAYERS;

            share[0] += (double)t.tier[RECENT] / per;
            share[1] += (double)t.tier[IMPORTANT] / per;
            share[2] += (double)t.tier[OLD] / per;
            share[3] += (double)t.zero / per;
        }
    }
    for (int i = 0; i < 4; i++)
        if (want[i] > 0)
            ck_assert_msg(fabs(share[i] - want[i]) <= 1e-6, "%s %s %d: %.8f, logged %.6f", tiers,
                          retention, i, share[i], want[i]);
}

START_TEST(logged_averages)
{
    check_averages(TIERS10, "saliency", (double[4]){ 0.232466, 0.098189, 0.282348, 0.386997 });
    check_averages(TIERS10, "saliency(retained=0.3)",
                   (double[4]){ 0.232466, 0.098189, 0.196841, 0.472505 });
    check_averages(TIERS20, "", (double[4]){ 0.232466, 0.153672, 0, 0 });
}
END_TEST

/* Bytes of keys and values of n tokens at `bits` bits, in blocks of 16 with an FP16 scale per
 * channel. */
static int64_t rtn(int64_t n, int bits)
{
    const int64_t blocks = (n + 15) / 16;

    return 2 * (blocks * 16 * C * bits / 8 + 2 * blocks * C);
}

static int64_t kivi(int64_t n, int bits)
{
    const int64_t blocks = (n + 15) / 16;

    return 2 * (blocks * 16 * C * bits / 8) + 4 * blocks * C + 4 * blocks * 16;
}

/* Bytes of all layers. Tier OLD has coarse_bits per element, the other tiers have fine_bits. The
 * sum includes the masks and indices that the study's code stores. */
static int64_t total_bytes(const char *tiers, const char *retention, bool story, int fine_bits,
                           int coarse_bits, int64_t (*code)(int64_t n, int bits))
{
    int64_t sum = 0;

    for (int l = 0; l < LAYERS; l++) {
        struct parts p = open_parts(tiers, retention);
        struct tally t =
            predict(tiers, retention, story ? published[l].story : published[l].movie, 42);
        const struct kvr_study_counts n = { .capacity = CAPACITY,
                                            .active = CAPACITY,
                                            .stored = t.tier[0] + t.tier[1] + t.tier[2],
                                            .pooled_frames = t.pooled / S };

        for (int i = 0; i < 3; i++)
            sum += code(t.tier[i], i == OLD ? coarse_bits : fine_bits);
        if (p.tiers.part->study_side_bytes)
            sum += (int64_t)p.tiers.part->study_side_bytes(p.tiers.opts, &n);
        if (p.retention.part && p.retention.part->study_side_bytes)
            sum += (int64_t)p.retention.part->study_side_bytes(p.retention.opts, &n);
        /* two BF16 means per pooled frame */
        sum += n.pooled_frames * 2 * C * 2;
        close_parts(&p);
    }
    return sum;
}

static int64_t exact_tail(int64_t n, int bits)
{
    return bits == 16 ? n * C * 4 : rtn(n, bits);
}

START_TEST(published_bytes)
{
    static const struct {
        const char *tiers, *retention;
        int story, fine, coarse;
        int64_t (*code)(int64_t, int);
        int64_t bytes;
    } row[] = {
        { HYBRID, "", 0, 4, 2, rtn, 2621585184 },
        { HYBRID, "", 1, 4, 2, rtn, 2629799712 },
        { TIERS20, "", 0, 4, 2, rtn, 2829480192 },
        { TIERS20, "", 1, 4, 2, rtn, 2836533504 },
        { TIERS10, "saliency(retained=0.3)", 0, 4, 2, rtn, 1552792320 },
        { TIERS10, "saliency(retained=0.3)", 1, 4, 2, rtn, 1572533952 },
        { TIERS10, "saliency", 0, 4, 4, rtn, 2196528000 },
        { TIERS10, "saliency", 1, 4, 4, rtn, 2223458880 },
        { TIERS10, "saliency(fill=pooled)", 0, 4, 2, rtn, 1769589920 },
        { TIERS10, "saliency(fill=pooled)", 1, 4, 2, rtn, 1796477648 },
        { TIERS10, "saliency(fill=pooled)", 0, 4, 4, rtn, 2199792800 },
        { TIERS10, "saliency(fill=pooled)", 1, 4, 4, rtn, 2226668240 },
        { "age(ratio=0.3)", "", 0, 4, 2, rtn, 2735673120 },
        { "age(ratio=0.3)", "", 0, 4, 4, rtn, 3792564000 },
        { "spatial", "", 0, 4, 4, rtn, 3792564000 },
        { "spatial", "", 0, 4, 2, rtn, 3263934240 },
        { "spatial(mode=topk,min=0.6,max=0.9,target=0.8)", "", 0, 4, 2, kivi, 3497588640 },
        { "spatial(mode=topk,min=0.6,max=0.9,target=0.8)", "", 0, 4, 2, rtn, 3489726240 },
        { "recent(chunks=2)", "", 0, 16, 4, exact_tail, 4960051200 },
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int64_t got = total_bytes(row[i].tiers, row[i].retention, row[i].story, row[i].fine,
                                  row[i].coarse, row[i].code);

        ck_assert_msg(got == row[i].bytes, "%s %s: %lld bytes, published %lld", row[i].tiers,
                      row[i].retention, (long long)got, (long long)row[i].bytes);
    }
}
END_TEST

/* A small cache: 42 frames of 5 tokens, with 3 heads of 6 channels. */
enum { s_ = 5, H_ = 3, D_ = 6, W_ = H_ * D_, F_ = 42 };

static struct kvr_policy_ctx small(bool study, double beta, int n_frames)
{
    return (struct kvr_policy_ctx){ .study = study,
                                    .n_layers = 1,
                                    .tokens_per_frame = s_,
                                    .frames_per_chunk = 3,
                                    .n_heads = H_,
                                    .head_dim = D_,
                                    .beta = beta,
                                    .n_tok = (study ? F_ : n_frames) * s_,
                                    .n_active = n_frames * s_ };
}

/* A second implementation of the study's FlowCache rules, which shares no code with the first. It
 * computes in double precision; plan [n] is the tier of each frame. */
struct slow {
    int n_prev, n_plan;
    double prev[F_][H_];
    uint8_t plan[F_];
};

static int slow_round(double x)
{
    const double down = floor(x);

    if (x - down == 0.5)
        return (int)down + ((long)down % 2 ? 1 : 0);
    return (int)floor(x + 0.5);
}

static double slow_mean(const float *x, int f, int h)
{
    double sum = 0;

    for (int t = 0; t < s_; t++)
        for (int d = 0; d < D_; d++)
            sum += fabs((double)x[((f * s_ + t) * H_ + h) * D_ + d]);
    return sum / (s_ * D_);
}

/* Sets plan[f] to `to` for the k frames with the highest scores among those with plan[f] ==
 * from. */
static void slow_pick(uint8_t *plan, int n, const double *score, uint8_t from, uint8_t to, int k)
{
    for (; k > 0; k--) {
        int best = -1;

        for (int f = 0; f < n; f++)
            if (plan[f] == from && (best < 0 || score[f] > score[best]))
                best = f;
        if (best < 0)
            return;
        plan[best] = to;
    }
}

static void slow_study(struct slow *w, const float *k, const float *v, int n, double beta,
                       double important, double retained, bool every_call)
{
    enum { CANDIDATE = 77, KEPT = 78 };
    double now[F_][H_], score[F_];
    int n_rec, n_old, n_imp, rem, n_ret;

    if (!every_call && w->n_plan == n)
        return;
    for (int f = 0; f < n; f++)
        for (int h = 0; h < H_; h++)
            now[f][h] = slow_mean(k, f, h) + slow_mean(v, f, h);
    for (int f = 0; f < n; f++) {
        /* index, in the previous call, of the frame as far from the last frame as f is now */
        const int before = w->n_prev - (n - f);
        double change = 0, size = 0, delta = 1;

        if (before >= 0 && w->n_prev) {
            for (int h = 0; h < H_; h++) {
                change += fabs(now[f][h] - w->prev[before][h]) / H_;
                size += fabs(w->prev[before][h]) / H_;
            }
            delta = change / (size > 1e-6 ? size : 1e-6);
        }
        score[f] = 0.7 * delta + (n > 1 ? 0.3 * f / (n - 1) : 0);
    }
    memcpy(w->prev, now, sizeof now);
    w->n_prev = w->n_plan = n;
    n_rec = slow_round((0.25 * beta > 1 ? 1 : 0.25 * beta) * n);
    n_rec = n_rec < 1 ? 1 : n_rec > n ? n : n_rec;
    n_old = n - n_rec;
    n_imp = slow_round(important * beta * n_old);
    n_imp = n_imp < 1 ? 1 : n_imp;
    n_imp = n_imp > n_old ? n_old : n_imp;
    rem = n_old - n_imp;
    n_ret = slow_round(retained * beta * rem);
    n_ret = n_ret < 1 ? 1 : n_ret;
    n_ret = n_ret > rem ? rem : n_ret;
    for (int f = 0; f < n; f++)
        w->plan[f] = f < n_old ? CANDIDATE : RECENT;
    slow_pick(w->plan, n, score, CANDIDATE, IMPORTANT, n_imp);
    slow_pick(w->plan, n, score, CANDIDATE, KEPT, retained < 0 ? rem : n_ret);
    for (int f = 0; f < n; f++)
        w->plan[f] = w->plan[f] == KEPT        ? OLD
                     : w->plan[f] == CANDIDATE ? KVR_TOKEN_ZERO
                                               : w->plan[f];
}

/* Fills frames [f0, f1) of x with normal random numbers, scaled by a random factor per frame. */
static void draw(float *x, int f0, int f1, uint32_t stream)
{
    kvr_normal(x + f0 * s_ * W_, (size_t)((f1 - f0) * s_ * W_), 11, KVR_RNG_TEST, stream, 0, 0);
    for (int f = f0; f < f1; f++) {
        float size;

        kvr_uniform(&size, 1, 12, KVR_RNG_TEST, stream, (uint32_t)f, 0);
        for (int i = 0; i < s_ * W_; i++)
            x[f * s_ * W_ + i] *= 0.5f + size;
    }
}

static void run_study(const char *tiers, const char *retention, double important, double retained,
                      bool every_call, double beta)
{
    static float k[F_ * s_ * W_], v[F_ * s_ * W_];
    struct slow slow = { 0 };
    struct parts p = open_parts(tiers, retention);
    uint8_t map[F_ * s_];
    int n_moved = 0;

    memset(k, 0, sizeof k);
    memset(v, 0, sizeof v);
    for (int n = 3; n <= F_; n += 3) {
        for (int call = 0; call < 3; call++) {
            struct kvr_policy_ctx ctx = small(true, beta, n);
            uint8_t before[F_];

            /* Every call gets new random values for the newest three frames. Older keys change a
             * little, as if they were quantized again. Pruned frames are zero. */
            draw(k, n - 3, n, (uint32_t)(n * 8 + call));
            draw(v, n - 3, n, (uint32_t)(n * 8 + call + 1000));
            for (int i = 0; i < (n - 3) * s_ * W_; i++)
                k[i] *= 1 + 0.01f * (float)((i * 7 + n + call) % 13);
            ctx.k = k;
            ctx.v = v;
            memcpy(before, slow.plan, sizeof before);
            slow_study(&slow, k, v, n, beta, important, retained, every_call);
            assign(&p, &ctx, map);
            for (int t = 0; t < F_ * s_; t++) {
                const int want = t < n * s_ ? slow.plan[t / s_] : KVR_TOKEN_ZERO;

                if (map[t] != want)
                    ck_abort_msg("%s %s beta %g: %d frames, call %d, token %d: %d, expected %d",
                                 tiers, retention, beta, n, call, t, map[t], want);
                if (map[t] == KVR_TOKEN_ZERO)
                    for (int i = t * W_; i < (t + 1) * W_; i++)
                        k[i] = v[i] = 0;
            }
            for (int f = 0; f < n - 3; f++)
                n_moved += before[f] != slow.plan[f];
        }
    }
    /* More than 20 frames must have changed tier, or the comparison proves little. If beta > 4, the
     * fraction of recent frames, 0.25 beta, exceeds 1: all frames are recent and none may change
     * tier. */
    ck_assert_msg(beta > 4 ? n_moved == 0 : n_moved > 20, "beta %g: %d moved", beta, n_moved);
    close_parts(&p);
}

START_TEST(study_is_the_text)
{
    static const double betas[] = { 0.7, 0.9, 1.0, 1.3, 4.5 };
    const double beta = betas[_i];

    run_study("saliency(important=0.2)", "", 0.2, -1, true, beta);
    run_study("saliency(important=0.2,refresh=on_growth)", "", 0.2, -1, false, beta);
    run_study("saliency(important=0.1,refresh=on_growth)", "saliency(retained=0.3)", 0.1, 0.3,
              false, beta);
    run_study("saliency(important=0.1)", "saliency", 0.1, 0.45, true, beta);
}
END_TEST

/* Fills frame f with +-g. If keys and values are filled like this, the frame's pooled magnitude,
 * mean |k| + mean |v|, is 2g. */
static void constant(float *x, int f, float g)
{
    for (int i = 0; i < s_ * W_; i++)
        x[f * s_ * W_ + i] = i % 2 ? g : -g;
}

static const struct kvr_saliency_rule plain = { 0.7, 0.3, true };

START_TEST(deltas_by_hand)
{
    static float x[6 * s_ * W_];
    static const float g[] = { 1, 1, 3, 3, 1.5f, 0 };
    static const float intended[] = { 1, 0, 2, 0, 0.5f, 1 };
    struct kvr_policy_state state = { 0 };
    struct kvr_policy_ctx ctx = small(false, 1, 3);
    struct kvr_saliency s;

    for (int f = 0; f < 6; f++)
        constant(x, f, g[f]);
    ctx.k = ctx.v = x;
    ck_assert_int_eq(kvr_saliency_score(&plain, &ctx, dev, &state, &s), KVR_OK);
    /* Scoring the same chunk a second time replaces its scores and adds no frames. */
    for (int pass = 0; pass < 2; pass++) {
        ctx = small(false, 1, 6);
        ctx.new0 = 3 * s_;
        ctx.k = ctx.v = x + 3 * s_ * W_;
        ck_assert_int_eq(kvr_saliency_score(&plain, &ctx, dev, &state, &s), KVR_OK);
        ck_assert_int_eq(s.n, 6);
        for (int f = 0; f < 6; f++) {
            ck_assert(s.delta[f] == intended[f]);
            /* The score is 0.7 delta + 0.3 f / 5. In float it is rounded three times, at values
             * below 2. */
            ck_assert(fabs(s.score[f] - (0.7 * intended[f] + 0.06 * f)) <= 3 * 1.2e-7);
        }
    }
    kvr_buf_free(&state.buf);

    /* The study's rule: the cache grows from three to six frames, and each frame is compared with
     * the frame three earlier, as it was in the previous call. */
    state = (struct kvr_policy_state){ 0 };
    ctx = small(true, 1, 3);
    ctx.k = ctx.v = x;
    ck_assert_int_eq(kvr_saliency_score(&plain, &ctx, dev, &state, &s), KVR_OK);
    for (int f = 0; f < 3; f++)
        ck_assert(s.delta[f] == 1);
    ctx.n_active = 6 * s_;
    ck_assert_int_eq(kvr_saliency_score(&plain, &ctx, dev, &state, &s), KVR_OK);
    static const float study[] = { 1, 1, 1, 2, 0.5f, 1 };
    for (int f = 0; f < 6; f++)
        ck_assert(s.delta[f] == study[f]);
    /* Frame 5 was zero and now has the magnitude 4. The divisor is at least 1e-6, so delta is 4 /
     * 1e-6. */
    constant(x, 5, 2);
    ck_assert_int_eq(kvr_saliency_score(&plain, &ctx, dev, &state, &s), KVR_OK);
    ck_assert(s.delta[0] == 0 && s.delta[4] == 0);
    ck_assert(fabs(s.delta[5] - 4e6) <= 1);
    kvr_buf_free(&state.buf);
}
END_TEST

static int rank_of_byte(uint8_t b)
{
    return b == RECENT || b == IMPORTANT ? 2 : b == OLD ? 1 : 0;
}

/* Writes delta [F_], the relative L1 change of each frame's pooled keys and values. */
static void slow_deltas(const float *k, const float *v, double *delta)
{
    for (int f = 0; f < F_; f++) {
        double change = 0, size = 0;

        for (int h = 0; h < H_ && f > 0; h++) {
            const double before = slow_mean(k, f - 1, h) + slow_mean(v, f - 1, h);

            change += fabs(slow_mean(k, f, h) + slow_mean(v, f, h) - before);
            size += before;
        }
        delta[f] = f ? change / size : 1;
    }
}

/* Expected tiers of n frames, and the number of frames in each tier. */
struct expected {
    uint8_t tier[F_]; /* tier of a frame, or KVR_TOKEN_DROPPED */
    int n_recent, n_important, n_rest, n_retained;
};

/* Computes the tiers that FlowCache's paper requires for n frames. level [F_] is the lowest level
 * that each frame has had (rank_of_byte()); a frame never returns to a higher one. */
static struct expected expect_tiers(int n, double beta, double important, double retained,
                                    const double *delta, const uint8_t *level)
{
    enum { FINE = 77, COARSE = 78, STAYS = 79 };
    struct expected e = { .n_recent = slow_round(fmin(0.25 * beta, 1) * n) };
    uint8_t *plan = e.tier;
    double score[F_];

    e.n_recent = e.n_recent < 1 ? 1 : e.n_recent;
    e.n_important = slow_round(important * beta * (n - e.n_recent));
    e.n_important = e.n_important < 1 ? 1 : e.n_important;
    e.n_important = e.n_important > n - e.n_recent ? n - e.n_recent : e.n_important;
    for (int f = 0; f < n; f++) {
        score[f] = 0.7 * delta[f] + 0.3 * f / (n - 1);
        plan[f] = f >= n - e.n_recent ? RECENT : level[f] == 2 ? FINE : level[f] ? COARSE : OLD;
    }
    slow_pick(plan, n, score, FINE, IMPORTANT, e.n_important);
    for (int f = 0; f < n; f++) {
        plan[f] = plan[f] == FINE ? COARSE : plan[f];
        e.n_rest += plan[f] != RECENT && plan[f] != IMPORTANT;
    }
    e.n_retained = slow_round(retained * beta * e.n_rest);
    e.n_retained = e.n_retained < 1 ? 1 : e.n_retained;
    slow_pick(plan, n, score, COARSE, STAYS, e.n_retained);
    for (int f = 0; f < n; f++)
        if (plan[f] != RECENT && plan[f] != IMPORTANT)
            plan[f] = plan[f] == STAYS ? OLD : KVR_TOKEN_DROPPED;
    return e;
}

/* Adds frames chunk by chunk and compares the variant that follows FlowCache's paper with
 * expect_tiers(). Scores come from keys and values before quantization. */
static void run_intended(double beta, double important, double retained)
{
    static float k[F_ * s_ * W_], v[F_ * s_ * W_];
    char tiers[64], retention[64];
    uint8_t map[F_ * s_], level[F_];
    double delta[F_];

    snprintf(tiers, sizeof tiers, "saliency(important=%g)", important);
    snprintf(retention, sizeof retention, "saliency(retained=%g)", retained);
    struct parts p = open_parts(tiers, retention);
    draw(k, 0, F_, 1);
    draw(v, 0, F_, 2);
    slow_deltas(k, v, delta);
    memset(level, 2, sizeof level);
    for (int n = 3; n <= F_; n += 3) {
        struct kvr_policy_ctx ctx = small(false, beta, n);
        const struct expected e = expect_tiers(n, beta, important, retained, delta, level);
        int got[3] = { 0 };

        ctx.new0 = (n - 3) * s_;
        ctx.k = k + ctx.new0 * W_;
        ctx.v = v + ctx.new0 * W_;
        assign(&p, &ctx, map);
        for (int f = 0; f < n; f++) {
            for (int t = f * s_; t < (f + 1) * s_; t++)
                if (map[t] != e.tier[f])
                    ck_abort_msg("beta %g: %d frames, frame %d: %d, expected %d", beta, n, f,
                                 map[t], e.tier[f]);
            ck_assert_int_le(rank_of_byte(map[f * s_]), level[f]);
            level[f] = (uint8_t)rank_of_byte(map[f * s_]);
            if (map[f * s_] < 3)
                got[map[f * s_]]++;
        }
        ck_assert_int_eq(got[RECENT], e.n_recent);
        ck_assert_int_eq(got[IMPORTANT], e.n_important);
        /* Rounding may raise the number of retained frames by one from chunk to chunk. Dropped
         * frames cannot return, so tier OLD may have one frame less than computed. */
        ck_assert_int_le(got[OLD], e.n_retained < e.n_rest ? e.n_retained : e.n_rest);
        ck_assert_int_ge(got[OLD], e.n_retained < e.n_rest ? e.n_retained - 1 : e.n_rest);
    }
    close_parts(&p);
}

START_TEST(intended_never_restores)
{
    const double beta = published[_i].movie;

    run_intended(beta, 0.1, 0.3);
    run_intended(beta, 0.1, 0.45);
    run_intended(beta, 0.2, 1);
}
END_TEST

START_TEST(fills)
{
    static const struct {
        bool study;
        const char *text;
        uint8_t byte;
    } fill[] = {
        { true, "saliency", KVR_TOKEN_ZERO },
        { false, "saliency", KVR_TOKEN_DROPPED },
        { true, "saliency(fill=drop)", KVR_TOKEN_DROPPED },
        { true, "saliency(fill=pooled)", KVR_TOKEN_POOLED },
        { false, "saliency(fill=pooled)", KVR_TOKEN_POOLED },
        { false, "saliency(fill=zero)", KVR_TOKEN_ZERO },
    };

    for (size_t i = 0; i < sizeof fill / sizeof *fill; i++) {
        struct parts p = open_parts(TIERS10, fill[i].text);
        struct kvr_policy_ctx ctx = small(fill[i].study, 1, 12);
        uint8_t map[F_ * s_];
        int n = 0;

        /* The last frame is incomplete: it has 3 of 5 tokens. */
        ctx.n_active -= 2;
        ctx.n_tok -= fill[i].study ? 0 : 2;
        assign(&p, &ctx, map);
        for (int64_t t = 0; t < ctx.n_active; t++)
            if (map[t] > 2) {
                ck_assert_int_eq(map[t], fill[i].byte);
                n++;
            }
        /* Of 12 frames, 3 are recent and 1 is important. Of the other 8, 4 stay and 4 are
         * dropped. */
        ck_assert_int_eq(n, 4 * s_);
        ck_assert_int_eq(map[ctx.n_active - 1], RECENT);
        close_parts(&p);
    }
}
END_TEST

/* If the tier policy is not `saliency`, the retention policy computes scores itself. It drops only
 * frames of tier 0: here, frames older than the newest chunk. */
START_TEST(retention_alone)
{
    static float k[F_ * s_ * W_], v[F_ * s_ * W_];
    struct parts p = open_parts("recent(chunks=1)", "saliency(retained=0.5)");
    uint8_t map[F_ * s_];

    draw(k, 0, F_, 3);
    draw(v, 0, F_, 4);
    for (int n = 3; n <= 12; n += 3) {
        struct kvr_policy_ctx ctx = small(false, 1, n);
        int stay = 0, gone = 0;

        ctx.new0 = (n - 3) * s_;
        ctx.k = k + ctx.new0 * W_;
        ctx.v = v + ctx.new0 * W_;
        assign(&p, &ctx, map);
        for (int f = 0; f < n; f++) {
            stay += map[f * s_] == OLD;
            gone += map[f * s_] == KVR_TOKEN_DROPPED;
            ck_assert(f < n - 3 || map[f * s_] == RECENT);
        }
        /* Of 0, 3, 6 and 9 older frames, half are retained, rounded half to even: 0, 2, 3 and 4. */
        static const int want[] = { 0, 2, 3, 4 };
        ck_assert_int_eq(stay, want[n / 3 - 1]);
        ck_assert_int_eq(gone, n - 3 - stay);
    }
    close_parts(&p);
}
END_TEST

/* Lets every allocation fail in turn. After a failure the state is unchanged, so the call that
 * succeeds gives the same map as without failures. */
START_TEST(failed_memory_changes_nothing)
{
    static float k[F_ * s_ * W_], v[F_ * s_ * W_];
    const bool study = _i;
    struct parts a = open_parts(TIERS20, "saliency"), b = open_parts(TIERS20, "saliency");
    uint8_t want[F_ * s_], got[F_ * s_];
    int n_failed = 0;

    for (int n = 3; n <= F_; n += 3) {
        struct kvr_policy_ctx ctx = small(study, 1, n);
        enum kvr_status st = KVR_ENOMEM;

        draw(k, 0, n, (uint32_t)n);
        draw(v, 0, n, (uint32_t)n + 100);
        ctx.new0 = study ? 0 : (n - 3) * s_;
        ctx.k = k + ctx.new0 * W_;
        ctx.v = v + ctx.new0 * W_;
        assign(&a, &ctx, want);
        for (uint64_t fail = 1; st != KVR_OK; fail++) {
            kvr_mem_fail_after(dev, fail);
            st = try_assign(&b, &ctx, got);
            kvr_mem_fail_after(dev, 0);
            ck_assert(st == KVR_OK || st == KVR_ENOMEM);
            n_failed += st != KVR_OK;
        }
        ck_assert_int_eq(memcmp(want, got, (size_t)ctx.n_tok), 0);
    }
    ck_assert_int_ge(n_failed, study ? 14 : 3);
    close_parts(&a);
    close_parts(&b);
}
END_TEST

START_TEST(threads_change_nothing)
{
    static float k[F_ * s_ * W_], v[F_ * s_ * W_];
    float first[2][F_] = { { 0 } };

    draw(k, 0, F_, 5);
    draw(v, 0, F_, 6);
    for (int threads = 1; threads <= 7; threads++) {
        for (int study = 0; study < 2; study++) {
            struct kvr_policy_state state = { 0 };
            struct kvr_policy_ctx ctx = small(study, 1, F_);
            struct kvr_saliency s;

            set_threads(threads);
            ctx.k = k;
            ctx.v = v;
            ck_assert_int_eq(kvr_saliency_score(&plain, &ctx, dev, &state, &s), KVR_OK);
            ctx.k = v; /* a second call; the study's variant compares it with the first */
            ctx.n_active -= 3 * s_;
            ck_assert_int_eq(kvr_saliency_score(&plain, &ctx, dev, &state, &s), KVR_OK);
            if (threads == 1)
                memcpy(first[study], s.score, sizeof(float) * (size_t)s.n);
            ck_assert_int_eq(memcmp(first[study], s.score, sizeof(float) * (size_t)s.n), 0);
            kvr_buf_free(&state.buf);
        }
    }
}
END_TEST

START_TEST(nothing_written_yet)
{
    uint8_t map[F_ * s_];

    for (int study = 0; study < 2; study++) {
        struct parts p = open_parts(TIERS20, "saliency");
        struct kvr_policy_ctx ctx = small(study, 1, 0);

        assign(&p, &ctx, map);
        for (int64_t t = 0; t < ctx.n_tok; t++)
            ck_assert_int_eq(map[t], KVR_TOKEN_ZERO);
        close_parts(&p);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("saliency");
    TCase *tc = tcase_create("saliency");
    SRunner *sr = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(tc, open_dev, close_dev);
    tcase_add_loop_test(tc, published_counts, 0, LAYERS);
    tcase_add_test(tc, logged_averages);
    tcase_add_test(tc, published_bytes);
    tcase_add_loop_test(tc, study_is_the_text, 0, 5);
    tcase_add_test(tc, deltas_by_hand);
    tcase_add_loop_test(tc, intended_never_restores, 0, LAYERS);
    tcase_add_test(tc, fills);
    tcase_add_test(tc, retention_alone);
    tcase_add_loop_test(tc, failed_memory_changes_nothing, 0, 2);
    tcase_add_test(tc, threads_change_nothing);
    tcase_add_test(tc, nothing_written_yet);
    suite_add_tcase(s, tc);
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
