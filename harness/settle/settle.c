/* settle.c - see settle.h. */
#include "harness/settle/settle.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/core/memtext.h"
#include "harness/core/opts.h"
#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/plan/find.h"
#include "harness/plan/suite.h"
#include "harness/run/run.h"
#include "harness/store/statement.h"
#include "methods/method.h"
#include "metrics/metric.h"

KVR_STATEMENT(settle_prompts);

enum { SUITES = 8, METHODS = 128, TOGETHER = 8, PLANS = 4 };

/* One entry of the key `settle` in the ledger (YAML file of claims). It configures how the claims
 * about one model are measured. */
struct plan {
    const char *model;
    /* most: number of prompts that every suite has before its first held-out prompt (with a word
     * that the model was not trained on) */
    int n_suites, most;
    char file[SUITES][PATH_MAX]; /* path of each suite's file */
    char suite[SUITES][80];      /* name of each suite in the database */
    long long frames, window, control;
    const struct kvr_yaml_node *metrics;
    const struct kvr_yaml_node *set; /* map of further settings for the sweeps; NULL: none */
};

/* A round is one sweep. It runs `n_methods` methods on the first `prompts` prompts of each
 * suite. */
struct round {
    const struct plan *plan;
    /* suite: prefix of the names of the suites to run; "": all suites */
    const char *kind, *forcing, *suite;
    int prompts, n_methods, n_claims;
    const char *method[METHODS];
    struct kvr_claim *claim[TOGETHER];
    char name[METHODS][96]; /* storage for the names of the methods' other variants */
};

struct settle {
    const struct kvr_settle_options *o;
    struct kvr_settle_summary *sum;
    struct kvr_ledger l;
    struct plan plan[PLANS];
    int n_plans;
    struct kvr_table *measured; /* rows of settle_prompts.sql; NULL: no database */
    int64_t begun_ns;
    /* [n_stuck] ids (owned strings) of claims whose round measured no new cell; they get no further
     * round */
    char **stuck;
    int n_stuck;
    struct round r; /* the current round */
};

/* --- key `settle` of the ledger --------------------------------------------------------- */

/* Reads the path and the name of a suite, and counts its prompts before the first held-out
 * prompt. */
static enum kvr_status read_suite_info(const struct kvr_yaml_node *suite, const char *ledger,
                                       char path[PATH_MAX], char *name, size_t size, int *n)
{
    const char *text;
    struct kvr_suite s;

    KVR_TRY(kvr_yaml_string(suite, &text));
    if (kvr_find_path(&kvr_find_suite, text, ledger, path, PATH_MAX) != KVR_OK)
        return kvr_yaml_fail(suite, "%s", kvr_error());
    KVR_TRY(kvr_suite_read(&s, path));
    *n = 0;
    while (*n < s.n_prompts && !s.prompt[*n].held_out)
        ++*n;
    snprintf(name, size, "%s", s.name);
    kvr_suite_free(&s);
    return KVR_OK;
}

static enum kvr_status int_of(const struct kvr_yaml_node *map, const char *key, long long other,
                              long long *out)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(map, key);

    *out = other;
    return n ? kvr_yaml_int(n, 0, 100000, out) : KVR_OK;
}

/* Checks that node `n` is NULL, or that it is a list or map (`kind`) whose values are scalars. */
static enum kvr_status check_texts(const struct kvr_yaml_node *n, enum kvr_yaml_kind kind,
                                   const char *need)
{
    const char *text;

    if (n && n->kind != kind)
        return kvr_yaml_fail(n, "settle: need %s", need);
    for (int i = 0; n && i < n->n; i++)
        KVR_TRY(kvr_yaml_string(n->item[i], &text));
    return KVR_OK;
}

static enum kvr_status read_plan(struct plan *p, const struct kvr_yaml_node *n, const char *ledger)
{
    static const char *const keys[] = { "model",   "suites",  "frames", "window",
                                        "control", "metrics", "set",    NULL };
    const struct kvr_yaml_node *suites;

