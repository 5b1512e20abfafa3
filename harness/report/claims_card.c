/* claims_card.c - claims that measured figures of a GPU settle: results/measured/GPU/rows.csv.
 *
 *     card: {of: "rollout.RTN_INT4@study.staged.42x21", than: "rollout.BF16.staged.42x21", above: 1}
 *
 * The figure is the ratio of two rows of one session, so both times are of one card, build and day; with
 * several sessions it is their geometric mean. Sessions whose code was patched by hand do not count. One
 * rollout on an H100 took from 5.80 to 6.09 s within a session: each time may be off by 5 %, a ratio by
 * 10 %, and the interval is that much wider than the ratios seen. */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/claims.h"

enum { LINE = 1024, FIELD = 256 };
static const double guard = 1.1;

/* Field i of a line of CSV, without its quotes; "": there is none. */
static const char *field(const char *line, int i, char *out)
{
    size_t n = 0;
    bool quoted = false;

    for (; *line && *line != '\n' && *line != '\r' && i >= 0; line++) {
        if (*line == '"')
            quoted = !quoted;
        else if (*line == ',' && !quoted)
            i--;
        else if (i == 0 && n < FIELD - 1)
            out[n++] = *line;
    }
    out[n] = 0;
    return out;
}

/* Index of a column by the first line. -1: none. */
static int column(const char *head, const char *name)
{
    char text[FIELD];

    for (int i = 0; *field(head, i, text); i++)
        if (strcmp(text, name) == 0)
            return i;
    return -1;
}

static bool usable(FILE *sessions, const char *session, char *card)
{
    char line[LINE], text[FIELD];
    int named, patched;
    bool found = false;

    rewind(sessions);
    if (!fgets(line, sizeof line, sessions))
        return false;
    named = column(line, "card");
    patched = column(line, "patched");
    while (!found && fgets(line, sizeof line, sessions))
        found = strcmp(field(line, 0, text), session) == 0;
    if (!found || named < 0 || patched < 0)
        return false;
    field(line, named, card);
    field(line, patched, text);
    return !*text || strcmp(text, "nothing") == 0;
}

/* The row's value in a session; NaN: it has none. */
static double value_of(FILE *rows, const char *session, const char *name)
{
    char line[LINE], text[FIELD];
    double x = NAN;
    int at;

    rewind(rows);
    if (!fgets(line, sizeof line, rows) || (at = column(line, "value")) < 0)
        return NAN;
    while (isnan(x) && fgets(line, sizeof line, rows))
        if (strcmp(field(line, 0, text), session) == 0 && strcmp(field(line, 1, text), name) == 0 &&
            *field(line, at, text))
            x = strtod(text, NULL);
    return x > 0 ? x : NAN;
}

/* Ratios of the sessions of one GPU. */
static void add_gpu(struct kvr_claim *c, FILE *sessions, FILE *rows)
{
    char line[LINE], session[FIELD], card[FIELD];
    long next = 0;

    for (;;) {
        if (fseek(sessions, next, SEEK_SET) || !fgets(line, sizeof line, sessions))
            return;
        next = ftell(sessions);
        field(line, 0, session);
        const double a =
            usable(sessions, session, card) ? value_of(rows, session, c->card.of) : NAN;
        const double ratio = a / value_of(rows, session, c->card.than);

        if (!(ratio > 0))
            continue;
        c->card.lo = c->card.n ? fmin(c->card.lo, ratio) : ratio;
        c->card.hi = c->card.n ? fmax(c->card.hi, ratio) : ratio;
        c->card.log_sum += log(ratio);
        c->card.n++;
        snprintf(c->card.gpu, sizeof c->card.gpu, "%.60s", card);
    }
}

void kvr_claim_card(struct kvr_claim *c, const char *measured)
{
    char pattern[4096];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/*/rows.csv", measured);
    if (!c->card.of || glob(pattern, 0, NULL, &found))
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char path[4096];
        FILE *rows = fopen(found.gl_pathv[i], "r"), *sessions;

        snprintf(path, sizeof path, "%.*s/sessions.csv",
                 (int)(strrchr(found.gl_pathv[i], '/') - found.gl_pathv[i]), found.gl_pathv[i]);
        sessions = fopen(path, "r");
        if (rows && sessions)
            add_gpu(c, sessions, rows);
        if (rows)
            fclose(rows);
        if (sessions)
            fclose(sessions);
    }
    globfree(&found);
}

static enum kvr_claim_verdict verdict_of(const struct kvr_claim *c, double lo, double hi)
{
    const double bound = c->card.bound;

    if (c->card.above ? lo > bound : hi < bound)
        return KVR_CLAIM_HOLDS;
    return (c->card.above ? hi < bound : lo > bound) ? KVR_CLAIM_NOT : KVR_CLAIM_OPEN;
}

static void say_cpu(struct kvr_claim *c)
{
    if (c->timed_on[0] && c->verdict != KVR_CLAIM_OPEN)
        snprintf(c->why, sizeof c->why, "ratio of neighbouring rollouts on %s, %d prompts",
                 c->timed_on, c->s.n);
}

void kvr_claim_judge_card(struct kvr_claim *c)
{
    const double lo = c->card.lo / guard, hi = c->card.hi * guard;
    const enum kvr_claim_verdict before = c->verdict;
    const enum kvr_claim_verdict told = c->card.n ? verdict_of(c, lo, hi) : KVR_CLAIM_OPEN;
    size_t n;

    say_cpu(c);
    if (!c->card.n || (before != KVR_CLAIM_OPEN && (!c->timed_on[0] || told == KVR_CLAIM_OPEN)))
        return;
    c->verdict = told;
    c->figure = exp(c->card.log_sum / c->card.n);
    c->lo = lo;
    c->hi = hi;
    snprintf(c->shown, sizeof c->shown, "%.120s / %.120s %s %g", c->card.of, c->card.than,
             c->card.above ? "above" : "below", c->card.bound);
    snprintf(c->why, sizeof c->why, "a ratio of one card's times: %s, %d session%s, drawn weights",
             c->card.gpu, c->card.n, c->card.n > 1 ? "s" : "");
    n = strlen(c->why);
    if (before != KVR_CLAIM_OPEN)
        snprintf(c->why + n, sizeof c->why - n, "; on %s: %s (%d prompts)", c->timed_on,
                 kvr_claim_verdict_names[before], c->s.n);
}
