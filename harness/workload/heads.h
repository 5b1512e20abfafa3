/* heads.h - classifies attention heads by the distribution of their attention weights.
 *
 *     KVR_TRY(kvr_heads_open(&p, n_layers, n_heads, 50, 42));
 *     ... a rollout with .observer = kvr_heads_observe, .observer_ctx = p ...
 *     KVR_TRY(kvr_heads_classify(p, &rule, class, measure));
 *     kvr_heads_close(&p);
 *
 * Attention weights are evaluated in the cache-update pass of each chunk except the first, at
 * `queries` evenly spaced queries. A head's attention mass on a set of latent frames is the sum of
 * the head's attention weights for keys of these frames, over all evaluated queries and passes.
 * A_first is the mass on the video's first frame. A_near is the mass on the current chunk and on
 * the last frame before this chunk. A_all is the mass on all frames.
 *
 * The names in backquotes below are members of struct kvr_head_rule_opts. The rule of Forcing-KV
 * (arXiv:2605.09681) labels a head s (static) if A_near / (A_all - A_first) >= `alpha`, otherwise d
 * (dynamic).
 *
 * The rule of Dummy Forcing (arXiv:2601.20499) labels heads f (first frame), n (newest chunk) or x
 * (dummy). A_past is the attention mass on the frames between the video's first frame and the
 * current chunk. Under this rule, A_first and A_past are divided by their largest values over all
 * heads of the model. Heads are sorted by max(A_first, A_past), and the lowest fraction `dummy` of
 * them is labelled x. Of the remaining heads, those with A_first > A_past are labelled f, and the
 * others are labelled n.
 *
 * The rule of Pyramid Forcing (arXiv:2605.13111) labels heads w, a or v. The paper labels a head by
 * the sign of a quantity that it calls the head's response, and by how often this sign changes over
 * time. The exact rule is not published, so kvreel uses its own rule. Let x(d) be the mean
 * attention score, before softmax, over all pairs of an evaluated query and a key of an earlier
 * chunk that is d latent frames older. A head is labelled w (oscillating) if x(d) minus its mean
 * over d changes sign between d and d + 1 for at least a fraction `rate` of all d. A head that does
 * not oscillate is labelled a (anchor) if the mean of x(d) is positive, otherwise v (veil). */
#ifndef KVR_WORKLOAD_HEADS_H
#define KVR_WORKLOAD_HEADS_H

#include "harness/cache/cache.h"

enum kvr_head_rule { KVR_HEADS_FORCING, KVR_HEADS_DUMMY, KVR_HEADS_PYRAMID };
extern const char *const kvr_head_rule_names[]; /* "forcing", "dummy", "pyramid", NULL */

struct kvr_head_rule_opts {
    enum kvr_head_rule rule;
    double alpha, dummy, rate;
};

struct kvr_heads;

/* Allocates the sums over attention weights. `queries` is the number of queries to evaluate per
 * cache-update pass (0: all queries of the pass). x(d) is computed for d < max_frames. */
enum kvr_status kvr_heads_open(struct kvr_heads **out, int n_layers, int n_heads, int queries,
                               int max_frames);
void kvr_heads_close(struct kvr_heads **p);

/* Observer of attention calls (kvr_cache_observer_fn) that adds an attention call's weights to the
 * heads' sums. `ctx` is a struct kvr_heads *. The KV cache must be on the CPU. */
enum kvr_status kvr_heads_observe(void *ctx, const struct kvr_cache_view *view);

/* Writes each head's label to `class` [L][H]. Also writes to `measure` [L][H] the quantity that the
 * rule compares; the comment at the top of this file defines its symbols. The quantity of
 * Forcing-KV is A_near / (A_all - A_first), and the quantity of Dummy Forcing is max(A_first,
 * A_past). The quantity of Pyramid Forcing is the fraction of distances d at which x(d) minus its
 * mean changes sign. Returns KVR_EINVAL if no pass was evaluated, for example because the rollout
 * has only one chunk. */
enum kvr_status kvr_heads_classify(const struct kvr_heads *p, const struct kvr_head_rule_opts *o,
                                   char *class, double *measure);

#endif
