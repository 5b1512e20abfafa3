/* halves.c - the stage `halves`: integer quantization in FP16 arithmetic, with groups of
 * consecutive tokens of a channel. The arithmetic is in halves.h, the kernels in halves_cuda.cu.
 *
 * This is the format of LightX2V's cache. Groups start at multiples of `group` tokens of the
 * rollout, independent of chunks. If a chunk ends within a group, the group's tokens are decoded,
 * and encoded again with the first tokens of the next chunk. Until then, zeros complete the group,
 * so its range includes 0. */
#include "methods/codecs/halves/halves.h"

#include "methods/kernels/pack.h"

enum { MAX_GROUP = 256 };

struct halves_opts {
    int bits, group;
};
static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct halves_opts, bits, 4, 2, 8, "bits per stored element"),
    KVR_OPT_INT(
        struct halves_opts, group, 64, 8, MAX_GROUP,
        "number of consecutive tokens that share a channel's scale and minimum, a multiple of 8"),
    { 0 }
};

static struct halves halves_of(const struct kvr_stage_job *job)
{
    const struct halves_opts *o = job->opts;
    const int64_t n = job->shape.n_tok;

    return (struct halves){
        .bits = o->bits,
        .group = o->group,
        .n_tok = n,
        .padded = (n + o->group - 1) / o->group * o->group,
        .channels = (int64_t)job->shape.n_heads * job->shape.head_dim,
    };
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const int group = ((const struct halves_opts *)job->opts)->group;

    if (group % 8)
        return kvr_fail(KVR_EINVAL, "group is %d tokens: must be a multiple of 8", group);
    return KVR_OK;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct halves g = halves_of(job);

    *out = (struct kvr_layout){
        .bytes = { .codes = kvr_pack_bytes(g.padded, g.channels, g.bits),
                   .meta = 2 * sizeof(float) * (size_t)(g.padded / g.group * g.channels) },
        .form = KVR_FORM_OWN,
        .bits = g.bits,
        .n_tok = g.padded,
        .unit_tokens = g.group,
        .origin_tokens = g.group,
    };
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct halves g = halves_of(job);
    const int64_t groups = g.padded / g.group;
    float *scale = out->meta.p, *least = scale + groups * g.channels;

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < groups; i++)
        for (int64_t c = 0; c < g.channels; c++) {
            const struct halves_fit f = halves_fit(&g, x, i * g.group, c);
            uint8_t codes[MAX_GROUP];

            scale[i * g.channels + c] = f.s;
            least[i * g.channels + c] = f.m;
            for (int r = 0; r < g.group; r++) {
                const int64_t t = i * g.group + r;

                codes[r] = (uint8_t)halves_code(&g, &f, t < g.n_tok ? x[t * g.channels + c] : 0);
            }
            kvr_pack(out->codes.p, g.padded, g.channels, g.bits, i * g.group, g.group, c, 1, codes);
        }
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    enum { PIECE = 64 };
    const struct halves g = halves_of(job);
    const int64_t first = (int64_t)h0 * job->shape.head_dim;
    const int64_t end = first + (int64_t)nh * job->shape.head_dim;
    const float *scale = in->meta.p, *least = scale + g.padded / g.group * g.channels;
    uint8_t codes[PIECE];

    for (int64_t t = t0; t < t0 + n; t++)
        for (int64_t c = first, m; c < end; c += m) {
            m = end - c < PIECE ? end - c : PIECE;
            kvr_unpack_token(in->codes.p, g.padded, g.channels, g.bits, t, c, m, codes);
            for (int64_t i = 0; i < m; i++, out++) {
                const int64_t at = t / g.group * g.channels + c + i;
                const struct halves_fit f = { scale[at], least[at] };
                const float v = halves_value(&f, codes[i]);

                kvr_part_put(mode, out, 0, v);
            }
        }
}

KVR_CODED_CUDA(halves)

const struct kvr_stage kvr_stage_halves = {
    KVR_CODED_STAGE(halves),
    .title = "asymmetric integers, computed in FP16; groups start at multiples of `group` tokens "
             "of the rollout",
    .check = check,
    .noise = kvr_noise_measured, /* rounding in FP16 makes quantization intervals slightly uneven */
};