    *p = (struct plan){ .most = INT_MAX };
    KVR_TRY(kvr_yaml_keys(n, keys));
    suites = kvr_yaml_get(n, "suites");
    if (!kvr_yaml_get(n, "model") || !suites)
        return kvr_yaml_fail(n, "settle: each map of the section 'settle' needs a key '%s'",
                             suites ? "model" : "suites");
    if (kvr_yaml_count(suites) > SUITES)
        return kvr_yaml_fail(suites, "settle: 'suites' lists %d suites, at most %d are allowed",
                             kvr_yaml_count(suites), SUITES);
    KVR_TRY(kvr_yaml_string(kvr_yaml_get(n, "model"), &p->model));
    KVR_TRY(int_of(n, "frames", 42, &p->frames));
    KVR_TRY(int_of(n, "window", 21, &p->window));
    KVR_TRY(int_of(n, "control", 2, &p->control));
    p->metrics = kvr_yaml_get(n, "metrics");
    p->set = kvr_yaml_get(n, "set");
    KVR_TRY(check_texts(p->metrics, KVR_YAML_LIST, "'metrics' to be a list of metric names"));
    KVR_TRY(check_texts(p->set, KVR_YAML_MAP, "'set' to be a map of settings to their values"));
    for (int i = 0; i < kvr_yaml_count(suites); i++) {
        int here = 0;

        KVR_TRY(read_suite_info(kvr_yaml_at(suites, i), ledger, p->file[i], p->suite[i],
                                sizeof p->suite[i], &here));
        p->n_suites++;
        p->most = here < p->most ? here : p->most;
    }
    return KVR_OK;
}

/* Reads the ledger (YAML file of claims): the value of its key `settle` is one map, or a list of
 * maps, one per model. The first map also applies to claims that name no model. */
static enum kvr_status read_plans(struct settle *s)
{
    const struct kvr_yaml_node *n = s->l.settle;

    if (!n)
        return kvr_fail(KVR_EINVAL,
                        "settle: the claims ledger %s has no section 'settle', which "
                        "names the models and the suites of each model",
                        s->o->ledger ? s->o->ledger : "results/claims.yaml");
    if (kvr_yaml_count(n) > PLANS)
        return kvr_yaml_fail(n,
                             "settle: the section 'settle' lists %d models, at most %d are allowed",
                             kvr_yaml_count(n), PLANS);
    s->n_plans = 0;
    for (int i = 0; i < kvr_yaml_count(n); i++)
        KVR_TRY(read_plan(&s->plan[s->n_plans++], kvr_yaml_at(n, i), s->o->ledger));
    return KVR_OK;
}

/* Returns the entry of the key `settle` for the claim's model. NULL: there is no entry. */
static const struct plan *plan_of(const struct settle *s, const struct kvr_claim *c)
{
    for (int i = 0; i < s->n_plans; i++)
        if (strcmp(s->plan[i].model, c->model[0] ? c->model : s->plan[0].model) == 0)
            return &s->plan[i];
    return NULL;
}

/* --- measured prompts and verdict of a claim -------------------------------------------- */

static bool in_suite(const struct plan *p, int i, const char *prefix)
{
    return strncmp(p->suite[i], prefix, strlen(prefix)) == 0;
}

static int suites_of(const struct plan *p, const char *prefix)
{
    int n = 0;

    for (int i = 0; i < p->n_suites; i++)
        n += in_suite(p, i, prefix);
    return n;
}

static int prompts_of(const struct kvr_table *t, const struct kvr_claim *c, const char *method,
                      const char *suite, const char *model)
{
    const char *const key[] = { method, suite, c->kind, c->forcing, model };

    for (int i = 0; i < t->n_rows; i++) {
        int same = 0;

        while (same < 5 && strcmp(kvr_table_text(t, i, same), key[same]) == 0)
            same++;
        if (same == 5)
            return (int)kvr_table_number(t, i, 5);
    }
    return 0;
}

/* Returns the smallest number of measured prompts over the claim's methods and suites. */
static int prompts_now(const struct settle *s, const struct kvr_claim *c)
{
    const struct plan *p = plan_of(s, c);
    int least = INT_MAX;

    for (int i = 0; c->needs[i]; i++)
        for (int k = 0; k < p->n_suites; k++) {
            int n = 0;

            if (!in_suite(p, k, c->suite))
                continue;
            if (s->measured)
                n = prompts_of(s->measured, c, c->needs[i], p->suite[k], p->model);
            least = n < least ? n : least;
        }
    return least;
}

