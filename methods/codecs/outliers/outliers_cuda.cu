/* outliers_cuda.cu - finds the outliers of a block, stores them in the order of their indices, and
 * restores them.
 *
 * Normally the kernels read the block only once. First, outlier_guess estimates the outlier bound
 * from samples; an element whose magnitude exceeds the bound is an outlier. Then outlier_moments
 * computes the moments of every span of SPAN elements, and lists the span's candidates, whose
 * magnitudes exceed the estimate. The kernels outlier_count and outlier_record then read only the
 * candidates. If a span has more than ROOM candidates, outlier_count and outlier_record read the
 * whole span again. If the exact outlier bound is below the estimate, outlier_count and
 * outlier_record read all spans again. */
#include "methods/codecs/outliers/outliers_cuda.h"

#include <cfloat>

#include "harness/device/number.cuh"
#include "harness/device/vector.cuh"
#include "methods/kernels/block_scan.cuh"

/* To add in the same order as the CPU, the kernels divide the block into PIECES pieces of whole
 * spans of SPAN elements. A span's sums of x and of x^2 are each the sum of LANES partial sums. */
enum {
    PIECES = 64,
    SPAN = 1024,
    LANES = 16,
    THREADS = 256,
    WARPS = THREADS / 32,
    SPANS_AT_ONCE = THREADS / LANES,
    AHEAD = 8, /* number of loads in flight per thread */
    OFFSET_THREADS = 512,
    SAMPLES = 16, /* number of spans from which the bound is estimated */
    ROOM = 32     /* maximum number of candidates in a span's list (one per lane of a warp) */
};
static_assert(SPAN % (AHEAD * LANES) == 0, "the loads of a span");

struct moments {
    double n, mean, m2;
};

static_assert(sizeof(struct moments) % 8 == 0, "what follows it in `work` is aligned");

/* Selects the stored outliers among the elements with |x| > bound: all elements with bits(|x|) >
 * above, and the first `ties` elements with bits(|x|) == above. Here bits(x) is the bit pattern of
 * the float x as an integer. */
struct choice {
    int64_t n_outliers; /* number of elements that are stored as outliers */
    int64_t over;       /* number of elements with |x| > bound; only radix select computes it */
    int64_t ties;
    float bound; /* exact outlier bound, or NaN if the standard deviation is not finite */
    /* smallest bits(|x|) of a stored outlier, or 0 if all elements with |x| > bound are stored */
    unsigned above;
    float guess; /* estimate of the bound; elements with |x| > guess are candidates */
};

/* A candidate: an element that may be an outlier. */
struct candidate {
    float x;
    int32_t at; /* index of the element in its span */
};

/* The buffer `work` contains, in this order, a struct choice, the histogram bins [256], moments
 * [spans], counts [spans], candidates [spans][ROOM] and listed [spans]. The array `listed` contains
 * the number of candidates of every span. */
struct counts {
    /* The kernel outlier_count counts the elements of a span whose magnitude |x| exceeds the
     * outlier bound. It sets `above` to the number with bits(|x|) > choice.above, and `ties` to the
     * number with bits(|x|) == choice.above (struct choice). The kernel outlier_offsets then
     * replaces `above` by the number of outliers that all earlier spans store, and `ties` by the
     * number of ties in all earlier spans. */
    int64_t above, ties;
};
struct work {
    struct choice *choice;
    int *bins;
    struct moments *moments;
    struct counts *counts;
    struct candidate *candidates;
    int *listed;
    int64_t spans;
};

/* The following functions return the byte offsets of the arrays in the buffer `work`. */
static size_t bins_at()
{
    return sizeof(struct choice);
}

static size_t moments_at()
{
    return bins_at() + 256 * sizeof(int);
}

static int64_t spans_of(const struct kvr_outliers_rule *r)
{
    return (r->n + SPAN - 1) / SPAN;
}

static size_t counts_at(const struct kvr_outliers_rule *r)
{
    return moments_at() + (size_t)spans_of(r) * sizeof(struct moments);
}

