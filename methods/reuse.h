/* reuse.h - feature reuse, an optional rule of a method, by which the sampler skips the transformer
 * in some denoising steps.
 *
 * Before each denoising step, the sampler computes the relative change r = mean|a - a'| / mean|a'|.
 * Here a and a' are the inputs of the first transformer block in this and in the previous step. The
 * sampler adds up r since the last step in which it computed the blocks. While this sum is below
 * `threshold`, the sampler skips the blocks and adds the residual (output minus input) that they
 * computed in that last step (FlowCache, arXiv:2602.10825). The first `warmup` steps, the first
 * step and the last step of a chunk are always computed. The cache-update pass (clean pass), which
 * runs on the denoised chunk at t = 0, is also always computed. */
#ifndef KVR_METHODS_REUSE_H
#define KVR_METHODS_REUSE_H

#include "harness/core/opts.h"

struct kvr_reuse_opts {
    double threshold;
    int warmup;
};
extern const struct kvr_opt kvr_reuse_options[];

/* Parses a rule such as "rel_l1(threshold=1.5,warmup=0)". Sets *on to false if `text` is NULL;
 * features are then never reused. */
enum kvr_status kvr_reuse_parse(struct kvr_reuse_opts *out, bool *on, const char *text);

#endif
