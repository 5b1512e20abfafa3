/* reproduce_llm.c - tests what the paper on bias correction states about language models, on runs
 * of kvreel with a compressed prefix. Each claim states the sign of a difference. The test is that
 * of pairs.h, Holm-adjusted over all tested claims. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/prefill.h"
#include "harness/report/table/published.h"
#include "harness/report/reproduce/reproduce_papers.h"

enum { TEXT = 320 };

struct claim {
    const char *quantity, *published;
    char suite[48], method[128], basis[TEXT], reason[TEXT];
    double measured;
    /* the tested difference, with the sign for which positive values support the claim; c.n = 0:
     * the claim is not tested */
    struct kvr_comparison c;
    double holm;
    enum kvr_verdict verdict;
};

struct claims {
    struct kvr_prefill p;
    struct kvr_published claims;
    struct claim *claim; /* [n] */
    int n, capacity;
};

static const char *published(const struct claims *w, const char *quantity)
{
    const int row = kvr_published_find(&w->claims, quantity);

    return row < 0 ? "" : kvr_published_cell(&w->claims, row, "published");
}

/* Adds a claim about a run and returns it. NULL: out of memory. */
static struct claim *add(struct claims *w, const struct kvr_prefill_run *run, const char *quantity)
{
    struct claim *c;

    if (w->n == w->capacity) {
        const int capacity = 2 * w->capacity + 16;
        struct claim *more = realloc(w->claim, (size_t)capacity * sizeof *more);

        if (!more) {
            kvr_fail(KVR_ENOMEM, "reproduce: out of memory");
            return NULL;
        }
        w->claim = more;
        w->capacity = capacity;
    }
    c = &w->claim[w->n++];
    *c = (struct claim){ .quantity = quantity,
                         .published = published(w, quantity),
                         .measured = NAN,
                         .verdict = KVR_VERDICT_CANNOT_TELL };
    snprintf(c->suite, sizeof c->suite, "chunks of %d", run->chunk);
    snprintf(c->method, sizeof c->method, "%s", run->method);
    return c;
}

static void say_interval(struct claim *c, double sign)
{
    c->measured = sign * c->c.mean;
    if (c->c.n > 1)
        snprintf(c->basis, sizeof c->basis, "texts: %d, 95 %% interval: %.4f .. %.4f", c->c.n,
                 sign > 0 ? c->c.ci.lo : -c->c.ci.hi, sign > 0 ? c->c.ci.hi : -c->c.ci.lo);
    else
        snprintf(c->basis, sizeof c->basis, "texts: %d", c->c.n);
}

/* --- the five claims of the paper ------------------------------------------------------- */

/* Adds the claim that metric `value` is higher in run `high` than in run `low`. The table shows the
 * difference high - low times `sign`; with -1, it shows low - high. */
static enum kvr_status claim_above(struct claims *w, const struct kvr_prefill_run *run,
                                   const char *quantity, const struct kvr_prefill_run *high,
                                   const struct kvr_prefill_run *low, enum kvr_prefill_value value,
                                   double sign)
{
    struct claim *c = add(w, run, quantity);

    if (!c)
        return KVR_ENOMEM;
    KVR_TRY(kvr_prefill_compare(&w->p, high, low, value, &c->c));
    say_interval(c, sign);
    return KVR_OK;
}

/* Adds the claim that the corrected method has a lower negative log-likelihood than BF16 for some
 * prefix lengths. Counts these prefix lengths, and those whose difference is significant. */
static enum kvr_status claim_below(struct claims *w, const struct kvr_prefill_run *taylor)
{
    struct claim *c = add(w, taylor, "below_bf16");
    int places = 0, below = 0, surely = 0;

    if (!c)
        return KVR_ENOMEM;
    for (int i = 0; i < w->p.n; i++) {
        const struct kvr_prefill_run *r = &w->p.run[i];
        const struct kvr_prefill_run *bf16 = kvr_prefill_baseline(&w->p, r);
        struct kvr_comparison d;

        if (strcmp(r->method, taylor->method) != 0 || strcmp(r->settings, taylor->settings) != 0 ||
            r->chunk != taylor->chunk || r->prefix == 0 || !bf16)
            continue;
        KVR_TRY(kvr_prefill_compare(&w->p, r, bf16, KVR_PREFILL_NLL, &d));
        places++;
        below += kvr_prefill_mean(&w->p, r, KVR_PREFILL_NLL) <
                 kvr_prefill_mean(&w->p, bf16, KVR_PREFILL_NLL);
        surely += d.mean < 0 && kvr_separable(&d, d.p);
    }
    c->measured = below;
    if (taylor->n_texts >= KVR_PAIRS_MIN)
        c->verdict = below ? KVR_VERDICT_HOLDS : KVR_VERDICT_FAILS;
    snprintf(c->basis, sizeof c->basis, "texts: %d, prefixes: %d", taylor->n_texts, places);
    snprintf(c->reason, sizeof c->reason,
             "number of prefix lengths at which the NLL, averaged over all tokens, is below "
             "BF16's; it is significantly below, paired by text, at %d prefix lengths",
             surely);
    return KVR_OK;
}

