/* reuse.h - feature reuse: a sampler rule that a method's row may carry.
 *
 * Before each denoising step, the features a that enter the transformer's blocks are compared with
 * the features a' of the previous step: r = mean|a - a'| / mean|a'|. While the sum of r since the
 * last computed step is below `threshold`, the blocks are not computed, and their residual of the
 * last computed step is added instead (FlowCache, arXiv:2602.10825). The first and the last step of
 * a chunk, the first `warmup` steps and the cache-update pass (clean pass: on the denoised chunk, t
 * = 0) are always computed. */
#ifndef KVR_METHODS_REUSE_H
#define KVR_METHODS_REUSE_H

#include "harness/core/opts.h"

struct kvr_reuse_opts {
    double threshold;
    int warmup;
};
extern const struct kvr_opt kvr_reuse_options[];

/* Parses a rule such as "rel_l1(threshold=1.5,warmup=0)". If `text` is NULL, sets *on to false. */
enum kvr_status kvr_reuse_parse(struct kvr_reuse_opts *out, bool *on, const char *text);

#endif
