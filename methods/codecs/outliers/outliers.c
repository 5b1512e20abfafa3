/* outliers.c - the stage `outliers`: stores elements whose magnitude exceeds `sigma` standard
 * deviations of the block in FP16, so that they do not widen the quantization ranges of the next
 * stage, the grid.
 *
 * An entry is an outlier's FP16 value, stored in `codes`, and its int32 index (t*H + h)*D + d,
 * stored in `meta`: 6 bytes per outlier. Indices ascend.
 *
 * An element x is an outlier if |x| exceeds the bound tau max(s, 1e-8), where tau is the option
 * `sigma` and s the population standard deviation of the block. The deviation s is computed in
 * double over pieces of fixed size, so it does not depend on the number of threads. If there are
 * more than max_ratio T H D outliers, only the largest are stored; of equal magnitudes, the ones
 * with lower indices. In place of an outlier, the grid encodes
 *
 *     left=fill    the last earlier value of the channel that is not an outlier; if there is none,
 *                  the first later one; 0 if all values of the channel are outliers
 *     left=clamp   the bound with the element's sign (the study's QAQ)
 *     left=keep    the outlier itself, which thus still widens the range (the study's TPTQ)
 *
 * In the study's variant with left=fill or left=clamp, s includes zeros that pad the block to a
 * multiple of 16 tokens, as in QAQ. With left=keep, s does not include them, as in TPTQ. In the
 * intended variant a value beyond the range of FP16 is stored as +-65504. In a block with a NaN or
 * an infinity, s is not finite and no element is an outlier. The grid then encodes the NaN or
 * infinity, and all elements that share its scale decode to NaN.
 *
 * On CUDA, encoding synchronises once, because the host must know the number of outliers to
 * allocate their buffers. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "methods/codecs/grid/grid_kernels.h"
#include "methods/codecs/outliers/outlier_kernels.h"
#include "methods/codecs/outliers/outliers_cuda.h"

struct outliers_opts {
    double sigma, max_ratio;
    int left;
};

/* Values of the option `left`, in the order of enum kvr_outliers_left. */
static const char *const left_names[] = { "fill", "clamp", "keep", NULL };
static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct outliers_opts, sigma, 6, 1, 1000,
                  "threshold of outliers, in standard deviations of the block's elements"),
    KVR_OPT_FLOAT(struct outliers_opts, max_ratio, 1, 0, 1,
                  "maximum fraction of elements that are stored as outliers"),
    KVR_OPT_ENUM(
        struct outliers_opts, left, KVR_LEFT_FILL, left_names,
        "what the next stage quantizes in place of an outlier: the channel's previous value "
        "(fill), the threshold (clamp) or the outlier itself (keep)"),
    { 0 }
};

/* The elements of a block are divided into PIECES pieces, which threads process in parallel. A
 * piece consists of whole spans of SPAN elements. */
enum { PIECES = 64, SPAN = KVR_OUTLIER_SPAN };

struct run {
    int64_t begin, end;
};

static struct run piece_of(int64_t n, int i)
{
    const int64_t spans = (n + SPAN - 1) / SPAN, each = (spans + PIECES - 1) / PIECES * SPAN;
    const int64_t begin = i * each, end = begin + each;

    return (struct run){ begin < n ? begin : n, end < n ? end : n };
}

static void merge(struct kvr_moments *a, struct kvr_moments b)
{
    const double n = a->n + b.n, diff = b.mean - a->mean;

    if (b.n == 0)
        return;
    a->m2 += b.m2 + diff * diff * (a->n * b.n / n);
    a->mean += diff * (b.n / n);
    a->n = n;
}

static float to_compute(double x, enum kvr_compute compute)
{
    return compute == KVR_COMPUTE_BF16 ? kvr_bf16_to_f32(kvr_f32_to_bf16((float)x)) : (float)x;
}

/* Returns the number of padding zeros that the standard deviation includes. */
static int64_t padded_elements(const struct kvr_stage_job *job)
{
    const struct outliers_opts *o = job->opts;
    const int64_t ragged = job->shape.n_tok % KVR_STUDY_BLOCK;

    if (!job->study || o->left == KVR_LEFT_KEEP || !ragged)
        return 0;
    return (KVR_STUDY_BLOCK - ragged) * job->shape.n_heads * job->shape.head_dim;
}

