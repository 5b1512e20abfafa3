/* claims.c - see claims.h. */
#include "harness/report/claims.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/plan/find.h"
#include "harness/plan/yaml.h"
#include "harness/report/nested.h"
#include "harness/report/pairs.h"
#include "harness/report/values.h"
#include "harness/store/statement.h"

KVR_STATEMENT(claims_more);

const char *const kvr_claim_verdict_names[] = { "holds", "does not hold", "cannot be told here",
                                                NULL };

static const struct kvr_find ledger = { "ledger", "results", ".yaml", NULL };

struct claim {
    const char *id, *says, *source, *at;
    char shown[320]; /* what would show it */
    char why[512];
    bool tested; /* c and holm count */
    bool arithmetic;
    double figure, lo, hi, within; /* within: NaN unless the claim is that two are alike */
    struct kvr_comparison c;
    double holm;
    enum kvr_claim_verdict verdict;
};

struct work {
    const char *db;
    struct claim *claim;
    int n;
};

/* --- numbers and names ------------------------------------------------------------------ */

static enum kvr_status number_of(const struct kvr_yaml_node *map, const char *key, double other,
                                 double *out)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(map, key);
    const char *text;
    char *end;

    *out = other;
    if (!n)
        return KVR_OK;
    KVR_TRY(kvr_yaml_string(n, &text));
    *out = strtod(text, &end);
    return *end || end == text || !isfinite(*out) ? kvr_yaml_fail(n, "%s: need a number", key)
                                                  : KVR_OK;
}

static enum kvr_status text_of(const struct kvr_yaml_node *map, const char *key, const char *other,
                               const char **out)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(map, key);

    *out = other;
    if (!n && !other)
        return kvr_yaml_fail(map, "no '%s'", key);
    return n ? kvr_yaml_string(n, out) : KVR_OK;
}

/* Columns of cells_wide are asked for by their names, metrics through their cells. */
static const char *value_of(const char *metric, char *room, size_t size)
{
    static const char *const columns[] = { "compression", "resident_compression",
                                           "peak_bytes",  "resident_bytes",
                                           "runtime_s",   NULL };

    for (int i = 0; columns[i]; i++)
        if (strcmp(columns[i], metric) == 0)
            return metric;
    snprintf(room, size, "{w.score:%.60s}", metric);
    return room;
}

/* --- tests ------------------------------------------------------------------------------ */

/* Rows of place, sample, x. */
static enum kvr_status test_sample(struct work *w, struct claim *c, const char *sql)
{
    struct kvr_table *t;
    struct kvr_sample *s;
    double *x;
    int n;
    enum kvr_status st = KVR_OK;

    if (!w->db) {
        snprintf(c->why, sizeof c->why, "no database given (--db)");
        return KVR_OK;
    }
    KVR_TRY(kvr_table_query(&t, w->db, sql, NULL));
    n = t->n_rows;
    s = calloc((size_t)n + 1, sizeof *s);
    x = calloc((size_t)n + 1, sizeof *x);
    if (!s || !x)
        st = kvr_fail(KVR_ENOMEM, "claims: no memory");
    for (int i = 0; st == KVR_OK && i < n; i++)
        s[i] = (struct kvr_sample){ .prompt = (int)kvr_table_number(t, i, 0),
                                    .seed = (int)kvr_table_number(t, i, 1),
                                    .x = kvr_table_number(t, i, 2) };
    if (st == KVR_OK && (n = kvr_nest(s, n, KVR_PER_PROMPT)) > 0) {
        kvr_nest_values(s, n, x);
        st = kvr_compare(x, n, 0.95, &c->c);
        c->tested = true;
        c->figure = c->c.mean;
        c->lo = c->c.ci.lo;
        c->hi = c->c.ci.hi;
    } else if (st == KVR_OK) {
        snprintf(c->why, sizeof c->why, "the database has no cells of it");
    }
    kvr_table_close(&t);
    free(s);
    free(x);
    return st;
}

