/* attend_dot.c - see attend_dot.h. */
#include "harness/cache/attend_dot.h"
#include "harness/cache/attend_vec.h"
#include "harness/core/dtype.h"
#if KVR_ISA_AMX_INT8
#include "harness/cache/attend_dot_tiles.h"
#endif

#include <math.h>
#include <stdbool.h>
#include <string.h>

#if !KVR_ISA_AVX2 && defined(__SSSE3__)
#include <tmmintrin.h>
#elif KVR_ISA_NEON
#include <arm_neon.h>
#endif

/* TOP is the largest code of queries, keys and values. OFFSET is added to key codes, because the
 * instructions dpbusd and maddubs need one unsigned operand. P_TOP is the code of the softmax
 * weight 1. ROWS is the maximum number of query rows per block, for which the ROWS x NV accumulator
 * vectors fit into registers. */
#if KVR_ISA_VNNI
enum { TOP = 127, OFFSET = 128, P_TOP = 255, ROWS = 12 };
#elif KVR_ISA_AVXVNNI
enum { TOP = 127, OFFSET = 128, P_TOP = 255, ROWS = 6 };
#elif KVR_ISA_AVX512
enum { TOP = 63, OFFSET = 64, P_TOP = 255, ROWS = 12 };
#elif KVR_ISA_AVX2 || defined(__SSSE3__)
enum { TOP = 63, OFFSET = 64, P_TOP = 255, ROWS = 4 };
#else
enum { TOP = 127, OFFSET = 0, P_TOP = 127, ROWS = 6 };
#endif
enum { PAD = KVR_ATTEND_PAD, TILE = KVR_ATTEND_TILE, QUERIES = KVR_ATTEND_ROWS };

typedef int32_t word __attribute__((may_alias, aligned(1))); /* four bytes of an INT8 operand */

/* Returns `sum` plus, in each lane, the dot product of four unsigned bytes of u and four signed
 * bytes of s. */
static inline ivec dot(ivec sum, ivec u, ivec s)
{
#if KVR_ISA_VNNI
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)u, (__m512i)s);
#elif KVR_ISA_AVXVNNI
    return (ivec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)u, (__m256i)s);
#elif KVR_ISA_AVX512
    return sum + (ivec)_mm512_madd_epi16(_mm512_maddubs_epi16((__m512i)u, (__m512i)s),
                                         _mm512_set1_epi16(1));
#elif KVR_ISA_AVX2
    return sum + (ivec)_mm256_madd_epi16(_mm256_maddubs_epi16((__m256i)u, (__m256i)s),
                                         _mm256_set1_epi16(1));
#elif defined(__SSSE3__)
    return sum + (ivec)_mm_madd_epi16(_mm_maddubs_epi16((__m128i)u, (__m128i)s), _mm_set1_epi16(1));
#elif KVR_ISA_NEON
    return (ivec)vdotq_s32((int32x4_t)sum, (int8x16_t)u, (int8x16_t)s);
#else
    for (int i = 0; i < VLEN; i++) {
        int8_t a[4], b[4];
        const int32_t x = u[i], y = s[i];

        memcpy(a, &x, 4);
        memcpy(b, &y, 4);
        sum[i] += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
    }
    return sum;
#endif
}

static inline ivec to_int(vec x) /* rounds to the nearest integer, ties to even, for |x| < 2^22 */
{
#if KVR_ISA_AVX512
    return (ivec)_mm512_cvtps_epi32((__m512)x);
#elif KVR_ISA_AVX2
    return (ivec)_mm256_cvtps_epi32((__m256)x);
#else
    const float magic = 12582912.0f; /* adding 1.5 * 2^23 rounds to an integer */

    return (ivec)(x + magic) - (ivec)vec_of(magic);
#endif
}

static inline vec to_float(ivec x)
{
    return __builtin_convertvector(x, vec);
}

/* Returns the elementwise maximum of non-negative floats, which are compared as integers. The bits
 * of NaN exceed those of infinity, so NaN propagates. */
static inline vec larger(vec a, vec b)
{
#if KVR_ISA_AVX512
    return (vec)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif KVR_ISA_AVX2
    return (vec)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const ivec more = (ivec)a > (ivec)b;

    return (vec)(((ivec)a & more) | ((ivec)b & ~more));
#endif
}

