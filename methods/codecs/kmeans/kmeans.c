/* kmeans.c - the shift `kmeans`: subtracts from each head's vector of each token the nearest of K
 * centroids, and repeats this on the residual in several stages (Quant VideoGen, arXiv:2602.02958).
 *
 * With S stages and T tokens, the labels [S,T,H] are stored in one byte each, and the centroids
 * [S,H,K,D] in BF16. For each stage and head, with x the residual after the previous stages:
 *
 *     centroids = K tokens, drawn with replacement from the seed
 *     `iterations` times:   label = nearest centroid, lowest index on ties
 *                           centroid = BF16(mean of its tokens); unchanged if it has none
 *     x -= centroid[label]
 *
 * The squared distance of x from a centroid c is computed as max(0, |x|^2 + |c|^2 - 2 x.c). Sums
 * over channels are in FP32 and sums over tokens in FP64, both in index order. Therefore the
 * encoded bytes are the same on every device and for any number of threads. Decoding adds the
 * centroids of all stages to the residual, which the next codec stage (the grid) quantizes. A block
 * with fewer than K tokens has one centroid per token.
 *
 * With the option left=bf16, the residual is rounded to BF16 after each stage, as in Quant
 * VideoGen's code. That code stops as soon as few labels change. Here `iterations` iterations
 * always run. */
#include <assert.h>
#include <stdlib.h>

#include "methods/codecs/kmeans/kmeans_cuda.h"

struct kmeans_opts {
    int k, stages, iterations, seed, left;
};

static const char *const left_names[] = { "f32", "bf16", NULL };

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct kmeans_opts, k, 256, 1, 256, "centroids per head"),
    KVR_OPT_INT(
        struct kmeans_opts, stages, 1, 1, 8,
        "number of k-means stages; each stage subtracts the nearest centroids from the residual"),
    KVR_OPT_INT(struct kmeans_opts, iterations, 2, 1, 100,
                "number of k-means iterations per stage"),
    KVR_OPT_INT(struct kmeans_opts, seed, 1234, 0, 1 << 30, "seed of the random initial centroids"),
    KVR_OPT_ENUM(struct kmeans_opts, left, 0, left_names,
                 "data type of the residual between stages"),
    { 0 }
};

static struct kvr_kmeans kmeans_of(const struct kvr_stage_job *job)
{
    const struct kmeans_opts *o = job->opts;
    const int64_t n = job->shape.n_tok;

    return (struct kvr_kmeans){
        .n_tok = n,
        .n_heads = job->shape.n_heads,
        .d = job->shape.head_dim,
        .k = n < o->k ? (int)n : o->k,
        .stages = o->stages,
        .iterations = o->iterations,
        .seed = (uint32_t)o->seed,
        .bf16 = o->left == 1,
    };
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct kvr_kmeans m = kmeans_of(job);

    *out = (struct kvr_layout){
        .bytes = { .codes = (size_t)(m.stages * m.n_tok * m.n_heads),
                   .meta = (size_t)m.stages * (size_t)m.n_heads * (size_t)m.k * (size_t)m.d *
                           sizeof(kvr_bf16) },
    };
}

/* Scratch for one head. `centre` has the centroids as [D,K], so that one loop over K computes the
 * distances to all centroids. */
struct workspace {
    float *centre, *norm, *dot;
    double *sum;
    int64_t *n;
};

static bool workspace_open(struct workspace *r, const struct kvr_kmeans *m)
{
    const size_t k = (size_t)m->k, d = (size_t)m->d;
    char *p = malloc(k * d * (sizeof(float) + sizeof(double)) + 2 * k * sizeof(float) +
                     k * sizeof(int64_t));

    r->sum = (double *)(void *)p;
    if (!p)
        return false;
    r->n = (int64_t *)(void *)(p + k * d * sizeof(double));
    r->centre = (float *)(void *)(r->n + k);
    r->norm = r->centre + k * d;
    r->dot = r->norm + k;
    return true;
}

static void load_centres(const struct kvr_kmeans *m, const kvr_bf16 *centres, struct workspace *r)
{
    for (int k = 0; k < m->k; k++) {
        r->norm[k] = 0;
        for (int c = 0; c < m->d; c++) {
            const float v = kvr_bf16_to_f32(centres[k * m->d + c]);

            r->centre[c * m->k + k] = v;
            r->norm[k] += v * v;
        }
    }
}

static uint8_t nearest(const struct kvr_kmeans *m, const float *x, const struct workspace *r)
{
    float norm = 0, best = 0;
    int at = 0;

    for (int k = 0; k < m->k; k++)
        r->dot[k] = 0;
    for (int c = 0; c < m->d; c++) {
        norm += x[c] * x[c];
        for (int k = 0; k < m->k; k++)
            r->dot[k] += x[c] * r->centre[c * m->k + k];
    }
    for (int k = 0; k < m->k; k++) {
        float far = norm + r->norm[k] - 2 * r->dot[k];

        far = far < 0 ? 0 : far;
        if (k == 0 || far < best) {
            best = far;
            at = k;
        }
    }
    return (uint8_t)at;
}

