/* cases_mma.c - attention on tensor cores, against the CPU and against sums in double.
 *
 * u = 2^-24, h = 2^-9 (what rounding to BF16 is off by, relatively). With S the largest sum of
 * |q_d k_d| / sqrt(D), C the largest correction, B = |log m| + |row bias|, top = max |v|:
 *
 *     a score           D products added in F32, at most 4 u of S each, as a tensor core may cut
 *                       bits off; scale, bias and maximum: 8 u (S + C + B). With taylor two
 *                       factors rounded, 2 h C.
 *     a weight          its score's and the maximum's error, together e; 2^x adds 8 u
 *     its product       rounded to BF16 in the numerator alone: h
 *     log sum           log of all weights, which shows what softmax hides: e + 8 u + n u
 *     the output        a quotient of two sums of n weights: off by at most
 *                       top ((1 + h) exp(2 e + 16 u + 2 n u) - 1)
 *
 * That is against sums in double of q, k and v rounded to BF16 (k and v: of what the CPU decodes).
 * Against the CPU's attention, which rounds none of them: 2 h S more for a score, 2 h C for its
 * correction, and h for v. */
#include "harness/cache/attend.h"
#include "harness/cache/attend_mma.h"
#include "methods/codecs/hadamard/fwht.h"
#include "tests/cuda/both.h"

static const double u = 0x1p-24, half = 0x1p-9;

#define RAW NULL

struct mma_case {
    const char *k, *v; /* RAW: rows of type `raw` */
    enum kvr_dtype raw;
    struct kvr_attend_shape a;
    int64_t n_tok, t0, n;
    float log_m;
    bool study, bias, taylor, hostile; /* hostile: with all fills */
};
/* Queries, keys and channels that fill no block, no tile, no warp; windows that begin and end
 * within a tile, an octet, a group; everything a codec can be. */
