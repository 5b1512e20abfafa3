/* chain.c - see chain.h. */
#include "methods/codecs/grid/chain.h"

#include <omp.h>
#include <string.h>

#include "harness/core/dtype_kernels.h"
#include "methods/codecs/hadamard/fwht_kernels.h"
#include "methods/codecs/grid/grid_kernels.h"

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
    const struct kvr_fwht_kernels *walsh;
    const struct kvr_grid_encoders *encode;
    const struct kvr_grid_decoders *decode;
    kvr_widen_fn *widen;
    const struct kvr_values *x;
    const struct kvr_instead *instead;
    struct tiling tile;
};

/* Whole sets of every grid, whole heads, and whole bytes of codes. */
static bool tile_of(const struct kvr_grid_chain *c, struct tiling *out)
{
    const int64_t d = c->job[0].shape.head_dim, channels = c->job[0].shape.n_heads * d;

    *out = (struct tiling){ KVR_GRID_ROWS / 2, KVR_GRID_STRIP / d * d };
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
            out->tokens += KVR_GRID_ROWS / 2;
    }
    for (int i = 0; i < c->n; i++)
        if (c->grid[i].axis == KVR_AXIS_TOKENS && out->tokens % c->grid[i].group)
            return false;
    return out->tokens <= MAX_TILE_TOKENS;
}

/* Channels [c0, c0 + width) of the tokens of a tile, x [.,width]. With `leave` x becomes what is
 * left of it. */
static void encode_grid(const struct chain *k, const struct kvr_grid_block *b, int64_t t0,
                        int64_t end, int64_t c0, int64_t width, bool leave, float *x)
{
    if (b->grid.axis != KVR_AXIS_TOKENS) {
        for (int64_t t = t0; t < end; t += KVR_GRID_ROWS)
            k->encode->rows(b, t, (int)(end - t < KVR_GRID_ROWS ? end - t : KVR_GRID_ROWS),
                            x + (t - t0) * width);
        return;
    }
    for (int64_t t = t0; t < end; t += b->grid.group)
        for (int64_t c = 0; c < width; c += KVR_GRID_STRIP) {
            const int m = (int)(width - c < KVR_GRID_STRIP ? width - c : KVR_GRID_STRIP);

            float *at = x + (t - t0) * width + c;

            k->encode->tokens(b, t, c0 + c, m, at, width, leave ? at : NULL);
        }
}

static int64_t first_from(const struct kvr_instead *s, int64_t element)
{
    int64_t lo = 0, n = s->n;

    while (n > 0) {
        const int64_t half = n / 2;

        if (s->at[lo + half] < element) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

/* Tokens [t0, t1), channels [c0, c0 + width), in F32. */
static void load_tile(const struct chain *k, int64_t t0, int64_t t1, int64_t c0, int64_t width,
                      float *tile)
{
    const int64_t channels = k->block[0].channels;

    for (int64_t t = t0; t < t1; t++) {
        const int64_t from = t * channels + c0;
        const size_t size = k->x->bf16 ? sizeof(kvr_bf16) : sizeof(float);
        const char *given = (const char *)k->x->p + (size_t)from * size;
        float *row = tile + (t - t0) * width;

        kvr_grid_fetch(given + (size_t)(k->tile.tokens * channels) * size, (size_t)width * size);
        if (k->x->bf16)
            k->widen(row, given, (size_t)width);
        else
            memcpy(row, given, (size_t)width * sizeof *row);
    }
    /* Tiles are as wide as the block where elements are replaced. */
    for (int64_t i = first_from(k->instead, t0 * channels);
         i < k->instead->n && k->instead->at[i] < t1 * channels; i++)
        tile[k->instead->at[i] - t0 * channels] = k->instead->value[i];
}

static void encode_tile(const struct chain *k, int64_t t0, int64_t c0, float *tile)
{
    const int64_t channels = k->block[0].channels, stored = k->block[0].stored;
    const int64_t end = t0 + k->tile.tokens < stored ? t0 + k->tile.tokens : stored;
    const int64_t given = k->block[0].n_tok < end ? k->block[0].n_tok : end;
    const int64_t width = channels - c0 < k->tile.width ? channels - c0 : k->tile.width;
    const int d = k->c->job[0].shape.head_dim;

    load_tile(k, t0, given, c0, width, tile);
    if (k->c->rotate)
        k->walsh->rows(tile, (given - t0) * width / d, d, k->c->rotate_compute == KVR_COMPUTE_BF16);
    if (k->c->n < 2) {
        encode_grid(k, &k->block[0], t0, end, c0, width, false, tile);
        return;
    }
    const bool leave = given == end && k->encode->leaves(&k->block[0], width);

    encode_grid(k, &k->block[0], t0, end, c0, width, leave, tile);
    if (!leave)
        k->decode->part(&k->left, t0, given, c0, width, KVR_DECODE_SUB, tile, width);
    encode_grid(k, &k->block[1], t0, end, c0, width, false, tile);
}

static int threads_of(void)
{
    return omp_in_parallel() ? 1 : omp_get_max_threads();
}

int64_t kvr_chain_scratch(const struct kvr_grid_chain *c)
{
    const struct kvr_block_shape *s = &c->job[0].shape;
    const int64_t channels = (int64_t)s->n_heads * s->head_dim;
    struct tiling tile;

    if (!tile_of(c, &tile))
        return 0;
    /* Tiles of the whole width: elements may be replaced. */
    const int64_t n = threads_of() * tile.tokens * channels;

    return n <= s->n_tok * channels ? n : 0;
}

void kvr_chain_encode(const struct kvr_grid_chain *c, const struct kvr_values *x,
                      const struct kvr_instead *instead, float *work,
                      const struct kvr_stage_data *const data[2])
{
    struct chain k = { .c = c,
                       .walsh = kvr_fwht_kernels(),
                       .encode = kvr_grid_encoders(),
                       .decode = kvr_grid_decoders(),
                       .widen = kvr_dtype_kernels()->widen[KVR_BF16],
                       .x = x,
                       .instead = instead };
    const int threads = threads_of();
    int64_t down, across, tile;

    tile_of(c, &k.tile);
    for (int i = 0; i < c->n; i++)
        k.block[i] = kvr_grid_block_of(&c->grid[i], &c->job[i], data[i]);
    k.left = k.block[0];
    k.left.bf16 = false;
    if (instead->n)
        k.tile.width = k.block[0].channels;
    down = (k.block[0].stored + k.tile.tokens - 1) / k.tile.tokens;
    across = (k.block[0].channels + k.tile.width - 1) / k.tile.width;
    tile = k.tile.tokens * k.tile.width;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < down * across; i++)
        encode_tile(&k, i / across * k.tile.tokens, i % across * k.tile.width,
                    work + omp_get_thread_num() * tile);
}
