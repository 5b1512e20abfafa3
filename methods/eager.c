/* eager.c - see eager.h. */
#include "methods/eager.h"

#include <math.h>

#include "methods/kernels/eager_ops.h"

/* ---- which codecs ------------------------------------------------------------------------ */

enum kvr_status kvr_eager_check(const struct kvr_codec *c)
{
    int grids = 0;

    if (!c->study)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "launches=eager: applies only to a @study version, because it repeats the study's "
            "kernel launches, but codec '%s' belongs to another version; use METHOD@study",
            c->text);
    for (int i = 0; i < c->n_stages; i++) {
        struct kvr_layout l;

        kvr_codec_layout(c, i, &(struct kvr_block_shape){ 0, 1, 1 }, &l);
        grids += c->stage[i].stage->kind == KVR_STAGE_GRID;
        if (grids > 1 || (l.form != KVR_FORM_RAW && l.form != KVR_FORM_WALSH && !l.chains))
            return kvr_fail(KVR_EUNSUPPORTED,
                            "launches=eager: codec '%s' is not supported; supported are raw, "
                            "sym, asym, hadamard | sym and hadamard | asym",
                            c->text);
    }
    return KVR_OK;
}

bool kvr_eager_grid(const struct kvr_stage_job *job)
{
    return job->eager && kvr_stage_layout(job).chains;
}

/* ---- encode ------------------------------------------------------------------------------ */

static int64_t channels_of(const struct kvr_stage_job *job)
{
    return (int64_t)job->shape.n_heads * job->shape.head_dim;
}

int64_t kvr_eager_floats(const struct kvr_stage_job *job)
{
    const struct kvr_layout l = kvr_stage_layout(job);
    const int64_t n = l.n_tok * channels_of(job);

    return kvr_eager_grid(job) ? n + (l.n_tok > job->shape.n_tok ? n : 0) + 4 * l.n_groups : 0;
}

/* The block of keys or values to quantize, and the quantizer's intermediate tensors. */
struct block {
    const struct kvr_eager_ops *op;
    struct kvr_dev *dev;
    struct kvr_layout l;
    struct kvr_eager_part all; /* stored tokens */
    int64_t n;                 /* elements */
    bool bf16;
    const float *x;
    float *values, *low, *step, *zero; /* [n], then [groups] */
    float eps;
};

static void map(const struct block *b, enum kvr_eager_op op, int64_t n, float lo, float hi,
                float *x)
{
    b->op->map(b->dev, op, n, lo, hi, b->bf16, x, x);
}

static void store_half(const struct block *b, const float *x, kvr_f16 nan, kvr_f16 *to)
{
    b->op->half(b->dev, b->l.n_groups, nan, x, to);
}

/* Computes each group's scale for symmetric quantization, max |x| / (2^(bits - 1) - 1). |x| and its
 * maximum are not rounded to BF16, because that would round the largest finite numbers to
 * infinity. */
static void fit_sym(const struct block *b)
{
    const int64_t groups = b->l.n_groups;

    b->op->map(b->dev, KVR_EAGER_ABS, b->n, 0, 0, false, b->x, b->values);
    b->op->reduce(b->dev, true, &b->all, groups, b->values, b->step);
    map(b, KVR_EAGER_DIV, groups, (float)((1 << (b->l.bits - 1)) - 1), 0, b->step);
    map(b, KVR_EAGER_CLAMP, groups, b->eps, INFINITY, b->step);
}

static void fit_asym(const struct block *b)
{
    const int64_t groups = b->l.n_groups;
    const struct kvr_eager_part each = kvr_eager_each(groups);
    const float top = (float)((1 << b->l.bits) - 1);

    b->op->reduce(b->dev, false, &b->all, groups, b->x, b->low);
    b->op->reduce(b->dev, true, &b->all, groups, b->x, b->step);
    b->op->zip(b->dev, KVR_EAGER_SUB, &each, b->bf16, b->step, b->low, b->step);
    map(b, KVR_EAGER_DIV, groups, top, 0, b->step);
    map(b, KVR_EAGER_CLAMP, groups, b->eps, INFINITY, b->step);
    b->op->map(b->dev, KVR_EAGER_NEG, groups, 0, 0, b->bf16, b->low, b->zero);
    b->op->zip(b->dev, KVR_EAGER_DIV, &each, b->bf16, b->zero, b->step, b->zero);
    map(b, KVR_EAGER_ROUND, groups, 0, 0, b->zero);
    map(b, KVR_EAGER_CLAMP, groups, 0, top, b->zero);
}

