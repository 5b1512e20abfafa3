/* baselines.c - see baselines.h. */
#include "harness/plan/baselines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/fit.h"

const char *const kvr_baseline_words[] = { "auto", "all", "none", NULL };

enum { FEWEST = 3, SHARE = 4, BITS = 16, HEADS = 12, HEAD_DIM = 128 };

static const char *const eight_bits[] = { "INT8_PTH", "FP8_PTH", NULL };
static const char window[] = "ROLLING_WINDOW";

/* A candidate for a default baseline: the sliding window whose cache has a size of `bits` bits per
 * element. */
struct budget {
    double bits;
    int n; /* number of the sweep's methods whose cache has this size (bits_of) */
};

bool kvr_is_reference(const struct kvr_config_method *m)
{
    return (kvr_is_reference_method(m->spec) || strcmp(m->spec, "BF16@intended") == 0) &&
           m->n_settings == 0;
}

static bool listed(const struct kvr_config *c, const char *spec)
{
    for (int i = 0; i < c->n_methods; i++)
        if (strcmp(c->method[i].spec, spec) == 0 && c->method[i].n_settings == 0)
            return true;
    return false;
}

/* Computes the bits per element of a method, rounded up to an integer. Sets *out to 0 if they
 * depend on the data, a token budget or the model's shape, or if the method is invalid. */
static enum kvr_status bits_of(const struct kvr_config_method *m, double *out)
{
    struct kvr_scheme *scheme = NULL;
    enum kvr_status st;
    double bits;

    *out = 0;
    for (int i = 0; i < m->n_settings; i++)
        if (kvr_fit_asked(m->setting[i].value, &bits)) {
            *out = bits > 0 ? bits : 0;
            return KVR_OK;
        }
    st = kvr_scheme_open(&scheme, m->spec, m->setting, m->n_settings);
    if (st != KVR_OK)
        /* the error is reported when the method's cells are planned */
        return st == KVR_ENOMEM ? st : KVR_OK;
    bits = kvr_scheme_bits(scheme, HEADS, HEAD_DIM);
    kvr_scheme_close(&scheme);
    *out = bits > 0 ? ceil(bits - 1e-9) : 0;
    return KVR_OK;
}

/* Sorts budgets by number of methods, descending. Budgets with equal numbers are sorted by bits,
 * ascending. */
static int by_use(const void *a, const void *b)
{
    const struct budget *x = a, *y = b;

    if (x->n != y->n)
        return y->n - x->n;
    return (x->bits > y->bits) - (x->bits < y->bits);
}

static enum kvr_status find_budgets(const struct kvr_config *c, struct budget out[BITS], int *n_out)
{
    int n = 0;

    for (int i = 0; i < c->n_methods; i++) {
        double bits;
        int k = 0;

        KVR_TRY(bits_of(&c->method[i], &bits));
        if (bits <= 0 || bits >= BITS)
            continue;
        while (k < n && out[k].bits != bits)
            k++;
        if (k == BITS - 1)
            continue;
        if (k == n)
            out[n++] = (struct budget){ bits, 0 };
        out[k].n++;
    }
    qsort(out, (size_t)n, sizeof *out, by_use);
    *n_out = n;
    return KVR_OK;
}

enum kvr_status kvr_baselines_make(struct kvr_baselines *b, const struct kvr_config *c)
{
    const struct kvr_yaml_node *at = kvr_yaml_root(c->doc);
    struct budget budget[BITS];
    int others = 0, most, n_windows;

    *b = (struct kvr_baselines){ 0 };
    for (int i = 0; i < c->n_methods; i++)
        others += !kvr_is_reference(&c->method[i]);
    if (strcmp(c->set.baselines, "none") == 0)
        return KVR_OK;
    if (strcmp(c->set.baselines, "all") == 0)
        most = KVR_MAX_BASELINES;
    else if (others < FEWEST)
        return KVR_OK;
    /* With `baselines: auto`, at most max(3, others / 4) baselines are added: the two 8-bit
     * formats, then sliding windows. */
    else
        most = others / SHARE > 3 ? others / SHARE : 3;
    for (int i = 0; eight_bits[i]; i++)
        if (!listed(c, eight_bits[i]))
            b->method[b->n++] = (struct kvr_config_method){ .spec = eight_bits[i], .at = at };
    KVR_TRY(find_budgets(c, budget, &n_windows));
    for (int i = 0; i < n_windows && b->n < most; i++) {
        const int k = b->n++;

        snprintf(b->value[k], sizeof b->value[k], "fit %g", budget[i].bits);
        b->setting[k] = (struct kvr_setting){ "frames", b->value[k] };
        b->method[k] = (struct kvr_config_method){
            .spec = window, .n_settings = 1, .setting = &b->setting[k], .at = at
        };
    }
    return KVR_OK;
}
