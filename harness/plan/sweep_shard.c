/* sweep_shard.c - selects cells by filter and shard; see sweep.h. */
#include "harness/plan/sweep_impl.h"

#include <stdlib.h>
#include <string.h>

#include "harness/plan/filter.h"
#include "harness/plan/key_options.h"
#include "harness/plan/sweep.h"

struct keyed_cell {
    /* first 64 bits of the key of the cell's root baseline, the BF16 cell with unperturbed noise;
     * it is its own baseline */
    uint64_t root;
    int index;
};

static int by_root(const void *a, const void *b)
{
    const struct keyed_cell *x = a, *y = b;

    if (x->root != y->root)
        return (x->root > y->root) - (x->root < y->root);
    return x->index - y->index;
}

static double weight(const struct kvr_cell *c)
{
    return c->possible ? c->cost : 0;
}

/* Selects the cells of one shard. The cells are sorted by the key of their root baseline, and the
 * sorted list is cut into shards of about equal predicted FLOPs. If cells with the same root
 * baseline are in several shards, each of these shards runs the baseline. */
static enum kvr_status keep_shard(struct kvr_sweep *s, int shard, int n_shards)
{
    struct keyed_cell *row = malloc(((size_t)s->n_cells + 1) * sizeof *row);
    double all = 0, before = 0;

    if (!row)
        return kvr_sweep_no_memory();
    for (int i = 0; i < s->n_cells; i++) {
        char head[17] = { 0 };
        int root = i;

        while (s->cell[root].baseline != root)
            root = s->cell[root].baseline;
        memcpy(head, s->cell[root].key, 16);
        row[i] = (struct keyed_cell){ strtoull(head, NULL, 16), i };
        all += weight(&s->cell[i]);
    }
    qsort(row, (size_t)s->n_cells, sizeof *row, by_root);
    for (int i = 0; i < s->n_cells; i++) {
        struct kvr_cell *c = &s->cell[row[i].index];
        const double middle = before + weight(c) / 2;
        const int part = all > 0 ? (int)(middle / all * n_shards) : 0;

        c->selected = (part < n_shards ? part : n_shards - 1) == shard;
        before += weight(c);
    }
    free(row);
    return KVR_OK;
}

enum kvr_status kvr_sweep_select(struct kvr_sweep *s, const char *filter, int shard, int n_shards)
{
    struct kvr_filter *f = NULL;

    if (n_shards < 1 || shard < 0 || shard >= n_shards)
        return kvr_fail(KVR_EINVAL, "shard %d of %d: need i/N with 0 <= i < N", shard, n_shards);
    KVR_TRY(keep_shard(s, shard, n_shards));
    if (filter)
        KVR_TRY(kvr_filter_open(&f, filter));
    for (int i = 0; f && i < s->n_cells; i++)
        s->cell[i].selected = s->cell[i].selected && kvr_filter_match(f, &s->cell[i]);
    /* in descending order, because a selected baseline may itself have a baseline, and a baseline
     * has a smaller index than its cells */
    for (int i = s->n_cells - 1; i >= 0; i--)
        if (s->cell[i].selected)
            s->cell[s->cell[i].baseline].selected = true;
    kvr_filter_close(&f);
    return KVR_OK;
}
