/* priority.c - see priority.h. */
#include "harness/run/priority.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/store/history.h"

enum { LEAST_REPEATS = 6, MOST_REPEATS = 1000 };

struct ranked_cell {
    int index, at; /* at: position in the order before this sort */
    double worth;
};

static int by_worth(const void *a, const void *b)
{
    const struct ranked_cell *x = a, *y = b;

    if (x->worth != y->worth)
        return (x->worth < y->worth) - (x->worth > y->worth);
    return x->at - y->at;
}

/* Hash of the method and settings of a cell. Cells with equal hashes differ only in prompt, seed
 * and repeat, and one mean covers them. */
static uint64_t mean_of(const struct kvr_cell *c)
{
    char text[400];
    uint64_t h = 14695981039346656037u;

    snprintf(text, sizeof text, "%s\n%s\n%s %d %d %s %s %d", c->model_label, c->label, c->set.kind,
             c->set.frames, c->set.window, c->set.path, c->set.forcing, c->set.jitter > 0);
    for (const char *s = text; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h ? h : 1;
}

struct count {
    uint64_t key;
    int n;
};

static int *count_of(struct count *table, size_t capacity, uint64_t key)
{
    size_t i = (size_t)(key ^ key >> 32) & (capacity - 1);

    while (table[i].key && table[i].key != key)
        i = (i + 1) & (capacity - 1);
    table[i].key = key;
    return &table[i].n;
}

/* Cost of a cell in FLOP. In timed sweeps the cost is rounded to a power of two, so that cells of
 * similar cost keep their previous order. */
static double cost_of(const struct kvr_cell *c)
{
    const double cost = c->cost > 0 ? c->cost : 1;

    return c->set.timing ? exp2(rint(log2(cost))) : cost;
}

static double worth_of(const struct kvr_cell *c, int *n)
{
    const bool counts = c->repeat == 0 || c->set.timing;
    const double gain = *n ? 1.0 / (*n * (*n + 1.0)) : 2;

    *n += counts;
    return (counts ? gain : gain * 1e-6) / cost_of(c);
}

enum kvr_status kvr_most_telling_first(int *order, const struct kvr_sweep *sweep,
                                       const struct kvr_job *jobs)
{
    const int n = sweep->n_cells;
    struct ranked_cell *ranked = calloc((size_t)n + 1, sizeof *ranked);
    double *worth = calloc((size_t)n + 1, sizeof *worth);
    struct count *table;
    size_t capacity = 64;

    while (capacity < 2 * (size_t)n)
        capacity *= 2;
    table = calloc(capacity, sizeof *table);
    if (!ranked || !worth || !table) {
        free(ranked);
        free(worth);
        free(table);
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating %d cells", n);
    }
    for (int i = 0; i < n; i++) /* counts the finished cells of each mean */
        if (jobs[i].state == KVR_DONE)
            (*count_of(table, capacity, mean_of(jobs[i].cell)))++;
    for (int i = 0; i < n; i++)
        if (jobs[order[i]].state == KVR_WAITING)
            worth[order[i]] = worth_of(jobs[order[i]].cell,
                                       count_of(table, capacity, mean_of(jobs[order[i]].cell)));
    /* a baseline is worth at least as much as each cell that needs it */
    for (int i = n - 1; i >= 0; i--) {
        const int b = sweep->cell[i].baseline;

        worth[b] = worth[i] > worth[b] ? worth[i] : worth[b];
    }
    for (int i = 0; i < n; i++)
        ranked[i] = (struct ranked_cell){ order[i], sweep->cell[order[i]].set.timing ? order[i] : i,
                                          worth[order[i]] };
    qsort(ranked, (size_t)n, sizeof *ranked, by_worth);
    for (int i = 0; i < n; i++)
        order[i] = ranked[i].index;
    free(ranked);
    free(worth);
    free(table);
    return KVR_OK;
}

enum kvr_status kvr_time_is_known(struct kvr_store *s, const struct kvr_session *session,
                                  const struct kvr_cell *cell, double until, kvr_width_fn *width,
                                  bool *yes)
{
    double *x;
    enum kvr_status st;
    int n = 0;

    *yes = false;
    if (cell->repeat < LEAST_REPEATS || !cell->set.timing)
        return KVR_OK;
    x = malloc(MOST_REPEATS * sizeof *x);
    if (!x)
        return kvr_fail(KVR_ENOMEM, "run: out of memory");
    st = kvr_store_times(s, cell->rollout, session, x, MOST_REPEATS, &n);
    if (st == KVR_OK && n >= LEAST_REPEATS)
        *yes = width(x, n) <= until;
    free(x);
    return st;
}

enum kvr_status kvr_is_enough(struct kvr_store *s, const struct kvr_session *session,
                              const struct kvr_sweep *sweep, const struct kvr_job *jobs, int at,
                              kvr_width_fn *width, bool *yes)
{
    const double until = sweep->config->until;

    *yes = false;
    if (until <= 0 || !width || !s)
        return KVR_OK;
    KVR_TRY(kvr_time_is_known(s, session, &sweep->cell[at], until, width, yes));
    for (int i = at + 1; *yes && i < sweep->n_cells && sweep->cell[i].baseline == at; i++)
        if (jobs[i].state == KVR_WAITING)
            KVR_TRY(kvr_time_is_known(s, session, &sweep->cell[i], until, width, yes));
    return KVR_OK;
}
