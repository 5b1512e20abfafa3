/* variance.c - see variance.h. */
#include "harness/report/claims/variance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/table/chaos.h"
#include "harness/report/claims/claims.h"
#include "harness/report/stats/stats.h"
#include "harness/report/table/values.h"
#include "harness/store/statement.h"

KVR_STATEMENT(claims_variance);

enum { METHOD, TEACHER, PLACE, VALUE, PROMPT, FLOOR, LOWEST }; /* columns */
enum { PAIRING, TWO_VIDEOS, MOTION, COLOUR, BY_TEACHER, BY_FLOOR, N_WAYS };

static double variance(const double *x, int n)
{
    const double error = kvr_standard_error(x, n);

    return error * error * n;
}

double kvr_saved_by_strata(const double *x, const int *stratum, int n)
{
    const double all = variance(x, n);
    double inside = 0;
    int strata = 0;

    for (int i = 0; i < n; i++) {
        double sum = 0, square = 0;
        int count = 0, first = 1;

        for (int k = 0; k < n; k++)
            if (stratum[k] == stratum[i]) {
                first = first && k >= i;
                sum += x[k];
                count++;
            }
        for (int k = 0; first && k < n; k++)
            if (stratum[k] == stratum[i])
                square += (x[k] - sum / count) * (x[k] - sum / count);
        inside += square;
        strata += first;
    }
    return n - strata < 6 || !(all > 0) ? NAN : 1 - inside / (n - strata) / all;
}

double kvr_saved_by_control(const double *x, const double *y, int n)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0, r2;
    int count = 0;

    for (int i = 0; i < n; i++)
        if (isfinite(x[i]) && isfinite(y[i])) {
            mx += x[i];
            my += y[i];
            count++;
        }
    mx /= count;
    my /= count;
    for (int i = 0; i < n; i++)
        if (isfinite(x[i]) && isfinite(y[i])) {
            xx += (x[i] - mx) * (x[i] - mx);
            yy += (y[i] - my) * (y[i] - my);
            xy += (x[i] - mx) * (y[i] - my);
        }
    if (count < 8 || !(xx > 0) || !(yy > 0))
        return NAN;
    r2 = xy * xy / (xx * yy);
    return fmax(0, r2 - (1 - r2) / (count - 2));
}

/* --- samples ---------------------------------------------------------------------------- */

/* Values of one claim, one per prompt [n]. */
struct samples {
    int n;
    /* a, b, d [n]: the metric of the claim's methods `of` and `than`, and the difference a - b.
     * teacher [n]: the same difference with teacher forcing. floor [n]: the prompt's chaos floor,
     * the distance of BF16 draws (reruns with slightly perturbed noise) from BF16. lowest [n]: the
     * lowest PSNR of these draws in dB. */
    double *a, *b, *d, *teacher, *floor, *lowest;
    int *motion, *colour;
};

static enum kvr_status open_samples(struct samples *s, int n)
{
    const size_t size = (size_t)n + 1;
    double *x = calloc(6 * size, sizeof *x);
    int *k = calloc(2 * size, sizeof *k);

    *s = (struct samples){ .a = x, .motion = k };
    if (!x || !k) {
        free(x);
        free(k);
        return kvr_fail(KVR_ENOMEM, "variance: out of memory");
    }
    s->b = x + size;
    s->d = x + 2 * size;
    s->teacher = x + 3 * size;
    s->floor = x + 4 * size;
    s->lowest = x + 5 * size;
    s->colour = k + size;
    return KVR_OK;
}

static void close_samples(struct samples *s)
{
    free(s->a);
    free(s->motion);
}

/* Returns the row with a method's value for a prompt, or -1. */
static int find(const struct kvr_table *t, const char *method, bool teacher, double place)
{
    for (int i = 0; i < t->n_rows; i++)
        if (kvr_table_number(t, i, PLACE) == place && kvr_table_number(t, i, TEACHER) == teacher &&
            strcmp(kvr_table_text(t, i, METHOD), method) == 0)
            return i;
    return -1;
}

/* Returns a hash of the words `first` to `last` of a prompt, counted from 0. Prompts with equal
 * hashes are in the same stratum. */
static int words(const char *text, int first, int last)
{
    unsigned hash = 5381;
    int at = 0;

    for (; *text && at <= last; text++) {
        at += *text == ' ';
        if (at >= first && at <= last)
            hash = hash * 33 + (unsigned char)*text;
    }
    return (int)(hash & 0x7fffffff);
}

static double value_at(const struct kvr_table *t, int row)
{
    return row < 0 ? NAN : kvr_table_number(t, row, VALUE);
}

static void fill(struct samples *s, const struct kvr_table *t, const struct kvr_claim *c)
{
    for (int i = 0; i < t->n_rows; i++) {
        const double place = kvr_table_number(t, i, PLACE);
        const char *prompt = kvr_table_text(t, i, PROMPT);
        int b;

        if (strcmp(kvr_table_text(t, i, METHOD), c->of) != 0 ||
            kvr_table_number(t, i, TEACHER) == 1)
            continue;
        b = find(t, c->than, false, place);
        if (b < 0)
            continue;
        s->a[s->n] = kvr_table_number(t, i, VALUE);
        s->b[s->n] = value_at(t, b);
        s->d[s->n] = s->a[s->n] - s->b[s->n];
        s->teacher[s->n] =
            value_at(t, find(t, c->of, true, place)) - value_at(t, find(t, c->than, true, place));
        s->floor[s->n] = kvr_table_number(t, i, FLOOR);
        s->lowest[s->n] = kvr_table_number(t, i, LOWEST);
        s->colour[s->n] = words(prompt, 2, 2);
        s->motion[s->n++] = words(prompt, 4, 5);
    }
}

