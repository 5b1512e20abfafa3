/* nuq.c - the stages `nuq` and `kvquant` (KVQuant, arXiv:2401.18079): non-uniform quantization
 * levels, with the outliers of each vector in FP16. `nuq` fits the levels to each block. `kvquant`
 * may read them from a calibration file instead. The format is in nuq.h.
 *
 * Of a vector's n elements, n_outliers are outliers. The narrowest range lo .. hi that contains n -
 * n_outliers elements is quantized; on ties, the lowest such range. An element x is normalised to y
 * = (x - (lo + hi) / 2) / ((hi - lo) / 2). The levels are Lloyd centroids of y over all vectors.
 * Each element is weighted by the square of its vector's half range (hi - lo) / 2, which minimises
 * the squared error of x. The values y are collected in a histogram with integer weights, so the
 * result does not depend on the summation order. With norm=true, the levels for decoding are
 * rescaled so that the mean and variance of the quantized elements are preserved (KVQuant's
 * Q-Norm). Codes do not change.
 *
 * KVQuant fits levels, and the ranges of keys, to calibration texts, and weights elements by Fisher
 * information. Here ranges are always computed from the block. A calibration uses the weights
 * above, because gradients for Fisher weights are not available. Blocks in CUDA memory are encoded
 * on the host. */
#include "methods/codecs/nuq/nuq.h"

#include <stdlib.h>
#include <string.h>

#include "methods/kernels/calibration.h"
#include "methods/kernels/level_table.h"
#include "methods/kernels/pack.h"

enum { ROUNDS = 300, ROWS = 8 };

struct nuq_opts {
    int bits, axis;
    double exact;
    bool norm;
    char levels[KVR_OPT_STRING_MAX]; /* option of `kvquant` */
};
static const char *const axis_names[] = { "tokens", "token", NULL };
static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct nuq_opts, bits, 3, 1, 4, "bits per stored element"),
    KVR_OPT_ENUM(struct nuq_opts, axis, 0, axis_names,
                 "elements that share a quantization range: a channel over all tokens (tokens), or "
                 "a token over all heads (token)"),
    KVR_OPT_FLOAT(struct nuq_opts, exact, 0.01, 0, 0.5,
                  "fraction of the elements of each channel or token (option `axis`) that are "
                  "outliers, stored in FP16"),
    KVR_OPT_BOOL(
        struct nuq_opts, norm, false,
        "whether levels are adjusted to preserve the mean and variance of the block's elements"),
    { 0 }
};
static const struct kvr_opt kvquant_options[] = {
    KVR_OPT_INT(struct nuq_opts, bits, 3, 1, 4, "bits per stored element"),
    KVR_OPT_ENUM(struct nuq_opts, axis, 0, axis_names,
                 "elements that share a quantization range: a channel over all tokens (tokens), or "
                 "a token over all heads (token)"),
    KVR_OPT_FLOAT(struct nuq_opts, exact, 0.01, 0, 0.5,
                  "fraction of the elements of each channel or token (option `axis`) that are "
                  "outliers, stored in FP16"),
    KVR_OPT_BOOL(
        struct nuq_opts, norm, false,
        "whether levels are adjusted to preserve the mean and variance of the block's elements"),
    KVR_OPT_STRING(
        struct nuq_opts, levels, KVR_CALIBRATION_FIT,
        "quantization levels: fitted per block (fit), or a file from `kvreel profile levels`"),
    { 0 }
};

/* Returns whether the levels are read from a file, which only `kvquant` supports. */
static bool has_table(const struct nuq_opts *o)
{
    return kvr_calibration_is_file(o->levels);
}

static void nuq_measure(struct nuq *g, double exact)
{
    g->n_vectors = g->by_token ? g->n_tok : g->channels;
    g->length = g->by_token ? g->channels : g->n_tok;
    g->n_outliers = (int)rint(exact * (double)g->length);
}

static struct nuq nuq_of(const struct kvr_stage_job *job)
{
    const struct nuq_opts *o = job->opts;
    struct nuq g = {
        .bits = o->bits,
        .by_token = o->axis == 1,
        .n_tok = job->shape.n_tok,
        .channels = (int64_t)job->shape.n_heads * job->shape.head_dim,
    };

    nuq_measure(&g, o->exact);
    return g;
}

