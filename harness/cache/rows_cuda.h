/* rows_cuda.h - gathers, scatters and repeats rows on a CUDA stream (rows.h). All pointers are
 * device pointers. The functions neither allocate memory nor synchronize the stream. */
#ifndef KVR_CACHE_ROWS_CUDA_H
#define KVR_CACHE_ROWS_CUDA_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How kvr_rows_move_cuda copies rows. x[i] is row i of x, `list` [n] has token indices, and tok0 is
 * the token index of the first row of the array that `list` indexes. */
enum kvr_rows_way {
    KVR_ROWS_GATHER,  /* gathers rows: out[i] = x[list[i] - tok0] */
    KVR_ROWS_SCATTER, /* scatters rows: out[list[i] - tok0] = x[i] */
    KVR_ROWS_REPEAT,  /* repeats one row: out[i] = x[0], with `list` unused */
};

/* Gathers, scatters or repeats n rows of `width` floats. */
void kvr_rows_move_cuda(struct kvr_stream *s, enum kvr_rows_way way, const float *x, size_t width,
                        const int32_t *list, int64_t n, int64_t tok0, float *out);

#ifdef __cplusplus
}
#endif
#endif
