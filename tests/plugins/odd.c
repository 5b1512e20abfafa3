/* odd.c - stages of kinds that no built-in stage has: a non-orthogonal transform per head, and
 * quantizers (grids) without a noise model, with a relative error, and with a size that depends on
 * the data. */
#include <string.h>

#include "methods/plugin.h"

static int64_t n_elements(const struct kvr_stage_job *job)
{
    return job->shape.n_tok * job->shape.n_heads * job->shape.head_dim;
}

/* ---- skew: multiplies channel c of head h by 2^(h + c % 3), without rounding ----------------- */

static void skew(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x, int64_t n,
                 int h0, int nh)
{
    const int d = job->shape.head_dim;

    for (int64_t t = 0; t < n; t++)
        for (int h = 0; h < nh; h++)
            for (int c = 0; c < d; c++) {
                const float by = (float)(1 << (h0 + h + c % 3));

                x[(t * nh + h) * d + c] *= way == KVR_TO_SPACE ? by : 1 / by;
            }
}

static const struct kvr_stage skewed = {
    .name = "skew",
    .title = "every channel by a power of two of its own",
    .kind = KVR_STAGE_TRANSFORM,
    .deterministic = true,
    .cpu = { .transform = skew },
};

/* ---- mute: elements as FP16; short: elements as E4M3, without a scale ------------------------ */

static enum kvr_dtype type_of(const struct kvr_stage_job *job)
{
    return *(const enum kvr_dtype *)job->stage->variant;
}

static void plain_layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    out->bytes.codes = (size_t)n_elements(job) * kvr_dtype_size(type_of(job));
}

static enum kvr_status plain_encode(const struct kvr_stage_job *job, float *x,
                                    struct kvr_stage_data *out)
{
    kvr_from_f32(out->codes.p, type_of(job), x, (size_t)n_elements(job));
    return KVR_OK;
}

static void put(float *out, enum kvr_decode_mode mode, float x)
{
    *out = mode == KVR_DECODE_SET ? x : mode == KVR_DECODE_ADD ? *out + x : *out - x;
}

static void plain_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                         int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                         float *out)
{
    const size_t size = kvr_dtype_size(type_of(job));
    const int64_t d = job->shape.head_dim, width = job->shape.n_heads * d;

    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < nh * d; c++) {
            const int64_t at = (t0 + t) * width + h0 * d + c;
            float x;

            kvr_to_f32(&x, (const char *)in->codes.p + (size_t)at * size, type_of(job), 1);
            put(&out[t * nh * d + c], mode, x);
        }
}

/* The mantissa of E4M3 has 3 bits, so the quantization step is 2^-4 to 2^-3 of the element. */
static void short_noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        struct kvr_coding_noise *out)
{
    (void)job, (void)in;
    out->kind = KVR_NOISE_RELATIVE;
    out->relative = 0.09f;
}

static const enum kvr_dtype f16 = KVR_F16, e4m3 = KVR_F8_E4M3;
static const struct kvr_stage mute = {
    .name = "mute",
    .title = "FP16, and not a word on its error",
    .kind = KVR_STAGE_GRID,
    .variant = &f16,
    .layout = plain_layout,
    .cpu = { .encode = plain_encode, .decode = plain_decode },
};
static const struct kvr_stage short_floats = {
    .name = "short",
    .title = "E4M3, whose error is relative",
    .kind = KVR_STAGE_GRID,
    .variant = &e4m3,
    .layout = plain_layout,
    .noise = short_noise,
    .cpu = { .encode = plain_encode, .decode = plain_decode },
};

/* ---- sparse: FP16 elements that are not 0, with their indices -------------------------------- */

static void sparse_layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    out->entry = (struct kvr_stage_bytes){ .codes = sizeof(kvr_f16), .meta = sizeof(int32_t) };
    out->most_entries = n_elements(job);
}

static enum kvr_status sparse_encode(const struct kvr_stage_job *job, float *x,
                                     struct kvr_stage_data *out)
{
    const int64_t n = n_elements(job);
    int64_t some = 0;

    for (int64_t i = 0; i < n; i++)
        some += x[i] != 0;
    KVR_TRY(kvr_buf_alloc(&out->codes, job->dev, KVR_MEM_KV, (size_t)some * sizeof(kvr_f16)));
    KVR_TRY(kvr_buf_alloc(&out->meta, job->dev, KVR_MEM_META, (size_t)some * sizeof(int32_t)));
    out->n_entries = some;
    for (int64_t i = 0, k = 0; k < some; i++)
        if (x[i] != 0) {
            ((kvr_f16 *)out->codes.p)[k] = kvr_f32_to_f16(x[i]);
            ((int32_t *)out->meta.p)[k++] = (int32_t)i;
        }
    return KVR_OK;
}

static void sparse_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out)
{
    const int64_t d = job->shape.head_dim, width = job->shape.n_heads * d;
    const int32_t *index = in->meta.p;

    if (mode == KVR_DECODE_SET)
        memset(out, 0, (size_t)(n * nh * d) * sizeof *out);
    for (int64_t k = 0; k < in->n_entries; k++) {
        const int64_t t = index[k] / width - t0, c = index[k] % width - h0 * d;

        if (t >= 0 && t < n && c >= 0 && c < nh * d)
            put(&out[t * nh * d + c], mode == KVR_DECODE_SUB ? mode : KVR_DECODE_ADD,
                kvr_f16_to_f32(((const kvr_f16 *)in->codes.p)[k]));
    }
}

static void measured(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                     struct kvr_coding_noise *out)
{
    (void)job, (void)in;
    out->kind = KVR_NOISE_MEASURED;
}

static const struct kvr_stage sparse = {
    .name = "sparse",
    .title = "what is not 0",
    .kind = KVR_STAGE_GRID,
    .layout = sparse_layout,
    .noise = measured,
    .cpu = { .encode = sparse_encode, .decode = sparse_decode },
};

#define ODD(row, label, keys, values, ...)                                                         \
    static const struct kvr_method row = { .name = label,                                          \
                                           .family = "ODD",                                        \
                                           .title = "odd",                                         \
                                           .paper = "-",                                           \
                                           .k = keys,                                              \
                                           .v = values,                                            \
                                           __VA_ARGS__ }
ODD(skewed_f32, "SKEWED_F32", "skew | raw(type=f32)", "skew | raw(type=f32)", );
ODD(skewed_int4, "SKEWED_INT4", "skew | sym(bits=4)", "skew | sym(bits=4)", );
ODD(two_spaces, "TWO_SPACES", "skew | sym(bits=4)", "sym(bits=4)", .tiers = "recent(chunks=2)",
    .tier_k = { NULL, "hadamard | sym(bits=4)" });
ODD(mute_f16, "MUTE_F16", "mute", "mute", );
ODD(short_e4m3, "SHORT_E4M3", "short", "short", );
ODD(sparse_f16, "SPARSE_F16", "sparse", "sparse", );

static const struct kvr_stage *const stages[] = { &skewed, &mute, &short_floats, &sparse, NULL };
static const struct kvr_method *const methods[] = { &skewed_f32, &skewed_int4, &two_spaces,
                                                    &mute_f16,   &short_e4m3,  &sparse_f16,
                                                    NULL };
KVR_PLUGIN(.name = "odd", .version = "1.0", .stages = stages, .methods = methods);