static inline vec size_of(vec x)
{
    return (vec)((ivec)x & 0x7fffffff);
}

/* Returns the factor top / most, by which elements of magnitude up to `most` are quantized. The
 * factor is 0 if `most` is below 1e-30 or not finite. */
static inline float inverse(float most, int top)
{
    return most >= 1e-30f && most < INFINITY ? (float)top / most : 0;
}

/* Sets most[i] to the maximum of |x - mu| over the d elements of row i of x, or to NaN if an
 * element is NaN. mu [d] is the vector that is subtracted from every row before quantization.
 * `rows` must be 4 or 1. */
static inline __attribute__((always_inline)) void rows_most(const float *x, const float *mu, int d,
                                                            const int rows, float *most)
{
    vec lanes[4] = { 0 };
    int c = 0;

    for (; c + VLEN <= d; c += VLEN)
        for (int r = 0; r < rows; r++)
            lanes[r] =
                larger(lanes[r], size_of(*(const vec *)(x + r * d + c) - *(const vec *)(mu + c)));
    if (rows == 4)
        fold_four(lanes, larger, most);
    else
        most[0] = fold(lanes[0], larger);
    for (; c < d; c++)
        for (int r = 0; r < rows; r++)
            most[r] = larger(vec_of(most[r]), vec_of(fabsf(x[r * d + c] - mu[c])))[0];
}

/* Quantizes a row x of d elements to the codes round((x - mu) * factor) + offset. mu [d] is the
 * vector that is subtracted before quantization. Codes after the last element, up to a multiple of
 * 4, are `offset`. Returns the sum of round((x - mu) * factor). round() rounds to the nearest
 * integer, ties to even. */
static inline float code_row(const float *x, const float *mu, int d, float factor, int offset,
                             uint8_t *code)
{
    vec total = { 0 };
    float sum;
    int c = 0;

    for (; c + VLEN <= d; c += VLEN) {
        const ivec q = to_int((*(const vec *)(x + c) - *(const vec *)(mu + c)) * factor);

        total += to_float(q);
#if KVR_ISA_AVX512
        _mm_storeu_si128((void *)(code + c), _mm512_cvtepi32_epi8((__m512i)(q + offset)));
#elif KVR_ISA_AVX2
        const __m256i byte = (__m256i)((q + offset) & 0xff);
        const __m128i half =
            _mm_packus_epi32(_mm256_castsi256_si128(byte), _mm256_extracti128_si256(byte, 1));

        _mm_storel_epi64((void *)(code + c), _mm_packus_epi16(half, half));
#else
        for (int i = 0; i < VLEN; i++)
            code[c + i] = (uint8_t)(q[i] + offset);
#endif
    }
    sum = fold(total, vec_add);
    for (; c < d; c++) {
        const int q = (int)lrintf((x[c] - mu[c]) * factor);

        code[c] = (uint8_t)(q + offset);
        sum += (float)q;
    }
    for (; c < kvr_round4(d); c++)
        code[c] = (uint8_t)offset;
    return sum;
}

static float product_of(const float *x, const float *y, int d)
{
    vec total = { 0 };
    float sum;
    int c = 0;

    for (; c + VLEN <= d; c += VLEN)
        total += *(const vec *)(x + c) * *(const vec *)(y + c);
    sum = fold(total, vec_add);
    for (; c < d; c++)
        sum += x[c] * y[c];
    return sum;
}

static void pack_queries(const float *q, const float *mu, int m, int d,
                         const struct kvr_dot_queries *out)
{
    static const float none[256];

    for (int i = 0; i < m; i++, q += d) {
        uint8_t *code = (uint8_t *)out->code + (int64_t)i * kvr_round4(d);
        float most;

        rows_most(q, none, d, 1, &most);
        out->shift[i] = OFFSET * code_row(q, none, d, inverse(most, 127), 0, code);
        out->scale[i] = most < INFINITY ? most / 127.0f : NAN;
        out->mean[i] = product_of(q, mu, d);
    }
}

