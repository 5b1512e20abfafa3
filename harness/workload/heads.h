/* heads.h - classifies heads by the distribution of their attention.
 *
 *     KVR_TRY(kvr_heads_open(&p, n_layers, n_heads, 50, 42));
 *     ... a rollout with .observer = kvr_heads_observe, .observer_ctx = p ...
 *     KVR_TRY(kvr_heads_classify(p, &rule, class, measure));
 *     kvr_heads_close(&p);
 *
 * Evaluates clean passes that have a past, each at `queries` evenly spaced queries with the weights
 * of uncoded attention. A_x is a head's attention mass on x, summed over queries and passes.
 * "First" is the first frame, "near" the current chunk and the frame before it.
 *
 * Forcing-KV (arXiv:2605.09681), letters s and d: static if A_near / (A_all - A_first) >= alpha.
 * Dummy Forcing (arXiv:2601.20499), letters f, n, x: A_first and A_past (frames between the first
 * and the chunk) are divided by their largest value over all heads of the model. The share `dummy`
 * of heads with the smallest max(A_first, A_past) is x. Others are f if A_first is larger, else n.
 * Pyramid Forcing (arXiv:2605.13111), letters w, a, v: the authors label heads by how often their
 * response changes its sign over time, and by its sign. Their exact rule is not published; the rule
 * here is kvreel's. x(d) is the mean score q . k / sqrt(D) of frames d back. If x(d) minus its mean
 * changes its sign between neighbours in a share of `rate` or more, the head oscillates (w).
 * Otherwise it is an anchor (a) if the mean is positive, else a veil (v). */
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

/* queries 0: all. KVR_ENOMEM. */
enum kvr_status kvr_heads_open(struct kvr_heads **out, int n_layers, int n_heads, int queries,
                               int max_frames);
void kvr_heads_close(struct kvr_heads **p);

/* A kvr_cache_observer_fn of a cache on the CPU; ctx is the struct kvr_heads. */
enum kvr_status kvr_heads_observe(void *ctx, const struct kvr_cache_view *view);

/* class [L][H]: letters. measure [L][H]: the deciding value, which is the share of A_near, the
 * larger of the two masses, or the share of sign changes. KVR_EINVAL: no pass had a past. */
enum kvr_status kvr_heads_classify(const struct kvr_heads *p, const struct kvr_head_rule_opts *o,
                                   char *class, double *measure);

#endif