/* Returns values [e, e + n) in F32, where n <= SPAN. BF16 values are converted to `widened`, which
 * has SPAN floats. */
static const float *some_values(const struct kvr_values *x, int64_t e, int64_t n, float *widened)
{
    if (!x->bf16)
        return (const float *)x->p + e;
    kvr_to_f32(widened, (const kvr_bf16 *)x->p + e, KVR_BF16, (size_t)n);
    return widened;
}

static float value_at(const struct kvr_values *x, int64_t e)
{
    return x->bf16 ? kvr_bf16_to_f32(((const kvr_bf16 *)x->p)[e]) : ((const float *)x->p)[e];
}

/* Returns the bound of outliers for a variance of the block, or NaN if the bound is not finite. The
 * bound never decreases when the variance increases. */
static float bound_of_variance(const struct kvr_stage_job *job, double variance)
{
    const struct outliers_opts *o = job->opts;
    float sigma = to_compute(sqrt(variance), job->compute);

    if (!(sigma <= FLT_MAX))
        return NAN;
    if (sigma < 1e-8f)
        sigma = to_compute(1e-8, job->compute);
    return to_compute(o->sigma * (double)sigma, job->compute);
}

/* Returns the bound of outliers from the moments part[i] of the block's pieces, or NaN if the block
 * has a NaN or an infinity. */
static float bound_of(const struct kvr_stage_job *job, const struct kvr_moments part[PIECES])
{
    struct kvr_moments all = { 0 };

    for (int i = 0; i < PIECES; i++)
        merge(&all, part[i]);
    merge(&all, (struct kvr_moments){ .n = (double)padded_elements(job) });
    return bound_of_variance(job, all.m2 / all.n);
}

static float bound_of_block(const struct kvr_stage_job *job, const float *x, int64_t n)
{
    const struct kvr_outlier_kernels *k = kvr_outlier_kernels();
    struct kvr_moments part[PIECES] = { 0 };

#pragma omp parallel for schedule(static)
    for (int i = 0; i < PIECES; i++) {
        const struct run r = piece_of(n, i);

        for (int64_t e = r.begin; e < r.end; e += SPAN)
            merge(&part[i], k->moments(x + e, r.end - e < SPAN ? r.end - e : SPAN));
    }
    return bound_of(job, part);
}

/* A rule that selects outliers: all elements with |x| > bound and bits(|x|) > above, and the first
 * `ties` elements with bits(|x|) == above. For positive floats, comparing bits as integers is the
 * same as comparing values. */
struct choice {
    float bound;
    uint32_t above;
    int64_t ties;
};

static inline uint32_t magnitude(float x)
{
    return kvr_f32_bits(x) & 0x7fffffffu;
}

/* The elements of a piece whose magnitude exceeds `bound`, which are candidates for outliers. Their
 * indices are stored upwards from the start of the piece's scratch, their values downwards from its
 * end, until it is full. */
struct found {
    float bound;
    int64_t count;
    int32_t *index; /* [count] */
    float *last;    /* the value of candidate i is last[-i] */
    bool all;       /* false if the scratch was too small for all candidates */
};

/* Adds values whose magnitude exceeds f->bound to the candidates. `some` [m] has the values of
 * elements e to e + m - 1 of the block. */
static void find_some(struct found *f, const float *some, int64_t m, int64_t e)
{
    const struct kvr_outlier_kernels *k = kvr_outlier_kernels();
    const int64_t capacity = f->last - (float *)f->index + 1;
    int64_t n;

    if (!f->all)
        return;
    if (2 * (f->count + m) > capacity) {
        const int64_t more = k->count_over(some, m, f->bound);

        f->all = 2 * (f->count + more) <= capacity;
        if (!f->all)
            return;
    }
    n = k->list_over(some, m, f->bound, (int32_t)e, f->index + f->count);
    for (int64_t i = f->count; i < f->count + n; i++)
        f->last[-i] = some[f->index[i] - e];
    f->count += n;
}

