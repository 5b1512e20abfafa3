/* decide.c - see decide.h. */
#include "harness/settle/decide.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/core/memtext.h"
#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/plan/config.h"
#include "harness/report/claims/claims.h"
#include "harness/settle/settle.h"
#include "harness/store/statement.h"
#include "methods/method.h"
#include "metrics/metric.h"

KVR_STATEMENT(settle_prompts);

struct method {
    char label[160];
    /* the method runs the first `prompts` prompts of each suite */
    int prompts;
};

struct decide {
    const struct kvr_run_options *o;
    struct kvr_decide_summary *sum;
    char metric[64], kind[16], forcing[16], suite[96], model[160], name[160];
    char *question;
    /* number of suites; number of prompts in the largest suite */
    int n_suites, most;
    /* number of prompts per suite in the first interim analysis (look) */
    int first;
    int n_methods;
    struct method method[KVR_DECIDE_METHODS];
    bool done, too_many, against_baseline;
    struct kvr_ledger l;
    int64_t begun_ns;
};

/* --- the sweep -------------------------------------------------------------------------- */

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static enum kvr_status read_config(struct decide *d)
{
    struct kvr_config c;
    const struct kvr_metric *m;

    KVR_TRY(kvr_config_read_from(&c, &d->o->sweep));
    copy(d->metric, sizeof d->metric, c.decide);
    copy(d->kind, sizeof d->kind, c.set.kind);
    copy(d->forcing, sizeof d->forcing, c.set.forcing);
    copy(d->name, sizeof d->name, c.name);
    copy(d->suite, sizeof d->suite, c.n_suites == 1 ? c.suite[0].name : "");
    d->question = strdup(c.question);
    d->n_suites = c.n_suites;
    for (int i = 0; i < c.n_suites; i++) {
        d->most = c.suite[i].n_prompts > d->most ? c.suite[i].n_prompts : d->most;
        d->sum->most += c.suite[i].n_prompts;
    }
    m = kvr_metric_find(d->metric);
    d->against_baseline = m && !m->alone && !m->truth;
    kvr_config_free(&c);
    if (!d->question)
        return kvr_fail(KVR_ENOMEM, "decide: out of memory");
    d->first = kvr_settle_next(NAN, 0, 0, d->n_suites, d->most);
    return KVR_OK;
}

static struct method *find(struct decide *d, const char *label)
{
    for (int i = 0; i < d->n_methods; i++)
        if (strcmp(d->method[i].label, label) == 0)
            return &d->method[i];
    return NULL;
}

static void add_method(void *ctx, const struct kvr_plan_line *l)
{
    struct decide *d = ctx;

    if (d->model[0] == 0)
        copy(d->model, sizeof d->model, l->model);
    if (!l->listed || l->cells == l->unsupported + l->excluded ||
        (d->against_baseline && kvr_is_reference_method(l->method)))
        return;
    d->too_many = d->too_many || d->n_methods == KVR_DECIDE_METHODS;
    if (!d->too_many)
        copy(d->method[d->n_methods++].label, sizeof d->method[0].label, l->method);
}

static enum kvr_status find_methods(struct decide *d)
{
    struct kvr_run_options o = *d->o;

    if (o.n_shards > 1)
        return kvr_fail(KVR_EINVAL, "run: 'until: decided' cannot be combined with --shard, since "
                                    "a verdict needs all cells");
    o.dry_run = true;
    o.progress = NULL;
    o.plan_line = add_method;
    o.plan_file = NULL;
    o.plan_ctx = d;
    KVR_TRY(kvr_run(&o, &d->sum->run));
    if (d->too_many || d->n_methods < 2)
        return kvr_fail(
            KVR_EINVAL,
            "%s: 'until: decided' needs 2 to %d methods%s that can run, but the sweep has %s",
            o.sweep.path, KVR_DECIDE_METHODS, d->against_baseline ? " besides BF16" : "",
            d->too_many    ? "more"
            : d->n_methods ? "only one"
                           : "none");
    return kvr_decide_path(d->sum->run.out_dir, d->name, d->sum->ledger, sizeof d->sum->ledger);
}

/* --- ledger (YAML file of claims) with one claim per pair of methods --------------------- */

enum kvr_status kvr_decide_path(const char *out_dir, const char *name, char *path, size_t size)
{
    const size_t at = strlen(out_dir) + 1; /* index of the file name in `path` */
    const int n = snprintf(path, size, "%s/%s.decide.yaml", out_dir, name);

