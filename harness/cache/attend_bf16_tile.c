/* attend_bf16_tile.c - see attend_bf16.h. */
#include <stdbool.h>

#include "harness/cache/attend_bf16.h"
#include "harness/cache/attend_kernels.h"
#include "harness/cache/attend_vec.h"
#include "harness/core/tile.h"

enum { PAD = KVR_ATTEND_PAD, STEP = KVR_BF16_STEP, ROWS = KVR_BF16_ROWS, PAIR = 2 };
_Static_assert((int)PAD == (int)KVR_TILE_ROWS && STEP * 2 == (int)KVR_TILE_BYTES,
               "a panel's row is a tile's");

/* ---- packing ------------------------------------------------------------------------------ */

#if KVR_ISA_AMX_BF16
/* Transposes the PAD x PAD matrix of 32-bit words with the rows r, and stores it to `out`. */
static inline void transpose(__m512i r[PAD], kvr_bf16 *out)
{
    __m512i s[PAD];

    for (int i = 0; i < PAD; i += 2) {
        s[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < PAD; i += 4)
        for (int c = 0; c < 2; c++) {
            r[i + 2 * c] = _mm512_unpacklo_epi64(s[i + c], s[i + 2 + c]);
            r[i + 2 * c + 1] = _mm512_unpackhi_epi64(s[i + c], s[i + 2 + c]);
        }
    for (int c = 0; c < 4; c++) {
        const __m512i a = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
        const __m512i b = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
        const __m512i d = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
        const __m512i e = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);

        _mm512_storeu_si512(out + c * STEP, _mm512_shuffle_i32x4(a, d, 0x88));
        _mm512_storeu_si512(out + (c + 4) * STEP, _mm512_shuffle_i32x4(b, e, 0x88));
        _mm512_storeu_si512(out + (c + 8) * STEP, _mm512_shuffle_i32x4(a, d, 0xdd));
        _mm512_storeu_si512(out + (c + 12) * STEP, _mm512_shuffle_i32x4(b, e, 0xdd));
    }
}

/* Loads channels [c, c + STEP) of a row of d channels, with zeros for channels >= d. */
static inline __m512i channels(const kvr_bf16 *row, int c, int d)
{
    const int left = d - c;

    return left >= STEP ? _mm512_loadu_si512(row + c)
                        : _mm512_maskz_loadu_epi16((__mmask32)((1u << left) - 1), row + c);
}

static void pack_keys(const kvr_bf16 *rows, int64_t ld, int n, int d, kvr_bf16 *out)
{
    for (int t = 0; t < kvr_bf16_padded(n); t += PAD)
        for (int c = 0; c < d; c += STEP, out += PAD * STEP) {
            __m512i r[PAD];

            for (int i = 0; i < PAD; i++)
                r[i] = t + i < n ? channels(rows + (t + i) * ld, c, d) : _mm512_setzero_si512();
            transpose(r, out);
        }
}

static void pack_values(const kvr_bf16 *rows, int64_t ld, int n, int d, kvr_bf16 *out)
{
    const int deep = kvr_bf16_padded(n);
    __m512i low, high;
    kvr_bf16 order[2][STEP];

    for (int i = 0; i < STEP; i++)
        for (int h = 0; h < 2; h++)
            order[h][i] = (kvr_bf16)(i / 2 + h * PAD + i % 2 * STEP);
    low = _mm512_loadu_si512(order[0]);
    high = _mm512_loadu_si512(order[1]);
    for (int c = 0; c < d; c += STEP) {
        kvr_bf16 *to = out + (int64_t)c * deep;

        for (int t = 0; t < deep; t += PAIR, to += STEP) {
            const __m512i zero = _mm512_setzero_si512();
            const __m512i a = t < n ? channels(rows + t * ld, c, d) : zero;
            const __m512i b = t + 1 < n ? channels(rows + (t + 1) * ld, c, d) : zero;

            _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
            if (c + PAD < d)
                _mm512_storeu_si512(to + PAD * deep, _mm512_permutex2var_epi16(a, high, b));
        }
    }
}
#else
static void pack_keys(const kvr_bf16 *rows, int64_t ld, int n, int d, kvr_bf16 *out)
{
    const int wide = kvr_bf16_padded(d);

    for (int t = 0; t < kvr_bf16_padded(n); t++)
        for (int c = 0; c < wide; c++)
            out[t / PAD * PAD * wide + c / 2 * STEP + t % PAD * 2 + c % 2] =
                t < n && c < d ? rows[t * ld + c] : 0;
}

