/* pareto.c - see pareto.h. */
#include "harness/report/pareto.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/opts.h"
#include "harness/report/published.h"
#include "harness/stats/stats.h"
#include "harness/store/views.h"

enum { MAX_OBJECTIVES = 8, SQL_MAX = 8192 };

const struct kvr_frontier kvr_frontiers[] = {
    { "balanced", "balanced practical",
      "ssim:max,lpips:min,drift_last:max,compression:max,runtime_s:min,peak_bytes:min" },
    { "compression", "quality-preserving compression",
      "compression:max,ssim:max,lpips:min,drift_last:max" },
    { "systems", "systems efficiency", "runtime_s:min,peak_bytes:min,compression:max" },
    { "quality", "quality first", "ssim:max,lpips:min,drift_last:max,runtime_s:min" },
    { NULL, NULL, NULL },
};

/* How the cells of a method become one number. */
enum pool { MEAN, HARMONIC, HIGHEST, MIDDLE };

/* What cells_wide has; everything else is a metric. */
static const struct {
    const char *name;
    enum pool pool;
} known[] = {
    { "compression", HARMONIC },
    { "resident_compression", HARMONIC },
    { "nominal_bytes", MEAN },
    { "resident_bytes", MEAN },
    { "peak_bytes", HIGHEST },
    { "host_peak_bytes", HIGHEST },
    { "runtime_s", MIDDLE },
    { "psnr_db", MEAN },
    { "ssim", MEAN },
};
enum { N_KNOWN = sizeof known / sizeof known[0] };

struct objective {
    char name[64];
    const char *printed; /* its column in the published tables */
    int better;          /* +1, -1 */
    enum pool pool;
    bool is_column; /* of cells_wide */
    int column;     /* which of the objectives that were asked for */
};

struct contender {
    const char *method, *settings; /* borrowed from the rows */
    bool baseline, complete, front;
    double v[MAX_OBJECTIVES];
    int from, to; /* its rows */
    int by, n_by; /* who dominates it: one, best on the front, and how many */
};

struct race {
    const struct kvr_pareto_options *o;
    struct objective objective[MAX_OBJECTIVES];
    int n_objectives;
    char left_out[256]; /* objectives that nobody has */
    struct kvr_table *rows;
    struct kvr_published published;
    struct contender *who;
    int n;
    signed char *gain; /* [n, n, n_objectives]: +1 the first is better than the second, -1 worse */
};

/* ------------------------------------------------------------- objectives */

static enum kvr_status parse_one(struct race *r, const char *text, size_t n)
{
    struct objective *ob = &r->objective[r->n_objectives];
    const char *colon = memchr(text, ':', n);
    size_t len = colon ? (size_t)(colon - text) : n;

    if (r->n_objectives == MAX_OBJECTIVES)
        return kvr_fail(KVR_EINVAL, "objectives: more than %d", MAX_OBJECTIVES);
    if (!colon || len == 0 || len >= sizeof ob->name ||
        (strncmp(colon + 1, "max", n - len - 1) != 0 &&
         strncmp(colon + 1, "min", n - len - 1) != 0) ||
        n - len - 1 != 3)
        return kvr_fail(KVR_EINVAL, "objective '%.*s': need NAME:max or NAME:min", (int)n, text);
    *ob = (struct objective){ .better = colon[2] == 'a' ? +1 : -1, .pool = MEAN };
    memcpy(ob->name, text, len);
    if (ob->name[strspn(ob->name, "abcdefghijklmnopqrstuvwxyz0123456789_.")])
        return kvr_fail(KVR_EINVAL, "objective '%s': a name has a-z, 0-9, '_' and '.'", ob->name);
    for (int i = 0; i < N_KNOWN; i++)
        if (strcmp(known[i].name, ob->name) == 0) {
            ob->is_column = true;
            ob->pool = known[i].pool;
        }
    ob->printed = strcmp(ob->name, "peak_bytes") == 0 ? "peak_vram_gb" : ob->name;
    ob->column = r->n_objectives++;
    return KVR_OK;
}