static const struct mma_case cases[] = {
    { RAW, RAW, KVR_BF16, { 20, 2, 16 }, 30, 0, 30, 0, .hostile = true },
    { RAW, RAW, KVR_BF16, { 37, 2, 64 }, 150, 3, 140, 0.7f, .bias = true },
    { RAW, RAW, KVR_BF16, { 70, 1, 128 }, 70, 0, 70, .log_m = 0 },
    { RAW, RAW, KVR_BF16, { 131, 1, 48 }, 129, 64, 65, .log_m = 0 },
    { RAW, RAW, KVR_F32, { 33, 2, 32 }, 100, 17, 70, -2, .hostile = true },
    { RAW, RAW, KVR_F32, { 5, 2, 80 }, 66, 65, 1, 0, .bias = true },
    { "raw", RAW, KVR_F32, { 9, 2, 112 }, 65, 0, 65, .log_m = 0 },
    { "raw(type=f32)", "raw", KVR_F32, { 9, 2, 16 }, 80, 70, 10, .log_m = 0 },
    { "sym(bits=4)", "sym(bits=4)", 0, { 40, 2, 64 }, 100, 0, 100, 0.5f, .hostile = true },
    { "sym(bits=2)", "sym(bits=2)", 0, { 20, 2, 128 }, 70, 5, 60, 0, .taylor = true },
    { "sym(bits=3)", "asym(bits=5)", 0, { 20, 2, 16 }, 70, 0, 70, 0, .taylor = true },
    { "sym(bits=6)", "asym(bits=7)", 0, { 20, 2, 32 }, 43, 9, 30, 0, .bias = true },
    { "sym(bits=8)", "asym(bits=8)", 0, { 20, 2, 48 }, 130, 60, 70, 0, .taylor = true },
    { "asym(bits=2)", "asym(bits=2,axis=token)", 0, { 35, 2, 64 }, 90, 1, 88, 0, .hostile = true },
    { "asym(bits=4,axis=token)",
      "sym(bits=4,axis=token)",
      0,
      { 20, 2, 64 },
      77,
      11,
      66,
      0,
      .taylor = true,
      .bias = true },
    { "sym(bits=2,axis=channels,group=16)",
      "asym(bits=3,axis=channels,group=8)",
      0,
      { 20, 2, 64 },
      75,
      2,
      70,
      0,
      .taylor = true,
      .hostile = true },
    { "asym(bits=4,axis=channels,group=64)",
      "sym(bits=4,axis=channels,group=64)",
      0,
      { 20, 1, 128 },
      40,
      0,
      40,
      3,
      .taylor = true },
    { "sym(bits=4,group=8)",
      "sym(bits=2,group=32)",
      0,
      { 20, 2, 96 },
      150,
      20,
      128,
      0,
      .taylor = true },
    { "asym(bits=3,group=128)",
      "asym(bits=2,group=256)",
      0,
      { 20, 2, 32 },
      150,
      50,
      99,
      0,
      .taylor = true },
    { "sym(bits=2) + sym(bits=4)",
      "sym(bits=4) + sym(bits=4)",
      0,
      { 40, 2, 64 },
      100,
      7,
      93,
      0,
      .taylor = true,
      .hostile = true },
    { "asym(bits=3) + sym(bits=2)",
      "sym(bits=2,group=8) + asym(bits=8)",
      0,
      { 20, 2, 32 },
      67,
      0,
      67,
      0,
      .taylor = true },
    /* Wide heads: each kernel that there is of them. */
    { "sym(bits=4)", "sym(bits=2)", 0, { 40, 2, 128 }, 200, 3, 190, 0, .hostile = true },
    { "sym(bits=2,group=64)",
      "sym(bits=4,group=8)",
      0,
      { 40, 1, 128 },
      190,
      64,
      126,
      0,
      .study = false },
    { "asym(bits=4)",
      "asym(bits=4,axis=token)",
      0,
      { 20, 2, 128 },
      136,
      0,
      136,
      0,
      .study = false },
    { "sym(bits=8,axis=token)", "asym(bits=2)", 0, { 20, 2, 128 }, 131, 2, 129, 0, .study = false },
    { "sym(bits=3,axis=channels,group=16)",
      "asym(bits=6,axis=channels,group=8)",
      0,
      { 20, 2, 128 },
      130,
      0,
      130,
      0,
      .study = false },
    { "sym(bits=4) + sym(bits=4)",
      "sym(bits=2) + sym(bits=2)",
      0,
      { 20, 2, 128 },
      90,
      9,
      80,
      0,
      .study = false },
    { RAW, "sym(bits=8,axis=token)", KVR_BF16, { 20, 2, 128 }, 90, 9, 80, 0, .study = false },
    { "asym(bits=5)", RAW, KVR_F32, { 20, 2, 128 }, 90, 9, 80, 0, .taylor = true },
    { "outliers(sigma=1) | asym(bits=2)",
      "outliers(sigma=1) | asym(bits=2,axis=token)",
      0,
      { 20, 2, 64 },
      100,
      10,
      85,
      0,
      .taylor = true,
      .hostile = true },
    { "outliers(sigma=2,max_ratio=0.01) | sym(bits=2) + sym(bits=2)",
      "sym(bits=4)",
      0,
      { 20, 2, 128 },
      66,
      0,
      66,
      1,
      .taylor = true },
    { "outliers(sigma=2) | sym(bits=4,axis=channels,group=16)",
      RAW,
      KVR_BF16,
      { 20, 2, 32 },
      100,
      33,
      60,
      0,
      .taylor = true },
    { "hadamard | sym(bits=2)",
      "hadamard | sym(bits=4)",
      0,
      { 20, 2, 64 },
      90,
      5,
      80,
      0,
      .taylor = true },
    { "hadamard | outliers(sigma=2) | sym(bits=2)",
      "sym(bits=2)",
      0,
      { 20, 2, 32 },
      90,
      5,
      80,
      0,
      .taylor = true },
    { "sym(bits=4)",
      "asym(bits=4,axis=token)",
      0,
      { 20, 2, 64 },
      37,
      0,
      37,
      0,
      .study = true,
      .taylor = true,
      .hostile = true },
    { "asym(bits=2)",
      "asym(bits=4)",
      0,
      { 20, 2, 32 },
      75,
      30,
      40,
      0,
      .study = true,
      .taylor = true },
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* Keys or values of a case: coded, decoded, on the device. */
struct held {
    struct kvr_codec *codec;
    struct kvr_packed packed, on_device;
    float *x, *read; /* as they were; as they are read [n_tok,H,D] */
    void *raw;       /* of the host */
    struct kvr_attend_mma_source source;
};

static void *copy_of(struct kvr_buf *b)
{
    return b->n_bytes ? both_in(b->p, b->n_bytes) : NULL;
}

static void hold(struct held *out, const struct mma_case *c, const char *text, enum kvr_side side,
                 enum fill fill, struct kvr_dev *dev)
{
    const struct kvr_block_shape shape = { c->n_tok, c->a.n_heads, c->a.head_dim };
    const size_t n = elements(&shape), bytes = n * kvr_dtype_size(c->raw);
    float *work = floats(n);

    *out = (struct held){ .x = floats(n), .read = floats(n) };
    fill_block(out->x, &shape, fill, 7 + (uint32_t)side);
    for (size_t i = 0; i < n && c->taylor && side == KVR_K; i++) /* steps that differ */
        out->x[i] *= 0.3f * (float)(1 + i * (size_t)c->n_tok / n / 8 % 5);
    if (text) {
        out->codec = open_codec(text, side, c->study, KVR_COMPUTE_F32);
        ck_assert_int_eq(kvr_codec_encode(out->codec, dev, out->x, &shape, work, &out->packed),
                         KVR_OK);
        kvr_codec_decode_rotated(&out->packed, 0, c->n_tok, 0, c->a.n_heads, out->read);
        out->on_device = out->packed;
        for (int i = 0; i < KVR_MAX_STAGES; i++) {
            out->on_device.stage[i].codes.p = copy_of(&out->packed.stage[i].codes);
            out->on_device.stage[i].meta.p = copy_of(&out->packed.stage[i].meta);
        }
        out->source.packed = &out->on_device;
    } else {
        out->raw = malloc(bytes);
        ck_assert_ptr_nonnull(out->raw);
        kvr_from_f32(out->raw, c->raw, out->x, n);
        kvr_to_f32(out->read, out->raw, c->raw, n);
        out->source = (struct kvr_attend_mma_source){ NULL, both_in(out->raw, bytes), c->raw };
    }
    free(work);
}

static void let_go(struct held *h)
{
    if (h->codec) {
        kvr_packed_free(&h->packed);
        kvr_codec_close(&h->codec);
    }
    free(h->x);
    free(h->read);
    free(h->raw);
}

static struct kvr_attend_state new_state(const struct kvr_attend_shape *a)
{
    const size_t rows = (size_t)(a->n_query * a->n_heads) * sizeof(float);

    return (struct kvr_attend_state){ both_out(rows), both_out(rows),
                                      both_out(rows * (size_t)a->head_dim) };
}

static double to_bf16(float x)
{
    return (double)kvr_bf16_to_f32(kvr_f32_to_bf16(x));
}

/* What the bound is made of. */
struct sizes {
    double S, C, B, top;
};

static double larger(double a, double b)
{
    return isfinite(b) && b > a ? b : a;
}

/* One query of one head in double; q, k, v as BF16. */
static void one_query(const struct mma_case *c, const float *q, double bias, const float *k,
                      const float *v, const float *s2, int h, double *out, double *lse,
                      struct sizes *z)
{
    const int d = c->a.head_dim;
    const int64_t width = (int64_t)c->a.n_heads * d;
    double *score = calloc((size_t)c->n, sizeof *score), top = -INFINITY, sum = 0;

    ck_assert_ptr_nonnull(score);
    for (int64_t j = 0; j < c->n; j++) {
        const int64_t at = (c->t0 + j) * width + (int64_t)h * d;
        double dot = 0, size = 0, off = 0;

        for (int e = 0; e < d; e++) {
            const double x = to_bf16(q[e]), term = x * to_bf16(k[at + e]);

            dot += term;
            size += fabs(term);
            off += s2 ? x * x * (double)s2[at + e] : 0;
        }
        off /= 24.0 * d;
        score[j] = dot / sqrt(d) - off + bias;
        top = score[j] > top ? score[j] : top;
        z->S = larger(z->S, size / sqrt(d));
        z->C = larger(z->C, off);
    }
    z->B = larger(z->B, fabs(bias));
    for (int e = 0; e < d; e++)
        out[e] = 0;
    for (int64_t j = 0; j < c->n; j++) {
        const double w = exp(score[j] - top);

        sum += w;
        for (int e = 0; e < d; e++) {
            const double x = to_bf16(v[(c->t0 + j) * width + (int64_t)h * d + e]);

            out[e] += w * x;
            z->top = larger(z->top, fabs(x));
        }
    }
    for (int e = 0; e < d; e++)
        out[e] /= sum;
    *lse = top + log(sum);
    free(score);
}

/* How far a score may be from sums in double, or from the CPU's. */
static double score_bound(const struct mma_case *c, const struct sizes *z, bool cpu)
{
    return c->a.head_dim * 4 * u * (z->S + z->C) + 8 * u * (z->S + z->C + z->B) + 2 * half * z->C +
           (cpu ? 2 * half * (z->S + z->C) : 0);
}

/* The same of the output. */
static double bound(const struct mma_case *c, const struct sizes *z, bool cpu)
{
    const double e = 2 * score_bound(c, z, cpu) + 16 * u + 2 * (double)c->n * u;

    return z->top * ((1 + half) * (cpu ? 1 + half : 1) * exp(e) - 1);
}

static void within(const double *want, const float *got, int64_t n, double tol, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        const double g = (double)got[i];

        if ((isnan(want[i]) && isnan(g)) || want[i] == g)
            continue;
        if (!(fabs(want[i] - g) <= tol))
            ck_abort_msg("%s[%lld]: %g, not %g; may differ by %g", what, (long long)i, g, want[i],
                         tol);
    }
}

