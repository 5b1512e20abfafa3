/* nuq.h - format and decoder of the stage `nuq`, shared by CPU and CUDA.
 *
 * A vector is a channel over the tokens of the block, or a token over all heads. In every vector,
 * n_outliers elements are outliers, and [lo, hi] is the narrowest range that contains all other
 * elements. Outliers are stored as FP16 numbers, and all other elements are decoded by a codebook:
 *
 *     x^ = level[q] (hi - lo) / 2 + (lo + hi) / 2         2^b levels, common to the block */
#ifndef KVR_METHODS_NUQ_H
#define KVR_METHODS_NUQ_H

#include "methods/codecs/cells/cells.h"

enum { NUQ_MAX_LEVELS = 16 };

/* The codes of a block are packed as in pack.h. The side information of a block starts with the
 * levels, FP32 [2^b]. Two FP16 numbers per vector follow: (lo + hi) / 2 and (hi - lo) / 2. Next are
 * the ascending indices of outliers [n_vectors][n_outliers], as uint16, or as uint32 if vectors are
 * longer than 65536. The values of the outliers, FP16 [n_vectors][n_outliers], are last. */
struct nuq {
    int bits, n_outliers;
    bool by_token;
    int64_t n_tok, channels;
    int64_t n_vectors, length; /* length: number of elements of a vector */
};

CELLS int nuq_index_size(const struct nuq *g)
{
    return g->length > 65536 ? 4 : 2;
}

CELLS int64_t nuq_middle_at(const struct nuq *g, int64_t vector)
{
    return (4ll << g->bits) + 4 * vector;
}

CELLS int64_t nuq_index_at(const struct nuq *g, int64_t vector, int64_t i)
{
    return nuq_middle_at(g, g->n_vectors) + (vector * g->n_outliers + i) * nuq_index_size(g);
}

CELLS int64_t nuq_value_at(const struct nuq *g, int64_t vector, int64_t i)
{
    return nuq_index_at(g, g->n_vectors, 0) + 2 * (vector * g->n_outliers + i);
}

/* Decodes the element of token t and channel c. */
CELLS float nuq_value(const struct nuq *g, cells_bytes_in params, int64_t t, int64_t c, unsigned q)
{
    const int64_t vector = g->by_token ? t : c, index = g->by_token ? c : t;
    const int size = nuq_index_size(g);
    const float level = cells_float(cells_get(params, 4ll * q, 4));
    const float middle = cells_unhalf((kvr_f16)cells_get(params, nuq_middle_at(g, vector), 2));
    const float half = cells_unhalf((kvr_f16)cells_get(params, nuq_middle_at(g, vector) + 2, 2));
    int low = 0, high = g->n_outliers;

    while (low < high) { /* binary search for the first outlier index that is not below `index` */
        const int mid = (low + high) / 2;

        if ((int64_t)cells_get(params, nuq_index_at(g, vector, mid), size) < index)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < g->n_outliers &&
        (int64_t)cells_get(params, nuq_index_at(g, vector, low), size) == index)
        return cells_unhalf((kvr_f16)cells_get(params, nuq_value_at(g, vector, low), 2));
    return level * half + middle;
}

KVR_DECODE_LAUNCHER(nuq);

#ifndef __cplusplus
/* Adds the elements of x [T,C], except outliers, to the histogram `bins` [NUQ_BINS]. An element x
 * counts at y = (x - (lo + hi) / 2) / w in [-1, 1], where w = (hi - lo) / 2 of its vector. Its
 * weight is 2^20 (w / *most)^2, where *most becomes the largest w of all vectors. The caller sets
 * by_token, n_tok and channels of `g`, and the function sets the other fields. Fails with
 * KVR_ENOMEM. */
enum { NUQ_BINS = 1024 };
enum kvr_status kvr_nuq_count(struct nuq *g, double exact, const float *x, uint64_t *bins,
                              float *most);
/* Computes n ascending levels by Lloyd's algorithm, which starts from uniform levels and reduces
 * the squared quantization error of the histogram `bins`. */
void kvr_nuq_fit_levels(const uint64_t *bins, int n, double *level);
#endif

#endif
