/* grid.h - integer grids: the stages `sym` and `asym`.
 *
 * The values x [T,H,D] have C = H*D channels. A group of elements shares a scale s in FP16 and, if
 * the grid is asymmetric, a zero point or minimum in FP16. The axis determines the groups:
 *
 *     tokens      `group` consecutive tokens of one channel, counted from the block's start
 *     channels    `group` consecutive channels of one head of one token
 *     token       all heads and channels of one token (`group` is unused)
 *
 *     asym(axis=tokens,group=16)   the study's KIVI keys: 16 tokens of a channel
 *     asym(axis=token)             the study's KIVI values
 *
 * All grids decode a code q of b bits to x^ = (q - z) s + m, with the scale s, the zero point z and
 * the minimum m. With Q = 2^b - 1, these parameters are:
 *
 *                 sym                  asym, intended       asym, study
 *     z           2^(b-1)              0                    clamp(rne(-min/s), 0, Q)
 *     m           0                    min                  0
 *     s           see fit_sym          (max - m)/Q          max((max - min)/Q, 1e-8)
 *
 * A grid has two versions. The intended version follows the paper of the method that uses the grid,
 * and the study version (`study` in struct kvr_stage_job) follows the code of the 33-method study.
 *
 * In the intended version (as in the paper), codes are computed with the stored FP16 numbers s and
 * m. Since s is rounded up and m is rounded down, the range of codes covers every element of the
 * group. If the last group of a block is incomplete, its parameters are computed from its actual
 * elements, without padding.
 *
 * In the study version, codes are computed with s before it is rounded to FP16. Since z is clamped
 * to [0, Q], values of a group whose range does not include 0 are clipped. Blocks are padded with
 * tokens of zeros to a multiple of 16 tokens. The padding is stored, and its zeros count in min and
 * max.
 *
 * With the option compute=bf16, every subtraction, division, multiplication and addition of
 * encoding and decoding is rounded to BF16. The study version then also rounds every operation that
 * computes scales and zero points to BF16. The intended version computes scales and minima in F32
 * and stores them in FP16.
 *
 * Groups whose values are far beyond the range of FP16 differ between the versions. In the
 * intended version, |m| and s are at most 65504, so these values are clipped. In the study
 * version, s becomes infinite, and the group decodes to infinities and NaN.
 *
 * A NaN or infinity in a group makes its scale NaN and its zero point 0, so that the group decodes
 * to NaN.
 *
 * The codes of a block are packed as in pack.h. The side information of a block is the scales
 * [groups] and then the zero points [groups], in FP16. */
#ifndef KVR_METHODS_GRID_H
#define KVR_METHODS_GRID_H

#include "methods/codec.h"

/* Parameters of an integer grid, which are options of its stage. */
struct kvr_grid {
    int bits;
    enum kvr_group_axis axis;
    int group;
    bool asym;
};

enum { KVR_GRID_MAX_GROUP = 4096, KVR_STUDY_BLOCK = 16 };

/* Returns the integer grid whose format the layout describes. The flag l->chains must be set,
 * because only integer grids set it. */
static inline struct kvr_grid kvr_grid_of_layout(const struct kvr_layout *l)
{
    struct kvr_grid g;

    g.bits = l->bits;
    g.axis = l->axis;
    g.group = l->group;
    g.asym = l->zero != KVR_ZERO_MIDDLE;
    return g;
}

/* Fails with KVR_EINVAL if the axis is `tokens` and the group size is not a multiple of 8, or if
 * the axis is `channels` and the group size does not divide head_dim. */
enum kvr_status kvr_grid_check(const struct kvr_grid *g, int head_dim);
/* Sets `out` to the storage format of a block that has the shape in `job`. */
void kvr_grid_layout(const struct kvr_grid *g, const struct kvr_stage_job *job,
                     struct kvr_layout *out);
/* Encodes x [T,H,D] F32 to the codes and scales of `out`, whose buffers have the sizes of
 * kvr_grid_layout(). */
void kvr_grid_encode(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                     struct kvr_stage_data *out);
/* Decodes tokens [t0, t0 + n) of heads [h0, h0 + nh) to out [n,nh,D] F32. According to `mode`, the
 * values are assigned to `out`, added to it or subtracted from it. */
void kvr_grid_decode(const struct kvr_grid *g, const struct kvr_stage_job *job,
                     const struct kvr_stage_data *in, int64_t t0, int64_t n, int h0, int nh,
                     enum kvr_decode_mode mode, float *out);

#endif