static void pack_keys(const float *rows, const float *mu, int n, int d, uint8_t *code, float *scale)
{
    const int width = kvr_round4(d), padded = (n + PAD - 1) / PAD * PAD;
    float most[TILE] = { 0 };
    uint8_t row[256];
    int t = 0;

    for (; t + 4 <= n; t += 4)
        rows_most(rows + (int64_t)t * d, mu, d, 4, most + t);
    for (; t < n; t++)
        rows_most(rows + (int64_t)t * d, mu, d, 1, most + t);
    for (t = 0; t < padded; t++) {
        uint8_t *out = code + (int64_t)(t / PAD) * width * PAD + t % PAD * 4;

        scale[t] = most[t] < INFINITY ? most[t] / TOP : NAN;
        if (t < n)
            code_row(rows + (int64_t)t * d, mu, d, inverse(most[t], TOP), OFFSET, row);
        else
            memset(row, OFFSET, (size_t)width);
        for (int c = 0; c < width; c += 4)
            memcpy(out + c * PAD, row + c, 4);
    }
}

/* Quantizes and packs VLEN channels of V, from channel c on. */
static void pack_some_values(const float *rows, int n, int d, int c, int8_t *code, float *scale)
{
    const float *in = rows + c;
    vec most = { 0 }, factor;

    for (int t = 0; t < n; t++)
        most = larger(most, size_of(*(const vec *)(in + (int64_t)t * d)));
    for (int i = 0; i < VLEN; i++) {
        scale[c + i] = most[i] < INFINITY ? most[i] / TOP : NAN;
        // cppcheck-suppress uninitvar ; a vector, set lane by lane
        factor[i] = inverse(most[i], TOP);
    }
    for (int t = 0; t < n; t += 4) {
        ivec four = { 0 };

        for (int k = 0; k < 4 && t + k < n; k++)
            four |= (to_int(*(const vec *)(in + (int64_t)(t + k) * d) * factor) & 0xff) << 8 * k;
        *(ivec *)(code + (int64_t)(c / PAD) * kvr_round4(n) * PAD + t * PAD + c % PAD * 4) = four;
    }
}

static void pack_values(const float *rows, int n, int d, int8_t *code, float *scale)
{
    const int whole = d / VLEN * VLEN, padded = (d + PAD - 1) / PAD * PAD;
    float last[TILE * VLEN];

    for (int c = 0; c < whole; c += VLEN)
        pack_some_values(rows, n, d, c, code, scale);
    for (int c = whole; c < padded; c += VLEN) {
        for (int t = 0; t < n; t++)
            for (int i = 0; i < VLEN; i++)
                last[t * VLEN + i] = c + i < d ? rows[(int64_t)t * d + c + i] : 0;
        /* `last` has only the channels from c on, but pack_some_values() reads channel c at
         * rows + c. */
        pack_some_values(last - c, n, VLEN, c, code, scale);
    }
}

/* Computes sums = A B for m rows of A of k bytes each, and for nv vectors of columns of B, which is
 * packed in panels. The function is inlined with constant m, nv and keys. The unsigned operand is B
 * for scores (`keys` is true), and A for values. */
static inline __attribute__((always_inline)) void products(const uint8_t *a, int64_t lda,
                                                           const uint8_t *b, int64_t panel, int k,
                                                           const int m, const int nv,
                                                           const bool keys, ivec sums[ROWS][NV])
{
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++)
            sums[i][j] = (ivec){ 0 };
    for (int p = 0; p < k; p += 4) {
        ivec row[NV];

#pragma GCC unroll 16
        for (int j = 0; j < nv; j++)
            row[j] = *(const ivec *)(b + j * VLEN / PAD * panel + p * PAD + j * VLEN % PAD * 4);
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const ivec x = (ivec){ 0 } + *(const word *)(a + i * lda + p);

#pragma GCC unroll 16
            for (int j = 0; j < nv; j++)
                sums[i][j] = keys ? dot(sums[i][j], row[j], x) : dot(sums[i][j], x, row[j]);
        }
    }
}

struct dot_scores {
    const struct kvr_dot_queries *q;
    const uint8_t *code;
    const float *scale;
    float *s;
    int64_t stride;
    int d;
};