static enum kvr_status parse_objectives(struct race *r, const char *text)
{
    for (const struct kvr_frontier *f = kvr_frontiers; f->name; f++)
        if (strcmp(f->name, text) == 0)
            text = f->objectives;
    while (*text) {
        size_t n = strcspn(text, ",");

        KVR_TRY(parse_one(r, text, n));
        text += n + (text[n] == ',');
    }
    return r->n_objectives ? KVR_OK : kvr_fail(KVR_EINVAL, "no objectives");
}

/* ------------------------------------------------------------- contenders */

static enum kvr_status query_cells(struct race *r)
{
    char sql[SQL_MAX];
    size_t n;

    n = (size_t)snprintf(
        sql, sizeof sql,
        "WITH s AS (SELECT method, {group}, machine FROM summary WHERE (%s))\n"
        "SELECT w.method, w.is_baseline, w.settings || ', ' || w.machine AS settings,\n"
        "  w.suite || '/' || w.prompt_id || '/' || w.seed || '/' || w.repeat AS unit",
        r->o->where ? r->o->where : "1");
    for (int i = 0; i < r->n_objectives && n < sizeof sql; i++) {
        const struct objective *ob = &r->objective[i];

        n += (size_t)snprintf(sql + n, sizeof sql - n,
                              ob->is_column
                                  ? ",\n  w.%1$s AS o%2$d"
                                  : ",\n  " KVR_SQL_SCORE("w", "value", "%1$s") " AS o%2$d",
                              ob->name, i);
    }
    if (n < sizeof sql)
        n += (size_t)snprintf(sql + n, sizeof sql - n,
                              "\nFROM cells_wide w JOIN s USING(method, {group}, machine)\n"
                              "WHERE w.outcome = 'OK' AND w.run_kind = 'bench'\n"
                              "ORDER BY settings, w.is_baseline DESC, w.method, unit");
    if (n >= sizeof sql)
        return kvr_fail(KVR_EINVAL, "pareto: the condition is too long");
    return kvr_table_query(&r->rows, r->o->db_path, sql, NULL);
}

enum { FIRST_OBJECTIVE = 4 }; /* column of the rows */

/* One number of the cells x [n]. */
static double pool(const double *x, int n, enum pool how)
{
    double v = n ? x[0] : NAN;

    switch (how) {
    case HIGHEST:
        for (int i = 1; i < n; i++)
            v = fmax(v, x[i]);
        return v;
    case HARMONIC: /* of ratios with equal numerators: the ratio of the sums */
        v = 0.0;
        for (int i = 0; i < n; i++)
            v += 1.0 / x[i];
        return n ? n / v : NAN;
    case MIDDLE:
        return kvr_median(x, n);
    case MEAN:
        break;
    }
    return kvr_mean(x, n);
}

/* The cells of rows [from, to) are one contender's. */
static void add_contender(struct race *r, int from, int to, double *x)
{
    struct contender *c = &r->who[r->n++];

    c->method = kvr_table_text(r->rows, from, 0);
    c->settings = kvr_table_text(r->rows, from, 2);
    c->baseline = kvr_table_number(r->rows, from, 1) == 1.0;
    c->from = from;
    c->to = to;
    for (int k = 0; k < r->n_objectives; k++) {
        int n = 0;

        for (int i = from; i < to; i++) {
            x[n] = kvr_table_number(r->rows, i, FIRST_OBJECTIVE + r->objective[k].column);
            n += isfinite(x[n]);
        }
        c->v[k] = pool(x, n, r->objective[k].pool);
    }
}

static enum kvr_status contenders_of_db(struct race *r)
{
    double *x;
    enum kvr_status st = KVR_OK;

