/* blaslt_cuda.cu - implements blaslt.h with cuBLASLt. Matrices in blaslt.h are row-major, and
 * matrices in cuBLASLt are column-major. Therefore cuBLASLt computes Y^T = W X^T, and the m of
 * cuBLASLt is the N of blaslt.h. */
#include "harness/device/blaslt.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness/core/library.h"
#include "harness/device/kernel.cuh"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <dlfcn.h>

static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so" };

/* The functions of cuBLASLt that kvreel calls. */
#define EACH_FUNCTION                                                                              \
    FUNCTION(cublasLtGetVersion)                                                                   \
    FUNCTION(cublasLtCreate)                                                                       \
    FUNCTION(cublasLtDestroy)                                                                      \
    FUNCTION(cublasLtMatmul)                                                                       \
    FUNCTION(cublasLtMatmulAlgoGetHeuristic)                                                       \
    FUNCTION(cublasLtMatmulDescCreate)                                                             \
    FUNCTION(cublasLtMatmulDescDestroy)                                                            \
    FUNCTION(cublasLtMatmulDescSetAttribute)                                                       \
    FUNCTION(cublasLtMatmulPreferenceCreate)                                                       \
    FUNCTION(cublasLtMatmulPreferenceDestroy)                                                      \
    FUNCTION(cublasLtMatmulPreferenceSetAttribute)                                                 \
    FUNCTION(cublasLtMatrixLayoutCreate)                                                           \
    FUNCTION(cublasLtMatrixLayoutDestroy)

struct functions {
    void *library;
#define FUNCTION(name) decltype(&::name) name;
    EACH_FUNCTION
#undef FUNCTION
};

struct kvr_blaslt {
    struct functions f;
    cublasLtHandle_t handle;
    struct kvr_stream *stream;
};

struct kvr_blaslt_plan {
    const struct functions *f;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, x, y;
    struct {
        cublasLtMatmulAlgo_t algo;
        size_t workspace_bytes;
        /* The algorithm `aligned` requires that the address of the matrix X is a multiple of
         * x_bytes, that of W a multiple of w_bytes, and that of Y a multiple of y_bytes. The
         * algorithm `any` requires only that the three matrices are 16-byte aligned. */
    } aligned, any;
    uint32_t x_bytes, w_bytes, y_bytes;
    bool bias;
};

/* Range of the alignments, in bytes, that a plan states to cuBLASLt's heuristics. Every device
 * allocation is aligned to at least MOST_ALIGNMENT bytes. */
enum { LEAST_ALIGNMENT = 16, MOST_ALIGNMENT = 256 };

static enum kvr_status check(cublasStatus_t s, const char *what)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return KVR_OK;
    if (s == CUBLAS_STATUS_NOT_SUPPORTED)
        return kvr_fail(KVR_EUNSUPPORTED, "cuBLASLt: %s: not supported", what);
    return kvr_fail(s == CUBLAS_STATUS_ALLOC_FAILED ? KVR_ENOMEM : KVR_EINTERNAL,
                    "cuBLASLt: %s failed with status %d", what, (int)s);
}

static void unload(struct functions *f)
{
    if (f->library)
        dlclose(f->library);
    f->library = NULL;
}

static enum kvr_status load(struct functions *f)
{
    const char *env = getenv("KVREEL_CUBLASLT");
    kvr_status st = KVR_EUNSUPPORTED;

