/* text_score.h - scores a language model's next-token predictions. Private to harness/workload. */
#ifndef KVR_WORKLOAD_TEXT_SCORE_H
#define KVR_WORKLOAD_TEXT_SCORE_H

#include <stdint.h>

#include "harness/engine/lm.h"

/* Sums of scores over all scored tokens. */
struct kvr_score_sums {
    int64_t tokens;
    double nll, kl, top1;
    double hits; /* number of tokens that equal the model's most likely next token */
};

/* Computes next-token predictions from the hidden states hidden [n,d], and compares them with the
 * actual next tokens next [n]. Adds the scores to `sums`. `ref` [n,d] has the hidden states of the
 * BF16 teacher; if `ref` is NULL, kl and top1 are unchanged. Returns KVR_ENAN if a logit is not
 * finite. */
enum kvr_status kvr_score_rows(struct kvr_lm *lm, int vocabulary, int dim, int64_t n,
                               const float *hidden, const float *ref, const int32_t *next,
                               struct kvr_score_sums *sums);

#endif