/* Adds the claim that the correction moves the attention mass on the prefix closer to that of BF16.
 * The claim compares the absolute difference from BF16, averaged over texts. */
static enum kvr_status claim_nearer(struct claims *w, const struct kvr_prefill_run *carrier,
                                    const struct kvr_prefill_run *taylor)
{
    struct claim *c = add(w, taylor, "mass_shift_left");
    struct kvr_comparison shift;

    if (!c)
        return KVR_ENOMEM;
    KVR_TRY(kvr_prefill_compare(&w->p, carrier, taylor, KVR_PREFILL_MASS_DISTANCE, &c->c));
    KVR_TRY(kvr_prefill_compare(&w->p, taylor, NULL, KVR_PREFILL_MASS_SHIFT, &shift));
    say_interval(c, -1);
    snprintf(
        c->reason, sizeof c->reason,
        "with the Taylor correction, the attention mass on the prefix differs from BF16's by %+.4f",
        shift.mean);
    return KVR_OK;
}

/* --- the best methods, which the paper does not rank ------------------------------------- */

typedef bool wanted_fn(const struct kvr_prefill_run *r, const struct kvr_prefill_run *of);

static bool corrects(const struct kvr_prefill_run *r, const struct kvr_prefill_run *of)
{
    return strcmp(r->carrier, of->method) == 0 && strcmp(r->method, of->method) != 0;
}

/* Returns whether run `r` stores at most 10 % more bits than run `of`. The tolerance includes
 * corrected methods: a correction adds less than 10 % to the bits of its method. */
static bool as_small(const struct kvr_prefill_run *r, const struct kvr_prefill_run *of)
{
    return !r->baseline && r->bits <= of->bits * 1.1;
}

/* Finds the two methods with the smallest increase in negative log-likelihood over BF16, with the
 * settings, chunk length and prefix length of run `of`. BF16's value is subtracted text by text, so
 * that a method which lacks some texts is not favoured. */
static void best_two(const struct claims *w, const struct kvr_prefill_run *of, wanted_fn *wanted,
                     const struct kvr_prefill_run *best[2])
{
    best[0] = best[1] = NULL;
    for (int i = 0; i < w->p.n; i++) {
        const struct kvr_prefill_run *r = &w->p.run[i];
        double lost;

        if (!kvr_prefill_same_condition(r, of) || !wanted(r, of))
            continue;
        lost = kvr_prefill_mean(&w->p, r, KVR_PREFILL_D_NLL);
        if (!best[0] || lost < kvr_prefill_mean(&w->p, best[0], KVR_PREFILL_D_NLL)) {
            best[1] = best[0];
            best[0] = r;
        } else if (!best[1] || lost < kvr_prefill_mean(&w->p, best[1], KVR_PREFILL_D_NLL)) {
            best[1] = r;
        }
    }
}

static enum kvr_status say_best(struct claims *w, const struct kvr_prefill_run *of,
                                const char *quantity, wanted_fn *wanted)
{
    const struct kvr_prefill_run *best[2];
    struct kvr_comparison d;
    struct claim *c;

    best_two(w, of, wanted, best);
    if (!best[1])
        return KVR_OK;
    c = add(w, best[0], quantity);
    if (!c)
        return KVR_ENOMEM;
    KVR_TRY(kvr_prefill_compare(&w->p, best[0], best[1], KVR_PREFILL_NLL, &d));
    c->verdict = KVR_VERDICT_NOT_PUBLISHED;
    c->measured = kvr_prefill_mean(&w->p, best[0], KVR_PREFILL_D_NLL);
    snprintf(c->basis, sizeof c->basis, "texts: %d, %.2f bits", best[0]->n_texts, best[0]->bits);
    snprintf(c->reason, sizeof c->reason,
             "NLL minus the second-best method's (%.60s at %.2f bits per element): %+.4f, %s",
             best[1]->method, best[1]->bits, d.mean,
             kvr_separable(&d, d.p) ? "significant" : "not significant");
    return KVR_OK;
}

/* --- all claims ------------------------------------------------------------------------- */

static enum kvr_status claim_carrier(struct claims *w, const struct kvr_prefill_run *carrier,
                                     const struct kvr_prefill_run *taylor)
{
    const struct kvr_prefill_run *bf16 = kvr_prefill_baseline(&w->p, carrier);

    if (!bf16)
        return KVR_OK;
    KVR_TRY(claim_above(w, carrier, "d_nll", carrier, bf16, KVR_PREFILL_NLL, 1));
    KVR_TRY(claim_above(w, taylor, "gain", carrier, taylor, KVR_PREFILL_NLL, -1));
    KVR_TRY(claim_below(w, taylor));
    KVR_TRY(claim_above(w, carrier, "mass_shift", carrier, bf16, KVR_PREFILL_MASS, 1));
    KVR_TRY(claim_nearer(w, carrier, taylor));
    return say_best(w, carrier, "best_correction", corrects);
}

