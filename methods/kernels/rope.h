/* rope.h - the rotary embedding of a video's model, and where in a frame a token is.
 *
 * Keys are stored after their rotation. What is made of keys of several places, a mean, say, has to
 * be made before it: who knows the places can turn keys back, and turn the mean to its own place.
 *
 *     kvr_rope_angles(D, frame, row, col, cosines, sines);
 *     kvr_rope_turn(k, D, cosines, sines, true, raw);
 *
 * Turns of time add up, and leave the pairs of height and width alone: to move a key by n frames,
 * n negative perhaps, turn it by the angles of (n, 0, 0). */
#ifndef KVR_METHODS_KERNELS_ROPE_H
#define KVR_METHODS_KERNELS_ROPE_H

#include <stdbool.h>

#include "harness/core/status.h"

/* Angles of one position, cosines and sines [D/2]: pairs [0, c-2g) time, then g height, g width,
 * c = D/2, g = floor(c / 3); every axis has its own geometric sequence from 1. */
void kvr_rope_angles(int head_dim, double frame, int row, int col, double *cosines, double *sines);

/* to [D] <- from [D], which may be the same, with its pairs (2p, 2p + 1) turned by the angles, or
 * `back`. */
void kvr_rope_turn(const float *from, int head_dim, const double *cosines, const double *sines,
                   bool back, float *to);

/* Positions in a row of a frame: `row`, or of 0 52 for Wan's 1560, else as square as it goes.
 * KVR_EUNSUPPORTED, for the part of this name: no whole rows of so many. */
enum kvr_status kvr_frame_row(const char *part, int tokens_per_frame, int row, int *out);

#endif
