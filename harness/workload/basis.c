/* basis.c - see basis.h. Sums are in FP64, in token order. */
#include "harness/workload/basis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/safetensors.h"
#include "harness/workload/pre_rope.h"
#include "methods/codecs/lowrank/lowrank.h"

struct kvr_basis {
    int n_layers, n_heads, head_dim;
    double *n;       /* [L][2]: number of tokens summed, per layer, for K and V */
    double *sum;     /* [L][K or V][H][D]: sums of the vectors x of all tokens */
    double *product; /* [L][K or V][H][D][D]: sums of x x^T, upper triangles only */
    struct kvr_pre_rope rows;
};

enum kvr_status kvr_basis_open(struct kvr_basis **out, int n_layers, int n_heads, int head_dim)
{
    const size_t heads = 2 * (size_t)n_layers * (size_t)n_heads, d = (size_t)head_dim;
    struct kvr_basis *p = calloc(1, sizeof *p);

    if (!p)
        return kvr_fail(KVR_ENOMEM, "basis: out of memory");
    *p = (struct kvr_basis){
        .n_layers = n_layers,
        .n_heads = n_heads,
        .head_dim = head_dim,
        .n = calloc(2 * (size_t)n_layers, sizeof *p->n),
        .sum = calloc(heads * d, sizeof *p->sum),
        .product = calloc(heads * d * d, sizeof *p->product),
    };
    if (!p->n || !p->sum || !p->product) {
        kvr_basis_close(&p);
        return kvr_fail(KVR_ENOMEM, "basis: out of memory while allocating %d layers of %d heads",
                        n_layers, n_heads);
    }
    *out = p;
    return KVR_OK;
}

void kvr_basis_close(struct kvr_basis **p)
{
    if (!*p)
        return;
    free((*p)->n);
    free((*p)->sum);
    free((*p)->product);
    kvr_pre_rope_free(&(*p)->rows);
    free(*p);
    *p = NULL;
}

/* Index of a layer's K or V in arrays [L][2]. */
static size_t place_of(int layer, enum kvr_side side)
{
    return (size_t)(2 * layer + (side == KVR_V));
}

static enum kvr_status add_pass(struct kvr_basis *p, const struct kvr_cache_view *view,
                                enum kvr_side side)
{
    const size_t at = place_of(view->layer, side), d = (size_t)p->head_dim;
    const size_t heads = (size_t)p->n_heads;

    KVR_TRY(kvr_pre_rope_take(&p->rows, view, side));
    p->n[at] += (double)view->n_tok;
#pragma omp parallel for schedule(static)
    for (size_t h = 0; h < heads; h++) { /* one thread sums a head, in token order */
        double *sum = p->sum + (at * heads + h) * d,
               *product = p->product + (at * heads + h) * d * d;
        const float *x = p->rows.x + h * d;

        for (int64_t t = 0; t < view->n_tok; t++, x += heads * d)
            for (size_t i = 0; i < d; i++) {
                sum[i] += (double)x[i];
                for (size_t j = i; j < d; j++)
                    product[i * d + j] += (double)x[i] * (double)x[j];
            }
    }
    return KVR_OK;
}

enum kvr_status kvr_basis_observe(void *ctx, const struct kvr_cache_view *view)
{
    if (!view->pass->clean)
        return KVR_OK;
    KVR_TRY(add_pass(ctx, view, KVR_K));
    return add_pass(ctx, view, KVR_V);
}

/* Fits the PCA basis of one head. Row 0 of out [1 + D][D] becomes the mean, rows 1 to D the
 * directions. share [D]: each direction's fraction of the variance; NULL: not computed. scratch:
 * [2][D][D]. */
static void fit_head(double n, const double *sum, const double *product, int d, double *scratch,
                     float *out, double *share)
{
    double *a = scratch, *v = scratch + d * d, all = 0;
    double spread;

    for (int i = 0; i < d; i++) {
        out[i] = (float)(sum[i] / n);
        for (int j = i; j < d; j++)
            a[i * d + j] = a[j * d + i] = product[i * d + j] / n - sum[i] / n * (sum[j] / n);
        all += a[i * d + i];
    }
    kvr_lowrank_directions(d, a, v, d, out + d);
    for (int k = 0; k < d && share; k++) {
        spread = 0;
        for (int i = 0; i < d; i++)
            for (int j = 0; j < d; j++)
                spread +=
                    (double)out[(1 + k) * d + i] * (double)out[(1 + k) * d + j] *
                    (product[(i < j ? i * d + j : j * d + i)] / n - sum[i] / n * (sum[j] / n));
        share[k] = all > 0 ? spread / all : 0;
    }
}

enum kvr_status kvr_basis_fit(const struct kvr_basis *p, int layer, enum kvr_side side, float *out,
                              double *share)
{
    const size_t at = place_of(layer, side), d = (size_t)p->head_dim, heads = (size_t)p->n_heads;
    double *scratch;

    if (!(p->n[at] > 0))
        return kvr_fail(KVR_EINVAL,
                        "basis: layer %d: the rollouts stored no %s in the cache; raise --frames "
                        "to at least one whole chunk",
                        layer, side == KVR_V ? "values" : "keys");
    scratch = malloc(2 * d * d * sizeof *scratch);
    if (!scratch)
        return kvr_fail(KVR_ENOMEM, "basis: out of memory while allocating a matrix of %zu x %zu",
                        d, d);
    for (size_t h = 0; h < heads; h++)
        fit_head(p->n[at], p->sum + (at * heads + h) * d, p->product + (at * heads + h) * d * d,
                 p->head_dim, scratch, out + h * (1 + d) * d, share ? share + h * d : NULL);
    free(scratch);
    return KVR_OK;
}

enum kvr_status kvr_basis_write(const struct kvr_basis *p, const char *path,
                                const char *const *metadata)
{
    const size_t n = 2 * (size_t)p->n_layers, d = (size_t)p->head_dim;
    const size_t each = (size_t)p->n_heads * (1 + d) * d;
    struct kvr_st_item *item = calloc(n, sizeof *item);
    char(*name)[16] = calloc(n, sizeof *name);
    float *data = malloc(n * each * sizeof *data);
    enum kvr_status st = item && name && data
                             ? KVR_OK
                             : kvr_fail(KVR_ENOMEM, "basis: out of memory while writing the file");

    for (size_t i = 0; i < n && st == KVR_OK; i++) {
        snprintf(name[i], sizeof name[i], "%c.%d", "kv"[i % 2], (int)(i / 2));
        item[i] =
            (struct kvr_st_item){ .name = name[i],
                                  .t = { .data = data + i * each,
                                         .dtype = KVR_F32,
                                         .n_dims = 3,
                                         .shape = { p->n_heads, 1 + p->head_dim, p->head_dim } } };
        st = kvr_basis_fit(p, (int)(i / 2), i % 2 ? KVR_V : KVR_K, data + i * each, NULL);
    }
    if (st == KVR_OK)
        st = kvr_st_write(path, item, (int)n, metadata);
    free(item);
    free(name);
    free(data);
    return st;
}
