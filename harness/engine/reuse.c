/* reuse.c - when a denoising step may be skipped, and what stands in for it. */
#include "harness/engine/reuse.h"

#include <math.h>
#include <string.h>

enum kvr_status kvr_reuse_open(struct kvr_reuse *r, struct kvr_dev *dev, double threshold,
                               int warmup, int n_steps, int64_t n)
{
    *r = (struct kvr_reuse){
        .on = true, .threshold = threshold, .warmup = warmup, .n_steps = n_steps, .n = n
    };
    KVR_TRY(kvr_buf_alloc(&r->buf, dev, KVR_MEM_ACT, 2 * (size_t)n * sizeof(float)));
    r->before = r->buf.p;
    r->residual = r->before + n;
    return KVR_OK;
}

void kvr_reuse_close(struct kvr_reuse *r)
{
    kvr_buf_free(&r->buf);
    *r = (struct kvr_reuse){ 0 };
}

/* mean|x - before| / mean|before| */
static double relative_l1(const struct kvr_reuse *r, const float *x)
{
    double change = 0, size = 0;

    for (int64_t i = 0; i < r->n; i++) {
        change += fabs((double)x[i] - r->before[i]);
        size += fabs((double)r->before[i]);
    }
    return change / size;
}

bool kvr_reuse_skip(struct kvr_reuse *r, const struct kvr_pass *pass, float *x)
{
    const bool must = pass->index == 0 || pass->index < r->warmup || pass->index == r->n_steps - 1;
    double change;

    if (!r->on || pass->clean)
        return false;
    change = pass->index ? relative_l1(r, x) : 0;
    memcpy(r->before, x, (size_t)r->n * sizeof *x);
    if (pass->index) {
        r->n_compared++;
        r->total += change;
        r->sum += change;
    }
    if (must || !(r->sum < r->threshold)) {
        r->sum = 0;
        return false;
    }
    r->n_skipped++;
    for (int64_t i = 0; i < r->n; i++)
        x[i] += r->residual[i];
    return true;
}

void kvr_reuse_keep(struct kvr_reuse *r, const struct kvr_pass *pass, const float *x)
{
    if (!r->on || pass->clean)
        return;
    for (int64_t i = 0; i < r->n; i++)
        r->residual[i] = x[i] - r->before[i];
}
