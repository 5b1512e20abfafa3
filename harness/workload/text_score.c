/* text_score.c - see text_score.h. Logits are computed a few rows at a time, because a row is as
 * long as the vocabulary. */
#include "harness/workload/text_score.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 32 };

/* Returns log sum_i exp(x_i) of n > 0 logits; NaN if a logit is not finite. *top: index of the
 * largest logit. */
static double log_sum(const float *x, int n, int *top)
{
    float most = x[0];
    double sum = 0;

    *top = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > most) {
            most = x[i];
            *top = i;
        }
    for (int i = 0; i < n; i++)
        sum += (double)expf(x[i] - most);
    // cppcheck-suppress invalidFunctionArg ; sum >= 1: the largest logit adds exp(0)
    return most + log(sum);
}

/* Returns the KL divergence from p = softmax(r) to softmax(x), where r are the teacher's logits and
 * x the method's: sum_v p(v) (r_v - x_v) - (log Z_r - log Z_x), with Z_r = sum_v exp(r_v). The
 * argument log_x is log Z_x. *top receives the index of the largest r_v. */
static double divergence(const float *r, const float *x, double log_x, int n, int *top)
{
    float most = r[0];
    double sum = 0, weighed = 0;

    *top = 0;
    for (int i = 1; i < n; i++)
        if (r[i] > most) {
            most = r[i];
            *top = i;
        }
    for (int i = 0; i < n; i++) {
        const double e = (double)expf(r[i] - most);

        sum += e;
        weighed += e * ((double)r[i] - (double)x[i]);
    }
    // cppcheck-suppress invalidFunctionArg ; sum >= 1, as in log_sum()
    return weighed / sum - (most + log(sum) - log_x);
}

struct row {
    double nll, kl;
    int agrees, hits;
};

static struct row score_row(const float *x, const float *r, int n, int32_t next)
{
    struct row out = { 0 };
    int top, top_r;
    const double log_x = log_sum(x, n, &top);

    out.nll = log_x - (double)x[next];
    out.hits = top == next;
    if (r) {
        out.kl = divergence(r, x, log_x, n, &top_r);
        out.agrees = top == top_r;
    }
    return out;
}

enum kvr_status kvr_score_rows(struct kvr_lm *lm, int vocabulary, int dim, int64_t n,
                               const float *hidden, const float *ref, const int32_t *next,
                               struct kvr_score_sums *sums)
{
    const size_t v = (size_t)vocabulary;
    float *logits = malloc((ref ? 2 : 1) * (size_t)ROWS * v * sizeof *logits), *other;
    enum kvr_status st = KVR_OK;

    if (!logits)
        return kvr_fail(KVR_ENOMEM, "text: out of memory while allocating the logits of %d tokens",
                        ROWS);
    other = ref ? logits + (size_t)ROWS * v : NULL;
    for (int64_t at = 0; at < n && st == KVR_OK; at += ROWS) {
        const int m = n - at < ROWS ? (int)(n - at) : ROWS;
        struct row row[ROWS];

        st = kvr_lm_logits(lm, m, hidden + at * dim, logits);
        if (st == KVR_OK && ref)
            st = kvr_lm_logits(lm, m, ref + at * dim, other);
        if (st != KVR_OK)
            break;
#pragma omp parallel for schedule(static)
        for (int i = 0; i < m; i++)
            row[i] = score_row(logits + (size_t)i * v, ref ? other + (size_t)i * v : NULL,
                               vocabulary, next[at + i]);
        for (int i = 0; i < m; i++) { /* serial: sums do not depend on the thread count */
            if (!isfinite(row[i].nll) || !isfinite(row[i].kl))
                st = kvr_fail(KVR_ENAN,
                              "text: a logit of the model is NaN or infinite (scored token %lld of "
                              "%lld, id %d)",
                              (long long)(at + i + 1), (long long)n, (int)next[at + i]);
            sums->nll += row[i].nll;
            sums->kl += row[i].kl;
            sums->top1 += row[i].agrees;
            sums->hits += row[i].hits;
            sums->tokens++;
        }
    }
    free(logits);
    return st;
}
