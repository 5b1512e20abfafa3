/* reuse.c - decides in which denoising steps the transformer blocks are skipped, and adds the
 * stored residual in their place. */
#include "harness/engine/reuse.h"

enum kvr_status kvr_reuse_open(struct kvr_reuse *r, struct kvr_dev *dev, double threshold,
                               int warmup, int n_steps, int64_t n)
{
    *r = (struct kvr_reuse){
        .on = true,
        .threshold = threshold,
        .warmup = warmup,
        .n_steps = n_steps,
        .n = n,
        .dev = dev,
        .ops = kvr_ops_of(dev),
    };
    KVR_TRY(kvr_buf_alloc(&r->buf, dev, KVR_MEM_ACT,
                          2 * KVR_OPS_L1_PARTS * sizeof *r->sums + 2 * (size_t)n * sizeof(float)));
    r->sums = r->buf.p;
    r->before = (void *)(r->sums + 2 * KVR_OPS_L1_PARTS);
    r->residual = r->before + n;
    return KVR_OK;
}

void kvr_reuse_close(struct kvr_reuse *r)
{
    kvr_buf_free(&r->buf);
    *r = (struct kvr_reuse){ 0 };
}

/* Computes the relative change of the blocks' input x since the previous step, mean|x - before| /
 * mean|before|. */
static enum kvr_status relative_l1(const struct kvr_reuse *r, const float *x, double *out)
{
    double sums[2 * KVR_OPS_L1_PARTS], change = 0, size = 0;

    r->ops->l1(r->dev, r->n, x, r->before, r->sums);
    KVR_TRY(kvr_dev_sync(r->dev));
    KVR_TRY(kvr_dev_get(r->dev, sums, r->sums, sizeof sums));
    for (int i = 0; i < KVR_OPS_L1_PARTS; i++) {
        change += sums[i];
        size += sums[KVR_OPS_L1_PARTS + i];
    }
    *out = change / size;
    return KVR_OK;
}

enum kvr_status kvr_reuse_skip(struct kvr_reuse *r, const struct kvr_pass *pass, float *x,
                               bool *skip)
{
    const bool must = pass->index == 0 || pass->index < r->warmup || pass->index == r->n_steps - 1;
    const struct kvr_rows all = { .n = r->n, .d = 1, .tokens_per_frame = 1 };
    double change = 0;

    *skip = false;
    if (!r->on || pass->clean)
        return KVR_OK;
    if (pass->index)
        KVR_TRY(relative_l1(r, x, &change));
    kvr_dev_copy(r->dev, r->before, x, (size_t)r->n * sizeof *x);
    if (pass->index) {
        r->n_compared++;
        r->total += change;
        r->sum += change;
    }
    if (must || !(r->sum < r->threshold)) {
        r->sum = 0;
        return KVR_OK;
    }
    r->n_skipped++;
    r->ops->add(r->dev, &all, r->residual, NULL, 0, x);
    *skip = true;
    return KVR_OK;
}

void kvr_reuse_keep(struct kvr_reuse *r, const struct kvr_pass *pass, const float *x)
{
    if (r->on && !pass->clean)
        r->ops->subtract(r->dev, r->n, x, r->before, r->residual);
}
