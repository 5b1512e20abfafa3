/* pareto_judge.c - decides which methods dominate which, by the rule of stats/front.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/pareto/pareto_race.h"
#include "harness/report/stats/pairs.h"

static bool same_settings(const struct kvr_contender *a, const struct kvr_contender *b)
{
    return strcmp(a->settings, b->settings) == 0;
}

static const struct kvr_sample *samples(const struct kvr_race *r, const struct kvr_contender *c,
                                        int k)
{
    return &r->samples[(size_t)r->objective[k].column * (size_t)r->rows->n_rows + (size_t)c->from];
}

int kvr_race_differences(const struct kvr_race *r, const struct kvr_contender *a,
                         const struct kvr_contender *b, int k, struct kvr_sample *d, double *x)
{
    const int column = r->objective[k].column;
    int n = kvr_nest_pairs(samples(r, a, k), a->n_seeds[column], samples(r, b, k),
                           b->n_seeds[column], d);

    n = kvr_nest(d, n, KVR_PER_PROMPT);
    kvr_nest_values(d, n, x);
    return n;
}

/* Computes the gain of contender a over contender b in objective k, with its confidence
 * interval. */
static enum kvr_status gain(const struct kvr_race *r, const struct kvr_contender *a,
                            const struct kvr_contender *b, int k, struct kvr_sample *d, double *x,
                            struct kvr_gain *out)
{
    const struct kvr_objective *ob = &r->objective[k];
    const double exact = (a->v[k] - b->v[k]) * ob->better;
    struct kvr_interval ci = { .lo = -INFINITY, .hi = INFINITY };
    int n;

    *out = (struct kvr_gain){ exact, exact, ob->margin };
    if (r->o->exact || !r->rows || !ob->noisy)
        return KVR_OK;
    n = kvr_race_differences(r, a, b, k, d, x);
    if (n >= KVR_PAIRS_MIN)
        KVR_TRY(kvr_mean_interval(x, n, 1 - 0.05 / (b->n_rivals > 0 ? b->n_rivals : 1), &ci));
    out->lo = ob->better > 0 ? ci.lo : -ci.hi;
    out->hi = ob->better > 0 ? ci.hi : -ci.lo;
    return KVR_OK;
}

static enum kvr_status compare_all(struct kvr_race *r)
{
    const size_t n = r->rows ? (size_t)r->rows->n_rows + 1 : 1;
    struct kvr_gain g[KVR_OBJECTIVES_MAX];
    struct kvr_sample *d = calloc(n, sizeof *d);
    double *x = calloc(n, sizeof *x);
    enum kvr_status st = KVR_OK;

    r->dominance = calloc((size_t)r->n * (size_t)r->n, 1);
    if (!d || !x || !r->dominance)
        st = kvr_fail(KVR_ENOMEM, "pareto: out of memory while allocating %d methods", r->n);
    for (int i = 0; st == KVR_OK && i < r->n; i++)
        for (int j = 0; st == KVR_OK && j < r->n; j++) {
            const struct kvr_contender *a = &r->who[i], *b = &r->who[j];

            r->dominance[i * r->n + j] = KVR_DOMINATES_NOT;
            if (i == j || !a->complete || !b->complete || !same_settings(a, b))
                continue;
            for (int k = 0; st == KVR_OK && k < r->n_objectives; k++)
                st = gain(r, a, b, k, d, x, &g[k]);
            if (st == KVR_OK)
                r->dominance[i * r->n + j] = (signed char)kvr_dominance(g, r->n_objectives);
        }
    free(d);
    free(x);
    return st;
}

static void count_rivals(struct kvr_race *r)
{
    for (int i = 0; i < r->n; i++) {
        struct kvr_contender *c = &r->who[i];

        c->complete = c->beyond < 0;
        for (int k = 0; k < r->n_objectives; k++)
            c->complete = c->complete && isfinite(c->v[k]);
        c->p_front = NAN;
    }
    for (int i = 0; i < r->n; i++)
        for (int j = 0; j < r->n; j++)
            r->who[i].n_rivals +=
                i != j && r->who[j].complete && same_settings(&r->who[i], &r->who[j]);
}

/* For each method, selects one method that dominates it (`by`), and one for which dominance is
 * undecided (`maybe`). Selects methods that no other method dominates, if there are any. */
