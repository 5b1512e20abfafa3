/* topk.c - sorts items by descending score, or selects the k best. NaN ranks first; of equal scores
 * the lower index ranks first. */
#include "methods/kernels/topk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int better_first(const void *pa, const void *pb)
{
    const struct kvr_ranked *a = pa, *b = pb;
    const int nan_a = isnan(a->score), nan_b = isnan(b->score);

    if (nan_a != nan_b)
        return nan_b - nan_a;
    if (!nan_a && a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

void kvr_topk(struct kvr_ranked *item, int64_t n)
{
    if (n > 1)
        qsort(item, (size_t)n, sizeof *item, better_first);
}

/* Maps an item to an integer such that a better item has a smaller integer. The upper 32 bits
 * depend on the score, the lower 32 bits are the index. */
static uint64_t place_of(struct kvr_ranked r)
{
    uint32_t bits = 0, down;

    if (isnan(r.score))
        return (uint32_t)r.index;
    if (r.score != 0) /* +0 and -0 get the same integer */
        memcpy(&bits, &r.score, sizeof bits);
    down = bits >> 31 ? bits : ~bits & 0x7fffffff; /* larger scores get smaller integers; only NaN
                                                    * gets 0 */
    return (uint64_t)down << 32 | (uint32_t)r.index;
}

static uint64_t middle_of(uint64_t a, uint64_t b, uint64_t c)
{
    return a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
}

/* Partitions the items by Hoare's scheme, and returns the size of the left side. No item on the
 * left side is worse than the pivot, no item on the right side is better. Neither side is empty. */
static int64_t part_at(struct kvr_ranked *item, int64_t n)
{
    const uint64_t pivot =
        middle_of(place_of(item[0]), place_of(item[n / 2]), place_of(item[n - 1]));
    int64_t i = -1, j = n;

    for (;;) {
        struct kvr_ranked swap;

        do
            i++;
        while (place_of(item[i]) < pivot);
        do
            j--;
        while (place_of(item[j]) > pivot);
        if (i >= j)
            return j + 1 < n ? j + 1 : n - 1;
        swap = item[i];
        item[i] = item[j];
        item[j] = swap;
    }
}

void kvr_best(struct kvr_ranked *item, int64_t n, int64_t k)
{
    enum { FEW = 16, TRIES = 64 };

    /* Quickselect. After TRIES partitions, which only an adversarial order of the items requires,
     * the remaining items are sorted instead, to bound the time. */
    for (int tries = 0; k > 0 && k < n && n > FEW && tries < TRIES; tries++) {
        const int64_t left = part_at(item, n);

        if (k <= left) {
            n = left;
        } else {
            item += left;
            n -= left;
            k -= left;
        }
    }
    if (k > 0 && k < n)
        kvr_topk(item, n);
}
