/* faults_hopper.h - kernels with planted faults that need sm_90 (harness/device/hopper.cuh), in
 * the format of faults.h. */
#ifndef KVR_TESTS_FAULTS_HOPPER_H
#define KVR_TESTS_FAULTS_HOPPER_H

#include "tests/cuda/faults.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels with pipelines of TMA, mbarriers and wgmma. */
extern const struct fault hopper_faults[];
extern const int n_hopper_faults;
/* Kernels with named barriers and setmaxnreg. */
extern const struct fault barrier_faults[];
extern const int n_barrier_faults;
/* Kernels with clusters. */
extern const struct fault cluster_faults[];
extern const int n_cluster_faults;

enum { HOPPER_ROWS = 64, HOPPER_COLUMNS = 128, HOPPER_TILES = 3, HOPPER_TOKENS = 300 };

/* Returns whether the emulated driver accepts a tensor map of [n_tok,n_heads,head_dim] with
 * boxes of box_tok tokens. */
bool hopper_map(const void *rows, int64_t n_tok, int n_heads, int head_dim, int box_tok);
/* out [64,128] = sum over tiles t = 0, 1, 2 of a b_t^T, with a [64,64] in F32. Tile b_t [128,64]
 * has the rows 128 t to 128 t + 127 of head 1 of b [300,2,64] in BF16. Rows from 300 on are 0. */
void hopper_sum(struct kvr_stream *s, const float *a, const void *b, float *out);
/* out [2,64,128] = a b, once per block of a cluster of two. a is [64,64] in F32, rounded to
 * BF16. b has BF16 rows [64,1,128]. */
void hopper_transposed(struct kvr_stream *s, const float *a, const void *b, float *out);
/* Integer products of the 8-bit matrices a [64,128] and b [128,128]. out[0] = a b^T for signed
 * elements. out[1] = a b^T for unsigned elements, where columns 0 to 31 of a and b count twice. */
void hopper_bytes(struct kvr_stream *s, const void *a, const void *b, int *out);
/* Launches 2 clusters of 2 blocks of FAULT_THREADS threads. Thread i of a block receives the number
 * cluster_number(r, b, t) in each round r = 0, 1, 2, and stores the sum in its element of x. Here b
 * is the cluster rank of the other block, and t = FAULT_THREADS - 1 - i. */
void cluster_exchange(struct kvr_stream *s, float *x);
static inline int cluster_number(int r, int block, int thread)
{
    return 1000 * r + 100 * block + thread;
}
/* Launches 2 clusters of 2 blocks. Each block receives its elements of x from the cluster's other
 * block by a bulk copy: x[i] = i % FAULT_THREADS + FAULT_THREADS * receiver's cluster rank. */
void cluster_give(struct kvr_stream *s, float *x);
/* out [2,64,128]: each block of a cluster of two computes a b_0^T + a b_1^T, with a and the tiles
 * b_t as in hopper_sum. Each block stores half of tile 0 to the shared memory of both blocks. Block
 * 0 copies tile 1 to the shared memory of both blocks by TMA multicast. */
void cluster_product(struct kvr_stream *s, const float *a, const void *b, float *out);

#ifdef __cplusplus
}
#endif
#endif
