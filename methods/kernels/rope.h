/* rope.h - rotary position embedding (RoPE) of a video model, and token positions within a frame.
 *
 * Keys are cached after RoPE. To combine keys of several positions, as in a mean, apply the inverse
 * RoPE of their positions, combine, and apply the RoPE of the result's position.
 *
 *     kvr_rope_angles(D, frame, row, col, cosines, sines);
 *     kvr_rope_rotate(k, D, cosines, sines, true, raw);
 *
 * Rotations along time are additive and do not affect the pairs of rows and columns. To move a key
 * by n frames, positive or negative, rotate it by the angles of (n, 0, 0). */
#ifndef KVR_METHODS_KERNELS_ROPE_H
#define KVR_METHODS_KERNELS_ROPE_H

#include <stdbool.h>

#include "harness/core/status.h"

/* Angles of one position, cosines and sines [D/2]: pairs [0, c-2g) for time, then g for rows, g for
 * columns, with c = D/2, g = floor(c / 3); each axis has its own geometric sequence starting at
 * 1. */
void kvr_rope_angles(int head_dim, double frame, int row, int col, double *cosines, double *sines);

/* Rotates the pairs (2p, 2p + 1) of from [D] by the angles, or inversely if `back`, into to [D],
 * which may be `from`. */
void kvr_rope_rotate(const float *from, int head_dim, const double *cosines, const double *sines,
                     bool back, float *to);

/* Positions per row of a frame: `row`, or for 0: 52 for Wan's 1560 tokens, else the most square
 * factorisation. KVR_EUNSUPPORTED, with the part's name, if `row` does not divide a frame. */
enum kvr_status kvr_frame_row(const char *part, int tokens_per_frame, int row, int *out);

#endif
