/* flops.h - predicts the FLOPs of a rollout.
 *
 *     double flop = kvr_rollout_flop(config, 42, 0);     2.97e15 for Wan 1.3B
 *
 * Counts the network alone, without the decoder and without the arithmetic of the cache method. */
#ifndef KVR_PLAN_FLOPS_H
#define KVR_PLAN_FLOPS_H

#include "harness/engine/model.h"
#include "harness/workload/trace/trace.h"

/* Floating-point operations; a multiply-add counts as two. window_frames: the newest frames that
 * attention sees, including the current chunk; 0: all. The count ignores that some methods skip
 * steps. */
double kvr_rollout_flop(const struct kvr_model_config *c, int latent_frames, int window_frames);

/* FLOPs of a language model: the teacher's forward over n tokens; and the additional cost of
 * evaluating one method, two forwards of the last layer per scored token
 * (harness/workload/text.h). */
double kvr_teacher_flop(const struct kvr_model_config *c, int n);
double kvr_text_flop(const struct kvr_model_config *c, int n, int chunk, int first, int scored);

/* FLOPs of attention over a trace's first frames in its first layers (0: all). */
double kvr_trace_flop(const struct kvr_trace_info *i, int frames, int n_layers, int window_frames);

#endif
