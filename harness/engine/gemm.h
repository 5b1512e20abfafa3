/* gemm.h - linear layers, Y[M,N] = X[M,K] W[N,K]^T + b, computed by oneDNN, cuBLASLt or kvreel's
 * kernels.
 *
 *     KVR_TRY(kvr_gemm_open_as(&g, dev, KVR_BF16));
 *     KVR_TRY(kvr_linear_open(&q, g, n, k, w, b));        packs: w and b may be freed
 *     KVR_TRY(kvr_linear_prepare(q, m));                  builds what m rows need
 *     KVR_TRY(kvr_linear_run(g, m, x, 3, qkv, outs));     three layers over the same rows
 *     kvr_linear_close(&q);
 *     kvr_gemm_close(&g);                                 after its layers
 *
 * X, W, b and Y are F32 arrays, and products are accumulated in F32. With compute type BF16, X, W
 * and b are first rounded to BF16. A GPU, or a CPU with AMX, then stores W as BF16 and runs the
 * GEMM on BF16 operands.
 *
 * On the CPU, one thread computes each tile of Y by a single-threaded oneDNN primitive, and tile
 * sizes depend on M and N alone. Y therefore does not depend on the number of threads. On CUDA, x
 * and y are device memory, calls are asynchronous, and kvr_linear_prepare selects a kernel for each
 * shape. Only one thread may use a kvr_gemm; that thread may start an OpenMP team. */
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

/* Linear layers have compute type "f32" or "bf16"; kvr_compute_parse returns KVR_EINVAL for another
 * name. */
#define KVR_COMPUTE_HELP "f32 or bf16"
const char *kvr_compute_word(enum kvr_dtype compute);
enum kvr_status kvr_compute_parse(const char *word, enum kvr_dtype *out);

/* Compute type F32. */
enum kvr_status kvr_gemm_open(struct kvr_gemm **out, struct kvr_dev *dev);
/* `compute` is the compute type of all layers, KVR_F32 or KVR_BF16. */
enum kvr_status kvr_gemm_open_as(struct kvr_gemm **out, struct kvr_dev *dev,
                                 enum kvr_dtype compute);
/* Accepts NULL. All layers of *g must already be closed. */
void kvr_gemm_close(struct kvr_gemm **g);
enum kvr_dtype kvr_gemm_compute(const struct kvr_gemm *g);
/* Returns whether layers with compute type BF16 store their weights as BF16, which is the case on
 * CUDA and on a CPU with AMX. A CPU without AMX stores these weights as floats that are rounded to
 * BF16. */
bool kvr_gemm_holds_bf16(enum kvr_backend backend);
/* Enables autotuning of BF16 GEMMs. With autotuning, kvr_linear_prepare selects the fastest of
 * kvreel's kernels and of the algorithms that cuBLASLt's heuristic returns. Results of earlier
 * measurements are read from a file (tune.h). Autotuning has no effect on a backend with only one
 * kernel per GEMM. */
enum kvr_status kvr_gemm_tune(struct kvr_gemm *g);
/* Returns the autotuning summary of kvr_tune_words() (tune.h), or "" if autotuning is disabled. */
const char *kvr_gemm_tuned(const struct kvr_gemm *g);
/* Returns the name of the library that computes the GEMMs, for example "oneDNN 2.6" or "cuBLASLt
 * 13.0". On a GPU without cuBLASLt, the name is "kvreel", followed by the reason in parentheses. */
const char *kvr_gemm_library(const struct kvr_gemm *g);

/* Opens a layer with weights w [n,k], row-major, and bias b [n] or NULL, both in host memory. The
 * layer's packed copy of w and b is accounted under the memory tag KVR_MEM_WEIGHTS. */
enum kvr_status kvr_linear_open(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                const float *w, const float *b);
/* Like kvr_linear_open, but w and b are in device memory. */
enum kvr_status kvr_linear_open_device(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                       const float *w, const float *b);
void kvr_linear_close(struct kvr_linear **l);
int kvr_linear_n(const struct kvr_linear *l);
int kvr_linear_k(const struct kvr_linear *l);

/* Builds the kernels and allocates the scratch for m rows, so that kvr_linear_run with m rows
 * allocates no memory. On the CPU, kvr_linear_run itself creates missing kernels and scratch. On
 * CUDA, a kernel is selected once for all layers with equal n and k that have a bias, and once for
 * those without a bias. */
enum kvr_status kvr_linear_prepare(const struct kvr_linear *l, int64_t m);

/* Frees the scratch of all layers; the next kvr_linear_run allocates scratch again. */
void kvr_gemm_free_scratch(struct kvr_gemm *g);

