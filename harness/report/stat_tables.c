/* stat_tables.c - see stat_tables.h. */
#include "harness/report/stat_tables.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/claims/claims.h"
#include "harness/report/stats/nested.h"
#include "harness/report/stats/pairs.h"
#include "harness/report/ratios.h"
#include "harness/report/stats/stats.h"
#include "harness/report/table/values.h"
#include "methods/method.h"
#include "metrics/metric.h"

enum { MAX_METHODS = 1000, SQL_MAX = 4096 };

/* Columns that identify a seed. Cells of two methods form a pair if they agree in these columns.
 * Cells of one method that agree in these columns are repeats or draws (reruns with slightly
 * perturbed noise). */
#define UNIT "suite || '/' || prompt_id || '/' || seed || '/' || root_settings || '/' || machine"

static enum kvr_status query(struct kvr_table **t, const struct kvr_stat_options *o,
                             const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static enum kvr_status query(struct kvr_table **t, const struct kvr_stat_options *o,
                             const char *fmt, ...)
{
    char sql[SQL_MAX];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(sql, sizeof sql, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof sql)
        return kvr_fail(KVR_EINVAL,
                        "stats: the condition of --where is too long: it has %zu characters, about "
                        "%d are allowed",
                        o->where ? strlen(o->where) : 0, SQL_MAX / 2);
    return kvr_table_query(t, o->db, sql, NULL);
}

/* Returns the SQL condition that selects cells: the condition of --where, or the default. The
 * default excludes rollouts with teacher forcing, which are not comparable with free rollouts. */
static const char *condition(const struct kvr_stat_options *o)
{
    return !o->where ? "forcing = 'none'" : o->where;
}

enum kvr_status kvr_stat_one_machine(const struct kvr_stat_options *o)
{
    struct kvr_table *t;
    enum kvr_status st = KVR_OK;

    if (o->across_machines)
        return KVR_OK;
    KVR_TRY(query(&t, o,
                  "SELECT group_concat(machine, '; '), count(*) FROM (SELECT DISTINCT machine "
                  "FROM cells_wide WHERE outcome = 'OK' AND (%s))",
                  condition(o)));
    if (kvr_table_number(t, 0, 1) > 1)
        st = kvr_fail(KVR_EINVAL,
                      "stats: the cells were measured on different machines (%s); choose one with "
                      "--where \"machine = '...'\", or use --across-machines",
                      kvr_table_text(t, 0, 0));
    kvr_table_close(&t);
    return st;
}

/* --- pairs ------------------------------------------------------------------------------ */

static const char *const costs[] = { "runtime_s",       "peak_bytes",
                                     "resident_bytes",  "max_nominal_bytes",
                                     "nominal_bytes",   "max_resident_bytes",
                                     "host_peak_bytes", "identical_frames",
                                     "runtime_ratio",   NULL };
static const char *const gains[] = { "compression", "resident_compression", NULL };

static bool contains(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* Returns the metric that a name refers to by its part before the first dot, such as psnr for
 * psnr.last. */
static const struct kvr_metric *metric_of(const char *name)
{
    char base[64];

    snprintf(base, sizeof base, "%.*s", (int)strcspn(name, "."), name);
    return kvr_metric_find(base);
}

static bool is_score(const char *name)
{
    return metric_of(name) || strcmp(name, "latent_error") == 0;
}

/* Returns whether the metric compares a rollout with the BF16 rollout. The BF16 rollout equals
 * itself, so for BF16 only its draws (reruns with slightly perturbed noise) have a meaningful
 * value. */
static bool is_distance(const char *name)
{
    const struct kvr_metric *m = metric_of(name);

    return m && !m->alone && !m->truth;
}

/* Sets *out to the better direction of an external program's metric: +1 for higher, -1 for lower, 0
 * for an unknown metric. The sweep's YAML file gives the direction, and the option --better
 * overrides it. */
static enum kvr_status own_direction(const struct kvr_stat_options *o, int *out)
{
    struct kvr_table *t;
    enum kvr_status st = KVR_OK;
    int row;

    KVR_TRY(kvr_table_query(&t, o->db, "SELECT name, better FROM own_metrics", NULL));
    for (row = 0; row < t->n_rows; row++)
        if (strcmp(kvr_table_text(t, row, 0), o->metric) == 0)
            break;
    *out = 0;
    if (row < t->n_rows && isfinite(kvr_table_number(t, row, 1)))
        *out = kvr_table_number(t, row, 1) > 0 ? 1 : -1;
    else if (row < t->n_rows && !o->better)
        st = kvr_fail(KVR_EINVAL,
                      "stats: metric '%s' has no direction; set `better: higher` or `better: "
                      "lower` for its command in the sweep, or pass --better",
                      o->metric);
    if (row < t->n_rows && o->better)
        *out = o->better;
    kvr_table_close(&t);
    return st;
}

/* Fails if the metric is in the database but has no numeric value in any cell. The message has the
 * reason that one of the cells stores. */
static enum kvr_status fail_unless_known(const struct kvr_stat_options *o)
{
    struct kvr_table *t;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_table_query(&t, o->db,
                            "SELECT name, max(missing) FROM metric GROUP BY name HAVING "
                            "count(value) = 0 AND max(missing) <> ''",
                            NULL));
    for (int r = 0; r < t->n_rows && st == KVR_OK; r++)
        if (strcmp(kvr_table_text(t, r, 0), o->metric) == 0)
            st = kvr_fail(KVR_EINVAL, "stats: metric '%s' has no numeric value: %s", o->metric,
                          kvr_table_text(t, r, 1));
    kvr_table_close(&t);
    return st;
}

/* Sets *out to +1 if higher values of the metric are better, otherwise to -1. */
static enum kvr_status direction(const struct kvr_stat_options *o, int *out)
{
    const char *metric = o->metric;
    const struct kvr_metric *m = metric_of(metric);

    *out = m ? m->direction : contains(metric, gains) ? 1 : -1;
    if (is_score(metric) || contains(metric, gains) || contains(metric, costs))
        return KVR_OK;
    KVR_TRY(own_direction(o, out));
    if (*out)
        return KVR_OK;
    KVR_TRY(fail_unless_known(o));
    return kvr_fail(
        KVR_EINVAL,
        "stats: '%s' is neither a metric (`kvreel list metrics`) nor one of runtime_s, "
        "runtime_ratio, peak_bytes, host_peak_bytes, resident_bytes, max_resident_bytes, "
        "nominal_bytes, max_nominal_bytes, identical_frames, compression, resident_compression",
        metric);
}

enum { NAME, PROMPT, SEED, VALUE, CONTROL };

/* Reads one row per cell, sorted by method. Cells of one seed at different settings count as
 * different seeds. Cells of one prompt at different settings count as the same prompt. */
static enum kvr_status read_values(struct kvr_table **t, const struct kvr_stat_options *o)
{
    const char *verdict = strcmp(o->metric, "runtime_s") == 0 ? "runtime_s IS NOT NULL" : "1";
#define IDS "dense_rank() OVER (ORDER BY suite, prompt_id), dense_rank() OVER (ORDER BY " UNIT ")"

    if (strspn(o->metric, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") !=
        strlen(o->metric))
        return kvr_fail(
            KVR_EINVAL,
            "stats: metric '%s': a name may contain only letters, digits, '_', '.' and '-'",
            o->metric);
    if (!contains(o->metric, gains) && !contains(o->metric, costs))
        return query(t, o,
                     "WITH v AS (SELECT *, {cells_wide.score:%1$s} AS value FROM cells_wide WHERE "
                     "outcome = 'OK' AND run_kind = 'bench' AND "
                     "(%2$s)) SELECT method, " IDS ", value, is_control FROM v "
                     "WHERE value IS NOT NULL "
                     "ORDER BY is_baseline OR is_control DESC, 1",
                     o->metric, condition(o));
    return query(
        t, o,
        "SELECT method, " IDS ", %s, 0 FROM cells_wide WHERE outcome = 'OK' AND %s AND "
        "run_kind = 'bench' AND %s IS NOT NULL AND (%s) ORDER BY is_baseline OR is_control DESC, 1",
        o->metric, verdict, o->metric, condition(o));
}

struct method {
    const char *name;
    struct kvr_sample *s; /* [n_seeds], one sample per seed, part of `s` of struct race */
    /* number of seeds; number of independent units, that is, prompts or seeds (o->unit) */
    int n_seeds, n;
    double mean, se, score;
    struct kvr_comparison c; /* comparison with method `against` */
    /* sequential test of the gain over method `against`, one value per unit */
    struct kvr_sequence gain;
    double log_e;
    bool rejected;
    double holm; /* c.p, Holm-adjusted over all methods of the table */
    /* 1 - one-sided p-value (p_above in pairs.h) for being better than the table's next row */
    double p_next;
    int group;
    /* standard deviation over repeats and reruns of the same prompt and seed; NaN: there are
     * none */
    double jitter;
    /* comparison with the BF16 draws (reruns with slightly perturbed noise) */
    struct kvr_comparison chaos;
    double chaos_holm;
};

struct race {
    const struct kvr_stat_options *o;
    int sign; /* +1: higher values of the metric are better; -1: lower values are better */
    struct method *m;
    int n;
    struct kvr_sample *s, *d; /* samples of all methods; buffer for paired differences */
    double *x;                /* buffer for values */
    double threshold; /* natural logarithm of the e-value that a verdict requires (sequence.h) */
    bool distance;    /* whether the metric compares with the BF16 rollout */
    bool control;     /* whether BF16 has draws (reruns with slightly perturbed noise) */
};

/* Splits rows by method. If the metric compares with the BF16 rollout, only draws (reruns with
 * slightly perturbed noise) count as BF16's cells, if there are any. Their mean metric is the chaos
 * floor. */
static void find_methods(struct race *r, const struct kvr_table *t)
{
    bool is_control;

    for (int i = 0; i < t->n_rows; i++)
        r->control = r->control || kvr_table_number(t, i, CONTROL) == 1.0;
    for (int i = 0; i < t->n_rows; i++) {
        const char *name = kvr_table_text(t, i, NAME);

        if (r->n == 0 || strcmp(r->m[r->n - 1].name, name) != 0) {
            if (r->n == MAX_METHODS)
                break;
            r->m[r->n++] = (struct method){ .name = name, .s = &r->s[i] };
        }
        is_control = kvr_table_number(t, i, CONTROL) == 1.0;
        r->s[i] = (struct kvr_sample){ .prompt = (int)kvr_table_number(t, i, PROMPT),
                                       .seed = (int)kvr_table_number(t, i, SEED),
                                       .x = kvr_table_number(t, i, VALUE) };
        if (r->distance && r->control && kvr_is_reference_method(name) && !is_control)
            r->s[i].x = NAN;
        r->m[r->n - 1].n_seeds++;
    }
}

/* Averages a method's cells to one sample per seed. The method's mean and standard error are over
 * units (prompts or seeds). */
static void summarise(struct race *r, struct method *m)
{
    m->jitter = kvr_nest_within(m->s, m->n_seeds);
    m->n_seeds = kvr_nest(m->s, m->n_seeds, KVR_PER_SEED);
    memcpy(r->d, m->s, (size_t)m->n_seeds * sizeof *r->d);
    m->n = kvr_nest(r->d, m->n_seeds, r->o->unit);
    kvr_nest_values(r->d, m->n, r->x);
    m->mean = kvr_mean(r->x, m->n);
    m->se = kvr_standard_error(r->x, m->n);
    m->score = m->mean * r->sign;
}

/* Tests the difference between methods a and b. Samples are paired by seed, and the differences are
 * averaged per unit (prompt or seed). */
static enum kvr_status compare(struct race *r, const struct method *a, const struct method *b,
                               struct kvr_comparison *c)
{
    int n = kvr_nest_pairs(a->s, a->n_seeds, b->s, b->n_seeds, r->d);

    n = kvr_nest(r->d, n, r->o->unit);
    kvr_nest_values(r->d, n, r->x);
    return kvr_compare(r->x, n, r->o->level, c);
}

static double p_better(const struct race *r, const struct kvr_comparison *c)
{
    return r->sign > 0 ? c->p_above : 1 - c->p_above;
}

static int by_mean(const void *a, const void *b)
{
    const struct method *x = a, *y = b;
    double d = y->score - x->score;

    return d != 0 ? (d > 0) - (d < 0) : strcmp(x->name, y->name);
}

/* Divides the methods into tie groups, in order from best to worst. A method starts a new group if
 * it is separable from the first method of the current group. Bonferroni's factor is n - 1, the
 * number of these comparisons. */
static enum kvr_status group(struct race *r)
{
    int leader = 0, g = 1;

    for (int i = 0; i < r->n; i++) {
        struct kvr_comparison c;

        KVR_TRY(compare(r, &r->m[leader], &r->m[i], &c));
        if (i > leader && kvr_separable(&c, c.p * (r->n - 1))) {
            leader = i;
            g++;
        }
        r->m[i].group = g;
        r->m[i].p_next = NAN;
        if (i > 0) {
            KVR_TRY(compare(r, &r->m[i - 1], &r->m[i], &c));
            r->m[i - 1].p_next = p_better(r, &c);
        }
    }
    return KVR_OK;
}

/* Tests each method's gain over `base` by the sequential test of sequence.h. The e-BH procedure
 * (sequence.h) limits the false discovery rate over all methods of the table. */
static enum kvr_status judge(struct race *r, const struct method *base)
{
    const double margin = kvr_default_margin(r->o->metric);
    double *log_e = calloc((size_t)r->n + 1, sizeof *log_e);
    bool *rejected = calloc((size_t)r->n + 1, sizeof *rejected);
    enum kvr_status st = log_e && rejected ? KVR_OK : kvr_fail(KVR_ENOMEM, "stats: out of memory");
    enum kvr_region region;

    for (int i = 0; st == KVR_OK && i < r->n; i++) {
        struct method *m = &r->m[i];
        int n = kvr_nest_pairs(m->s, m->n_seeds, base->s, base->n_seeds, r->d);

        n = kvr_nest(r->d, n, r->o->unit);
        for (int k = 0; k < n; k++)
            kvr_sequence_add(&m->gain, r->sign * r->d[k].x);
        kvr_sequence_region(&m->gain, margin, &region, &log_e[i]);
        log_e[i] = m == base ? NAN : log_e[i];
    }
    if (st == KVR_OK)
        st = kvr_e_bh(log_e, r->n, 1 - r->o->level, rejected, &r->threshold);
    for (int i = 0; st == KVR_OK && i < r->n; i++)
        r->m[i].rejected = rejected[i];
    free(log_e);
    free(rejected);
    return st;
}

static const char *verdict_of(const struct race *r, const struct method *m, char *buf, size_t size)
{
    const double margin = kvr_default_margin(r->o->metric);
    const double needed = kvr_sequence_needed(&m->gain, margin, r->threshold);
    enum kvr_region region;
    double log_e;

    kvr_sequence_region(&m->gain, margin, &region, &log_e);
    if (m->rejected)
        return kvr_claim_verdict_names[region == KVR_ABOVE   ? KVR_CLAIM_HOLDS
                                       : region == KVR_BELOW ? KVR_CLAIM_NOT
                                                             : KVR_CLAIM_EQUAL];
    if (m->gain.n < KVR_SEQUENCE_MIN)
        snprintf(buf, size, "needs %d more pairs", KVR_SEQUENCE_MIN - m->gain.n);
    else if (needed > KVR_CLAIMS_MOST && m->gain.n >= KVR_CLAIMS_FUTILE_AFTER)
        return kvr_claim_verdict_names[KVR_CLAIM_FUTILE];
    else
        snprintf(buf, size, "needs about %.0f more pairs", needed - m->gain.n);
    return buf;
}

/* Holm-adjusts the p-values of all methods except `base`. With `chaos`, the methods are compared
 * with the BF16 draws (reruns with slightly perturbed noise), otherwise with method `against`. */
static enum kvr_status adjust(struct race *r, const struct method *base, bool chaos)
{
    double *p = calloc(2 * (size_t)r->n + 1, sizeof *p);
    enum kvr_status st = p ? KVR_OK : kvr_fail(KVR_ENOMEM, "stats: out of memory");

    for (int i = 0; st == KVR_OK && i < r->n; i++)
        p[i] = &r->m[i] == base ? NAN : chaos ? r->m[i].chaos.p : r->m[i].c.p;
    if (st == KVR_OK)
        st = kvr_holm(p, r->n, p + r->n);
    for (int i = 0; st == KVR_OK && i < r->n; i++)
        *(chaos ? &r->m[i].chaos_holm : &r->m[i].holm) = p[r->n + i];
    free(p);
    return st;
}

static enum kvr_status compare_with_floor(struct race *r)
{
    struct method *floor = NULL;

    for (int i = 0; i < r->n; i++)
        if (kvr_is_reference_method(r->m[i].name))
            floor = &r->m[i];
    r->control = r->control && floor;
    for (int i = 0; r->control && i < r->n; i++)
        KVR_TRY(compare(r, &r->m[i], floor, &r->m[i].chaos));
    return r->control ? adjust(r, floor, true) : KVR_OK;
}

/* Returns "yes" if the method differs significantly from the BF16 draws (reruns with slightly
 * perturbed noise). Otherwise it returns "no", or the number of prompts that the test still needs.
 * If the metric compares with the BF16 rollout, only a worse value than that of the draws
 * counts. */
static const char *beyond_chaos(const struct race *r, const struct method *m, char *buf,
                                size_t size)
{
    const int missing = kvr_pairs_needed(r->n - 1, r->o->level) - m->chaos.n;

    if (!r->control || kvr_is_reference_method(m->name))
        return "";
    if (missing > 0) {
        snprintf(buf, size, "needs %d more pairs", missing);
        return buf;
    }
    return kvr_separable(&m->chaos, m->chaos_holm) && (!r->distance || m->chaos.mean * r->sign < 0)
               ? "yes"
               : "no";
}

static enum kvr_status add_paired(struct kvr_table *t, const struct race *r, const struct method *m)
{
    const bool self = strcmp(m->name, r->o->against) == 0;
    const int missing = kvr_pairs_needed(r->n - 1, r->o->level) - m->c.n;
    char verdict[64] = "", buf[64], words[64];

    if (!self && missing > 0)
        snprintf(verdict, sizeof verdict, "needs %d more pairs", missing);
    else if (!self)
        snprintf(verdict, sizeof verdict, "%s", kvr_separable(&m->c, m->holm) ? "yes" : "no");
    {
        const struct kvr_value row[] = {
            kvr_value_text(m->name),
            kvr_value_count(m->n),
            kvr_value_number(m->mean),
            kvr_value_number(m->se),
            kvr_value_number(m->p_next),
            kvr_value_count(m->c.n),
            kvr_value_number(self ? NAN : m->c.mean),
            kvr_value_number(self ? NAN : m->c.ci.lo),
            kvr_value_number(self ? NAN : m->c.ci.hi),
            kvr_value_number(self ? NAN : p_better(r, &m->c)),
            kvr_value_number(self ? NAN : m->c.p),
            kvr_value_number(self ? NAN : m->holm),
            kvr_value_text(verdict),
            kvr_value_count(m->group),
            kvr_value_number(m->jitter),
            kvr_value_text(beyond_chaos(r, m, buf, sizeof buf)),
            self ? kvr_value_none() : kvr_value_text(verdict_of(r, m, words, sizeof words))
        };

        return kvr_table_add(t, row);
    }
}

static enum kvr_status note_chaos(struct kvr_table *t, const struct race *r)
{
    if (!r->control)
        return kvr_table_note(t, "no BF16 reruns with perturbed noise exist, so the "
                                 "chaos floor is unknown; set `control: 4` in the sweep");
    return kvr_table_note(
        t, r->distance ? "row BF16: the chaos floor, which is the distance of BF16's reruns with "
                         "perturbed noise; beyond chaos: significantly farther from BF16 than the "
                         "chaos floor; jitter: standard deviation over the reruns of a prompt"
                       : "beyond chaos: significantly different from BF16's reruns with perturbed "
                         "noise; jitter: standard deviation over the reruns of a prompt");
}

static enum kvr_status paired_table(struct kvr_table **out, struct race *r)
{
    static const struct kvr_column columns[] = {
        { .name = "method" },
        { .name = "n" },
        { .name = "mean", .digits = -1 },
        { .name = "standard_error", .head = "s.e.", .digits = -1 },
        { .name = "p_beats_next", .head = "P(beats next)", .digits = 3 },
        { .name = "n_pairs", .head = "pairs" },
        { .name = "difference", .digits = -1 },
        { .name = "lo", .head = "from", .digits = -1 },
        { .name = "hi", .head = "to", .digits = -1 },
        { .name = "p_better", .head = "P(better)", .digits = 3 },
        { .name = "p", .digits = -1 },
        { .name = "p_holm", .head = "p (Holm)", .digits = -1 },
        { .name = "separable" },
        { .name = "tie_group", .head = "group" },
        { .name = "jitter", .digits = -1 },
        { .name = "beyond_chaos", .head = "beyond chaos" },
        { .name = "better" },
    };
    struct method *base = NULL;
    char note[1024];

    for (int i = 0; i < r->n; i++) {
        summarise(r, &r->m[i]);
        if (strcmp(r->m[i].name, r->o->against) == 0)
            base = &r->m[i];
    }
    if (!base)
        KVR_TRY(fail_unless_known(r->o));
    if (!base)
        return kvr_fail(KVR_ENOTFOUND, "stats: no value of '%s' for method '%s' in %s%s",
                        r->o->metric, r->o->against, r->o->db,
                        strcmp(r->o->metric, "runtime_s") == 0
                            ? ": statistics use only runtimes measured with `timing: true` on an "
                              "idle machine (column time_codes of the SQL view cells_wide says why "
                              "a runtime is not used)"
                            : "");
    for (int i = 0; i < r->n; i++)
        KVR_TRY(compare(r, &r->m[i], base, &r->m[i].c));
    KVR_TRY(adjust(r, base, false));
    KVR_TRY(judge(r, base));
    KVR_TRY(compare_with_floor(r));
    qsort(r->m, (size_t)r->n, sizeof *r->m, by_mean);
    KVR_TRY(group(r));
    KVR_TRY(kvr_table_open(out, (int)(sizeof columns / sizeof *columns), columns));
    for (int i = 0; i < r->n; i++)
        KVR_TRY(add_paired(*out, r, &r->m[i]));
    snprintf(
        note, sizeof note,
        "%s, %s is better; difference to %s paired by %s, with %g %% intervals (Student's t with "
        "Hall's transformation); separable: significant in a sign-flip test (Holm-adjusted over %d "
        "comparisons, at least %d pairs), and the interval excludes 0; group: methods not "
        "separable from the group's best method; P(better): share of sign flips whose mean "
        "difference is below the observed one; P(beats next): P(better) against the next row; "
        "better: better by more than %g in the anytime-valid test of `kvreel claims`",
        r->o->metric, r->sign > 0 ? "higher" : "lower", r->o->against,
        r->o->unit == KVR_PER_SEED ? "seed" : "prompt", 100 * r->o->level, r->n - 1,
        kvr_pairs_needed(r->n - 1, r->o->level), kvr_default_margin(r->o->metric));
    KVR_TRY(kvr_table_note(*out, note));
    return is_score(r->o->metric) ? note_chaos(*out, r) : KVR_OK;
}

enum kvr_status kvr_stat_paired(struct kvr_table **out, const struct kvr_stat_options *o)
{
    struct race r = { .o = o, .distance = is_distance(o->metric) };
    struct kvr_table *t = NULL;
    enum kvr_status st = direction(o, &r.sign);

    *out = NULL;
    if (st == KVR_OK)
        st = kvr_stat_one_machine(o);
    if (st == KVR_OK)
        st = read_values(&t, o);
    if (st == KVR_OK) {
        size_t n = (size_t)t->n_rows + 1;

        r.m = calloc(MAX_METHODS, sizeof *r.m);
        r.s = calloc(n, sizeof *r.s);
        r.d = calloc(n, sizeof *r.d);
        r.x = calloc(n, sizeof *r.x);
        if (!r.m || !r.s || !r.d || !r.x)
            st = kvr_fail(KVR_ENOMEM, "stats: out of memory");
    }
    if (st == KVR_OK) {
        find_methods(&r, t);
        st = paired_table(out, &r);
    }
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_table_close(&t);
    free(r.m);
    free(r.s);
    free(r.d);
    free(r.x);
    return st;
}

/* --- times ------------------------------------------------------------------------------ */

static struct kvr_value ratio_value(const struct kvr_table *ratios, int row, int column)
{
    return kvr_value_number(row < 0 ? NAN : kvr_table_number(ratios, row, column));
}

static enum kvr_status add_timing(struct kvr_table *out, const struct kvr_table *t,
                                  const struct kvr_table *ratios, int first, int n, double level,
                                  double *x, bool *flag)
{
    const int at = kvr_ratio_find(ratios, kvr_table_text(t, first, 1), kvr_table_text(t, first, 0));
    struct kvr_interval ci;
    double explained = 0, least = INFINITY, cold = 0;
    int outliers;

    for (int i = 0; i < n; i++) {
        x[i] = kvr_table_number(t, first + i, 4);
        explained += kvr_table_number(t, first + i, 5) / n;
        cold += kvr_table_number(t, first + i, 6) / n;
        least = x[i] < least ? x[i] : least;
    }
    KVR_TRY(kvr_median_interval(x, n, level, &ci));
    outliers = kvr_outliers(x, n, flag);
    {
        const struct kvr_value row[] = {
            kvr_value_text(kvr_table_text(t, first, 1)),
            kvr_value_text(kvr_table_text(t, first, 2)),
            kvr_value_count(n),
            kvr_value_number(kvr_median(x, n)),
            kvr_value_number(n > 1 ? ci.lo : NAN),
            kvr_value_number(n > 1 ? ci.hi : NAN),
            kvr_value_number(n > 1 ? ci.level : NAN),
            kvr_value_text(n < 2        ? "one sample"
                           : ci.min_max ? "min-max"
                                        : "ranks"),
            kvr_value_number(least),
            kvr_value_count(outliers),
            kvr_value_number(explained),
            kvr_value_number(cold),
            kvr_value_text(kvr_table_text(t, first, 3)),
            ratio_value(ratios, at, KVR_RATIO),
            ratio_value(ratios, at, KVR_RATIO_LO),
            ratio_value(ratios, at, KVR_RATIO_HI),
            kvr_value_text_or_none(at < 0 ? "" : kvr_table_text(ratios, at, KVR_RATIO_CODES))
        };

        return kvr_table_add(out, row);
    }
}

/* Adds one row of timings per rollout. The rows of `t` are repeats, sorted by rollout. `x` and
 * `flag` are scratch buffers of t->n_rows elements. */
static enum kvr_status add_timings(struct kvr_table *out, const struct kvr_table *t,
                                   const struct kvr_table *ratios, double level, double *x,
                                   bool *flag)
{
    for (int i = 0, n; i < t->n_rows; i += n) {
        for (n = 1; i + n < t->n_rows &&
                    strcmp(kvr_table_text(t, i, 0), kvr_table_text(t, i + n, 0)) == 0;)
            n++;
        KVR_TRY(add_timing(out, t, ratios, i, n, level, x, flag));
    }
    return kvr_table_note(
        out,
        "median over repeats with a distribution-free interval, or with the minimum and maximum of "
        "fewer than 6 repeats; coverage: confidence level of the interval; outliers are counted "
        "and kept; attributed: share of the runtime in measured phases; cold: runtime of a "
        "process's first rollout; time: `counts`, or why statistics ignore the runtime");
}

enum kvr_status kvr_stat_timing(struct kvr_table **out, const struct kvr_stat_options *o)
{
    static const struct kvr_column columns[] = {
        { .name = "method" },
        { .name = "prompt" },
        { .name = "n" },
        { .name = "median_s", .head = "median", .unit = "(s)", .digits = 3 },
        { .name = "lo_s", .head = "from", .unit = "(s)", .digits = 3 },
        { .name = "hi_s", .head = "to", .unit = "(s)", .digits = 3 },
        { .name = "coverage", .digits = 3 },
        { .name = "interval" },
        { .name = "min_s", .head = "min", .unit = "(s)", .digits = 3 },
        { .name = "outliers" },
        { .name = "attributed", .digits = 3 },
        { .name = "cold_s", .head = "cold", .unit = "(s)", .digits = 3 },
        { .name = "time" },
        { .name = "runtime_ratio", .head = "to BF16", .unit = "(x)", .digits = 3 },
        { .name = "ratio_lo", .head = "from", .unit = "(x)", .digits = 3 },
        { .name = "ratio_hi", .head = "to", .unit = "(x)", .digits = 3 },
        { .name = "ratio_codes", .head = "why no ratio" },
    };
    static const char *const of_pairs[] = { "runtime_ratio", "ratio_lo", "ratio_hi", "ratio_codes",
                                            NULL };
    struct kvr_table *t = NULL, *ratios = NULL;
    double *x = NULL;
    bool *flag = NULL;
    enum kvr_status st;

    *out = NULL;
    KVR_TRY(kvr_stat_one_machine(o));
    KVR_TRY(query(
        &t, o,
        "SELECT rollout || machine || code || method AS unit, method, prompt_id, "
        "coalesce(nullif(max(time_codes) OVER (PARTITION BY rollout, machine, code, method), ''), "
        "'counts'), runtime_seen_s, (SELECT sum(s.ns) FROM "
        "sample s WHERE s.cell = key AND s.kind IN ('encode', 'decode', 'attend', "
        "'linear', 'cross', 'other', 'graph', 'noise')) / 1e9 / runtime_seen_s, "
        "(SELECT max(s.ns) / 1e9 FROM sample s WHERE s.cell = key AND s.kind = 'warmup' AND "
        "s.round = 0) FROM cells_wide WHERE outcome = 'OK' AND run_kind = 'bench' AND (%s) "
        "ORDER BY is_baseline DESC, method, prompt_id, unit, repeat",
        condition(o)));
    x = malloc(((size_t)t->n_rows + 1) * sizeof *x);
    flag = malloc((size_t)t->n_rows + 1);
    st = x && flag ? kvr_table_open(out, (int)(sizeof columns / sizeof *columns), columns)
                   : kvr_fail(KVR_ENOMEM, "stats: out of memory");
    if (st == KVR_OK)
        st = kvr_ratios_read(&ratios, o->db, KVR_RATIOS_BY_UNIT);
    if (st == KVR_OK)
        st = add_timings(*out, t, ratios, o->level, x, flag);
    if (st == KVR_OK)
        kvr_table_drop_empty(*out, of_pairs);
    if (st == KVR_OK && kvr_table_find(*out, "runtime_ratio") >= 0)
        st = kvr_table_note(*out, "to BF16: runtime relative to BF16's, over pairs of consecutive "
                                  "rollouts (setting abba)");
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_table_close(&t);
    kvr_table_close(&ratios);
    free(x);
    free(flag);
    return st;
}

/* --- coverage --------------------------------------------------------------------------- */

/* Makes a table with a row per method and a column per row of `prompts`. Each row of `t` has a
 * method, a prompt and the text of their table cell. The rows of `t` are sorted by method. */
static enum kvr_status matrix(struct kvr_table **out, const struct kvr_table *t,
                              const struct kvr_table *prompts)
{
    int n = prompts->n_rows + 1;
    struct kvr_column *columns = calloc((size_t)n, sizeof *columns);
    struct kvr_value *row = calloc((size_t)n, sizeof *row);
    enum kvr_status st = columns && row ? KVR_OK : kvr_fail(KVR_ENOMEM, "stats: out of memory");

    for (int i = 0; st == KVR_OK && i < n; i++)
        columns[i].name = i ? kvr_table_text(prompts, i - 1, 0) : "method";
    if (st == KVR_OK)
        st = kvr_table_open(out, n, columns);
    for (int i = 0; st == KVR_OK && i < t->n_rows; i++) {
        bool last =
            i + 1 == t->n_rows || strcmp(kvr_table_text(t, i, 0), kvr_table_text(t, i + 1, 0)) != 0;

        row[0] = kvr_value_text(kvr_table_text(t, i, 0));
        for (int k = 1; k < n; k++)
            if (strcmp(columns[k].name, kvr_table_text(t, i, 1)) == 0)
                row[k] = kvr_value_text(kvr_table_text(t, i, 2));
        if (last) {
            st = kvr_table_add(*out, row);
            memset(row, 0, (size_t)n * sizeof *row);
        }
    }
    free(columns);
    free(row);
    return st;
}

/* With --where, planned cells that never ran are excluded, because they lack the columns that the
 * condition tests. */
enum kvr_status kvr_stat_coverage(struct kvr_table **out, const struct kvr_stat_options *o)
{
    static const char planned[] =
        "UNION ALL SELECT method, suite, prompt_id, 'SKIPPED', 0 FROM holes WHERE "
        "reason = 'not measured yet' AND outcome IS NULL";
    const char *const more = o->where ? "" : planned;
    struct kvr_table *t = NULL, *prompts = NULL;
    enum kvr_status st;

    *out = NULL;
    st = query(&prompts, o,
               "WITH c AS (SELECT method, suite, prompt_id, outcome, is_baseline FROM cells_wide "
               "WHERE (%s) %s)\n"
               "SELECT DISTINCT suite || ':' || prompt_id FROM c ORDER BY suite, prompt_id "
               "LIMIT 200",
               condition(o), more);
    if (st == KVR_OK)
        st = query(&t, o,
                   "WITH c AS (SELECT method, suite, prompt_id, outcome, is_baseline FROM "
                   "cells_wide WHERE (%s) %s)\n"
                   "SELECT method, suite || ':' || prompt_id, sum(outcome = 'OK') || '/' || "
                   "count(*) || CASE WHEN sum(outcome = 'UNSUPPORTED') THEN ' U' ELSE '' END || "
                   "CASE WHEN sum(outcome = 'EXCLUDED') THEN ' X' ELSE '' END || "
                   "CASE WHEN sum(outcome IN ('SKIPPED', 'INTERRUPTED')) THEN ' O' ELSE '' END || "
                   "CASE WHEN sum(outcome NOT IN ('OK', 'UNSUPPORTED', 'EXCLUDED', 'SKIPPED', "
                   "'INTERRUPTED')) "
                   "THEN ' F' ELSE '' END FROM c GROUP BY 1, 2 ORDER BY "
                   "max(max(is_baseline)) OVER (PARTITION BY method) DESC, 1, 2",
                   condition(o), more);
    if (st == KVR_OK)
        st = matrix(out, t, prompts);
    if (st == KVR_OK)
        st = kvr_table_note(*out,
                            "each entry: number of OK cells / number of planned cells, followed by "
                            "U, X, O or F if any cells are unsupported (U), excluded (X), skipped "
                            "or interrupted (O), or failed (F); -: no cells are planned");
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_table_close(&t);
    kvr_table_close(&prompts);
    return st;
}