static struct found none_found(struct run r, float bound, float *scratch)
{
    return (struct found){ .bound = bound,
                           .index = (int32_t *)scratch + r.begin,
                           .last = scratch + r.end - 1,
                           .all = true };
}

/* Prefetches the elements that follow [e, e + SPAN): at most SPAN elements, all before element
 * `end`. */
static void fetch_next(const struct kvr_values *x, int64_t e, int64_t end)
{
    const size_t size = x->bf16 ? sizeof(kvr_bf16) : sizeof(float);
    const int64_t next = e + SPAN, n = end - next < SPAN ? end - next : SPAN;

    if (n > 0)
        kvr_grid_fetch((const char *)x->p + (size_t)next * size, (size_t)n * size);
}

/* Computes the moments of a piece and lists the piece's candidates for outliers, in one pass. A
 * candidate's magnitude exceeds half of the bound that follows from the piece's first SPAN
 * elements. */
static void scan_piece(const struct kvr_stage_job *job, const struct kvr_values *x, struct run r,
                       float *scratch, struct kvr_moments *part, struct found *f)
{
    const struct outliers_opts *o = job->opts;
    const struct kvr_outlier_kernels *k = kvr_outlier_kernels();
    float widened[SPAN];

    for (int64_t e = r.begin; e < r.end; e += SPAN) {
        const int64_t m = r.end - e < SPAN ? r.end - e : SPAN;
        const float *some;

        fetch_next(x, e, r.end);
        some = some_values(x, e, m, widened);
        merge(part, k->moments(some, m));
        if (e == r.begin)
            *f = none_found(r, (float)(o->sigma / 2 * sqrt(part->m2 / part->n)), scratch);
        find_some(f, some, m, e);
    }
}

/* Returns a bound, computed from FP32 sums of n values, that selects the same BF16 values as the
 * exact bound. Returns NaN if rounding errors may matter. Let Q be the sum of squares, S the sum
 * and e = 2^-18. The error of Q is at most e Q and the error of S at most e sqrt(n Q). Hence the
 * error of Q - S^2 / n is less than 3.1 e Q, and that of the moments in double far less than .9 e
 * Q. Let m2 be the computed sum of squared deviations. The bounds that follow from m2 - 4 e Q and
 * from m2 + 4 e Q select the same values, unless a BF16 number lies between these bounds. Squares
 * below 2^-126 could underflow, so a small Q is rejected. */
static float bound_of_rough(const struct kvr_stage_job *job, struct kvr_rough all, int64_t n)
{
    const double total = (double)(n + padded_elements(job)), off = 4 * 0x1p-18 * all.square;
    const double m2 = all.square - all.sum * all.sum / total;
    float low, high;

    if (!(all.square >= 0x1p-60 * total && all.square <= 0x1p100))
        return NAN;
    low = bound_of_variance(job, m2 > off ? (m2 - off) / total : 0);
    high = bound_of_variance(job, (m2 + off) / total);
    return kvr_bits_f32(kvr_f32_bits(high) & 0xffff0000u) <= low ? high : NAN;
}

/* Adds BF16 values to the candidates: of the m values from element e on, the ones whose bit in
 * `over` is set. */
static void list_some(struct found *f, const kvr_bf16 *x, int64_t m, int64_t e,
                      const uint64_t *over)
{
    const int64_t capacity = f->last - (float *)f->index + 1, words = (m + 63) / 64;
    int64_t more = 0, at = f->count;

    if (f->all && 2 * (f->count + m) > capacity) {
        for (int64_t i = 0; i < words; i++)
            more += __builtin_popcountll(over[i]);
        f->all = 2 * (f->count + more) <= capacity;
    }
    if (!f->all)
        return;
    for (int64_t i = 0; i < words; i++)
        for (uint64_t some = over[i]; some; some &= some - 1) {
            const int64_t index = e + i * 64 + __builtin_ctzll(some);

            f->index[at] = (int32_t)index;
            f->last[-at++] = kvr_bf16_to_f32(x[index]);
        }
    f->count = at;
}

