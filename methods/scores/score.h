/* score.h - token scores, by which the retention `keep` selects the tokens to keep.
 *
 *     const struct kvr_score *s = kvr_scores[o->score];
 *     s->rate(&job);                         job.score[i]: the largest stay
 *
 * When a chunk is stored, every token gets a score, either for all heads together or for one head.
 * A score function receives the stored tokens, oldest first, and then those of the new chunk. A
 * score function may keep `memory` floats per token between chunks. Keys of older chunks are
 * already quantized. A score that needs exact keys must therefore compute what it needs from a key
 * while the key's chunk is new, and keep the result in `memory`. A score that requests `all_keys`
 * receives all keys, those of older chunks decoded. */
#ifndef KVR_METHODS_SCORES_SCORE_H
#define KVR_METHODS_SCORES_SCORE_H

#include "methods/policy.h"

enum { KVR_SCORE_MAX_MEMORY = 2 };

/* Weight of a token's position in the score `redundancy`, for stored token i of n. In the formulas,
 * x = i / (n - 1), and power is kvr_score_opts.power. */
enum kvr_place_weight {
    KVR_PLACE_NONE,
    KVR_PLACE_FIRST,       /* the tokens of the first chunk are evicted before all others */
    KVR_PLACE_EXPONENTIAL, /* the weight is .1 + .9 (1 - e^(-2x)) / (1 - e^-2), with x as above */
    KVR_PLACE_POLYNOMIAL,  /* the weight is .1 + .9 x^power, with x and power as above */
    KVR_PLACE_CONVEX,      /* the weight is 2 (1 - (1 - x)^power), with x and power as above */
    KVR_PLACE_GAUSSIAN,    /* the weight is .1 + .9 g, where g is the Gaussian e^(-i^2 / (2
                            * sigma^2)) with sigma = n / 4, rescaled so that its minimum over i is 0
                            * and its maximum is 1 */
};

struct kvr_score_opts {
    int seed;      /* for `random` */
    int pool;      /* width in tokens, odd, of a sliding maximum over the scores; 1 leaves scores
                    * unchanged */
    double lambda; /* weight of the attention term in `redundancy` */
    enum kvr_place_weight weight;
    int power;
};

struct kvr_salience_head;

struct kvr_score_job {
    const struct kvr_policy_ctx *ctx;
    const struct kvr_score_opts *opts;
    int h0, n_heads;      /* heads scored together */
    int64_t n, first_new; /* n: number of tokens to score; indices from first_new on are tokens of
                           * the new chunk */
    const int32_t *token; /* [n] ascending */
    float *memory;        /* [n][kvr_score.memory] floats that the score function keeps for each
                           * token until the next chunk; initially 0 for tokens of the new chunk */
    float *score;         /* [n] */
    float *work;          /* scratch memory, n + D (D + 1) floats */
    const struct kvr_salience_head *head; /* NULL unless requested */
};

struct kvr_score {
    const char *name, *title;
    int memory;          /* number of floats that the score function keeps per token from chunk to
                          * chunk (kvr_score_job.memory), for each head or group of heads that are
                          * scored together */
    bool columns;        /* reads ctx->columns */
    bool keys, all_keys; /* reads ctx->k, ctx->all_keys */
    bool all_values;     /* also reads ctx->all_values */
    bool undoes_rope;    /* the score applies the inverse RoPE to queries; supported only for the
                          * RoPE of video models (kernels/rope.h) */
    bool queries;        /* reads ctx->q */
    bool head;           /* the score is the prediction of the salience network (salience_head.h),
                          * whose inputs are ctx->q, ctx->k and ctx->v */
    bool oracle_scores;  /* reads ctx->oracle_scores, the salience of each token, measured in an
                          * earlier rollout of the whole video */
    void (*rate)(const struct kvr_score_job *job);
};

extern const struct kvr_score *const kvr_scores[]; /* NULL-terminated */

/* Returns the attention that a token received from the new chunk's queries. This is the sum of its
 * softmax weights over the queries, or their maximum if `largest` is set (struct kvr_columns),
 * averaged over the heads that are scored together. Returns 0 if ctx->columns is NULL, because
 * attention was not measured. */
float kvr_column_of(const struct kvr_score_job *job, int64_t token, bool largest);
/* Key [D] of a token of the new chunk, in head h. */
const float *kvr_new_key(const struct kvr_score_job *job, int64_t token, int h);
/* Replaces x[i] by the maximum of x in a window of `width` elements around i; width is odd, and
 * work has n elements. */
void kvr_pool_max(float *x, int64_t n, int width, float *work);

#endif