    *f = {};
    if (env && !strcmp(env, "none"))
        return kvr_fail(st, "cuBLASLt: disabled by KVREEL_CUBLASLT=none");
    if (env && *env)
        st = kvr_library_open(&f->library, env, RTLD_NOW | RTLD_LOCAL);
    else
        for (const char *name : names)
            if (st == KVR_EUNSUPPORTED)
                st = kvr_library_open(&f->library, name, RTLD_NOW | RTLD_LOCAL);
    if (st == KVR_EUNSUPPORTED && env && *env)
        return kvr_fail_prefix(st, "cuBLASLt");
    if (st == KVR_EUNSUPPORTED)
        return kvr_fail(st, "cuBLASLt: none of %s, %s, %s can be loaded", names[0], names[1],
                        names[2]);
    if (st != KVR_OK)
        return kvr_fail_prefix(st, "cuBLASLt");
#define FUNCTION(name)                                                                             \
    f->name = (decltype(f->name))dlsym(f->library, #name);                                         \
    if (!f->name) {                                                                                \
        unload(f);                                                                                 \
        return kvr_fail(KVR_EUNSUPPORTED, "cuBLASLt: the library has no %s", #name);               \
    }
    EACH_FUNCTION
#undef FUNCTION
    return KVR_OK;
}

enum kvr_status kvr_blaslt_find(char *words, size_t n)
{
    struct functions f;
    size_t v;

    if (n)
        *words = 0;
    KVR_TRY(load(&f));
    /* cublasLtGetVersion() returns 10000 * major + 100 * minor + patch, for example 130100 for
     * version 13.1.0 */
    v = f.cublasLtGetVersion();
    snprintf(words, n, "cuBLASLt %zu.%zu", v / 10000, v / 100 % 100);
    unload(&f);
    return KVR_OK;
}

enum kvr_status kvr_blaslt_open(struct kvr_blaslt **out, struct kvr_stream *s)
{
    struct kvr_blaslt *lt = (struct kvr_blaslt *)calloc(1, sizeof *lt);
    enum kvr_status st;

    *out = NULL;
    if (!lt)
        return kvr_fail(KVR_ENOMEM, "cuBLASLt: out of memory");
    lt->stream = s;
    st = load(&lt->f);
    if (st == KVR_OK)
        st = check(lt->f.cublasLtCreate(&lt->handle), "cublasLtCreate");
    if (st != KVR_OK) {
        kvr_blaslt_close(&lt);
        return st;
    }
    *out = lt;
    return KVR_OK;
}

void kvr_blaslt_close(struct kvr_blaslt **lt)
{
    if (!*lt)
        return;
    if ((*lt)->handle)
        (*lt)->f.cublasLtDestroy((*lt)->handle);
    unload(&(*lt)->f);
    free(*lt);
    *lt = NULL;
}

static enum kvr_status describe(struct kvr_blaslt_plan *p, const struct kvr_blaslt_shape *s)
{
    const cudaDataType_t type = s->bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasOperation_t transpose = CUBLAS_OP_T;
    /* element type of the result matrix and of the bias */
    const cudaDataType_t result = s->end != KVR_BLASLT_F32 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasLtEpilogue_t epilogue =
        s->end == KVR_BLASLT_GELU ? (s->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU)
                                  : (s->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
    const uint64_t n = (uint64_t)s->n, m = (uint64_t)s->m, k = (uint64_t)s->k;
    const struct functions *f = p->f;

    KVR_TRY(
        check(f->cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product"));
    KVR_TRY(check(f->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA,
                                                    &transpose, sizeof transpose),
                  "transposition"));
    KVR_TRY(check(f->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                    &epilogue, sizeof epilogue),
                  "bias"));
    KVR_TRY(check(f->cublasLtMatrixLayoutCreate(&p->w, type, k, n, s->k), "weights"));
    KVR_TRY(check(f->cublasLtMatrixLayoutCreate(&p->x, type, k, m, s->k), "input"));
    return check(f->cublasLtMatrixLayoutCreate(&p->y, result, n, m, s->n), "output");
}

/* Returns the largest power of two from LEAST_ALIGNMENT to MOST_ALIGNMENT that divides `row_bytes`.
 * All rows of a matrix at the start of a device allocation have this alignment. If there is no such
 * power of two, returns LEAST_ALIGNMENT: only the first row is then sure to be aligned. */
static uint32_t alignment_of(size_t row_bytes)
{
    uint32_t bytes = MOST_ALIGNMENT;

    while (bytes > LEAST_ALIGNMENT && row_bytes % bytes != 0)
        bytes /= 2;
    return bytes;
}

/* Chooses an algorithm by cuBLASLt's heuristics. If `aligned` is true, the heuristics receive the
 * alignments x_bytes, w_bytes and y_bytes, because PyTorch also states how its operands are
 * aligned. Otherwise they receive 16 bytes, for which they may choose another algorithm. */
static enum kvr_status choose(struct kvr_blaslt_plan *p, struct kvr_blaslt *lt,
                              const struct kvr_blaslt_shape *s, cublasLtMatmulPreference_t pref,
                              bool aligned)
{
    const uint32_t least = LEAST_ALIGNMENT;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        uint32_t bytes;
    } alignments[] = {
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned ? p->w_bytes : least },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned ? p->x_bytes : least },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned ? p->y_bytes : least },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned ? p->y_bytes : least },
    };
    const uint64_t workspace = s->workspace_bytes;
    cublasLtMatmulHeuristicResult_t found[KVR_BLASLT_CHOICES];
    auto *to = aligned ? &p->aligned : &p->any;
    int n_found = 0;

    KVR_TRY(check(p->f->cublasLtMatmulPreferenceSetAttribute(
                      pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
                  "workspace"));
    for (const auto &a : alignments)
        KVR_TRY(check(
            p->f->cublasLtMatmulPreferenceSetAttribute(pref, a.name, &a.bytes, sizeof a.bytes),
            "alignment"));
    KVR_TRY(check(p->f->cublasLtMatmulAlgoGetHeuristic(lt->handle, p->desc, p->w, p->x, p->y, p->y,
                                                       pref, s->choice + 1, found, &n_found),
                  "heuristics"));
    if (n_found <= s->choice || found[s->choice].state != CUBLAS_STATUS_SUCCESS)
        return kvr_fail(KVR_EUNSUPPORTED, "cuBLASLt: nothing for a product of %lld x %d x %d",
                        (long long)s->m, s->n, s->k);
    to->algo = found[s->choice].algo;
    to->workspace_bytes = found[s->choice].workspaceSize;
    return KVR_OK;
}