/* The CPU's attention over the same segment. */
static void on_the_cpu(const struct mma_case *c, const float *q, struct held *k, struct held *v,
                       double *out)
{
    const struct kvr_attend_shape *a = &c->a;
    struct kvr_dev *dev = open_dev();
    struct kvr_attend_scratch scratch = { 0 };
    struct kvr_segment seg = { .n_tok = c->n_tok, .k = k->packed, .v = v->packed };
    const struct kvr_span span = { .seg = &seg, .t0 = c->t0, .n = c->n, .log_m = c->log_m };
    const struct kvr_attend_needs needs = {
        .n_heads = a->n_heads,
        .head_dim = a->head_dim,
        .max_query = a->n_query,
        .staged = true,
        .rotated = true,
        .correction = kvr_correction_at(1),
    };
    const int64_t n = a->n_query * a->n_heads * a->head_dim;
    float *got = floats((size_t)n);
    const struct kvr_attend_job job = {
        .n_heads = a->n_heads,
        .head_dim = a->head_dim,
        .n_query = a->n_query,
        .q = q,
        .out = got,
        .spans = &span,
        .n_spans = 1,
        .correction = c->taylor ? kvr_correction_at(1) : NULL,
    };

    ck_assert(!job.correction || !strcmp(job.correction->name, "taylor"));
    ck_assert_int_eq(kvr_attend_reserve(&scratch, dev, &needs), KVR_OK);
    kvr_attend(&job, &scratch);
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)got[i];
    kvr_attend_release(&scratch);
    kvr_dev_close(&dev);
    free(got);
}

