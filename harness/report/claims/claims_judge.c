/* claims_judge.c - derives verdicts from samples. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/table/chaos.h"
#include "harness/report/claims/claims.h"
#include "harness/store/statement.h"
#include "methods/method.h"

KVR_STATEMENT(claims_floor);
KVR_STATEMENT(claims_cost);

static const double alpha = 0.05;

/* --- margins ---------------------------------------------------------------------------- */

static double floor_of(const struct kvr_table *floors, const char *metric)
{
    for (int i = 0; floors && i < floors->n_rows; i++)
        if (strcmp(kvr_table_text(floors, i, 0), metric) == 0)
            return kvr_table_number(floors, i, 1);
    return NAN;
}

/* Returns the effect of chaos on the claim's metric, that is, the difference that BF16's draws
 * (reruns with slightly perturbed noise) alone cause. 0: unknown. */
static double chaos(const struct kvr_table *floors, const struct kvr_claim *c)
{
    const double floor = floor_of(floors, c->metric);
    const double level = fmax(c->level_a, c->level_b); /* fmax ignores NaN */

    if (!isfinite(floor))
        return 0;
    if (strncmp(c->metric, "ssim", 4) == 0)
        return 1 - floor;
    if (strcmp(c->metric, "psnr") == 0 && isfinite(level))
        return 10 * log10(1 + pow(10, (level - floor) / 10));
    return 0;
}

/* --- costs ------------------------------------------------------------------------------ */

static double seconds_of(const struct kvr_table *costs, const struct kvr_claim *c,
                         const char *method)
{
    for (int i = 0; costs && i < costs->n_rows; i++)
        if (strcmp(kvr_table_text(costs, i, 0), method) == 0 &&
            strcmp(kvr_table_text(costs, i, 1), c->kind) == 0 &&
            strcmp(kvr_table_text(costs, i, 2), c->forcing) == 0)
            return kvr_table_number(costs, i, 3);
    return NAN;
}

/* Returns the wall time in seconds to run the cells of one more prompt for the claim's methods and
 * BF16, from the mean wall time per cell. */
static double prompt_seconds(const struct kvr_table *costs, const struct kvr_claim *c)
{
    double sum = 0;
    bool reference = false;

    for (int i = 0; c->needs[i]; i++) {
        sum += seconds_of(costs, c, c->needs[i]);
        reference = reference || kvr_is_reference_method(c->needs[i]);
    }
    return reference || !c->needs[0] ? sum : sum + seconds_of(costs, c, kvr_reference_method);
}

static double all_seconds(const struct kvr_table *costs)
{
    double sum = 0;

    for (int i = 0; i < costs->n_rows; i++)
        sum += kvr_table_number(costs, i, 4);
    return sum;
}

/* --- verdicts --------------------------------------------------------------------------- */

static enum kvr_claim_verdict verdict_of(const struct kvr_claim *c, enum kvr_region region)
{
    if (c->relation == KVR_CLAIM_ALIKE)
        return region == KVR_WITHIN ? KVR_CLAIM_HOLDS : KVR_CLAIM_NOT;
    return region == KVR_ABOVE   ? KVR_CLAIM_HOLDS
           : region == KVR_BELOW ? KVR_CLAIM_NOT
                                 : KVR_CLAIM_EQUAL;
}

static void say_open(struct kvr_claim *c, int most)
{
    if (c->s.n < KVR_SEQUENCE_MIN) {
        snprintf(c->why, sizeof c->why, "%d prompts, %d are needed for a verdict", c->s.n,
                 KVR_SEQUENCE_MIN);
        return;
    }
    if (isinf(c->n_needed))
        snprintf(c->why, sizeof c->why,
                 "%d prompts; the mean difference equals the margin, so no number of prompts would "
                 "decide",
                 c->s.n);
    else
        snprintf(c->why, sizeof c->why,
                 "%d prompts, about %.0f are needed for a verdict (%d are available)", c->s.n,
                 c->n_needed, most);
    if (c->n_needed > most && c->s.n >= KVR_CLAIMS_FUTILE_AFTER)
        c->verdict = KVR_CLAIM_FUTILE;
}