    for (size_t i = at; n > 0 && (size_t)n < size && path[i]; i++)
        path[i] = path[i] == '/' ? '_' : path[i]; /* a file name cannot contain slashes */
    return n > 0 && (size_t)n < size ? KVR_OK
                                     : kvr_fail(KVR_EINVAL,
                                                "decide: the path %s/%s.decide.yaml has more than "
                                                "%zu bytes, the limit; use a shorter --out",
                                                out_dir, name, size - 1);
}

/* Writes `before`, then `text` as a single-quoted YAML string on one line, then `after`. */
static void put(FILE *f, const char *before, const char *text, const char *after)
{
    fprintf(f, "%s'", before);
    for (; *text; text++)
        if (*text == '\'')
            fputs("''", f);
        else
            fputc(*text == '\n' ? ' ' : *text, f);
    fprintf(f, "'%s", after);
}

static void put_pair(FILE *f, const struct decide *d, const char *a, const char *b)
{
    const struct kvr_metric *m = kvr_metric_find(d->metric);
    const bool less = m ? m->direction < 0 : strcmp(d->metric, "nll") == 0;
    char text[400];

    snprintf(text, sizeof text, "%s - %s", a, b);
    put(f, "  - {id: ", text, "");
    snprintf(text, sizeof text, "%s is better than %s", a, b);
    put(f, ", says: ", text, ", source: sweep");
    put(f, ", at: ", d->name, less ? ", less: {" : ", more: {");
    put(f, "metric: ", d->metric, "");
    put(f, ", of: ", a, "");
    put(f, ", than: ", b, "");
    put(f, ", kind: ", d->kind, "");
    put(f, ", forcing: ", d->forcing, "");
    put(f, ", suite: ", d->suite, "}}\n");
}

static enum kvr_status write_ledger(const struct decide *d)
{
    enum kvr_status st;
    char *text;
    size_t n;
    FILE *to;

    KVR_TRY(kvr_mkdirs(d->sum->run.out_dir));
    to = kvr_text_open(&text, &n);
    if (to) {
        put(to, "sources: {sweep: ", d->question, "}\n");
        put(to, "settle: {model: ", d->model, "}\nclaims:\n");
        for (int i = 0; i < d->n_methods; i++)
            for (int k = i + 1; k < d->n_methods; k++)
                put_pair(to, d, d->method[i].label, d->method[k].label);
    }
    if (!kvr_text_close(to, &text))
        return kvr_fail(KVR_ENOMEM, "decide: out of memory");
    st = kvr_out_save(d->sum->ledger, text, n);
    free(text);
    return st;
}

/* --- number of prompts of the next interim analysis ------------------------------------- */

static enum kvr_status judge(struct decide *d)
{
    const char *db = kvr_path_exists(d->sum->run.db_path) ? d->sum->run.db_path : NULL;

    kvr_ledger_free(&d->l);
    return kvr_claims(&d->l, d->sum->ledger, db,
                      &(struct kvr_claims_options){ .most = d->sum->most });
}

/* Reads from the database how many prompts per suite an earlier call measured for each method. */
static enum kvr_status read_measured(struct decide *d)
{
    struct kvr_table *t;

    if (!kvr_path_exists(d->sum->run.db_path))
        return KVR_OK;
    KVR_TRY(kvr_table_query(&t, d->sum->run.db_path, kvr_statement_settle_prompts, NULL));
    for (int i = 0; i < t->n_rows; i++) {
        struct method *m = find(d, kvr_table_text(t, i, 0));
        const int n = (int)kvr_table_number(t, i, 5);

        if (!m || strcmp(kvr_table_text(t, i, 2), d->kind) != 0 ||
            strcmp(kvr_table_text(t, i, 3), d->forcing) != 0 ||
            strcmp(kvr_table_text(t, i, 4), d->model) != 0 ||
            strncmp(kvr_table_text(t, i, 1), d->suite, strlen(d->suite)) != 0)
            continue;
        m->prompts = n > m->prompts ? n : m->prompts;
        m->prompts = m->prompts < d->most ? m->prompts : d->most;
    }
    kvr_table_close(&t);
    return KVR_OK;
}

static bool is_open(const struct kvr_claim *c)
{
    return c->verdict == KVR_CLAIM_OPEN;
}

/* Increases the number of prompts of the methods in undecided pairs. Returns false if no undecided
 * pair can use more prompts. */