/* Chooses the algorithm `aligned` for matrices X, W and Y with alignments of x_bytes, w_bytes and
 * y_bytes, and the algorithm `any` for 16-byte alignment. The algorithm `any` is always the first
 * one that the heuristics return, whereas s->choice selects `aligned` from their list. */
static enum kvr_status choose_both(struct kvr_blaslt_plan *p, struct kvr_blaslt *lt,
                                   const struct kvr_blaslt_shape *s,
                                   cublasLtMatmulPreference_t pref)
{
    const size_t size = s->bf16 ? 2 : 4, result = s->end == KVR_BLASLT_F32 ? 4 : 2;
    struct kvr_blaslt_shape first = *s;

    if (s->choice < 0 || s->choice >= KVR_BLASLT_CHOICES)
        return kvr_fail(KVR_EINVAL, "cuBLASLt: choice %d, need 0..%d", s->choice,
                        KVR_BLASLT_CHOICES - 1);
    first.choice = 0;
    p->x_bytes = p->w_bytes = alignment_of((size_t)s->k * size);
    p->y_bytes = alignment_of((size_t)s->n * result);
    KVR_TRY(choose(p, lt, s, pref, true));
    return choose(p, lt, &first, pref, false);
}

enum kvr_status kvr_blaslt_plan(struct kvr_blaslt_plan **out, struct kvr_blaslt *lt,
                                const struct kvr_blaslt_shape *shape)
{
    struct kvr_blaslt_plan *p = (struct kvr_blaslt_plan *)calloc(1, sizeof *p);
    cublasLtMatmulPreference_t pref = NULL;
    enum kvr_status st;

    *out = NULL;
    if (!p)
        return kvr_fail(KVR_ENOMEM, "cuBLASLt: out of memory");
    p->f = &lt->f;
    p->bias = shape->bias;
    st = describe(p, shape);
    if (st == KVR_OK)
        st = check(lt->f.cublasLtMatmulPreferenceCreate(&pref), "preference");
    if (st == KVR_OK)
        st = choose_both(p, lt, shape, pref);
    if (pref)
        lt->f.cublasLtMatmulPreferenceDestroy(pref);
    if (st != KVR_OK) {
        kvr_blaslt_plan_close(&p);
        return st;
    }
    *out = p;
    return KVR_OK;
}

void kvr_blaslt_plan_close(struct kvr_blaslt_plan **pp)
{
    struct kvr_blaslt_plan *p = *pp;

    if (!p)
        return;
    for (cublasLtMatrixLayout_t layout : { p->w, p->x, p->y })
        if (layout)
            p->f->cublasLtMatrixLayoutDestroy(layout);
    if (p->desc)
        p->f->cublasLtMatmulDescDestroy(p->desc);
    free(p);
    *pp = NULL;
}

enum kvr_status kvr_blaslt_run(struct kvr_blaslt *lt, const struct kvr_blaslt_plan *p,
                               const void *x, const void *w, const void *bias, void *y,
                               void *workspace)
{
    const bool aligned = (uintptr_t)x % p->x_bytes == 0 && (uintptr_t)w % p->w_bytes == 0 &&
                         (uintptr_t)y % p->y_bytes == 0;
    const auto &by = aligned ? p->aligned : p->any;
    const float one = 1, zero = 0;

    if (!kvr_stream_may_launch(lt->stream))
        return KVR_OK; /* the stream has an error, which the next kvr_stream_sync() returns */
    if (p->bias)
        KVR_TRY(check(lt->f.cublasLtMatmulDescSetAttribute(
                          p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                      "bias"));
    return check(lt->f.cublasLtMatmul(lt->handle, p->desc, &one, w, p->w, x, p->x, &zero, y, p->y,
                                      y, p->y, &by.algo, workspace, by.workspace_bytes,
                                      kvr_stream_ready(lt->stream)),
                 "cublasLtMatmul");
}

#else /* the CUDA toolkit has no cuBLAS */

#include "harness/device/blaslt_none.cuh"
#endif
