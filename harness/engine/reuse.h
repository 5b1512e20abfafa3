/* reuse.h - the state of feature reuse over a rollout (methods/reuse.h has the rule). */
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
    float *before;   /* [n] what entered the blocks at the last step */
    float *residual; /* [n] what the blocks added when they last ran */
    double sum;      /* of r since then */
    /* Over the rollout. */
    int64_t n_compared, n_skipped;
    double total; /* of r */
};

enum kvr_status kvr_reuse_open(struct kvr_reuse *r, struct kvr_dev *dev, double threshold,
                               int warmup, int n_steps, int64_t n);
void kvr_reuse_close(struct kvr_reuse *r);

/* Features x [n], in the device's memory, are about to enter the blocks. *skip: go round them; x
 * has the residual added. Waits for a device, since what it finds decides what comes next. */
enum kvr_status kvr_reuse_skip(struct kvr_reuse *r, const struct kvr_pass *pass, float *x,
                               bool *skip);
/* The blocks ran and left x [n]. */
void kvr_reuse_keep(struct kvr_reuse *r, const struct kvr_pass *pass, const float *x);

#endif
