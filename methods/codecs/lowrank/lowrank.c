/* lowrank.c - the stages `lowrank` and `principal`, which store each token's coordinates along the
 * leading principal directions of its head. `lowrank` computes the directions of each block.
 * `principal` may read them from a calibration file instead. The format is in lowrank.h.
 *
 * The directions are the eigenvectors with the largest eigenvalues of the covariance of the block's
 * tokens, computed by cyclic Jacobi rotations in FP64. Signs are chosen so that the component of
 * largest magnitude is positive. The coordinates are computed from the stored BF16 directions. The
 * stage is a negative control: it stores few directions almost exactly and drops all others. It is
 * based on xKV (arXiv:2503.18893) but, unlike xKV, does not share directions between the heads of
 * several layers. A head with a NaN or an infinity decodes to NaN. Directions from a calibration
 * file are also stored with each block. Blocks in CUDA memory are encoded on the host. */
#include "methods/codecs/lowrank/lowrank.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness/core/safetensors.h"
#include "methods/kernels/calibration.h"

enum { SWEEPS = 30 };

struct lowrank_opts {
    double share;
    char basis[KVR_OPT_STRING_MAX]; /* option of `principal` */
};
static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct lowrank_opts, share, 0.25, 0, 1,
                  "fraction of each head's principal directions that is kept, at least one"),
    { 0 }
};
static const struct kvr_opt principal_options[] = {
    KVR_OPT_FLOAT(struct lowrank_opts, share, 0.25, 0, 1,
                  "fraction of each head's principal directions that is kept, at least one"),
    KVR_OPT_STRING(
        struct lowrank_opts, basis, KVR_CALIBRATION_FIT,
        "principal directions: fitted per block (fit), or a file from `kvreel profile basis`"),
    { 0 }
};

static enum kvr_status check_basis(const struct kvr_stage_job *job)
{
    return kvr_calibration_check("basis", ((const struct lowrank_opts *)job->opts)->basis);
}

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

/* Scratch for one head: covariance a [D][D], eigenvectors v [D][D] and mean [D]. */
struct workspace {
    double *a, *v, *mean;
    float *u; /* directions [D][D] */
};

/* Applies one Jacobi rotation that makes a[p][q] zero, and rotates the rows of v in the same
 * way. */
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

/* Diagonalises the symmetric matrix a [D][D]. The diagonal of a receives the eigenvalues, the rows
 * of v receive the eigenvectors. */
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

/* Computes the mean and the unnormalised covariance of a head. Returns false if the head has a NaN
 * or an infinity. */
static bool covariance(const struct lowrank *g, const float *x, int h, const struct workspace *r)
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

/* Writes the eigenvector of the largest eigenvalue to u [D], and replaces this eigenvalue by
 * -infinity. */
static void next_direction(int d, double *a, const double *v, float *u)
{
    int best = 0, top = 0;
    double sign;

    for (int i = 1; i < d; i++)
        best = a[i * d + i] > a[best * d + best] ? i : best;
    for (int c = 1; c < d; c++)
        top = fabs(v[best * d + c]) > fabs(v[best * d + top]) ? c : top;
    sign = v[best * d + top] < 0 ? -1 : 1;
    for (int c = 0; c < d; c++)
        u[c] = (float)(sign * v[best * d + c]);
    a[best * d + best] = -INFINITY;
}

void kvr_lowrank_directions(int d, double *a, double *v, int n, float *u)
{
    diagonalise(d, a, v);
    for (int k = 0; k < n; k++)
        next_direction(d, a, v, u + (int64_t)k * d);
}

static bool is_finite(const struct lowrank *g, const float *x, int h)
{
    for (int64_t t = 0; t < g->n_tok; t++)
        for (int c = 0; c < g->d; c++)
            if (!isfinite(x[(t * g->n_heads + h) * g->d + c]))
                return false;
    return true;
}

/* Writes the stored mean and directions of a head: [1 + rank][D] BF16. They are copied from `basis`
 * [1 + D][D], or computed from the block if `basis` is NULL. If the head has a NaN or an infinity,
 * the mean is NaN and the directions are 0. */
static void fit_head(const struct lowrank *g, const float *x, int h, const float *basis,
                     const struct workspace *r, kvr_bf16 *mean)
{
    const int d = g->d;
    const bool good = basis ? is_finite(g, x, h) : covariance(g, x, h, r);

    if (good && !basis)
        kvr_lowrank_directions(d, r->a, r->v, g->rank, r->u);
    for (int c = 0; c < d; c++)
        mean[c] = good ? kvr_f32_to_bf16(basis ? basis[c] : (float)r->mean[c]) : 0x7fc0;
    for (int c = 0; c < g->rank * d; c++)
        mean[d + c] = good ? kvr_f32_to_bf16(basis ? basis[d + c] : r->u[c]) : 0;
}

