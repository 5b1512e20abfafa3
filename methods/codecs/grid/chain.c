/* chain.c - see chain.h. */
#include "methods/codecs/grid/chain.h"

#include <omp.h>
#include <string.h>

#include "harness/core/dtype_kernels.h"
#include "methods/codecs/hadamard/fwht_kernels.h"
#include "methods/codecs/grid/grid_narrow_kernels.h"

enum { MAX_TILE_TOKENS = 64 };

/* The size of a tile, the part of a block that one thread encodes at a time: tokens and
 * channels. */
struct tiling {
    int tokens;
    int64_t width;
};

struct chain {
    const struct kvr_grid_chain *c;
    struct kvr_grid_block block[2];
    struct kvr_grid_block residual; /* like block[0], but with F32 arithmetic: decodes the
                                     * first grid's values, which are subtracted from x */
    const struct kvr_fwht_kernels *walsh;
    const struct kvr_grid_encoders *encode;
    const struct kvr_grid_decoders *decode;
    /* kernels that encode these grids directly from BF16 values, or NULL if there are none */
    const struct kvr_grid_narrow *narrow;
    kvr_widen_fn *widen;
    const struct kvr_values *x;
    const struct kvr_instead *instead;
    struct tiling tile;
};

/* Chooses a tile size such that tiles contain only complete groups of every grid, complete heads
 * and complete code bytes. Returns false if there is none. */
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

/* A tile: tokens [t0, end), channels [c0, c0 + width). */
struct tile {
    int64_t t0, end, c0, width;
};

static struct tile tile_at(const struct chain *k, int64_t i)
{
    const int64_t channels = k->block[0].channels, stored = k->block[0].stored;
    const int64_t across = (channels + k->tile.width - 1) / k->tile.width;
    const int64_t t0 = i / across * k->tile.tokens, c0 = i % across * k->tile.width;
    const int64_t end = t0 + k->tile.tokens, last = c0 + k->tile.width;

    return (struct tile){ t0, end < stored ? end : stored, c0,
                          (last < channels ? last : channels) - c0 };
}

static size_t size_of(const struct chain *k)
{
    return k->x->bf16 ? sizeof(kvr_bf16) : sizeof(float);
}

static const char *values_at(const struct chain *k, int64_t t, int64_t c)
{
    return (const char *)k->x->p + (size_t)(t * k->block[0].channels + c) * size_of(k);
}

/* Encodes one tile with one grid. Rows of x are `stride` floats apart. If `residual` is not NULL,
 * it receives x minus the decoded values, [.,width]; it may be x itself. `next` is a tile to
 * prefetch, or NULL. */
static void encode_grid(const struct chain *k, const struct kvr_grid_block *b, const struct tile *w,
                        const struct tile *next, const float *x, int64_t stride, float *residual)
{
    const int64_t t0 = w->t0, end = w->end, c0 = w->c0, width = w->width;

    if (b->grid.axis != KVR_AXIS_TOKENS) {
        for (int64_t t = t0; t < end; t += KVR_GRID_ROWS)
            k->encode->rows(b, t, (int)(end - t < KVR_GRID_ROWS ? end - t : KVR_GRID_ROWS),
                            x + (t - t0) * stride);
        return;
    }
    for (int64_t t = t0; t < end; t += b->grid.group)
        for (int64_t c = 0; c < width; c += KVR_GRID_STRIP) {
            const int m = (int)(width - c < KVR_GRID_STRIP ? width - c : KVR_GRID_STRIP);
            const float *at = x + (t - t0) * stride + c;
            struct kvr_grid_prefetch prefetch = kvr_grid_no_prefetch(at, stride);

            if (next)
                prefetch =
                    (struct kvr_grid_prefetch){ values_at(k, next->t0 + t - t0, next->c0 + c),
                                                b->channels * (int64_t)size_of(k), size_of(k) };
            k->encode->tokens(b, t, c0 + c, m, at, stride,
                              residual ? residual + (t - t0) * width + c : NULL, width, &prefetch);
        }
}

/* Returns the index of the first entry of s->at that is at least `element`, or s->n. The search
 * starts at entry i and doubles its steps, because the result is usually only a few entries
 * later. */
