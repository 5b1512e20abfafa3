/* gemm.h - linear layers: Y[M,N] = X[M,K] W[N,K]^T + b, by oneDNN, cuBLASLt or kvreel's kernels.
 *
 *     KVR_TRY(kvr_gemm_open_as(&g, dev, KVR_BF16));
 *     KVR_TRY(kvr_linear_open(&q, g, n, k, w, b));        packs: w and b may be freed
 *     KVR_TRY(kvr_linear_prepare(q, m));                  builds what m rows need
 *     KVR_TRY(kvr_linear_run(g, m, x, 3, qkv, outs));     three layers over the same rows
 *     kvr_linear_close(&q);
 *     kvr_gemm_close(&g);                                 after its layers
 *
 * X, Y and b are F32, accumulation is F32. Compute type BF16 first rounds X, W and b to BF16; a
 * device, or a CPU with AMX, then stores W as BF16 and multiplies in BF16.
 *
 * On the CPU one thread computes each tile of Y with a single-threaded primitive, and tile sizes
 * depend on M and N alone, so Y does not depend on the number of threads. On CUDA x and y are
 * device memory and calls are asynchronous; kvr_linear_prepare chooses kernels by shape. A kvr_gemm
 * belongs to one thread, which may open an OpenMP team. */
#ifndef KVR_ENGINE_GEMM_H
#define KVR_ENGINE_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/dtype.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_LINEAR_MAX_FUSED = 4 };

struct kvr_gemm;
struct kvr_linear;

/* Names of the compute types of linear layers: "f32", "bf16". KVR_EINVAL for other names. */
#define KVR_COMPUTE_HELP "f32 or bf16"
const char *kvr_compute_word(enum kvr_dtype compute);
enum kvr_status kvr_compute_parse(const char *word, enum kvr_dtype *out);

/* Compute type F32. */
enum kvr_status kvr_gemm_open(struct kvr_gemm **out, struct kvr_dev *dev);
/* Compute type KVR_F32 or KVR_BF16. */
enum kvr_status kvr_gemm_open_as(struct kvr_gemm **out, struct kvr_dev *dev,
                                 enum kvr_dtype compute);
/* Accepts NULL. Close its layers first. */
void kvr_gemm_close(struct kvr_gemm **g);
enum kvr_dtype kvr_gemm_compute(const struct kvr_gemm *g);
/* Whether this backend stores BF16 layers' weights as BF16 (CUDA, AMX); otherwise as floats with BF16 values. */
bool kvr_gemm_holds_bf16(enum kvr_backend backend);
/* Enables autotuning of BF16 products: kvr_linear_prepare measures kvreel's kernels and cuBLASLt's
 * proposals, or reads an earlier measurement (tune.h), and selects the fastest. No effect if only
 * one kernel exists. */
enum kvr_status kvr_gemm_tune(struct kvr_gemm *g);
/* kvr_tune_words() (tune.h), or "" without autotuning. */
const char *kvr_gemm_tuned(const struct kvr_gemm *g);
/* Implementation: "oneDNN 2.6", "cuBLASLt 13.0", "kvreel (...why not cuBLASLt)". */
const char *kvr_gemm_library(const struct kvr_gemm *g);

/* w [n,k] row-major, b [n] or NULL, in host memory. The packed copy is tagged KVR_MEM_WEIGHTS. */
enum kvr_status kvr_linear_open(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                const float *w, const float *b);
/* kvr_linear_open with w and b in the memory of the gemm's device. */
enum kvr_status kvr_linear_open_device(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                       const float *w, const float *b);
void kvr_linear_close(struct kvr_linear **l);
int kvr_linear_n(const struct kvr_linear *l);
int kvr_linear_k(const struct kvr_linear *l);

/* Builds primitives and scratch for m rows, so that kvr_linear_run(m) allocates nothing. The CPU
 * builds missing sizes on demand; on CUDA one layer prepares all layers with the same n, k and
 * bias. */
