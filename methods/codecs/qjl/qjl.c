/* qjl.c - the stage `qjl`: stores, per head of a token, the signs of D random projections and the
 * norm of the vector. The arithmetic is in qjl.h, the CUDA decoder in qjl_cuda.cu.
 *
 * TurboQuant (arXiv:2504.19874) uses this stage to encode the residual r of another quantizer. The
 * inner product of a query q with the decoded residual is an unbiased estimate of q . r. Its
 * variance is ((pi / 2) ||q||^2 ||r||^2 - (q . r)^2) / D. Blocks in CUDA memory are encoded on the
 * host. */
#include "methods/codecs/qjl/qjl.h"

#include "methods/kernels/pack.h"

struct qjl_opts {
    int seed;
};
static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct qjl_opts, seed, 1, 0, 1 << 30, "seed of the random projections"), { 0 }
};

static struct qjl qjl_of(const struct kvr_stage_job *job)
{
    return (struct qjl){
        .seed = (uint32_t)((const struct qjl_opts *)job->opts)->seed,
        .n_heads = job->shape.n_heads,
        .head_dim = job->shape.head_dim,
        .n_tok = job->shape.n_tok,
    };
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    if (job->shape.head_dim > QJL_MAX_DIM)
        return kvr_fail(KVR_EINVAL, "head_dim (channels per head) is %d, at most %d is supported",
                        job->shape.head_dim, QJL_MAX_DIM);
    return KVR_OK;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct qjl g = qjl_of(job);
    const int64_t channels = (int64_t)g.n_heads * g.head_dim;

    *out = (struct kvr_layout){
        .bytes = { .codes = kvr_pack_bytes(g.n_tok, channels, 1),
                   .meta = (size_t)(g.n_tok * g.n_heads) * sizeof(kvr_f16) },
        .form = KVR_FORM_OWN,
        .n_tok = g.n_tok,
    };
}

/* The random projection matrix S of the widest supported head, stored as 4 S, whose elements are
 * integers. A head of D channels uses its first D rows and columns. */
struct table {
    int8_t s[QJL_MAX_DIM][QJL_MAX_DIM];
};

static void draw(const void *opts, void *table)
{
    const uint32_t seed = (uint32_t)((const struct qjl_opts *)opts)->seed;
    struct table *t = table;

    for (int i = 0; i < QJL_MAX_DIM; i++)
        for (int c = 0; c < QJL_MAX_DIM; c++)
            t->s[i][c] = (int8_t)qjl_number(seed, i, c);
}

static void code_head(const struct qjl *g, const struct table *table, const float *r, kvr_f16 *norm,
                      uint8_t *codes)
{
    const int d = g->head_dim;
    double sum = 0;
    float length;

    for (int c = 0; c < d; c++)
        sum += (double)r[c] * (double)r[c];
    length = (float)sqrt(sum);
    *norm = (kvr_f16)cells_store(CELLS_F16, length >= INFINITY ? NAN : length);
    for (int i = 0; i < d; i++) {
        float y = 0;

        for (int c = 0; c < d; c++)
            y += (float)table->s[i][c] * r[c];
        codes[i] = y >= 0;
    }
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    enum { ROWS = 8 };
    const struct qjl g = qjl_of(job);
    const int64_t d = g.head_dim, channels = g.n_heads * d;
    const struct table *table = job->table;
    kvr_f16 *norm = out->meta.p;

#pragma omp parallel for schedule(static)
    for (int64_t t0 = 0; t0 < g.n_tok; t0 += ROWS) {
        const int rows = g.n_tok - t0 < ROWS ? (int)(g.n_tok - t0) : ROWS;
        uint8_t codes[ROWS * QJL_MAX_DIM];

        for (int h = 0; h < g.n_heads; h++) {
            for (int r = 0; r < rows; r++)
                code_head(&g, table, x + (t0 + r) * channels + h * d,
                          norm + (t0 + r) * g.n_heads + h, codes + r * d);
            kvr_pack(out->codes.p, g.n_tok, channels, 1, t0, rows, h * d, d, codes);
        }
    }
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct qjl g = qjl_of(job);
    const int d = g.head_dim;
    const struct table *table = job->table;
    const kvr_f16 *norm = in->meta.p;
    uint8_t codes[QJL_MAX_DIM];

    for (int64_t t = t0; t < t0 + n; t++)
        for (int h = h0; h < h0 + nh; h++, out += d) {
            const float length = cells_load(CELLS_F16, norm[t * g.n_heads + h]);
            int sum[QJL_MAX_DIM] = { 0 };

            kvr_unpack_token(in->codes.p, g.n_tok, (int64_t)g.n_heads * d, 1, t, (int64_t)h * d, d,
                             codes);
            for (int i = 0; i < d; i++)
                for (int c = 0; c < d; c++)
                    sum[c] += codes[i] ? table->s[i][c] : -table->s[i][c];
            for (int c = 0; c < d; c++)
                kvr_part_put(mode, out, c, qjl_value(&g, length, sum[c]));
        }
}

KVR_READ_CUDA(qjl)

const struct kvr_stage kvr_stage_qjl = {
    KVR_CODED_STAGE(qjl),
    .title = "stores the signs of random projections of each token's vector of a head, and the "
             "vector's norm",
    .check = check,
    .noise = kvr_noise_measured,
    .table = draw,
    .table_size = sizeof(struct table),
};
