/* faults_hopper.h - the same for sm_90 (harness/device/hopper.cuh). */
#ifndef KVR_TESTS_FAULTS_HOPPER_H
#define KVR_TESTS_FAULTS_HOPPER_H

#include "tests/cuda/faults.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct fault hopper_faults[];
extern const int n_hopper_faults;
extern const struct fault cluster_faults[];
extern const int n_cluster_faults;

enum { HOPPER_ROWS = 64, HOPPER_COLUMNS = 128, HOPPER_TILES = 3, HOPPER_TOKENS = 300 };

/* Whether the emulated driver accepts a tensor map of [n_tok,n_heads,head_dim] with boxes of box_tok. */
bool hopper_map(const void *rows, int64_t n_tok, int n_heads, int head_dim, int box_tok);
/* out [64,128] = sum over the tiles t of a b_t^T: a [64,64] in F32, b_t [128,64] the rows of BF16
 * `b` [300,2,64] of head 1 from 128 t on. */
void hopper_sum(struct kvr_stream *s, const float *a, const void *b, float *out);
/* out [2,64,128], of each of the two blocks of a cluster: a b, a [64,64] in F32, rounded to BF16, b [64,128] the
 * rows of BF16 [64,1,128]. */
void hopper_transposed(struct kvr_stream *s, const float *a, const void *b, float *out);
/* Of bytes a [64,128], b [128,128]: out [0] = a b^T, both signed; out [1] = a b^T, both unsigned, and
 * that of the first 32 columns once more. */
void hopper_bytes(struct kvr_stream *s, const void *a, const void *b, int *out);
/* x[i] of 2 clusters of 2 blocks of FAULT_THREADS: the sum over 3 rounds r of cluster_number(r, b, t), b
 * the other block and t the last thread but i. */
void cluster_exchange(struct kvr_stream *s, float *x);
static inline int cluster_number(int r, int block, int thread)
{
    return 1000 * r + 100 * block + thread;
}
/* x[i] of the same: i % FAULT_THREADS + FAULT_THREADS times the own rank, as the other block has sent it. */
void cluster_give(struct kvr_stream *s, float *x);
/* out [2,64,128], of each of two blocks: the sum of the first two tiles of hopper_sum. Each block puts
 * half of the first into both, and the first has the second copied into both. */
void cluster_product(struct kvr_stream *s, const float *a, const void *b, float *out);

#ifdef __cplusplus
}
#endif
#endif