enum kvr_status kvr_linear_prepare(const struct kvr_linear *l, int64_t m);

/* Frees the scratch of all layers; the next run allocates it again. */
void kvr_gemm_free_scratch(struct kvr_gemm *g);

/* y[i] [m, n of l[i]] = layer l[i] of x [m,k], for n_layers layers with the same k. x NULL: the
 * input is in kvr_gemm_input. */
enum kvr_status kvr_linear_run(struct kvr_gemm *g, int64_t m, const float *x, int n_layers,
                               const struct kvr_linear *const *l, float *const *y);

/* ---- BF16 activations, on devices with BF16 weights (kvr_gemm_narrow) --------------------------------- */

bool kvr_gemm_narrow(const struct kvr_gemm *g);
/* Columns of a padded input row: k, then zeros. */
int kvr_gemm_columns(const struct kvr_gemm *g, int k);

/* Input buffer [m, kvr_gemm_columns] of the next run, which then takes x NULL. Requires a layer
 * with this k that is prepared for m rows. */
kvr_bf16 *kvr_gemm_input(struct kvr_gemm *g, int64_t m, int k);
/* Writes x [m,k], rounded to BF16, to kvr_gemm_input. */
void kvr_gemm_store_input(struct kvr_gemm *g, int64_t m, int k, const float *x);

/* Epilogue: round to BF16 [m,n]; GELU, padded like an input; or round, multiply by the gate and add
 * to the residual. */
enum kvr_linear_end { KVR_LINEAR_ROUNDED, KVR_LINEAR_GELU, KVR_LINEAR_ADDED, KVR_N_LINEAR_ENDS };
/* BF16 input [m,columns]; columns is k or kvr_gemm_columns(k). x NULL: the input is in
 * kvr_gemm_input. */
struct kvr_linear_in {
    const kvr_bf16 *x;
    int columns;
};
/* The gate of a residual: one value per frame and channel. The values of successive frames are
 * `stride` floats apart, and a frame has tokens_per_frame rows. gate NULL: 1. */
struct kvr_linear_gate {
    const float *gate;
    int64_t stride;
    int tokens_per_frame;
};

/* Like kvr_linear_prepare, for this epilogue. */
enum kvr_status kvr_linear_prepare_end(const struct kvr_linear *l, int64_t m,
                                       enum kvr_linear_end end);
/* y[i] = layer l[i] of `in`, for layers with the same k and epilogue, ROUNDED or GELU. */
enum kvr_status kvr_linear_run_narrow(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                      int n_layers, const struct kvr_linear *const *l,
                                      enum kvr_linear_end end, kvr_bf16 *const *y);
/* sum [m,n] = round(sum + gate * round(product)). *left true: the library cannot add; y [m,n] has
 * the rounded product, and sum is unchanged. */
enum kvr_status kvr_linear_run_added(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                     const struct kvr_linear *l, const struct kvr_linear_gate *gate,
                                     kvr_bf16 *sum, kvr_bf16 *y, bool *left);

/* Whether products with a fused epilogue exist on this device. */
bool kvr_gemm_fuses(const struct kvr_gemm *g);
/* Partial sums of squares that a fused product writes per row of n columns, for an RMS norm. */
int kvr_linear_squares(int n);
struct kvr_linear_fused {
    struct kvr_linear_in in;
    enum kvr_linear_end end;
    const struct kvr_linear_gate *gate; /* for KVR_LINEAR_ADDED, which adds to y[0] */
    float *squares; /* [m, kvr_linear_squares(n)], sums of squares of the first layer's result;
                     * NULL: not needed */
};
/* *done false: no fused kernel supports these layers, and nothing was run. */
enum kvr_status kvr_linear_run_fused(struct kvr_gemm *g, int64_t m,
                                     const struct kvr_linear_fused *how, int n_layers,
                                     const struct kvr_linear *const *l, kvr_bf16 *const *y,
                                     bool *done);

#ifdef __cplusplus
}
#endif
#endif
