/* trq.c - the stage `trq`: quantizes the first latent frame of a block (the anchor), and then every
 * frame's difference from the previous decoded frame (temporal residual quantization). The
 * arithmetic is in trq.h, the kernels in trq_cuda.cu.
 *
 * The stage follows weilemo/VideoGen-Temporal-Residual-Quant with its predictor `identity`.
 * Decoding a token requires decoding the same position in all earlier frames of the block. If
 * tokens were evicted, every `unit` consecutive retained tokens count as a frame. Positions then no
 * longer match, so that differences are larger.
 *
 * The stage `trq_heads` uses more bits for the differences of some heads. The authors use 4 bits in
 * 8 of 12 heads, which they select by an unpublished file of scores. Here they are the heads with
 * the largest differences between frames. */
#include "methods/codecs/trq/trq.h"

#include <assert.h>

#include "methods/kernels/share.h"
#include "methods/kernels/topk.h"

struct trq_opts {
    int bits, anchor, group, unit;
    int fine; /* option of trq_heads */
    double share;
};
#define TRQ_OPTIONS                                                                                \
    KVR_OPT_INT(struct trq_opts, bits, 2, 2, 8,                                                    \
                "bits per element of a frame difference (residual): 2, 4 or 8"),                   \
        KVR_OPT_INT(struct trq_opts, anchor, 4, 2, 8,                                              \
                    "bits per element of the first frame (anchor): 2, 4 or 8"),                    \
        KVR_OPT_INT(struct trq_opts, group, 64, 8, TRQ_MAX_GROUP,                                  \
                    "number of channels of a head that share a scale, a multiple of 8"),           \
        KVR_OPT_INT(                                                                               \
            struct trq_opts, unit, 0, 0, 1 << 30,                                                  \
            "number of tokens that are coded as one frame; 0 means the tokens of a latent frame, " \
            "or of the whole block if that number is unknown")
static const struct kvr_opt options[] = { TRQ_OPTIONS, { 0 } };
static const struct kvr_opt heads_options[] = {
    TRQ_OPTIONS,
    KVR_OPT_INT(struct trq_opts, fine, 4, 2, 8,
                "bits per element of a frame difference in the heads with the largest differences: "
                "2, 4 or 8"),
    KVR_OPT_FLOAT(struct trq_opts, share, 0.667, 0, 1,
                  "fraction of the heads that use `fine` bits (the heads with the largest frame "
                  "differences)"),
    { 0 }
};

static struct trq trq_of(const struct kvr_stage_job *job)
{
    const struct trq_opts *o = job->opts;
    const int64_t n = job->shape.n_tok;
    const int64_t unit = o->unit ? o->unit : job->place.frame_tokens ? job->place.frame_tokens : n;
    const bool heads = job->stage->options == heads_options;

    return (struct trq){
        .bits = o->bits,
        .anchor = o->anchor,
        .group = o->group,
        .n_tok = n,
        .unit = unit ? unit : 1,
        .channels = (int64_t)job->shape.n_heads * job->shape.head_dim,
        .fine = heads ? o->fine : 0,
        .n_fine = heads ? (int)kvr_share(o->share * job->shape.n_heads, 0, job->shape.n_heads) : 0,
        .head_dim = job->shape.head_dim,
    };
}

static int64_t anchors(const struct trq *g)
{
    return g->unit < g->n_tok ? g->unit : g->n_tok;
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const struct trq_opts *o = job->opts;
    const int fine = trq_of(job).fine;

    if ((o->bits & (o->bits - 1)) || (o->anchor & (o->anchor - 1)))
        return kvr_fail(KVR_EINVAL, "bits is %d and anchor is %d: each must be 2, 4 or 8", o->bits,
                        o->anchor);
    if (fine & (fine - 1) || (fine && fine < o->bits))
        return kvr_fail(
            KVR_EINVAL,
            "fine is %d bits: must be 2, 4 or 8, and at least the value of option bits, %d", fine,
            o->bits);
    if (fine && job->shape.n_heads > TRQ_MAX_HEADS)
        return kvr_fail(KVR_EINVAL, "the model has %d KV heads per layer, at most %d are supported",
                        job->shape.n_heads, TRQ_MAX_HEADS);
    if (o->group % 8 || job->shape.head_dim % o->group)
        return kvr_fail(KVR_EINVAL,
                        "group is %d channels: must be a multiple of 8 that divides head_dim %d",
                        o->group, job->shape.head_dim);
    return KVR_OK;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct trq g = trq_of(job);
    const int64_t groups = g.channels / g.group;

    *out = (struct kvr_layout){
        .bytes = { .codes = (size_t)trq_codes_at(&g, g.n_tok),
                   .meta = (size_t)(g.n_tok * groups * 2 + (g.n_tok - anchors(&g)) * groups) +
                           (size_t)(g.fine ? g.channels / g.head_dim : 0) },
        .form = KVR_FORM_OWN,
        .bits = g.bits,
        .n_tok = g.n_tok,
    };
}

/* Selects the n_fine heads with the largest squared differences between consecutive frames; on
 * ties, the heads with lower indices. Returns a bit mask of heads. */
static uint64_t choose_heads(const struct trq *g, const float *x)
{
    struct kvr_ranked rank[TRQ_MAX_HEADS];
    const int64_t n = g->channels / g->head_dim;
    uint64_t chosen = 0;

    for (int64_t h = 0; h < n; h++) {
        double sum = 0;

        for (int64_t t = g->unit; t < g->n_tok; t++)
            for (int64_t c = h * g->head_dim; c < (h + 1) * g->head_dim; c++) {
                const double e =
                    (double)x[t * g->channels + c] - (double)x[(t - g->unit) * g->channels + c];

                sum += e * e;
            }
        rank[h] = (struct kvr_ranked){ (float)sum, (int32_t)h };
    }
    kvr_topk(rank, n);
    for (int i = 0; i < g->n_fine; i++)
        chosen |= (uint64_t)1 << rank[i].index;
    return chosen;
}