    KVR_TRY(query_cells(r));
    x = calloc((size_t)r->rows->n_rows + 1, sizeof *x);
    r->who = calloc((size_t)r->rows->n_rows + 1, sizeof *r->who);
    if (!x || !r->who)
        st = kvr_fail(KVR_ENOMEM, "pareto: no memory");
    for (int from = 0, to; st == KVR_OK && from < r->rows->n_rows; from = to) {
        for (to = from + 1; to < r->rows->n_rows; to++)
            if (strcmp(kvr_table_text(r->rows, from, 0), kvr_table_text(r->rows, to, 0)) != 0 ||
                strcmp(kvr_table_text(r->rows, from, 2), kvr_table_text(r->rows, to, 2)) != 0)
                break;
        add_contender(r, from, to, x);
    }
    free(x);
    return st;
}

static enum kvr_status contenders_of_paper(struct race *r)
{
    char name[64];

    snprintf(name, sizeof name, "kvquant33_%.32s", r->o->published);
    KVR_TRY(kvr_published_read(&r->published, name));
    r->who = calloc((size_t)r->published.n_rows + 1, sizeof *r->who);
    if (!r->who)
        return kvr_fail(KVR_ENOMEM, "pareto: no memory");
    for (int i = 0; i < r->published.n_rows; i++) {
        struct contender *c = &r->who[r->n++];
        double rounding;

        c->method = kvr_published_cell(&r->published, i, "method");
        c->settings = "as published";
        c->baseline = strcmp(c->method, "BF16") == 0;
        for (int k = 0; k < r->n_objectives; k++)
            if (!kvr_published_number(kvr_published_cell(&r->published, i, r->objective[k].printed),
                                      &c->v[k], &rounding))
                c->v[k] = NAN;
    }
    return KVR_OK;
}

/* Objectives that no contender has a value for cannot be judged: they leave the race, by name. */
static enum kvr_status drop_empty(struct race *r)
{
    for (int k = 0; k < r->n_objectives; k++) {
        size_t n = strlen(r->left_out);
        int have = 0;

        for (int i = 0; i < r->n; i++)
            have += isfinite(r->who[i].v[k]);
        if (have)
            continue;
        snprintf(r->left_out + n, sizeof r->left_out - n, "%s%s", n ? ", " : "",
                 r->objective[k].name);
        r->n_objectives--;
        for (int j = k; j < r->n_objectives; j++)
            r->objective[j] = r->objective[j + 1];
        for (int i = 0; i < r->n; i++)
            for (int j = k; j < r->n_objectives; j++)
                r->who[i].v[j] = r->who[i].v[j + 1];
        k--;
    }
    if (r->n == 0)
        return kvr_fail(KVR_ENOTFOUND, "pareto: no finished cells%s%s",
                        r->o->where ? " where " : "", r->o->where ? r->o->where : "");
    if (r->n_objectives == 0)
        return kvr_fail(KVR_ENOTFOUND, "pareto: nobody has a value of %s", r->left_out);
    return KVR_OK;
}

/* ------------------------------------------------------------- the front */

/* Differences a - b over the cells that both have; how many. */
static int differences(const struct race *r, const struct contender *a, const struct contender *b,
                       int column, double *d)
{
    int n = 0;

    for (int i = a->from, j = b->from; i < a->to && j < b->to;) {
        int s = strcmp(kvr_table_text(r->rows, i, 3), kvr_table_text(r->rows, j, 3));

        if (s == 0) {
            d[n] = kvr_table_number(r->rows, i, FIRST_OBJECTIVE + column) -
                   kvr_table_number(r->rows, j, FIRST_OBJECTIVE + column);
            n += isfinite(d[n]);
        }
        i += s <= 0;
        j += s >= 0;
    }
    return n;
}

/* Does the interval of the mean of d [n] keep off zero? */
static bool is_real(const double *d, int n)
{
    struct kvr_interval ci;
    double lo = INFINITY, hi = -INFINITY;

    for (int i = 0; i < n; i++) {
        lo = fmin(lo, d[i]);
        hi = fmax(hi, d[i]);
    }
    if (lo > 0.0 || hi < 0.0) /* so is every resample's mean */
        return true;
    if (fabs(kvr_mean(d, n)) < kvr_standard_error(d, n)) /* never: saves most bootstraps */
        return false;
    return kvr_mean_interval(d, n, 0.95, &ci) == KVR_OK && (ci.lo > 0.0 || ci.hi < 0.0);
}