static void code_head(const struct lowrank *g, const float *x, int h, const float *basis,
                      const struct workspace *r, kvr_bf16 *codes, kvr_bf16 *params)
{
    const int64_t step = (int64_t)g->n_heads * g->d;
    kvr_bf16 *mean = params + (int64_t)h * (g->rank + 1) * g->d;

    fit_head(g, x, h, basis, r, mean);

    const bool good = mean[0] != 0x7fc0;

    for (int k = 0; k < g->rank; k++)
        for (int64_t t = 0; t < g->n_tok; t++) {
            double sum = 0;

            for (int c = 0; c < g->d && good; c++)
                sum += ((double)x[t * step + h * g->d + c] - (double)kvr_bf16_to_f32(mean[c])) *
                       (double)kvr_bf16_to_f32(mean[(k + 1) * g->d + c]);
            codes[(t * g->n_heads + h) * g->rank + k] = kvr_f32_to_bf16((float)sum);
        }
}

/* Opens the calibration file of the option `basis`. *basis receives the layer's means and
 * directions [H][1 + D][D], which are valid until *f is closed. *basis and *f are NULL if the
 * option names no file. */
static enum kvr_status open_basis(const struct kvr_stage_job *job, struct kvr_st **f,
                                  const float **basis)
{
    const char *path = ((const struct lowrank_opts *)job->opts)->basis;
    const int64_t d = job->shape.head_dim, shape[3] = { job->shape.n_heads, 1 + d, d };
    struct kvr_tensor t;
    enum kvr_status st;
    char name[32];

    *f = NULL;
    *basis = NULL;
    if (!kvr_calibration_is_file(path))
        return KVR_OK;
    KVR_TRY(kvr_calibration_find("basis", path, &job->place));
    KVR_TRY(kvr_st_open(f, path));
    snprintf(name, sizeof name, "%c.%d", "kv"[job->side == KVR_V], job -> place.layer);
    st = kvr_st_count(*f) == 2 * job->place.n_layers
             ? kvr_st_get_shaped(*f, name, 3, shape, &t)
             : kvr_fail(KVR_EFORMAT,
                        "%s: the file has %d tensors; a model of %d layers needs two per layer, "
                        "for keys and for values",
                        path, kvr_st_count(*f), job->place.n_layers);
    if (st == KVR_OK && t.dtype != KVR_F32)
        st = kvr_fail(KVR_EFORMAT, "%s: tensor '%s' must be F32, but is %s", path, name,
                      kvr_dtype_name(t.dtype));
    if (st == KVR_OK)
        *basis = t.data;
    else
        kvr_st_close(f);
    return st;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct lowrank g = lowrank_of(job);
    const size_t d = (size_t)g.d;
    const float *basis;
    struct kvr_st *f;
    bool allocated = true;

    KVR_TRY(open_basis(job, &f, &basis));
#pragma omp parallel for schedule(dynamic) reduction(&& : allocated)
    for (int h = 0; h < g.n_heads; h++) {
        struct workspace r = { .a = malloc((2 * d * d + d) * sizeof(double) +
                                           d * d * sizeof(float)) };

        allocated = allocated && r.a;
        if (!r.a)
            continue;
        r.v = r.a + d * d;
        r.mean = r.v + d * d;
        r.u = (float *)(r.mean + d);
        code_head(&g, x, h, basis ? basis + (size_t)h * (1 + d) * d : NULL, &r, out->codes.p,
                  out->meta.p);
        free(r.a);
    }
    kvr_st_close(&f);
    return allocated
               ? KVR_OK
               : kvr_fail(KVR_ENOMEM, "lowrank: out of memory while allocating a matrix of %d x %d",
                          g.d, g.d);
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
    .title = "stores each head's coordinates along the block's principal directions",
    .noise = kvr_noise_measured, /* the error in dropped directions is correlated between
                                  * channels */
};

const struct kvr_stage kvr_stage_principal = {
    .name = "principal",
    .title = "stores each head's coordinates along principal directions, which are computed from "
             "the block or calibrated",
    .kind = KVR_STAGE_GRID,
    .options = principal_options,
    .opts_size = sizeof(struct lowrank_opts),
    .deterministic = true,
    .check = check_basis,
    .layout = layout,
    .noise = kvr_noise_measured,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &cuda,
};
