/* gemm.c - dispatches linear layers to the implementation for the device, and checks their
 * arguments. */
#include "harness/engine/gemm_impl.h"

#include <assert.h>
#include <string.h>

#include "harness/engine/linear_cuda.h"
#include "harness/engine/product_cuda.h"

static const struct kvr_gemm_kind *const kinds[KVR_N_BACKENDS] = {
    [KVR_CPU] = &kvr_gemm_cpu,
    [KVR_CUDA] = &kvr_gemm_cuda,
};

bool kvr_gemm_holds_bf16(enum kvr_backend backend)
{
    const struct kvr_gemm_kind *kind = kinds[backend];

    return kind->bf16_weights ? kind->bf16_weights() : kind->holds_bf16;
}

const char *kvr_compute_word(enum kvr_dtype compute)
{
    return compute == KVR_BF16 ? "bf16" : "f32";
}

enum kvr_status kvr_compute_parse(const char *word, enum kvr_dtype *out)
{
    if (strcmp(word, "f32") && strcmp(word, "bf16"))
        return kvr_fail(KVR_EINVAL, "unknown compute type '%s', need " KVR_COMPUTE_HELP, word);
    *out = word[0] == 'b' ? KVR_BF16 : KVR_F32;
    return KVR_OK;
}

enum kvr_status kvr_gemm_open_as(struct kvr_gemm **out, struct kvr_dev *dev, enum kvr_dtype compute)
{
    const struct kvr_gemm_kind *kind = kinds[kvr_dev_backend(dev)];

    *out = NULL;
    if (compute != KVR_F32 && compute != KVR_BF16)
        return kvr_fail(KVR_EINVAL,
                        "gemm: matrix products in type %s were requested, need F32 or BF16",
                        kvr_dtype_name(compute));
    KVR_TRY(kind->open(out, dev, compute));
    (*out)->kind = kind;
    return KVR_OK;
}

enum kvr_status kvr_gemm_open(struct kvr_gemm **out, struct kvr_dev *dev)
{
    return kvr_gemm_open_as(out, dev, KVR_F32);
}

void kvr_gemm_close(struct kvr_gemm **g)
{
    if (g && *g)
        (*g)->kind->close(*g);
    if (g)
        *g = NULL;
}

enum kvr_dtype kvr_gemm_compute(const struct kvr_gemm *g)
{
    return g->compute;
}

enum kvr_status kvr_gemm_tune(struct kvr_gemm *g)
{
    return g->kind->tune ? g->kind->tune(g) : KVR_OK;
}

const char *kvr_gemm_tuned(const struct kvr_gemm *g)
{
    return g->kind->tuned ? g->kind->tuned(g) : "";
}

const char *kvr_gemm_library(const struct kvr_gemm *g)
{
    return g->kind->library(g);
}

static enum kvr_status check_layer(int n, int k)
{
    if (n < 1 || k < 1)
        return kvr_fail(
            KVR_EINVAL,
            "gemm: a linear layer with a weight of %d x %d was requested, need at least 1 x 1", n,
            k);
    return KVR_OK;
}

enum kvr_status kvr_linear_open(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                const float *w, const float *b)
{
    *out = NULL;
    KVR_TRY(check_layer(n, k));
    return g->kind->linear_open(out, g, n, k, w, b);
}

enum kvr_status kvr_linear_open_device(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                       const float *w, const float *b)
{
    *out = NULL;
    KVR_TRY(check_layer(n, k));
    return g->kind->linear_open_there(out, g, n, k, w, b);
}

void kvr_linear_close(struct kvr_linear **l)
{
    if (l && *l)
        (*l)->g->kind->linear_close(*l);
    if (l)
        *l = NULL;
}

int kvr_linear_n(const struct kvr_linear *l)
{
    return l->n;
}

int kvr_linear_k(const struct kvr_linear *l)
{
    return l->k;
}

void kvr_gemm_free_scratch(struct kvr_gemm *g)
{
    g->kind->free_scratch(g);
}

static enum kvr_status check_rows(int64_t m)
{
    if (m < 1)
        return kvr_fail(KVR_EINVAL, "gemm: the input has %lld rows, need at least 1", (long long)m);
    return KVR_OK;
}