static const enum fill fills[] = { FILL_NORMAL, FILL_ZERO, FILL_CONSTANT, FILL_OUTLIER_CHANNEL,
                                   FILL_OFFSET, FILL_TINY, FILL_NAN,      FILL_INF };
enum { N_OF_FILLS = sizeof fills / sizeof fills[0] };

static void run_case(const struct mma_case *c, enum fill fill)
{
    const struct kvr_attend_shape a = c->a;
    const int64_t rows = a.n_query * a.n_heads, n = rows * a.head_dim;
    struct kvr_dev *dev = open_dev();
    struct held k, v;
    float *q = floats((size_t)n), *bias = floats((size_t)rows), *got = floats((size_t)n),
          *s2 = NULL;
    double *want = calloc((size_t)n, sizeof *want), *lse = calloc((size_t)rows, sizeof *lse);
    float *mx = floats((size_t)rows), *sum = floats((size_t)rows);
    float *d_out = both_out((size_t)n * sizeof *got);
    const struct kvr_attend_state st = new_state(&a);
    struct kvr_attend_mma_span span = { .t0 = c->t0, .n = c->n, .log_m = c->log_m };
    struct sizes z = { 0 };
    char what[512];
    bool rotated;

    ck_assert(want && lse);
    snprintf(what, sizeof what, "%s, %s: %s", c->k ? c->k : "raw", c->v ? c->v : "raw",
             fill_names[fill]);
    hold(&k, c, c->k, KVR_K, fill, dev);
    hold(&v, c, c->v, KVR_V, fill == FILL_ZERO ? FILL_NORMAL : fill, dev);
    rotated = k.codec && kvr_codec_rotated(k.codec);
    kvr_normal(q, (size_t)n, 3, KVR_RNG_TEST, 3, 0, 0);
    for (int64_t i = 0; i < n && c->taylor; i++)
        q[i] *= 3;
    if (rotated)
        kvr_fwht(q, rows, a.head_dim, KVR_COMPUTE_F32);
    for (int64_t i = 0; i < rows && c->bias; i++)
        bias[i] = 0.25f * (float)(i % 7) - 0.5f;
    if (c->taylor) {
        s2 = floats((size_t)(c->n_tok * a.n_heads * a.head_dim));
        for (int h = 0; h < a.n_heads; h++)
            for (int64_t t = 0; t < c->n_tok; t++)
                kvr_squared_scales(&k.packed, h, t, 1, s2 + (t * a.n_heads + h) * a.head_dim);
    }
    for (int64_t i = 0; i < rows; i++)
        one_query(c, q + i * a.head_dim, (double)c->log_m - (double)bias[i], k.read, v.read, s2,
                  (int)(i % a.n_heads), want + i * a.head_dim, lse + i, &z);
    span.k = k.source;
    span.v = v.source;
    span.row_bias = c->bias ? both_in(bias, (size_t)rows * sizeof *bias) : NULL;
    span.taylor = c->taylor;
    ck_assert_msg(kvr_attend_mma_can(&a, &span), "%s", what);
    kvr_attend_begin_cuda(both_stream, &a, &st);
    kvr_attend_mma_cuda(both_stream, &a, both_in(q, (size_t)n * sizeof *q), &span, &st);
    kvr_attend_finish_cuda(both_stream, &a, &st, d_out);
    both_get(got, d_out, (size_t)n * sizeof *got, what);
    if (fill == FILL_NORMAL) /* the bound says something */
        ck_assert_msg(bound(c, &z, false) < 0.05 * z.top, "%s: %g of %g", what, bound(c, &z, false),
                      z.top);
    within(want, got, n, bound(c, &z, false), what);
    both_get(mx, st.mx, (size_t)rows * sizeof *mx, what);
    both_get(sum, st.sum, (size_t)rows * sizeof *sum, what);
    for (int64_t i = 0; i < rows; i++)
        mx[i] += logf(sum[i]);
    within(lse, mx, rows, score_bound(c, &z, false) + 16 * u + (double)c->n * u, "log sum");
    if (k.codec && v.codec && !rotated && !kvr_codec_rotated(v.codec) && !c->bias &&
        fill < N_FINITE_FILLS) {
        on_the_cpu(c, q, &k, &v, want);
        within(want, got, n, bound(c, &z, true), what);
    }
    both_free();
    let_go(&k);
    let_go(&v);
    kvr_dev_close(&dev);
    free(q);
    free(bias);
    free(got);
    free(s2);
    free(want);
    free(lse);
    free(mx);
    free(sum);
}

