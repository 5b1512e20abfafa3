/* grid_kernels.h - the loops of grid.h, one table per instruction set.
 *
 * A kernel is given a block's formats and works on one part of it, by the calling thread alone;
 * grid.c deals the parts. Codes, steps and decoded values are the same bits in every variant. */
#ifndef KVR_METHODS_GRID_KERNELS_H
#define KVR_METHODS_GRID_KERNELS_H

#include "harness/core/isa.h"
#include "methods/codecs/grid/grid.h"

enum {
    KVR_GRID_STRIP = 256, /* channels handled together */
    KVR_GRID_ROWS = 16    /* tokens handled together */
};

/* One block, as it is stored. */
struct kvr_grid_block {
    struct kvr_grid grid;
    bool study, bf16;
    int64_t n_tok, stored; /* tokens given, tokens coded: the study pads with zeros */
    int64_t channels;      /* H*D */
    int64_t n_sets;
    uint8_t *codes; /* kvr_pack's planes */
    kvr_f16 *meta;  /* steps [n_sets], zero points [n_sets] */
};

/* Rows of memory that are read after these, asked for while these are coded: a few lines at a time,
 * since a core waits once it has asked for a dozen. Rows of a strip are too far apart for a
 * processor to guess where the next ones are. Beyond the end of the values this does nothing. */
struct kvr_grid_soon {
    const char *p;
    int64_t stride; /* bytes from row to row */
    size_t size;    /* bytes of an element */
};

/* Nothing: what is near already. */
static inline struct kvr_grid_soon kvr_grid_not_soon(const float *x, int64_t stride)
{
    struct kvr_grid_soon s;

    s.p = (const char *)x;
    s.stride = stride * (int64_t)sizeof *x;
    s.size = sizeof *x;
    return s;
}

struct kvr_grid_encoders {
    /* axis=tokens: tokens [t0, t0 + group) as far as there are, channels [c0, c0 + m), m at most
     * KVR_GRID_STRIP. x: element (t0, c0) of rows `stride` floats apart. left, NULL or rows
     * `left_stride` apart: x less what its codes decode to in F32; may be x. soon: as many rows. */
    void (*tokens)(const struct kvr_grid_block *b, int64_t t0, int64_t c0, int m, const float *x,
                   int64_t stride, float *left, int64_t left_stride,
                   const struct kvr_grid_soon *soon);
    /* Can `tokens` tell what is left, of any multiple of m channels? */
    bool (*leaves)(const struct kvr_grid_block *b, int64_t m);
    /* axis=channels, token: tokens [t0, t0 + n) as far as there are, n at most KVR_GRID_ROWS, all
     * channels. x: the row of t0; t0 a multiple of 8, and n but for a last part. */
    void (*rows)(const struct kvr_grid_block *b, int64_t t0, int n, const float *x);
};
KVR_ISA_TABLES(struct kvr_grid_encoders, kvr_grid_encoders)

struct kvr_grid_decoders {
    /* Tokens [t0, end), channels [c0, c0 + width) -> out, rows `stride` floats apart. */
    void (*part)(const struct kvr_grid_block *b, int64_t t0, int64_t end, int64_t c0, int64_t width,
                 enum kvr_decode_mode mode, float *out, int64_t stride);
};
KVR_ISA_TABLES(struct kvr_grid_decoders, kvr_grid_decoders)

/* Ask for n bytes that are read soon. */
static inline void kvr_grid_fetch(const void *p, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch((const char *)p + i, 0, 2);
}

/* The block that a job and what it stores come to. */
struct kvr_grid_block kvr_grid_block_of(const struct kvr_grid *g, const struct kvr_stage_job *job,
                                        const struct kvr_stage_data *data);

#endif