/* +1: a is better than b, -1: worse, 0: cannot be told apart. Bytes are not noisy. */
static signed char compare(const struct race *r, const struct contender *a,
                           const struct contender *b, int k, double *d)
{
    const struct objective *ob = &r->objective[k];
    double gain = (a->v[k] - b->v[k]) * ob->better;
    int n;

    if (!(fabs(gain) > 1e-9))
        return 0;
    if (!r->o->exact && r->rows && (ob->pool == MEAN || ob->pool == MIDDLE)) {
        n = differences(r, a, b, ob->column, d);
        if (n > 1 && !is_real(d, n))
            return 0;
    }
    return gain > 0.0 ? 1 : -1;
}

static enum kvr_status compare_all(struct race *r)
{
    double *d = calloc(r->rows ? (size_t)r->rows->n_rows + 1 : 1, sizeof *d);

    r->gain = calloc((size_t)r->n * (size_t)r->n * (size_t)r->n_objectives, 1);
    if (!d || !r->gain) {
        free(d);
        return kvr_fail(KVR_ENOMEM, "pareto: no memory for %d methods", r->n);
    }
    for (int i = 0; i < r->n; i++)
        for (int j = i + 1; j < r->n; j++)
            for (int k = 0; k < r->n_objectives; k++) {
                signed char g = compare(r, &r->who[i], &r->who[j], k, d);

                r->gain[(i * r->n + j) * r->n_objectives + k] = g;
                r->gain[(j * r->n + i) * r->n_objectives + k] = (signed char)-g;
            }
    free(d);
    return KVR_OK;
}

static bool dominates(const struct race *r, int i, int j)
{
    const struct contender *a = &r->who[i], *b = &r->who[j];
    const signed char *gain = &r->gain[(i * r->n + j) * r->n_objectives];
    bool better = false;

    if (!a->complete || !b->complete || strcmp(a->settings, b->settings) != 0)
        return false;
    for (int k = 0; k < r->n_objectives; k++) {
        if (gain[k] < 0)
            return false;
        better = better || gain[k] > 0;
    }
    return better;
}

static void judge(struct race *r)
{
    for (int i = 0; i < r->n; i++) {
        r->who[i].complete = true;
        for (int k = 0; k < r->n_objectives; k++)
            r->who[i].complete = r->who[i].complete && isfinite(r->who[i].v[k]);
    }
    for (int i = 0; i < r->n; i++) {
        r->who[i].by = -1;
        for (int j = 0; j < r->n; j++)
            r->who[i].n_by += dominates(r, j, i);
        r->who[i].front = r->who[i].complete && r->who[i].n_by == 0;
    }
    for (int i = 0; i < r->n; i++)
        for (int j = 0; j < r->n; j++)
            if (dominates(r, j, i) &&
                (r->who[i].by < 0 || (r->who[j].front && !r->who[r->who[i].by].front)))
                r->who[i].by = j;
}