static void pack_values(const kvr_bf16 *rows, int64_t ld, int n, int d, kvr_bf16 *out)
{
    const int deep = kvr_bf16_padded(n), wide = (d + PAD - 1) / PAD * PAD;

    for (int t = 0; t < deep; t++)
        for (int c = 0; c < wide; c++)
            out[c / PAD * PAD * deep + t / 2 * STEP + c % PAD * 2 + t % 2] =
                t < n && c < d ? rows[t * ld + c] : 0;
}
#endif

/* ---- products ----------------------------------------------------------------------------- */

/* Operands of the matrix product C[m][n] = A[m][k] B[k][n], or C += A B. The k rows of B are
 * divided into parts of `deep` rows; the last part may have fewer rows. Successive parts are `next`
 * elements apart. A part consists of panels of PAD columns, in the layout [rows / 2][PAD][2]. */
struct product {
    const kvr_bf16 *a, *b;
    float *c;
    int64_t lda, ldc, next;
    int k, deep;
};

static inline __attribute__((always_inline)) void block(struct kvr_tiles *t,
                                                        const struct product *x, const int j,
                                                        const bool add, const int rows,
                                                        const int cols)
{
    const kvr_bf16 *a = x->a, *a2 = a + KVR_TILE_ROWS * x->lda, *part = x->b;
    float *c = x->c, *c2 = c + KVR_TILE_ROWS * x->ldc;
    const int64_t lda = x->lda * 2, ldc = x->ldc * 4;

    (void)t; /* unused with AMX: only the plain C tile macros store their tiles in `t` */
    if (add) {
        KVR_TILE_LOAD(t, 0, c, ldc);
        if (cols == 2)
            KVR_TILE_LOAD(t, 1, c + PAD, ldc);
        if (rows == 2)
            KVR_TILE_LOAD(t, 2, c2, ldc);
        if (rows == 2 && cols == 2)
            KVR_TILE_LOAD(t, 3, c2 + PAD, ldc);
    } else {
        KVR_TILE_ZERO(t, 0);
        KVR_TILE_ZERO(t, 1);
        KVR_TILE_ZERO(t, 2);
        KVR_TILE_ZERO(t, 3);
    }
    for (int left = x->k; left > 0; left -= x->deep, part += x->next) {
        const int here = left < x->deep ? left : x->deep;
        const kvr_bf16 *b = part + j * here, *b2 = b + PAD * here;

        for (int k = 0; k < here; k += STEP) {
            KVR_TILE_LOAD(t, 6, b, KVR_TILE_BYTES);
            KVR_TILE_LOAD(t, 4, a, lda);
            KVR_TILE_BF16(t, 0, 4, 6);
            if (cols == 2) {
                KVR_TILE_LOAD(t, 7, b2, KVR_TILE_BYTES);
                KVR_TILE_BF16(t, 1, 4, 7);
            }
            if (rows == 2) {
                KVR_TILE_LOAD(t, 5, a2, lda);
                KVR_TILE_BF16(t, 2, 5, 6);
            }
            if (rows == 2 && cols == 2)
                KVR_TILE_BF16(t, 3, 5, 7);
            a += STEP;
            a2 += STEP;
            b += PAD * STEP;
            b2 += PAD * STEP;
        }
    }
    KVR_TILE_STORE(t, 0, c, ldc);
    if (cols == 2)
        KVR_TILE_STORE(t, 1, c + PAD, ldc);
    if (rows == 2)
        KVR_TILE_STORE(t, 2, c2, ldc);
    if (rows == 2 && cols == 2)
        KVR_TILE_STORE(t, 3, c2 + PAD, ldc);
}

/* Computes columns [0, n) of rows [i0, i1) of the product C. An iteration of the inner loop
 * computes `rows` * KVR_TILE_ROWS rows (`rows` is 1 or 2). The inner loop runs over the rows of C,
 * so that the current two panels of B stay in L1. */
static inline __attribute__((always_inline)) void columns(struct kvr_tiles *t, struct product x,
                                                          const bool add, const int rows, int i0,
                                                          int i1, int n)
{
    x.a += i0 * x.lda;
    x.c += i0 * x.ldc;
    for (int j = 0; j < n; j += 2 * PAD, x.c += 2 * PAD) {
        struct product y = x;

        for (int i = i0; i < i1; i += rows * KVR_TILE_ROWS) {
            if (j + 2 * PAD <= n)
                block(t, &y, j, add, rows, 2);
            else
                block(t, &y, j, add, rows, 1);
            y.a += rows * KVR_TILE_ROWS * x.lda;
            y.c += rows * KVR_TILE_ROWS * x.ldc;
        }
    }
}

