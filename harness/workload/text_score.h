/* text_score.h - what logits say of the next token. Private to harness/workload. */
#ifndef KVR_WORKLOAD_TEXT_SCORE_H
#define KVR_WORKLOAD_TEXT_SCORE_H

#include <stdint.h>

#include "harness/engine/lm.h"

/* Sums over scored tokens. */
struct kvr_score_sums {
    int64_t tokens;
    double nll, kl, top1;
    double hits; /* the most likely token is the one that follows */
};

/* Rows [n,d] of hidden states; next [n] is the token each one is followed by. `ref` (may be NULL:
 * kl and top1 stay) are the rows of the teacher. Added to `sums`. KVR_ENAN: a logit is not finite.
 */
enum kvr_status kvr_score_rows(struct kvr_lm *lm, int vocabulary, int dim, int64_t n,
                               const float *hidden, const float *ref, const int32_t *next,
                               struct kvr_score_sums *sums);

#endif