static size_t candidates_at(const struct kvr_outliers_rule *r)
{
    return counts_at(r) + (size_t)spans_of(r) * sizeof(struct counts);
}

static size_t listed_at(const struct kvr_outliers_rule *r)
{
    return candidates_at(r) + (size_t)spans_of(r) * ROOM * sizeof(struct candidate);
}

size_t kvr_outliers_work_bytes(const struct kvr_outliers_rule *r)
{
    return listed_at(r) + (size_t)spans_of(r) * sizeof(int);
}

static struct work work_of(const struct kvr_outliers_rule *r, const void *p)
{
    char *at = (char *)p;
    struct work w;

    w.spans = spans_of(r);
    w.choice = (struct choice *)at;
    w.bins = (int *)(at + bins_at());
    w.moments = (struct moments *)(at + moments_at());
    w.counts = (struct counts *)(at + counts_at(r));
    w.candidates = (struct candidate *)(at + candidates_at(r));
    w.listed = (int *)(at + listed_at(r));
    return w;
}

const void *kvr_outliers_count(const void *work)
{
    return &((const struct choice *)work)->n_outliers;
}

static __device__ __forceinline__ unsigned magnitude(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

static __device__ __forceinline__ float to_compute(double x, bool bf16)
{
    return bf16 ? kvr_round_bf16((float)x) : (float)x;
}

/* A lane reads 4 consecutive elements at a time (EACH), and a warp reads 128 (GROUP). Elements past
 * the end of the block read as 0, which is never an outlier. */
enum { EACH = 4, GROUP = 32 * EACH };

static __device__ __forceinline__ kvr_vec<float, EACH> own(int64_t n, kvr_global<const float> x,
                                                           int64_t e)
{
    kvr_vec<float, EACH> v;

    if (e + EACH <= n)
        return kvr_as<const kvr_vec<float, EACH>>(x)[e / EACH];
    for (int i = 0; i < EACH; i++)
        v.v[i] = e + i < n ? (float)x[e + i] : 0.0f;
    return v;
}

/* Estimates the outlier bound from sampled spans. The exact bound is `sigmas` times the standard
 * deviation of the block. The estimate is 0.75 * `sigmas` times the standard deviation of the
 * samples. The factor 0.75 makes it unlikely that the estimate exceeds the exact bound. The
 * estimate affects only the speed, not the selected outliers. A single CTA runs, with one warp per
 * sampled span. */
static __global__ void __launch_bounds__(32 * SAMPLES)
    outlier_guess(int64_t n, int64_t spans, float sigmas, kvr_global<const float> x,
                  kvr_global<struct choice> out)
{
    KVR_SHARED(float, sums, SAMPLES);
    KVR_SHARED(float, squares, SAMPLES);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t first = spans * warp / SAMPLES * SPAN;
    float sum = 0, square = 0;

#pragma unroll
    for (int g = 0; g < SPAN; g += GROUP) {
        const auto v = own(n, x, first + g + lane * EACH);

#pragma unroll
        for (int i = 0; i < EACH; i++) {
            sum += v.v[i];
            square = fmaf(v.v[i], v.v[i], square);
        }
    }
    for (int h = 16; h; h /= 2) {
        sum += __shfl_xor_sync(~0u, sum, h);
        square += __shfl_xor_sync(~0u, square, h);
    }
    if (!lane) {
        sums[warp] = sum;
        squares[warp] = square;
    }
    __syncthreads();
    if (threadIdx.x)
        return;
    sum = square = 0;
    for (int w = 0; w < SAMPLES; w++) {
        sum += sums[w];
        square += squares[w];
    }
    const float share = 1.0f / (SAMPLES * SPAN), mean = sum * share;
    const float guess = 0.75f * sigmas * sqrtf(square * share - mean * mean);
    struct choice c = { 0, 0, 0, NAN, 0, guess <= FLT_MAX ? guess : INFINITY };

    out[0] = c;
}

/* Results so far of one of the LANES threads that together compute a span's sums and candidates. */
struct seen {
    double sum, square; /* sums of x and of x^2 over the thread's elements */
    int n;              /* number of candidates of the span so far */
};

/* Adds element `at` of a span to the thread's sums. If the element is a candidate, the function
 * appends it to the span's list `listed`, which is in the order of elements. */
static __device__ __forceinline__ void see(float v, int at, float guess, int lane, bool some,
                                           kvr_global<struct candidate> listed, struct seen &s)
{
    const double d = v;
    const bool over = fabsf(v) > guess;

    s.sum += d;
    s.square += d * d;
    const unsigned all = some ? __ballot_sync(~0u, over) : (unsigned)over << (threadIdx.x & 16u);

    if (!all) /* no lane has a candidate, which is the common case */
        return;
    const unsigned mine = all >> (threadIdx.x & 16u) & 0xffffu;
    const int to = s.n + __popc((int)(mine & ((1u << lane) - 1u)));

    if (over && to < ROOM)
        listed[to] = candidate{ v, at };
    s.n += __popc((int)mine);
}

/* Computes the moments and the candidates of every span. LANES threads compute partial sums of a
 * span, and the first of these threads adds them. */
static __global__ void __launch_bounds__(THREADS)
    outlier_moments(int64_t n, kvr_global<const float> x, kvr_global<const struct choice> choice,
                    kvr_global<struct moments> out, kvr_global<struct candidate> candidates,
                    kvr_global<int> listed)
{
    KVR_SHARED(double, sums, THREADS);
    KVR_SHARED(double, squares, THREADS);
    const int lane = (int)threadIdx.x % LANES, mine = (int)threadIdx.x / LANES;
    const int64_t span = (int64_t)blockIdx.x * SPANS_AT_ONCE + mine, begin = span * SPAN;
    const int64_t left = begin < n ? n - begin : 0;
    const int size = left < SPAN ? (int)left : SPAN, whole = size / LANES * LANES;
    const kvr_global<struct candidate> to = candidates + span * ROOM;
    const struct choice c = choice[0];
    struct seen s = { 0, 0, 0 };

#pragma unroll 1
    for (int i = lane; i < SPAN; i += AHEAD * LANES) {
        float v[AHEAD];

#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = i + j * LANES < whole ? (float)x[begin + i + j * LANES] : 0.0f;
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            see(v[j], i + j * LANES, c.guess, lane, true, to, s);
    }
    for (int i = whole; i < size && !lane; i++)
        see(x[begin + i], i, c.guess, lane, false, to, s);
    sums[threadIdx.x] = s.sum;
    squares[threadIdx.x] = s.square;
    __syncthreads();
    if (!lane && size) {
        double sum = 0, square = 0;
        struct moments m = { (double)size, 0, 0 };

        for (int j = 0; j < LANES; j++) {
            sum += sums[mine * LANES + j];
            square += squares[mine * LANES + j];
        }
        m.mean = sum / m.n;
        m.m2 = square - sum * m.mean;
        m.m2 = m.m2 < 0 ? 0 : m.m2;
        out[span] = m;
        listed[span] = s.n;
    }
}

/* Weights for merging the moments of n_b elements into the moments of n_a elements (Chan, Golub and
 * LeVeque, 1979). The weights do not depend on the data. Therefore the threads compute the weights
 * of many merges in parallel, before one thread merges the moments. */
struct weights {
    double of_m2, of_mean;
};

static __device__ __forceinline__ struct weights weights_of(double n_a, double n_b)
{
    const double n = n_a + n_b;

    return { n_a * n_b / n, n_b / n };
}

static __device__ __forceinline__ void merge(struct moments &a, double mean, double m2,
                                             const struct weights &w)
{
    const double diff = mean - a.mean;

    a.m2 += m2 + diff * diff * w.of_m2;
    a.mean += diff * w.of_mean;
}

/* Computes the bound. A single CTA merges the moments of all spans of each piece, and then the
 * moments of the PIECES pieces, in the same order as the CPU. Each piece has OF_PIECE threads,
 * which load moments and compute the merge weights (struct weights) in parallel. The first thread
 * of each piece merges the moments. */
enum { OF_PIECE = 8, BOUND_THREADS = PIECES * OF_PIECE };

static __global__ void __launch_bounds__(BOUND_THREADS)
    outlier_bound(int64_t n, int64_t spans, double padded, double sigmas, bool bf16,
                  kvr_global<const struct moments> part, kvr_global<struct choice> out,
                  kvr_global<int> bins)
{
    KVR_SHARED(double, mean, BOUND_THREADS);
    KVR_SHARED(double, m2, BOUND_THREADS);
    KVR_SHARED(struct weights, weight, BOUND_THREADS);
    const int self = (int)threadIdx.x, piece = self / OF_PIECE, mine = self % OF_PIECE;
    const int64_t each = (spans + PIECES - 1) / PIECES, first = piece * each;
    const int64_t end = first + each < spans ? first + each : spans;
    struct moments m = { 0, 0, 0 };

    if (self < 256)
        bins[self] = 0;
    /* All threads run the same number of iterations, because each iteration contains barriers. */
    for (int64_t at = 0; at < each; at += OF_PIECE) {
        const int64_t i = first + at + mine;

        if (i < end) {
            const struct moments here = part[i];

            mean[self] = here.mean;
            m2[self] = here.m2;
            weight[self] = weights_of((double)((at + mine) * SPAN), here.n);
        }
        __syncthreads();
        if (!mine)
            for (int k = 0; k < OF_PIECE && i + k < end; k++)
                merge(m, mean[self + k], m2[self + k], weight[self + k]);
        __syncthreads();
    }
    if (!mine) {
        /* The piece that this thread has merged consists of the elements [before, behind) of the
         * block. Only the last span of the block may have fewer than SPAN elements. */
        const int64_t before = first * SPAN < n ? first * SPAN : n;
        const int64_t to = first < end ? end * SPAN : before, behind = to < n ? to : n;

        mean[piece] = m.mean;
        m2[piece] = m.m2;
        weight[piece] = weights_of((double)before, (double)(behind - before));
    }
    __syncthreads();
    if (!self) {
        /* The kernel outlier_guess has set out[0].guess, and has set out[0].bound to NaN. The bound
         * remains NaN if the standard deviation is not finite; no element is then an outlier. */
        struct choice c = out[0];
        struct moments all = { (double)n + padded, 0, 0 };
        float sigma;

        /* if the block has few spans, the last pieces are empty, and the loop does not merge
         * them */
        for (int i = 0; i * each < spans; i++)
            merge(all, mean[i], m2[i], weight[i]);
        if (padded > 0)
            merge(all, 0, 0, weights_of((double)n, padded));
        sigma = to_compute(sqrt(all.m2 / all.n), bf16);
        if (sigma <= FLT_MAX) {
            sigma = sigma < 1e-8f ? to_compute(1e-8, bf16) : sigma;
            c.bound = to_compute(sigmas * (double)sigma, bf16);
        }
        out[0] = c;
    }
}

/* Class of an element whose magnitude |x| exceeds the outlier bound: `above` if bits(|x|) >
 * choice.above, and `tied` if bits(|x|) == choice.above. For all other elements, both fields are
 * false. */
struct outlier_class {
    bool above, tied;
};

static __device__ __forceinline__ struct outlier_class classify(const struct choice &c, float x)
{
    const bool over = fabsf(x) > c.bound;

    return { over && magnitude(x) > c.above, over && magnitude(x) == c.above };
}

/* Returns whether a span's list of candidates contains all outliers of the span. */
static __device__ __forceinline__ bool is_listed(const struct choice &c, int listed)
{
    return c.guess <= c.bound && listed <= ROOM;
}

/* Returns entry `lane` of the list of candidates of span `span`. If the list is shorter, the
 * function returns an element with the value 0. */
static __device__ __forceinline__ struct candidate
candidate_of(kvr_global<const struct candidate> candidates, int64_t span, int listed, int lane)
{
    struct candidate k = { 0, 0 };

    if (lane < listed)
        k = candidates[span * ROOM + lane];
    return k;
}

/* Counts in every span the elements whose magnitude bits exceed choice.above (`above`) or equal it
 * (`tied`). Each warp processes one span. */
static __global__ void __launch_bounds__(THREADS)
    outlier_count(int64_t n, int64_t spans, kvr_global<const float> x,
                  kvr_global<const struct choice> choice,
                  kvr_global<const struct candidate> candidates, kvr_global<const int> listed,
                  kvr_global<struct counts> out)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t span = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int n_above = 0, n_ties = 0;

    if (span >= spans)
        return;
    const struct choice c = choice[0];
    const int n_listed = listed[span];

    if (is_listed(c, n_listed)) {
        const struct outlier_class t =
            classify(c, candidate_of(candidates, span, n_listed, lane).x);

        n_above = t.above;
        n_ties = t.tied;
    } else {
#pragma unroll
        for (int g = 0; g < SPAN; g += GROUP) {
            const auto v = own(n, x, span * SPAN + g + lane * EACH);

#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const struct outlier_class t = classify(c, v.v[i]);

                n_above += t.above;
                n_ties += t.tied;
            }
        }
    }
    n_above = __reduce_add_sync(~0u, n_above);
    n_ties = __reduce_add_sync(~0u, n_ties);
    if (!lane) {
        const struct counts k = { n_above, n_ties };

        out[span] = k;
    }
}