/* The front first, by the first objective; then the others the same way; the incomplete last. */
static int *ordered(const struct race *r)
{
    int *order = calloc((size_t)r->n + 1, sizeof *order);

    for (int i = 0; order && i < r->n; i++) {
        int at = i;

        while (at > 0) {
            const struct contender *a = &r->who[order[at - 1]], *b = &r->who[i];
            int ra = a->front ? 0 : a->complete ? 1 : 2, rb = b->front ? 0 : b->complete ? 1 : 2;
            int s = strcmp(a->settings, b->settings);

            if (s < 0 ||
                (s == 0 &&
                 (ra < rb || (ra == rb && !((b->v[0] - a->v[0]) * r->objective[0].better > 0)))))
                break;
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    return order;
}

/* ------------------------------------------------------------- the table */

static struct kvr_value text_value(const char *s)
{
    return *s ? (struct kvr_value){ .type = KVR_VALUE_TEXT, .text = s, .n_bytes = (int)strlen(s) }
              : (struct kvr_value){ .type = KVR_VALUE_NULL };
}

static void explain(const struct race *r, const struct contender *b, char *why, size_t size)
{
    const struct contender *a = b->by < 0 ? NULL : &r->who[b->by];
    size_t n = 0;

    why[0] = '\0';
    for (int k = 0; a && k < r->n_objectives && n < size; k++)
        if ((a->v[k] - b->v[k]) * r->objective[k].better > 1e-9)
            n += (size_t)snprintf(why + n, size - n, "%s%s %.4g instead of %.4g", n ? ", " : "",
                                  r->objective[k].name, a->v[k], b->v[k]);
    if (a && b->n_by > 1 && n < size)
        snprintf(why + n, size - n, "; and by %d more", b->n_by - 1);
}

static enum kvr_status add_row(const struct race *r, const struct contender *c, struct kvr_table *t)
{
    struct kvr_value v[MAX_OBJECTIVES + 5];
    char why[512];
    int n = 0;

    explain(r, c, why, sizeof why);
    v[n++] = text_value(c->method);
    v[n++] = text_value(c->front ? "front" : c->complete ? "dominated" : "incomplete");
    for (int k = 0; k < r->n_objectives; k++)
        v[n++] = isfinite(c->v[k]) ? (struct kvr_value){ .type = KVR_VALUE_REAL, .r = c->v[k] }
                                   : (struct kvr_value){ .type = KVR_VALUE_NULL };
    v[n++] = text_value(c->by < 0 ? "" : r->who[c->by].method);
    v[n++] = text_value(why);
    v[n++] = text_value(c->settings);
    return kvr_table_add(t, v);
}

static enum kvr_status make_table(const struct race *r, struct kvr_table **out)
{
    static const char *const fold[] = { "settings", NULL };
    struct kvr_column columns[MAX_OBJECTIVES + 5] = { { .name = "method", .digits = -1 },
                                                      { .name = "verdict", .digits = -1 } };
    int n = 2, n_front = 0, *order;
    char note[512];
    enum kvr_status st;

    for (int k = 0; k < r->n_objectives; k++)
        columns[n++] = (struct kvr_column){ .name = r->objective[k].name,
                                            .unit = r->objective[k].better > 0 ? "(max)" : "(min)",
                                            .digits = -1 };
    columns[n++] = (struct kvr_column){ .name = "dominated_by", .digits = -1 };
    columns[n++] = (struct kvr_column){ .name = "why", .digits = -1 };
    columns[n++] = (struct kvr_column){ .name = "settings", .digits = -1 };
    KVR_TRY(kvr_table_open(out, n, columns));
    order = ordered(r);
    st = order ? KVR_OK : kvr_fail(KVR_ENOMEM, "pareto: no memory");
    for (int i = 0; st == KVR_OK && i < r->n; i++) {
        n_front += r->who[order[i]].front;
        if (r->who[order[i]].front || !r->o->front_only)
            st = add_row(r, &r->who[order[i]], *out);
    }
    free(order);
    if (st != KVR_OK)
        return st;
    KVR_TRY(kvr_table_fold(*out, fold));
    snprintf(note, sizeof note, "%d of %d on the front%s%s%s", n_front, r->n,
             r->o->exact || r->o->published
                 ? ""
                 : "; differences over the prompts that may be noise are none",
             r->left_out[0] ? "; not measured, so left out: " : "", r->left_out);
    return kvr_table_note(*out, note);
}

enum kvr_status kvr_pareto(struct kvr_table **out, const struct kvr_pareto_options *o)
{
    struct race r = { .o = o };
    enum kvr_status st = parse_objectives(&r, o->objectives);

    *out = NULL;
    if (st == KVR_OK)
        st = o->published ? contenders_of_paper(&r) : contenders_of_db(&r);
    if (st == KVR_OK)
        st = drop_empty(&r);
    if (st == KVR_OK)
        st = compare_all(&r);
    if (st == KVR_OK) {
        judge(&r);
        st = make_table(&r, out);
    }
    if (st != KVR_OK)
        kvr_table_close(out);
    free(r.who);
    free(r.gain);
    kvr_table_close(&r.rows);
    kvr_published_free(&r.published);
    return st;
}
