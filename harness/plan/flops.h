/* flops.h - predicts the FLOPs of a rollout.
 *
 *     double flop = kvr_rollout_flop(config, 42, 0);     2.97e15 for Wan 1.3B
 *
 * The functions count the FLOPs of the transformer. They exclude the FLOPs of the decoder and of
 * the cache method's codec. */
#ifndef KVR_PLAN_FLOPS_H
#define KVR_PLAN_FLOPS_H

#include "harness/engine/model.h"
#include "harness/workload/trace/trace.h"

/* Returns the FLOPs of a rollout, where a multiply-add counts as two. Attention sees the newest
 * window_frames frames, including the current chunk, or all frames if window_frames is 0. The
 * result includes denoising steps that a method skips. */
double kvr_rollout_flop(const struct kvr_model_config *c, int latent_frames, int window_frames);

/* Returns the FLOPs of a language model's forward pass over n tokens with a BF16 KV cache. The pass
 * computes the reference with which every method is compared (struct kvr_teacher). */
double kvr_teacher_flop(const struct kvr_model_config *c, int n);
/* Returns the FLOPs of evaluating one method on a text of n tokens, in addition to
 * kvr_teacher_flop(). Each scored token needs one forward pass with the method's cache. It also
 * needs two evaluations of the LM head: on the method's hidden state and on the reference's hidden
 * state. The arguments chunk, first and scored have the meaning of the fields of struct
 * kvr_text_request. */
double kvr_text_flop(const struct kvr_model_config *c, int n, int chunk, int first, int scored);

/* Returns the FLOPs of attention when replaying the first `frames` frames of a trace. If n_layers
 * is not 0, only the first n_layers layers are replayed. Attention sees the newest window_frames
 * frames, or all frames if window_frames is 0. */
double kvr_trace_flop(const struct kvr_trace_info *i, int frames, int n_layers, int window_frames);

#endif
