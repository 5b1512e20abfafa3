/* rope.h - rotary position embedding (RoPE) of a video model, and token positions within a frame.
 *
 * The cache stores keys to which RoPE has been applied. To average keys of several positions, apply
 * the inverse RoPE of each key's position, average the keys, and apply the RoPE of the new
 * position.
 *
 *     kvr_rope_angles(D, frame, row, col, cosines, sines);
 *     kvr_rope_rotate(k, D, cosines, sines, true, raw);
 *
 * The RoPE of n frames rotates only the channel pairs that encode time, and successive rotations
 * add up. To move a key by n frames, positive or negative, rotate it by the angles of frame n, row
 * 0 and column 0. */
#ifndef KVR_METHODS_KERNELS_ROPE_H
#define KVR_METHODS_KERNELS_ROPE_H

#include <stdbool.h>

#include "harness/core/status.h"

/* Computes the cosines and sines [D/2] of the rotation angles at one position. Of the c = D/2
 * channel pairs, the first c - 2g encode time, the next g the row, and the last g the column, with
 * g = floor(c / 3). Pair k of an axis with m pairs rotates by 10000^(-k/m) radians per position, k
 * = 0 .. m - 1. */
void kvr_rope_angles(int head_dim, double frame, int row, int col, double *cosines, double *sines);

/* Rotates the channel pairs (2p, 2p + 1) of the vector `from` [D] by the angles, or by their
 * negatives if `back` is set. The result is stored in `to` [D], which may be `from`. */
void kvr_rope_rotate(const float *from, int head_dim, const double *cosines, const double *sines,
                     bool back, float *to);

/* Sets *out to the number of tokens per row of a frame. If `row` is not 0, the number is `row`. If
 * `row` is 0, Wan's frames of 1560 tokens have 52 tokens per row; for other frames, rows and
 * columns are as nearly equal in number as possible. If `row` does not divide tokens_per_frame, the
 * function fails with KVR_EUNSUPPORTED. The error message names `part`, the codec stage or policy
 * that calls the function. */
enum kvr_status kvr_frame_row(const char *part, int tokens_per_frame, int row, int *out);

#endif