/* Computes the FP32 sums of a piece and lists the piece's candidates for outliers, in one pass.
 * Candidates are elements whose magnitude bits exceed `least`. */
static struct kvr_rough look_roughly(const struct kvr_values *x, struct run r, uint16_t least,
                                     float *scratch, struct found *f)
{
    const struct kvr_outlier_kernels *k = kvr_outlier_kernels();
    const kvr_bf16 *p = x->p;
    struct kvr_rough all = { 0 };
    uint64_t over[SPAN / 64];

    *f = none_found(r, kvr_bf16_to_f32(least), scratch);
    for (int64_t e = r.begin; e < r.end; e += SPAN) {
        const int64_t m = r.end - e < SPAN ? r.end - e : SPAN;
        struct kvr_rough some;

        fetch_next(x, e, r.end);
        some = k->rough(p + e, m, least, over);
        all.sum += some.sum;
        all.square += some.square;
        list_some(f, p, m, e, over);
    }
    return all;
}

/* Estimates the bound of outliers from the first SPAN elements of every eighth piece. Returns the
 * BF16 bits of three quarters of the estimate, which is probably below the exact bound. */
static uint16_t likely_bound(const struct kvr_stage_job *job, const struct kvr_values *x, int64_t n)
{
    const struct outliers_opts *o = job->opts;
    const struct kvr_outlier_kernels *k = kvr_outlier_kernels();
    struct kvr_rough all = { 0 };
    uint64_t over[SPAN / 64];
    double seen = 0;

    for (int i = 0; i < PIECES; i += PIECES / 8) {
        const struct run r = piece_of(n, i);
        const int64_t m = r.end - r.begin < SPAN ? r.end - r.begin : SPAN;

        if (m > 0) {
            const struct kvr_rough some =
                k->rough((const kvr_bf16 *)x->p + r.begin, m, 0x7fff, over);

            all.sum += some.sum;
            all.square += some.square;
            seen += (double)m;
        }
    }
    const double sigma = sqrt((all.square - all.sum * all.sum / seen) / seen);
    const float guess = (float)(.75 * o->sigma * sigma);

    return guess <= FLT_MAX ? (uint16_t)(kvr_f32_bits(guess) >> 16) : 0x7f7f;
}

/* Lists the candidates for outliers of every piece, in one pass over BF16 values. Returns the bound
 * of outliers, or NaN if FP32 sums are not accurate enough for this block. */
static float find_roughly(const struct kvr_stage_job *job, const struct kvr_values *x, int64_t n,
                          float *scratch, struct found found[PIECES])
{
    const uint16_t least = likely_bound(job, x, n);
    struct kvr_rough part[PIECES], all = { 0 };

#pragma omp parallel for schedule(static) if (n >= KVR_MIN_PARALLEL_ELEMENTS)
    for (int i = 0; i < PIECES; i++)
        part[i] = look_roughly(x, piece_of(n, i), least, scratch, &found[i]);
    for (int i = 0; i < PIECES; i++) {
        all.sum += part[i].sum;
        all.square += part[i].square;
    }
    return bound_of_rough(job, all, n);
}

/* Lists the candidates for outliers of every piece; x has F32 or BF16 values. Returns the bound of
 * outliers, computed from moments in double. */
static float find_exactly(const struct kvr_stage_job *job, const struct kvr_values *x, int64_t n,
                          float *scratch, struct found found[PIECES])
{
    struct kvr_moments part[PIECES] = { 0 };

#pragma omp parallel for schedule(static) if (n >= KVR_MIN_PARALLEL_ELEMENTS)
    for (int i = 0; i < PIECES; i++)
        scan_piece(job, x, piece_of(n, i), scratch, &part[i], &found[i]);
    return bound_of(job, part);
}

/* Removes candidates whose magnitude does not exceed `bound`. Lists them again, in another pass
 * over the piece, if the scratch was too small or the candidates' threshold f->bound is above
 * `bound`. Returns false if the scratch is again too small. */
static bool keep_those_beyond(const struct kvr_values *x, struct run r, float bound, float *scratch,
                              struct found *f)
{
    int64_t n_found = 0;

