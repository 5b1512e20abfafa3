/* faults_hopper.h - kernels for sm_90 (harness/device/hopper.cuh) that test the CUDA emulator, with
 * one deliberate error (fault) or none; see faults.h. */
#ifndef KVR_TESTS_FAULTS_HOPPER_H
#define KVR_TESTS_FAULTS_HOPPER_H

#include "tests/cuda/faults.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Faults in kernels that load tiles by TMA, wait on mbarriers and multiply by wgmma. */
extern const struct fault hopper_faults[];
extern const int n_hopper_faults;
/* Faults in kernels that use named barriers and setmaxnreg. */
extern const struct fault barrier_faults[];
extern const int n_barrier_faults;
/* Faults in kernels that use thread block clusters. */
extern const struct fault cluster_faults[];
extern const int n_cluster_faults;

enum { HOPPER_ROWS = 64, HOPPER_COLUMNS = 128, HOPPER_TILES = 3, HOPPER_TOKENS = 300 };

/* Returns whether the emulated driver accepts a tensor map of [n_tok,n_heads,head_dim] with
 * boxes of box_tok tokens. */
bool hopper_map(const void *rows, int64_t n_tok, int n_heads, int head_dim, int box_tok);
/* Computes out [64,128] = a b_0^T + a b_1^T + a b_2^T from the matrix a [64,64] in F32, rounded to
 * BF16, and tiles of the BF16 tensor b [300,2,64] (tokens, heads, channels). Tile b_t [128,64] has
 * tokens 128 t to 128 t + 127 of head 1. TMA fills the rows of tokens past 299 with zeros. */
void hopper_sum(struct kvr_stream *s, const float *a, const void *b, float *out);
/* Launches one cluster of two blocks. Each block computes the product a b and writes it to its half
 * of out [2,64,128]. The matrix a [64,64] is F32, rounded to BF16; b [64,1,128] is BF16. */
void hopper_transposed(struct kvr_stream *s, const float *a, const void *b, float *out);
/* Computes integer products out [2,64,128] of the 8-bit matrices a [64,128] and b [128,128]. out[0]
 * is a b^T with signed elements. out[1] is a b^T with unsigned elements, where the products of
 * columns 0 to 31 are added twice. */
void hopper_bytes(struct kvr_stream *s, const void *a, const void *b, int *out);
/* Launches 2 clusters of 2 blocks of FAULT_THREADS threads. In each of three rounds r = 0, 1, 2,
 * thread t of a block stores the number cluster_number(r, rank, t) to the shared memory of the
 * cluster's other block; `rank` is the sender's rank in the cluster. Thread i reads the number of
 * the other block's thread FAULT_THREADS - 1 - i and stores the sum over the rounds in its element
 * of x. */
void cluster_exchange(struct kvr_stream *s, float *x);
static inline int cluster_number(int r, int block, int thread)
{
    return 1000 * r + 100 * block + thread;
}
/* Launches 2 clusters of 2 blocks. Each block sends an array to the cluster's other block by a bulk
 * copy. Thread i of the receiver then sets its element of x to i + FAULT_THREADS * rank, where
 * `rank` is the receiver's rank in the cluster. */
void cluster_give(struct kvr_stream *s, float *x);
/* Launches one cluster of two blocks. Each block computes a b_0^T + a b_1^T, with `a` and the tiles
 * b_t of hopper_sum, and writes it to its half of out [2,64,128]. Each block stores half of tile 0
 * to the shared memory of both blocks. Block 0 copies tile 1 to the shared memory of both blocks by
 * TMA multicast. */
void cluster_product(struct kvr_stream *s, const float *a, const void *b, float *out);

#ifdef __cplusplus
}
#endif
#endif
