/* levels.c - see levels.h. Each vector's range is scaled to [-1, 1], and the scaled values of a
 * chunk are counted in NUQ_BINS equal bins. Counts are summed over chunks in FP64, with the weights
 * that levels.h defines. */
#include "harness/workload/levels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/workload/pre_rope.h"
#include "methods/codecs/nuq/nuq.h"

struct kvr_levels {
    int n_layers, n_heads, head_dim, bits;
    double exact;
    double *sum;    /* [L][2][NUQ_BINS]: weighted counts of all chunks, for K and V */
    uint64_t *bins; /* [NUQ_BINS]: counts of one chunk */
    struct kvr_pre_rope rows;
};

enum kvr_status kvr_levels_open(struct kvr_levels **out, int n_layers, int n_heads, int head_dim,
                                int bits, double exact)
{
    struct kvr_levels *p = calloc(1, sizeof *p);

    if (!p)
        return kvr_fail(KVR_ENOMEM, "levels: out of memory");
    *p = (struct kvr_levels){
        .n_layers = n_layers,
        .n_heads = n_heads,
        .head_dim = head_dim,
        .bits = bits,
        .exact = exact,
        .sum = calloc(2 * (size_t)n_layers * NUQ_BINS, sizeof *p->sum),
        .bins = calloc(NUQ_BINS, sizeof *p->bins),
    };
    if (!p->sum || !p->bins) {
        kvr_levels_close(&p);
        return kvr_fail(KVR_ENOMEM, "levels: out of memory while allocating %d layers", n_layers);
    }
    *out = p;
    return KVR_OK;
}

void kvr_levels_close(struct kvr_levels **p)
{
    if (!*p)
        return;
    free((*p)->sum);
    free((*p)->bins);
    kvr_pre_rope_free(&(*p)->rows);
    free(*p);
    *p = NULL;
}

static enum kvr_status add_pass(struct kvr_levels *p, const struct kvr_cache_view *view,
                                enum kvr_side side)
{
    struct nuq g = { .by_token = side == KVR_V,
                     .n_tok = view->n_tok,
                     .channels = (int64_t)p->n_heads * p->head_dim };
    double *sum = p->sum + (size_t)(2 * view->layer + (side == KVR_V)) * NUQ_BINS;
    float most;

    KVR_TRY(kvr_pre_rope_take(&p->rows, view, side));
    memset(p->bins, 0, NUQ_BINS * sizeof *p->bins);
    KVR_TRY(kvr_nuq_count(&g, p->exact, p->rows.x, p->bins, &most));
    for (int i = 0; i < NUQ_BINS; i++)
        sum[i] += (double)p->bins[i] * (double)most * (double)most;
    return KVR_OK;
}

enum kvr_status kvr_levels_observe(void *ctx, const struct kvr_cache_view *view)
{
    if (!view->pass->clean)
        return KVR_OK;
    KVR_TRY(add_pass(ctx, view, KVR_K));
    return add_pass(ctx, view, KVR_V);
}

enum kvr_status kvr_levels_fit(const struct kvr_levels *p, int layer, enum kvr_side side,
                               double *level)
{
    const double *sum = p->sum + (size_t)(2 * layer + (side == KVR_V)) * NUQ_BINS;
    const char *name = side == KVR_V ? "values" : "keys";
    double most = 0;

    for (int i = 0; i < NUQ_BINS; i++)
        most = fmax(most, sum[i]);
    if (!(most > 0 && isfinite(most)))
        return kvr_fail(
            KVR_EINVAL,
            "levels: layer %d: cannot fit levels to the %s: the rollouts stored none, or "
            "all stored %s are equal or not finite; raise --frames",
            layer, name, name);
    for (int i = 0; i < NUQ_BINS; i++)
        p->bins[i] = (uint64_t)(sum[i] / most * 0x1p40 + 0.5);
    kvr_nuq_fit_levels(p->bins, 1 << p->bits, level);
    return KVR_OK;
}
