/* off_step.c - RTN_INT2 with a scale that is off by one part in 256, either in encoding or in
 * decoding. The golden test must detect it. */
#include "methods/plugin.h"

static const float off = 1 + 0x1p-8f;

static void no_bytes(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    (void)job, (void)out;
}

static enum kvr_status leave(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    (void)job, (void)x, (void)out;
    return KVR_OK;
}

/* Multiplies all elements of a block by `off`. The quantizer then stores a scale that is off by the
 * same factor, and the same codes. */
static enum kvr_status stretch(const struct kvr_stage_job *job, float *x,
                               struct kvr_stage_data *out)
{
    const struct kvr_block_shape *s = &job->shape;

    (void)out;
    for (int64_t i = 0; i < s->n_tok * s->n_heads * s->head_dim; i++)
        x[i] *= off;
    return KVR_OK;
}

static void leave_too(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                      int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    (void)job, (void)in, (void)t0, (void)n, (void)h0, (void)nh, (void)mode, (void)out;
}

static void stretch_too(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                        float *out)
{
    (void)in, (void)t0, (void)h0, (void)mode;
    for (int64_t i = 0; i < n * nh * job->shape.head_dim; i++)
        out[i] *= off;
}

#define OFF_STAGE(stage, when, enc, dec)                                                           \
    static const struct kvr_stage stage = {                                                        \
        .name = #stage,                                                                            \
        .title = "every value off by one part in 256 when it is " when,                            \
        .kind = KVR_STAGE_SHIFT,                                                                   \
        .deterministic = true,                                                                     \
        .layout = no_bytes,                                                                        \
        .cpu = { .encode = enc, .decode = dec },                                                   \
    }
OFF_STAGE(off_written, "written", stretch, leave_too);
OFF_STAGE(off_read, "read", leave, stretch_too);

#define OFF_METHOD(row, label, stage)                                                              \
    static const struct kvr_method row = {                                                         \
        .name = label,                                                                             \
        .family = "OFF",                                                                           \
        .title = "RTN_INT2, wrong",                                                                \
        .paper = "-",                                                                              \
        .k = #stage " | sym(bits=2,axis=tokens,group=16)",                                         \
        .v = #stage " | sym(bits=2,axis=tokens,group=16)",                                         \
    }
OFF_METHOD(written, "OFF_WRITTEN_INT2", off_written);
OFF_METHOD(read_back, "OFF_READ_INT2", off_read);

static const struct kvr_stage *const stages[] = { &off_written, &off_read, NULL };
static const struct kvr_method *const methods[] = { &written, &read_back, NULL };
KVR_PLUGIN(.name = "off_step", .version = "1.0", .stages = stages, .methods = methods);
