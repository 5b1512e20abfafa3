/* grid_kernels.h - the loops of grid.h, one table per instruction set.
 *
 * A kernel is given a block's formats and works on one part of it, by the calling thread alone;
 * grid.c deals the parts. Codes, steps and decoded values are the same bits in every variant. */
#ifndef KVR_METHODS_KERNELS_GRID_KERNELS_H
#define KVR_METHODS_KERNELS_GRID_KERNELS_H

#include "harness/core/isa.h"
#include "methods/kernels/grid.h"

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

struct kvr_grid_encoders {
    /* axis=tokens: tokens [t0, t0 + group) as far as there are, channels [c0, c0 + m), m at most
     * KVR_GRID_STRIP. x: element (t0, c0) of rows `stride` floats apart. */
    void (*tokens)(const struct kvr_grid_block *b, int64_t t0, int64_t c0, int m, const float *x,
                   int64_t stride);
    /* axis=channels, token: tokens [t0, t0 + KVR_GRID_ROWS) as far as there are, all channels.
     * x: the row of t0; t0 a multiple of KVR_GRID_ROWS. */
    void (*rows)(const struct kvr_grid_block *b, int64_t t0, const float *x);
};
KVR_ISA_TABLES(struct kvr_grid_encoders, kvr_grid_encoders)

struct kvr_grid_decoders {
    /* Tokens [t0, end), channels [c0, c0 + width) -> out, rows `stride` floats apart. */
    void (*part)(const struct kvr_grid_block *b, int64_t t0, int64_t end, int64_t c0, int64_t width,
                 enum kvr_decode_mode mode, float *out, int64_t stride);
};
KVR_ISA_TABLES(struct kvr_grid_decoders, kvr_grid_decoders)

/* The block that a job and what it stores come to. */
struct kvr_grid_block kvr_grid_block_of(const struct kvr_grid *g, const struct kvr_stage_job *job,
                                        const struct kvr_stage_data *data);

#endif
