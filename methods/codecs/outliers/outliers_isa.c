/* outliers_isa.c - see outlier_kernels.h. */
#include "methods/codecs/outliers/outlier_kernels.h"

#include <math.h>

#include "harness/core/dtype.h"
#include "methods/kernels/simd.h"

enum { LANES = 16 };

#ifdef KVR_SIMD
/* Returns a mask whose bit i is set if |x[i]| > bound, for i < 4 VL. */
static inline uint64_t v_bits_over(const float *x, float bound)
{
    uint64_t over = 0;

    for (int k = 0; k < 4; k++)
        over |= (uint64_t)v_over(v_abs(v_load(x + k * VL)), v_set(bound)) << k * VL;
    return over;
}
#endif

/* Computes the mean and the sum of squared deviations of n values from LANES partial sums of the
 * values and LANES partial sums of their squares. */
static struct kvr_moments of_sums(const double sum[LANES], const double square[LANES], int64_t n)
{
    struct kvr_moments m = { .n = (double)n };
    double all = 0, squares = 0;

    for (int j = 0; j < LANES; j++) {
        all += sum[j];
        squares += square[j];
    }
    m.mean = all / m.n;
    m.m2 = squares - all * m.mean;
    m.m2 = m.m2 < 0 ? 0 : m.m2;
    return m;
}

/* The square of a float is exact in double. Therefore an FMA rounds in the same way as a product
 * followed by a sum. */
static struct kvr_moments moments(const float *x, int64_t n)
{
    double sum[LANES] = { 0 }, square[LANES] = { 0 };
    int64_t i = 0;

#ifdef KVR_SIMD
    enum { WIDE = VL / 2, PARTS = LANES / WIDE };
    vd sums[PARTS], squares[PARTS];

    for (int j = 0; j < PARTS; j++)
        sums[j] = squares[j] = d_set(0);
    for (; i + LANES <= n; i += LANES)
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++) {
            const vd v = d_load_floats(x + i + j * WIDE);

            sums[j] = d_add(sums[j], v);
            squares[j] = d_mul_add(v, v, squares[j]);
        }
    for (int j = 0; j < PARTS; j++) {
        d_store(sum + j * WIDE, sums[j]);
        d_store(square + j * WIDE, squares[j]);
    }
#endif
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            const double v = (double)x[i + j];

            sum[j] += v;
            square[j] += v * v;
        }
    for (; i < n; i++) {
        sum[0] += (double)x[i];
        square[0] += (double)x[i] * (double)x[i];
    }
    return of_sums(sum, square, n);
}

static int64_t count_over(const float *x, int64_t n, float bound)
{
    enum { SPAN = 1024 }; /* `some` counts up to SPAN elements in 32-bit lanes */
    int64_t total = 0;

    for (int64_t e = 0; e < n; e += SPAN) {
        const int m = n - e < SPAN ? (int)(n - e) : SPAN;
        int some = 0;

        for (int j = 0; j < m; j++)
            some += fabsf(x[e + j]) > bound;
        total += some;
    }
    return total;
}

static int64_t list_over(const float *x, int64_t n, float bound, int32_t first, int32_t *list)
{
    int64_t e = 0, count = 0;

#ifdef KVR_SIMD
    enum { SPAN = 4 * VL };

    for (; e + SPAN <= n; e += SPAN) {
        uint64_t over = v_bits_over(x + e, bound);

        for (; over; over &= over - 1)
            list[count++] = first + (int32_t)e + __builtin_ctzll(over);
    }
#endif
    for (; e < n; e++)
        if (fabsf(x[e]) > bound)
            list[count++] = first + (int32_t)e;
    return count;
}

static int64_t next_over(const float *x, int64_t n, float bound)
{
    enum { SPAN = 64 };
    int64_t e = 0;

    for (; e + SPAN <= n; e += SPAN) {
        int some = 0;

        for (int j = 0; j < SPAN; j++)
            some |= fabsf(x[e + j]) > bound;
        if (some)
            break;
    }
    while (e < n && !(fabsf(x[e]) > bound))
        e++;
    return e;
}

#ifdef KVR_SIMD
/* Returns the sum of a vector's FP32 lanes in double. */
static inline double d_total(vf v)
{
    double part[VL / 2], total = 0;

    d_store(part, d_pairs(v));
    for (int i = 0; i < VL / 2; i++)
        total += part[i];
    return total;
}

/* Adds the values and their squares to the sums in r, for the complete groups of 64 BF16 values in
 * x [n]. Bit i of over[g] is set if the magnitude of value i of group g exceeds `least`. Returns
 * the number of values in these groups. */
static int64_t rough_words(const uint16_t *x, int64_t n, uint16_t least, uint64_t *over,
                           struct kvr_rough *r)
{
    enum { EACH = 2 * VL, PARTS = 64 / EACH, CHAINS = 4 };
    const vi least_w = w_set((short)least);
    vf sum[CHAINS], square[CHAINS];
    int64_t e = 0;

    for (int j = 0; j < CHAINS; j++)
        sum[j] = square[j] = v_set(0);
    for (; e + 64 <= n; e += 64) {
        uint64_t some = 0;

#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++) {
            const vi raw = i_load(x + e + j * EACH);
            const vf even = v_of_bits(i_left(raw, 16));
            const vf odd = v_of_bits(i_and(raw, i_set((int)0xffff0000u)));
            const int at_0 = 2 * j % CHAINS, at_1 = at_0 + 1;

            sum[at_0] = v_add(sum[at_0], even);
            sum[at_1] = v_add(sum[at_1], odd);
            square[at_0] = v_mul_add(even, even, square[at_0]);
            square[at_1] = v_mul_add(odd, odd, square[at_1]);
            some |= (uint64_t)w_bits_over(raw, least_w) << j * EACH;
        }
        over[e / 64] = some;
    }
    r->sum += d_total(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
    r->square += d_total(v_add(v_add(square[0], square[1]), v_add(square[2], square[3])));
    return e;
}
#endif

static struct kvr_rough rough(const uint16_t *x, int64_t n, uint16_t least, uint64_t *over)
{
    struct kvr_rough r = { 0 };
    int64_t e = 0;

#ifdef KVR_SIMD
    e = rough_words(x, n, least, over, &r);
#endif
    for (int64_t i = e; i < n; i++) {
        const double v = (double)kvr_bf16_to_f32(x[i]);

        over[i / 64] = (i % 64 ? over[i / 64] : 0) | (uint64_t)((x[i] & 0x7fffu) > least) << i % 64;
        r.sum += v;
        r.square += v * v;
    }
    return r;
}

const struct kvr_outlier_kernels KVR_ISA_NAME(kvr_outlier_kernels) = {
    .moments = moments,
    .count_over = count_over,
    .list_over = list_over,
    .next_over = next_over,
    .rough = rough,
};
