/* attend_dot_tiles.h - int8 matrix products on AMX tiles (tile.h). Private to attend_dot.c and its
 * test.
 *
 * The matrix product sums[m][n] = A[m][k] B[k][n] is exact; k is a multiple of 64 and n of 16. Rows
 * of `sums` are `ld` elements apart. B is stored in panels of 16 columns with layout [k/4][16][4],
 * `panel` bytes apart. If `keys` is true, as for scores, A is signed and B unsigned; otherwise A is
 * unsigned and B signed. */
#ifndef KVR_CACHE_ATTEND_DOT_TILES_H
#define KVR_CACHE_ATTEND_DOT_TILES_H

#include <stdbool.h>

#include "harness/core/tile.h"

struct kvr_byte_product {
    const uint8_t *a, *b;
    int64_t lda, panel;
    int k;
    int32_t *sums;
    int64_t ld;
};

/* Computes `rows` blocks of 16 rows of A times `cols` panels of B; `rows` and `cols` are 1 or 2.
 * The function is always inlined, so that its arguments `keys`, `rows` and `cols` are compile-time
 * constants. */
static inline __attribute__((always_inline)) void kvr_byte_block(struct kvr_tiles *t,
                                                                 const struct kvr_byte_product *x,
                                                                 const bool keys, const int rows,
                                                                 const int cols)
{
    const uint8_t *a = x->a, *a2 = a + KVR_TILE_ROWS * x->lda, *b = x->b, *b2 = b + x->panel;
    int32_t *c = x->sums, *c2 = c + KVR_TILE_ROWS * x->ld;
    const int64_t ld = x->ld * 4;

    (void)t; /* only the portable C tile operations use `t`, to store the tiles in memory */
    KVR_TILE_ZERO(t, 0);
    KVR_TILE_ZERO(t, 1);
    KVR_TILE_ZERO(t, 2);
    KVR_TILE_ZERO(t, 3);
    for (int k = 0; k < x->k; k += KVR_TILE_BYTES) {
        KVR_TILE_LOAD(t, 6, b + k * KVR_TILE_ROWS, KVR_TILE_BYTES);
        KVR_TILE_LOAD(t, 4, a + k, x->lda);
        if (keys)
            KVR_TILE_I8_U8(t, 0, 4, 6);
        else
            KVR_TILE_U8_I8(t, 0, 4, 6);
        if (cols == 2) {
            KVR_TILE_LOAD(t, 7, b2 + k * KVR_TILE_ROWS, KVR_TILE_BYTES);
            if (keys)
                KVR_TILE_I8_U8(t, 1, 4, 7);
            else
                KVR_TILE_U8_I8(t, 1, 4, 7);
        }
        if (rows == 2) {
            KVR_TILE_LOAD(t, 5, a2 + k, x->lda);
            if (keys)
                KVR_TILE_I8_U8(t, 2, 5, 6);
            else
                KVR_TILE_U8_I8(t, 2, 5, 6);
        }
        if (rows == 2 && cols == 2) {
            if (keys)
                KVR_TILE_I8_U8(t, 3, 5, 7);
            else
                KVR_TILE_U8_I8(t, 3, 5, 7);
        }
    }
    KVR_TILE_STORE(t, 0, c, ld);
    if (cols == 2)
        KVR_TILE_STORE(t, 1, c + KVR_TILE_ROWS, ld);
    if (rows == 2)
        KVR_TILE_STORE(t, 2, c2, ld);
    if (rows == 2 && cols == 2)
        KVR_TILE_STORE(t, 3, c2 + KVR_TILE_ROWS, ld);
}

static inline __attribute__((always_inline)) void kvr_byte_columns(struct kvr_tiles *t,
                                                                   struct kvr_byte_product x,
                                                                   const bool keys, const int rows,
                                                                   int n)
{
    int j = 0;

    for (; j + 2 * KVR_TILE_ROWS <= n; j += 2 * KVR_TILE_ROWS) {
        kvr_byte_block(t, &x, keys, rows, 2);
        x.b += 2 * x.panel;
        x.sums += 2 * KVR_TILE_ROWS;
    }
    if (j < n)
        kvr_byte_block(t, &x, keys, rows, 1);
}

static inline __attribute__((always_inline)) void kvr_byte_product(struct kvr_byte_product x,
                                                                   const bool keys, int m, int n)
{
    struct kvr_tiles t;

    for (int i = 0; i < m; i += 2 * KVR_TILE_ROWS) {
        const int left = m - i, second = left - KVR_TILE_ROWS;

        if (second > 0) {
            KVR_TILE_CONFIGURE(&t, KVR_TILE_ROWS, second < KVR_TILE_ROWS ? second : KVR_TILE_ROWS);
            kvr_byte_columns(&t, x, keys, 2, n);
        } else {
            KVR_TILE_CONFIGURE(&t, left, left);
            kvr_byte_columns(&t, x, keys, 1, n);
        }
        x.a += 2 * KVR_TILE_ROWS * x.lda;
        x.sums += 2 * KVR_TILE_ROWS * x.ld;
    }
    KVR_TILE_RELEASE(&t);
}

#endif
