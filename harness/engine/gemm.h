/* gemm.h - linear layers: Y[M,N] = X[M,K] W[N,K]^T + b, through oneDNN, cuBLASLt or own kernels.
 *
 *     KVR_TRY(kvr_gemm_open_as(&g, dev, KVR_BF16));
 *     KVR_TRY(kvr_linear_open(&q, g, n, k, w, b));        packs: w and b may go afterwards
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

/* What linear layers compute in has a word: "f32", "bf16". KVR_EINVAL for another. */
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
/* Whether weights of layers that compute in BF16 are BF16 there (CUDA, AMX); else floats of such values. */
bool kvr_gemm_holds_bf16(enum kvr_backend backend);
/* From now on each product in BF16 is computed by the fastest of kvreel's kernels and cuBLASLt's proposals,
 * measured when it is prepared, or known from an earlier run (tune.h). Nothing where there is no choice. */
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

/* Make what m rows need, so that kvr_linear_run(m) allocates nothing. A layer that has not been
 * prepared for m rows may be prepared when it runs on the CPU; on CUDA any layer of this n, k and
 * bias will do. */
enum kvr_status kvr_linear_prepare(const struct kvr_linear *l, int64_t m);

/* Give back the scratch that preparing took; what runs next takes it again. */
void kvr_gemm_rest(struct kvr_gemm *g);

/* y[i] [m, n of l[i]] = x [m,k] of each of n_layers layers, which share k. x NULL: of what was left
 * at kvr_gemm_input. */
enum kvr_status kvr_linear_run(struct kvr_gemm *g, int64_t m, const float *x, int n_layers,
                               const struct kvr_linear *const *l, float *const *y);

/* ---- in BF16: where kvr_gemm_narrow, a device that holds weights so, layers read and leave it -------- */

bool kvr_gemm_narrow(const struct kvr_gemm *g);
/* Columns of rows of k as a layer takes them: zeros behind k. */
int kvr_gemm_columns(const struct kvr_gemm *g, int k);

/* Where an operation may leave the input of the next run, [m, kvr_gemm_columns]; that run is then given
 * no x. A layer of k columns has been prepared for m rows. */
kvr_bf16 *kvr_gemm_input(struct kvr_gemm *g, int64_t m, int k);
/* x [m,k], rounded, is left there. */
void kvr_gemm_leave(struct kvr_gemm *g, int64_t m, int k, const float *x);

/* How a layer leaves its result: rounded [m,n]; its GELU, as a layer takes its input; or, rounded, by a
 * gate, added to what is there. */
enum kvr_linear_end { KVR_LINEAR_ROUNDED, KVR_LINEAR_GELU, KVR_LINEAR_ADDED, KVR_N_LINEAR_ENDS };
/* [m,columns], columns k or kvr_gemm_columns; x NULL as above. */
struct kvr_linear_in {
    const kvr_bf16 *x;
    int columns;
};
/* What a result is multiplied by before it is added: `gate` of its row's frame, frames `stride` floats and
 * tokens_per_frame rows apart; NULL: 1. */
struct kvr_linear_gate {
    const float *gate;
    int64_t stride;
    int tokens_per_frame;
};

/* Make what m rows that end so need, as kvr_linear_prepare does. */
enum kvr_status kvr_linear_prepare_end(const struct kvr_linear *l, int64_t m,
                                       enum kvr_linear_end end);
/* y[i], of layers that share k and end alike, rounded or in GELU. */
enum kvr_status kvr_linear_run_narrow(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                      int n_layers, const struct kvr_linear *const *l,
                                      enum kvr_linear_end end, kvr_bf16 *const *y);
/* sum [m,n] += y, rounded, by the gate, and rounded; no y is left. Or *left: it is left, [m,n], and sum
 * is as it was, since the library that computes the product adds nothing. */
enum kvr_status kvr_linear_run_added(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                     const struct kvr_linear *l, const struct kvr_linear_gate *gate,
                                     kvr_bf16 *sum, kvr_bf16 *y, bool *left);

/* Layers with their epilogue in one launch, on devices that have such products. */
bool kvr_gemm_fuses(const struct kvr_gemm *g);
/* Sums of squares that such a product leaves of a row of n columns, for an RMS norm. */
int kvr_linear_squares(int n);
struct kvr_linear_fused {
    struct kvr_linear_in in;
    enum kvr_linear_end end;
    const struct kvr_linear_gate *gate; /* of KVR_LINEAR_ADDED, to y[0] */
    float *squares; /* [m, kvr_linear_squares(n)] of the first layer's result; NULL: not wanted */
};
/* *done: or nothing was run, since no such product takes these layers. */
enum kvr_status kvr_linear_run_fused(struct kvr_gemm *g, int64_t m,
                                     const struct kvr_linear_fused *how, int n_layers,
                                     const struct kvr_linear *const *l, kvr_bf16 *const *y,
                                     bool *done);

#ifdef __cplusplus
}
#endif
#endif
