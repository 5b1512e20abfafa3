/* lowrank.c - the stage `lowrank`: of every head the directions in which the block varies most, and
 * each token's coordinates along them. The format is lowrank.h.
 *
 * The directions are eigenvectors of the covariance of the block's tokens (cyclic Jacobi in FP64),
 * with the largest eigenvalues, of two equal ones the earlier; each is turned so that its largest
 * component is positive. Coordinates are taken along the directions as they are stored. A negative
 * control: bits spent on few exact coordinates, all else given up, after xKV (arXiv:2503.18893),
 * which does so over the heads of several layers at one time. A head that holds what is not finite
 * reads NaN. On a device blocks are coded by the host. */
#include "methods/codecs/lowrank/lowrank.h"

#include <stdlib.h>

enum { SWEEPS = 30 };

struct lowrank_opts {
    double share;
};
static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct lowrank_opts, share, 0.25, 0, 1,
                  "directions kept, as a share of a head's channels; one at least"),
    { 0 }
};

static struct lowrank lowrank_of(const struct kvr_stage_job *job)
{
    const int d = job->shape.head_dim;
    const int rank = (int)rint(((const struct lowrank_opts *)job->opts)->share * d);

    return (struct lowrank){
        .n_tok = job->shape.n_tok,
        .n_heads = job->shape.n_heads,
        .d = d,
        .rank = rank < 1 ? 1 : rank,
    };
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct lowrank g = lowrank_of(job);

    *out = (struct kvr_layout){
        .bytes = { .codes = (size_t)(g.n_tok * g.n_heads * g.rank) * sizeof(kvr_bf16),
                   .meta =
                       (size_t)g.n_heads * (size_t)(g.rank + 1) * (size_t)g.d * sizeof(kvr_bf16) },
        .form = KVR_FORM_OWN,
        .n_tok = g.n_tok,
    };
}

/* Work of a head: covariance and eigenvectors [D][D]. */
struct room {
    double *a, *v, *mean;
};

/* One rotation that makes a[p][q] 0; rows of v are turned along. */
static void rotate(int d, double *a, double *v, int p, int q)
{
    const double apq = a[p * d + q];
    const double theta = (a[q * d + q] - a[p * d + p]) / (2 * apq);
    const double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;

    for (int i = 0; i < d; i++) { /* columns */
        const double x = a[i * d + p], y = a[i * d + q];

        a[i * d + p] = c * x - s * y;
        a[i * d + q] = s * x + c * y;
    }
    for (int i = 0; i < d; i++) { /* rows */
        const double x = a[p * d + i], y = a[q * d + i];

        a[p * d + i] = c * x - s * y;
        a[q * d + i] = s * x + c * y;
    }
    for (int i = 0; i < d; i++) {
        const double x = v[p * d + i], y = v[q * d + i];

        v[p * d + i] = c * x - s * y;
        v[q * d + i] = s * x + c * y;
    }
}

/* Eigenvalues on the diagonal of a, eigenvectors as rows of v. */
static void diagonalise(int d, double *a, double *v)
{
    double size = 0;

    for (int i = 0; i < d; i++)
        for (int j = 0; j < d; j++)
            v[i * d + j] = i == j;
    for (int i = 0; i < d; i++)
        size += a[i * d + i];
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        bool done = true;

        for (int p = 0; p < d; p++)
            for (int q = p + 1; q < d; q++) {
                if (fabs(a[p * d + q]) <= 1e-13 * size)
                    continue;
                rotate(d, a, v, p, q);
                done = false;
            }
        if (done)
            return;
    }
}

