/* flops.h - predicts the FLOPs of a rollout.
 *
 *     double flop = kvr_rollout_flop(config, 42, 0);     2.97e15 for Wan 1.3B
 *
 * The functions count the FLOPs of the network, without the decoder and without the codec of the
 * cache method. */
#ifndef KVR_PLAN_FLOPS_H
#define KVR_PLAN_FLOPS_H

#include "harness/engine/model.h"
#include "harness/workload/trace/trace.h"

/* Returns the floating-point operations of a rollout; a multiply-add counts as two. window_frames
 * is the number of newest frames that attention sees, including the current chunk; 0 means all
 * frames. Steps that a method skips are counted. */
double kvr_rollout_flop(const struct kvr_model_config *c, int latent_frames, int window_frames);

/* Returns the FLOPs of a language model's forward over n tokens (the teacher). */
double kvr_teacher_flop(const struct kvr_model_config *c, int n);
/* Returns the additional FLOPs of evaluating one method on a text of n tokens: the forward of each
 * scored token, with two applications of the vocabulary head (harness/workload/text.h). */
double kvr_text_flop(const struct kvr_model_config *c, int n, int chunk, int first, int scored);

/* Returns the FLOPs of attention when replaying the first `frames` frames and `n_layers` layers of
 * a trace (0: all frames, or all layers). */
double kvr_trace_flop(const struct kvr_trace_info *i, int frames, int n_layers, int window_frames);

#endif
