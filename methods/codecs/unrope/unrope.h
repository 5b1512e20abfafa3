/* unrope.h - inverse RoPE of the stage `unrope`, shared by CPU and CUDA.
 *
 * RoPE has rotated channel pair p (channels 2p and 2p + 1) of a key at frame f, row r and column c
 * by an angle a. The angle is rate[p] times f, r or c, depending on the axis of the pair
 * (methods/kernels/rope.h):
 *
 *     (x, y) -> (x cos a - y sin a, x sin a + y cos a)        inverse: by -a
 *
 * The rotated channels are computed in FP64 and rounded to FP32. */
#ifndef KVR_METHODS_UNROPE_H
#define KVR_METHODS_UNROPE_H

#include "methods/codecs/cells/cells.h"

enum { UNROPE_MAX_PAIRS = 128 };

/* Parameters of a block. `list` has the token indices [n_tok] in memory of the block's device, or
 * is NULL if tokens are consecutive (struct kvr_place). */
struct unrope {
    int n_heads, d;
    int64_t frame, row; /* tokens per frame and per row; if `frame` is 0, positions are unknown and
                         * keys are not rotated */
    int64_t tok0;
    const int32_t *list;
    int by_row, by_col; /* first channel pair of the row axis and of the column axis */
    double rate[UNROPE_MAX_PAIRS];
};

/* Returns the frame, row or column of a token, whichever determines the angle of channel pair p. */
CELLS int64_t unrope_position(const struct unrope *g, int64_t token, int p)
{
    return p < g->by_row   ? token / g->frame
           : p < g->by_col ? token % g->frame / g->row
                           : token % g->row;
}

/* Computes sine and cosine of an angle below 2^20 without libm, so that results are equal on all
 * machines. The angle is reduced by multiples of pi / 2, and a Taylor series follows; the error is
 * at most 1e-9. */
CELLS void unrope_angle(double angle, double *cosine, double *sine)
{
    const double k = rint(angle * 0.63661977236758134308), a = angle - k * 1.57079632679489661923;
    const double s = a * a;
    const double c =
        1 + s * (-1.0 / 2 +
                 s * (1.0 / 24 + s * (-1.0 / 720 +
                                      s * (1.0 / 40320 + s * (-1.0 / 3628800 +
                                                              s * (1.0 / 479001600 +
                                                                   s * (-1.0 / 87178291200.0)))))));
    const double t =
        a +
        a * s *
            (-1.0 / 6 +
             s * (1.0 / 120 + s * (-1.0 / 5040 +
                                   s * (1.0 / 362880 + s * (-1.0 / 39916800 +
                                                            s * (1.0 / 6227020800.0 +
                                                                 s * (-1.0 / 1307674368000.0)))))));
    const int quarter = (int)((int64_t)k & 3);

    *cosine = quarter == 0 ? c : quarter == 1 ? -t : quarter == 2 ? -c : t;
    *sine = quarter == 0 ? t : quarter == 1 ? c : quarter == 2 ? -t : -c;
}

/* Rotates the channel pair (x, y); the sign of `sine` determines the direction. */
CELLS void unrope_pair(double cosine, double sine, float *x, float *y)
{
    const double a = (double)*x, b = (double)*y;

    *x = (float)(a * cosine - b * sine);
    *y = (float)(a * sine + b * cosine);
}

/* Applies RoPE, or the inverse RoPE if `back` is set, to x [n,width] in device memory. `part`
 * states which tokens and channels of the block are in x. */
KVR_LAUNCHER kvr_unrope_rotate_cuda(struct kvr_stream *s, const struct unrope *g,
                                    const struct kvr_part *part, bool back, float *x);

#endif