static const uint8_t *flags_of(const struct trq *g, const void *params)
{
    const int64_t groups = g->channels / g->group;

    return (const uint8_t *)params + g->n_tok * groups * 2 + (g->n_tok - anchors(g)) * groups;
}

/* Returns the stored bit mask of the heads whose differences use `fine` bits. */
static uint64_t stored_heads(const struct trq *g, const void *params)
{
    uint64_t heads = 0;

    for (int64_t h = 0; g->fine && h < g->channels / g->head_dim; h++)
        heads |= (uint64_t)flags_of(g, params)[h] << h;
    return heads;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    struct trq g = trq_of(job);
    const int64_t groups = g.channels / g.group, n = anchors(&g);
    kvr_bf16 *scale = out->meta.p;
    uint8_t *zero = (uint8_t *)(scale + g.n_tok * groups), *codes = out->codes.p;
    uint8_t *flags = (uint8_t *)flags_of(&g, out->meta.p);

    g.heads = g.fine ? choose_heads(&g, x) : 0;
    for (int64_t h = 0; g.fine && h < g.channels / g.head_dim; h++)
        flags[h] = (uint8_t)(g.heads >> h & 1u);
#pragma omp parallel for schedule(static)
    for (int64_t position = 0; position < n; position++)
        for (int64_t at = 0; at < g.channels; at += g.group) {
            float e[TRQ_MAX_GROUP], r[TRQ_MAX_GROUP] = { 0 };

            for (int64_t t = position; t < g.n_tok; t += g.unit) {
                const bool anchor = t < g.unit;
                const int bits = trq_bits(&g, anchor, at);
                uint8_t *to = codes + trq_byte_at(&g, t, at);
                struct trq_fit f;

                /* Encode the anchor's values, and for later frames the difference from r, the
                 * decoded values of the previous frame. */
                for (int c = 0; c < g.group; c++)
                    e[c] = anchor ? x[t * g.channels + at + c] : x[t * g.channels + at + c] - r[c];
                f = trq_fit_bits(&g, anchor, bits, e);
                scale[t * groups + at / g.group] = (kvr_bf16)f.raw;
                if (!anchor)
                    zero[trq_zero_at(&g, t, at)] = (uint8_t)f.z;
                for (int c = 0; c < g.group; c += 8 / bits) {
                    unsigned byte = 0;

                    for (int j = 0; j < 8 / bits; j++) {
                        const unsigned q = trq_code(anchor, bits, &f, e[c + j]);

                        byte = byte << bits | q;
                        r[c + j] = trq_kept(trq_value(&g, anchor, &f, q, r[c + j]));
                    }
                    to[c * bits / 8] = (uint8_t)byte;
                }
            }
        }
    return KVR_OK;
}

/* Decodes channels [at, at + group) of one token to r [group]. For this it first decodes the same
 * position in all earlier frames. */
static void decode_group(const struct trq *g, const struct kvr_stage_data *in, int64_t token,
                         int64_t at, float *r)
{
    const int64_t groups = g->channels / g->group;
    const kvr_bf16 *scale = in->meta.p;
    const uint8_t *zero = (const uint8_t *)(scale + g->n_tok * groups), *codes = in->codes.p;

    assert(token >= 0);
    for (int64_t t = token % g->unit; t <= token; t += g->unit) {
        const bool anchor = t < g->unit;
        const int bits = trq_bits(g, anchor, at);
        const uint8_t *from = codes + trq_byte_at(g, t, at);
        const struct trq_fit f = {
            .s = cells_load(CELLS_BF16, scale[t * groups + at / g->group]),
            .z = anchor ? 0 : (float)zero[trq_zero_at(g, t, at)],
        };

        for (int c = 0; c < g->group; c++) {
            const unsigned q =
                from[c * bits / 8] >> (8 - bits - c * bits % 8) & ((1u << bits) - 1u);

            r[c] = trq_value(g, anchor, &f, q, anchor ? 0 : trq_kept(r[c]));
        }
    }
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    struct trq g = trq_of(job);
    const int64_t d = job->shape.head_dim;
    float r[TRQ_MAX_GROUP];

    g.heads = stored_heads(&g, in->meta.p);
    for (int64_t t = t0; t < t0 + n; t++)
        for (int64_t at = h0 * d; at < (h0 + nh) * d; at += g.group, out += g.group) {
            decode_group(&g, in, t, at, r);
            for (int c = 0; c < g.group; c++)
                kvr_part_put(mode, out, c, r[c]);
        }
}

KVR_CODED_CUDA(trq)

const struct kvr_stage kvr_stage_trq = {
    KVR_CODED_STAGE(trq),
    .title = "codes the first frame, then each frame's difference from the decoded previous frame",
    .check = check,
    /* enum kvr_noise_kind has no formula for the error of residuals with clamped zero points */
    .noise = kvr_noise_measured,
};

/* The host encodes, because it selects the heads; CUDA decodes. */
static const struct kvr_stage_ops heads_cuda = { .encode = kvr_bounce_encode,
                                                 .decode = decode_cuda };

const struct kvr_stage kvr_stage_trq_heads = {
    .name = "trq_heads",
    .title = "`trq` with more bits for the heads with the largest differences between frames",
    .kind = KVR_STAGE_GRID,
    .options = heads_options,
    .opts_size = sizeof(struct trq_opts),
    .deterministic = true,
    .check = check,
    .layout = layout,
    .noise = kvr_noise_measured,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &heads_cuda,
};
