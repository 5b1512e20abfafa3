/* blaslt.h - computes linear layers by NVIDIA's cuBLASLt, which is loaded at run time.
 *
 *     KVR_TRY(kvr_blaslt_open(&lt, s));                   KVR_EUNSUPPORTED with the reason
 *     KVR_TRY(kvr_blaslt_plan(&p, lt, &shape));           runs the library's heuristics once
 *     KVR_TRY(kvr_blaslt_run(lt, p, x, w, bias, y, workspace));
 *     kvr_blaslt_plan_close(&p);
 *     kvr_blaslt_close(&lt);
 *
 * A linear layer computes Y[M,N] = X[M,K] W[N,K]^T + bias[N] with accumulation in F32. X and W are
 * both F32 (no TF32) or both BF16. The bias has the element type of Y, F32 or BF16. If Y is BF16
 * and the library supports it, GELU is computed in the epilogue. Since kvreel does not link
 * cuBLASLt, it also runs without that library. If the library is not found, kvr_blaslt_open returns
 * an error, and the engine uses kvreel's kernels (harness/engine/linear_cuda.h). The environment
 * variable KVREEL_CUBLASLT names another library file, or `none` to load no library. A program
 * contains blaslt_cuda.cu if built with nvcc, otherwise blaslt_emu.cc. The emulated device
 * (blaslt_emu.cc) loads only a test library that KVREEL_CUBLASLT names. The test library must
 * define kvr_standin_blaslt, which computes the layer, and the symbol kvr_on_the_emulated_device,
 * which states that the library needs no GPU. */
#ifndef KVR_DEVICE_BLASLT_H
#define KVR_DEVICE_BLASLT_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_blaslt;
struct kvr_blaslt_plan;

/* What the GEMM's epilogue stores: Y in F32, GELU(Y) (tanh approximation) in BF16, or Y in BF16. If
 * the library supports only F32, a separate kernel reads Y and writes BF16. In a forward pass of
 * Wan 1.3B, this adds 10 GB of traffic for layers with GELU and 12 GB for other layers. */
enum kvr_blaslt_end { KVR_BLASLT_F32, KVR_BLASLT_GELU, KVR_BLASLT_BF16 };

struct kvr_blaslt_shape {
    int64_t m;
    int n, k;
    bool bf16, bias;
    enum kvr_blaslt_end end;
    size_t workspace_bytes; /* upper limit */
    int choice;             /* index of the algorithm in the ranking of cuBLASLt's heuristic, from
                             * 0 */
};
enum { KVR_BLASLT_CHOICES = 8 };

/* Writes the library's name and version, such as "cuBLASLt 13.1", to words [n]. Returns
 * KVR_EUNSUPPORTED with the searched file names if the library is not found. */
enum kvr_status kvr_blaslt_find(char *words, size_t n);

enum kvr_status kvr_blaslt_open(struct kvr_blaslt **out, struct kvr_stream *s);
void kvr_blaslt_close(struct kvr_blaslt **lt); /* *lt may be NULL; all plans of *lt must be closed
                                                * first */

/* Plans linear layers of this shape. cuBLASLt's heuristic ranks algorithms for the shape; the plan
 * uses the algorithm with index shape->choice in this ranking. Returns KVR_EUNSUPPORTED if the
 * ranking has no such index. */
enum kvr_status kvr_blaslt_plan(struct kvr_blaslt_plan **out, struct kvr_blaslt *lt,
                                const struct kvr_blaslt_shape *shape);
void kvr_blaslt_plan_close(struct kvr_blaslt_plan **p);

/* Computes the linear layer in stream order. The pointers x, w, y and workspace must be 16-byte
 * aligned; bias is ignored if the shape has no bias. Algorithm shape->choice requires aligned
 * matrices: the address of each of x, w and y must be a multiple of the largest power of two, from
 * 16 to 256 bytes, that divides the matrix's row size. For other addresses, the function uses the
 * first algorithm in the heuristic's ranking for 16-byte aligned matrices. */
enum kvr_status kvr_blaslt_run(struct kvr_blaslt *lt, const struct kvr_blaslt_plan *p,
                               const void *x, const void *w, const void *bias, void *y,
                               void *workspace);

/* Type of the function kvr_standin_blaslt, which a test library defines in place of cuBLASLt. The
 * function computes y [m,n] from x [m,k] and w [n,k] with algorithm number shape->choice. Returns
 * KVR_EUNSUPPORTED if the test library has no such algorithm. If x is NULL, the function only
 * returns the status, without computing y. */
typedef enum kvr_status kvr_standin_blaslt_fn(struct kvr_stream *s,
                                              const struct kvr_blaslt_shape *shape, const void *x,
                                              const void *w, const void *bias, void *y);

#ifdef __cplusplus
}
#endif
#endif