START_TEST(sources)
{
    const struct mma_case *c = &cases[_i];

    for (int f = 0; f < N_OF_FILLS && (f == 0 || c->hostile); f++)
        run_case(c, fills[f]);
}
END_TEST

/* One span, or the same in parts that end where tiles do: the same bits; the plain kernel may take
 * a part of it. Any order of blocks and threads: the same bits. */
START_TEST(parts_and_orders)
{
    static const struct mma_case c = {
        "sym(bits=2)", "asym(bits=4,axis=token)", 0, { 37, 2, 32 }, 200, 5, 190, 0, .taylor = true
    };
    static const int64_t cuts[][4] = {
        { 5, 195, 195, 195 }, { 5, 64, 128, 195 }, { 5, 128, 192, 195 }, { 5, 195, 195, 195 }
    };
    enum { N = 37 * 2 * 32 };
    struct kvr_dev *dev = open_dev();
    struct held k, v;
    float q[N], first[N], got[N], *d_q, *d_out = both_out(sizeof got);

    hold(&k, &c, c.k, KVR_K, FILL_NORMAL, dev);
    hold(&v, &c, c.v, KVR_V, FILL_NORMAL, dev);
    kvr_normal(q, N, 3, KVR_RNG_TEST, 3, 0, 0);
    d_q = both_in(q, sizeof q);
    for (int i = 0; i < 4; i++) {
        const struct kvr_attend_state st = new_state(&c.a);

        kvr_stream_seed(both_stream, 100 + (uint64_t)i);
        kvr_attend_begin_cuda(both_stream, &c.a, &st);
        for (int part = 0; part < 3; part++) {
            const struct kvr_attend_mma_span span = {
                .k = k.source,
                .v = v.source,
                .t0 = cuts[i][part],
                .n = cuts[i][part + 1] - cuts[i][part],
                .taylor = true,
            };

            kvr_attend_mma_cuda(both_stream, &c.a, d_q, &span, &st);
        }
        kvr_attend_finish_cuda(both_stream, &c.a, &st, d_out);
        both_get(i ? got : first, d_out, sizeof got, "parts");
        if (i)
            ck_assert_mem_eq(first, got, sizeof got);
    }
    both_free();
    let_go(&k);
    let_go(&v);
    kvr_dev_close(&dev);
}
END_TEST

