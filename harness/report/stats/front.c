/* front.c - see front.h. */
#include "harness/report/stats/front.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "harness/core/rng.h"

/* gains below this tolerance count as 0, because equal sums can differ by rounding */
static const double rounding = 1e-9;

enum kvr_dominance kvr_dominance(const struct kvr_gain *g, int n_objectives)
{
    bool never_worse = true, better = false, never_better = true;

    for (int k = 0; k < n_objectives; k++) {
        if (g[k].hi < -g[k].margin - rounding)
            return KVR_DOMINATES_NOT;
        never_worse = never_worse && g[k].lo >= -g[k].margin - rounding;
        better = better || g[k].lo > g[k].margin + rounding;
        never_better = never_better && g[k].hi <= g[k].margin + rounding;
    }
    if (never_better)
        return KVR_DOMINATES_NOT;
    return never_worse && better ? KVR_DOMINATES : KVR_DOMINANCE_UNDECIDED;
}

static bool dominates(const double *a, const double *b, const double *margin, int n)
{
    bool better = false;

    for (int k = 0; k < n; k++) {
        if (!(a[k] - b[k] >= -margin[k] - rounding))
            return false;
        better = better || a[k] - b[k] > margin[k] + rounding;
    }
    return better;
}

/* Returns the weighted mean of the values in x [n] that are not NaN, and sets *count to the number
 * of these values. */
static double weighted(const double *x, const int *weight, int n, int *count)
{
    double sum = 0, total = 0;

    *count = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(x[i]))
            continue;
        sum += weight[i] * x[i];
        total += weight[i];
        ++*count;
    }
    return sum / total; /* NaN without values */
}

static void draw(const struct kvr_front *f, uint64_t seed, uint32_t resample, float *u, int *weight)
{
    kvr_uniform(u, (size_t)f->n_prompts, seed, KVR_RNG_BOOTSTRAP, resample, 0, 0);
    for (int p = 0; p < f->n_prompts; p++)
        weight[p] = 0;
    for (int p = 0; p < f->n_prompts; p++)
        weight[(int)((double)u[p] * f->n_prompts)]++;
}

/* Writes the value of each method and objective in one bootstrap resample. The value is shifted by
 * the difference between resampled and original mean, times sqrt(n / (n - 1)) for n prompts
 * (front.h). */
static void bootstrap_values(const struct kvr_front *f, const int *weight, const double *mean,
                             double *v)
{
    for (int i = 0; i < f->n_methods * f->n_objectives; i++) {
        int n;
        double m =
            weighted(&f->by_prompt[(size_t)i * (size_t)f->n_prompts], weight, f->n_prompts, &n);

        v[i] = f->value[i];
        if (n >= 2 && isfinite(m))
            v[i] += (m - mean[i]) * sqrt((double)n / (n - 1));
    }
}

static bool dominated(const struct kvr_front *f, const double *v, int i)
{
    const int k = f->n_objectives;

    for (int j = 0; j < f->n_methods; j++)
        if (j != i && dominates(&v[j * k], &v[i * k], f->margin, k))
            return true;
    return false;
}

enum kvr_status kvr_front_membership(const struct kvr_front *f, uint64_t seed, double *probability)
{
    const size_t n = (size_t)f->n_methods * (size_t)f->n_objectives + 1;
    double *mean = malloc(n * sizeof *mean), *v = malloc(n * sizeof *v);
    int *weight = malloc(((size_t)f->n_prompts + 1) * sizeof *weight);
    float *u = malloc(((size_t)f->n_prompts + 1) * sizeof *u);
    enum kvr_status st = KVR_OK;

    if (mean && v && weight && u) {
        for (int p = 0; p < f->n_prompts; p++)
            weight[p] = 1;
        for (size_t i = 0; i + 1 < n; i++) {
            int count;

            mean[i] =
                weighted(&f->by_prompt[i * (size_t)f->n_prompts], weight, f->n_prompts, &count);
        }
        for (int i = 0; i < f->n_methods; i++)
            probability[i] = 0;
        for (uint32_t r = 0; r < KVR_FRONT_RESAMPLES; r++) {
            draw(f, seed, r, u, weight);
            bootstrap_values(f, weight, mean, v);
            for (int i = 0; i < f->n_methods; i++)
                probability[i] += dominated(f, v, i) ? 0 : 1.0 / KVR_FRONT_RESAMPLES;
        }
    } else {
        st = kvr_fail(KVR_ENOMEM, "front: out of memory while allocating %d methods", f->n_methods);
    }
    free(mean);
    free(v);
    free(weight);
    free(u);
    return st;
}
