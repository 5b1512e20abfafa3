/* cube.h - where the cubes of the stage `cube` lie, which both kinds of device reckon alike.
 *
 * A block is frames of `frame` tokens each, a frame is rows of `row` tokens, and cubes of frames x
 * rows x cols tokens fill it; they are counted along a row, then down a frame, then from frame to
 * frame. Where the block is no whole frames, or places are not known, it is one row, and a cube as
 * many tokens one after another, the last one fewer. */
#ifndef KVR_METHODS_CUBE_H
#define KVR_METHODS_CUBE_H

#include "methods/codecs/cells/cells.h"

/* A block. meta = the means E4M3 [cubes][C]. */
struct cube {
    int64_t n_tok, channels;
    int64_t frame, row;         /* tokens of each */
    int64_t frames, rows, cols; /* of a cube */
    int64_t across, down, deep; /* cubes along a row, down a frame, from frame to frame */
};

/* The cube that token t is of. */
CELLS int64_t cube_of(const struct cube *g, int64_t t)
{
    const int64_t f = t / g->frame, place = t % g->frame;

    return (f / g->frames * g->down + place / g->row / g->rows) * g->across +
           place % g->row / g->cols;
}

/* Token j of cube i, of frames * rows * cols, ascending; -1 where the block ends before it. */
CELLS int64_t cube_token(const struct cube *g, int64_t i, int64_t j)
{
    const int64_t c = i % g->across * g->cols + j % g->cols;
    const int64_t r = i / g->across % g->down * g->rows + j / g->cols % g->rows;
    const int64_t f = i / g->across / g->down * g->frames + j / g->cols / g->rows;
    const int64_t t = f * g->frame + r * g->row + c;

    return t < g->n_tok ? t : -1;
}

/* The mean as it is stored, of a sum of n elements. */
CELLS unsigned cube_mean(double sum, int64_t n)
{
    return cells_store(CELLS_E4M3, n ? (float)(sum / (double)n) : 0);
}

CELLS float cube_value(unsigned raw)
{
    return cells_load(CELLS_E4M3, raw);
}

/* Takes the means off x and writes them into meta; device memory both. */
KVR_LAUNCHER kvr_cube_encode_cuda(struct kvr_stream *s, const struct cube *g, float *x, void *meta);
KVR_DECODE_LAUNCHER(cube);

#endif