/* Spans cut anywhere, and shared with the kernel of attend_cuda.h: one answer, within the bound. */
START_TEST(turns)
{
    enum { T = 21, H = 2, D = 48, N = 150, W = H * D };
    static const struct mma_case c = { .a = { T, H, D }, .n_tok = N, .n = N };
    const struct kvr_block_shape shape = { N, H, D };
    float *x = floats(2 * N * W), q[T * W], got[T * W], *d_x, *d_q;
    float *d_out = both_out(sizeof got);
    double want[T * W], lse;
    const struct kvr_attend_state st = new_state(&c.a);
    struct sizes z = { 0 };

    fill_block(x, &shape, FILL_NORMAL, 1);
    fill_block(x + N * W, &shape, FILL_OFFSET, 2);
    kvr_normal(q, T * W, 3, KVR_RNG_TEST, 3, 0, 0);
    for (int i = 0; i < T * W; i++)
        q[i] = (float)to_bf16(q[i]);
    for (int i = 0; i < T * H; i++)
        one_query(&c, q + i * D, 0, x, x + N * W, NULL, i % H, want + i * D, &lse, &z);
    d_x = both_in(x, 2 * N * W * sizeof *x);
    d_q = both_in(q, sizeof q);
    kvr_attend_begin_cuda(both_stream, &c.a, &st);
    for (int64_t t = 0; t < N; t += 50) {
        const struct kvr_attend_piece piece = { .k = d_x + t * W, .v = d_x + (N + t) * W, .n = 50 };
        const struct kvr_attend_mma_span span = {
            .k = { .raw = d_x, .dtype = KVR_F32 },
            .v = { .raw = d_x + N * W, .dtype = KVR_F32 },
            .t0 = t,
            .n = 50,
        };

        if (t == 50)
            kvr_attend_piece_cuda(both_stream, &c.a, d_q, &piece, &st);
        else
            kvr_attend_mma_cuda(both_stream, &c.a, d_q, &span, &st);
    }
    kvr_attend_finish_cuda(both_stream, &c.a, &st, d_out);
    both_get(got, d_out, sizeof got, "turns");
    within(want, got, T * W, bound(&c, &z, false), "turns");
    both_free();
    free(x);
}
END_TEST

/* Scores of about 10000, all of whose terms F32 holds: the bound without what sums lose. And a
 * segment of zeros, which a token stands for: its score is log m. */