/* False: the head holds what is not finite. */
static bool covariance(const struct lowrank *g, const float *x, int h, const struct room *r)
{
    const int64_t step = (int64_t)g->n_heads * g->d;
    const int d = g->d;

    for (int c = 0; c < d; c++)
        r->mean[c] = 0;
    for (int i = 0; i < d * d; i++)
        r->a[i] = 0;
    for (int64_t t = 0; t < g->n_tok; t++)
        for (int c = 0; c < d; c++)
            r->mean[c] += (double)x[t * step + h * d + c] / (double)g->n_tok;
    for (int c = 0; c < d; c++) {
        if (!isfinite(r->mean[c]))
            return false;
        r->mean[c] = (double)kvr_bf16_to_f32(kvr_f32_to_bf16((float)r->mean[c]));
    }
    for (int64_t t = 0; t < g->n_tok; t++)
        for (int i = 0; i < d; i++) {
            const double y = (double)x[t * step + h * d + i] - r->mean[i];

            for (int j = 0; j < d; j++)
                r->a[i * d + j] += y * ((double)x[t * step + h * d + j] - r->mean[j]);
        }
    return true;
}

/* The k-th direction as BF16: of the largest eigenvalue not taken yet, which is then taken. */
static void next_direction(int d, const struct room *r, kvr_bf16 *u)
{
    int best = 0, top = 0;
    double sign;

    for (int i = 1; i < d; i++)
        best = r->a[i * d + i] > r->a[best * d + best] ? i : best;
    for (int c = 1; c < d; c++)
        top = fabs(r->v[best * d + c]) > fabs(r->v[best * d + top]) ? c : top;
    sign = r->v[best * d + top] < 0 ? -1 : 1;
    for (int c = 0; c < d; c++)
        u[c] = kvr_f32_to_bf16((float)(sign * r->v[best * d + c]));
    r->a[best * d + best] = -INFINITY;
}

static void code_head(const struct lowrank *g, const float *x, int h, const struct room *r,
                      kvr_bf16 *codes, kvr_bf16 *meta)
{
    const int64_t step = (int64_t)g->n_heads * g->d;
    kvr_bf16 *mean = meta + (int64_t)h * (g->rank + 1) * g->d, *u = mean + g->d;
    const bool good = covariance(g, x, h, r);

    for (int c = 0; c < g->d; c++)
        mean[c] = good ? kvr_f32_to_bf16((float)r->mean[c]) : 0x7fc0;
    if (good)
        diagonalise(g->d, r->a, r->v);
    for (int k = 0; k < g->rank; k++) {
        for (int c = 0; c < g->d && !good; c++)
            u[k * g->d + c] = 0;
        if (good)
            next_direction(g->d, r, u + k * g->d);
        for (int64_t t = 0; t < g->n_tok; t++) {
            double sum = 0;

            for (int c = 0; c < g->d && good; c++)
                sum += ((double)x[t * step + h * g->d + c] - r->mean[c]) *
                       (double)kvr_bf16_to_f32(u[k * g->d + c]);
            codes[(t * g->n_heads + h) * g->rank + k] = kvr_f32_to_bf16((float)sum);
        }
    }
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct lowrank g = lowrank_of(job);
    const size_t d = (size_t)g.d;
    bool room = true;

#pragma omp parallel for schedule(dynamic) reduction(&& : room)
    for (int h = 0; h < g.n_heads; h++) {
        struct room r = { .a = malloc((2 * d * d + d) * sizeof(double)) };

        room = room && r.a;
        if (!r.a)
            continue;
        r.v = r.a + d * d;
        r.mean = r.v + d * d;
        code_head(&g, x, h, &r, out->codes.p, out->meta.p);
        free(r.a);
    }
    return room ? KVR_OK : kvr_fail(KVR_ENOMEM, "lowrank: no memory for %d x %d", g.d, g.d);
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct lowrank g = lowrank_of(job);

    for (int64_t t = t0; t < t0 + n; t++)
        for (int h = h0; h < h0 + nh; h++)
            for (int c = 0; c < g.d; c++, out++) {
                const float v = lowrank_value(&g, in->codes.p, in->meta.p, t, h, c);

                kvr_part_put(mode, out, 0, v);
            }
}

KVR_READ_CUDA(lowrank)

const struct kvr_stage kvr_stage_lowrank = {
    KVR_CODED_STAGE(lowrank),
    .title = "coordinates along the directions in which the block varies most",
    .noise = kvr_noise_measured, /* what is left out is no noise of elements */
};
