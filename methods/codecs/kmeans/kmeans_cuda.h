/* kmeans_cuda.h - what both kinds of device share of `kmeans`, and the launchers of its kernels. */
#ifndef KVR_METHODS_KMEANS_CUDA_H
#define KVR_METHODS_KMEANS_CUDA_H

#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A block and what it is split into. labels [S,T,H], centres [S,H,K,D] BF16. */
struct kvr_kmeans {
    int64_t n_tok;
    int n_heads, d;
    int k, stages, iterations; /* k: centres there are, T at the most */
    uint32_t seed;
    bool bf16; /* what is left of a stage is rounded to BF16 */
};

/* The token that centre k of head h of a stage begins as: drawn with replacement. */
#define KVR_KMEANS_TOKEN(m, stage, h, k, word)                                                     \
    ((word) = (m)->seed * 0x9e3779b9u ^ ((uint32_t)(stage) << 24 | (uint32_t)(h) << 12) ^          \
              (uint32_t)(k),                                                                       \
     (word) = ((word) ^ (word) >> 16) * 0x85ebca6bu,                                               \
     (word) = ((word) ^ (word) >> 13) * 0xc2b2ae35u,                                               \
     (int64_t)(((word) ^ (word) >> 16) % (uint32_t)(m)->n_tok))

/* x [T,H,D] loses its centres. */
void kvr_kmeans_encode_cuda(struct kvr_stream *s, const struct kvr_kmeans *m, float *x,
                            uint8_t *labels, kvr_bf16 *centres);
void kvr_kmeans_decode_cuda(struct kvr_stream *s, const struct kvr_kmeans *m, const uint8_t *labels,
                            const kvr_bf16 *centres, int64_t t0, int64_t n, int h0, int nh,
                            float *out);

#ifdef __cplusplus
}
#endif
#endif
