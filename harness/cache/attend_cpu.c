/* attend_cpu.c - staged attention with an online softmax.
 *
 * For each piece (up to PIECE tokens): all threads decode it tile by tile (TILE tokens of one
 * head), then each (head, block of queries) updates its own state
 *
 *     m' = max(m, max_j s_j),  l' = l e^(m-m') + sum_j e^(s_j-m'),
 *     o' = o e^(m-m') + sum_j e^(s_j-m') v_j
 *
 * Both products have the form C[q][n] += A[q][k] B[k][n] with B contiguous along n, so keys are
 * staged transposed and one micro-kernel serves scores and values. Everything is F32. */
#include "harness/cache/attend.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "harness/core/clock.h"

enum {
    TILE = 64,   /* tokens of one head decoded and attended to together */
    PIECE = 512, /* tokens staged at once */
    QBLOCK = 24, /* queries of one task */
    PAD = 16,    /* value rows are padded to whole vectors */
    MAX_D = 256,
};

#define VLEN 16
typedef float vec __attribute__((vector_size(VLEN * 4), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(VLEN * 4), aligned(4), may_alias));

static int padded(int d)
{
    return (d + PAD - 1) / PAD * PAD;
}

/* C[m][NV*16] += A[m][k] B[k][NV*16]; m <= 6, NV <= 4. Inlined for constant m and nv. */
static inline __attribute__((always_inline)) void mul_block(const float *a, int64_t lda,
                                                            const float *b, int64_t ldb, float *c,
                                                            int64_t ldc, int k, const int m,
                                                            const int nv)
{
    vec acc[6][4];

    for (int i = 0; i < m; i++)
        for (int j = 0; j < nv; j++)
            acc[i][j] = *(const vec *)(c + i * ldc + j * VLEN);
    for (int p = 0; p < k; p++) {
        vec row[4];

        for (int j = 0; j < nv; j++)
            row[j] = *(const vec *)(b + p * ldb + j * VLEN);
        for (int i = 0; i < m; i++) {
            const float x = a[i * lda + p];

            for (int j = 0; j < nv; j++)
                acc[i][j] += x * row[j];
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < nv; j++)
            *(vec *)(c + i * ldc + j * VLEN) = acc[i][j];
}

#define CASE(M)                                                       \
    case M:                                                           \
        if (nv == 4)                                                  \
            mul_block(a, lda, b, ldb, c, ldc, k, M, 4);               \
        else if (nv == 2)                                             \
            mul_block(a, lda, b, ldb, c, ldc, k, M, 2);               \
        else                                                          \
            mul_block(a, lda, b, ldb, c, ldc, k, M, 1);               \
        break;

static void mul_rows(const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                     int64_t ldc, int k, int m, int nv)
{
    switch (m) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
    default:
        assert(0);
    }
}

/* C[m][n] += A[m][k] B[k][n], n a multiple of 16. */
static void mul(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc,
                int k, int m, int n)
{
    for (int j = 0; j < n;) {
        const int left = (n - j) / VLEN, nv = left >= 4 ? 4 : left >= 2 ? 2 : 1;

        for (int i = 0; i < m; i += 6)
            mul_rows(a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc, k, m - i < 6 ? m - i : 6,
                     nv);
        j += nv * VLEN;
    }
}

/* e^x for x <= 0: 2^n times a polynomial in the rest, relative error below 2e-7. NaN stays. */
static inline vec exp_neg(vec x)
{
    const float log2e = 1.44269504f, ln2_hi = 0.693359375f, ln2_lo = -2.12194440e-4f;
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const ivec low = x < -87.0f;     /* all ones where true, none for NaN */
    const ivec bits = (ivec)x;
    const vec floor_x = (vec){ 0 } - 87.0f;
    vec y, n, r, p;

    y = (vec)((bits & ~low) | ((ivec)floor_x & low));
    n = y * log2e + magic;
    const ivec power = ((ivec)n - (ivec)((vec){ 0 } + magic)) << 23;
    n -= magic;
    r = y - n * ln2_hi;
    r = r - n * ln2_lo;
    p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    p = (vec)((ivec)p + power);
    /* The shift above is meaningless for NaN: put it back. */
    const ivec nan = x != x;
    return (vec)(((ivec)p & ~nan) | (bits & nan));
}