static enum kvr_status test_pair(struct work *w, struct claim *c, const struct kvr_yaml_node *n,
                                 const char *relation)
{
    static const char *const keys[] = { "metric", "of",     "than",    "by",
                                        "kind",   "within", "forcing", NULL };
    const char *metric, *of, *than, *kind, *forcing;
    char value[80], by_text[32], *sql;
    const bool alike = strcmp(relation, "alike") == 0;
    double by;
    enum kvr_status st;

    KVR_TRY(kvr_yaml_keys(n, keys));
    KVR_TRY(text_of(n, "metric", NULL, &metric));
    KVR_TRY(text_of(n, "of", NULL, &of));
    KVR_TRY(text_of(n, "than", "", &than));
    KVR_TRY(text_of(n, "kind", "bench", &kind));
    KVR_TRY(text_of(n, "forcing", "none", &forcing));
    KVR_TRY(number_of(n, "by", 0, &by));
    if (alike) {
        KVR_TRY(number_of(n, "within", NAN, &c->within));
        if (!(c->within > 0))
            return kvr_yaml_fail(n, "'within': need a number above 0");
    }
    snprintf(by_text, sizeof by_text, "%.17g", by);
    if (alike)
        snprintf(c->shown, sizeof c->shown, "%.60s of %.60s within %g of %.60s", metric, of,
                 c->within, than);
    else
        snprintf(c->shown, sizeof c->shown, "%.60s of %.60s %s %.60s%s%s", metric, of,
                 strcmp(relation, "more") == 0 ? "above" : "below", than[0] ? than : by_text,
                 than[0] && by > 0 ? " by more than " : "", than[0] && by > 0 ? by_text : "");
    sql = kvr_statement_fill(kvr_statement_claims_more,
                             KVR_WITH("value", value_of(metric, value, sizeof value), "of", of,
                                      "than", than, "by", by_text, "kind", kind, "forcing", forcing,
                                      "sign", strcmp(relation, "less") == 0 ? "-1" : "1"));
    if (!sql)
        return kvr_fail(KVR_ENOMEM, "claims: no memory");
    st = test_sample(w, c, sql);
    free(sql);
    if (st == KVR_OK && w->db && !c->tested && strcmp(metric, "runtime_s") == 0)
        snprintf(c->why, sizeof c->why,
                 "the database has no time of it that counts: kvreel run configs/claims-time.yaml "
                 "--jobs 1 "
                 "on a quiet machine");
    return st;
}

/* A printed ratio holds when it is ours to the digits that were printed, or between the bounds
 * where bytes hang on the values cached. */
static enum kvr_status test_ratio(struct claim *c, const struct kvr_yaml_node *n)
{
    enum { LATENT_FRAMES = 42 };
    static const char *const keys[] = { "method", "is", NULL };
    const struct kvr_setting budget = { .name = "layer_budget", .value = "moviegen" };
    struct kvr_scheme *scheme = NULL;
    struct kvr_prediction p;
    const char *method, *text, *point;
    double is, rounding;
    enum kvr_status st;

    KVR_TRY(kvr_yaml_keys(n, keys));
    KVR_TRY(text_of(n, "method", NULL, &method));
    KVR_TRY(text_of(n, "is", NULL, &text));
    KVR_TRY(number_of(n, "is", NAN, &is));
    point = strchr(text, '.');
    rounding = 0.5 * pow(10, point ? -(double)strlen(point + 1) : 0) * (1 + 1e-9);
    snprintf(c->shown, sizeof c->shown, "%s: bytes of the format on wan-1.3b, 165 frames", method);
    KVR_TRY(kvr_scheme_open(&scheme, method, &budget, strstr(method, "FLOWCACHE") ? 1 : 0));
    st = kvr_predict(scheme, &kvr_wan_1_3b,
                     &(struct kvr_predict_run){ .latent_frames = LATENT_FRAMES }, &p);
    kvr_scheme_close(&scheme);
    KVR_TRY(st);
    c->arithmetic = true;
    c->figure = (double)p.bf16 / (double)p.nominal;
    c->lo = (double)p.bf16 / (double)(p.data_dependent ? p.nominal_max : p.nominal);
    c->hi = (double)p.bf16 / (double)(p.data_dependent ? p.nominal_min : p.nominal);
    c->verdict = is >= c->lo - rounding && is <= c->hi + rounding ? KVR_CLAIM_HOLDS : KVR_CLAIM_NOT;
    snprintf(c->why, sizeof c->why, "arithmetic%s",
             p.data_dependent ? ", within what the values cached allow" : "");
    return KVR_OK;
}