double kvr_settle_goal(double n_needed, int most)
{
    return n_needed > most ? fmin(n_needed, KVR_CLAIMS_FUTILE_AFTER) : n_needed;
}

int kvr_settle_next(double n_needed, int n, int now, int n_suites, int most)
{
    const double first = ceil((double)KVR_SEQUENCE_MIN / n_suites);
    double target;
    int rounded;

    if (now == 0 || n == 0)
        target = now + first;
    else if (n < KVR_SEQUENCE_MIN)
        target = fmax(now + 3, ceil((double)now * KVR_SEQUENCE_MIN / n));
    else
        target = fmax(now + 3, ceil((double)now * fmin(n_needed, 2.0 * n) / n));
    target = fmin(target, most);
    rounded = 3 * (int)ceil(target / 3);
    rounded = rounded < most ? rounded : most;
    return rounded > now ? rounded : now;
}

/* Returns whether more prompts can decide the claim. The claim must have no verdict yet and must
 * not compare runtimes. The ledger's key `settle` must have an entry for the claim's model. */
static bool is_open(const struct settle *s, const struct kvr_claim *c)
{
    if (c->hidden || c->verdict != KVR_CLAIM_OPEN || c->relation > KVR_CLAIM_SQL || !c->needs[0] ||
        strncmp(c->metric, "runtime", 7) == 0 || !plan_of(s, c) ||
        suites_of(plan_of(s, c), c->suite) == 0)
        return false;
    for (int i = 0; i < s->n_stuck; i++)
        if (strcmp(s->stuck[i], c->id) == 0)
            return false;
    return true;
}

/* --- claims of the next round ----------------------------------------------------------- */

static bool has_method(const struct round *r, const char *name)
{
    for (int i = 0; i < r->n_methods; i++)
        if (strcmp(r->method[i], name) == 0)
            return true;
    return false;
}

static void add_methods(struct round *r, const struct kvr_claim *c)
{
    for (int i = 0; c->needs[i]; i++)
        if (!has_method(r, c->needs[i]) && r->n_methods < METHODS)
            r->method[r->n_methods++] = c->needs[i];
}

static double goal_of(const struct settle *s, const struct kvr_claim *c)
{
    return kvr_settle_goal(c->n_needed, s->o->most > 0 ? s->o->most : KVR_CLAIMS_MOST);
}

/* Estimates the CPU time in seconds that the claim needs for a verdict. If no estimate exists, the
 * result is 0, and the claim is measured first. */
static double to_pay(const struct settle *s, const struct kvr_claim *c)
{
    const double missing = c->n_needed - c->s.n;

    if (!isfinite(c->cost_s) || c->s.n < KVR_SEQUENCE_MIN || !(missing > 0))
        return 0;
    return c->cost_s * fmax(0, goal_of(s, c) - c->s.n) / missing;
}

/* Chooses the claims of the next round. The first is the open claim (without a verdict) that needs
 * the least CPU time. The others are open claims that need at most 1.5 times this CPU time, with
 * the same settings and number of prompts. */
static enum kvr_status choose_round(struct settle *s, struct round *r)
{
    struct kvr_claim *first = NULL;
    int now;

    *r = (struct round){ 0 };
    s->sum->open = 0;
    for (int i = 0; i < s->l.n_claims; i++) {
        struct kvr_claim *c = &s->l.claim[i];

        if (!is_open(s, c))
            continue;
        now = prompts_now(s, c);
        c->next = kvr_settle_next(goal_of(s, c), c->s.n, now, suites_of(plan_of(s, c), c->suite),
                                  plan_of(s, c)->most);
        if (c->next <= now)
            continue;
        s->sum->open++;
        if (!first || to_pay(s, c) < to_pay(s, first) ||
            (to_pay(s, c) == to_pay(s, first) && c->next < first->next))
            first = c;
    }
    if (!first)
        return KVR_OK;
    r->plan = plan_of(s, first);
    r->kind = first->kind;
    r->forcing = first->forcing;
    r->suite = first->suite;
    r->prompts = first->next;
    for (int i = 0; i < s->l.n_claims && r->n_claims < TOGETHER; i++) {
        struct kvr_claim *c = &s->l.claim[i];

        if (!is_open(s, c) || plan_of(s, c) != r->plan || c->next != first->next ||
            strcmp(c->kind, r->kind) != 0 || strcmp(c->forcing, r->forcing) != 0 ||
            strcmp(c->suite, r->suite) != 0 || to_pay(s, c) > 1.5 * to_pay(s, first))
            continue;
        r->claim[r->n_claims++] = c;
        add_methods(r, c);
    }
    return KVR_OK;
}

