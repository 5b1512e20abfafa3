/* exact.c - no coding: elements as BF16 (the reference) or F32, [T,H,D] row-major. */
#include "harness/core/dtype.h"
#include "methods/codec.h"
#include "methods/codecs/exact/exact_cuda.h"

struct exact_opts {
    int type;
};

static const char *const type_names[] = { "bf16", "f32", NULL };
static const struct kvr_opt options[] = {
    KVR_OPT_ENUM(struct exact_opts, type, 0, type_names, "element type"), { 0 }
};

static enum kvr_dtype dtype_of(const struct kvr_stage_job *job)
{
    return ((const struct exact_opts *)job->opts)->type == 1 ? KVR_F32 : KVR_BF16;
}

static size_t n_elements(const struct kvr_stage_job *job)
{
    const struct kvr_block_shape *s = &job->shape;

    return (size_t)(s->n_tok * s->n_heads * s->head_dim);
}

static void exact_layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    *out = (struct kvr_layout){
        .bytes.codes = n_elements(job) * kvr_dtype_size(dtype_of(job)),
        .form = KVR_FORM_RAW,
        .type = dtype_of(job),
        .n_tok = job->shape.n_tok,
    };
}

static void exact_noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        struct kvr_coding_noise *out)
{
    (void)job, (void)in;
    out->kind = KVR_NOISE_NONE;
}

static enum kvr_status exact_encode(const struct kvr_stage_job *job, float *x,
                                    struct kvr_stage_data *out)
{
    kvr_from_f32(out->codes.p, dtype_of(job), x, n_elements(job));
    return KVR_OK;
}

static void exact_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                         int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                         float *out)
{
    const struct kvr_block_shape *s = &job->shape;
    const size_t size = kvr_dtype_size(dtype_of(job));
    const size_t width = (size_t)nh * (size_t)s->head_dim;

    (void)mode; /* nothing precedes an exact stage */
    for (int64_t t = 0; t < n; t++) {
        const char *src =
            (const char *)in->codes.p + (size_t)(((t0 + t) * s->n_heads + h0) * s->head_dim) * size;

        kvr_to_f32(out + (size_t)t * width, src, dtype_of(job), width);
    }
}

static enum kvr_status exact_encode_cuda(const struct kvr_stage_job *job, float *x,
                                         struct kvr_stage_data *out)
{
    if (dtype_of(job) == KVR_F32)
        kvr_dev_copy(job->dev, out->codes.p, x, out->codes.n_bytes);
    else
        kvr_exact_encode_cuda(kvr_dev_stream(job->dev), &job->shape, x, out->codes.p);
    return KVR_OK;
}

static void exact_decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                              int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                              float *out)
{
    (void)mode;
    kvr_exact_decode_cuda(kvr_dev_stream(job->dev), &job->shape, dtype_of(job), in->codes.p, t0, n,
                          h0, nh, out);
}

static const struct kvr_stage_ops cuda = {
    .encode = exact_encode_cuda,
    .decode = exact_decode_cuda,
};

const struct kvr_stage kvr_stage_exact = {
    .name = "exact",
    .title = "uncoded elements",
    .kind = KVR_STAGE_GRID,
    .options = options,
    .opts_size = sizeof(struct exact_opts),
    .deterministic = true,
    .idempotent = true,
    .layout = exact_layout,
    .noise = exact_noise,
    .cpu = { .encode = exact_encode, .decode = exact_decode },
    .cuda = &cuda,
};