static enum kvr_status check_levels(const struct kvr_stage_job *job)
{
    return kvr_calibration_check("levels", ((const struct nuq_opts *)job->opts)->levels);
}

static int64_t at(const struct nuq *g, int64_t vector, int64_t i)
{
    return g->by_token ? vector * g->channels + i : i * g->channels + vector;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct nuq g = nuq_of(job);

    *out = (struct kvr_layout){
        .bytes = { .codes = kvr_pack_bytes(g.n_tok, g.channels, g.bits),
                   .meta = (size_t)nuq_value_at(&g, g.n_vectors, 0) },
        .form = KVR_FORM_OWN,
        .bits = g.bits,
        .n_tok = g.n_tok,
    };
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* Computes the range and the outliers of a vector and writes them to params. `sorted` [length] is
 * scratch. */
static void fit_vector(const struct nuq *g, const float *x, int64_t vector, float *sorted,
                       uint8_t *params)
{
    const int64_t n = g->length, coded = n - g->n_outliers;
    float lo = 0, hi = 0, middle, half;
    int64_t first = 0, extra = g->n_outliers;
    bool bad = false;

    for (int64_t i = 0; i < n; i++) {
        sorted[i] = x[at(g, vector, i)];
        bad = bad || (kvr_f32_bits(sorted[i]) & 0x7fffffffu) >= 0x7f800000u;
    }
    if (!bad && coded > 0) {
        qsort(sorted, (size_t)n, sizeof *sorted, ascending);
        for (int64_t i = 1; i <= g->n_outliers; i++)
            if (sorted[i + coded - 1] - sorted[i] < sorted[first + coded - 1] - sorted[first])
                first = i;
        lo = sorted[first];
        hi = sorted[first + coded - 1];
    }
    middle = bad ? NAN : 0.5f * lo + 0.5f * hi;
    half = bad ? NAN : 0.5f * hi - 0.5f * lo;
    cells_put(params, nuq_middle_at(g, vector), 2, cells_store(CELLS_F16, middle));
    cells_put(params, nuq_middle_at(g, vector) + 2, 2, cells_store(CELLS_F16, half));
    for (int64_t i = 0; i < n && !bad; i++)
        extra -= x[at(g, vector, i)] < lo || x[at(g, vector, i)] > hi;
    /* If several elements equal lo or hi, fewer than n_outliers elements are outside the range. The
     * first elements within the range then fill the list of outliers. */
    for (int64_t i = 0, k = 0; i < n && k < g->n_outliers; i++) {
        const float v = x[at(g, vector, i)];
        const bool far = !bad && (v < lo || v > hi);

        if (!far && extra <= 0)
            continue;
        extra -= !far;
        cells_put(params, nuq_index_at(g, vector, k), nuq_index_size(g), (unsigned)i);
        cells_put(params, nuq_value_at(g, vector, k), 2, cells_store(CELLS_F16, v));
        k++;
    }
}

static bool is_kept(const struct nuq *g, const uint8_t *params, int64_t vector, int64_t i,
                    int *next)
{
    const int size = nuq_index_size(g);

    while (*next < g->n_outliers &&
           (int64_t)cells_get(params, nuq_index_at(g, vector, *next), size) < i)
        ++*next;
    return *next < g->n_outliers &&
           (int64_t)cells_get(params, nuq_index_at(g, vector, *next), size) == i;
}

/* Returns y = (x - middle) / half, clamped to [-1, 1], or 0 if half is 0. */
static float relative(float x, float middle, float half)
{
    const float y = half > 0 ? (x - middle) / half : 0;

    return y < -1 ? -1 : y > 1 ? 1 : y;
}

/* Adds the quantized elements of all vectors, normalised to y in [-1, 1], to the histogram `bins`.
 * An element's weight is the square of its vector's half range, divided by that of the largest half
 * range. Returns the largest half range. */
static float count(const struct nuq *g, const float *x, const uint8_t *params, uint64_t *bins)
{
    float most = 0;

    for (int64_t v = 0; v < g->n_vectors; v++) {
        const float half = kvr_f16_to_f32((kvr_f16)cells_get(params, nuq_middle_at(g, v) + 2, 2));

        most = half > most ? half : most;
    }
    for (int64_t v = 0; v < g->n_vectors; v++) {
        const float middle = kvr_f16_to_f32((kvr_f16)cells_get(params, nuq_middle_at(g, v), 2));
        const float half = kvr_f16_to_f32((kvr_f16)cells_get(params, nuq_middle_at(g, v) + 2, 2));
        const double share = most > 0 ? (double)half / (double)most : 0;
        const uint64_t weight = half > 0 ? (uint64_t)(share * share * 0x1p20 + 0.5) : 0;
        int next = 0;

        for (int64_t i = 0; i < g->length && weight; i++) {
            const int bin = (int)((relative(x[at(g, v, i)], middle, half) + 1) * (NUQ_BINS / 2));

            if (!is_kept(g, params, v, i, &next))
                bins[bin < NUQ_BINS ? bin : NUQ_BINS - 1] += weight;
        }
    }
    return most;
}

static double centre(int bin)
{
    return (bin + 0.5) * 2 / NUQ_BINS - 1;
}

static int nearest(const double *level, int n, double y)
{
    int q = 0;

    for (int i = 0; i + 1 < n; i++)
        q += y >= 0.5 * (level[i] + level[i + 1]);
    return q;
}

/* Computes the weighted mean and standard deviation of the histogram, after quantization to `level`
 * [n], or without quantization if `level` is NULL. */
static void moments(const uint64_t *bins, const double *level, int n, double *mean, double *sd)
{
    double sum = 0, squares = 0, all = 0;

    for (int b = 0; b < NUQ_BINS; b++) {
        const double v = level ? level[nearest(level, n, centre(b))] : centre(b);

        all += (double)bins[b];
        sum += (double)bins[b] * v;
        squares += (double)bins[b] * v * v;
    }
    *mean = all > 0 ? sum / all : 0;
    *sd = all > 0 ? sqrt(fmax(squares / all - *mean * *mean, 0)) : 0;
}

void kvr_nuq_fit_levels(const uint64_t *bins, int n, double *level)
{
    bool moved = true;

    for (int q = 0; q < n; q++)
        level[q] = (2.0 * q + 1) / n - 1;
    for (int r = 0; r < ROUNDS && moved; r++) {
        double sum[NUQ_MAX_LEVELS] = { 0 }, all[NUQ_MAX_LEVELS] = { 0 };

        for (int b = 0; b < NUQ_BINS; b++) {
            const int q = nearest(level, n, centre(b));

            sum[q] += (double)bins[b] * centre(b);
            all[q] += (double)bins[b];
        }
        moved = false;
        for (int q = 0; q < n; q++) {
            const double mean = all[q] > 0 ? sum[q] / all[q] : level[q];

            moved = moved || mean != level[q];
            level[q] = mean;
        }
    }
}

/* For norm=true, computes the decoder's levels, the array `read` [n], from the encoder's levels,
 * the array `level` [n]. Decoded elements then have the histogram's mean and standard deviation. */
static void stretch_levels(const uint64_t *bins, int n, const double *level, double *read)
{
    double mean, sd, mean_read, sd_read;

    moments(bins, NULL, n, &mean, &sd);
    moments(bins, level, n, &mean_read, &sd_read);
    for (int q = 0; q < n; q++)
        read[q] = sd_read > 0 ? (level[q] - mean_read) * sd / sd_read + mean : level[q];
}

/* Computes the ranges and outliers of all vectors and writes them to params. */
static enum kvr_status fit_vectors(const struct nuq *g, const float *x, uint8_t *params)
{
    bool allocated = true;

#pragma omp parallel reduction(&& : allocated)
    {
        float *sorted = malloc((size_t)(g->length ? g->length : 1) * sizeof *sorted);

        allocated = allocated && sorted;
#pragma omp for schedule(static)
        for (int64_t v = 0; v < g->n_vectors; v++)
            if (sorted)
                fit_vector(g, x, v, sorted, params);
        free(sorted);
    }
    return allocated ? KVR_OK
                     : kvr_fail(KVR_ENOMEM,
                                "nuq: out of memory while allocating vectors of %lld elements",
                                (long long)g->length);
}

enum kvr_status kvr_nuq_count(struct nuq *g, double exact, const float *x, uint64_t *bins,
                              float *most)
{
    uint8_t *params;
    enum kvr_status st;

    nuq_measure(g, exact);
    params = malloc((size_t)nuq_value_at(g, g->n_vectors, 0));
    if (!params)
        return kvr_fail(KVR_ENOMEM, "nuq: out of memory while allocating %lld vectors",
                        (long long)g->n_vectors);
    st = fit_vectors(g, x, params);
    if (st == KVR_OK)
        *most = count(g, x, params, bins);
    free(params);
    return st;
}

/* Computes the levels or reads them from a file. Encoding uses the array `level` [2^bits], decoding
 * the array `read` [2^bits]. */
static enum kvr_status make_levels(const struct kvr_stage_job *job, const struct nuq *g,
                                   const float *x, const uint8_t *params, double *level,
                                   double *read)
{
    const struct nuq_opts *o = job->opts;
    const int n = 1 << g->bits;
    uint64_t *bins;

    if (has_table(o))
        KVR_TRY(kvr_level_table_read(o->levels, job->side, &job->place, n, level));
    if (!has_table(o) || o->norm) {
        bins = calloc(NUQ_BINS, sizeof *bins);
        if (!bins)
            return kvr_fail(KVR_ENOMEM, "nuq: out of memory");
        count(g, x, params, bins);
        if (!has_table(o))
            kvr_nuq_fit_levels(bins, n, level);
        if (o->norm)
            stretch_levels(bins, n, level, read);
        free(bins);
    }
    if (!o->norm)
        memcpy(read, level, (size_t)n * sizeof *read);
    return KVR_OK;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct nuq g = nuq_of(job);
    double level[NUQ_MAX_LEVELS] = { 0 }, read[NUQ_MAX_LEVELS];
    uint8_t *params = out->meta.p;

    KVR_TRY(fit_vectors(&g, x, params));
    KVR_TRY(make_levels(job, &g, x, params, level, read));
    for (int q = 0; q < 1 << g.bits; q++)
        cells_put(params, 4 * q, 4, kvr_f32_bits((float)read[q]));
#pragma omp parallel for schedule(static)
    for (int64_t t0 = 0; t0 < g.n_tok; t0 += ROWS)
        for (int64_t c = 0; c < g.channels; c++) {
            uint8_t codes[ROWS] = { 0 };
            int64_t rows = g.n_tok - t0 < ROWS ? g.n_tok - t0 : ROWS;

            for (int64_t r = 0; r < rows; r++) {
                const int64_t v = g.by_token ? t0 + r : c;
                const float middle =
                    kvr_f16_to_f32((kvr_f16)cells_get(params, nuq_middle_at(&g, v), 2));
                const float half =
                    kvr_f16_to_f32((kvr_f16)cells_get(params, nuq_middle_at(&g, v) + 2, 2));
                const float y = relative(x[(t0 + r) * g.channels + c], middle, half);

                codes[r] = (uint8_t)nearest(level, 1 << g.bits, (double)y);
            }
            kvr_pack(out->codes.p, g.n_tok, g.channels, g.bits, t0, rows, c, 1, codes);
        }
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    enum { PIECE = 64 };
    const struct nuq g = nuq_of(job);
    const int64_t first = (int64_t)h0 * job->shape.head_dim;
    const int64_t end = first + (int64_t)nh * job->shape.head_dim;
    uint8_t codes[PIECE];

    for (int64_t t = t0; t < t0 + n; t++)
        for (int64_t c = first, m; c < end; c += m) {
            m = end - c < PIECE ? end - c : PIECE;
            kvr_unpack_token(in->codes.p, g.n_tok, g.channels, g.bits, t, c, m, codes);
            for (int64_t i = 0; i < m; i++, out++) {
                const float v = nuq_value(&g, in->meta.p, t, c + i, codes[i]);

                kvr_part_put(mode, out, 0, v);
            }
        }
}

KVR_READ_CUDA(nuq)

const struct kvr_stage kvr_stage_nuq = {
    KVR_CODED_STAGE(nuq),
    .title = "non-uniform levels fitted to the block; outliers in FP16",
    .noise = kvr_noise_measured,
};

const struct kvr_stage kvr_stage_kvquant = {
    .name = "kvquant",
    .title = "non-uniform levels, fitted to the block or calibrated; outliers in FP16",
    .kind = KVR_STAGE_GRID,
    .options = kvquant_options,
    .opts_size = sizeof(struct nuq_opts),
    .deterministic = true,
    .check = check_levels,
    .layout = layout,
    .noise = kvr_noise_measured,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &cuda,
};