static __device__ __forceinline__ int64_t clamp_ties(int64_t ties, int64_t before, int64_t all)
{
    const int64_t left = all > before ? all - before : 0;

    return ties < left ? ties : left;
}

/* A single CTA computes, by an exclusive scan over the spans, at which offset each span stores its
 * outliers. The CTA also computes the total number of outliers. */
static __global__ void __launch_bounds__(OFFSET_THREADS)
    outlier_offsets(int64_t spans, kvr_global<struct counts> counts,
                    kvr_global<struct choice> choice)
{
    KVR_SHARED(int64_t, warps, 33);
    const int64_t each = (spans + OFFSET_THREADS - 1) / OFFSET_THREADS, begin = threadIdx.x * each;
    const int64_t end = begin + each < spans ? begin + each : spans;
    struct choice c = choice[0];
    const int64_t ties = c.ties;
    int64_t n_ties = 0, n_kept = 0, before_ties, before, all;

    for (int64_t i = begin; i < end; i++) {
        const struct counts k = counts[i];

        n_ties += k.ties;
    }
    before_ties = kvr_block_scan(n_ties, warps, &all);
    n_ties = before_ties;
    for (int64_t i = begin; i < end; i++) {
        const struct counts k = counts[i];

        n_kept += k.above + clamp_ties(k.ties, n_ties, ties);
        n_ties += k.ties;
    }
    before = kvr_block_scan(n_kept, warps, &all);
    for (int64_t i = begin; i < end; i++) {
        const struct counts k = counts[i];
        const struct counts first = { before, before_ties };

        counts[i] = first;
        before += k.above + clamp_ties(k.ties, before_ties, ties);
        before_ties += k.ties;
    }
    if (threadIdx.x == 0) {
        c.n_outliers = all;
        choice[0] = c;
    }
}

