/* kmeans_cuda.h - launchers of the stage `kmeans`, and definitions that the CPU and CUDA code
 * share. */
#ifndef KVR_METHODS_KMEANS_CUDA_H
#define KVR_METHODS_KMEANS_CUDA_H

#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shape of a block with T tokens, H heads, D channels, S residual stages and K centroids per stage.
 * Labels are [S,T,H], and centroids are [S,H,K,D] in BF16. */
struct kvr_kmeans {
    int64_t n_tok;
    int n_heads, d;
    int k, stages, iterations; /* numbers of centroids (at most n_tok), of residual stages, and of
                                * k-means iterations per stage */
    uint32_t seed;
    bool bf16; /* whether the residual of every stage is rounded to BF16 */
};

/* Computes the index of the token whose vector is the initial centroid k of head h. The index is a
 * hash of seed, stage, h and k, so two centroids may get the same token. The argument `word` is a
 * uint32_t variable, which the macro overwrites. */
#define KVR_KMEANS_TOKEN(m, stage, h, k, word)                                                     \
    ((word) = (m)->seed * 0x9e3779b9u ^ ((uint32_t)(stage) << 24 | (uint32_t)(h) << 12) ^          \
              (uint32_t)(k),                                                                       \
     (word) = ((word) ^ (word) >> 16) * 0x85ebca6bu,                                               \
     (word) = ((word) ^ (word) >> 13) * 0xc2b2ae35u,                                               \
     (int64_t)(((word) ^ (word) >> 16) % (uint32_t)(m)->n_tok))

/* Computes labels and centroids of x [T,H,D], and replaces x by its residual. */
void kvr_kmeans_encode_cuda(struct kvr_stream *s, const struct kvr_kmeans *m, float *x,
                            uint8_t *labels, kvr_bf16 *centres);
void kvr_kmeans_decode_cuda(struct kvr_stream *s, const struct kvr_kmeans *m, const uint8_t *labels,
                            const kvr_bf16 *centres, int64_t t0, int64_t n, int h0, int nh,
                            float *out);

#ifdef __cplusplus
}
#endif
#endif