static void name_one(struct kvr_race *r)
{
    for (int i = 0; i < r->n; i++) {
        struct kvr_contender *c = &r->who[i];

        c->by = c->maybe = -1;
        for (int j = 0; j < r->n; j++) {
            c->n_by += r->dominance[j * r->n + i] == KVR_DOMINATES;
            c->n_maybe += r->dominance[j * r->n + i] == KVR_DOMINANCE_UNDECIDED;
        }
    }
    for (int i = 0; i < r->n; i++)
        for (int j = 0; j < r->n; j++) {
            struct kvr_contender *c = &r->who[i];
            int *to = r->dominance[j * r->n + i] == KVR_DOMINATES             ? &c->by
                      : r->dominance[j * r->n + i] == KVR_DOMINANCE_UNDECIDED ? &c->maybe
                                                                              : NULL;

            if (to && (*to < 0 || (r->who[j].n_by == 0 && r->who[*to].n_by > 0)))
                *to = j;
        }
}

/* Fills value [M, K] with means and by_prompt [M, K, P] with values per prompt, for the M methods,
 * K objectives and P prompts of `f`. The values of objectives for which lower is better are
 * negated, because kvr_front_membership() expects that higher is better. who [M] gives each
 * method's index in r->who. */
static void fill(const struct kvr_race *r, const struct kvr_front *f, const int *who, double *value,
                 double *by_prompt, struct kvr_sample *scratch)
{
    const int n_k = f->n_objectives;

    for (int i = 0; i < f->n_methods; i++)
        for (int k = 0; k < n_k; k++) {
            const struct kvr_contender *c = &r->who[who[i]];
            const struct kvr_objective *ob = &r->objective[k];
            double *x = &by_prompt[(size_t)(i * n_k + k) * (size_t)f->n_prompts];
            int n = ob->noisy ? c->n_seeds[ob->column] : 0;

            value[i * n_k + k] = c->v[k] * ob->better;
            for (int p = 0; p < f->n_prompts; p++)
                x[p] = NAN;
            memcpy(scratch, samples(r, c, k), (size_t)n * sizeof *scratch);
            n = kvr_nest(scratch, n, KVR_PER_PROMPT);
            for (int s = 0; s < n; s++)
                x[scratch[s].prompt - 1] = scratch[s].x * ob->better;
        }
}

/* Computes front membership (kvr_front_membership()) for the contenders that have the settings of
 * contender `first` and a value in every objective. */
static enum kvr_status membership(struct kvr_race *r, int first)
{
    const size_t n = (size_t)r->n * (size_t)r->n_objectives;
    double margin[KVR_OBJECTIVES_MAX];
    double *value = calloc(n, sizeof *value), *p = calloc((size_t)r->n, sizeof *p);
    double *by_prompt = calloc(n * (size_t)r->n_prompts, sizeof *by_prompt);
    struct kvr_sample *scratch = calloc((size_t)r->rows->n_rows, sizeof *scratch);
    int *who = calloc((size_t)r->n, sizeof *who);
    struct kvr_front f = { .n_objectives = r->n_objectives,
                           .n_prompts = r->n_prompts,
                           .value = value,
                           .by_prompt = by_prompt,
                           .margin = margin };
    enum kvr_status st = KVR_OK;

    if (value && p && by_prompt && scratch && who) {
        for (int k = 0; k < r->n_objectives; k++)
            margin[k] = r->objective[k].margin;
        for (int i = 0; i < r->n; i++)
            if (r->who[i].complete && same_settings(&r->who[i], &r->who[first]))
                who[f.n_methods++] = i;
        fill(r, &f, who, value, by_prompt, scratch);
        st = kvr_front_membership(&f, 0, p);
        for (int i = 0; st == KVR_OK && i < f.n_methods; i++)
            r->who[who[i]].p_front = p[i];
    } else {
        st = kvr_fail(KVR_ENOMEM, "pareto: out of memory while allocating %d methods", r->n);
    }
    free(value);
    free(p);
    free(by_prompt);
    free(scratch);
    free(who);
    return st;
}

enum kvr_status kvr_race_judge(struct kvr_race *r)
{
    count_rivals(r);
    KVR_TRY(compare_all(r));
    name_one(r);
    for (int i = 0; r->rows && !r->o->exact && r->n_prompts > 1 && i < r->n; i++)
        if (r->who[i].complete && isnan(r->who[i].p_front))
            KVR_TRY(membership(r, i));
    return KVR_OK;
}