static inline __attribute__((always_inline)) void product(struct product x, const bool add, int m,
                                                          int n)
{
    const int whole = m / (2 * KVR_TILE_ROWS) * (2 * KVR_TILE_ROWS), left = m - whole;
    struct kvr_tiles t;

    if (whole) {
        KVR_TILE_CONFIGURE(&t, KVR_TILE_ROWS, KVR_TILE_ROWS);
        columns(&t, x, add, 2, 0, whole, n);
    }
    if (left > KVR_TILE_ROWS) {
        KVR_TILE_CONFIGURE(&t, KVR_TILE_ROWS, left - KVR_TILE_ROWS);
        columns(&t, x, add, 2, whole, m, n);
    } else if (left) {
        KVR_TILE_CONFIGURE(&t, left, left);
        columns(&t, x, add, 1, whole, m, n);
    }
    KVR_TILE_RELEASE(&t);
}

static void scores(const kvr_bf16 *q, int64_t ldq, int d, const kvr_bf16 *keys, float *s,
                   int64_t lds, int m, int n)
{
    const int wide = kvr_bf16_padded(d);

    product((struct product){ q, keys, s, ldq, lds, 0, wide, wide }, false, m, n);
}

static void add_values(const kvr_bf16 *p, int64_t ldp, const kvr_bf16 *values, int64_t next, int n,
                       float *out, int64_t ldo, int m, int d)
{
    product((struct product){ p, values, out, ldp, ldo, next, n, KVR_ATTEND_TILE }, true, m, d);
}

/* ---- softmax ------------------------------------------------------------------------------ */

static void add_bias(float *s, int64_t lds, const float *bias, int m, int n)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j += VLEN)
            *(vec *)(s + i * lds + j) += *(const vec *)(bias + j);
}

/* Returns e^x for x <= 0. The result is 0 for x below -87.7 and NaN for NaN. */
static inline vec weight_of(vec x)
{
    /* 2^r is approximated by 1 + C1 r + ... + C4 r^4 for r in [-1/2, 1/2], with an error of at most
     * 7e-6. */
    const float C1 = 0.69313673388f, C2 = 0.24022530097f, C3 = 0.05583828295f, C4 = 0.00965671029f;
    const float magic = 12583039.0f; /* attend_vec.h */
    const vec y = vec_max(vec_of(-127.0f), x * 1.44269504f);
    const vec n = y + magic, r = y - (n - magic);
    vec p = r * C4 + C3;

    p = p * r + C2;
    p = p * r + C1;
    p = p * r + 1.0f;
    return p * (vec)((ivec)n << 23);
}

enum { WIDE = 2 * VLEN };

#if KVR_ISA_AMX_BF16
static inline void round_two(vec a, vec b, kvr_bf16 *out)
{
    _mm512_storeu_si512(out, (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
}
#else
/* Rounds the elements of a and b to BF16, ties to even. Denormals become zero, as with the
 * instruction vcvtne2ps2bf16. */
static inline void round_two(vec a, vec b, kvr_bf16 *out)
{
    for (int i = 0; i < 2 * VLEN; i++) {
        const float x = i < VLEN ? a[i] : b[i - VLEN];
        uint32_t bits;

        memcpy(&bits, &x, sizeof bits);
        if (x != x)
            out[i] = (kvr_bf16)(bits >> 16 | 0x40);
        else
            out[i] = bits & 0x7f800000 ? (kvr_bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0;
    }
}
#endif

static void online_softmax(float *s, int64_t lds, int m, int n, float *max, float *sum,
                           float *rescale, kvr_bf16 *p, int64_t ldp)
{
    float old[ROWS] = { 0 }, top[ROWS] = { 0 }, part[ROWS] = { 0 }, less[ROWS];

    memcpy(old, max, (size_t)m * sizeof *old);
    rows_top(s, lds, NULL, m, n, old, top);
    for (int i = 0; i < m;) {
        const int rows = m - i >= 4 ? 4 : 1;
        vec total[4] = { 0 };

        for (int r = 0; r < rows; r++) {
            const float *row = s + (i + r) * lds;
            kvr_bf16 *to = p + (i + r) * ldp;
            const float most = top[i + r];
            vec more = { 0 };

            for (int j = 0; j < n; j += WIDE) {
                const vec a = weight_of(*(const vec *)(row + j) - most);
                const vec b = weight_of(*(const vec *)(row + j + VLEN) - most);

                total[r] += a;
                more += b;
                round_two(a, b, to + j);
            }
            total[r] += more;
        }
        if (rows == 4)
            fold_four(total, vec_add, part + i);
        else
            part[i] = fold(total[0], vec_add);
        i += rows;
    }
    next_state(m, old, top, part, less, max, sum, rescale);
}

const struct kvr_bf16_kernels KVR_ISA_NAME(kvr_bf16_kernels) = {
    .pack_keys = pack_keys,
    .pack_values = pack_values,
    .scores = scores,
    .add_bias = add_bias,
    .online_softmax = online_softmax,
    .add_values = add_values,
};