    if (!f->all || !(f->bound <= bound)) {
        float widened[SPAN];

        *f = none_found(r, bound, scratch);
        for (int64_t e = r.begin; e < r.end; e += SPAN) {
            const int64_t m = r.end - e < SPAN ? r.end - e : SPAN;

            find_some(f, some_values(x, e, m, widened), m, e);
        }
        return f->all;
    }
    for (int64_t i = 0; i < f->count; i++) {
        const int32_t index = f->index[i];
        const float value = f->last[-i];

        f->index[n_found] = index;
        f->last[-n_found] = value;
        n_found += fabsf(value) > bound;
    }
    f->count = n_found;
    f->bound = bound;
    return true;
}

static int64_t count_over(const float *x, int64_t n, float bound)
{
    const struct kvr_outlier_kernels *k = kvr_outlier_kernels();
    int64_t total = 0;

#pragma omp parallel for schedule(static) reduction(+ : total)
    for (int i = 0; i < PIECES; i++) {
        const struct run r = piece_of(n, i);

        total += k->count_over(x + r.begin, r.end - r.begin, bound);
    }
    return total;
}

/* Computes the histogram of bits [shift, shift + 8) of the magnitudes that exceed `bound` and whose
 * higher bits equal the higher bits of `prefix`. */
static void histogram(const float *x, int64_t n, float bound, int shift, uint32_t prefix,
                      int64_t bins[256])
{
    memset(bins, 0, 256 * sizeof *bins);
    for (int64_t e = 0; e < n; e++) {
        const uint32_t u = magnitude(x[e]);

        if (fabsf(x[e]) > bound && (shift == 24 || u >> (shift + 8) == prefix >> (shift + 8)))
            bins[(u >> shift) & 255]++;
    }
}

/* Sets c->above and c->ties so that c selects the `keep` largest magnitudes, by radix select with
 * eight bits per pass. */
static void choose_largest(const float *x, int64_t n, int64_t keep, struct choice *c)
{
    int64_t bins[256], left = keep;
    uint32_t prefix = 0;

    for (int shift = 24; shift >= 0; shift -= 8) {
        uint32_t b = 255;

        histogram(x, n, c->bound, shift, prefix, bins);
        for (; b > 0 && bins[b] < left; b--)
            left -= bins[b];
        prefix |= b << shift;
    }
    c->above = prefix;
    c->ties = left;
}

static kvr_f16 held_value(const struct kvr_stage_job *job, float x)
{
    const kvr_f16 h = kvr_f32_to_f16(x);

    return (h & 0x7fffu) == 0x7c00u && !job->study ? h - 1 : h; /* infinity to 65504 */
}

static void record(const struct kvr_stage_job *job, const float *x, int64_t n, struct choice c,
                   struct kvr_stage_data *out)
{
    const struct kvr_outlier_kernels *find = kvr_outlier_kernels();
    kvr_f16 *value = out->codes.p;
    int32_t *index = out->meta.p;

    for (int64_t e = 0, k = 0; k < out->n_entries; e++) {
        e += find->next_over(x + e, n - e, c.bound);
        if (e == n)
            return;
        const uint32_t u = magnitude(x[e]);

        if (u < c.above || (u == c.above && c.ties-- <= 0))
            continue;
        value[k] = held_value(job, x[e]);
        index[k++] = (int32_t)e;
    }
}

/* Returns the position in index [n] of the first entry that is at least `want`, or n if there is
 * none. */
