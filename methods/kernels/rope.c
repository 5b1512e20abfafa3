/* rope.c - rotary position embedding (RoPE) of video models, along time, rows and columns. */
#include "methods/kernels/rope.h"

#include <math.h>

void kvr_rope_angles(int head_dim, double frame, int row, int col, double *cosines, double *sines)
{
    const int c = head_dim / 2, g = c / 3;
    const int count[3] = { c - 2 * g, g, g };
    const double position[3] = { frame, row, col };
    int p = 0;

    for (int axis = 0; axis < 3; axis++)
        for (int k = 0; k < count[axis]; k++, p++) {
            double angle = position[axis] * pow(10000.0, -(double)k / count[axis]);

            cosines[p] = cos(angle);
            sines[p] = sin(angle);
        }
}

void kvr_rope_rotate(const float *from, int head_dim, const double *cosines, const double *sines,
                     bool back, float *to)
{
    for (int p = 0; p < head_dim / 2; p++) {
        const double a = from[2 * p], b = from[2 * p + 1];
        const double co = cosines[p], si = back ? -sines[p] : sines[p];

        to[2 * p] = (float)(a * co - b * si);
        to[2 * p + 1] = (float)(a * si + b * co);
    }
    if (head_dim % 2)
        to[head_dim - 1] = from[head_dim - 1];
}

enum kvr_status kvr_frame_row(const char *part, int tokens_per_frame, int row, int *out)
{
    int low = 1;

    if (row && tokens_per_frame % row != 0)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: row is %d tokens, but must divide the %d tokens of a frame; row=0 "
                        "chooses a suitable divisor",
                        part, row, tokens_per_frame);
    for (int d = 1; d * d <= tokens_per_frame; d++)
        low = tokens_per_frame % d == 0 ? d : low;
    *out = row ? row : tokens_per_frame == 1560 ? 52 : tokens_per_frame / low;
    return KVR_OK;
}
