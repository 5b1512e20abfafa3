/* grid_kernels.h - CPU functions of grid.h, one table per instruction set.
 *
 * A function encodes or decodes a part of a block in the calling thread; grid.c distributes the
 * parts among threads. Codes, scales and decoded values are bit-identical for every instruction
 * set. */
#ifndef KVR_METHODS_GRID_KERNELS_H
#define KVR_METHODS_GRID_KERNELS_H

#include "harness/core/isa.h"
#include "methods/codecs/grid/grid.h"

enum {
    KVR_GRID_STRIP = 256, /* channels per strip */
    KVR_GRID_ROWS = 16,   /* tokens per strip */
    KVR_MIN_PARALLEL_ELEMENTS =
        1 << 18 /* a block with fewer elements is encoded by one thread, which takes 30 to 130 us */
};

/* Grid, shape and output buffers of one block. */
struct kvr_grid_block {
    struct kvr_grid grid;
    bool study, bf16;
    int64_t n_tok, stored; /* n_tok: number of tokens of the block; stored: n_tok plus the tokens of
                            * zeros that pad a block in the study version (grid.h) */
    int64_t channels;      /* H*D */
    int64_t n_groups;
    uint8_t *codes;  /* planes of kvr_pack */
    kvr_f16 *scales; /* scales [n_groups], then zero points [n_groups] */
};

/* Rows that an encoding function prefetches while it encodes other rows. Software prefetches are
 * necessary because the rows of a strip are too far apart for the hardware prefetcher. Only a few
 * cache lines are prefetched at a time, because a core stalls after about a dozen outstanding
 * loads. Prefetch addresses may lie past the end of the values. */
struct kvr_grid_prefetch {
    const char *p;
    int64_t stride; /* bytes from one row to the next */
    size_t size;    /* bytes per element */
};

/* Returns a prefetch position for callers with nothing to prefetch: the current rows x, which are
 * already in the CPU cache. */
static inline struct kvr_grid_prefetch kvr_grid_no_prefetch(const float *x, int64_t stride)
{
    struct kvr_grid_prefetch s;

    s.p = (const char *)x;
    s.stride = stride * (int64_t)sizeof *x;
    s.size = sizeof *x;
    return s;
}

struct kvr_grid_encoders {
    /* For grids with axis=tokens: encodes tokens [t0, t0 + group) of channels [c0, c0 + m) of the
     * block, where m <= KVR_GRID_STRIP. The pointer x points to element (t0, c0), and rows are
     * `stride` floats apart. If `residual` is not NULL, it receives the F32 residual in rows
     * `residual_stride` apart; `residual` may be x. The function also prefetches `group` rows, the
     * first of them at `prefetch`. */
    void (*tokens)(const struct kvr_grid_block *b, int64_t t0, int64_t c0, int m, const float *x,
                   int64_t stride, float *residual, int64_t residual_stride,
                   const struct kvr_grid_prefetch *prefetch);
    /* Whether the function `tokens` can write `residual` when it encodes m channels. */
    bool (*returns_residual)(const struct kvr_grid_block *b, int64_t m);
    /* For grids with axis=channels or axis=token: encodes all channels of tokens [t0, t0 + n) of
     * the block, where n <= KVR_GRID_ROWS. The pointer x points to the row of token t0. Both t0 and
     * n are multiples of 8, except n at the end of the block. */
    void (*rows)(const struct kvr_grid_block *b, int64_t t0, int n, const float *x);
};
KVR_ISA_TABLES(struct kvr_grid_encoders, kvr_grid_encoders)

struct kvr_grid_decoders {
    /* Decodes channels [c0, c0 + width) of tokens [t0, end). The values of token t0 + i are
     * assigned to the row at out + i * stride, added to it or subtracted from it, according to
     * `mode`. */
    void (*part)(const struct kvr_grid_block *b, int64_t t0, int64_t end, int64_t c0, int64_t width,
                 enum kvr_decode_mode mode, float *out, int64_t stride);
};
KVR_ISA_TABLES(struct kvr_grid_decoders, kvr_grid_decoders)

/* Prefetches n bytes. */
static inline void kvr_grid_fetch(const void *p, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch((const char *)p + i, 0, 2);
}

/* Returns the struct kvr_grid_block for a stage's job and the buffers in `data`. */
struct kvr_grid_block kvr_grid_block_of(const struct kvr_grid *g, const struct kvr_stage_job *job,
                                        const struct kvr_stage_data *data);

#endif
