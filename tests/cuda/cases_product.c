/* cases_product.c - wgmma linear layers with fused epilogues (product_cuda.h), compared with
 * separate passes.
 *
 * On an emulated device, sums run over k in the order of linear_bf16. Outputs are therefore
 * bit-identical to sums of linear_bf16, rounded to BF16, except for outputs of GELU. On a GPU, a
 * sum of K terms is within (K + 1) 2^-23 (S + |bias|) of the sum in float64 (cases_gemm.c), where S
 * is the sum of magnitudes. Rounding to BF16 adds 2^-8 of the value.
 *
 * Sums of squares are bit-identical to squares_of_block(). */
#include "harness/engine/linear_cuda.h"
#include "harness/engine/product_cuda.h"
#include "tests/cuda/both.h"

static const struct {
    int64_t m;
    int k, n, columns, frame; /* frame: rows per frame */
} shapes[] = {
    { 1, 32, 8, 32, 1 },       { 130, 96, 80, 96, 5 },      { 300, 64, 264, 288, 100 },
    { 45, 256, 192, 192, 15 }, { 129, 192, 256, 256, 129 }, { 66, 448, 392, 416, 11 },
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], HOSTILE = 2 };
/* FILL_NORMAL is used with every shape, other fills only with shapes that have more than one frame
 * per tile. */
static const int hostile[HOSTILE] = { 1, 3 };
enum { N_CASES = N_SHAPES + HOSTILE * (N_FILLS - 1) };

static int shape_of(int i)
{
    return i < N_SHAPES ? i : hostile[(i - N_SHAPES) % HOSTILE];
}

static enum fill fill_of(int i)
{
    return i < N_SHAPES ? FILL_NORMAL : (enum fill)(1 + (i - N_SHAPES) / HOSTILE);
}

struct job {
    int64_t m, stride; /* stride: elements between the vectors of consecutive frames */
    int k, n, columns, frame;
    kvr_bf16 *a, *w, *y;     /* [m,k], [n,k], [m,n], where y is the residual stream */
    float *bias, *gate;      /* [n], [frames,stride] */
    double *sum, *magnitude; /* [m,n] */
};

static kvr_bf16 *rounded(const float *x, size_t n)
{
    kvr_bf16 *p = malloc(n * sizeof *p);

    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < n; i++)
        p[i] = kvr_f32_to_bf16(x[i]);
    return p;
}

static kvr_bf16 *filled(int64_t rows, int columns, enum fill fill, uint32_t seed)
{
    const struct kvr_block_shape s = { rows, 1, columns };
    float *x = floats(elements(&s));
    kvr_bf16 *p;

    fill_block(x, &s, fill, seed);
    p = rounded(x, elements(&s));
    free(x);
    return p;
}

/* ---- reference of sums of squares ----------------------------------------------------------- */

/* Returns the sum of squares of KVR_PRODUCT_BLOCK columns, in the kernel's order: each of four
 * lanes adds its columns, then the lanes are added. */