/* --- sweep file of a round -------------------------------------------------------------- */

/* Writes BEFORE'text'AFTER. */
static void put_quoted(FILE *f, const char *before, const char *text, const char *after)
{
    fprintf(f, "%s'", before);
    for (; *text; text++)
        if (*text == '\'')
            fputs("''", f);
        else
            fputc(*text, f);
    fprintf(f, "'%s", after);
}

/* Writes a scalar of the ledger, in quotes if the ledger quotes it or if it contains special
 * characters of YAML. Others, such as numbers and ranges, are written without quotes. */
static void put_scalar(FILE *f, const struct kvr_yaml_node *n, const char *after)
{
    if (n->quoted || strpbrk(n->text, ",[]{}:#&*!|>'\"%@`"))
        put_quoted(f, "", n->text, after);
    else
        fprintf(f, "%s%s", n->text, after);
}

static void put_method(FILE *f, const struct settle *s, const char *label)
{
    const struct kvr_yaml_node *n = kvr_ledger_method(&s->l, label), *options;

    if (!n) {
        put_quoted(f, "  - ", label, "\n");
        return;
    }
    put_quoted(f, "  - {method: ", kvr_yaml_get(n, "method")->text, ", options: {");
    options = kvr_yaml_get(n, "options");
    for (int i = 0; options && i < options->n; i++) {
        put_quoted(f, i ? ", " : "", options->key[i]->text, ": ");
        put_scalar(f, options->item[i], "");
    }
    put_quoted(f, "}, label: ", label, "}\n");
}

static bool is_wanted(const struct settle *s, const struct plan *p, const char *metric)
{
    const struct kvr_yaml_node *more = p->metrics;

    /* PSNR is needed to find prompts whose BF16 rollout can end in two different videos. */
    if (strcmp(metric, "psnr") == 0)
        return true;
    for (int i = 0; more && i < kvr_yaml_count(more); i++)
        if (strcmp(kvr_yaml_at(more, i)->text, metric) == 0)
            return true;
    for (int i = 0; i < s->l.n_claims; i++)
        if (plan_of(s, &s->l.claim[i]) == p && strcmp(s->l.claim[i].metric, metric) == 0)
            return true;
    return false;
}

/* Writes PSNR, the metrics that plan `p` lists, and the metrics of all claims about its model.
 * Every round lists the same metrics, so that later rounds can use the cells of earlier rounds. */
static void put_metrics(FILE *f, const struct settle *s, const struct plan *p)
{
    const char *between = "";

    for (int i = 0; kvr_metrics[i]; i++)
        if (is_wanted(s, p, kvr_metrics[i]->name)) {
            fprintf(f, "%s%s", between, kvr_metrics[i]->name);
            between = ", ";
        }
}

static void put_sweep(FILE *f, const struct settle *s, const struct round *r)
{
    const struct plan *p = r->plan;

    fputs("question: which of the papers' claims hold?\nname: settle\n", f);
    put_quoted(f, "model: ", p->model, "\nsuite:\n");
    for (int i = 0; i < p->n_suites; i++)
        if (in_suite(p, i, r->suite)) {
            put_quoted(f, "  - {suite: ", p->file[i], "");
            fprintf(f, ", prompts: %d}\n", r->prompts);
        }
    fprintf(f,
            "frames: %lld\nwindow: %lld\ncontrol: %lld\nbaselines: none\nprobe_every: 4\n"
            "videos: false\ntimeout_s: 1800\n",
            p->frames, p->window, p->control);
    put_quoted(f, "kind: [", r->kind, "]\n");
    put_quoted(f, "forcing: [", r->forcing, "]\nmetrics: [");
    put_metrics(f, s, p);
    fputs("]\n", f);
    for (int i = 0; p->set && i < p->set->n; i++) {
        put_quoted(f, "", p->set->key[i]->text, ": ");
        put_scalar(f, p->set->item[i], "\n");
    }
    fprintf(f, "methods:\n  - %s\n", kvr_reference_method);
    for (int i = 0; i < r->n_methods; i++)
        if (!kvr_is_reference_method(r->method[i]))
            put_method(f, s, r->method[i]);
}

