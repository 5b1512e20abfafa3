/* reuse.h - state of feature reuse over a rollout (the rule: methods/reuse.h). */
#ifndef KVR_ENGINE_REUSE_H
#define KVR_ENGINE_REUSE_H

#include "harness/cache/cache.h"
#include "harness/device/mem.h"
#include "harness/engine/ops.h"

struct kvr_reuse {
    bool on;
    double threshold;
    int warmup, n_steps; /* n_steps: denoising steps of a chunk */
    int64_t n;           /* features of a chunk */
    struct kvr_dev *dev;
    const struct kvr_ops *ops;
    struct kvr_buf buf;
    double *sums;    /* [2, KVR_OPS_L1_PARTS] */
    float *before;   /* [n] input of the blocks at the previous step */
    float *residual; /* [n] output minus input of the blocks when they last ran */
    double sum;      /* sum of the relative changes r since the blocks last ran */
    /* Counts over the rollout. */
    int64_t n_compared, n_skipped;
    double total; /* sum of r */
};

enum kvr_status kvr_reuse_open(struct kvr_reuse *r, struct kvr_dev *dev, double threshold,
                               int warmup, int n_steps, int64_t n);
void kvr_reuse_close(struct kvr_reuse *r);

/* Called before the blocks with their input x [n], in device memory. *skip: the blocks are skipped,
 * and x already has the residual added. Synchronizes, since the host decides. */
enum kvr_status kvr_reuse_skip(struct kvr_reuse *r, const struct kvr_pass *pass, float *x,
                               bool *skip);
/* Called after the blocks ran, with their output x [n]. */
void kvr_reuse_keep(struct kvr_reuse *r, const struct kvr_pass *pass, const float *x);

#endif
