/* outliers_cuda.h - the stage `outliers` (outliers.c) on a CUDA stream.
 *
 * The function kvr_outliers_find_cuda selects and counts the outliers of x. The caller then reads
 * the count at kvr_outliers_count(work) with kvr_device_get, which synchronises, and allocates
 * `values` and `indices`. Finally, kvr_outliers_take_cuda stores the outliers in these arrays and,
 * unless the rule's field `left` is KVR_LEFT_KEEP, replaces the outliers in x.
 *
 * The results are bit-identical to the CPU's: counts are integers, and the standard deviation is
 * computed from the same partial sums in the same order. All arrays and the buffer `work` are in
 * device memory, and x is 16-byte aligned. */
#ifndef KVR_METHODS_OUTLIERS_CUDA_H
#define KVR_METHODS_OUTLIERS_CUDA_H

#include "harness/device/stream.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_outliers_left { KVR_LEFT_FILL, KVR_LEFT_CLAMP, KVR_LEFT_KEEP };

struct kvr_outliers_rule {
    double sigma;        /* outlier threshold, in standard deviations of the block */
    int64_t most;        /* maximum number of outliers stored per block; those of largest magnitude
                          * are kept */
    int64_t n, channels; /* number of elements (at most INT32_MAX), and number of channels H*D */
    /* number of zeros that pad the block to a multiple of 16 tokens before the standard deviation
     * is computed; 0 except in some methods as the 33-method study implemented them */
    int64_t padded;
    enum kvr_outliers_left left;
    bool study;
    enum kvr_compute compute;
};

/* Returns the size of the buffer `work` in bytes. The buffer need not be initialized. */
size_t kvr_outliers_work_bytes(const struct kvr_outliers_rule *r);
/* Returns the address, in `work`, of the number of outliers (one int64_t). */
const void *kvr_outliers_count(const void *work);

void kvr_outliers_find_cuda(struct kvr_stream *s, const struct kvr_outliers_rule *r, const float *x,
                            void *work);
/* Stores the outliers' values [n_exact] and ascending indices [n_exact]. The function then replaces
 * the outliers in x, depending on r->left. KVR_LEFT_FILL replaces an outlier by the nearest earlier
 * value in its channel that is not an outlier. If all earlier values are outliers, the replacement
 * is the nearest later one that is not, or 0 if there is none. KVR_LEFT_CLAMP replaces an outlier
 * by r->sigma times the block's standard deviation, with the outlier's sign. */
void kvr_outliers_take_cuda(struct kvr_stream *s, const struct kvr_outliers_rule *r, float *x,
                            const void *work, int64_t n_exact, kvr_f16 *values, int32_t *indices);
/* Restores the outliers in out [n,nh,D], which contains tokens [t0, t0 + n) of heads [h0, h0 +
 * nh). */
void kvr_outliers_put_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                           enum kvr_compute compute, const kvr_f16 *values, const int32_t *indices,
                           int64_t n_exact, int64_t t0, int64_t n, int h0, int nh, float *out);
/* Restores outliers as kvr_outliers_put_cuda does, but rounds their values to BF16. */
void kvr_outliers_put_bf16_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                                const kvr_f16 *values, const int32_t *indices, int64_t n_exact,
                                int64_t t0, int64_t n, int h0, int nh, kvr_bf16 *out);

#ifdef __cplusplus
}
#endif
#endif
