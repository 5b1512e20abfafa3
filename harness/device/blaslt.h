/* blaslt.h - linear layers by NVIDIA's cuBLASLt, loaded at run time.
 *
 *     KVR_TRY(kvr_blaslt_open(&lt, s));                   KVR_EUNSUPPORTED with the reason
 *     KVR_TRY(kvr_blaslt_plan(&p, lt, &shape));           runs the library's heuristics once
 *     KVR_TRY(kvr_blaslt_run(lt, p, x, w, bias, y, workspace));
 *     kvr_blaslt_plan_close(&p);
 *     kvr_blaslt_close(&lt);
 *
 * Y[M,N] = X[M,K] W[N,K]^T + b with accumulation in F32. X and W are both F32 (no TF32) or both
 * BF16. Bias and Y are both F32, or both BF16 with an optional GELU epilogue if the library
 * supports it. The program does not link cuBLAS. Without the library, opening fails with the
 * reason, and the engine uses its own kernels (harness/engine/linear_cuda.h). KVREEL_CUBLASLT names
 * another file, or `none`. A program contains one of two implementations: blaslt_cuda.cu (nvcc) or
 * blaslt_emu.cc. The latter loads only a test's stand-in, named by KVREEL_CUBLASLT, that defines
 * kvr_on_the_emulated_device and kvr_standin_blaslt. */
#ifndef KVR_DEVICE_BLASLT_H
#define KVR_DEVICE_BLASLT_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_blaslt;
struct kvr_blaslt_plan;

/* Epilogue: Y in F32, or in BF16 with or without GELU (tanh form). */
enum kvr_blaslt_end { KVR_BLASLT_F32, KVR_BLASLT_GELU, KVR_BLASLT_BF16 };

struct kvr_blaslt_shape {
    int64_t m;
    int n, k;
    bool bf16, bias;
    enum kvr_blaslt_end end;
    size_t workspace_bytes; /* upper limit */
    int choice;             /* index into the library's proposals, the best by its estimate first */
};
enum { KVR_BLASLT_CHOICES = 8 };

/* "cuBLASLt 13.1" into words[n]; KVR_EUNSUPPORTED: not found, with the searched names. */
enum kvr_status kvr_blaslt_find(char *words, size_t n);

enum kvr_status kvr_blaslt_open(struct kvr_blaslt **out, struct kvr_stream *s);
void kvr_blaslt_close(struct kvr_blaslt **lt); /* accepts NULL; close its plans first */

/* KVR_EUNSUPPORTED: the library has no algorithm for this shape, or no such choice. */
enum kvr_status kvr_blaslt_plan(struct kvr_blaslt_plan **out, struct kvr_blaslt *lt,
                                const struct kvr_blaslt_shape *shape);
void kvr_blaslt_plan_close(struct kvr_blaslt_plan **p);

/* In stream order. x, w, y and workspace are 16-byte aligned; bias is ignored if the shape has
 * none. Operands whose address has the alignment of their rows, up to 256 bytes, get an algorithm
 * chosen for that alignment. */
enum kvr_status kvr_blaslt_run(struct kvr_blaslt *lt, const struct kvr_blaslt_plan *p,
                               const void *x, const void *w, const void *bias, void *y,
                               void *workspace);

/* The stand-in's product, by its proposal shape->choice; x [m,k], w [n,k], y [m,n].
 * KVR_EUNSUPPORTED: there is no such proposal. x == NULL only queries it. */
typedef enum kvr_status kvr_standin_blaslt_fn(struct kvr_stream *s,
                                              const struct kvr_blaslt_shape *shape, const void *x,
                                              const void *w, const void *bias, void *y);

#ifdef __cplusplus
}
#endif
#endif
