/* topk.h - selects the k best of n items.
 *
 *     kvr_topk(item, n);      item[0 .. k-1] are the k best, for every k
 *     kvr_best(item, n, k);   item[0 .. k-1] are the k best, unordered: for one k, without a sort
 *
 * The best item is the one with the largest score. NaN counts as the largest score, as in
 * torch.topk. Of items with equal scores, the one with the lower `index` is better; torch.topk does
 * not specify this order. The initial order of the array `item` does not matter. */
#ifndef KVR_METHODS_KERNELS_TOPK_H
#define KVR_METHODS_KERNELS_TOPK_H

#include <stdint.h>

struct kvr_ranked {
    float score;
    int32_t index;
};

/* Sorts the items by descending score. */
void kvr_topk(struct kvr_ranked *item, int64_t n);

/* Moves the k best items, 0 <= k <= n, before the others, in O(n) expected time. */
void kvr_best(struct kvr_ranked *item, int64_t n, int64_t k);

#endif