/* Removes prompts for which a BF16 rerun with slightly perturbed noise gives a clearly different
 * video (chaos.h). */
static void keep_one_video(struct samples *s)
{
    const double least = strtod(KVR_TWO_VIDEOS_DB, NULL);
    int n = 0;

    for (int i = 0; i < s->n; i++) {
        if (s->lowest[i] < least)
            continue;
        s->a[n] = s->a[i];
        s->b[n] = s->b[i];
        s->d[n] = s->d[i];
        s->teacher[n] = s->teacher[i];
        s->floor[n] = s->floor[i];
        s->colour[n] = s->colour[i];
        s->motion[n++] = s->motion[i];
    }
    s->n = n;
}

static void variance_ratios(struct samples *s, double *ways)
{
    const double before = variance(s->d, s->n);

    keep_one_video(s);
    ways[TWO_VIDEOS] = before > 0 && s->n > 1 ? 1 - variance(s->d, s->n) / before : NAN;
    ways[PAIRING] = 1 - variance(s->d, s->n) / (variance(s->a, s->n) + variance(s->b, s->n));
    ways[MOTION] = kvr_saved_by_strata(s->d, s->motion, s->n);
    ways[COLOUR] = kvr_saved_by_strata(s->d, s->colour, s->n);
    ways[BY_TEACHER] = kvr_saved_by_control(s->d, s->teacher, s->n);
    ways[BY_FLOOR] = kvr_saved_by_control(s->d, s->floor, s->n);
}

/* --- the table -------------------------------------------------------------------------- */

static enum kvr_status add(struct kvr_table *t, const char *id, int n, const double *ways)
{
    struct kvr_value row[2 + N_WAYS] = { kvr_value_text(id),
                                         n ? kvr_value_count(n) : kvr_value_none() };

    for (int i = 0; i < N_WAYS; i++)
        row[2 + i] = kvr_value_number(ways[i]);
    return kvr_table_add(t, row);
}

static enum kvr_status add_claim(struct kvr_table *out, const struct kvr_claim *c,
                                 const struct kvr_table *values, double all[][N_WAYS], int *n_all)
{
    struct samples s;
    double ways[N_WAYS];

    KVR_TRY(open_samples(&s, values->n_rows));
    fill(&s, values, c);
    if (s.n < KVR_SEQUENCE_MIN) {
        close_samples(&s);
        return KVR_OK;
    }
    variance_ratios(&s, ways);
    memcpy(all[(*n_all)++], ways, sizeof ways);
    close_samples(&s);
    return add(out, c->id, c->s.n, ways);
}

static enum kvr_status add_median(struct kvr_table *out, double all[][N_WAYS], int n)
{
    double ways[N_WAYS], *x = calloc((size_t)n + 1, sizeof *x);

    if (!x)
        return kvr_fail(KVR_ENOMEM, "variance: out of memory");
    for (int w = 0; w < N_WAYS; w++) {
        int count = 0;

        for (int i = 0; i < n; i++)
            if (isfinite(all[i][w]))
                x[count++] = all[i][w];
        ways[w] = kvr_median(x, count);
    }
    free(x);
    return n ? add(out, "median", 0, ways) : KVR_OK;
}

static enum kvr_status add_metric(struct kvr_table *out, const struct kvr_ledger *l, const char *db,
                                  const char *metric, double all[][N_WAYS], int *n_all)
{
    struct kvr_table *values;
    char value[64];
    enum kvr_status st = KVR_OK;

    snprintf(value, sizeof value, "{w.score:%s}", metric);
    KVR_TRY(kvr_table_query_with(&values, db, kvr_statement_claims_variance,
                                 KVR_WITH("metric", metric, "value", value, "model", "nano"),
                                 NULL));
    for (int i = 0; st == KVR_OK && i < l->n_claims; i++) {
        const struct kvr_claim *c = &l->claim[i];

        if (c->tested && c->relation <= KVR_CLAIM_ALIKE && strcmp(c->metric, metric) == 0 &&
            strcmp(c->kind, "bench") == 0 && !c->suite[0] && c->than[0])
            st = add_claim(out, c, values, all, n_all);
    }
    kvr_table_close(&values);
    return st;
}

enum kvr_status kvr_report_variance(struct kvr_table **out, const char *db_path)
{
    static const struct kvr_column columns[] = {
        { .name = "claim" },
        { .name = "n" },
        { .name = "pairing", .digits = 2 },
        { .name = "two_videos", .head = "two videos", .digits = 2 },
        { .name = "motion", .digits = 2 },
        { .name = "colour", .digits = 2 },
        { .name = "teacher", .digits = 2 },
        { .name = "floor", .digits = 2 },
    };
    struct kvr_ledger l = { 0 };
    double(*all)[N_WAYS] = NULL;
    int n_all = 0;
    enum kvr_status st;

    *out = NULL;
    KVR_TRY(kvr_claims(&l, NULL, db_path, &(struct kvr_claims_options){ 0 }));
    all = calloc(2 * (size_t)l.n_claims + 1, sizeof *all);
    st = all ? kvr_table_open(out, (int)(sizeof columns / sizeof *columns), columns)
             : kvr_fail(KVR_ENOMEM, "variance: out of memory");
    if (st == KVR_OK)
        st = add_metric(*out, &l, db_path, "ssim", all, &n_all);
    if (st == KVR_OK)
        st = add_metric(*out, &l, db_path, "psnr", all, &n_all);
    if (st == KVR_OK)
        st = add_median(*out, all, n_all);
    free(all);
    kvr_ledger_free(&l);
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}