static bool choose_look(struct decide *d)
{
    int next = INT_MAX;

    for (int i = 0; i < d->l.n_claims; i++) {
        struct kvr_claim *c = &d->l.claim[i];
        const int a = find(d, c->of)->prompts, b = find(d, c->than)->prompts, now = a < b ? a : b;

        c->next = kvr_settle_next(kvr_settle_goal(c->n_needed, d->sum->most), c->s.n, now,
                                  d->n_suites, d->most);
        if (is_open(c) && c->next > now && c->next < next)
            next = c->next;
    }
    for (int i = 0; next < INT_MAX && i < d->l.n_claims; i++)
        for (int k = 0; k < 2; k++) {
            struct method *m = find(d, k ? d->l.claim[i].than : d->l.claim[i].of);

            if (is_open(&d->l.claim[i]) && m->prompts < next)
                m->prompts = next;
        }
    return next < INT_MAX;
}

static int most_prompts(void *ctx, const char *label, bool *enough)
{
    struct decide *d = ctx;
    const struct method *m = find(d, label);
    int most = d->first;

    *enough = d->done;
    if (m)
        return m->prompts;
    for (int i = 0; kvr_is_reference_method(label) && i < d->n_methods; i++)
        most = d->method[i].prompts > most ? d->method[i].prompts : most;
    return most;
}

static enum kvr_status look(struct decide *d)
{
    const double gone = (double)(kvr_now_ns() - d->begun_ns) * 1e-9;
    struct kvr_run_options o = *d->o;
    struct kvr_decide_summary *s = d->sum;
    const int ok = s->run.ok, failed = s->run.failed;

    if (o.budget_s > 0 && gone > o.budget_s - 1) {
        s->stopped = true;
        return KVR_OK;
    }
    o.budget_s = o.budget_s > 0 ? (int)(o.budget_s - gone) : 0;
    o.most_prompts = most_prompts;
    o.most_ctx = d;
    KVR_TRY(kvr_run(&o, &s->run));
    s->looks++;
    s->stopped = s->run.interrupted || s->run.limited > 0;
    s->run.limited += s->run.later;
    /* Ends the interim analyses if this one measured no new cell: the missing cells have failed and
     * are not run again, so the next analysis would have the same data. */
    if (!d->done && s->run.ok == 0 && s->run.scored == 0 && !s->stopped)
        d->done = true;
    /* The totals cover all interim analyses. kvr_run() counted the cells of the earlier ones as
     * skipped, so they are moved from `skipped` to `ok` and `failed`. */
    s->run.ok += ok;
    s->run.failed += failed;
    s->run.skipped -= ok + failed;
    s->run.done_before -= ok + failed;
    s->run.failed_before -= failed;
    return KVR_OK;
}

static enum kvr_status run_looks(struct decide *d)
{
    KVR_TRY(read_config(d));
    KVR_TRY(find_methods(d));
    KVR_TRY(write_ledger(d));
    KVR_TRY(read_measured(d));
    d->sum->run.ok = d->sum->run.failed = 0;
    while (!d->sum->stopped && !d->done) {
        KVR_TRY(judge(d));
        d->done = !choose_look(d);
        KVR_TRY(look(d));
    }
    KVR_TRY(judge(d));
    d->sum->pairs = d->l.n_claims;
    d->sum->open = d->l.n[KVR_CLAIM_OPEN];
    return KVR_OK;
}

enum kvr_status kvr_decide(const struct kvr_run_options *o, struct kvr_decide_summary *out)
{
    struct decide *d = calloc(1, sizeof *d);
    enum kvr_status st;

    *out = (struct kvr_decide_summary){ 0 };
    if (!d)
        return kvr_fail(KVR_ENOMEM, "decide: out of memory");
    d->o = o;
    d->sum = out;
    d->begun_ns = kvr_now_ns();
    st = run_looks(d);
    kvr_ledger_free(&d->l);
    free(d->question);
    free(d);
    return st;
}

/* --- verdicts --------------------------------------------------------------------------- */

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *pair_json(const struct kvr_claim *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:i, s:o}", "better", c->of, "than",
                     c->than, "metric", c->metric, "verdict",
                     is_open(c) ? "open" : kvr_claim_verdict_names[c->verdict], "figure",
                     number(c->figure), "lo", number(c->lo), "hi", number(c->hi), "margin",
                     number(c->margin), "n", c->s.n, "n_needed", number(c->n_needed));
}

enum kvr_status kvr_decide_pairs(const char *ledger, const char *db, int most, json_t **out)
{
    struct kvr_ledger l = { 0 };

    *out = NULL;
    KVR_TRY(kvr_claims(&l, ledger, kvr_path_exists(db) ? db : NULL,
                       &(struct kvr_claims_options){ .most = most }));
    *out = json_array();
    for (int i = 0; i < l.n_claims; i++)
        json_array_append_new(*out, pair_json(&l.claim[i]));
    kvr_ledger_free(&l);
    return *out ? KVR_OK : kvr_fail(KVR_ENOMEM, "decide: out of memory");
}