/* Radix select, first kernel: computes the histogram of bits [shift, shift + 8) of magnitudes. The
 * histogram includes only magnitudes that exceed the outlier bound and whose bits from shift + 8 up
 * equal those of choice.above. Earlier launches of outlier_narrow have selected these bits. */
static __global__ void __launch_bounds__(THREADS)
    outlier_histogram(int64_t n, int shift, int64_t most, kvr_global<const float> x,
                      kvr_global<const struct choice> choice, kvr_global<int> bins)
{
    KVR_SHARED(int, mine, 256);
    const struct choice c = choice[0];

    if (shift < 24 && c.over <= most)
        return; /* no selection is needed, because all elements beyond the bound are stored */
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x; e < n;
         e += (int64_t)gridDim.x * THREADS) {
        const float v = x[e];
        const unsigned u = magnitude(v);

        if (fabsf(v) > c.bound && (shift == 24 || u >> (shift + 8) == c.above >> (shift + 8)))
            atomicAdd(mine + ((u >> shift) & 255u), 1);
    }
    __syncthreads();
    if (mine[threadIdx.x])
        atomicAdd(bins + threadIdx.x, (int)mine[threadIdx.x]);
}

/* Radix select, second kernel: finds the histogram bin that contains the smallest magnitude of a
 * stored outlier. A single CTA runs, with one thread per bin. The kernel also clears the bins for
 * the next histogram. */