static float smallest_step(bool bf16)
{
    return bf16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(1e-8f)) : 1e-8f;
}

void kvr_eager_encode(const struct kvr_stage_job *job, const float *x, float *scratch,
                      struct kvr_stage_data *out)
{
    struct block b = { .op = kvr_eager_ops_of(job->dev),
                       .dev = job->dev,
                       .l = kvr_stage_layout(job) };
    const int64_t c = channels_of(job), given = job->shape.n_tok * c;
    const bool asym = b.l.zero != KVR_ZERO_MIDDLE;
    const float half = (float)(1 << (b.l.bits - 1));
    const float least = asym ? 0 : -half, most = asym ? 2 * half - 1 : half - 1;
    kvr_f16 *meta = out->meta.p;

    b.all = (struct kvr_eager_part){ 0, b.l.n_tok, 0, c, c, b.l.axis, b.l.group };
    b.n = b.l.n_tok * c;
    b.bf16 = job->compute == KVR_COMPUTE_BF16;
    b.eps = smallest_step(b.bf16);
    b.values = scratch;
    b.low = scratch + b.n;
    b.step = b.low + b.l.n_groups;
    b.zero = b.step + b.l.n_groups;
    b.x = x;
    if (b.n > given) {
        float *padded = b.zero + b.l.n_groups;

        b.op->pad(job->dev, given, b.n, x, padded);
        b.x = padded;
    }
    if (asym)
        fit_asym(&b);
    else
        fit_sym(&b);
    b.op->zip(job->dev, KVR_EAGER_DIV, &b.all, b.bf16, b.x, b.step, b.values);
    if (asym)
        b.op->zip(job->dev, KVR_EAGER_ADD, &b.all, b.bf16, b.values, b.zero, b.values);
    map(&b, KVR_EAGER_ROUND, b.n, 0, 0, b.values);
    map(&b, KVR_EAGER_CLAMP, b.n, least, most, b.values);
    b.op->pack(job->dev, b.l.n_tok, c, b.l.bits, -least, b.values, out->codes.p);
    store_half(&b, b.step, 0x7e00, meta);
    if (asym)
        store_half(&b, b.zero, 0, meta + b.l.n_groups);
}

/* ---- decode ------------------------------------------------------------------------------ */

void kvr_eager_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                      int64_t n, int h0, int nh, float *out)
{
    const struct kvr_eager_ops *op = kvr_eager_ops_of(job->dev);
    const struct kvr_layout l = kvr_stage_layout(job);
    const int64_t d = job->shape.head_dim;
    const struct kvr_eager_part p = { t0, n, h0 * d, nh * d, channels_of(job), l.axis, l.group };
    const bool asym = l.zero != KVR_ZERO_MIDDLE, bf16 = job->compute == KVR_COMPUTE_BF16;
    const kvr_f16 *step = in->meta.p;

    op->unpack(job->dev, l.n_tok, l.bits, &p, asym ? 0 : (float)(1 << (l.bits - 1)), in->codes.p,
               out);
    if (asym)
        op->zip_half(job->dev, KVR_EAGER_SUB, &p, bf16, out, step + l.n_groups, out);
    op->zip_half(job->dev, KVR_EAGER_MUL, &p, bf16, out, step, out);
}

void kvr_eager_transform(const struct kvr_stage_job *job, float *x, int64_t rows)
{
    const struct kvr_eager_ops *op = kvr_eager_ops_of(job->dev);
    const bool bf16 = job->compute == KVR_COMPUTE_BF16;
    const int d = job->shape.head_dim;

    for (int stride = 1; stride < d; stride *= 2)
        op->butterfly(job->dev, rows * d, d, stride, bf16, x);
    op->map(job->dev, KVR_EAGER_DIV, rows * d, sqrtf((float)d), 0, bf16, x, x);
}
