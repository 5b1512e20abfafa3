/* text_score.h - scores a language model's next-token predictions. Private to harness/workload. */
#ifndef KVR_WORKLOAD_TEXT_SCORE_H
#define KVR_WORKLOAD_TEXT_SCORE_H

#include <stdint.h>

#include "harness/engine/lm.h"

/* Sums, over the scored tokens, of the scores that text.h defines. */
struct kvr_score_sums {
    int64_t tokens;
    double nll, kl, top1;
    double hits; /* number of tokens that the model predicted as the most likely next token */
};

/* Computes the logits of n positions from the hidden states hidden [n,dim], scores them against the
 * tokens next [n] that follow these positions, and adds the scores to `sums`. The scores `kl` and
 * `top1` compare the logits with those of the BF16 teacher, whose hidden states are ref [n,dim]. If
 * `ref` is NULL, sums->kl and sums->top1 are unchanged. Returns KVR_ENAN if a logit is not
 * finite. */
enum kvr_status kvr_score_rows(struct kvr_lm *lm, int vocabulary, int dim, int64_t n,
                               const float *hidden, const float *ref, const int32_t *next,
                               struct kvr_score_sums *sums);

#endif