static enum kvr_status claim_all(struct claims *w)
{
    const struct kvr_prefill_run *last = NULL;

    for (int i = 0; i < w->p.n; i++) {
        const struct kvr_prefill_run *taylor = &w->p.run[i];
        const struct kvr_prefill_run *carrier = kvr_prefill_carrier(&w->p, taylor);

        if (taylor->prefix != 0 || !carrier || strcmp(taylor->correction, "taylor") != 0)
            continue;
        if (last && !kvr_prefill_same_condition(last, carrier))
            KVR_TRY(say_best(w, last, "best_method", as_small));
        KVR_TRY(claim_carrier(w, carrier, taylor));
        last = carrier;
    }
    return last ? say_best(w, last, "best_method", as_small) : KVR_OK;
}

static enum kvr_status judge(struct claims *w)
{
    double *p = calloc(2 * (size_t)w->n + 1, sizeof *p);
    int tests = 0;
    enum kvr_status st = p ? KVR_OK : kvr_fail(KVR_ENOMEM, "reproduce: out of memory");

    for (int i = 0; p && i < w->n; i++) {
        p[i] = w->claim[i].c.n ? w->claim[i].c.p : NAN;
        tests += w->claim[i].c.n > 0;
    }
    if (st == KVR_OK)
        st = kvr_holm(p, w->n, p + w->n);
    for (int i = 0; st == KVR_OK && i < w->n; i++) {
        struct claim *c = &w->claim[i];
        const int missing = kvr_pairs_needed(tests, 0.95) - c->c.n;
        const size_t used = strlen(c->reason);

        if (c->c.n == 0)
            continue;
        if (kvr_separable(&c->c, p[w->n + i]))
            c->verdict = c->c.mean > 0 ? KVR_VERDICT_HOLDS : KVR_VERDICT_FAILS;
        else if (missing > 0)
            snprintf(
                c->reason + used, sizeof c->reason - used,
                "%sa significant difference in %d Holm-adjusted tests needs at least %d more texts",
                used ? "; " : "", tests, missing);
        else
            snprintf(c->reason + used, sizeof c->reason - used,
                     "%sthe difference is not significant: p = %.2g, Holm-adjusted over %d tests",
                     used ? "; " : "", p[w->n + i], tests);
    }
    free(p);
    return st;
}

static enum kvr_status write_rows(struct kvr_repro *r, const struct claims *w)
{
    for (int i = 0; i < w->n; i++) {
        const struct claim *c = &w->claim[i];
        const struct kvr_repro_row row = {
            .suite = c->suite,
            .method = c->method,
            .quantity = c->quantity,
            .published = c->published,
            .measured = c->measured,
            .tolerance = NAN,
            .basis = c->basis,
            .verdict = c->verdict,
            .reason = c->reason,
        };

        KVR_TRY(kvr_repro_add(r, &row));
    }
    return KVR_OK;
}

/* Writes the published claims without measured values, because the database has no runs. */
static enum kvr_status write_claims(struct kvr_repro *r, const struct claims *w)
{
    for (int i = 0; i < w->claims.n_rows; i++) {
        const struct kvr_repro_row row = {
            .suite = "",
            .method = kvr_published_cell(&w->claims, i, "of"),
            .quantity = kvr_published_cell(&w->claims, i, "quantity"),
            .published = kvr_published_cell(&w->claims, i, "published"),
            .measured = NAN,
            .tolerance = NAN,
            .basis = "",
            .verdict = KVR_VERDICT_NOT_MEASURED,
            .reason =
                r->db_path
                    ? "no finished cells of a language model; run configs/partial-prefill.yaml"
                    : "no database given; add --db FILE",
        };

        KVR_TRY(kvr_repro_add(r, &row));
    }
    return KVR_OK;
}

enum kvr_status kvr_reproduce_jensen_llm(struct kvr_repro *r)
{
    struct claims w = { 0 };
    enum kvr_status st;

    KVR_TRY(kvr_published_read(&w.claims, "jensen_llm_claims"));
    st = r->db_path ? kvr_prefill_read(&w.p, r->db_path) : KVR_OK;
    if (st == KVR_OK)
        st = claim_all(&w);
    if (st == KVR_OK)
        st = judge(&w);
    if (st == KVR_OK)
        st = w.n ? write_rows(r, &w) : write_claims(r, &w);
    free(w.claim);
    kvr_prefill_free(&w.p);
    kvr_published_free(&w.claims);
    return st;
}