/* Runs one k-means stage for one head. Consecutive tokens are H*D floats apart in x and H bytes
 * apart in labels. */
static void cluster(const struct kvr_kmeans *m, int stage, int h, float *x, uint8_t *labels,
                    kvr_bf16 *centres, struct workspace *r)
{
    const int64_t step = (int64_t)m->n_heads * m->d;
    uint32_t word;

    assert(m->k > 0 && m->d > 0);
    for (int k = 0; k < m->k; k++) {
        const float *from = x + KVR_KMEANS_TOKEN(m, stage, h, k, word) * step;

        for (int c = 0; c < m->d; c++)
            centres[k * m->d + c] = kvr_f32_to_bf16(from[c]);
    }
    for (int i = 0; i < m->iterations; i++) {
        load_centres(m, centres, r);
        for (int k = 0; k < m->k; k++)
            r->n[k] = 0;
        for (int e = 0; e < m->k * m->d; e++)
            r->sum[e] = 0;
        for (int64_t t = 0; t < m->n_tok; t++) {
            const int k = labels[t * m->n_heads] = nearest(m, x + t * step, r);

            r->n[k]++;
            for (int c = 0; c < m->d; c++)
                r->sum[k * m->d + c] += (double)x[t * step + c];
        }
        for (int k = 0; k < m->k; k++)
            for (int c = 0; c < m->d && r->n[k]; c++)
                centres[k * m->d + c] =
                    kvr_f32_to_bf16((float)(r->sum[k * m->d + c] / (double)r->n[k]));
    }
    for (int64_t t = 0; t < m->n_tok; t++)
        for (int c = 0; c < m->d; c++) {
            const kvr_bf16 centre = centres[labels[t * m->n_heads] * m->d + c];
            const float left = x[t * step + c] - kvr_bf16_to_f32(centre);

            x[t * step + c] = m->bf16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(left)) : left;
        }
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct kvr_kmeans m = kmeans_of(job);
    bool allocated = true;

    if (!m.n_tok)
        return KVR_OK;
#pragma omp parallel for schedule(static) reduction(&& : allocated)
    for (int h = 0; h < m.n_heads; h++) {
        struct workspace r;

        if (!workspace_open(&r, &m)) {
            allocated = false;
            continue;
        }
        for (int s = 0; s < m.stages; s++)
            cluster(&m, s, h, x + h * m.d,
                    (uint8_t *)out->codes.p + (int64_t)s * m.n_tok * m.n_heads + h,
                    (kvr_bf16 *)out->meta.p + (int64_t)(s * m.n_heads + h) * m.k * m.d, &r);
        free(r.sum);
    }
    return allocated
               ? KVR_OK
               : kvr_fail(KVR_ENOMEM, "kmeans: out of memory while allocating %d centroids", m.k);
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct kvr_kmeans m = kmeans_of(job);
    const uint8_t *labels = in->codes.p;
    const kvr_bf16 *centres = in->meta.p;

    (void)mode;
    for (int64_t t = t0; t < t0 + n; t++)
        for (int h = h0; h < h0 + nh; h++, out += m.d)
            for (int s = 0; s < m.stages; s++) {
                const int label = labels[((int64_t)s * m.n_tok + t) * m.n_heads + h];
                const kvr_bf16 *from = centres + ((int64_t)(s * m.n_heads + h) * m.k + label) * m.d;

                for (int c = 0; c < m.d; c++)
                    out[c] += kvr_bf16_to_f32(from[c]);
            }
}

static enum kvr_status encode_cuda(const struct kvr_stage_job *job, float *x,
                                   struct kvr_stage_data *out)
{
    const struct kvr_kmeans m = kmeans_of(job);

    if (m.n_tok)
        kvr_kmeans_encode_cuda(kvr_dev_stream(job->dev), &m, x, out->codes.p, out->meta.p);
    return KVR_OK;
}

static void decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                        float *out)
{
    const struct kvr_kmeans m = kmeans_of(job);

    (void)mode;
    kvr_kmeans_decode_cuda(kvr_dev_stream(job->dev), &m, in->codes.p, in->meta.p, t0, n, h0, nh,
                           out);
}

static const struct kvr_stage_ops cuda = { .encode = encode_cuda, .decode = decode_cuda };

const struct kvr_stage kvr_stage_kmeans = {
    .name = "kmeans",
    .title = "subtracts the nearest k-means centroid per head and token",
    .kind = KVR_STAGE_SHIFT,
    .options = options,
    .opts_size = sizeof(struct kmeans_opts),
    .deterministic = true,
    .layout = layout,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &cuda,
};