static int64_t first_from(const struct kvr_instead *s, int64_t i, int64_t element)
{
    int64_t n = 1;

    while (i + n <= s->n && s->at[i + n - 1] < element) {
        i += n;
        n *= 2;
    }
    n = n < s->n - i ? n : s->n - i;
    while (n > 0) {
        const int64_t half = n / 2;

        if (s->at[i + half] < element) {
            i += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return i;
}

/* Applies the Walsh-Hadamard transform to n floats, which are complete heads. */
static void rotate_rows(const struct chain *k, float *y, const float *x, int64_t n)
{
    const int d = k->c->job[0].shape.head_dim;

    k->walsh->rows(y, x, n / d, d, k->c->rotate_compute == KVR_COMPUTE_BF16);
}

/* Copies tokens [w->t0, t1) of tile w to `tile` as F32 values. Replaces the outliers, and
 * transforms the values if the chain has a transform. If `fetch`, also prefetches the tile of the
 * following tokens. */
static void load_tile(const struct chain *k, const struct tile *w, int64_t t1, bool fetch,
                      float *tile)
{
    const struct kvr_instead *instead = k->instead;
    const size_t width = (size_t)w->width;
    int64_t i = 0;

    for (int64_t t = w->t0; t < t1; t++) {
        const int64_t first = t * k->block[0].channels + w->c0;
        const char *src = values_at(k, t, w->c0);
        float *row = tile + (t - w->t0) * w->width;

        if (fetch)
            kvr_grid_fetch(values_at(k, t + k->tile.tokens, w->c0), width * size_of(k));
        if (k->c->rotate && !k->x->bf16 && !instead->n) {
            rotate_rows(k, row, (const float *)(const void *)src, w->width);
            continue;
        }
        if (k->x->bf16)
            k->widen(row, src, width);
        else
            memcpy(row, src, width * sizeof *row);
        if (instead->n)
            i = first_from(instead, i, first);
        for (; i < instead->n && instead->at[i] < first + w->width; i++)
            row[instead->at[i] - first] = instead->value[i];
        if (k->c->rotate)
            rotate_rows(k, row, row, w->width);
    }
}

/* Returns whether the kernels of grid_narrow_kernels.h support this chain. */
static bool is_narrow(const struct chain *k)
{
    const struct kvr_grid_block *b = &k->block[0];
    const int d = k->c->job[0].shape.head_dim, span = kvr_grid_narrow()->span;
    const bool along = b->grid.axis == KVR_AXIS_TOKEN;

    if (!k->x->bf16 || !span || k->tile.width % span || b->channels % span)
        return false;
    for (int i = 0; i < k->c->n; i++)
        if (!kvr_grid_is_narrow(&k->block[i]) || (along && k->c->n > 1))
            return false;
    return !k->c->rotate ||
           (!along && k->c->rotate_compute == KVR_COMPUTE_F32 && (d == 64 || d == 128));
}

/* For the tile that the thread encoded last: its first token t0, the channel c after its last one,
 * and per row, the index in k->instead of the first outlier after the row. The next tile usually
 * continues the same rows, so its searches start at these indices. */
struct ends {
    int64_t t0, c;
    int64_t at[MAX_TILE_TOKENS];
};

/* Sets *out to the tile's BF16 values. If the block has outliers, *out refers to `copy`, which
 * receives the values with outliers replaced. Returns false if a replacement value is not a BF16
 * number. */
static bool narrow_tile(const struct chain *k, const struct tile *w, kvr_bf16 *copy,
                        struct ends *ends, struct kvr_narrow_rows *out)
{
    const struct kvr_instead *instead = k->instead;
    const size_t width = (size_t)w->width;
    const bool follows = ends->t0 == w->t0 && ends->c <= w->c0;
    int64_t i = 0;

    *out =
        (struct kvr_narrow_rows){ .x = (const kvr_bf16 *)(const void *)values_at(k, w->t0, w->c0),
                                  .stride = k->block[0].channels,
                                  .t0 = w->t0,
                                  .c0 = w->c0 };
    if (!instead->n)
        return true;
    ends->t0 = -1; /* remains -1 if the loop returns early */
    for (int64_t t = w->t0; t < w->end; t++) {
        const int64_t first = t * k->block[0].channels + w->c0;
        kvr_bf16 *row = copy + (t - w->t0) * w->width;

        memcpy(row, values_at(k, t, w->c0), width * sizeof *row);
        i = first_from(instead, follows ? ends->at[t - w->t0] : i, first);
        for (; i < instead->n && instead->at[i] < first + w->width; i++) {
            const uint32_t bits = kvr_f32_bits(instead->value[i]);

            if (bits & 0xffffu)
                return false;
            row[instead->at[i] - first] = (kvr_bf16)(bits >> 16);
        }
        ends->at[t - w->t0] = i;
    }
    ends->t0 = w->t0;
    ends->c = w->c0 + w->width;
    out->x = copy;
    out->stride = w->width;
    return true;
}

/* Encodes a tile directly from BF16 values. Returns the number of leading channels that it
 * encoded. */
static int64_t encode_narrow(const struct chain *k, const struct tile *w, const struct tile *next,
                             kvr_bf16 *copy, struct ends *ends)
{
    const struct kvr_grid_block *b = &k->block[0], *second = k->c->n > 1 ? &k->block[1] : NULL;
    const bool along = b->grid.axis == KVR_AXIS_TOKEN;
    const struct tile *then = next ? next : w;
    const struct kvr_grid_prefetch prefetch = { values_at(k, then->t0, then->c0),
                                                b->channels * (int64_t)sizeof(kvr_bf16),
                                                sizeof(kvr_bf16) };
    const int n = (int)(w->end - w->t0), m = (int)w->width, d = k->c->job[0].shape.head_dim;
    struct kvr_narrow_rows rows;

    if (w->end > b->n_tok || (along ? n % (8 / b->grid.bits) : n != KVR_NARROW_TOKENS) ||
        !narrow_tile(k, w, copy, ends, &rows))
        return 0;
    rows.prefetch = &prefetch;
    if (along)
        return k->narrow->rows(b, &rows, n) ? m : 0;
    return k->c->rotate ? k->narrow->walsh(b, &rows, m, d) : k->narrow->tokens(b, second, &rows, m);
}

/* Encodes a tile from F32 values. `next` is a tile to prefetch, or NULL. */
static void encode_wide(const struct chain *k, const struct tile *w, const struct tile *next,
                        float *tile)
{
    const struct kvr_grid_block *first = &k->block[0], *second = &k->block[1];
    const int64_t n_tok = first->n_tok < w->end ? first->n_tok : w->end;
    const bool across = first->grid.axis == KVR_AXIS_TOKENS;
    const bool keep_residual =
        k->c->n == 2 && n_tok == w->end && k->encode->returns_residual(first, w->width);

    if (keep_residual && !k->x->bf16 && !k->instead->n) { /* x is encoded as is, without a copy */
        encode_grid(k, first, w, next, (const float *)(const void *)values_at(k, w->t0, w->c0),
                    first->channels, tile);
    } else {
        load_tile(k, w, n_tok, !across, tile);
        encode_grid(k, first, w, next, tile, w->width, keep_residual ? tile : NULL);
    }
    if (k->c->n < 2)
        return;
    if (!keep_residual)
        k->decode->part(&k->residual, w->t0, n_tok, w->c0, w->width, KVR_DECODE_SUB, tile,
                        w->width);
    encode_grid(k, second, w, NULL, tile, w->width, NULL);
}

static void encode_tile(const struct chain *k, const struct tile *w, const struct tile *next,
                        float *tile, struct ends *ends)
{
    struct tile rest = *w;
    /* Channels that the BF16 kernels do not support are encoded from F32, `span` channels at a
     * time. */
    const int64_t d = k->c->job[0].shape.head_dim, span = k->c->rotate ? d : KVR_GRID_STRIP / 8;

    while (k->narrow && rest.width > 0) {
        const int64_t done = encode_narrow(k, &rest, next, (kvr_bf16 *)(void *)tile, ends);
        struct tile piece;

        rest.c0 += done;
        rest.width -= done;
        piece = rest;
        if (!rest.width)
            return;
        if (k->block[0].grid.axis == KVR_AXIS_TOKENS && piece.width > span)
            piece.width = span;
        encode_wide(k, &piece, NULL, tile);
        rest.c0 += piece.width;
        rest.width -= piece.width;
    }
    if (rest.width > 0)
        encode_wide(k, &rest, next, tile);
}

/* Returns the number of threads. A small block uses one thread, because it is encoded before a
 * second thread has woken up. */
static int threads_of(const struct kvr_grid_chain *c)
{
    const struct kvr_block_shape *s = &c->job[0].shape;
    const bool alone = s->n_tok * s->n_heads * s->head_dim < KVR_MIN_PARALLEL_ELEMENTS;

    return alone || omp_in_parallel() ? 1 : omp_get_max_threads();
}

int64_t kvr_chain_scratch(const struct kvr_grid_chain *c)
{
    const struct kvr_block_shape *s = &c->job[0].shape;
    const int64_t channels = (int64_t)s->n_heads * s->head_dim;
    struct tiling tile;

    if (!tile_of(c, &tile))
        return 0;
    const int64_t n = threads_of(c) * tile.tokens * tile.width;

    return n <= s->n_tok * channels ? n : 0;
}

void kvr_chain_encode(const struct kvr_grid_chain *c, const struct kvr_values *x,
                      const struct kvr_instead *instead, int64_t t0, float *work,
                      const struct kvr_stage_data *const data[2])
{
    struct chain k = { .c = c,
                       .walsh = kvr_fwht_kernels(),
                       .encode = kvr_grid_encoders(),
                       .decode = kvr_grid_decoders(),
                       .widen = kvr_dtype_kernels()->widen[KVR_BF16],
                       .x = x,
                       .instead = instead };
    int64_t down, across, tile;

    tile_of(c, &k.tile);
    for (int i = 0; i < c->n; i++)
        k.block[i] = kvr_grid_block_of(&c->grid[i], &c->job[i], data[i]);
    k.residual = k.block[0];
    k.residual.bf16 = false;
    down = (k.block[0].stored + k.tile.tokens - 1) / k.tile.tokens;
    across = (k.block[0].channels + k.tile.width - 1) / k.tile.width;
    tile = k.tile.tokens * k.tile.width;
    k.narrow = is_narrow(&k) ? kvr_grid_narrow() : NULL;
#pragma omp parallel num_threads(threads_of(c))
    {
        struct ends ends = { .t0 = -1 };

#pragma omp for schedule(static)
        for (int64_t i = t0 / k.tile.tokens * across; i < down * across; i++) {
            const struct tile w = tile_at(&k, i), next = tile_at(&k, i + 1);

            encode_tile(&k, &w, i + 1 < down * across ? &next : NULL,
                        work + omp_get_thread_num() * tile, &ends);
        }
    }
}
