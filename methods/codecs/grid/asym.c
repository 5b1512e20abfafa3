/* asym.c - the grid `asym`: integers between a set's minimum and maximum
 * (methods/codecs/grid/grid.h has the arithmetic of both readings).
 *
 *     asym(axis=tokens,group=16)   KIVI's keys: 16 tokens of a channel share step and zero
 *     asym(axis=token)             the study's KIVI values: one set is a token, all heads;
 *                                  `group` is not used */
#include "methods/codecs/grid/grid.h"
#include "methods/codecs/grid/grid_cuda.h"

struct asym_opts {
    int bits, axis, group;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct asym_opts, bits, 4, 2, 8, "bits per stored element"),
    KVR_OPT_ENUM(struct asym_opts, axis, KVR_AXIS_TOKENS, kvr_axis_names,
                 "what shares a step and a zero point"),
    KVR_OPT_INT(struct asym_opts, group, 16, 8, KVR_GRID_MAX_GROUP,
                "elements sharing a step (axis=token: unused)"),
    { 0 }
};

static struct kvr_grid grid_of(const void *opts)
{
    const struct asym_opts *o = opts;

    return (struct kvr_grid){ .bits = o->bits, .axis = o->axis, .group = o->group, .asym = true };
}

static enum kvr_status asym_check(const void *opts, int n_heads, int head_dim)
{
    struct kvr_grid g = grid_of(opts);

    return kvr_grid_check(&g, n_heads, head_dim);
}

static int asym_unit_tokens(const void *opts)
{
    struct kvr_grid g = grid_of(opts);

    return g.axis == KVR_AXIS_TOKENS ? g.group : 1;
}

static void asym_bytes(const struct kvr_stage_job *job, struct kvr_stage_bytes *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_bytes(&g, job, out);
}

static enum kvr_status asym_encode(const struct kvr_stage_job *job, struct kvr_dev *dev, float *x,
                                   struct kvr_stage_data *out)
{
    struct kvr_grid g = grid_of(job->opts);

    (void)dev;
    kvr_grid_encode(&g, job, x, out);
    return KVR_OK;
}

static void asym_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                        float *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_decode(&g, job, in, t0, n, h0, nh, mode, out);
}

static void asym_steps(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                       struct kvr_steps *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_steps(&g, job, in, out);
}

static enum kvr_status asym_encode_cuda(const struct kvr_stage_job *job, struct kvr_dev *dev,
                                        float *x, struct kvr_stage_data *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_encode_cuda(kvr_dev_stream(dev), &g, job, x, out->codes.p, out->meta.p);
    return KVR_OK;
}

static void asym_decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                             int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                             float *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_decode_cuda(kvr_dev_stream(job->dev), &g, job, in->codes.p, in->meta.p, t0, n, h0, nh,
                         mode, out);
}

static void asym_grid(const void *opts, struct kvr_grid *out)
{
    *out = grid_of(opts);
}

static const struct kvr_stage_cuda cuda = {
    .encode = asym_encode_cuda,
    .decode = asym_decode_cuda,
    .grid = asym_grid,
};

const struct kvr_stage kvr_stage_asym = {
    .name = "asym",
    .title = "asymmetric integers with an FP16 step and zero point",
    .kind = KVR_STAGE_GRID,
    .options = options,
    .opts_size = sizeof(struct asym_opts),
    .deterministic = true,
    .idempotent = false, /* a range far from 0 moves with the rounding of its zero point */
    .check = asym_check,
    .unit_tokens = asym_unit_tokens,
    .bytes = asym_bytes,
    .encode = asym_encode,
    .decode = asym_decode,
    .steps = asym_steps,
    .cuda = &cuda,
};
