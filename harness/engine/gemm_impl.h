/* gemm_impl.h - function table of the linear layers' backends. Private to harness/engine. */
#ifndef KVR_ENGINE_GEMM_IMPL_H
#define KVR_ENGINE_GEMM_IMPL_H

#include <stdbool.h>

#include "harness/engine/gemm.h"

/* The functions of gemm.h, implemented by one backend. gemm.c has already checked their
 * arguments. */
struct kvr_gemm_kind {
    bool holds_bf16; /* whether BF16 layers can read and write activations stored as BF16 */
    /* Returns whether layers with compute type BF16 store BF16 weights. If this pointer is NULL,
     * the layers store BF16 weights if and only if holds_bf16 is true. */
    bool (*bf16_weights)(void);
    enum kvr_status (*open)(struct kvr_gemm **out, struct kvr_dev *dev, enum kvr_dtype compute);
    void (*close)(struct kvr_gemm *g);
    enum kvr_status (*linear_open)(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                   const float *w, const float *b);
    enum kvr_status (*linear_open_there)(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                         const float *w, const float *b);
    void (*linear_close)(struct kvr_linear *l);
    enum kvr_status (*prepare)(const struct kvr_linear *l, int64_t m);
    enum kvr_status (*run)(struct kvr_gemm *g, int64_t m, const float *x, int n_layers,
                           const struct kvr_linear *const *l, float *const *y);
    void (*free_scratch)(struct kvr_gemm *g);
    /* The functions from `input` to `run_added` read or write BF16 activations. They are NULL if
     * holds_bf16 is false. */
    kvr_bf16 *(*input)(struct kvr_gemm *g, int64_t m, int k);
    void (*leave)(struct kvr_gemm *g, int64_t m, int k, const float *x);
    enum kvr_status (*prepare_end)(const struct kvr_linear *l, int64_t m, enum kvr_linear_end end);
    enum kvr_status (*run_narrow)(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                  int n_layers, const struct kvr_linear *const *l,
                                  enum kvr_linear_end end, kvr_bf16 *const *y);
    enum kvr_status (*run_added)(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                 const struct kvr_linear *l, const struct kvr_linear_gate *gate,
                                 kvr_bf16 *sum, kvr_bf16 *y, bool *left);
    /* run_fused runs a GEMM and its epilogue in one kernel, and `fuses` returns whether the device
     * supports this. Both pointers are NULL if the backend has no such kernel. */
    bool (*fuses)(const struct kvr_gemm *g);
    enum kvr_status (*run_fused)(struct kvr_gemm *g, int64_t m, const struct kvr_linear_fused *how,
                                 int n_layers, const struct kvr_linear *const *l,
                                 kvr_bf16 *const *y, bool *done);
    const char *(*library)(const struct kvr_gemm *g);
    enum kvr_status (*tune)(struct kvr_gemm *g); /* NULL: autotuning has no effect */
    const char *(*tuned)(const struct kvr_gemm *g);
};
extern const struct kvr_gemm_kind kvr_gemm_cpu, kvr_gemm_cuda;

/* Base structs, which each backend embeds as the first members of its own structs. */
struct kvr_gemm {
    const struct kvr_gemm_kind *kind;
    struct kvr_dev *dev;
    enum kvr_dtype compute;
};

struct kvr_linear {
    struct kvr_gemm *g;
    int n, k;
    bool has_bias;
};

#endif
