/* order.c - orders cells by round (index of the repeat), then by hash of (seed, group), then
 * baselines before the cells that need them, then by hash of (seed, cell). A group is all cells
 * whose chains of baselines end at the same cell. */
#include "harness/run/order.h"

#include <stdlib.h>

struct sort_item {
    int index, round, rank; /* rank: length of the cell's chain of baselines */
    uint64_t group, cell;
};

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_place(const void *a, const void *b)
{
    const struct sort_item *x = a, *y = b;

    if (x->round != y->round)
        return x->round - y->round;
    if (x->group != y->group)
        return compare(x->group, y->group);
    if (x->rank != y->rank)
        return x->rank - y->rank;
    return x->cell != y->cell ? compare(x->cell, y->cell) : x->index - y->index;
}

/* FNV-1a hash of the seed, the round and `text` (a cell's key), then splitmix64's finalizer, so
 * that similar seeds give unrelated orders. */
static uint64_t hash(uint64_t seed, int round, const char *text)
{
    uint64_t h = 14695981039346656037u ^ seed * 0x9E3779B97F4A7C15u;

    h = (h ^ (uint64_t)round) * 1099511628211u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9u;
    h = (h ^ h >> 27) * 0x94D049BB133111EBu;
    return h ^ h >> 31;
}

enum kvr_status kvr_order(int **out, const struct kvr_sweep *sweep, uint64_t seed)
{
    struct sort_item *p = malloc(((size_t)sweep->n_cells + 1) * sizeof *p);
    int *order = malloc(((size_t)sweep->n_cells + 1) * sizeof *order);

    if (!p || !order) {
        free(p);
        free(order);
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating %d cells", sweep->n_cells);
    }
    for (int i = 0; i < sweep->n_cells; i++) {
        const struct kvr_cell *c = &sweep->cell[i];
        int root = i, rank = 0;

        for (; sweep->cell[root].baseline != root; rank++)
            root = sweep->cell[root].baseline;
        p[i] = (struct sort_item){ .index = i,
                                   .round = c->repeat,
                                   .rank = rank,
                                   .group = hash(seed, c->repeat, sweep->cell[root].key),
                                   .cell = hash(seed, c->repeat, c->key) };
    }
    qsort(p, (size_t)sweep->n_cells, sizeof *p, by_place);
    for (int i = 0; i < sweep->n_cells; i++)
        order[i] = p[i].index;
    free(p);
    *out = order;
    return KVR_OK;
}
