/* catalogue.c - `kvreel list methods --md`. The rows are those of the registry, so that the table
 * in the documentation cannot say anything else. */
#include "harness/cli/catalogue.h"

#include <string.h>

#include "methods/method.h"

enum { HEADS = 12, HEAD_DIM = 128 }; /* bits per element: of this shape (Wan 2.1 1.3B) */

/* '|' separates cells, and stages of a pipeline. */
static void put(FILE *to, const char *text)
{
    for (; *text; text++)
        fprintf(to, *text == '|' ? "\\|" : "%c", *text);
}

static const char *differs_of(const struct kvr_method *m)
{
    return m->differs ? m->differs : "";
}

/* Which note a method has: methods with the same text share a number. 0: none. */
static int note_of(const struct kvr_method *wanted)
{
    const struct kvr_method *m, *before;
    int n = 0;

    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++) {
        bool first = *differs_of(m) != 0;

        for (int j = 0; first && j < i; j++) {
            before = kvr_method_at(j);
            first = strcmp(differs_of(before), differs_of(m)) != 0;
        }
        n += first;
        if (first && strcmp(differs_of(wanted), differs_of(m)) == 0)
            return n;
    }
    return 0;
}

static bool values_as_keys(const struct kvr_method *m, const struct kvr_scheme *p)
{
    bool same = strcmp(m->k, m->v) == 0;

    for (int t = 1; t < p->n_tiers; t++)
        same =
            same && strcmp(m->tier_k[t] ? m->tier_k[t] : "", m->tier_v[t] ? m->tier_v[t] : "") == 0;
    return same;
}

static void put_codecs(FILE *to, const struct kvr_method *m, bool keys, const struct kvr_scheme *p)
{
    const char *const *tier = keys ? m->tier_k : m->tier_v;

    if (!keys && values_as_keys(m, p)) {
        fprintf(to, "as keys");
        return;
    }
    fprintf(to, "`");
    put(to, keys ? m->k : m->v);
    fprintf(to, "`");
    for (int t = 1; t < p->n_tiers; t++)
        if (tier[t]) {
            fprintf(to, "; %s `", kvr_scheme_tier_name(p, t));
            put(to, tier[t]);
            fprintf(to, "`");
        }
}

static void put_part(FILE *to, const char *text)
{
    if (text) {
        fprintf(to, " | `");
        put(to, text);
        fprintf(to, "`");
    } else {
        fprintf(to, " | -");
    }
}

/* Rules of the sampler that the row carries. */
static void put_sampler(FILE *to, const struct kvr_method *m)
{
    put_part(to, m->last_step ? "commit=last_step" : m->reuse);
    if (m->last_step && m->reuse) {
        fprintf(to, "; `");
        put(to, m->reuse);
        fprintf(to, "`");
    }
}

static enum kvr_status put_row(FILE *to, const struct kvr_method *m)
{
    struct kvr_scheme *p;
    double bits;
    int note = note_of(m);

    KVR_TRY(kvr_scheme_open(&p, m->name, NULL, 0));
    bits = kvr_scheme_bits(p, HEADS, HEAD_DIM);
    fprintf(to, "| %s | %s | ", m->name, m->family);
    put_codecs(to, m, true, p);
    fprintf(to, " | ");
    put_codecs(to, m, false, p);
    put_part(to, m->tiers);
    put_part(to, m->retention);
    put_sampler(to, m);
    if (bits >= 0)
        fprintf(to, " | %.4g", bits);
    else
        fprintf(to, " | -");
    if (note)
        fprintf(to, " | %d |\n", note);
    else
        fprintf(to, " | - |\n");
    kvr_scheme_close(&p);
    return KVR_OK;
}

/* "3. RTN_INT2, RTN_INT4: text" */
static void put_note(FILE *to, int number)
{
    const struct kvr_method *m;
    const char *text = "";
    int n = 0;

    fprintf(to, "%d. ", number);
    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++)
        if (note_of(m) == number) {
            fprintf(to, "%s%s", n++ ? ", " : "", m->name);
            text = differs_of(m);
        }
    fprintf(to, ": %.*s\n", (int)strlen(text) - (*text && text[strlen(text) - 1] == ' '), text);
}

/* A row of the table of readings. What a text that is NULL leaves is as in the row: `-`. */
static enum kvr_status put_reading(FILE *to, const struct kvr_method *m, const char *spec)
{
    struct kvr_scheme *p;
    double bits;

    KVR_TRY(kvr_scheme_open(&p, spec, NULL, 0));
    bits = kvr_scheme_bits(p, HEADS, HEAD_DIM);
    fprintf(to, "| `%s`", spec);
    if (p->shipped) {
        put_part(to, p->shipped->k);
        put_part(to, p->shipped->v);
        put_part(to, p->shipped->tiers);
        put_part(to, p->shipped->retention);
    } else if (kvr_scheme_is_study(p)) {
        put_part(to, m->study_k);
        put_part(to, m->study_v);
        put_part(to, NULL);
        put_part(to, NULL);
    } else {
        put_part(to, m->k);
        put_part(to, m->v);
        put_part(to, m->tiers);
        put_part(to, m->retention);
    }
    if (bits >= 0)
        fprintf(to, " | %.4g | ", bits);
    else
        fprintf(to, " | - | ");
    put(to, p->shipped ? p->shipped->source : kvr_scheme_is_study(p) ? "the study" : m->paper);
    fprintf(to, " | ");
    if (p->shipped)
        put(to, p->shipped->differs);
    else if (kvr_scheme_is_study(p))
        fprintf(to, "note %d", note_of(m));
    else
        fprintf(to, "the row");
    fprintf(to, " |\n");
    kvr_scheme_close(&p);
    return KVR_OK;
}

/* All readings of the names that have more than one. */
static enum kvr_status put_readings(FILE *to)
{
    const struct kvr_method *m;
    char spec[128];

    fprintf(to, "\nThe readings of a name that has several (`-`: as the row):\n\n"
                "| reading | keys | values | tiers | retention | bits | read in | what differs |\n"
                "|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++)
        for (int r = 0;
             kvr_method_spec(m, 1, spec, sizeof spec) && kvr_method_spec(m, r, spec, sizeof spec);
             r++)
            KVR_TRY(put_reading(to, m, spec));
    return KVR_OK;
}

enum kvr_status kvr_catalogue_write(FILE *to)
{
    const struct kvr_method *m;
    int n_notes = 0;

    fprintf(to, "| method | family | keys | values | tiers | retention | reuse | bits | note |\n"
                "|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++) {
        const int note = note_of(m);

        KVR_TRY(put_row(to, m));
        n_notes = note > n_notes ? note : n_notes;
    }
    fprintf(to, "\nWhat the reading of the study differs in:\n\n");
    for (int i = 1; i <= n_notes; i++)
        put_note(to, i);
    KVR_TRY(put_readings(to));
    return ferror(to) ? kvr_fail(KVR_EIO, "catalogue: write failed") : KVR_OK;
}
