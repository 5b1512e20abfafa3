/* attend_scratch_cuda.h - size and layout of the scratch memory that attention on a CUDA stream
 * uses.
 *
 *     .bytes = kvr_cuda_scratch_bytes, .prepare = kvr_cuda_scratch_prepare     (struct kvr_attend_kind)
 *     ... struct kvr_cuda_head_rows at = kvr_cuda_head_rows_of(job, scratch); ...
 *
 * Private to attend_spans_cuda.c. */
#ifndef KVR_CACHE_ATTEND_SCRATCH_CUDA_H
#define KVR_CACHE_ATTEND_SCRATCH_CUDA_H

#include "harness/cache/attend_cuda.h"
#include "harness/cache/attend_impl.h"
#include "harness/cache/byte_rows.h"

enum {
    KVR_CUDA_PIECE = 1024, /* tokens per dequantized KV slice */
    /* tokens per KV slice if slices are dequantized to F32 and then rounded to BF16; an F32 slice
     * [4096,12,128] has 25 MB and fits in the L2 cache */
    KVR_CUDA_WIDE_PIECE = 4096,
    KVR_CUDA_PIECE_TILES = KVR_CUDA_PIECE / KVR_BYTE_TILE,
};

/* Softmax state of the queries. `begun` is true once the state has been initialized. */
struct kvr_cuda_sums {
    struct kvr_attend_state state;
    bool begun;
};

/* Arrays in the scratch; `plain` is the softmax state of tokens whose values are not rotated,
 * `rotated_v` that of tokens with rotated values. */
struct kvr_cuda_head_rows {
    /* k, v: dequantized K and V of a KV slice of up to KVR_CUDA_PIECE tokens; s2: squared
     * quantization scale of each element of K. The three arrays have shape [KVR_CUDA_PIECE,H,D]. */
    float *k, *v, *s2;
    float *row_bias; /* [T,H] */
    struct kvr_cuda_sums plain, rotated_v;
    float *q_rot; /* [T,H,D] */
};

/* Scratch arrays of one head. They are used if heads retain different tokens, so that each span has
 * K and V of one head only. */
struct kvr_cuda_head {
    const int32_t *list;    /* [T] */
    float *q, *out, *k, *v; /* q, out: [T,D]; k, v: [tokens,D], with BF16 elements if the cache
                             * stores uncompressed tokens as BF16 */
};

struct kvr_cuda_head_rows kvr_cuda_head_rows_of(const struct kvr_attend_job *job,
                                                const struct kvr_attend_scratch *s);
/* Returns the arrays of head h within the scratch buffers that all heads share. */
struct kvr_cuda_head kvr_cuda_head_part(const struct kvr_attend_job *job,
                                        const struct kvr_attend_scratch *s, int h);
struct kvr_byte_rows kvr_cuda_byte_rows(const struct kvr_attend_scratch *s, int n_heads);

/* Returns the number of elements of one token's key over all heads: n_heads * head_dim. */
static inline size_t kvr_cuda_row_floats(const struct kvr_attend_job *job)
{
    return (size_t)job->n_heads * (size_t)job->head_dim;
}

/* Functions in the CUDA backend's function table kvr_attend_cuda (attend_impl.h). */
enum kvr_status kvr_cuda_attend_check(const struct kvr_attend_needs *n);
bool kvr_cuda_attends_bf16(const struct kvr_attend_needs *n);
enum kvr_status kvr_cuda_attend_fuses(const struct kvr_dev *dev, const struct kvr_codec *k,
                                      const struct kvr_codec *v, const struct kvr_correction *c,
                                      int n_heads, int head_dim);
struct kvr_attend_bytes kvr_cuda_scratch_bytes(const struct kvr_attend_needs *n);
enum kvr_status kvr_cuda_scratch_prepare(const struct kvr_attend_needs *n,
                                         struct kvr_attend_scratch *s);

#endif