static inline __attribute__((always_inline)) void score_block(const struct dot_scores *t,
                                                              int64_t at, int i0, int j0,
                                                              const int width, const int m,
                                                              const int nv)
{
    const uint8_t *b = t->code + (int64_t)(j0 / PAD) * width * PAD + j0 % PAD * 4;
    ivec sums[ROWS][NV];

    products((const uint8_t *)t->q->code + (at + i0) * width, width, b, (int64_t)width * PAD, width,
             m, nv, true, sums);
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
        const float g = t->q->scale[at + i0 + i], shift = t->q->shift[at + i0 + i];
        const float mean = t->q->mean[at + i0 + i];

#pragma GCC unroll 16
        for (int j = 0; j < nv; j++)
            *(vec *)(t->s + (i0 + i) * t->stride + j0 + j * VLEN) =
                (to_float(sums[i][j]) - shift) * (g * *(const vec *)(t->scale + j0 + j * VLEN)) +
                mean;
    }
}

static inline __attribute__((always_inline)) void score_rows(const struct dot_scores *t, int64_t at,
                                                             const int width, int m, int n)
{
    for (int j = 0; j + NV * VLEN <= n; j += NV * VLEN) {
        int i = 0;

        for (; i + ROWS <= m; i += ROWS)
            score_block(t, at, i, j, width, ROWS, NV);
        for (; i < m; i++)
            score_block(t, at, i, j, width, 1, NV);
    }
    for (int j = n / (NV * VLEN) * (NV * VLEN); j < n; j += VLEN)
        for (int i = 0; i < m; i++)
            score_block(t, at, i, j, width, 1, 1);
}

#if KVR_ISA_AMX_INT8
/* Computes the scores of m <= QUERIES query rows against n <= TILE tokens. */
static void tile_scores(const struct dot_scores *t, int64_t at, int m, int n)
{
    int32_t sums[QUERIES * TILE] __attribute__((aligned(64)));

    kvr_byte_product((struct kvr_byte_product){ (const uint8_t *)t->q->code + at * t->d, t->code,
                                                t->d, (int64_t)t->d * PAD, t->d, sums, TILE },
                     true, m, n);
    for (int i = 0; i < m; i++) {
        const float g = t->q->scale[at + i], shift = t->q->shift[at + i], mean = t->q->mean[at + i];

        for (int j = 0; j < n; j += VLEN)
            *(vec *)(t->s + i * t->stride + j) =
                (to_float(*(const ivec *)(sums + i * TILE + j)) - shift) *
                    (g * *(const vec *)(t->scale + j)) +
                mean;
    }
}
#endif

static void scores(const struct kvr_dot_queries *q, int64_t at, int d, const uint8_t *code,
                   const float *scale, float *s, int64_t stride, int m, int n)
{
    const struct dot_scores t = { q, code, scale, s, stride, d };

#if KVR_ISA_AMX_INT8
    if (d % KVR_TILE_BYTES == 0 && m <= QUERIES && n <= TILE) {
        tile_scores(&t, at, m, n);
        return;
    }
#endif

    if (d == 64)
        score_rows(&t, at, 64, m, n);
    else if (d == 128)
        score_rows(&t, at, 128, m, n);
    else
        score_rows(&t, at, kvr_round4(d), m, n);
}

/* Computes the softmax weights e^(x - top) of the n scores x of a row, quantized to codes 0..P_TOP.
 * Returns a vector of partial sums of the codes, one per lane. */
static inline vec weights(const float *row, int n, float top, uint8_t *p)
{
    const float one = logf(P_TOP);
    vec total = { 0 };

    for (int j = 0; j < n; j += VLEN) {
        const ivec q = to_int(exp_of(*(const vec *)(row + j) - (top - one)));

        total += to_float(q);
#if KVR_ISA_AVX512
        _mm_storeu_si128((void *)(p + j), _mm512_cvtusepi32_epi8((__m512i)q));
#elif KVR_ISA_AVX2
        const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)q),
                                             _mm256_extracti128_si256((__m256i)q, 1));

        _mm_storel_epi64((void *)(p + j), _mm_packus_epi16(half, half));
#else
        for (int i = 0; i < VLEN; i++)
            p[j + i] = (uint8_t)q[i];
#endif
    }
    return total;
}