enum kvr_status kvr_linear_prepare(const struct kvr_linear *l, int64_t m)
{
    KVR_TRY(check_rows(m));
    return l->g->kind->prepare(l, m);
}

enum kvr_status kvr_linear_run(struct kvr_gemm *g, int64_t m, const float *x, int n_layers,
                               const struct kvr_linear *const *l, float *const *y)
{
    assert(n_layers >= 1 && n_layers <= KVR_LINEAR_MAX_FUSED);
    assert(x || kvr_gemm_narrow(g));
    KVR_TRY(check_rows(m));
    for (int i = 0; i < n_layers; i++)
        assert(l[i]->k == l[0]->k && l[i]->g == g);
    return g->kind->run(g, m, x, n_layers, l, y);
}

bool kvr_gemm_narrow(const struct kvr_gemm *g)
{
    return g->compute == KVR_BF16 && g->kind->holds_bf16;
}

int kvr_gemm_columns(const struct kvr_gemm *g, int k)
{
    return kvr_gemm_narrow(g) ? kvr_linear_padded(k) : k;
}

kvr_bf16 *kvr_gemm_input(struct kvr_gemm *g, int64_t m, int k)
{
    assert(kvr_gemm_narrow(g));
    return g->kind->input(g, m, k);
}

void kvr_gemm_store_input(struct kvr_gemm *g, int64_t m, int k, const float *x)
{
    assert(kvr_gemm_narrow(g));
    g->kind->leave(g, m, k, x);
}

enum kvr_status kvr_linear_prepare_end(const struct kvr_linear *l, int64_t m,
                                       enum kvr_linear_end end)
{
    assert(kvr_gemm_narrow(l->g));
    KVR_TRY(check_rows(m));
    return l->g->kind->prepare_end(l, m, end);
}

static bool accepts_narrow(const struct kvr_gemm *g, const struct kvr_linear *l,
                           const struct kvr_linear_in *in)
{
    return kvr_gemm_narrow(g) && l->g == g &&
           (!in->x || in->columns == l->k || in->columns == kvr_gemm_columns(g, l->k));
}

enum kvr_status kvr_linear_run_narrow(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                      int n_layers, const struct kvr_linear *const *l,
                                      enum kvr_linear_end end, kvr_bf16 *const *y)
{
    assert(n_layers >= 1 && n_layers <= KVR_LINEAR_MAX_FUSED && end != KVR_LINEAR_ADDED);
    for (int i = 0; i < n_layers; i++)
        assert(l[i]->k == l[0]->k && accepts_narrow(g, l[i], &in));
    KVR_TRY(check_rows(m));
    return g->kind->run_narrow(g, m, in, n_layers, l, end, y);
}

enum kvr_status kvr_linear_run_added(struct kvr_gemm *g, int64_t m, struct kvr_linear_in in,
                                     const struct kvr_linear *l, const struct kvr_linear_gate *gate,
                                     kvr_bf16 *sum, kvr_bf16 *y, bool *left)
{
    assert(accepts_narrow(g, l, &in));
    KVR_TRY(check_rows(m));
    return g->kind->run_added(g, m, in, l, gate, sum, y, left);
}

bool kvr_gemm_fuses(const struct kvr_gemm *g)
{
    return g->kind->fuses && g->kind->fuses(g);
}

int kvr_linear_squares(int n)
{
    return kvr_product_blocks(n);
}

enum kvr_status kvr_linear_run_fused(struct kvr_gemm *g, int64_t m,
                                     const struct kvr_linear_fused *how, int n_layers,
                                     const struct kvr_linear *const *l, kvr_bf16 *const *y,
                                     bool *done)
{
    assert(n_layers >= 1 && n_layers <= KVR_LINEAR_MAX_FUSED);
    assert(how->end != KVR_LINEAR_ADDED || (n_layers == 1 && how->gate));
    for (int i = 0; i < n_layers; i++)
        assert(l[i]->k == l[0]->k && accepts_narrow(g, l[i], &how->in));
    *done = false;
    KVR_TRY(check_rows(m));
    return kvr_gemm_fuses(g) ? g->kind->run_fused(g, m, how, n_layers, l, y, done) : KVR_OK;
}