static void judge(struct kvr_ledger *l, struct kvr_claim *c, bool rejected,
                  const struct kvr_table *costs, int most)
{
    const double prompt = prompt_seconds(costs, c);
    enum kvr_region region;

    c->figure = c->s.mean;
    kvr_sequence_interval(&c->s, l->threshold, &c->lo, &c->hi);
    kvr_sequence_region(&c->s, c->margin, &region, &c->log_e);
    if (rejected) {
        c->verdict = verdict_of(c, region);
        c->n_needed = c->s.n;
        c->cost_s = 0;
        return;
    }
    c->n_needed =
        c->s.n < KVR_SEQUENCE_MIN ? NAN : kvr_sequence_needed(&c->s, c->margin, l->threshold);
    c->cost_s = fmax(0, (isnan(c->n_needed) ? KVR_SEQUENCE_MIN : c->n_needed) - c->s.n) * prompt;
    say_open(c, most);
}

static enum kvr_status judge_all(struct kvr_ledger *l, const struct kvr_table *floors,
                                 const struct kvr_table *costs, int most)
{
    double *log_e = calloc((size_t)l->n_claims + 1, sizeof *log_e);
    bool *rejected = calloc((size_t)l->n_claims + 1, sizeof *rejected);
    enum kvr_status st = log_e && rejected ? KVR_OK : kvr_fail(KVR_ENOMEM, "claims: out of memory");
    enum kvr_region region;

    for (int i = 0; st == KVR_OK && i < l->n_claims; i++) {
        struct kvr_claim *c = &l->claim[i];

        c->margin = fmax(c->fixed, chaos(floors, c));
        if (c->relation == KVR_CLAIM_ALIKE)
            c->margin = fmax(c->margin, c->within);
        log_e[i] = NAN;
        if (c->tested)
            kvr_sequence_region(&c->s, c->margin, &region, &log_e[i]);
        l->n_tested += c->tested;
    }
    if (st == KVR_OK)
        st = kvr_e_bh(log_e, l->n_claims, alpha, rejected, &l->threshold);
    for (int i = 0; st == KVR_OK && i < l->n_claims; i++) {
        struct kvr_claim *c = &l->claim[i];

        if (c->tested)
            judge(l, c, rejected[i], costs, most);
        kvr_claim_judge_card(c);
        l->n[c->verdict]++;
        if (c->tested && c->verdict == KVR_CLAIM_OPEN && isfinite(c->cost_s) &&
            (l->cheapest < 0 || c->cost_s < l->claim[l->cheapest].cost_s) && isfinite(c->n_needed))
            l->cheapest = i;
    }
    free(log_e);
    free(rejected);
    return st;
}

enum kvr_status kvr_ledger_judge(struct kvr_ledger *l, const char *db,
                                 const struct kvr_claims_options *options)
{
    const char *model = options->model ? options->model : "nano";
    struct kvr_table *floors = NULL, *costs = NULL;
    enum kvr_status st = KVR_OK;

    if (db)
        st = kvr_table_query_with(&floors, db, kvr_statement_claims_floor,
                                  KVR_WITH("two", KVR_TWO_VIDEOS_DB, "model", model), NULL);
    if (db && st == KVR_OK)
        st = kvr_table_query(&costs, db, kvr_statement_claims_cost, NULL);
    if (db && st == KVR_OK)
        st = kvr_chaos_two_videos(l->two_videos, sizeof l->two_videos, db);
    if (st == KVR_OK && costs)
        l->wall_s = all_seconds(costs);
    if (st == KVR_OK)
        st = judge_all(l, floors, costs, options->most > 0 ? options->most : KVR_CLAIMS_MOST);
    kvr_table_close(&floors);
    kvr_table_close(&costs);
    return st;
}
