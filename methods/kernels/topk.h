/* topk.h - the k best of n.
 *
 *     kvr_topk(item, n);      item[0 .. k-1] are the k best, for every k
 *     kvr_best(item, n, k);   item[0 .. k-1] are the k best, unordered: for one k, without a sort
 *
 * The best item has the largest score. NaN is the largest score, as in torch.topk; ties go to the
 * lower index, which torch.topk does not specify. The result does not depend on the order of
 * `item`. */
#ifndef KVR_METHODS_KERNELS_TOPK_H
#define KVR_METHODS_KERNELS_TOPK_H

#include <stdint.h>

struct kvr_ranked {
    float score;
    int32_t index;
};

/* Sorts, best first. */
void kvr_topk(struct kvr_ranked *item, int64_t n);

/* Partitions the k best, 0 <= k <= n, from the rest in about n steps. */
void kvr_best(struct kvr_ranked *item, int64_t n, int64_t k);

#endif
