/* reuse.h - state of feature reuse during a rollout; methods/reuse.h defines when a step is
 * skipped. */
#ifndef KVR_ENGINE_REUSE_H
#define KVR_ENGINE_REUSE_H

#include "harness/cache/cache.h"
#include "harness/device/mem.h"
#include "harness/engine/ops.h"

struct kvr_reuse {
    bool on;
    double threshold;
    int warmup, n_steps; /* warmup: number of first steps of each chunk that are never skipped;
                          * n_steps: number of denoising steps per chunk */
    int64_t n;           /* number of activations of a chunk: its tokens times the model's dim */
    struct kvr_dev *dev;
    const struct kvr_ops *ops;
    struct kvr_buf buf;
    double *sums;    /* [2, KVR_OPS_L1_PARTS] */
    float *before;   /* [n] input of the transformer blocks at the previous step */
    float *residual; /* [n] output minus input of the transformer blocks at the last step that was
                      * not skipped */
    double sum;      /* sum of the relative L1 changes of the transformer blocks' input since the
                      * last step that was not skipped */
    /* Numbers of steps of the rollout whose input was compared with the previous step's input, and
     * of skipped steps. */
    int64_t n_compared, n_skipped;
    double total; /* sum of the relative L1 changes of the transformer blocks' input over all steps
                   * of the rollout that were compared with the previous step */
};

enum kvr_status kvr_reuse_open(struct kvr_reuse *r, struct kvr_dev *dev, double threshold,
                               int warmup, int n_steps, int64_t n);
void kvr_reuse_close(struct kvr_reuse *r);

/* Decides whether this step skips the transformer blocks, whose input is x [n] in device memory. If
 * *skip is set to true, the stored residual has been added to x, and the caller must not run the
 * blocks. The call synchronizes the device, because the host makes the decision. */
enum kvr_status kvr_reuse_skip(struct kvr_reuse *r, const struct kvr_pass *pass, float *x,
                               bool *skip);
/* After a step that was not skipped, stores the residual x - before, where x [n] is the output of
 * the transformer blocks and `before` their input. */
void kvr_reuse_keep(struct kvr_reuse *r, const struct kvr_pass *pass, const float *x);

#endif
