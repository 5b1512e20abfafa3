/* pareto_table.c - writes the verdicts as a table, with reasons. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/pareto/pareto_race.h"
#include "harness/report/stats/pairs.h"
#include "harness/report/table/values.h"

enum { N_COLUMNS_MAX = KVR_OBJECTIVES_MAX + 6 };

static int rank(const struct kvr_contender *c)
{
    return c->beyond >= 0 ? 3 : !c->complete ? 4 : c->n_by > 0 ? 2 : c->n_maybe > 0 ? 1 : 0;
}

static const char *const verdicts[] = { "front", "undecided", "dominated", "beyond", "incomplete" };

/* Returns the indices of the contenders in the order of the table's rows: by settings, then by
 * verdict in the order of verdicts[], then by the first objective, best first. The caller frees the
 * result. NULL: out of memory. */
static int *ordered(const struct kvr_race *r)
{
    int *order = calloc((size_t)r->n + 1, sizeof *order);

    for (int i = 0; order && i < r->n; i++) {
        int at = i;

        while (at > 0) {
            const struct kvr_contender *a = &r->who[order[at - 1]], *b = &r->who[i];
            int s = strcmp(a->settings, b->settings);

            if (s < 0 || (s == 0 && (rank(a) < rank(b) ||
                                     (rank(a) == rank(b) &&
                                      !((b->v[0] - a->v[0]) * r->objective[0].better > 0)))))
                break;
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    return order;
}

static void explain_dominated(const struct kvr_race *r, const struct kvr_contender *b, char *why,
                              size_t size)
{
    const struct kvr_contender *a = &r->who[b->by];
    bool first = true;
    size_t n = (size_t)snprintf(why, size, "%s has ", a->method);

    for (int k = 0; k < r->n_objectives && n < size; k++)
        if ((a->v[k] - b->v[k]) * r->objective[k].better > r->objective[k].margin + 1e-9) {
            n += (size_t)snprintf(why + n, size - n, "%s%s %.4g instead of %.4g", first ? "" : ", ",
                                  r->objective[k].name, a->v[k], b->v[k]);
            first = false;
        }
    if (b->n_by > 1 && n < size)
        snprintf(why + n, size - n, "; also dominated by %d more", b->n_by - 1);
}

/* Writes to `why` the name of a method that may dominate contender b. If the two methods share
 * fewer than KVR_PAIRS_MIN prompts, also writes how many more prompts a test of dominance needs. */
static enum kvr_status explain_undecided(const struct kvr_race *r, const struct kvr_contender *b,
                                         char *why, size_t size)
{
    const struct kvr_contender *a = &r->who[b->maybe];
    const size_t rows = (size_t)r->rows->n_rows + 1;
    struct kvr_sample *d = calloc(rows, sizeof *d);
    double *x = calloc(rows, sizeof *x);
    int least = KVR_PAIRS_MIN, n = 0;

    if (!d || !x) {
        free(d);
        free(x);
        return kvr_fail(KVR_ENOMEM, "pareto: out of memory");
    }
    for (int k = 0; k < r->n_objectives; k++)
        if (r->objective[k].noisy) {
            int pairs = kvr_race_differences(r, a, b, k, d, x);

            least = pairs < least ? pairs : least;
        }
    n = snprintf(why, size, "%s may dominate this method", a->method);
    if (least < KVR_PAIRS_MIN && n >= 0 && (size_t)n < size)
        n += snprintf(why + n, size - (size_t)n, ": %d more prompt%s needed", KVR_PAIRS_MIN - least,
                      KVR_PAIRS_MIN - least == 1 ? " is" : "s are");
    if (b->n_maybe > 1 && n >= 0 && (size_t)n < size)
        snprintf(why + n, size - (size_t)n, "; %d other method%s may, too", b->n_maybe - 1,
                 b->n_maybe == 2 ? "" : "s");
    free(d);
    free(x);
    return KVR_OK;
}

static void explain_beyond(const struct kvr_race *r, const struct kvr_contender *c, char *why,
                           size_t size)
{
    const struct kvr_bound *b = &r->bound[c->beyond];

    if (isfinite(c->bound_v[c->beyond]))
        snprintf(why, size, "%s %.4g, need at %s %.4g", b->name, c->bound_v[c->beyond],
                 b->better > 0 ? "least" : "most", b->limit);
    else
        snprintf(why, size, "%s was not measured; the bound is at %s %.4g", b->name,
                 b->better > 0 ? "least" : "most", b->limit);
}

static enum kvr_status add_row(const struct kvr_race *r, const struct kvr_contender *c,
                               struct kvr_table *t)
{
    struct kvr_value v[N_COLUMNS_MAX];
    char why[512] = "";
    int n = 0;

    if (c->beyond >= 0)
        explain_beyond(r, c, why, sizeof why);
    else if (c->by >= 0)
        explain_dominated(r, c, why, sizeof why);
    else if (c->maybe >= 0)
        KVR_TRY(explain_undecided(r, c, why, sizeof why));
    v[n++] = kvr_value_text_or_none(c->method);
    v[n++] = kvr_value_text_or_none(verdicts[rank(c)]);
    for (int k = 0; k < r->n_objectives; k++)
        v[n++] = kvr_value_number(c->v[k]);
    v[n++] = kvr_value_number(c->p_front);
    v[n++] = kvr_value_text_or_none(c->by < 0 ? "" : r->who[c->by].method);
    v[n++] = kvr_value_text_or_none(why);
    v[n++] = kvr_value_text_or_none(c->settings);
    return kvr_table_add(t, v);
}

static enum kvr_status add_note(const struct kvr_race *r, struct kvr_table *t)
{
    char note[1024];
    size_t n;
    int count[5] = { 0 };
    bool listed = false;

    for (int i = 0; i < r->n; i++)
        count[rank(&r->who[i])]++;
    n = (size_t)snprintf(note, sizeof note,
                         "of %d methods, on the Pareto front: %d, undecided: %d, dominated: %d",
                         r->n, count[0], count[1], count[2]);
    for (int i = 0; i < r->n_bounds && n < sizeof note; i++)
        n += (size_t)snprintf(note + n, sizeof note - n, "%s %s %s %.4g",
                              i ? "," : "; bounds:", r->bound[i].name,
                              r->bound[i].better > 0 ? "at least" : "at most", r->bound[i].limit);
    if (r->n_bounds && n < sizeof note)
        n += (size_t)snprintf(note + n, sizeof note - n, "; excluded, as outside the bounds: %d",
                              count[3]);
    if (r->rows && !r->o->exact && n < sizeof note)
        n += (size_t)snprintf(
            note + n, sizeof note - n,
            "; methods are compared by simultaneous 95 %% intervals over prompts; P(front): "
            "fraction of %d bootstrap resamples of the prompts in which the method is on the front",
            KVR_FRONT_RESAMPLES);
    for (int k = 0; k < r->n_objectives && n < sizeof note; k++)
        if (r->objective[k].margin > 0) {
            n += (size_t)snprintf(note + n, sizeof note - n, "%s %s %.3g%s",
                                  listed ? "," : "; margins:", r->objective[k].name,
                                  r->objective[k].margin,
                                  r->objective[k].chaos ? " (chaos floor)" : "");
            listed = true;
        }
    if (r->left_out[0] && n < sizeof note)
        snprintf(note + n, sizeof note - n, "; objectives omitted, not measured: %s", r->left_out);
    return kvr_table_note(t, note);
}

enum kvr_status kvr_race_table(const struct kvr_race *r, struct kvr_table **out)
{
    static const char *const fold[] = { "settings", NULL };
    struct kvr_column columns[N_COLUMNS_MAX] = { { .name = "method", .digits = -1 },
                                                 { .name = "verdict", .digits = -1 } };
    int n = 2, *order;
    enum kvr_status st;

    for (int k = 0; k < r->n_objectives; k++)
        columns[n++] =
            (struct kvr_column){ .name = r->objective[k].name,
                                 .unit = r->objective[k].better > 0 ? "(higher is better)"
                                                                    : "(lower is better)",
                                 .digits = -1 };
    columns[n++] = (struct kvr_column){ .name = "p_front", .head = "P(front)", .digits = 3 };
    columns[n++] = (struct kvr_column){ .name = "dominated_by", .digits = -1 };
    columns[n++] = (struct kvr_column){ .name = "why", .digits = -1 };
    columns[n++] = (struct kvr_column){ .name = "settings", .digits = -1 };
    KVR_TRY(kvr_table_open(out, n, columns));
    order = ordered(r);
    st = order ? KVR_OK : kvr_fail(KVR_ENOMEM, "pareto: out of memory");
    for (int i = 0; st == KVR_OK && i < r->n; i++)
        if (rank(&r->who[order[i]]) < 2 || !r->o->front_only)
            st = add_row(r, &r->who[order[i]], *out);
    free(order);
    if (st == KVR_OK)
        st = kvr_table_fold(*out, fold);
    return st == KVR_OK ? add_note(r, *out) : st;
}
