/* claims.c - see claims.h. */
#include "harness/report/claims/claims.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/claims/claims_values.h"
#include "harness/report/table/values.h"

const char *const kvr_claim_verdict_names[] = { "holds",  "does not hold",       "equal",
                                                "futile", "cannot be told here", NULL };

/* Returns the model for claims that name none: the model of the first sweep in the ledger's key
 * `settle`, or nano if there is none. */
static const char *model_of(const struct kvr_ledger *l)
{
    const struct kvr_yaml_node *first =
        l->settle && kvr_yaml_count(l->settle) > 0 ? kvr_yaml_at(l->settle, 0) : NULL;
    const struct kvr_yaml_node *n =
        first && first->kind == KVR_YAML_MAP ? kvr_yaml_get(first, "model") : NULL;
    const char *model = NULL;

    return n && kvr_yaml_string(n, &model) == KVR_OK ? model : "nano";
}

enum kvr_status kvr_claims(struct kvr_ledger *out, const char *path, const char *db,
                           const struct kvr_claims_options *options)
{
    struct kvr_claims_options with = *options;
    struct kvr_claim_values *values = NULL;
    enum kvr_status st = kvr_ledger_read(out, path);
    const char *model;

    with.model = model = options->model ? options->model : st == KVR_OK ? model_of(out) : NULL;
    for (int i = 0; st == KVR_OK && i < out->n_claims; i++)
        st = kvr_claim_sample(&out->claim[i], &values, db, model);
    if (st == KVR_OK)
        st = kvr_ledger_judge(out, db, &with);
    for (int i = 0; st == KVR_OK && db && options->elsewhere && i < out->n_claims; i++)
        st = kvr_claim_other_conditions(&out->claim[i], &values, db, model);
    kvr_claim_values_free(&values);
    if (st != KVR_OK)
        kvr_ledger_free(out);
    return st;
}

/* --- the table -------------------------------------------------------------------------- */

static enum kvr_status note_count(const struct kvr_ledger *l, struct kvr_table *t)
{
    const struct kvr_claim *c = l->cheapest >= 0 ? &l->claim[l->cheapest] : NULL;
    char note[400];

    snprintf(
        note, sizeof note,
        "%d claims: %d hold, %d do not hold, %d are equal, %d are futile, %d are undecided "
        "(verdict `cannot be told here`); figure: mean difference over prompts, positive if it "
        "supports the claim, with an anytime-valid interval; the e-BH procedure over %d tests "
        "limits the false discovery rate to 5 %%",
        l->n_claims, l->n[KVR_CLAIM_HOLDS], l->n[KVR_CLAIM_NOT], l->n[KVR_CLAIM_EQUAL],
        l->n[KVR_CLAIM_FUTILE], l->n[KVR_CLAIM_OPEN], l->n_tested);
    KVR_TRY(kvr_table_note(t, note));
    if (l->two_videos[0]) {
        snprintf(note, sizeof note,
                 "prompts left out of SSIM and PSNR, as their BF16 reruns diverge: %.330s",
                 l->two_videos);
        KVR_TRY(kvr_table_note(t, note));
    }
    if (!(l->wall_s > 0))
        return KVR_OK;
    snprintf(note, sizeof note, "finished cells took %.2f hours of wall time", l->wall_s / 3600);
    KVR_TRY(kvr_table_note(t, note));
    if (!c)
        return KVR_OK;
    snprintf(
        note, sizeof note,
        "the undecided claim that needs the least time is %s: about %.0f more prompts, %.0f s of "
        "runtime",
        c->id, c->n_needed - c->s.n, c->cost_s);
    return kvr_table_note(t, note);
}

enum kvr_status kvr_ledger_table(const struct kvr_ledger *l, struct kvr_table **out)
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
        { .name = "margin", .digits = -1 },
        { .name = "published", .digits = -1 },
        { .name = "n" },
        { .name = "n_needed", .head = "n needed", .digits = 0 },
        { .name = "cost_s", .head = "cost", .unit = "s", .digits = 0 },
        { .name = "where_else", .head = "elsewhere" },
        { .name = "why" },
    };
    static const char *const may_be_empty[] = { "where_else", NULL };
    enum kvr_status st;

    KVR_TRY(kvr_table_open(out, (int)(sizeof columns / sizeof *columns), columns));
    st = note_count(l, *out);
    for (int i = 0; st == KVR_OK && i < l->n_claims; i++) {
        const struct kvr_claim *c = &l->claim[i];
        char source[200];

        if (c->hidden)
            continue;
        snprintf(source, sizeof source, "%s, %s", c->source, c->at);
        st = kvr_table_add(
            *out, (const struct kvr_value[]){
                      kvr_value_text_or_none(c->id), kvr_value_text_or_none(c->says),
                      kvr_value_text_or_none(source), kvr_value_text_or_none(c->shown),
                      kvr_value_text_or_none(kvr_claim_verdict_names[c->verdict]),
                      kvr_value_number(c->figure), kvr_value_number(c->lo), kvr_value_number(c->hi),
                      c->tested ? kvr_value_number(c->margin) : kvr_value_none(),
                      kvr_value_number(c->published),
                      c->tested ? kvr_value_count(c->s.n) : kvr_value_none(),
                      kvr_value_number(c->n_needed), kvr_value_number(c->cost_s),
                      kvr_value_text_or_none(c->where), kvr_value_text_or_none(c->why) });
    }
    for (int i = 0; st == KVR_OK && i < l->sources->n; i++) {
        char line[512];
        const char *title;

        st = kvr_yaml_string(l->sources->item[i], &title);
        snprintf(line, sizeof line, "%s: %.400s", l->sources->key[i]->text,
                 st == KVR_OK ? title : "");
        if (st == KVR_OK)
            st = kvr_table_note(*out, line);
    }
    kvr_table_drop_empty(*out, may_be_empty);
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}

enum kvr_status kvr_report_claims(struct kvr_table **out, const char *db_path)
{
    struct kvr_ledger l = { 0 };
    enum kvr_status st;

    *out = NULL;
    st = kvr_claims(&l, NULL, db_path, &(struct kvr_claims_options){ .elsewhere = true });
    for (int i = 0; i < l.n_claims; i++)
        l.claim[i].hidden = !l.claim[i].tested;
    if (st == KVR_OK)
        st = kvr_ledger_table(&l, out);
    kvr_ledger_free(&l);
    return st;
}