START_TEST(far_apart)
{
    enum { T = 18, H = 1, D = 16, N = 70 };
    static const struct mma_case c = { .a = { T, H, D }, .n_tok = N, .n = N };
    const struct kvr_block_shape shape = { N, H, D };
    float k[N * D], v[N * D], q[T * D], got[T * D];
    double want[T * D], lse;
    struct sizes z = { 0 };
    const struct kvr_attend_state st = new_state(&c.a);
    const struct kvr_attend_mma_span zeros = { .n = 1, .log_m = 30000 };
    float *d_q, *d_out = both_out(sizeof got);

    fill_block(v, &shape, FILL_NORMAL, 1);
    for (int i = 0; i < N * D; i++)
        k[i] = (float)(i * 7 % 11 - 5);
    for (int i = 0; i < T * D; i++)
        q[i] = (float)(32 * (i * 13 % 97) - 960);
    for (int i = 0; i < T; i++)
        one_query(&c, q + i * D, 0, k, v, NULL, 0, want + i * D, &lse, &z);
    ck_assert(z.S > 9000);
    d_q = both_in(q, sizeof q);
    kvr_attend_begin_cuda(both_stream, &c.a, &st);
    kvr_attend_mma_cuda(both_stream, &c.a, d_q,
                        &(struct kvr_attend_mma_span){
                            .k = { .raw = both_in(k, sizeof k), .dtype = KVR_F32 },
                            .v = { .raw = both_in(v, sizeof v), .dtype = KVR_F32 },
                            .n = N,
                        },
                        &st);
    if (_i)
        kvr_attend_mma_cuda(both_stream, &c.a, d_q, &zeros, &st);
    kvr_attend_finish_cuda(both_stream, &c.a, &st, d_out);
    both_get(got, d_out, sizeof got, "far apart");
    for (int i = 0; i < T * D && _i; i++) /* all of the weight is on the zeros */
        ck_assert_float_eq(got[i], 0);
    if (!_i)
        within(want, got, T * D, z.top * ((1 + half) * exp(32 * u * z.S) - 1), "far apart");
    both_free();
}
END_TEST

/* What the launcher does not take, it says. */
START_TEST(what_it_takes)
{
    static const struct {
        const char *k;
        int head_dim;
        bool can;
    } t[] = {
        { RAW, 128, true },
        { RAW, 256, false },
        { RAW, 24, false },
        { "sym(bits=8) + asym(bits=8)", 128, true },
        { "outliers | hadamard | sym(bits=4)", 64, false },
        { "sym(bits=2) + sym(bits=2) + sym(bits=2)", 64, false },
        { "sym(axis=channels,group=10)", 80, false },
        { "sym(group=24)", 64, false },
        { "asym(bits=3) + sym(bits=2,axis=token)", 64, false },
        { "hadamard | outliers | asym(bits=3,axis=token)", 64, true },
    };

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct kvr_codec *c = t[i].k ? open_codec(t[i].k, KVR_K, false, KVR_COMPUTE_F32) : NULL;
        const struct kvr_attend_shape a = { 5, 2, t[i].head_dim };
        const struct kvr_packed p = { .codec = c, .shape = { 30, 2, t[i].head_dim } };
        const struct kvr_attend_mma_span span = {
            .k = { .packed = c ? &p : NULL },
            .v = { .packed = c ? &p : NULL },
            .n = 30,
        };

        ck_assert_msg(kvr_attend_mma_can(&a, &span) == t[i].can, "%s", t[i].k ? t[i].k : "raw");
        if (t[i].can)
            ck_assert_uint_le(kvr_attend_mma_shared_bytes(&a, &span), 160 * 1024);
        if (c)
            kvr_codec_close(&c);
    }
}
END_TEST

TCase *cases_mma(void)
{
    TCase *tc = tcase_create("attention on tensor cores");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, sources, 0, N_CASES);
    tcase_add_test(tc, parts_and_orders);
    tcase_add_test(tc, turns);
    tcase_add_loop_test(tc, far_apart, 0, 2);
    tcase_add_test(tc, what_it_takes);
    return tc;
}
