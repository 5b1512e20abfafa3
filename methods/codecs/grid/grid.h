/* grid.h - integer grids: the stages `sym` and `asym`.
 *
 * x [T,H,D], C = H*D channels. A group of elements shares a scale s (FP16) and, if asymmetric, a
 * zero point or minimum (FP16). Groups are
 *
 *     tokens      `group` consecutive tokens of one channel, counted from the block's start
 *     channels    `group` consecutive channels of one head of one token
 *     token       all heads and channels of one token (`group` is unused)
 *
 *     asym(axis=tokens,group=16)   the study's KIVI keys: 16 tokens of a channel
 *     asym(axis=token)             the study's KIVI values
 *
 * Every variant decodes to x^ = (q - z) s + m:
 *
 *                 sym                  asym, intended       asym, study
 *     z           2^(b-1)              0                    clamp(rne(-min/s), 0, Q)
 *     m           0                    min                  0
 *     s           see fit_sym          (max - m)/Q          max((max - min)/Q, 1e-8)
 *
 * with Q = 2^b - 1. In the intended reading, codes use the stored FP16 numbers (s rounded up, m
 * down, so that nothing clips), and a ragged last group has only its actual elements. In the
 * study's reading, codes use the unrounded s, z is clamped (a range that excludes 0 saturates), and
 * tokens are zero-padded to a multiple of 16; min and max include the padding, which is stored.
 *
 * With compute=bf16 every subtraction, division, product and sum of fitting (study), encoding and
 * decoding is rounded to BF16; the intended reading still stores FP16 scales and minima. Beyond
 * FP16's range: intended, m saturates at +-65504 and s at 65504, so such values clip; study, s
 * becomes infinite and the group decodes to infinities and NaN.
 *
 * A NaN or infinity makes its group's scale NaN and its zero point 0, so that decoding gives NaN.
 *
 * Bytes: codes as in pack.h; meta = scales [groups] FP16, then zero points [groups] FP16. */
#ifndef KVR_METHODS_GRID_H
#define KVR_METHODS_GRID_H

#include "methods/codec.h"

/* Grid parameters from a stage's options. */
struct kvr_grid {
    int bits;
    enum kvr_group_axis axis;
    int group;
    bool asym;
};

enum { KVR_GRID_MAX_GROUP = 4096, KVR_STUDY_BLOCK = 16 };

/* The grid described by a layout with `chains` set. */
static inline struct kvr_grid kvr_grid_of_layout(const struct kvr_layout *l)
{
    struct kvr_grid g;

    g.bits = l->bits;
    g.axis = l->axis;
    g.group = l->group;
    g.asym = l->zero != KVR_ZERO_MIDDLE;
    return g;
}

/* KVR_EINVAL: a group of tokens that is no multiple of 8, or of channels that does not divide head_dim. */
enum kvr_status kvr_grid_check(const struct kvr_grid *g, int head_dim);
/* Bytes and groups of a block of the job's shape. */
void kvr_grid_layout(const struct kvr_grid *g, const struct kvr_stage_job *job,
                     struct kvr_layout *out);
/* x [T,H,D] F32 -> codes and scales of `out`, allocated as kvr_grid_layout() says. */
void kvr_grid_encode(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                     struct kvr_stage_data *out);
/* Tokens [t0, t0 + n), heads [h0, h0 + nh) -> out [n,nh,D] F32; mode: set, add to out, or subtract from it. */
void kvr_grid_decode(const struct kvr_grid *g, const struct kvr_stage_job *job,
                     const struct kvr_stage_data *in, int64_t t0, int64_t n, int h0, int nh,
                     enum kvr_decode_mode mode, float *out);

#endif
