/* topk.c - ranking with a total order. */
#include "methods/kernels/topk.h"

#include <math.h>
#include <stdlib.h>

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