static int64_t lower_bound(const int32_t *index, int64_t n, int64_t want)
{
    int64_t lo = 0;

    while (n > 0) {
        const int64_t half = n / 2;

        if (index[lo + half] < want) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

/* Replaces outliers in x for left=fill, in ascending order, so that the element of the previous
 * token is already replaced. */
static void fill(float *x, int64_t n, int64_t channels, const int32_t *index, int64_t n_exact)
{
    for (int64_t k = 0; k < n_exact; k++) {
        const int64_t e = index[k];
        int64_t next = e + channels;

        if (e >= channels) {
            x[e] = x[e - channels];
            continue;
        }
        for (; next < n; next += channels) {
            const int64_t at = lower_bound(index, n_exact, next);

            if (at == n_exact || index[at] != next)
                break;
        }
        x[e] = next < n ? x[next] : 0;
    }
}

static enum kvr_status check_size(int64_t n)
{
    return n <= INT32_MAX
               ? KVR_OK
               : kvr_fail(
                     KVR_EINVAL,
                     "outliers: a block has %lld elements, but a 32-bit index allows at most %d",
                     (long long)n, INT32_MAX);
}

static int64_t most_of(const struct outliers_opts *o, int64_t n)
{
    return (int64_t)(o->max_ratio * (double)n);
}

static enum kvr_status alloc_entries(struct kvr_stage_data *out, struct kvr_dev *dev,
                                     int64_t n_exact)
{
    KVR_TRY(kvr_buf_alloc_raw(&out->codes, dev, KVR_MEM_KV, (size_t)n_exact * sizeof(kvr_f16)));
    KVR_TRY(kvr_buf_alloc_raw(&out->meta, dev, KVR_MEM_META, (size_t)n_exact * sizeof(int32_t)));
    out->n_entries = n_exact;
    return KVR_OK;
}

static enum kvr_status outliers_encode(const struct kvr_stage_job *job, float *x,
                                       struct kvr_stage_data *out)
{
    const struct outliers_opts *o = job->opts;
    const int64_t channels = (int64_t)job->shape.n_heads * job->shape.head_dim;
    const int64_t n = job->shape.n_tok * channels;
    const int64_t most = most_of(o, n);
    struct choice c = { 0 };
    int64_t n_exact;

    KVR_TRY(check_size(n));
    c.bound = bound_of_block(job, x, n);
    n_exact = isnan(c.bound) ? 0 : count_over(x, n, c.bound);
    if (n_exact > most) {
        n_exact = most;
        if (most)
            choose_largest(x, n, most, &c);
    }
    KVR_TRY(alloc_entries(out, job->dev, n_exact));
    if (!n_exact)
        return KVR_OK;
    record(job, x, n, c, out);
    if (o->left == KVR_LEFT_FILL)
        fill(x, n, channels, out->meta.p, n_exact);
    for (int64_t k = 0; k < n_exact && o->left == KVR_LEFT_CLAMP; k++) {
        float *p = x + ((const int32_t *)out->meta.p)[k];

        *p = copysignf(c.bound, *p);
    }
    return KVR_OK;
}

/* Returns the first value that follows outlier index[at] in its channel and is not an outlier, or 0
 * if there is none. */
static float value_below(const struct kvr_values *x, int64_t n, int64_t channels,
                         const int32_t *index, int64_t n_exact, int64_t at)
{
    int64_t next = index[at] + channels;

    for (; next < n; next += channels) {
        const int64_t found = lower_bound(index, n_exact, next);

        if (found == n_exact || index[found] != next)
            break;
    }
    return next < n ? value_at(x, next) : 0;
}

/* Computes the array value [n_exact], which replaces the outliers index [n_exact] for left=fill,
 * and does not modify x. After the first token, an outlier is replaced by the previous token's
 * value in the same channel or, if that is an outlier too, by its replacement. The array last
 * [channels] is scratch for the latest outlier of each channel. A candidate occupies two words of
 * the scratch, which has one word per element, so n_exact is at most half the number of elements.
 * Therefore `value` and `last` fit into the scratch if there are at least two tokens. */
static void fill_values(const struct kvr_values *x, int64_t n, int64_t channels,
                        const int32_t *index, int64_t n_exact, float *value, int32_t *last)
{
    int64_t k = 0, row = 0;

    for (; k < n_exact && index[k] < channels; k++)
        value[k] = value_below(x, n, channels, index, n_exact, k);
    if (k == n_exact)
        return;
    memset(last, 0, (size_t)channels * sizeof *last);
    for (int64_t i = 0; i < k; i++)
        last[index[i]] = (int32_t)i;
    for (; k < n_exact; k++) {
        const int64_t e = index[k];
        int32_t *before;

        while (e >= row + channels)
            row += channels;
        before = &last[e - row];
        value[k] = index[*before] == e - channels ? value[*before] : value_at(x, e - channels);
        *before = (int32_t)k;
    }
}

static enum kvr_status outliers_find(const struct kvr_stage_job *job, const struct kvr_values *x,
                                     float *scratch, struct kvr_stage_data *out,
                                     struct kvr_instead *instead)
{
    const struct outliers_opts *o = job->opts;
    const int64_t channels = (int64_t)job->shape.n_heads * job->shape.head_dim;
    const int64_t n = job->shape.n_tok * channels, most = most_of(o, n);
    struct found found[PIECES] = { 0 };
    int64_t n_exact = 0;
    bool fits = true;
    float bound = NAN;

    *instead = (struct kvr_instead){ 0 };
    KVR_TRY(check_size(n));
    if (x->bf16 && o->left != KVR_LEFT_CLAMP)
        bound = find_roughly(job, x, n, scratch, found);
    if (isnan(bound))
        bound = find_exactly(job, x, n, scratch, found);
    for (int i = 0; i < PIECES && !isnan(bound); i++) {
        const struct run r = piece_of(n, i);

        fits = (r.begin == r.end || keep_those_beyond(x, r, bound, scratch, &found[i])) && fits;
        n_exact += found[i].count;
    }
    n_exact = isnan(bound) ? 0 : n_exact;
    if (!fits || n_exact > most) { /* rarely happens: the caller then copies x and calls `encode` */
        *instead = (struct kvr_instead){ .n = n };
        return KVR_OK;
    }
    KVR_TRY(alloc_entries(out, job->dev, n_exact));

    kvr_f16 *held = out->codes.p;
    int32_t *index = out->meta.p;
    float *value = scratch + n - n_exact;

    for (int i = 0, k = 0; i < PIECES && n_exact; i++)
        for (int64_t j = 0; j < found[i].count; j++, k++) {
            index[k] = found[i].index[j];
            held[k] = held_value(job, found[i].last[-j]);
        }
    if (o->left == KVR_LEFT_KEEP)
        return KVR_OK;
    *instead = (struct kvr_instead){ .at = index, .value = value, .n = n_exact };
    if (o->left == KVR_LEFT_FILL)
        fill_values(x, n, channels, index, n_exact, value, (int32_t *)scratch);
    for (int64_t k = 0; k < n_exact && o->left == KVR_LEFT_CLAMP; k++)
        value[k] = held[k] & 0x8000u ? -bound : bound;
    return KVR_OK;
}

/* ---- functions for kvr_once_encode(), which finds outliers and quantizes in one pass ----- */

static bool once_likely(const struct kvr_stage_job *job, const struct kvr_values *x, int64_t n,
                        uint16_t *least)
{
    const struct outliers_opts *o = job->opts;

    if (!x->bf16 || o->left != KVR_LEFT_FILL || n > INT32_MAX)
        return false;
    *least = likely_bound(job, x, n);
    return true;
}

static float once_bound(const struct kvr_stage_job *job, double sum, double square, int64_t n)
{
    return bound_of_rough(job, (struct kvr_rough){ sum, square }, n);
}

static enum kvr_status once_alloc(const struct kvr_stage_job *job, int64_t n, int64_t n_exact,
                                  struct kvr_stage_data *out, bool *fits)
{
    *fits = n_exact <= most_of(job->opts, n);
    return *fits ? alloc_entries(out, job->dev, n_exact) : KVR_OK;
}

static void once_hold(const struct kvr_stage_job *job, kvr_f16 *held, const float *x, int64_t n)
{
    kvr_from_f32(held, KVR_F16, x, (size_t)n);
    for (int64_t i = 0; i < n && !job->study; i++) /* infinity to 65504 */
        held[i] = (kvr_f16)(held[i] - ((held[i] & 0x7fffu) == 0x7c00u));
}

static const struct kvr_exact_once once = {
    .likely = once_likely,
    .bound = once_bound,
    .alloc = once_alloc,
    .hold = once_hold,
};

static void outliers_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                            int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                            float *out)
{
    const int d = job->shape.head_dim;
    const int64_t channels = (int64_t)job->shape.n_heads * d, end = (t0 + n) * channels;
    const kvr_f16 *value = in->codes.p;
    const int32_t *index = in->meta.p;

    (void)mode;
    for (int64_t k = lower_bound(index, in->n_entries, t0 * channels);
         k < in->n_entries && index[k] < end; k++) {
        const int64_t t = index[k] / channels - t0, c = index[k] % channels - (int64_t)h0 * d;

        if (c >= 0 && c < (int64_t)nh * d)
            out[t * nh * d + c] = to_compute((double)kvr_f16_to_f32(value[k]), job->compute);
    }
}

static void outliers_layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct kvr_block_shape *s = &job->shape;

    *out = (struct kvr_layout){
        .entry = { .codes = sizeof(kvr_f16), .meta = sizeof(int32_t) },
        .most_entries = most_of(job->opts, s->n_tok * s->n_heads * s->head_dim),
        .form = KVR_FORM_ENTRIES,
    };
}