static void load_tile(const struct kvr_attend_job *job, const struct kvr_span *span, int64_t t0,
                      int n, int h, bool values, float *out)
{
    const int d = job->head_dim;

    if (span->seg) {
        kvr_codec_decode(values ? &span->seg->v : &span->seg->k, span->t0 + t0, n, h, 1, out);
        return;
    }
    const char *base = values ? job->current.v : job->current.k;
    const size_t size = kvr_dtype_size(job->current.dtype);

    for (int t = 0; t < n; t++)
        kvr_to_f32(out + t * d,
                   base + (size_t)(((span->t0 + t0 + t) * job->n_heads + h) * d) * size,
                   job->current.dtype, (size_t)d);
}

/* Where one piece's tiles come from. */
struct tile {
    const struct kvr_span *span;
    int64_t t0;
    int n;
};

static void stage_tile(const struct kvr_attend_job *job, const struct tile *tile, int h, float *k,
                       float *v)
{
    const int d = job->head_dim, dp = padded(d);
    float row[TILE * MAX_D];

    load_tile(job, tile->span, tile->t0, tile->n, h, false, row);
    for (int c = 0; c < d; c++) {
        for (int t = 0; t < tile->n; t++)
            k[c * TILE + t] = row[t * d + c];
        for (int t = tile->n; t < TILE; t++)
            k[c * TILE + t] = 0;
    }
    if (d == dp) {
        load_tile(job, tile->span, tile->t0, tile->n, h, true, v);
    } else {
        load_tile(job, tile->span, tile->t0, tile->n, h, true, row);
        for (int t = 0; t < tile->n; t++) {
            memcpy(v + t * dp, row + t * d, (size_t)d * sizeof *v);
            memset(v + t * dp + d, 0, (size_t)(dp - d) * sizeof *v);
        }
    }
    memset(v + tile->n * dp, 0, (size_t)((TILE - tile->n) * dp) * sizeof *v);
}

/* One tile into the state of m queries: mx, sum [m]; acc [m][dp]. q is scaled by 1/sqrt(D). */
static void update(const float *q, int m, int d, const float *k, const float *v, int n, float *mx,
                   float *sum, float *acc)
{
    const int dp = padded(d), wide = (n + VLEN - 1) / VLEN * VLEN;
    float s[QBLOCK * TILE];

    memset(s, 0, sizeof s);
    mul(q, d, k, TILE, s, TILE, d, m, wide);
    for (int i = 0; i < m; i++) {
        float *row = s + i * TILE;
        float top = mx[i], shrink;
        vec total = { 0 };

        for (int j = 0; j < n; j++)
            top = top != top || row[j] <= top ? top : row[j]; /* a NaN score stays */
        for (int j = 0; j < wide; j += VLEN) {
            *(vec *)(row + j) = exp_neg(*(vec *)(row + j) - top);
            for (int t = n; t < j + VLEN; t++) /* lanes beyond the last token */
                row[t] = 0;
            total += *(vec *)(row + j);
        }
        shrink = expf(mx[i] - top);
        mx[i] = top;
        float t = 0;
        for (int j = 0; j < VLEN; j++)
            t += total[j];
        sum[i] = sum[i] * shrink + t;
        if (shrink != 1.0f)
            for (int c = 0; c < dp; c += VLEN)
                *(vec *)(acc + i * dp + c) *= shrink;
    }
    mul(s, TILE, v, dp, acc, dp, n, m, dp);
}

static size_t state_floats(int64_t n_query, int n_heads, int head_dim)
{
    /* max, sum, output, and the query scaled and gathered by head */
    return (size_t)(n_query * n_heads) * (size_t)(2 + padded(head_dim) + head_dim);
}

enum kvr_status kvr_attend_reserve(struct kvr_attend_scratch *s, struct kvr_dev *dev, int n_heads,
                                   int head_dim, int64_t max_query)
{
    const size_t h = (size_t)n_heads;

    if (head_dim > MAX_D)
        return kvr_fail(KVR_EUNSUPPORTED, "attention: head_dim %d, at most %d", head_dim, MAX_D);
    KVR_TRY(kvr_buf_reserve(&s->k, dev, KVR_MEM_SCRATCH,
                            h * PIECE * (size_t)head_dim * sizeof(float)));
    KVR_TRY(kvr_buf_reserve(&s->v, dev, KVR_MEM_SCRATCH,
                            h * PIECE * (size_t)padded(head_dim) * sizeof(float)));
    return kvr_buf_reserve(&s->state, dev, KVR_MEM_SCRATCH,
                           state_floats(max_query, n_heads, head_dim) * sizeof(float));
}

