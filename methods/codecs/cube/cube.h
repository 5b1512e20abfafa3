/* cube.h - index arithmetic of the stage `cube`, shared by CPU and CUDA.
 *
 * A block has frames of `frame` tokens, and a frame has rows of `row` tokens. Cubes of frames x
 * rows x cols tokens tile the block. Cube indices increase first along a row, then from one row of
 * cubes to the next, then along the frames. If the tokens are not complete frames, or the size of a
 * frame or row is unknown, the block is treated as one row. In such a block, a cube is a run of
 * consecutive tokens, and the last cube may be shorter. */
#ifndef KVR_METHODS_CUBE_H
#define KVR_METHODS_CUBE_H

#include "methods/codecs/cells/cells.h"

/* Division of a block into cubes. The side information of a block is the mean of every cube and
 * channel, E4M3 [cubes][C]. */
struct cube {
    int64_t n_tok, channels;
    int64_t frame, row;         /* tokens per frame and tokens per row */
    int64_t frames, rows, cols; /* size of a cube in frames, rows, and tokens along a row */
    int64_t across, down, deep; /* number of cubes along a row, down the rows of a frame, and along
                                 * the frames of the block */
};

/* Index of the cube that contains token t. */
CELLS int64_t cube_of(const struct cube *g, int64_t t)
{
    const int64_t f = t / g->frame, in_frame = t % g->frame;

    return (f / g->frames * g->down + in_frame / g->row / g->rows) * g->across +
           in_frame % g->row / g->cols;
}

/* Returns the index in the block of token j of cube i, where 0 <= j < frames * rows * cols, or -1
 * if the block ends before this token. The returned index increases with j. */
CELLS int64_t cube_token(const struct cube *g, int64_t i, int64_t j)
{
    const int64_t c = i % g->across * g->cols + j % g->cols;
    const int64_t r = i / g->across % g->down * g->rows + j / g->cols % g->rows;
    const int64_t f = i / g->across / g->down * g->frames + j / g->cols / g->rows;
    const int64_t t = f * g->frame + r * g->row + c;

    return t < g->n_tok ? t : -1;
}

/* E4M3 bits of the mean of n elements whose sum is `sum`. */
CELLS unsigned cube_mean(double sum, int64_t n)
{
    return cells_store(CELLS_E4M3, n ? (float)(sum / (double)n) : 0);
}

CELLS float cube_value(unsigned raw)
{
    return cells_load(CELLS_E4M3, raw);
}

/* Subtracts from x the mean of every cube and channel, and stores the means in E4M3. The arrays x
 * and `means` are device memory. */
KVR_LAUNCHER kvr_cube_encode_cuda(struct kvr_stream *s, const struct cube *g, float *x,
                                  void *means);
KVR_DECODE_LAUNCHER(cube);

#endif