/* Runs n_layers layers with equal k on the same input x [m,k]. The result of layer l[i] is written
 * to y[i] [m,n], where n is this layer's number of outputs. If x is NULL, the layers read the
 * buffer that kvr_gemm_input() returns. */
enum kvr_status kvr_linear_run(struct kvr_gemm *g, int64_t m, const float *x, int n_layers,
                               const struct kvr_linear *const *l, float *const *y);

/* ---- BF16 activations ---------------------------------------------------------------------- */

bool kvr_gemm_narrow(const struct kvr_gemm *g);
/* Number of columns of an input row of k values after padding with zeros. */
int kvr_gemm_columns(const struct kvr_gemm *g, int k);

/* Returns the buffer [m, kvr_gemm_columns(k)] from which layers read their input if the argument x
 * (or in.x) of a run function is NULL. The caller must first call kvr_linear_prepare() for m rows
 * of a layer with k inputs. */
kvr_bf16 *kvr_gemm_input(struct kvr_gemm *g, int64_t m, int k);
/* Rounds x [m,k] to BF16 and writes the result to the buffer that kvr_gemm_input() returns. */
void kvr_gemm_store_input(struct kvr_gemm *g, int64_t m, int k, const float *x);

/* The epilogue of a layer's GEMM. KVR_LINEAR_ROUNDED rounds the GEMM's result [m,n] to BF16.
 * KVR_LINEAR_GELU applies GELU before it rounds, and pads each row with zeros to
 * kvr_gemm_columns(n) columns, which the next layer reads. KVR_LINEAR_ADDED rounds the GEMM's
 * result, multiplies it by the gate and adds the gated result to the residual stream. */
enum kvr_linear_end { KVR_LINEAR_ROUNDED, KVR_LINEAR_GELU, KVR_LINEAR_ADDED, KVR_N_LINEAR_ENDS };
/* A layer's input x [m,columns] in BF16. The caller sets `columns` to k, or to kvr_gemm_columns(k)
 * if rows are padded with zeros. If x is NULL, the layer reads the buffer that kvr_gemm_input()
 * returns. */
struct kvr_linear_in {
    const kvr_bf16 *x;
    int columns;
};
/* The gate that multiplies a layer's result has one value per frame and channel. Gates of
 * successive frames are `stride` floats apart, and a frame has tokens_per_frame rows. If gate is
 * NULL, all gate values are 1. */
struct kvr_linear_gate {
    const float *gate;
    int64_t stride;
    int tokens_per_frame;
};

/* Like kvr_linear_prepare, but for later runs with BF16 results and the epilogue `end`. */
enum kvr_status kvr_linear_prepare_end(const struct kvr_linear *l, int64_t m,
                                       enum kvr_linear_end end);
/* Runs n_layers layers with equal k on the same input `in`, with the epilogue KVR_LINEAR_ROUNDED or
 * KVR_LINEAR_GELU, and writes the result of layer l[i] to y[i]. */
enum kvr_status kvr_linear_run_narrow(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                      int n_layers, const struct kvr_linear *const *l,
                                      enum kvr_linear_end end, kvr_bf16 *const *y);
/* Computes sum [m,n] = round(sum + gate * round(x W^T + b)), where `round` rounds to BF16. If the
 * kernel selected for this shape cannot add to `sum`, the function sets *left to true and computes
 * only y [m,n] = round(x W^T + b). The caller must then add gate * y to `sum`. */
enum kvr_status kvr_linear_run_added(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                     const struct kvr_linear *l, const struct kvr_linear_gate *gate,
                                     kvr_bf16 *sum, kvr_bf16 *y, bool *left);

/* Whether this device has kernels that fuse the epilogue with the GEMM. */
bool kvr_gemm_fuses(const struct kvr_gemm *g);
/* Number of partial sums of squares that a fused kernel writes per row of n columns, for a
 * following RMSNorm. */
int kvr_linear_squares(int n);
struct kvr_linear_fused {
    struct kvr_linear_in in;
    enum kvr_linear_end end;
    const struct kvr_linear_gate *gate; /* used only by KVR_LINEAR_ADDED, where y[0] is the
                                         * residual stream */
    float *squares; /* [m, kvr_linear_squares(n)]: receives partial sums of squares of each row of
                     * the first layer's result; NULL: not computed */
};
/* Runs n_layers layers in one kernel. The argument `how` gives their common input and epilogue. The
 * kernel writes the result of layer l[i], after the epilogue, to y[i]. If no fused kernel supports
 * these layers, sets *done to false and computes nothing. */
enum kvr_status kvr_linear_run_fused(struct kvr_gemm *g, int64_t m,
                                     const struct kvr_linear_fused *how, int n_layers,
                                     const struct kvr_linear *const *l, kvr_bf16 *const *y,
                                     bool *done);

#ifdef __cplusplus
}
#endif
#endif
