/* topk.h - the k best of n.
 *
 *     kvr_topk(item, n);      item[0 .. k-1] are the k best, for every k
 *     kvr_best(item, n, k);   item[0 .. k-1] are the k best, in no order: for one k, without a sort
 *
 * Best is the largest score; NaN counts as larger than everything, as in torch.topk; among
 * equals the lowest index wins (torch.topk promises no order there). The answer therefore never
 * depends on the order of `item`. */
#ifndef KVR_METHODS_KERNELS_TOPK_H
#define KVR_METHODS_KERNELS_TOPK_H

#include <stdint.h>

struct kvr_ranked {
    float score;
    int32_t index;
};

/* Sorts, best first. */
void kvr_topk(struct kvr_ranked *item, int64_t n);

/* Parts the k best, 0 <= k <= n, from the rest; about n steps. */
void kvr_best(struct kvr_ranked *item, int64_t n, int64_t k);

#endif