static enum kvr_status write_sweep(const struct settle *s, const struct round *r, char **path)
{
    enum kvr_status st;
    char *text;
    size_t n;
    FILE *to;

    *path = kvr_path_join(s->o->out, "settle.yaml");
    if (!*path)
        return kvr_fail(KVR_ENOMEM, "settle: out of memory");
    KVR_TRY(kvr_mkdirs(s->o->out));
    to = kvr_text_open(&text, &n);
    if (to)
        put_sweep(to, s, r);
    if (!kvr_text_close(to, &text))
        return kvr_fail(KVR_ENOMEM, "settle: out of memory");
    st = kvr_out_save(*path, text, n);
    free(text);
    return st;
}

/* --- rounds ----------------------------------------------------------------------------- */

static int left_s(const struct settle *s)
{
    const double gone = (double)(kvr_now_ns() - s->begun_ns) * 1e-9;

    return s->o->budget_s > 0 ? (int)(s->o->budget_s - gone) : INT_MAX;
}

/* Marks the round's claims as stuck. An unmarked claim would be chosen again, without end. */
static enum kvr_status mark_stuck(struct settle *s, const struct round *r)
{
    char **more;

    if (r->n_claims == 0)
        return KVR_OK;
    more = realloc(s->stuck, (size_t)(s->n_stuck + r->n_claims) * sizeof *more);
    if (!more)
        return kvr_fail(KVR_ENOMEM, "settle: out of memory");
    s->stuck = more;
    for (int i = 0; i < r->n_claims; i++) {
        more[s->n_stuck] = strdup(r->claim[i]->id);
        if (!more[s->n_stuck])
            return kvr_fail(KVR_ENOMEM, "settle: out of memory");
        s->n_stuck++;
    }
    s->sum->stuck += r->n_claims;
    return KVR_OK;
}

static void show_round(const struct settle *s, const struct round *r)
{
    FILE *f = s->o->progress;

    fprintf(f, "settle: round %d: ", s->sum->rounds + 1);
    if (r->n_claims)
        fprintf(f, "%d of %d open claims (first: %s)", r->n_claims, s->sum->open, r->claim[0]->id);
    else
        fprintf(f, "%s",
                strcmp(r->forcing, "teacher") ? "other versions of the methods"
                                              : "rollouts with teacher forcing");
    fprintf(f, ": %d methods, %d prompts per suite\n", r->n_methods, r->prompts);
}

static bool is_stopped(const struct settle *s)
{
    return s->sum->interrupted || s->sum->out_of_budget;
}

static enum kvr_status run_round(struct settle *s, const struct round *r)
{
    struct kvr_run_summary run = { 0 };
    struct kvr_run_options o = { .db_path = s->o->db,
                                 .out_dir = s->o->out,
                                 .jobs = s->o->jobs,
                                 .sweep.preferences = s->o->preferences,
                                 .argc = s->o->argc,
                                 .argv = s->o->argv };
    char *path = NULL;
    enum kvr_status st = write_sweep(s, r, &path);

    if (st != KVR_OK) {
        free(path);
        return st;
    }
    o.sweep.path = path;
    o.budget_s = s->o->budget_s > 0 ? left_s(s) : 0;
    s->sum->out_of_budget = s->o->budget_s > 0 && o.budget_s < 1;
    if (s->o->progress)
        show_round(s, r);
    if (!s->sum->out_of_budget)
        st = kvr_run(&o, &run);
    free(path);
    s->sum->rounds++;
    s->sum->cells += run.ok;
    s->sum->failed += run.failed;
    s->sum->interrupted = run.interrupted && !(run.limited && s->o->budget_s > 0);
    s->sum->out_of_budget = s->sum->out_of_budget || (run.limited > 0 && s->o->budget_s > 0);
    if (st == KVR_OK && run.ok == 0 && !is_stopped(s))
        st = mark_stuck(s, r);
    return st;
}

