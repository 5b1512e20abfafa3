/* raw.c - the stage `raw`: stores elements as BF16 or F32, [T,H,D] row-major. Raw BF16 is the
 * format of the baseline. */
#include "harness/core/dtype.h"
#include "methods/codec.h"
#include "methods/codecs/raw/raw_cuda.h"

struct raw_opts {
    int type;
};

static const char *const type_names[] = { "bf16", "f32", NULL };
static const struct kvr_opt options[] = {
    KVR_OPT_ENUM(struct raw_opts, type, 0, type_names, "data type of the stored elements"), { 0 }
};

static enum kvr_dtype dtype_of(const struct kvr_stage_job *job)
{
    return ((const struct raw_opts *)job->opts)->type == 1 ? KVR_F32 : KVR_BF16;
}

static size_t n_elements(const struct kvr_stage_job *job)
{
    const struct kvr_block_shape *s = &job->shape;

    return (size_t)(s->n_tok * s->n_heads * s->head_dim);
}

static void raw_layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    *out = (struct kvr_layout){
        .bytes.codes = n_elements(job) * kvr_dtype_size(dtype_of(job)),
        .form = KVR_FORM_RAW,
        .type = dtype_of(job),
        .n_tok = job->shape.n_tok,
    };
}

static void raw_noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                      struct kvr_coding_noise *out)
{
    (void)job, (void)in;
    out->kind = KVR_NOISE_NONE;
}

static enum kvr_status raw_encode(const struct kvr_stage_job *job, float *x,
                                  struct kvr_stage_data *out)
{
    kvr_from_f32(out->codes.p, dtype_of(job), x, n_elements(job));
    return KVR_OK;
}

static void raw_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                       int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct kvr_block_shape *s = &job->shape;
    const size_t size = kvr_dtype_size(dtype_of(job));
    const size_t width = (size_t)nh * (size_t)s->head_dim;

    (void)mode; /* `raw` never encodes a residual, so `out` is always set */
    for (int64_t t = 0; t < n; t++) {
        const char *src =
            (const char *)in->codes.p + (size_t)(((t0 + t) * s->n_heads + h0) * s->head_dim) * size;

        kvr_to_f32(out + (size_t)t * width, src, dtype_of(job), width);
    }
}

static enum kvr_status raw_encode_cuda(const struct kvr_stage_job *job, float *x,
                                       struct kvr_stage_data *out)
{
    if (dtype_of(job) == KVR_F32)
        kvr_dev_copy(job->dev, out->codes.p, x, out->codes.n_bytes);
    else
        kvr_raw_encode_cuda(kvr_dev_stream(job->dev), &job->shape, x, out->codes.p);
    return KVR_OK;
}

static void raw_decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                            int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                            float *out)
{
    (void)mode;
    kvr_raw_decode_cuda(kvr_dev_stream(job->dev), &job->shape, dtype_of(job), in->codes.p, t0, n,
                        h0, nh, out);
}

static const struct kvr_stage_ops cuda = {
    .encode = raw_encode_cuda,
    .decode = raw_decode_cuda,
};

const struct kvr_stage kvr_stage_raw = {
    .name = "raw",
    .title = "stores elements unquantized",
    .kind = KVR_STAGE_GRID,
    .options = options,
    .opts_size = sizeof(struct raw_opts),
    .deterministic = true,
    .idempotent = true,
    .layout = raw_layout,
    .noise = raw_noise,
    .cpu = { .encode = raw_encode, .decode = raw_decode },
    .cuda = &cuda,
};
