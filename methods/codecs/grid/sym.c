/* sym.c - the grid `sym`: symmetric integers (methods/codecs/grid/grid.h has the arithmetic). */
#include "methods/codecs/grid/grid.h"
#include "methods/codecs/grid/grid_cuda.h"

struct sym_opts {
    int bits, axis, group;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct sym_opts, bits, 4, 2, 8, "bits per stored element"),
    KVR_OPT_ENUM(struct sym_opts, axis, KVR_AXIS_TOKENS, kvr_axis_names, "what shares a step"),
    KVR_OPT_INT(struct sym_opts, group, 16, 8, KVR_GRID_MAX_GROUP, "elements sharing a step"),
    { 0 }
};

static struct kvr_grid grid_of(const void *opts)
{
    const struct sym_opts *o = opts;

    return (struct kvr_grid){ .bits = o->bits, .axis = o->axis, .group = o->group };
}

static enum kvr_status sym_check(const void *opts, int n_heads, int head_dim)
{
    struct kvr_grid g = grid_of(opts);

    return kvr_grid_check(&g, n_heads, head_dim);
}

static int sym_unit_tokens(const void *opts)
{
    struct kvr_grid g = grid_of(opts);

    return g.axis == KVR_AXIS_TOKENS ? g.group : 1;
}

static void sym_bytes(const struct kvr_stage_job *job, struct kvr_stage_bytes *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_bytes(&g, job, out);
}

static enum kvr_status sym_encode(const struct kvr_stage_job *job, struct kvr_dev *dev, float *x,
                                  struct kvr_stage_data *out)
{
    struct kvr_grid g = grid_of(job->opts);

    (void)dev;
    kvr_grid_encode(&g, job, x, out);
    return KVR_OK;
}

static void sym_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                       int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_decode(&g, job, in, t0, n, h0, nh, mode, out);
}

static void sym_steps(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                      struct kvr_steps *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_steps(&g, job, in, out);
}

static enum kvr_status sym_encode_cuda(const struct kvr_stage_job *job, struct kvr_dev *dev,
                                       float *x, struct kvr_stage_data *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_encode_cuda(kvr_dev_stream(dev), &g, job, x, out->codes.p, out->meta.p);
    return KVR_OK;
}

static void sym_decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                            int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                            float *out)
{
    struct kvr_grid g = grid_of(job->opts);

    kvr_grid_decode_cuda(kvr_dev_stream(job->dev), &g, job, in->codes.p, in->meta.p, t0, n, h0, nh,
                         mode, out);
}

static void sym_grid(const void *opts, struct kvr_grid *out)
{
    *out = grid_of(opts);
}

static const struct kvr_stage_cuda cuda = {
    .encode = sym_encode_cuda,
    .decode = sym_decode_cuda,
    .grid = sym_grid,
};

const struct kvr_stage kvr_stage_sym = {
    .name = "sym",
    .title = "symmetric integers with an FP16 step",
    .kind = KVR_STAGE_GRID,
    .options = options,
    .opts_size = sizeof(struct sym_opts),
    .deterministic = true,
    .idempotent = true,
    .check = sym_check,
    .unit_tokens = sym_unit_tokens,
    .bytes = sym_bytes,
    .encode = sym_encode,
    .decode = sym_decode,
    .steps = sym_steps,
    .cuda = &cuda,
};
