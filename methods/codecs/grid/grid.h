/* grid.h - integer grids: what the stages `sym` and `asym` share.
 *
 * x [T,H,D], C = H*D channels. A set R of elements shares a step s (FP16) and, if asymmetric,
 * a zero point (FP16). Sets are
 *
 *     tokens      `group` consecutive tokens of one channel, counted from the block's start
 *     channels    `group` consecutive channels of one head of one token
 *     token       all heads and channels of one token
 *
 * Decoding is x^ = (q - z) s + m for every variant:
 *
 *                 sym                  asym, intended       asym, study
 *     z           2^(b-1)              0                    clamp(rne(-min/s), 0, Q)
 *     m           0                    min                  0
 *     s           see fit_sym          (max - m)/Q          max((max - min)/Q, 1e-8)
 *
 * with Q = 2^b - 1. As intended, codes are fitted to the FP16 numbers that decoding will
 * use (s rounded up, m down, so that nothing is clipped) and a ragged last set holds only the
 * elements there are. As the study ran it, codes are fitted to the unrounded s, z is clamped
 * (a range that excludes 0 saturates), and the tokens are padded with zeros to a multiple of
 * 16, which take part in min and max and are stored.
 *
 * With compute=bf16 every subtraction, division, product and sum of fitting (study), coding and
 * decoding is rounded to BF16; as intended the steps and minima are FP16 all the same. What lies
 * beyond FP16: as intended m stops at +-65504 and s at 65504, so such values are clipped; in the
 * study's reading s becomes infinite and the set decodes to infinities and NaN.
 *
 * A NaN or infinity makes its set's step non-finite, so that decoding gives NaN: it is noticed.
 *
 * Bytes: codes as pack.h says; meta = steps [sets] FP16, then zero points [sets] FP16. */
#ifndef KVR_METHODS_GRID_H
#define KVR_METHODS_GRID_H

#include "methods/codec.h"

enum kvr_grid_axis { KVR_AXIS_TOKENS, KVR_AXIS_CHANNELS, KVR_AXIS_TOKEN };
extern const char *const kvr_axis_names[]; /* "tokens", "channels", "token" */

/* What the options of a stage come to. */
struct kvr_grid {
    int bits;
    enum kvr_grid_axis axis;
    int group;
    bool asym;
};

enum { KVR_GRID_MAX_GROUP = 4096, KVR_STUDY_BLOCK = 16 };

enum kvr_status kvr_grid_check(const struct kvr_grid *g, int n_heads, int head_dim);
int64_t kvr_grid_sets(const struct kvr_grid *g, const struct kvr_stage_job *job);
void kvr_grid_bytes(const struct kvr_grid *g, const struct kvr_stage_job *job,
                    struct kvr_stage_bytes *out);
void kvr_grid_encode(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                     struct kvr_stage_data *out);
void kvr_grid_decode(const struct kvr_grid *g, const struct kvr_stage_job *job,
                     const struct kvr_stage_data *in, int64_t t0, int64_t n, int h0, int nh,
                     enum kvr_decode_mode mode, float *out);
void kvr_grid_steps(const struct kvr_grid *g, const struct kvr_stage_job *job,
                    const struct kvr_stage_data *in, struct kvr_steps *out);

#endif
