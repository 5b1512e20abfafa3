/* observed.h - runs random chunks through a BF16 cache with an observer, as a rollout does. */
#ifndef KVR_TESTS_OBSERVED_H
#define KVR_TESTS_OBSERVED_H

#include <check.h>
#include <stdlib.h>

#include "harness/cache/cache.h"

/* A function that writes the keys k and values v [T,H,D] of one chunk and layer. Pass 0 is a
 * denoising pass, and pass 1 is the clean pass, after which the cache keeps the chunk's keys and
 * values. */
typedef void draw_chunk_fn(int chunk, int pass, int layer, float *k, float *v);

static inline void observe_rollout(const struct kvr_cache_shape *shape, int n_chunks,
                                   draw_chunk_fn *draw, kvr_cache_observer_fn *observer, void *ctx)
{
    const int n_frames = shape->frames_per_chunk;
    const size_t n =
        (size_t)(n_frames * shape->tokens_per_frame * shape->n_heads * shape->head_dim);
    float *x = calloc(4 * n, sizeof *x); /* four arrays [T,H,D]: keys, values, queries and attention
                                          * output */
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_dev *dev;

    ck_assert_ptr_nonnull(x);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "BF16", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, shape, KVR_PATH_STAGED), KVR_OK);
    kvr_cache_observe(cache, observer, ctx);
    for (int c = 0; c < n_chunks; c++)
        for (int p = 0; p < 2; p++) {
            const struct kvr_pass pass = { .chunk = c,
                                           .frame0 = c * n_frames,
                                           .n_frames = n_frames,
                                           .index = p,
                                           .clean = p == 1 };

            ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
            for (int l = 0; l < shape->n_layers; l++) {
                draw(c, p, l, x, x + n);
                ck_assert_int_eq(kvr_cache_append(cache, l, x, x + n), KVR_OK);
                ck_assert_int_eq(kvr_cache_attend(cache, l, x + 2 * n, x + 3 * n), KVR_OK);
            }
            ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
        }
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
    free(x);
}

#endif