static enum kvr_status read_claim(struct work *w, struct claim *c, const struct kvr_yaml_node *n,
                                  const struct kvr_yaml_node *sources)
{
    static const char *const keys[] = { "id",   "says",     "source", "at",    "more",
                                        "less", "alike",    "sql",    "ratio", "command",
                                        "why",  "shown_by", NULL };
    static const char *const relations[] = { "more", "less", "alike", NULL };
    const struct kvr_yaml_node *test;
    const char *text, *why;

    c->figure = c->lo = c->hi = c->within = NAN;
    c->verdict = KVR_CLAIM_OPEN;
    KVR_TRY(kvr_yaml_keys(n, keys));
    KVR_TRY(text_of(n, "id", NULL, &c->id));
    KVR_TRY(text_of(n, "says", NULL, &c->says));
    KVR_TRY(text_of(n, "at", NULL, &c->at));
    KVR_TRY(text_of(n, "source", NULL, &text));
    if (!kvr_yaml_get(sources, text))
        return kvr_yaml_fail(n, "source '%s' is none of 'sources'", text);
    c->source = text;
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->claim[i].id, c->id) == 0)
            return kvr_yaml_fail(n, "two claims with id '%s'", c->id);
    KVR_TRY(text_of(n, "shown_by", "", &text));
    snprintf(c->shown, sizeof c->shown, "%s", text);
    for (int i = 0; relations[i]; i++)
        if ((test = kvr_yaml_get(n, relations[i])))
            return test_pair(w, c, test, relations[i]);
    if ((test = kvr_yaml_get(n, "ratio")))
        return test_ratio(c, test);
    if (kvr_yaml_get(n, "sql")) {
        KVR_TRY(text_of(n, "sql", NULL, &text));
        return test_sample(w, c, text);
    }
    KVR_TRY(text_of(n, "command", NULL, &text));
    KVR_TRY(text_of(n, "why", NULL, &why));
    snprintf(c->why, sizeof c->why, "%s; settled by: %s", why, text);
    return KVR_OK;
}

/* --- verdicts --------------------------------------------------------------------------- */

static void judge_alike(struct claim *c)
{
    if (c->c.n >= KVR_PAIRS_MIN && fabs(c->lo) <= c->within && fabs(c->hi) <= c->within)
        c->verdict = KVR_CLAIM_HOLDS;
    else if (c->c.n >= KVR_PAIRS_MIN && (c->lo > c->within || c->hi < -c->within))
        c->verdict = KVR_CLAIM_NOT;
    if (c->c.n < KVR_PAIRS_MIN)
        snprintf(c->why, sizeof c->why, "%d prompts, %d are needed", c->c.n, KVR_PAIRS_MIN);
    else if (c->verdict == KVR_CLAIM_OPEN)
        snprintf(c->why, sizeof c->why, "the interval crosses the limit");
}

static void judge(struct claim *c, int n_tests)
{
    const int needed = kvr_pairs_needed(n_tests, 0.95);

    if (isfinite(c->within)) {
        judge_alike(c);
        return;
    }
    if (kvr_separable(&c->c, c->holm))
        c->verdict = c->figure > 0 ? KVR_CLAIM_HOLDS : KVR_CLAIM_NOT;
    else if (c->c.n < needed)
        snprintf(c->why, sizeof c->why, "%d prompts, %d are needed with %d claims", c->c.n, needed,
                 n_tests);
    else
        snprintf(c->why, sizeof c->why, "not separable from no difference, p %.2g of %d tests",
                 c->holm, n_tests);
}

static enum kvr_status judge_all(struct work *w)
{
    double *p = calloc(2 * (size_t)w->n + 1, sizeof *p);
    int tests = 0;
    enum kvr_status st = p ? KVR_OK : kvr_fail(KVR_ENOMEM, "claims: no memory");

    for (int i = 0; p && i < w->n; i++) {
        const bool counts = w->claim[i].tested && !isfinite(w->claim[i].within);

        p[i] = counts ? w->claim[i].c.p : NAN;
        tests += counts;
    }
    if (st == KVR_OK)
        st = kvr_holm(p, w->n, p + w->n);
    for (int i = 0; st == KVR_OK && i < w->n; i++) {
        w->claim[i].holm = p[w->n + i];
        if (w->claim[i].tested)
            judge(&w->claim[i], tests);
    }
    free(p);
    return st;
}

/* --- the table -------------------------------------------------------------------------- */

