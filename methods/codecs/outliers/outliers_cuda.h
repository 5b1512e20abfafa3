/* outliers_cuda.h - the stage `outliers` (outliers.c) on a CUDA stream.
 *
 *     kvr_outliers_find_cuda(s, &rule, x, work);                selects and counts
 *     KVR_TRY(kvr_device_get(s, &n_exact, kvr_outliers_count(work), sizeof n_exact));   synchronises
 *     ... allocate values and indices ...
 *     kvr_outliers_take_cuda(s, &rule, x, work, n_exact, values, indices);
 *
 * Bit-identical to the CPU: counts are integers, and sigma is summed over the same pieces in the
 * same order. All pointers are device memory; x is 16-byte aligned. */
#ifndef KVR_METHODS_OUTLIERS_CUDA_H
#define KVR_METHODS_OUTLIERS_CUDA_H

#include "harness/device/stream.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_outliers_left { KVR_LEFT_FILL, KVR_LEFT_CLAMP, KVR_LEFT_KEEP };

struct kvr_outliers_rule {
    double sigma;        /* outliers are beyond this many standard deviations */
    int64_t most;        /* maximum number of kept elements */
    int64_t n, channels; /* elements; H*D. n at most INT32_MAX */
    int64_t padded;      /* number of zeros included in sigma; in the study's reading the padding to
                          * a multiple of 16 tokens */
    enum kvr_outliers_left left;
    bool study;
    enum kvr_compute compute;
};

/* Size of `work`, which needs no initialisation. */
size_t kvr_outliers_work_bytes(const struct kvr_outliers_rule *r);
/* Address of the number of kept elements in `work`: one int64. */
const void *kvr_outliers_count(const void *work);

void kvr_outliers_find_cuda(struct kvr_stream *s, const struct kvr_outliers_rule *r, const float *x,
                            void *work);
/* values [n_exact], indices [n_exact] ascending; x receives the replacement values. */
void kvr_outliers_take_cuda(struct kvr_stream *s, const struct kvr_outliers_rule *r, float *x,
                            const void *work, int64_t n_exact, kvr_f16 *values, int32_t *indices);
/* Restores the kept elements in out [n,nh,D], tokens [t0, t0 + n) of heads [h0, h0 + nh). */
void kvr_outliers_put_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                           enum kvr_compute compute, const kvr_f16 *values, const int32_t *indices,
                           int64_t n_exact, int64_t t0, int64_t n, int h0, int nh, float *out);
/* kvr_outliers_put_cuda with elements rounded to BF16. */
void kvr_outliers_put_bf16_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                                const kvr_f16 *values, const int32_t *indices, int64_t n_exact,
                                int64_t t0, int64_t n, int h0, int nh, kvr_bf16 *out);

#ifdef __cplusplus
}
#endif
#endif