static void online_softmax(float *s, int64_t stride, const float *bias, int m, int n, float *max,
                           float *sum, float *rescale, uint8_t *p, float *weight)
{
    float low[QUERIES], old[QUERIES] = { 0 }, top[QUERIES] = { 0 }, part[QUERIES] = { 0 };
    float now[QUERIES], less[QUERIES], weight_scale[QUERIES];

    for (int i = 0; i < m; i++)
        low[i] = -INFINITY;
    memcpy(old, max, (size_t)m * sizeof *old);
    rows_top(s, stride, bias, m, n, low, top);
    for (int i = 0; i < m;) {
        const int rows = m - i >= 4 ? 4 : 1;
        vec total[4];

        for (int r = 0; r < rows; r++)
            total[r] = weights(s + (i + r) * stride, n, top[i + r], p + (i + r) * TILE);
        if (rows == 4)
            fold_four(total, vec_add, part + i);
        else
            part[i] = fold(total[0], vec_add);
        i += rows;
    }
    for (int i = 0; i < m; i += VLEN) {
        const vec t = *(const vec *)(top + i), o = *(const vec *)(old + i), most = vec_max(t, o);

        *(vec *)(now + i) = most;
        *(vec *)(less + i) = rescale_of(o, most);
        *(vec *)(weight_scale + i) = rescale_of(t, most) * (1.0f / P_TOP);
    }
    for (int i = 0; i < m; i++) {
        /* The code of a NaN score is far outside [0, P_TOP], the range of the other codes. The
         * row's sum of codes is then outside [0, TILE * P_TOP], and the softmax denominator becomes
         * NaN. */
        const bool sane = part[i] >= 0 && part[i] <= (float)(TILE * P_TOP);

        sum[i] = sum[i] * less[i] + (sane ? part[i] * weight_scale[i] : NAN);
        max[i] = now[i];
        rescale[i] = less[i];
        weight[i] = weight_scale[i];
    }
}

struct dot_values {
    const uint8_t *p;
    const float *weight;
    const uint8_t *code;
    const float *scale;
    float *out;
    int64_t ldo;
    int n;
};

static inline __attribute__((always_inline)) void value_block(const struct dot_values *t, int i0,
                                                              int j0, const int m, const int nv)
{
    const int64_t panel = (int64_t)kvr_round4(t->n) * PAD;
    ivec sums[ROWS][NV];

    products(t->p + i0 * TILE, TILE, t->code + j0 / PAD * panel + j0 % PAD * 4, panel, t->n, m, nv,
             false, sums);
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++)
            *(vec *)(t->out + (i0 + i) * t->ldo + j0 + j * VLEN) +=
                to_float(sums[i][j]) *
                (t->weight[i0 + i] * *(const vec *)(t->scale + j0 + j * VLEN));
}

#if KVR_ISA_AMX_INT8
/* Adds the weighted values of a tile with TILE tokens to the outputs of m <= QUERIES query rows. */
static void tile_values(const struct dot_values *t, int m, int d)
{
    enum { WIDE = 128 };
    int32_t sums[QUERIES * WIDE] __attribute__((aligned(64)));

    for (int c = 0; c < d; c += WIDE) {
        const int n = d - c < WIDE ? d - c : WIDE;

        kvr_byte_product((struct kvr_byte_product){ t->p, t->code + c * TILE, TILE, TILE * PAD,
                                                    TILE, sums, WIDE },
                         false, m, n);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j += VLEN)
                *(vec *)(t->out + i * t->ldo + c + j) +=
                    to_float(*(const ivec *)(sums + i * WIDE + j)) *
                    (t->weight[i] * *(const vec *)(t->scale + c + j));
    }
}
#endif

static void add_values(const uint8_t *p, const float *weight, const int8_t *code,
                       const float *scale, float *out, int64_t ldo, int n, int m, int d)
{
    const struct dot_values t = { p, weight, (const uint8_t *)code, scale, out, ldo, n };
    int j = 0;

#if KVR_ISA_AMX_INT8
    if (n == TILE && m <= QUERIES) {
        tile_values(&t, m, d);
        return;
    }
#endif

    for (; j + NV * VLEN <= d; j += NV * VLEN) {
        int i = 0;

        for (; i + ROWS <= m; i += ROWS)
            value_block(&t, i, j, ROWS, NV);
        for (; i < m; i++)
            value_block(&t, i, j, 1, NV);
    }
    for (; j < d; j += VLEN)
        for (int i = 0; i < m; i++)
            value_block(&t, i, j, 1, 1);
}

const struct kvr_dot_kernels KVR_ISA_NAME(kvr_dot_kernels) = {
    .top = TOP,
    .pack_queries = pack_queries,
    .pack_keys = pack_keys,
    .pack_values = pack_values,
    .scores = scores,
    .online_softmax = online_softmax,
    .add_values = add_values,
};