static enum kvr_status make_table(struct kvr_ledger *out, const struct work *w,
                                  const struct kvr_yaml_node *sources)
{
    static const struct kvr_column columns[] = {
        { .name = "id" },
        { .name = "says" },
        { .name = "source" },
        { .name = "shown_by", .head = "shown by" },
        { .name = "verdict" },
        { .name = "figure", .digits = -1 },
        { .name = "lo", .head = "from", .digits = -1 },
        { .name = "hi", .head = "to", .digits = -1 },
        { .name = "n" },
        { .name = "why" },
    };
    char note[200];

    KVR_TRY(kvr_table_open(&out->table, (int)(sizeof columns / sizeof *columns), columns));
    for (int i = 0; i < w->n; i++) {
        const struct claim *c = &w->claim[i];
        char source[200];

        snprintf(source, sizeof source, "%s, %s", c->source, c->at);
        out->n[c->verdict]++;
        KVR_TRY(kvr_table_add(
            out->table,
            (const struct kvr_value[]){
                kvr_value_said(c->id), kvr_value_said(c->says), kvr_value_said(source),
                kvr_value_said(c->shown), kvr_value_said(kvr_claim_verdict_names[c->verdict]),
                kvr_value_number(c->figure), kvr_value_number(c->lo), kvr_value_number(c->hi),
                c->tested ? kvr_value_count(c->c.n) : kvr_value_none(), kvr_value_said(c->why) }));
    }
    snprintf(note, sizeof note,
             "%d claims: %d hold, %d do not, %d cannot be told here; figures are mean differences "
             "over prompts with 95 %% intervals, Holm over all tests",
             w->n, out->n[KVR_CLAIM_HOLDS], out->n[KVR_CLAIM_NOT], out->n[KVR_CLAIM_OPEN]);
    KVR_TRY(kvr_table_note(out->table, note));
    for (int i = 0; i < sources->n; i++) {
        char line[512];
        const char *title;

        KVR_TRY(kvr_yaml_string(sources->item[i], &title));
        snprintf(line, sizeof line, "%s: %.400s", sources->key[i]->text, title);
        KVR_TRY(kvr_table_note(out->table, line));
    }
    return KVR_OK;
}

static enum kvr_status read_all(struct work *w, const char *path, const struct kvr_yaml_node *root,
                                const struct kvr_yaml_node **sources)
{
    static const char *const keys[] = { "sources", "claims", NULL };
    const struct kvr_yaml_node *list;

    if (!root)
        return kvr_fail(KVR_EINVAL, "claims: the ledger %s is empty", path);
    KVR_TRY(kvr_yaml_keys(root, keys));
    *sources = kvr_yaml_get(root, "sources");
    list = kvr_yaml_get(root, "claims");
    if (!*sources || (*sources)->kind != KVR_YAML_MAP || !list || list->kind != KVR_YAML_LIST)
        return kvr_yaml_fail(root, "need 'sources', a map, and 'claims', a list");
    w->claim = calloc((size_t)list->n + 1, sizeof *w->claim);
    if (!w->claim)
        return kvr_fail(KVR_ENOMEM, "claims: no memory");
    for (int i = 0; i < list->n; i++, w->n++)
        KVR_TRY(read_claim(w, &w->claim[i], list->item[i], *sources));
    return KVR_OK;
}

enum kvr_status kvr_claims(struct kvr_ledger *out, const char *path, const char *db)
{
    const struct kvr_yaml_node *sources = NULL;
    struct work w = { .db = db };
    struct kvr_yaml *y = NULL;
    char found[PATH_MAX];
    enum kvr_status st;

    *out = (struct kvr_ledger){ 0 };
    if (!path) {
        KVR_TRY(kvr_find_path(&ledger, "claims", NULL, found, sizeof found));
        path = found;
    }
    KVR_TRY(kvr_yaml_read(&y, path));
    st = read_all(&w, path, kvr_yaml_root(y), &sources);
    if (st == KVR_OK)
        st = judge_all(&w);
    if (st == KVR_OK)
        st = make_table(out, &w, sources);
    if (st != KVR_OK)
        kvr_ledger_free(out);
    free(w.claim);
    kvr_yaml_close(&y);
    return st;
}

void kvr_ledger_free(struct kvr_ledger *l)
{
    kvr_table_close(&l->table);
}