static void outliers_noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                           struct kvr_coding_noise *out)
{
    (void)job;
    out->exact = in->meta.p;
    out->n_exact = in->n_entries;
}

/* Encodes on CUDA. `work` has kvr_outliers_work_bytes. */
static enum kvr_status take_on_cuda(const struct kvr_outliers_rule *rule, struct kvr_dev *dev,
                                    float *x, void *work, struct kvr_stage_data *out)
{
    struct kvr_stream *s = kvr_dev_stream(dev);
    int64_t n_exact;

    kvr_outliers_find_cuda(s, rule, x, work);
    /* reports errors of the kernels before the host reads the number of outliers */
    KVR_TRY(kvr_dev_sync(dev));
    KVR_TRY(kvr_dev_get(dev, &n_exact, kvr_outliers_count(work), sizeof n_exact));
    KVR_TRY(alloc_entries(out, dev, n_exact));
    kvr_outliers_take_cuda(s, rule, x, work, n_exact, out->codes.p, out->meta.p);
    return KVR_OK;
}

static enum kvr_status outliers_encode_cuda(const struct kvr_stage_job *job, float *x,
                                            struct kvr_stage_data *out)
{
    const struct outliers_opts *o = job->opts;
    const int64_t channels = (int64_t)job->shape.n_heads * job->shape.head_dim;
    const int64_t n = job->shape.n_tok * channels;
    const struct kvr_outliers_rule rule = {
        .sigma = o->sigma,
        .most = most_of(o, n),
        .n = n,
        .channels = channels,
        .padded = padded_elements(job),
        .left = (enum kvr_outliers_left)o->left,
        .study = job->study,
        .compute = job->compute,
    };
    struct kvr_buf work = { 0 };
    enum kvr_status st;