void kvr_attend_release(struct kvr_attend_scratch *s)
{
    kvr_buf_free(&s->k);
    kvr_buf_free(&s->v);
    kvr_buf_free(&s->state);
}

/* The next piece: tiles from span *i, token *t on. Returns how many. */
static int next_piece(const struct kvr_attend_job *job, int *i, int64_t *t, struct tile *tiles)
{
    int n = 0;

    while (*i < job->n_spans && n < PIECE / TILE) {
        const struct kvr_span *span = &job->spans[*i];
        const int64_t left = span->n - *t;

        if (left <= 0) {
            ++*i;
            *t = 0;
            continue;
        }
        tiles[n++] = (struct tile){ span, *t, left < TILE ? (int)left : TILE };
        *t += tiles[n - 1].n;
    }
    return n;
}

void kvr_attend_staged(const struct kvr_attend_job *job, struct kvr_attend_scratch *s)
{
    const int d = job->head_dim, dp = padded(d), heads = job->n_heads;
    const int64_t n = job->n_query;
    const int n_blocks = (int)((n + QBLOCK - 1) / QBLOCK);
    const float scale = 1.0f / sqrtf((float)d);
    float *k = s->k.p, *v = s->v.p;
    float *mx = s->state.p, *sum = mx + n * heads, *acc = sum + n * heads;
    float *q = acc + n * heads * dp;
    struct tile tiles[PIECE / TILE];
    int64_t t = 0, stamp = kvr_now_ns();
    int n_tiles, i = 0;

#pragma omp parallel for schedule(static)
    for (int h = 0; h < heads; h++)
        for (int64_t r = 0; r < n; r++) {
            const int64_t at = h * n + r;

            mx[at] = -INFINITY;
            sum[at] = 0;
            memset(acc + at * dp, 0, (size_t)dp * sizeof *acc);
            for (int c = 0; c < d; c++)
                q[at * d + c] = job->q[(r * heads + h) * d + c] * scale;
        }
    while ((n_tiles = next_piece(job, &i, &t, tiles)) > 0) {
        int64_t now = kvr_now_ns();

        *job->attend_ns += now - stamp;
        stamp = now;
#pragma omp parallel for schedule(static) collapse(2)
        for (int h = 0; h < heads; h++)
            for (int p = 0; p < n_tiles; p++)
                stage_tile(job, &tiles[p], h, k + (size_t)(h * n_tiles + p) * (size_t)(d * TILE),
                           v + (size_t)(h * n_tiles + p) * (size_t)(dp * TILE));
        now = kvr_now_ns();
        *job->decode_ns += now - stamp;
        stamp = now;
#pragma omp parallel for schedule(dynamic) collapse(2)
        for (int h = 0; h < heads; h++)
            for (int b = 0; b < n_blocks; b++) {
                const int64_t at = h * n + (int64_t)b * QBLOCK;
                const int m = n - (int64_t)b * QBLOCK < QBLOCK ? (int)(n - (int64_t)b * QBLOCK)
                                                              : QBLOCK;

                for (int p = 0; p < n_tiles; p++)
                    update(q + at * d, m, d, k + (size_t)(h * n_tiles + p) * (size_t)(d * TILE),
                           v + (size_t)(h * n_tiles + p) * (size_t)(dp * TILE), tiles[p].n,
                           mx + at, sum + at, acc + at * dp);
            }
    }
#pragma omp parallel for schedule(static)
    for (int h = 0; h < heads; h++)
        for (int64_t r = 0; r < n; r++) {
            const int64_t at = h * n + r;
            const float inv = 1.0f / sum[at];

            for (int c = 0; c < d; c++)
                job->out[(r * heads + h) * d + c] = acc[at * dp + c] * inv;
        }
    *job->attend_ns += kvr_now_ns() - stamp;
}