static float squares_of_block(const kvr_bf16 *x, int count)
{
    float lane[4] = { 0 };

    for (int t = 0; t < 4; t++)
        for (int c = 2 * t; c < KVR_PRODUCT_BLOCK; c += 8) {
            const float low = c < count ? kvr_bf16_to_f32(x[c]) : 0,
                        high = c < count ? kvr_bf16_to_f32(x[c + 1]) : 0;

            lane[t] = fmaf(high, high, fmaf(low, low, lane[t]));
        }
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static int of_last(int n, int block)
{
    const int left = n - block * KVR_PRODUCT_BLOCK;

    return left < KVR_PRODUCT_BLOCK ? left : KVR_PRODUCT_BLOCK;
}

static float *squares_of(const kvr_bf16 *x, int64_t m, int n, int stride)
{
    const int blocks = kvr_product_blocks(n);
    float *out = floats((size_t)(m * blocks));

    for (int64_t i = 0; i < m * blocks; i++)
        out[i] = squares_of_block(x + i / blocks * stride + i % blocks * KVR_PRODUCT_BLOCK,
                                  of_last(n, (int)(i % blocks)));
    return out;
}

/* ---- inputs and layers ---------------------------------------------------------------------- */

static void job_open(struct job *j, int which, enum fill fill)
{
    *j = (struct job){ .m = shapes[which].m,
                       .stride = shapes[which].k > shapes[which].n ? shapes[which].k + 4
                                                                   : shapes[which].n + 4,
                       .k = shapes[which].k,
                       .n = shapes[which].n,
                       .columns = shapes[which].columns,
                       .frame = shapes[which].frame };
    const int64_t frames = (j->m + j->frame - 1) / j->frame;
    const struct kvr_block_shape v = { frames, 1, (int)j->stride };
    float **const vectors[] = { &j->bias, &j->gate };

    j->a = filled(j->m, j->k, fill, 1);
    j->w = filled(j->n, j->k, FILL_NORMAL, 2);
    j->y = filled(j->m, j->n, fill, 3);
    for (uint32_t i = 0; i < 2; i++) {
        *vectors[i] = floats(elements(&v));
        drawn_normals(*vectors[i], elements(&v), 11, 4 + i, 0);
    }
    j->sum = calloc((size_t)(j->m * j->n), sizeof *j->sum);
    j->magnitude = calloc((size_t)(j->m * j->n), sizeof *j->magnitude);
    ck_assert(j->sum && j->magnitude);
}

static void job_close(struct job *j)
{
    both_free();
    free(j->a);
    free(j->w);
    free(j->y);
    free(j->bias);
    free(j->gate);
    free(j->sum);
    free(j->magnitude);
}

/* Computes the product of a and the first n rows of w in float64, and the sums of magnitudes. */
static void sum_up(struct job *j, const kvr_bf16 *a, int n)
{
    for (int64_t i = 0; i < j->m * n; i++) {
        j->sum[i] = j->magnitude[i] = 0;
        for (int k = 0; k < j->k; k++) {
            const double p = (double)kvr_bf16_to_f32(a[i / n * j->k + k]) *
                             kvr_bf16_to_f32(j->w[i % n * j->k + k]);

            j->sum[i] += p;
            j->magnitude[i] += fabs(p);
        }
    }
}

static double gelu_of(double u)
{
    return u / (1 + exp(-2 * 0.7978845608028654 * (u + 0.044715 * u * u * u)));
}

/* Rounds a layer's sum to BF16, multiplies it by the gate and adds it to x, as separate passes
 * do. */
static kvr_bf16 added(float sum, float gate, float x)
{
    return kvr_f32_to_bf16(fmaf(kvr_bf16_to_f32(kvr_f32_to_bf16(sum)), gate, x));
}

static kvr_bf16 *in16(const kvr_bf16 *x, int64_t rows, int columns)
{
    return both_in(x, (size_t)(rows * columns) * sizeof *x);
}

/* Returns a layer with the first n columns, with or without a bias. */
static struct kvr_product_layer layer_of(const struct job *j, int n, int columns, bool biased,
                                         bool squares)
{
    const size_t entries = (size_t)(j->m * kvr_product_blocks(n));

    return (struct kvr_product_layer){
        .w = in16(j->w, n, j->k),
        .bias = biased ? both_in(j->bias, (size_t)n * sizeof(float)) : NULL,
        .y = both_out((size_t)(j->m * columns) * sizeof(kvr_bf16)),
        .n = n,
        .columns = columns,
        .squares = squares ? both_out(entries * sizeof(float)) : NULL,
    };
}

static void run(const struct kvr_product *p)
{
    ck_assert(kvr_product_accepts(p));
    ck_assert(kvr_product_cuda(both_stream, p));
}

/* ---- checks --------------------------------------------------------------------------------- */

/* Checks the output and the sums of squares of a layer with input `a`. A residual layer has added
 * its result to j->y. */
static void check(struct job *j, const struct kvr_product *p, int which, const kvr_bf16 *a,
                  const char *what)
{
    const struct kvr_product_layer *l = &p->layer[which];
    const size_t n_bytes = (size_t)(j->m * l->columns) * sizeof(kvr_bf16);
    const bool residual = p->end == KVR_PRODUCT_RESIDUAL;
    kvr_bf16 *got = malloc(n_bytes);
    float *sums = floats((size_t)(j->m * l->n)),
          *d_sums = both_out((size_t)(j->m * l->n) * sizeof(float));
    float *squares = NULL;

    ck_assert_ptr_nonnull(got);
    kvr_linear_bf16_cuda(both_stream, j->m, l->n, j->k, in16(a, j->m, j->k), l->w, l->bias, d_sums);
    both_get(sums, d_sums, (size_t)(j->m * l->n) * sizeof(float), "product");
    both_get(got, l->y, n_bytes, what);
    sum_up(j, a, l->n);
    for (int64_t i = 0; i < j->m * l->columns; i++) {
        const int64_t r = i / l->columns, c = i % l->columns, at = r * l->n + c;

        if (c >= l->n) {
            ck_assert_msg(got[i] == 0, "%s[%lld,%lld]: not 0", what, (long long)r, (long long)c);
            continue;
        }
        const double b = l->bias ? j->bias[c] : 0,
                     gate = p->gate ? j->gate[r / j->frame * j->stride + c] : 1,
                     x = residual ? kvr_bf16_to_f32(j->y[at]) : 0;
        const double plain = j->sum[at] + b,
                     off = (j->k + 1) * 0x1p-23 * (j->magnitude[at] + fabs(b));
        const double want = p->end == KVR_PRODUCT_GELU ? gelu_of(plain) : x + gate * plain;
        const double value = kvr_bf16_to_f32(got[i]);
        /* GELU's slope is at most 1.13. */
        const double tol = (p->end == KVR_PRODUCT_GELU ? 1.13 * off : fabs(gate) * off) +
                           (residual ? 0x1p-8 * fabs(gate * plain) : 0) +
                           (0x1p-8 + 0x1p-18) * fabs(want) + 1e-36;

        if (j->magnitude[at] < 1e38 && fabs(want) < 1e38)
            ck_assert_msg(fabs(value - want) <= tol, "%s[%lld,%lld]: %g, want %g within %g", what,
                          (long long)r, (long long)c, value, want, tol);
        else if (p->end != KVR_PRODUCT_GELU)
            ck_assert_msg(!(fabs(value) <= 1e37), "%s[%lld,%lld]: %g", what, (long long)r,
                          (long long)c, value);
        if (kvr_stream_emulated() && p->end != KVR_PRODUCT_GELU)
            ck_assert_msg(got[i] == (residual ? added(sums[at], (float)gate, (float)x)
                                              : kvr_f32_to_bf16(sums[at])),
                          "%s[%lld,%lld]: %g, in passes of their own %g", what, (long long)r,
                          (long long)c, value, (double)sums[at]);
    }
    if (l->squares) {
        const size_t n = (size_t)(j->m * kvr_product_blocks(l->n));
        float *want = squares_of(got, j->m, l->n, l->columns);

        squares = floats(n);
        both_get(squares, l->squares, n * sizeof(float), "sums of squares");
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(memcmp(&squares[i], &want[i], sizeof(float)) == 0 ||
                              (isnan(squares[i]) && isnan(want[i])),
                          "%s: sum of squares %zu is %g, want %g", what, i, (double)squares[i],
                          (double)want[i]);
        free(want);
        free(squares);
    }
    free(sums);
    free(got);
}

/* Two layers of different widths over the same rows, then one layer with GELU, then one residual
 * layer without and with a gate. */
START_TEST(plain_rows)
{
    struct job j;

    job_open(&j, shape_of(_i), fill_of(_i));
    struct kvr_product p = {
        .m = j.m, .k = j.k, .x = in16(j.a, j.m, j.k), .tokens_per_frame = j.frame
    };
    const int other = (j.n / 2 + 7) / 8 * 8;

    kvr_stream_seed(both_stream, (uint64_t)_i);
    p.n_layers = 2;
    p.layer[0] = layer_of(&j, j.n, j.columns, true, true);
    p.layer[1] = layer_of(&j, other, other, false, false);
    run(&p);
    check(&j, &p, 0, j.a, "stored");
    check(&j, &p, 1, j.a, "another layer");
    p.n_layers = 1;
    p.end = KVR_PRODUCT_GELU;
    p.layer[0] = layer_of(&j, j.n, j.columns, true, false);
    run(&p);
    check(&j, &p, 0, j.a, "GELU");
    p.end = KVR_PRODUCT_RESIDUAL;
    for (int gated = 0; gated < 2; gated++) {
        const size_t frames = (size_t)((j.m + j.frame - 1) / j.frame);

        p.gate = gated ? both_in(j.gate, frames * (size_t)j.stride * sizeof(float)) : NULL;
        p.gate_stride = j.stride;
        p.layer[0] = layer_of(&j, j.n, j.n, true, true);
        p.layer[0].y = both_inout(j.y, (size_t)(j.m * j.n) * sizeof *j.y);
        run(&p);
        check(&j, &p, 0, j.a, gated ? "gated residual" : "residual");
    }
    job_close(&j);
}
END_TEST

/* Results are bit-identical for any order of threads and any number of tiles per CTA. */
START_TEST(order_does_not_show)
{
    const int blocks[] = { 0, 1, 2, 5 };
    kvr_bf16 *first = NULL;
    float *squares = NULL;
    struct job j;

    job_open(&j, 2, FILL_NORMAL);
    const size_t n = (size_t)(j.m * j.columns), n_squares = (size_t)(j.m * kvr_product_blocks(j.n));
    struct kvr_product p = {
        .m = j.m, .k = j.k, .x = in16(j.a, j.m, j.k), .tokens_per_frame = j.frame, .n_layers = 2
    };

    for (int i = 0; i < 4; i++) {
        kvr_bf16 *got = malloc(n * sizeof *got);
        float *left = floats(n_squares);

        kvr_stream_seed(both_stream, (uint64_t)(10 + i));
        p.most_blocks = blocks[i];
        p.layer[0] = layer_of(&j, 40, 40, false, false);
        p.layer[1] = layer_of(&j, j.n, j.columns, true, true);
        run(&p);
        both_get(got, p.layer[1].y, n * sizeof *got, "product");
        both_get(left, p.layer[1].squares, n_squares * sizeof *left, "sums of squares");
        if (!i) {
            first = got;
            squares = left;
            continue;
        }
        ck_assert_mem_eq(first, got, n * sizeof *got);
        ck_assert_mem_eq(squares, left, n_squares * sizeof *left);
        free(got);
        free(left);
    }
    free(first);
    free(squares);
    job_close(&j);
}
END_TEST

/* The launcher accepts exactly the arguments that its header documents. */
START_TEST(what_is_taken)
{
    static _Alignas(16) float at[64];
    const struct kvr_product good = {
        .m = 3,
        .k = 32,
        .x = (kvr_bf16 *)at,
        .tokens_per_frame = 1,
        .n_layers = 1,
        .layer = { { .w = (kvr_bf16 *)at, .y = (kvr_bf16 *)at, .n = 8, .columns = 16 } },
    };
    struct kvr_product p = good;

    ck_assert(kvr_product_accepts(&p));
#define REFUSED(field, value)                                                                      \
    p = good;                                                                                      \
    p.field = value;                                                                               \
    ck_assert_msg(!kvr_product_accepts(&p), #field " = " #value)
    REFUSED(m, -1);
    REFUSED(m, (int64_t)1 << 31);
    REFUSED(m, ((int64_t)1 << 31) / 16);
    REFUSED(k, 0);
    REFUSED(k, 48);
    REFUSED(x, good.x + 1);
    REFUSED(tokens_per_frame, 0);
    REFUSED(n_layers, 0);
    REFUSED(n_layers, KVR_PRODUCT_LAYERS + 1);
    REFUSED(n_layers, 2);
    REFUSED(layer[0].n, 0);
    REFUSED(layer[0].n, 12);
    REFUSED(layer[0].n, 24);
    REFUSED(layer[0].columns, 12);
    REFUSED(layer[0].w, good.x + 4);
    REFUSED(layer[0].y, (kvr_bf16 *)at + 4);
    REFUSED(layer[0].bias, at + 1);
    REFUSED(layer[0].squares, at + 1);
    /* The kernel writes a sum of squares per block of columns, and the array has those of n. */
    p = good;
    p.layer[0].columns = KVR_PRODUCT_BLOCK + 8;
    ck_assert(kvr_product_accepts(&p));
    p.layer[0].squares = at;
    ck_assert(!kvr_product_accepts(&p));
    p.layer[0].columns = KVR_PRODUCT_BLOCK;
    ck_assert(kvr_product_accepts(&p));
    REFUSED(gate, at + 1);
    REFUSED(gate_stride, 1);
    /* Only 8 of the 16 output columns belong to the layer. */
    REFUSED(end, KVR_PRODUCT_RESIDUAL);
    p.layer[0].n = 16;
    ck_assert(kvr_product_accepts(&p));
}
END_TEST

/* The kernel is supported on compute capability 9.0 only. */
START_TEST(where_it_is)
{
    static const char *const capability[] = { "8.0", "9.0", "10.0" };

    for (int i = 0; i < 3 && kvr_stream_emulated(); i++) {
        struct kvr_stream *s;

        setenv("KVREEL_EMULATED_CAPABILITY", capability[i], 1);
        ck_assert_int_eq(kvr_stream_open(&s), KVR_OK);
        unsetenv("KVREEL_EMULATED_CAPABILITY");
        ck_assert_int_eq(kvr_product_supported(s), i == 1);
        kvr_stream_close(&s);
    }
}
END_TEST

TCase *cases_product(void)
{
    TCase *tc = tcase_create("products of warpgroups");

    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, what_is_taken);
    tcase_add_test(tc, where_it_is);
    if (!kvr_stream_emulated() && !kvr_product_supported(both_stream))
        return tc;
    tcase_add_loop_test(tc, plain_rows, 0, N_CASES);
    tcase_add_test(tc, order_does_not_show);
    return tc;
}
