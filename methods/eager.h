/* eager.h - executes the stages of a codec as a tensor library does, with one kernel launch per
 * arithmetic operation.
 *
 *     KVR_TRY(kvr_eager_check(codec));
 *     kvr_eager_encode(&job, x, scratch, data);          scratch: kvr_eager_floats()
 *     kvr_eager_decode(&job, data, t0, n, h0, nh, out);
 *     kvr_eager_transform(&job, x, rows);
 *
 * With the option `launches=eager`, measured times approximate those of the 33-method study's own
 * implementation, whose quantizers run in PyTorch on whole tensors. The operations and their order
 * are those of the study's formulas (tools/peers/torch_codecs.py):
 *
 *     sym      encode  |x|, max, / qmax, max(., eps), x / s, round, clamp, to code, s to FP16
 *              decode  code to F32, * s
 *     asym     encode  min, max, -, / Q, max(., eps), -min, / s, round, clamp, x / s, + z, round, clamp, to code,
 *                      s and z to FP16
 *              decode  code to F32, - z, * s
 *     hadamard         one butterfly per stride, / sqrt(D)
 *
 * Tensors are F32. If the number of tokens is not a multiple of 16, `sym` and `asym` need one
 * additional launch, which pads the tensor with zeros, as in the study's code. Two operations need
 * fewer launches here than in PyTorch: the conversion of scales to FP16, and a butterfly stage of
 * the Walsh-Hadamard transform. PyTorch computes the butterfly stage as two sums and a
 * concatenation. The measured time is therefore a lower bound of PyTorch's time. Codes are packed.
 * The stored bytes and the decoded values are the same as without `launches=eager`. */
#ifndef KVR_METHODS_EAGER_H
#define KVR_METHODS_EAGER_H

#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Accepts only the codec of a method as the 33-method study implemented it (NAME@study). Its
 * pipeline must be `raw`, `sym` or `asym`, the latter two with or without `hadamard`. For any other
 * codec, the function fails with KVR_EUNSUPPORTED. */
enum kvr_status kvr_eager_check(const struct kvr_codec *c);

/* Returns whether kvr_eager_encode and kvr_eager_decode execute this stage; other stages run as
 * without `launches=eager`. */
bool kvr_eager_grid(const struct kvr_stage_job *job);

/* Number of floats of scratch memory that kvr_eager_encode needs, or 0 for a stage that is not
 * executed operation by operation. */
int64_t kvr_eager_floats(const struct kvr_stage_job *job);

/* Encodes x [T,H,D], which is not changed. The function neither allocates nor synchronises. */
void kvr_eager_encode(const struct kvr_stage_job *job, const float *x, float *scratch,
                      struct kvr_stage_data *out);
/* Decodes tokens [t0, t0 + n) of heads [h0, h0 + nh) to out [n,nh,D], without allocating or
 * synchronising. */
void kvr_eager_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                      int64_t n, int h0, int nh, float *out);
/* Applies the stage's transform to rows of head_dim floats, in place, without allocating or
 * synchronising. */
void kvr_eager_transform(const struct kvr_stage_job *job, float *x, int64_t rows);

#ifdef __cplusplus
}
#endif
#endif
