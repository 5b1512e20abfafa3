/* blaslt.h - computes linear layers by NVIDIA's cuBLASLt, which is loaded at run time.
 *
 *     KVR_TRY(kvr_blaslt_open(&lt, s));                   KVR_EUNSUPPORTED with the reason
 *     KVR_TRY(kvr_blaslt_plan(&p, lt, &shape));           runs the library's heuristics once
 *     KVR_TRY(kvr_blaslt_run(lt, p, x, w, bias, y, workspace));
 *     kvr_blaslt_plan_close(&p);
 *     kvr_blaslt_close(&lt);
 *
 * A linear layer computes Y[M,N] = X[M,K] W[N,K]^T + b with accumulation in F32. X and W are both
 * F32 (no TF32) or both BF16. Bias and Y are both F32 or both BF16; with BF16, GELU can be fused if
 * the library supports it. Since kvreel does not link cuBLASLt, it also runs without that library.
 * If the library is not found, kvr_blaslt_open returns an error, and the engine uses kvreel's
 * kernels (harness/engine/linear_cuda.h). The environment variable KVREEL_CUBLASLT names another
 * library file, or `none` to load no library. A program contains blaslt_cuda.cu if built with nvcc,
 * otherwise blaslt_emu.cc. The emulated device (blaslt_emu.cc) loads only a test library that
 * KVREEL_CUBLASLT names. The test library must define kvr_standin_blaslt, which computes the layer,
 * and the symbol kvr_on_the_emulated_device, which states that the library needs no GPU. */
#ifndef KVR_DEVICE_BLASLT_H
#define KVR_DEVICE_BLASLT_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_blaslt;
struct kvr_blaslt_plan;

/* Epilogue of the GEMM: store Y in F32, store GELU(Y) (tanh form) in BF16, or store Y in BF16. */
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

/* Selects the library's algorithm number shape->choice for this shape. Returns KVR_EUNSUPPORTED if
 * the library has no such algorithm. */
enum kvr_status kvr_blaslt_plan(struct kvr_blaslt_plan **out, struct kvr_blaslt *lt,
                                const struct kvr_blaslt_shape *shape);
void kvr_blaslt_plan_close(struct kvr_blaslt_plan **p);

/* Computes the linear layer in stream order. The pointers x, w, y and workspace must be 16-byte
 * aligned; bias is ignored if the shape has no bias. For each matrix, let A be the largest power of
 * two, at most 256, that divides the row size in bytes. Algorithm shape->choice runs only if the
 * address of each matrix is a multiple of its A. Otherwise the algorithm that cuBLASLt's heuristic
 * ranks first for 16-byte alignment runs. */
enum kvr_status kvr_blaslt_run(struct kvr_blaslt *lt, const struct kvr_blaslt_plan *p,
                               const void *x, const void *w, const void *bias, void *y,
                               void *workspace);

/* Function of a test library that stands in for cuBLASLt: computes y [m,n] from x [m,k] and w [n,k]
 * with algorithm number shape->choice. Returns KVR_EUNSUPPORTED if the test library has no such
 * algorithm. If x is NULL, the function only returns the status, without computing y. */
typedef enum kvr_status kvr_standin_blaslt_fn(struct kvr_stream *s,
                                              const struct kvr_blaslt_shape *shape, const void *x,
                                              const void *w, const void *bias, void *y);

#ifdef __cplusplus
}
#endif
#endif
