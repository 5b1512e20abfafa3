/* chain.c - see chain.h. */
#include "methods/kernels/chain.h"

#include <omp.h>
#include <string.h>

#include "methods/kernels/fwht_kernels.h"
#include "methods/kernels/grid_kernels.h"

enum { MAX_TILE_TOKENS = 64 };

/* Tiles of `tokens` tokens and `width` channels. */
struct tiling {
    int tokens;
    int64_t width;
};

struct chain {
    const struct kvr_grid_chain *c;
    struct kvr_grid_block block[2];
    struct kvr_grid_block left; /* the first grid, as what it leaves is decoded: in F32 */
    const struct kvr_fwht_kernels *turn;
    const struct kvr_grid_encoders *encode;
    const struct kvr_grid_decoders *decode;
    struct tiling tile;
};

/* Whole sets of every grid, whole heads, and whole bytes of codes. */
static bool tile_of(const struct kvr_grid_chain *c, struct tiling *out)
{
    const int64_t d = c->job[0].shape.head_dim, channels = c->job[0].shape.n_heads * d;

    *out = (struct tiling){ KVR_GRID_ROWS, KVR_GRID_STRIP / d * d };
    if (out->width < d)
        out->width = d;
    if (out->width > channels)
        out->width = channels;
    for (int i = 0; i < c->n; i++) {
        const struct kvr_grid *g = &c->grid[i];

        if (g->axis != KVR_AXIS_TOKENS) {
            out->width = channels;
            continue;
        }
        while (out->tokens % g->group && out->tokens <= MAX_TILE_TOKENS)
            out->tokens += KVR_GRID_ROWS;
    }
    for (int i = 0; i < c->n; i++)
        if (c->grid[i].axis == KVR_AXIS_TOKENS && out->tokens % c->grid[i].group)
            return false;
    return out->tokens <= MAX_TILE_TOKENS;
}

/* Channels [c0, c0 + width) of the tokens of a tile, x [.,width]. */
static void encode_grid(const struct chain *k, const struct kvr_grid_block *b, int64_t t0,
                        int64_t end, int64_t c0, int64_t width, const float *x)
{
    if (b->grid.axis != KVR_AXIS_TOKENS) {
        for (int64_t t = t0; t < end; t += KVR_GRID_ROWS)
            k->encode->rows(b, t, x + (t - t0) * width);
        return;
    }
    for (int64_t t = t0; t < end; t += b->grid.group)
        for (int64_t c = 0; c < width; c += KVR_GRID_STRIP) {
            const int m = (int)(width - c < KVR_GRID_STRIP ? width - c : KVR_GRID_STRIP);

            k->encode->tokens(b, t, c0 + c, m, x + (t - t0) * width + c, width);
        }
}

static void encode_tile(const struct chain *k, int64_t t0, int64_t c0, const float *x, float *tile)
{
    const int64_t channels = k->block[0].channels, stored = k->block[0].stored;
    const int64_t end = t0 + k->tile.tokens < stored ? t0 + k->tile.tokens : stored;
    const int64_t given = k->block[0].n_tok < end ? k->block[0].n_tok : end;
    const int64_t width = channels - c0 < k->tile.width ? channels - c0 : k->tile.width;
    const int d = k->c->job[0].shape.head_dim;

    for (int64_t t = t0; t < given; t++)
        memcpy(tile + (t - t0) * width, x + t * channels + c0, (size_t)width * sizeof *x);
    if (k->c->turn)
        k->turn->rows(tile, (given - t0) * width / d, d, k->c->turn_compute == KVR_COMPUTE_BF16);
    encode_grid(k, &k->block[0], t0, end, c0, width, tile);
    if (k->c->n < 2)
        return;
    k->decode->part(&k->left, t0, given, c0, width, KVR_DECODE_SUB, tile, width);
    encode_grid(k, &k->block[1], t0, end, c0, width, tile);
}

bool kvr_chain_encode(const struct kvr_grid_chain *c, const float *x, float *work,
                      const struct kvr_stage_data *const data[2])
{
    struct chain k = { .c = c,
                       .turn = kvr_fwht_kernels(),
                       .encode = kvr_grid_encoders(),
                       .decode = kvr_grid_decoders() };
    const int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    int64_t down, across, tile;

    if (!tile_of(c, &k.tile))
        return false;
    for (int i = 0; i < c->n; i++)
        k.block[i] = kvr_grid_block_of(&c->grid[i], &c->job[i], data[i]);
    k.left = k.block[0];
    k.left.bf16 = false;
    down = (k.block[0].stored + k.tile.tokens - 1) / k.tile.tokens;
    across = (k.block[0].channels + k.tile.width - 1) / k.tile.width;
    tile = k.tile.tokens * k.tile.width;
    if (threads * tile > k.block[0].n_tok * k.block[0].channels)
        return false;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < down * across; i++)
        encode_tile(&k, i / across * k.tile.tokens, i % across * k.tile.width, x,
                    work + omp_get_thread_num() * tile);
    return true;
}