static __global__ void __launch_bounds__(256)
    outlier_narrow(int shift, int64_t most, kvr_global<int> bins, kvr_global<struct choice> choice)
{
    KVR_SHARED(int64_t, warps, 33);
    /* the histogram bin of this thread; thread 0 has bin 255, which counts the largest
     * magnitudes */
    const unsigned b = 255u - threadIdx.x;
    struct choice c = choice[0];
    const int mine = bins[b];
    int64_t all;
    const int64_t above = kvr_block_scan(mine, warps, &all);

    bins[b] = 0;
    if (shift == 24) {
        c.over = all;
        c.ties = most;
    }
    if (c.over <= most) {
        c.ties = 0; /* c.above is 0, so all elements with |x| > bound are stored */
        if (!b)
            choice[0] = c;
        return;
    }
    /* Here c.ties is the number of outliers still to be selected. Select the bin at which the
     * cumulative count of elements, from bin 255 down, reaches c.ties. If this count never reaches
     * c.ties, select bin 0. */
    if ((above < c.ties || b == 255) && (above + mine >= c.ties || !b)) {
        c.ties -= above;
        c.above |= b << shift;
        choice[0] = c;
    }
}

/* Returns the sum of v over the lanes with a lower index, and stores the sum over all lanes in
 * *total. */
