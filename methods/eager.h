/* eager.h - the stages of a codec as a tensor library runs them: one launch per operation of the formula.
 *
 *     KVR_TRY(kvr_eager_check(codec));
 *     kvr_eager_encode(&job, x, scratch, data);          scratch: kvr_eager_floats()
 *     kvr_eager_decode(&job, data, t0, n, h0, nh, out);
 *     kvr_eager_transform(&job, x, rows);
 *
 * A reading of time (option `launches=eager`): the study's quantizers run in PyTorch, whole tensors at a time.
 * Operations and their order are those of its formulas (tools/peers/torch_codecs.py):
 *
 *     sym      encode  |x|, max, / qmax, max(., eps), x / s, round, clamp, to code, s to FP16
 *              decode  code to F32, * s
 *     asym     encode  min, max, -, / Q, max(., eps), -min, / s, round, clamp, x / s, + z, round, clamp, to code,
 *                      s and z to FP16
 *              decode  code to F32, - z, * s
 *     hadamard         one butterfly per stride, / sqrt(D)
 *
 * Tensors are F32; a ragged last block is padded by one more launch. PyTorch casts scales in launches of their own
 * and runs a butterfly as two sums and a concatenation: here both are part of one launch, so its time is a lower
 * bound. Codes are packed. Bytes equal those of the stage's own functions, and so do decoded values. */
#ifndef KVR_METHODS_EAGER_H
#define KVR_METHODS_EAGER_H

#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* KVR_EUNSUPPORTED unless the codec has the study's reading and consists of `raw`, or of one integer grid with or
 * without `hadamard`. */
enum kvr_status kvr_eager_check(const struct kvr_codec *c);

/* Whether this stage runs operation by operation; others use their own functions. */
bool kvr_eager_grid(const struct kvr_stage_job *job);

/* Floats of scratch for kvr_eager_encode. 0 for a stage that does not run operation by operation. */
int64_t kvr_eager_floats(const struct kvr_stage_job *job);

/* Encodes x [T,H,D], which is unchanged. Like the two functions below it neither allocates nor
 * synchronises. */
void kvr_eager_encode(const struct kvr_stage_job *job, const float *x, float *scratch,
                      struct kvr_stage_data *out);
/* Tokens [t0, t0 + n) of heads [h0, h0 + nh) into out [n,nh,D]. */
void kvr_eager_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                      int64_t n, int h0, int nh, float *out);
/* Rows of head_dim floats, in place. */
void kvr_eager_transform(const struct kvr_stage_job *job, float *x, int64_t rows);

#ifdef __cplusplus
}
#endif
#endif