static enum kvr_status judge(struct settle *s)
{
    const char *db = kvr_path_exists(s->o->db) ? s->o->db : NULL;

    kvr_ledger_free(&s->l);
    kvr_table_close(&s->measured);
    if (db)
        KVR_TRY(kvr_table_query(&s->measured, db, kvr_statement_settle_prompts, NULL));
    KVR_TRY(
        kvr_claims(&s->l, s->o->ledger, db, &(struct kvr_claims_options){ .most = s->o->most }));
    KVR_TRY(kvr_settle_choose(&s->l, s->o->ids));
    return read_plans(s);
}

/* With `teacher`, runs the methods of all tested claims with teacher forcing. Otherwise, runs their
 * other variants: NAME@study for a method NAME, and NAME for NAME@study. */
static enum kvr_status run_elsewhere(struct settle *s, bool teacher)
{
    struct round *r = &s->r;

    *r = (struct round){ .plan = &s->plan[0],
                         .kind = "bench",
                         .forcing = teacher ? "teacher" : "none",
                         .suite = "",
                         .prompts = s->o->elsewhere };
    for (int i = 0; i < s->l.n_claims; i++) {
        const struct kvr_claim *c = &s->l.claim[i];

        if (c->hidden || !c->tested || plan_of(s, c) != r->plan || c->relation > KVR_CLAIM_ALIKE ||
            strcmp(c->kind, "bench") != 0)
            continue;
        for (int k = 0; c->needs[k] && r->n_methods < METHODS; k++) {
            char *name = r->name[r->n_methods];

            if (teacher)
                snprintf(name, sizeof r->name[0], "%s", c->needs[k]);
            else
                kvr_claim_other_reading(c->needs[k], name, sizeof r->name[0]);
            if (has_method(r, name) || (!teacher && !kvr_claim_has_reading(name)))
                continue;
            r->method[r->n_methods++] = name;
        }
    }
    return r->n_methods ? run_round(s, r) : KVR_OK;
}

static enum kvr_status run_all(struct settle *s)
{
    for (;;) {
        KVR_TRY(judge(s));
        KVR_TRY(choose_round(s, &s->r));
        if (is_stopped(s) || s->r.n_claims == 0)
            break;
        KVR_TRY(run_round(s, &s->r));
    }
    if (s->o->elsewhere > 0 && !is_stopped(s))
        KVR_TRY(run_elsewhere(s, false));
    return s->o->elsewhere > 0 && !is_stopped(s) ? run_elsewhere(s, true) : KVR_OK;
}

enum kvr_status kvr_settle_choose(struct kvr_ledger *l, const char *const *ids)
{
    if (!ids)
        return KVR_OK;
    for (int i = 0; i < l->n_claims; i++)
        l->claim[i].hidden = true;
    for (int k = 0; ids[k]; k++) {
        bool found = false;

        for (int i = 0; i < l->n_claims; i++)
            if (strcmp(l->claim[i].id, ids[k]) == 0) {
                l->claim[i].hidden = false;
                found = true;
            }
        if (!found) {
            const char *names[1024], *near;
            int n = 0;

            for (int i = 0; i < l->n_claims && n < 1023; i++)
                names[n++] = l->claim[i].id;
            names[n] = NULL;
            near = kvr_nearest(ids[k], names);
            return kvr_fail(KVR_ENOTFOUND, "settle: the claims ledger has no claim '%s'%s%s%s",
                            ids[k], near ? "; did you mean '" : "", near ? near : "",
                            near ? "'?" : "");
        }
    }
    return KVR_OK;
}

enum kvr_status kvr_settle(const struct kvr_settle_options *options, struct kvr_settle_summary *out)
{
    struct settle *s = calloc(1, sizeof *s);
    enum kvr_status st;

    *out = (struct kvr_settle_summary){ 0 };
    if (!s)
        return kvr_fail(KVR_ENOMEM, "settle: out of memory");
    s->o = options;
    s->sum = out;
    s->begun_ns = kvr_now_ns();
    st = run_all(s);
    for (int i = 0; i < s->n_stuck; i++)
        free(s->stuck[i]);
    free(s->stuck);
    kvr_table_close(&s->measured);
    kvr_ledger_free(&s->l);
    free(s);
    return st;
}
