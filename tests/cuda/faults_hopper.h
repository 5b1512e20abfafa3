/* faults_hopper.h - kernels with planted faults of sm_90 (harness/device/hopper.cuh), as faults.h. */
#ifndef KVR_TESTS_FAULTS_HOPPER_H
#define KVR_TESTS_FAULTS_HOPPER_H

#include "tests/cuda/faults.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pipelines of TMA, mbarriers and wgmma. */
extern const struct fault hopper_faults[];
extern const int n_hopper_faults;
/* Named barriers and setmaxnreg. */
extern const struct fault barrier_faults[];
extern const int n_barrier_faults;
/* Clusters. */
extern const struct fault cluster_faults[];
extern const int n_cluster_faults;

enum { HOPPER_ROWS = 64, HOPPER_COLUMNS = 128, HOPPER_TILES = 3, HOPPER_TOKENS = 300 };

/* Whether the emulated driver accepts a tensor map of [n_tok,n_heads,head_dim] with boxes of box_tok. */
bool hopper_map(const void *rows, int64_t n_tok, int n_heads, int head_dim, int box_tok);
/* out [64,128] = sum over the tiles t of a b_t^T: a [64,64] in F32, b_t [128,64] the rows of BF16
 * `b` [300,2,64] of head 1 from 128 t on. */
void hopper_sum(struct kvr_stream *s, const float *a, const void *b, float *out);
/* out [2,64,128], one product per block of a cluster of two: a b, with a [64,64] in F32, rounded to BF16, and b the
 * BF16 rows [64,1,128]. */
void hopper_transposed(struct kvr_stream *s, const float *a, const void *b, float *out);
/* 8-bit a [64,128], b [128,128]: out [0] = a b^T, both signed; out [1] = a b^T, both unsigned, plus the product of
 * the first 32 columns a second time. */
void hopper_bytes(struct kvr_stream *s, const void *a, const void *b, int *out);
/* 2 clusters of 2 blocks of FAULT_THREADS. x[i] is the sum over 3 rounds r of cluster_number(r, b, t) with b the other
 * block and t = FAULT_THREADS - 1 - i. */
void cluster_exchange(struct kvr_stream *s, float *x);
static inline int cluster_number(int r, int block, int thread)
{
    return 1000 * r + 100 * block + thread;
}
/* The same grid: the other block stores x[i] = i % FAULT_THREADS + FAULT_THREADS * rank remotely. */
void cluster_give(struct kvr_stream *s, float *x);
/* out [2,64,128], one per block: the sum of the first two tiles of hopper_sum. Each block stores half of tile 0 into
 * both blocks; block 0 copies tile 1 into both by TMA. */
void cluster_product(struct kvr_stream *s, const float *a, const void *b, float *out);

#ifdef __cplusplus
}
#endif
#endif