    KVR_TRY(check_size(n));
    if (!n)
        return KVR_OK;
    KVR_TRY(kvr_buf_alloc(&work, job->dev, KVR_MEM_SCRATCH, kvr_outliers_work_bytes(&rule)));
    st = take_on_cuda(&rule, job->dev, x, work.p, out);
    kvr_buf_free(&work); /* freed in stream order, after the kernels that use it */
    return st;
}

static void outliers_decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                                 int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                                 float *out)
{
    (void)mode;
    kvr_outliers_put_cuda(kvr_dev_stream(job->dev), &job->shape, job->compute, in->codes.p,
                          in->meta.p, in->n_entries, t0, n, h0, nh, out);
}

static const struct kvr_stage_ops cuda = {
    .encode = outliers_encode_cuda,
    .decode = outliers_decode_cuda,
};

const struct kvr_stage kvr_stage_outliers = {
    .name = "outliers",
    .title = "stores elements that exceed `sigma` standard deviations in FP16",
    .kind = KVR_STAGE_EXACT,
    .options = options,
    .opts_size = sizeof(struct outliers_opts),
    .deterministic = true,
    .idempotent = false, /* decoded values have another standard deviation */
    .layout = outliers_layout,
    .noise = outliers_noise,
    .cpu = { .encode = outliers_encode,
             .decode = outliers_decode,
             .find = outliers_find,
             .once = &once },
    .cuda = &cuda,
};
