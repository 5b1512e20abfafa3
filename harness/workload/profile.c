/* profile.c - compares each layer's frame summaries between consecutive forward passes. */
#include "harness/workload/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/kernels/saliency.h"
#include "methods/kernels/share.h"

struct layer {
    float *now, *before; /* [frames,H]: summaries of this forward pass and the previous pass */
    int n_before;        /* number of frames in `before` */
    double sum;          /* sum over passes of the deltas of all frames but the newest 25 % */
    int64_t count;       /* number of deltas in `sum` */
};

struct kvr_profile {
    int n_layers, n_heads, head_dim, tokens_per_frame, max_frames;
    struct layer *layer;
    float *scratch;
    float *values; /* [2][n_values]: a chunk's K and V in F32 */
    size_t n_values;
};

enum kvr_status kvr_profile_open(struct kvr_profile **out, int n_layers, int n_heads, int head_dim,
                                 int tokens_per_frame, int max_frames)
{
    struct kvr_profile *p = calloc(1, sizeof *p);
    const size_t each = (size_t)max_frames * (size_t)n_heads;

    if (!p)
        return kvr_fail(KVR_ENOMEM, "profile: out of memory");
    *p = (struct kvr_profile){
        .n_layers = n_layers,
        .n_heads = n_heads,
        .head_dim = head_dim,
        .tokens_per_frame = tokens_per_frame,
        .max_frames = max_frames,
        .layer = calloc((size_t)n_layers, sizeof *p->layer),
        .scratch = calloc(2 * (size_t)n_layers * each, sizeof *p->scratch),
    };
    if (!p->layer || !p->scratch) {
        kvr_profile_close(&p);
        return kvr_fail(KVR_ENOMEM,
                        "profile: out of memory while allocating %d layers of %d frames", n_layers,
                        max_frames);
    }
    for (int i = 0; i < n_layers; i++) {
        p->layer[i].now = p->scratch + (size_t)(2 * i) * each;
        p->layer[i].before = p->layer[i].now + each;
    }
    *out = p;
    return KVR_OK;
}

void kvr_profile_close(struct kvr_profile **p)
{
    if (!*p)
        return;
    free((*p)->layer);
    free((*p)->scratch);
    free((*p)->values);
    free(*p);
    *p = NULL;
}

void kvr_profile_begin(struct kvr_profile *p)
{
    for (int i = 0; i < p->n_layers; i++)
        p->layer[i].n_before = 0;
}

enum kvr_status kvr_profile_add(struct kvr_profile *p, const struct kvr_pass *pass, int layer,
                                const float *k, const float *v)
{
    const int n = pass->frame0 + pass->n_frames, H = p->n_heads, S = p->tokens_per_frame;

    if (layer >= p->n_layers)
        return kvr_fail(KVR_EINTERNAL,
                        "profile: the cache has layer %d, but the model has layers 0..%d", layer,
                        p->n_layers - 1);
    if (n > p->max_frames)
        return kvr_fail(
            KVR_EINTERNAL,
            "profile: a forward pass ends after frame %d, but the profile was opened for %d frames",
            n, p->max_frames);
    struct layer *l = &p->layer[layer];
    const int overlap = l->n_before < n ? l->n_before : n;
    const int n_old = n - (int)kvr_share(0.25 * n, 1, n);

    for (int f = 0; f < pass->n_frames; f++)
        kvr_frame_summary(k, v, (int64_t)f * S, S, H, p->head_dim,
                          l->now + (size_t)(pass->frame0 + f) * (size_t)H);
    for (int f = 0; f < n_old; f++) {
        const int was = f - (n - overlap) + (l->n_before - overlap); /* index in l->before */

        l->sum += f < n - overlap ? 1
                                  : kvr_summary_delta(l->now + (size_t)f * (size_t)H,
                                                      l->before + (size_t)was * (size_t)H, H);
    }
    l->count += n_old;
    memcpy(l->before, l->now, (size_t)n * (size_t)H * sizeof *l->now);
    l->n_before = n;
    return KVR_OK;
}

enum kvr_status kvr_profile_observe(void *ctx, const struct kvr_cache_view *view)
{
    struct kvr_profile *p = ctx;
    const size_t n = (size_t)view->n_tok * (size_t)p->n_heads * (size_t)p->head_dim;

    if (n > p->n_values) {
        float *scratch = realloc(p->values, 2 * n * sizeof *scratch);

        if (!scratch)
            return kvr_fail(KVR_ENOMEM, "profile: out of memory while allocating %lld tokens",
                            (long long)view->n_tok);
        p->values = scratch;
        p->n_values = n;
    }
    kvr_to_f32(p->values, view->k, view->shape->exact, n);
    kvr_to_f32(p->values + n, view->v, view->shape->exact, n);
    return kvr_profile_add(p, view->pass, view->layer, p->values, p->values + n);
}

enum kvr_status kvr_profile_budgets(const struct kvr_profile *p, double lo, double hi,
                                    double *score, double *beta)
{
    double min = INFINITY, max = -INFINITY;

    for (int i = 0; i < p->n_layers; i++) {
        if (!p->layer[i].count)
            return kvr_fail(
                KVR_EINVAL,
                "profile: layer %d: no frame stayed in the cache for two forward passes; raise "
                "--frames",
                i);
        score[i] = p->layer[i].sum / (double)p->layer[i].count;
        if (!isfinite(score[i]))
            return kvr_fail(KVR_ENAN,
                            "profile: layer %d: the mean change of cached frames between two "
                            "forward passes is %g, must be finite",
                            i, score[i]);
        min = score[i] < min ? score[i] : min;
        max = score[i] > max ? score[i] : max;
    }
    for (int i = 0; i < p->n_layers; i++)
        beta[i] = lo + (hi - lo) * (max > min ? (score[i] - min) / (max - min) : 0.5);
    return KVR_OK;
}
