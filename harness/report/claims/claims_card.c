/* claims_card.c - tests claims on GPU measurements in results/measured/GPU/rows.csv.
 *
 * card: {of: "rollout.RTN_INT4@study.staged.42x21", than: "rollout.BF16.staged.42x21", above: 1}
 *
 * This claim holds if the value of row `of`, divided by the value of row `than`, is above 1. Both
 * values are from one measurement session, which has one GPU, build and day. The reported result is
 * the geometric mean of the ratios of all sessions.
 *
 * card: {of: "rollout.BF16.staged.42x21:fps_vae", on: H100, above: 17.0}
 *
 * This claim holds if the value of row `of` is above 17 on GPUs whose name contains "H100".
 *
 * Sessions that ran code other than their recorded commit are ignored. On an H100, repeats of one
 * rollout within a session took from 5.80 to 6.09 s. A time therefore has an error of up to 5 %,
 * and a ratio of up to 10 %. The test widens the range of the observed ratios or values by 10 %. */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/claims/claims.h"
#include "harness/report/table/measured.h"

static const double guard = 1.1;

static double value_of(const struct kvr_measured *m, int session, const char *name)
{
    const int row = kvr_measured_row(m, session, name);

    return row >= 0 && m->row[row].value > 0 ? m->row[row].value : NAN;
}

/* Adds to claim `c` the ratio of its two rows, or the value of its only row, in each session of one
 * GPU. */
static void add_gpu(struct kvr_claim *c, const struct kvr_measured *m)
{
    for (int s = 0; s < m->n_sessions; s++) {
        const double by = *c->card.than ? value_of(m, s, c->card.than) : 1;
        const double ratio = value_of(m, s, c->card.of) / by;

        if (m->session[s].patched || !(ratio > 0) || !strstr(m->session[s].card, c->card.on))
            continue;
        c->card.lo = c->card.n ? fmin(c->card.lo, ratio) : ratio;
        c->card.hi = c->card.n ? fmax(c->card.hi, ratio) : ratio;
        c->card.log_sum += log(ratio);
        c->card.n++;
        snprintf(c->card.gpu, sizeof c->card.gpu, "%.60s", m->session[s].card);
    }
}

enum kvr_status kvr_claim_card(struct kvr_claim *c, const char *measured)
{
    char pattern[4096];
    enum kvr_status st = KVR_OK;
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/*/rows.csv", measured);
    if (!c->card.of || glob(pattern, 0, NULL, &found))
        return KVR_OK;
    for (size_t i = 0; st == KVR_OK && i < found.gl_pathc; i++) {
        struct kvr_measured m;

        *strrchr(found.gl_pathv[i], '/') = 0;
        st = kvr_measured_read(&m, found.gl_pathv[i]);
        if (st == KVR_OK)
            add_gpu(c, &m);
        kvr_measured_free(&m);
    }
    globfree(&found);
    return st;
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
        snprintf(c->why, sizeof c->why,
                 "runtime of the method divided by that of BF16, in consecutive rollouts on %s, %d "
                 "prompts",
                 c->timed_on, c->s.n);
}

void kvr_claim_judge_card(struct kvr_claim *c)
{
    const double lo = c->card.lo / guard, hi = c->card.hi * guard;
    const enum kvr_claim_verdict before = c->verdict;
    const enum kvr_claim_verdict verdict = c->card.n ? verdict_of(c, lo, hi) : KVR_CLAIM_OPEN;
    size_t n;

    say_cpu(c);
    if (!c->card.n || (before != KVR_CLAIM_OPEN && (!c->timed_on[0] || verdict == KVR_CLAIM_OPEN)))
        return;
    c->verdict = verdict;
    c->figure = exp(c->card.log_sum / c->card.n);
    c->lo = lo;
    c->hi = hi;
    snprintf(c->shown, sizeof c->shown, "%.120s%s%.120s %s %g", c->card.of,
             *c->card.than ? " / " : "", c->card.than, c->card.above ? "above" : "below",
             c->card.bound);
    snprintf(c->why, sizeof c->why, "%s: %s, %d session%s, random weights",
             *c->card.than ? "ratio of runtimes on one GPU" : "measured on that GPU", c->card.gpu,
             c->card.n, c->card.n > 1 ? "s" : "");
    n = strlen(c->why);
    if (before != KVR_CLAIM_OPEN)
        snprintf(c->why + n, sizeof c->why - n, "; verdict on %s: %s (%d prompts)", c->timed_on,
                 kvr_claim_verdict_names[before], c->s.n);
}
