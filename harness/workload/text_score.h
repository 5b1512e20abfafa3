/* text_score.h - scores next-token predictions from logits. Private to harness/workload. */
#ifndef KVR_WORKLOAD_TEXT_SCORE_H
#define KVR_WORKLOAD_TEXT_SCORE_H

#include <stdint.h>

#include "harness/engine/lm.h"

/* Sums over scored tokens. */
struct kvr_score_sums {
    int64_t tokens;
    double nll, kl, top1;
    double hits; /* the most likely token is the next one */
};

/* Adds the scores of n hidden states [n,d] to `sums`; next [n] has the token after each. `ref`: the
 * teacher's hidden states; NULL leaves kl and top1 unchanged. KVR_ENAN: a logit is not finite. */
enum kvr_status kvr_score_rows(struct kvr_lm *lm, int vocabulary, int dim, int64_t n,
                               const float *hidden, const float *ref, const int32_t *next,
                               struct kvr_score_sums *sums);

#endif
