/* moments.c - see moments.h. Calls the CPU or CUDA implementation, depending on the device that
 * stores the keys. */
#include "harness/cache/moments.h"

typedef enum kvr_status make_fn(const struct kvr_correction *c, const struct kvr_packed *k,
                                const float *x, struct kvr_buf *back, kvr_f16 *moments);

static enum kvr_status make_cpu(const struct kvr_correction *c, const struct kvr_packed *k,
                                const float *x, struct kvr_buf *back, kvr_f16 *moments)
{
    (void)back;
    c->prepare(k, x, moments);
    return KVR_OK;
}

static size_t elements(const struct kvr_packed *k)
{
    return (size_t)(k->shape.n_tok * k->shape.n_heads * k->shape.head_dim);
}

/* Computes the moments (key statistics of a correction) on a GPU. The kernels read the original
 * keys x, and the decoded keys, which this function writes to `back`. */
static enum kvr_status make_cuda(const struct kvr_correction *c, const struct kvr_packed *k,
                                 const float *x, struct kvr_buf *back, kvr_f16 *moments)
{
    KVR_TRY(kvr_buf_reserve(back, k->dev, KVR_MEM_SCRATCH, elements(k) * sizeof *x));
    kvr_codec_decode_rotated(k, 0, k->shape.n_tok, 0, k->shape.n_heads, back->p);
    c->prepare_cuda(kvr_dev_stream(k->dev), k, x, back->p, moments);
    return KVR_OK;
}

static const struct kind {
    make_fn *make;
    bool reads_back;
} kinds[KVR_N_BACKENDS] = {
    [KVR_CPU] = { make_cpu, false },
    [KVR_CUDA] = { make_cuda, true },
};

size_t kvr_moments_back_bytes(const struct kvr_correction *c, size_t n, enum kvr_backend backend)
{
    return c && c->moments && kinds[backend].reads_back ? n * sizeof(float) : 0;
}

enum kvr_status kvr_moments_make(const struct kvr_correction *c, const struct kvr_packed *k,
                                 const float *x, struct kvr_buf *back, kvr_f16 *moments)
{
    return kinds[kvr_dev_backend(k->dev)].make(c, k, x, back, moments);
}
