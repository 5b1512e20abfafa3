/* topk.h - the k best of n.
 *
 *     kvr_topk(item, n);      item[0 .. k-1] are the k best
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

#endif
