/* gemm.h - linear layers: Y[M,N] = X[M,K] W[N,K]^T + b, through oneDNN, cuBLASLt or own kernels.
 *
 *     KVR_TRY(kvr_gemm_open_as(&g, dev, KVR_BF16));
 *     KVR_TRY(kvr_linear_open(&q, g, n, k, w, b));        packs: w and b may be freed
 *     KVR_TRY(kvr_linear_prepare(q, m));                  builds what m rows need
 *     KVR_TRY(kvr_linear_run(g, m, x, 3, qkv, outs));     three layers over the same rows
 *     kvr_linear_close(&q);
 *     kvr_gemm_close(&g);                                 after its layers
 *
 * X, Y and b are F32 and sums are taken in F32. Computing in BF16 rounds X, W and b to BF16 first; a
 * device or a CPU with AMX then holds W as BF16, and multiplies in BF16.
 *
 * On the CPU the product is cut into tiles whose sizes depend on M and N alone; each tile is
 * computed by one thread with a single-threaded primitive. So the bytes of Y do not depend on the
 * number of threads. On CUDA x and y are device memory and the work is queued; kernels are chosen
 * by shape in kvr_linear_prepare. One kvr_gemm belongs to one thread (which may open an OpenMP
 * team). */
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

/* Names of the compute types of linear layers: "f32", "bf16". KVR_EINVAL for another. */
#define KVR_COMPUTE_HELP "f32 or bf16"
const char *kvr_compute_word(enum kvr_dtype compute);
enum kvr_status kvr_compute_parse(const char *word, enum kvr_dtype *out);

/* In F32. */
enum kvr_status kvr_gemm_open(struct kvr_gemm **out, struct kvr_dev *dev);
/* In KVR_F32 or KVR_BF16. */
enum kvr_status kvr_gemm_open_as(struct kvr_gemm **out, struct kvr_dev *dev,
                                 enum kvr_dtype compute);
/* Copes with NULL. Its layers must have been closed. */
void kvr_gemm_close(struct kvr_gemm **g);
enum kvr_dtype kvr_gemm_compute(const struct kvr_gemm *g);
/* Whether this backend stores BF16 layers' weights as BF16 (CUDA, AMX); otherwise as floats with BF16 values. */
bool kvr_gemm_holds_bf16(enum kvr_backend backend);
/* Enables autotuning of BF16 products: kvr_linear_prepare measures kvreel's kernels and cuBLASLt's heuristic
 * proposals, or reads an earlier measurement (tune.h), and the fastest runs. No effect where only one kernel
 * exists. */
enum kvr_status kvr_gemm_tune(struct kvr_gemm *g);
/* kvr_tune_words(), or "". */
const char *kvr_gemm_tuned(const struct kvr_gemm *g);
/* What computes the products: "oneDNN 2.6", "cuBLASLt 13.0", "kvreel (...why not cuBLASLt)". */
const char *kvr_gemm_library(const struct kvr_gemm *g);

/* w [n,k] row-major, b [n] or NULL for none, in the host's memory. The packed copy is held under
 * KVR_MEM_WEIGHTS. */
enum kvr_status kvr_linear_open(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                const float *w, const float *b);
/* The same with w and b in the memory of the gemm's device. */
enum kvr_status kvr_linear_open_there(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                      const float *w, const float *b);
void kvr_linear_close(struct kvr_linear **l);
int kvr_linear_n(const struct kvr_linear *l);
int kvr_linear_k(const struct kvr_linear *l);

/* Prepares primitives and scratch for m rows, so that kvr_linear_run(m) allocates nothing. The CPU prepares
 * missing sizes on demand; on CUDA one layer with this n, k and bias prepares all such layers. */
enum kvr_status kvr_linear_prepare(const struct kvr_linear *l, int64_t m);

/* Frees the scratch; the next run allocates it again. */
void kvr_gemm_rest(struct kvr_gemm *g);

/* y[i] [m, n of l[i]] = layer l[i] of x [m,k], for n_layers layers with the same k. x NULL: the input is at
 * kvr_gemm_input. */
enum kvr_status kvr_linear_run(struct kvr_gemm *g, int64_t m, const float *x, int n_layers,
                               const struct kvr_linear *const *l, float *const *y);

/* ---- BF16 activations, on devices with BF16 weights (kvr_gemm_narrow) --------------------------------- */

bool kvr_gemm_narrow(const struct kvr_gemm *g);
/* Columns of a padded input row: k, then zeros. */
int kvr_gemm_columns(const struct kvr_gemm *g, int k);

/* Input buffer [m, kvr_gemm_columns] of the next run, which then takes x NULL. A layer with this k must have
 * been prepared for m rows. */
kvr_bf16 *kvr_gemm_input(struct kvr_gemm *g, int64_t m, int k);
/* Writes x [m,k], rounded to BF16, to kvr_gemm_input. */
void kvr_gemm_leave(struct kvr_gemm *g, int64_t m, int k, const float *x);

/* The epilogue: round to BF16 [m,n]; GELU, padded as an input; or round, multiply by the gate and add to the
 * residual. */
enum kvr_linear_end { KVR_LINEAR_ROUNDED, KVR_LINEAR_GELU, KVR_LINEAR_ADDED, KVR_N_LINEAR_ENDS };
/* [m,columns], columns k or kvr_gemm_columns; x NULL as above. */
struct kvr_linear_in {
    const kvr_bf16 *x;
    int columns;
};
/* The gate of a residual: one value per frame and channel. Frames are `stride` floats and tokens_per_frame rows
 * apart. NULL: 1. */
struct kvr_linear_gate {
    const float *gate;
    int64_t stride;
    int tokens_per_frame;
};

/* kvr_linear_prepare for this epilogue. */
enum kvr_status kvr_linear_prepare_end(const struct kvr_linear *l, int64_t m,
                                       enum kvr_linear_end end);
/* y[i] of layers with the same k and epilogue (ROUNDED or GELU). */
enum kvr_status kvr_linear_run_narrow(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                      int n_layers, const struct kvr_linear *const *l,
                                      enum kvr_linear_end end, kvr_bf16 *const *y);
/* sum [m,n] = round(sum + gate * round(product)). With *left the library cannot add: y [m,n] has the rounded
 * product, and sum is unchanged. */
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
    const struct kvr_linear_gate *gate; /* of KVR_LINEAR_ADDED, to y[0] */
    float *squares; /* [m, kvr_linear_squares(n)] of the first layer's result; NULL: not wanted */
};
/* *done false: nothing was run, because no fused kernel supports these layers. */
enum kvr_status kvr_linear_run_fused(struct kvr_gemm *g, int64_t m,
                                     const struct kvr_linear_fused *how, int n_layers,
                                     const struct kvr_linear *const *l, kvr_bf16 *const *y,
                                     bool *done);

#ifdef __cplusplus
}
#endif
#endif