static __device__ __forceinline__ int lower_lanes(int v, int lane, int *total)
{
    int sum = v;

    for (int h = 1; h < 32; h *= 2) {
        const int before = __shfl_up_sync(~0u, sum, (unsigned)h);

        sum += lane >= h ? before : 0;
    }
    *total = __shfl_sync(~0u, sum, 31);
    return sum - v;
}

/* The number of stored outliers (`at`) and the number of tied elements (`ties`) that precede, in
 * the block, the next element that record() processes. */
struct next {
    int64_t at, ties;
};

/* Stores the outliers among N consecutive elements per lane; e is the index of the lane's first
 * element in the block. The elements of lower lanes precede the elements of higher lanes. */
template <int N>
static __device__ __forceinline__ void
record(const struct choice &c, bool study, const kvr_vec<float, N> &v, int64_t e, int lane,
       kvr_global<kvr_f16> values, kvr_global<int32_t> indices, struct next &next)
{
    struct outlier_class t[N];
    int n_ties = 0, n_kept = 0, all;

#pragma unroll
    for (int i = 0; i < N; i++) {
        t[i] = classify(c, v.v[i]);
        n_ties += t[i].tied;
    }
    /* of all tied elements of the block (struct outlier_class), only the first c.ties are stored as
     * outliers; c.ties is the same in all lanes, so the branch does not diverge */
    if (c.ties) {
        int64_t rank = next.ties + lower_lanes(n_ties, lane, &all);

        next.ties += all;
#pragma unroll
        for (int i = 0; i < N; i++) {
            t[i].above = t[i].above || (t[i].tied && rank < c.ties);
            rank += t[i].tied;
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        n_kept += t[i].above;
    int64_t at = next.at + lower_lanes(n_kept, lane, &all);

    next.at += all;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (t[i].above) {
            const kvr_f16 h = kvr_half_of(v.v[i]);

            /* An outlier that overflows FP16 is stored as +-65504, or as an infinity in methods
             * named NAME@study. */
            values[at] = (h & 0x7fffu) == 0x7c00u && !study ? (kvr_f16)(h - 1) : h;
            indices[at++] = (int32_t)(e + i);
        }
}

/* Stores the outliers of every span in the order of their indices. Each warp processes one span. */
static __global__ void __launch_bounds__(THREADS)
    outlier_record(int64_t n, int64_t spans, bool study, kvr_global<const float> x,
                   kvr_global<const struct choice> choice, kvr_global<const struct counts> counts,
                   kvr_global<const struct candidate> candidates, kvr_global<const int> listed,
                   kvr_global<kvr_f16> values, kvr_global<int32_t> indices)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t span = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;

    if (span >= spans)
        return;
    const struct choice c = choice[0];
    const struct counts before = counts[span];
    const int n_listed = listed[span];
    struct next next = { before.above, before.ties };

    if (is_listed(c, n_listed)) {
        const struct candidate k = candidate_of(candidates, span, n_listed, lane);
        const kvr_vec<float, 1> v = { { k.x } };

        record(c, study, v, span * SPAN + k.at, lane, values, indices, next);
        return;
    }
#pragma unroll 1
    for (int g = 0; g < SPAN; g += GROUP) {
        const int64_t e = span * SPAN + g + lane * EACH;

        record(c, study, own(n, x, e), e, lane, values, indices, next);
    }
}

/* Returns the position of the first entry of `index` that is not less than `want`. */
static __device__ __forceinline__ int64_t lower_bound(kvr_global<const int32_t> index, int64_t n,
                                                      int64_t want)
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

static __device__ __forceinline__ bool is_kept(kvr_global<const int32_t> index, int64_t n_exact,
                                               int64_t e)
{
    const int64_t at = lower_bound(index, n_exact, e);

    return at < n_exact && index[at] == e;
}

/* Replaces the outliers in x by values that the next stage can quantize. With KVR_LEFT_CLAMP, the
 * new value is the outlier bound with the outlier's sign. Otherwise it is the nearest earlier value
 * of the channel that is not an outlier, else the nearest later such value, or 0 if there is none.
 * The kernel writes only outliers and reads only other elements, so the order of threads does not
 * matter. */
static __global__ void __launch_bounds__(THREADS)
    outlier_leave(struct kvr_outliers_rule r, int64_t n_exact,
                  kvr_global<const struct choice> choice, kvr_global<const int32_t> indices,
                  kvr_global<float> x)
{
    const int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t e, from;

    if (k >= n_exact)
        return;
    e = indices[k];
    if (r.left == KVR_LEFT_CLAMP) {
        const struct choice c = choice[0];

        x[e] = copysignf(c.bound, x[e]);
        return;
    }
    for (from = e - r.channels; from >= 0 && is_kept(indices, n_exact, from); from -= r.channels)
        ;
    if (from < 0)
        for (from = e + r.channels; from < r.n && is_kept(indices, n_exact, from);
             from += r.channels)
            ;
    x[e] = from < r.n ? (float)x[from] : 0.0f;
}

static __device__ __forceinline__ void put(kvr_global<float> out, int64_t at, float v)
{
    out[at] = v;
}

static __device__ __forceinline__ void put(kvr_global<kvr_bf16> out, int64_t at, float v)
{
    out[at] = kvr_bf16_of(v);
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    outlier_put(int64_t n_exact, int64_t channels, int64_t t0, int64_t n, int64_t c0, int64_t width,
                bool bf16, kvr_global<const kvr_f16> values, kvr_global<const int32_t> indices,
                kvr_global<T> out)
{
    const int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t t, c;
    float v;

    if (k >= n_exact)
        return;
    const unsigned index = (unsigned)indices[k], row = (unsigned)channels;

    t = (int64_t)(index / row) - t0;
    c = (int64_t)(index % row) - c0;
    if (t < 0 || t >= n || c < 0 || c >= width)
        return;
    v = kvr_float_of(values[k]);
    put(out, t * width + c, bf16 ? kvr_round_bf16(v) : v);
}

void kvr_outliers_find_cuda(struct kvr_stream *s, const struct kvr_outliers_rule *r, const float *x,
                            void *work)
{
    const struct work w = work_of(r, work);
    const bool bf16 = r->compute == KVR_COMPUTE_BF16;
    const unsigned some = kvr_blocks(r->n, SPAN) < 1024 ? kvr_blocks(r->n, SPAN) : 1024;
    struct choice *c = w.choice;
    struct moments *m = w.moments;
    struct counts *counts = w.counts;
    struct candidate *candidates = w.candidates;
    int *bins = w.bins, *listed = w.listed;

    if (!r->n)
        return;
    KVR_LAUNCH(outlier_guess, 1, 32 * SAMPLES, 0, s, r->n, w.spans, (float)r->sigma, x, c);
    KVR_LAUNCH(outlier_moments, kvr_blocks(w.spans, SPANS_AT_ONCE), THREADS, 0, s, r->n, x, c, m,
               candidates, listed);
    KVR_LAUNCH(outlier_bound, 1, BOUND_THREADS, 0, s, r->n, w.spans, (double)r->padded, r->sigma,
               bf16, m, c, bins);
    /* Radix select finds the smallest magnitude of a stored outlier. Radix select is skipped if all
     * elements of the block may be stored as outliers (r->most >= r->n). */
    for (int shift = 24; r->most < r->n && shift >= 0; shift -= 8) {
        KVR_LAUNCH(outlier_histogram, some, THREADS, 0, s, r->n, shift, r->most, x, c, bins);
        KVR_LAUNCH(outlier_narrow, 1, 256, 0, s, shift, r->most, bins, c);
    }
    KVR_LAUNCH(outlier_count, kvr_blocks(w.spans, WARPS), THREADS, 0, s, r->n, w.spans, x, c,
               candidates, listed, counts);
    KVR_LAUNCH(outlier_offsets, 1, OFFSET_THREADS, 0, s, w.spans, counts, c);
}

void kvr_outliers_take_cuda(struct kvr_stream *s, const struct kvr_outliers_rule *r, float *x,
                            const void *work, int64_t n_exact, kvr_f16 *values, int32_t *indices)
{
    const struct work w = work_of(r, work);
    struct choice *c = w.choice;
    struct counts *counts = w.counts;
    struct candidate *candidates = w.candidates;
    int *listed = w.listed;

    if (!n_exact)
        return;
    KVR_LAUNCH(outlier_record, kvr_blocks(w.spans, WARPS), THREADS, 0, s, r->n, w.spans, r->study,
               x, c, counts, candidates, listed, values, indices);
    if (r->left != KVR_LEFT_KEEP)
        KVR_LAUNCH(outlier_leave, kvr_blocks(n_exact, THREADS), THREADS, 0, s, *r, n_exact, c,
                   indices, x);
}

void kvr_outliers_put_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                           enum kvr_compute compute, const kvr_f16 *values, const int32_t *indices,
                           int64_t n_exact, int64_t t0, int64_t n, int h0, int nh, float *out)
{
    const int64_t d = shape->head_dim;

    if (n_exact && n)
        KVR_LAUNCH(outlier_put<float>, kvr_blocks(n_exact, THREADS), THREADS, 0, s, n_exact,
                   shape->n_heads * d, t0, n, h0 * d, nh * d, compute == KVR_COMPUTE_BF16, values,
                   indices, out);
}

void kvr_outliers_put_bf16_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                                const kvr_f16 *values, const int32_t *indices, int64_t n_exact,
                                int64_t t0, int64_t n, int h0, int nh, kvr_bf16 *out)
{
    const int64_t d = shape->head_dim;

    if (n_exact && n)
        KVR_LAUNCH(outlier_put<kvr_bf16>, kvr_blocks(n_exact, THREADS), THREADS, 0, s, n_exact,
                   shape->n_heads * d, t0, n, h0 * d, nh * d, false, values, indices, out);
}
