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
#include "harness/cache/attend_wgmma.h"
#include "harness/engine/ops_cuda.h"
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
    { RAW, RAW, KVR_BF16, { 131, 2, 128 }, 300, 37, 260, 0.7f, .hostile = true },
    { "raw", "raw", 0, { 9, 1, 128 }, 140, 3, 1, .log_m = 0 },
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

/* Between a begin and an end in passes of their own. */
static struct kvr_attend_io between(const float *q, const struct kvr_attend_state *st)
{
    return (struct kvr_attend_io){ .q = q, .state = *st };
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

/* Lists of plain spans have a launch of their own on sm_90, and emulated. */
static bool lists_here(void)
{
    return kvr_stream_emulated() || kvr_attend_list_here(both_stream);
}

static const enum fill fills[] = { FILL_NORMAL, FILL_ZERO, FILL_CONSTANT, FILL_OUTLIER_CHANNEL,
                                   FILL_OFFSET, FILL_TINY, FILL_NAN,      FILL_INF };
enum { N_OF_FILLS = sizeof fills / sizeof fills[0] };

static void same_bits(const float *want, const float *got, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(!memcmp(&want[i], &got[i], sizeof *got) || (isnan(want[i]) && isnan(got[i])),
                      "%s: value %lld is %g, not %g", what, (long long)i, (double)got[i],
                      (double)want[i]);
}

/* How spans are attended to. */
enum { BY_SPAN, BY_LIST, BY_ROWS };

static void by_kernel(const struct kvr_attend_shape *a, int how, const struct kvr_attend_io *io,
                      const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                      size_t n_parts)
{
    struct kvr_attend_io of = *io;

    if (how == BY_LIST)
        kvr_attend_list_cuda(both_stream, a, io, span, n_spans, parts, n_parts);
    else if (how == BY_ROWS)
        kvr_attend_rows_cuda(both_stream, a, io, span, n_spans, parts, n_parts);
    for (int i = 0; i < n_spans && how == BY_SPAN; i++, of.begins = false) {
        of.out = i + 1 < n_spans ? NULL : io->out;
        of.out16 = i + 1 < n_spans ? NULL : io->out16;
        kvr_attend_mma_cuda(both_stream, a, &of, &span[i]);
    }
}

/* A call may initialize and normalize in separate passes or inside its launches, with an uninitialized state:
 * results are bit-identical. BF16 queries give the bits of the same numbers as F32, rounded. */
static void ends_alike(const struct kvr_attend_shape *a, int how,
                       const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                       size_t n_parts, const float *q, const char *what)
{
    const size_t n = (size_t)(a->n_query * a->n_heads * a->head_dim);
    float *rounded = floats(n), *want = floats(n), *got = floats(n);
    kvr_bf16 *q16 = malloc(n * sizeof *q16), *got16 = malloc(n * sizeof *got16);
    float *d_out = both_out(n * sizeof *got), *d_q;
    kvr_bf16 *d_out16 = both_out(n * sizeof *got16), *d_q16;
    struct kvr_attend_state st = new_state(a);
    struct kvr_attend_io io;

    ck_assert(q16 && got16);
    kvr_from_f32(q16, KVR_BF16, q, n);
    kvr_to_f32(rounded, q16, KVR_BF16, n);
    d_q = both_in(rounded, n * sizeof *rounded);
    d_q16 = both_in(q16, n * sizeof *q16);
    io = between(d_q, &st);
    kvr_attend_begin_cuda(both_stream, a, &st);
    by_kernel(a, how, &io, span, n_spans, parts, n_parts);
    kvr_attend_finish_cuda(both_stream, a, &st, d_out);
    both_get(want, d_out, n * sizeof *want, what);
    st = new_state(a);
    io = (struct kvr_attend_io){ .q = d_q, .state = st, .begins = true, .out = d_out };
    by_kernel(a, how, &io, span, n_spans, parts, n_parts);
    both_get(got, d_out, n * sizeof *got, what);
    same_bits(want, got, (int64_t)n, what);
    st = new_state(a);
    io = (struct kvr_attend_io){ .q16 = d_q16, .state = st, .begins = true, .out16 = d_out16 };
    by_kernel(a, how, &io, span, n_spans, parts, n_parts);
    both_get(got16, d_out16, n * sizeof *got16, what);
    for (size_t i = 0; i < n; i++) {
        want[i] = (float)to_bf16(want[i]);
        got[i] = kvr_bf16_to_f32(got16[i]);
    }
    same_bits(want, got, (int64_t)n, what);
    free(rounded);
    free(want);
    free(got);
    free(q16);
    free(got16);
}

static void run_case(const struct mma_case *c, enum fill fill)
{
    const struct kvr_attend_shape a = c->a;
    const int64_t rows = a.n_query * a.n_heads, n = rows * a.head_dim;
    struct kvr_dev *dev = open_dev();
    struct held k, v;
    float *q = floats((size_t)n), *bias = floats((size_t)rows), *got = floats((size_t)n),
          *s2 = NULL;
    double *want = calloc((size_t)n, sizeof *want), *lse = calloc((size_t)rows, sizeof *lse);
    float *mx = floats((size_t)rows), *sum = floats((size_t)rows), *d_q;
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
    ck_assert_msg(kvr_attend_mma_can(kvr_stream_block_shared(both_stream), &a, &span), "%s", what);
    if (fill == FILL_NORMAL) /* the bound says something */
        ck_assert_msg(bound(c, &z, false) < 0.05 * z.top, "%s: %g of %g", what, bound(c, &z, false),
                      z.top);
    d_q = both_in(q, (size_t)n * sizeof *q);
    const struct kvr_attend_io io = between(d_q, &st);

    for (int list = kvr_attend_list_can(&a, &span) && lists_here(); list >= 0; list--) {
        kvr_attend_begin_cuda(both_stream, &a, &st);
        if (list)
            kvr_attend_list_cuda(both_stream, &a, &io, &span, 1, NULL, 0);
        else
            kvr_attend_mma_cuda(both_stream, &a, &io, &span);
        kvr_attend_finish_cuda(both_stream, &a, &st, d_out);
        both_get(got, d_out, (size_t)n * sizeof *got, what);
        within(want, got, n, bound(c, &z, false), what);
        if (fill == FILL_NORMAL || fill == FILL_INF)
            ends_alike(&a, list, &span, 1, NULL, 0, q, what);
        both_get(mx, st.mx, (size_t)rows * sizeof *mx, what);
        both_get(sum, st.sum, (size_t)rows * sizeof *sum, what);
        for (int64_t i = 0; i < rows; i++)
            mx[i] += logf(sum[i]);
        within(lse, mx, rows, score_bound(c, &z, false) + 16 * u + (double)c->n * u, "log sum");
    }
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
        const struct kvr_attend_io io = between(d_q, &st);

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

            kvr_attend_mma_cuda(both_stream, &c.a, &io, &span);
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
    const struct kvr_attend_io io = between(d_q, &st);

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
            kvr_attend_mma_cuda(both_stream, &c.a, &io, &span);
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
    const struct kvr_attend_io io = between(d_q, &st);

    kvr_attend_begin_cuda(both_stream, &c.a, &st);
    kvr_attend_mma_cuda(both_stream, &c.a, &io,
                        &(struct kvr_attend_mma_span){
                            .k = { .raw = both_in(k, sizeof k), .dtype = KVR_F32 },
                            .v = { .raw = both_in(v, sizeof v), .dtype = KVR_F32 },
                            .n = N,
                        });
    if (_i)
        kvr_attend_mma_cuda(both_stream, &c.a, &io, &zeros);
    kvr_attend_finish_cuda(both_stream, &c.a, &st, d_out);
    both_get(got, d_out, sizeof got, "far apart");
    for (int i = 0; i < T * D && _i; i++) /* all of the weight is on the zeros */
        ck_assert_float_eq(got[i], 0);
    if (!_i)
        within(want, got, T * D, z.top * ((1 + half) * exp(32 * u * z.S) - 1), "far apart");
    both_free();
}
END_TEST

/* More spans than a launch takes, of all sizes, one of them empty. */
enum { LIST_T = 150, LIST_H = 2, LIST_D = 128, LIST_N = 700, LIST_SPANS = 18 };
enum { LIST_W = LIST_H * LIST_D };
static const struct list_span {
    int64_t t0, n;
    float log_m;
} list_spans[LIST_SPANS] = {
    { 0, 300, 0 },     { 310, 1, 2.5f }, { 320, 128, 0 }, { 460, 129, -1 },    { 600, 0, 3 },
    { 600, 64, 0.5f }, { 0, 5, 0 },      { 9, 2, 1 },     { 30, 1, 4 },        { 40, 7, 0 },
    { 50, 3, -2 },     { 70, 1, 0 },     { 80, 9, 0 },    { 100, 127, 0.25f }, { 240, 8, 0 },
    { 670, 30, 0 },    { 690, 10, 1 },   { 699, 1, 0 },
};

struct list_data {
    float *q, *k, *v; /* of the host: what is read */
    float *d_q;
    struct kvr_attend_mma_span span[LIST_SPANS];
};

static void open_list(struct list_data *x)
{
    const struct kvr_block_shape shape = { LIST_N, LIST_H, LIST_D };
    const size_t n = elements(&shape);
    kvr_bf16 *raw = malloc(n * sizeof *raw);
    const void *on[2];

    ck_assert_ptr_nonnull(raw);
    *x = (struct list_data){ floats(LIST_T * LIST_W), floats(n), floats(n), NULL, { { .n = 0 } } };
    kvr_normal(x->q, LIST_T * LIST_W, 3, KVR_RNG_TEST, 3, 0, 0);
    for (int which = 0; which < 2; which++) {
        float *of = which ? x->v : x->k;

        fill_block(of, &shape, which ? FILL_OFFSET : FILL_NORMAL, 1 + (uint32_t)which);
        kvr_from_f32(raw, KVR_BF16, of, n);
        kvr_to_f32(of, raw, KVR_BF16, n);
        on[which] = both_in(raw, n * sizeof *raw);
    }
    free(raw);
    x->d_q = both_in(x->q, LIST_T * LIST_W * sizeof *x->q);
    for (int i = 0; i < LIST_SPANS; i++)
        x->span[i] = (struct kvr_attend_mma_span){
            .k = { .raw = on[0], .dtype = KVR_BF16 },
            .v = { .raw = on[1], .dtype = KVR_BF16 },
            .t0 = list_spans[i].t0,
            .n = list_spans[i].n,
            .log_m = list_spans[i].log_m,
        };
}

static void close_list(struct list_data *x)
{
    both_free();
    free(x->q);
    free(x->k);
    free(x->v);
}

/* All spans in double, and how far off the output may be. */
static double list_in_double(const struct list_data *x, double *want)
{
    struct mma_case c = { .a = { LIST_T, LIST_H, LIST_D } };
    struct sizes z = { 0 };
    double part[LIST_D], lse[LIST_SPANS];

    for (int64_t r = 0; r < LIST_T * LIST_H; r++) {
        double *to = want + r * LIST_D, all = 0;

        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < LIST_SPANS; i++) {
                c.t0 = list_spans[i].t0;
                c.n = list_spans[i].n;
                if (!c.n)
                    continue;
                one_query(&c, x->q + r * LIST_D, (double)list_spans[i].log_m, x->k, x->v, NULL,
                          (int)(r % LIST_H), part, &lse[i], &z);
                if (!pass)
                    all += exp(lse[i]);
                for (int d = 0; d < LIST_D && pass; d++)
                    to[d] += exp(lse[i]) / all * part[d];
            }
    }
    c.n = LIST_N;
    return bound(&c, &z, false);
}

/* A list at once, with its keys cut into parts or not, by warp groups and by mma.sync, and by the
 * latter span after span: all within the bound. Any order of blocks and threads: the same bits; not
 * cut, a list has those of its spans one after the other. */
START_TEST(lists)
{
    enum { N = LIST_T * LIST_W, SLOTS = 12 };
    const struct kvr_attend_shape a = { LIST_T, LIST_H, LIST_D };
    const size_t n_parts = (size_t)SLOTS * KVR_ATTEND_SPLIT_QUERIES * (LIST_D + 2);
    float *got = floats(N), *first = floats(N), *whole = floats(N);
    float *d_out = both_out(N * sizeof *got);
    double *want = calloc(N, sizeof *want), tol;
    struct list_data x;

    ck_assert_ptr_nonnull(want);
    open_list(&x);
    tol = list_in_double(&x, want);
    ck_assert_double_lt(tol, 0.1);
    float *parts = both_out(n_parts * sizeof *parts);

    ck_assert_uint_ge(kvr_attend_parts_floats(&a), n_parts);
    for (int i = 0; i < 7; i++) {
        const bool groups = i<3, by_span = i == 6, cut = i % 3> 0 && !by_span;
        const struct kvr_attend_state st = new_state(&a);
        const int64_t cuts = kvr_stream_launches(both_stream, "attend_parts");
        const struct kvr_attend_io io = between(x.d_q, &st);
        const int how = groups ? BY_LIST : by_span ? BY_SPAN : BY_ROWS;

        if (groups && !lists_here())
            continue;
        kvr_stream_seed(both_stream, 70 + (uint64_t)i);
        kvr_attend_begin_cuda(both_stream, &a, &st);
        by_kernel(&a, how, &io, x.span, LIST_SPANS, cut ? parts : NULL, cut ? n_parts : 0);
        kvr_attend_finish_cuda(both_stream, &a, &st, d_out);
        both_get(got, d_out, N * sizeof *got, "list");
        within(want, got, N, tol, by_span ? "span by span" : cut ? "a list in parts" : "a list");
        ck_assert_int_eq(kvr_stream_launches(both_stream, "attend_parts") > cuts, cut);
        if (i % 3 == 1)
            memcpy(first, got, N * sizeof *got);
        else if (cut)
            ck_assert_mem_eq(first, got, N * sizeof *got);
        if (i == 3)
            memcpy(whole, got, N * sizeof *got);
        else if (by_span)
            ck_assert_mem_eq(whole, got, N * sizeof *got);
        if (i % 3 != 2) /* in two launches; and, with the first spans alone, in one */
            for (int n = LIST_SPANS; n; n = n == LIST_SPANS ? 4 : 0)
                ends_alike(&a, how, x.span, n, cut ? parts : NULL, cut ? n_parts : 0, x.q, "ends");
    }
    close_list(&x);
    free(got);
    free(first);
    free(whole);
    free(want);
}
END_TEST

/* Queries normalized, and optionally rotated, while they are loaded are bit-identical to the output of rms_norm or
 * rms_rope. Queries are small integers, so sums of their squares do not depend on the order. They may lie in the
 * kernel's own output buffer. */
START_TEST(normed_queries)
{
    static const struct {
        struct kvr_attend_shape a;
        int how;
        bool cut;
        const char *codec; /* of keys and values; RAW: rows */
    } t[] = {
        { { 150, 2, 128 }, BY_LIST, false, RAW },
        { { 150, 2, 128 }, BY_LIST, true, RAW },
        { { 70, 2, 64 }, BY_LIST, false, RAW },
        { { 150, 2, 128 }, BY_ROWS, false, RAW },
        { { 150, 2, 128 }, BY_ROWS, true, RAW },
        { { 131, 3, 48 }, BY_ROWS, false, RAW },
        { { 131, 2, 16 }, BY_SPAN, false, RAW },
        { { 20, 2, 64 }, BY_SPAN, false, "sym(bits=4)" },
        { { 20, 2, 128 }, BY_LIST, false, "sym(bits=4)" },
    };
    enum { SLOTS = 12, PARTS = 3, TOKENS = 200 };
    const int how = t[_i / 2].how;
    const struct kvr_attend_shape a = t[_i / 2].a;
    const bool rotates = _i % 2, coded = t[_i / 2].codec;
    const int width = a.n_heads * a.head_dim;
    const struct kvr_rows rows = { a.n_query, width, 1 };
    const struct mma_case of = { t[_i / 2].codec, t[_i / 2].codec, KVR_BF16, a, TOKENS, 0,
                                 TOKENS,          .log_m = 0 };
    const size_t n = (size_t)(a.n_query * width), n_angles = (size_t)(a.n_query * a.head_dim / 2);
    const size_t n_parts = (size_t)SLOTS * KVR_ATTEND_SPLIT_QUERIES * (size_t)(a.head_dim + 2);
    float *const parts = t[_i / 2].cut ? both_out(n_parts * sizeof *parts) : NULL;
    const int64_t passes = kvr_stream_launches(both_stream, "attend_norm");
    kvr_bf16 *q = malloc(n * sizeof *q), *want = malloc(n * sizeof *want),
             *got = malloc(n * sizeof *got);
    double *co = malloc(n_angles * sizeof *co), *si = malloc(n_angles * sizeof *si);
    float *squares = floats((size_t)a.n_query * PARTS), *w = floats((size_t)width);
    float *d_inverses = both_out((size_t)a.n_query * sizeof *d_inverses);
    const struct kvr_attend_state st = new_state(&a);
    struct kvr_dev *dev = open_dev();
    struct held k, v;

    if (how == BY_LIST && !lists_here())
        return;
    ck_assert(q && want && got && co && si);
    hold(&k, &of, of.k, KVR_K, FILL_NORMAL, dev);
    hold(&v, &of, of.v, KVR_V, FILL_NORMAL, dev);
    for (size_t i = 0; i < n; i++) {
        const float x = (float)(int)(i * 7919 % 257 % 17) - 8;

        q[i] = kvr_f32_to_bf16(x);
        squares[i / (size_t)width * PARTS + i % (size_t)width % PARTS] += x * x;
    }
    for (int i = 0; i < width; i++)
        w[i] = 0.3f + 0.01f * (float)(i % 37);
    for (size_t i = 0; i < n_angles; i++) {
        co[i] = cos((double)i * 0.37);
        si[i] = sin((double)i * 0.37);
    }
    const kvr_bf16 *d_q = both_in(q, n * sizeof *q);
    const float *d_w = both_in(w, (size_t)width * sizeof *w);
    const double *d_co = both_in(co, n_angles * sizeof *co),
                 *d_si = both_in(si, n_angles * sizeof *si);
    kvr_bf16 *finished = both_inout(q, n * sizeof *q), *out = both_inout(q, n * sizeof *q);
    const struct kvr_attend_mma_span span[] = {
        { .k = k.source, .v = v.source, .n = 96 },
        { .k = k.source, .v = v.source, .t0 = 96, .n = TOKENS - 96, .log_m = 0.5f },
    };
    struct kvr_attend_io io = { .q16 = finished, .state = st, .begins = true, .out16 = out };

    kvr_query_inverses_cuda(both_stream, a.n_query,
                            both_in(squares, (size_t)a.n_query * PARTS * sizeof *squares), PARTS,
                            width, 1e-6, d_inverses);
    if (rotates)
        kvr_rms_rope_bf16_cuda(both_stream, &rows, a.head_dim, (const float *const[]){ d_w, d_w },
                               1e-6, d_co, d_si, (const kvr_bf16 *const[]){ d_q, d_q },
                               (kvr_bf16 *const[]){ finished, out }); /* out is written again */
    else
        kvr_rms_norm_bf16_cuda(both_stream, &rows, d_w, 1e-6, finished);
    by_kernel(&a, how, &io, span, how == BY_SPAN ? 1 : 2, parts, parts ? n_parts : 0);
    both_get(want, out, n * sizeof *want, "of queries that a pass has left");
    io.norm =
        (struct kvr_query_norm){ d_inverses, d_w, rotates ? d_co : NULL, rotates ? d_si : NULL };
    for (int in_place = 0; in_place < 2; in_place++) {
        io.q16 = in_place ? (io.out16 = both_inout(q, n * sizeof *q)) : d_q;
        by_kernel(&a, how, &io, span, how == BY_SPAN ? 1 : 2, parts, parts ? n_parts : 0);
        both_get(got, io.out16, n * sizeof *got, "of queries as they are loaded");
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(got[i] == want[i], "value %zu: %#x, not %#x", i, got[i], want[i]);
    }
    ck_assert_int_eq(kvr_stream_launches(both_stream, "attend_norm") - passes, coded ? 2 : 0);
    both_free();
    let_go(&k);
    let_go(&v);
    kvr_dev_close(&dev);
    free(q);
    free(want);
    free(got);
    free(co);
    free(si);
    free(squares);
    free(w);
}
END_TEST

/* Coded spans of one format and plain rows in one launch are bit-identical to plain rows of the decoded values.
 * Spans end within a tile, an octet and a group; queries fill no block. A head has one CTA, a pair that shares
 * decoded tiles, or a pair and a single CTA; one head of three CTAs makes the total odd. */
static const struct list_queries {
    int n, heads;
} list_queries[] = { { 300, 2 }, { 200, 2 }, { 67, 2 }, { 300, 1 } };

enum { LONG = 1600 };
static const struct coded_list {
    const char *k, *v;
    int n_tok;
    bool taken;
} coded_lists[] = {
    { "sym(bits=4)", "sym(bits=4)", 165, true },
    { "sym(bits=2,group=32)", "sym(bits=2)", 168, true },
    { "asym(bits=4)", "asym(bits=4,axis=token)", 168, true },
    { "asym(bits=2)", "sym(bits=2,axis=token)", 168, true },
    { "sym(bits=4)", "sym(bits=2)", 168, false },
    { "sym(bits=4,group=8)", "sym(bits=4)", 168, false },
    { "sym(bits=8)", "sym(bits=8)", 168, false },
    { "asym(bits=4)", "asym(bits=4,axis=channels,group=16)", 168, false },
    { "sym(bits=2) + sym(bits=4)", "sym(bits=2) + sym(bits=4)", 165, true },
    { "sym(bits=4,group=32) + sym(bits=4)", "sym(bits=4) + sym(bits=4,group=64)", 168, true },
    { "sym(bits=4) + sym(bits=2)", "sym(bits=4) + sym(bits=2)", 168, false },
    { "sym(bits=4) + asym(bits=4)", "sym(bits=4) + sym(bits=4)", 168, false },
    { "sym(bits=4) + sym(bits=4)", "sym(bits=4)", 168, false },
    { "outliers(sigma=2) | sym(bits=4)", "sym(bits=4)", 168, false },
    { "sym(bits=4)", "sym(bits=4)", LONG,
      true }, /* split along keys: three pieces, four parts each */
};

/* What is held as BF16 rows of device memory. */
static struct kvr_attend_mma_source decoded(const struct held *x, size_t n)
{
    kvr_bf16 *raw = malloc(n * sizeof *raw);
    const void *on;

    ck_assert_ptr_nonnull(raw);
    kvr_from_f32(raw, KVR_BF16, x->read, n);
    on = both_in(raw, n * sizeof *raw);
    free(raw);
    return (struct kvr_attend_mma_source){ .raw = on, .dtype = KVR_BF16 };
}

static void run_coded_list(const struct coded_list *c, enum fill fill,
                           const struct list_queries *of_q)
{
    enum { D = 128, SPANS = 3, SLOTS = 24 };
    const int T = of_q->n, H = of_q->heads;
    const size_t N = (size_t)(T * H * D), n_held = (size_t)(c->n_tok * H * D);
    const struct list_span at[SPANS] = { { 16, c->n_tok == LONG ? 1501 : 149, 0.5f },
                                         { 3, 40, 0 },
                                         { 0, 9, -1 } };
    const struct mma_case of = { c->k, c->v, 0, { T, H, D }, c->n_tok, 0, c->n_tok, .log_m = 0 };
    struct kvr_attend_mma_span coded[SPANS], plain[SPANS];
    struct kvr_dev *dev = open_dev();
    struct held k, v;
    float *q = floats(N), *want = floats(N), *got = floats(N), *d_q, *d_out, *parts;
    const struct kvr_attend_state st = new_state(&of.a);
    const size_t n_parts = (size_t)SLOTS * KVR_ATTEND_SPLIT_QUERIES * (D + 2);
    char what[256];

    snprintf(what, sizeof what, "%s, %s: %s, %d queries of %d heads", c->k, c->v, fill_names[fill],
             T, H);
    hold(&k, &of, c->k, KVR_K, fill, dev);
    hold(&v, &of, c->v, KVR_V, fill == FILL_ZERO ? FILL_NORMAL : fill, dev);
    kvr_normal(q, N, 3, KVR_RNG_TEST, 3, 0, 0);
    d_q = both_in(q, N * sizeof *q);
    d_out = both_out(N * sizeof *got);
    parts = both_out(n_parts * sizeof *parts);
    for (int i = 0; i < SPANS; i++) {
        plain[i] = (struct kvr_attend_mma_span){ .k = decoded(&k, n_held),
                                                 .v = decoded(&v, n_held),
                                                 .t0 = at[i].t0,
                                                 .n = at[i].n,
                                                 .log_m = at[i].log_m };
        coded[i] = plain[i];
        if (i == 1) /* that one is not coded, and begins at no octet */
            continue;
        coded[i].k = k.source;
        coded[i].v = v.source;
    }
    ck_assert_msg(kvr_attend_list_can(&of.a, &coded[0]) == c->taken, "%s", what);
    for (int i = 0; i < 4 && c->taken && lists_here(); i++) {
        const bool cut = i > 1;
        const struct kvr_attend_io io = between(d_q, &st);

        kvr_stream_seed(both_stream, 40 + (uint64_t)i);
        kvr_attend_begin_cuda(both_stream, &of.a, &st);
        kvr_attend_list_cuda(both_stream, &of.a, &io, i % 2 ? coded : plain, SPANS,
                             cut ? parts : NULL, cut ? n_parts : 0);
        kvr_attend_finish_cuda(both_stream, &of.a, &st, d_out);
        both_get(i % 2 ? got : want, d_out, N * sizeof *got, what);
        if (i % 2)
            same_bits(want, got, N, what);
    }
    both_free();
    let_go(&k);
    let_go(&v);
    kvr_dev_close(&dev);
    free(q);
    free(want);
    free(got);
}

START_TEST(coded_spans_of_a_list)
{
    static const enum fill hostile[] = { FILL_NORMAL, FILL_INF, FILL_OUTLIER_CHANNEL };

    const bool all = _i == 0 || _i == 2 || _i == 8;

    for (int f = 0; f < (all ? 4 : 1); f++)
        run_coded_list(&coded_lists[_i], hostile[f % 3],
                       &list_queries[all                             ? f
                                     : coded_lists[_i].n_tok == LONG ? 3
                                                                     : _i % 4]);
}
END_TEST

/* A cache's plain spans share a launch: of warp groups where the device is of compute capability 9.0
 * and the head as wide as it has to be, else of mma.sync. */
START_TEST(plain_spans_share_a_launch)
{
    static const struct {
        const char *capability;
        int head_dim, lists, rows;
    } t[] = { { "9.0", 128, 1, 0 },
              { "9.0", 64, 1, 0 },
              { "9.0", 32, 0, 1 },
              { "8.0", 128, 0, 1 },
              { NULL, 128, 0, 1 } };
    enum { T = 3, N = 40, MOST = N * 128 };
    static kvr_bf16 raw[MOST];
    float q[T * 128], out[T * 128], first[T * 128];

    if (!kvr_stream_emulated())
        return;
    kvr_normal(q, T * 128, 3, KVR_RNG_TEST, 3, 0, 0);
    for (int i = 0; i < MOST; i++)
        raw[i] = kvr_f32_to_bf16((float)(i * 13 % 31 - 15) / 16);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        const int d = t[i].head_dim;
        const struct kvr_attend_needs needs = {
            .n_heads = 1, .head_dim = d, .max_query = T, .exact = KVR_BF16, .staged = true
        };
        struct kvr_attend_scratch scratch = { 0 };
        struct kvr_buf rows = { 0 }, of_q = { 0 }, of_out = { 0 };
        struct kvr_span span[3];
        struct kvr_dev *dev;

        if (t[i].capability)
            setenv("KVREEL_EMULATED_CAPABILITY", t[i].capability, 1);
        ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
        unsetenv("KVREEL_EMULATED_CAPABILITY");
        ck_assert_int_eq(kvr_buf_alloc(&rows, dev, KVR_MEM_KV, sizeof raw), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&of_q, dev, KVR_MEM_ACT, sizeof q), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&of_out, dev, KVR_MEM_ACT, sizeof out), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, rows.p, raw, sizeof raw), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, of_q.p, q, sizeof q), KVR_OK);
        for (int k = 0; k < 3; k++)
            span[k] = (struct kvr_span){
                .raw = { rows.p, rows.p, KVR_BF16 }, .t0 = 10 * k, .n = 10, .log_m = (float)k
            };
        const struct kvr_attend_job job = {
            .n_heads = 1,
            .head_dim = d,
            .n_query = T,
            .q = of_q.p,
            .out = of_out.p,
            .spans = span,
            .n_spans = 3,
            .tensor_cores = true,
        };

        ck_assert_int_eq(kvr_attend_reserve(&scratch, dev, &needs), KVR_OK);
        kvr_attend(&job, &scratch);
        ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
        ck_assert_int_eq(kvr_dev_get(dev, out, of_out.p, (size_t)(T * d) * sizeof *out), KVR_OK);
        ck_assert_int_eq(kvr_stream_launches(kvr_dev_stream(dev), "attend_list"), t[i].lists);
        ck_assert_int_eq(kvr_stream_launches(kvr_dev_stream(dev), "attend_mma_rows"), t[i].rows);
        if (!i)
            memcpy(first, out, sizeof out);
        for (int k = 0; k < T * d && d == 128; k++)
            ck_assert_float_eq_tol(out[k], first[k], 0.02f); /* h of values up to 1, and weights */
        kvr_attend_release(&scratch);
        kvr_buf_free(&rows);
        kvr_buf_free(&of_q);
        kvr_buf_free(&of_out);
        kvr_dev_close(&dev);
    }
}
END_TEST

/* And so do a cache's coded spans that it decodes, with the plain ones between: on path fused. */
START_TEST(coded_spans_share_a_launch)
{
    static const struct {
        const char *capability, *k, *v;
        int lists, spans;
    } t[] = { { "9.0", "sym(bits=4)", "sym(bits=4)", 1, 0 },
              { "9.0", "asym(bits=2)", "asym(bits=2,axis=token)", 1, 0 },
              { "9.0", "hadamard | sym(bits=4)", "hadamard | sym(bits=4)", 2, 0 },
              { "9.0", "sym(bits=2) + sym(bits=4)", "sym(bits=2) + sym(bits=4)", 1, 0 },
              { "9.0", "sym(bits=3)", "sym(bits=3)", 1, 1 },
              { "8.0", "sym(bits=4)", "sym(bits=4)", 0, 1 } };
    enum { T = 3, D = 128, N = 40 };
    float q[T * D], out[T * D], want[T * D];

    if (!kvr_stream_emulated())
        return;
    kvr_normal(q, T * D, 3, KVR_RNG_TEST, 3, 0, 0);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        const struct mma_case of = { t[i].k, t[i].v, 0, { T, 1, D }, N, 0, N, .log_m = 0 };
        const struct kvr_attend_needs needs = {
            .n_heads = 1, .head_dim = D, .max_query = T, .exact = KVR_BF16, .rotated = true
        };
        kvr_bf16 raw[N * D];
        struct kvr_segment seg = { .kind = KVR_SEG_CODED, .n_tok = N };
        struct kvr_buf rows = { 0 }, of_q = { 0 }, of_out = { 0 };
        struct kvr_dev *host = open_dev(), *dev;
        struct kvr_attend_scratch scratch = { 0 };
        struct held k, v;

        setenv("KVREEL_EMULATED_CAPABILITY", t[i].capability, 1);
        ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
        unsetenv("KVREEL_EMULATED_CAPABILITY");
        hold(&k, &of, t[i].k, KVR_K, FILL_NORMAL, host);
        hold(&v, &of, t[i].v, KVR_V, FILL_NORMAL, host);
        kvr_from_f32(raw, KVR_BF16, k.x, N * D);
        ck_assert_int_eq(kvr_packed_copy(&k.packed, dev, &seg.k), KVR_OK);
        ck_assert_int_eq(kvr_packed_copy(&v.packed, dev, &seg.v), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&rows, dev, KVR_MEM_KV, sizeof raw), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&of_q, dev, KVR_MEM_ACT, sizeof q), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&of_out, dev, KVR_MEM_ACT, sizeof out), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, rows.p, raw, sizeof raw), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, of_q.p, q, sizeof q), KVR_OK);
        const struct kvr_span span[] = { { .seg = &seg, .n = 30 },
                                         { .raw = { rows.p, rows.p, KVR_BF16 }, .t0 = 3, .n = 9 } };
        const struct kvr_attend_job job = {
            .n_heads = 1,
            .head_dim = D,
            .n_query = T,
            .q = of_q.p,
            .out = of_out.p,
            .spans = span,
            .n_spans = 2,
            .fused = true,
            .tensor_cores = true,
        };
        const struct kvr_attend_job slow = { .n_heads = 1,
                                             .head_dim = D,
                                             .n_query = T,
                                             .q = of_q.p,
                                             .out = of_out.p,
                                             .spans = span,
                                             .n_spans = 2 };

        ck_assert_int_eq(kvr_attend_reserve(&scratch, dev, &needs), KVR_OK);
        kvr_attend(&job, &scratch);
        ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
        ck_assert_int_eq(kvr_dev_get(dev, out, of_out.p, sizeof out), KVR_OK);
        ck_assert_int_eq(kvr_stream_launches(kvr_dev_stream(dev), "attend_list"), t[i].lists);
        ck_assert_int_eq(kvr_stream_launches(kvr_dev_stream(dev), "attend_mma_coded"), t[i].spans);
        /* In F32, by pieces that are decoded. */
        const struct kvr_attend_needs all = { .n_heads = 1,
                                              .head_dim = D,
                                              .max_query = T,
                                              .exact = KVR_F32,
                                              .staged = true,
                                              .rotated = true };

        ck_assert_int_eq(kvr_attend_reserve(&scratch, dev, &all), KVR_OK);
        kvr_attend(&slow, &scratch);
        ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
        ck_assert_int_eq(kvr_dev_get(dev, want, of_out.p, sizeof want), KVR_OK);
        for (int j = 0; j < T * D; j++) /* of values up to 4, and weights */
            ck_assert_float_eq_tol(out[j], want[j], 0.06f);
        kvr_attend_release(&scratch);
        kvr_packed_free(&seg.k);
        kvr_packed_free(&seg.v);
        kvr_buf_free(&rows);
        kvr_buf_free(&of_q);
        kvr_buf_free(&of_out);
        let_go(&k);
        let_go(&v);
        kvr_dev_close(&dev);
        kvr_dev_close(&host);
        both_free();
    }
}
END_TEST

/* Path staged: all coded spans of a call are one launch with the uncoded ones. A limit on the scratch makes it
 * several, whose softmax states are merged; weights of other tiles round otherwise, so that results agree to
 * BF16's roundings of weights (2^-9 of values up to 4). */
START_TEST(staged_in_fills)
{
    static const struct {
        const char *capability, *codec, *kernel;
        bool wide;
    } t[] = { { "9.0", "sym(bits=4)", "attend_list", false },
              { "8.0", "sym(bits=4)", "attend_mma_rows", false },
              { "9.0", "hadamard | sym(bits=4)", "attend_list", false },
              { "9.0", "mean | sym(bits=4)", "attend_list", true } };
    enum { T = 3, D = 128, N = 300, ROOM = 128 };
    float q[T * D], out[2][T * D];

    if (!kvr_stream_emulated())
        return;
    kvr_normal(q, T * D, 3, KVR_RNG_TEST, 3, 0, 0);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        const struct mma_case of = { t[i].codec, t[i].codec, 0, { T, 1, D }, N, 0, N, .log_m = 0 };
        kvr_bf16 raw[N * D];
        struct kvr_segment seg = { .kind = KVR_SEG_CODED, .n_tok = N };
        struct kvr_buf rows = { 0 }, of_q = { 0 }, of_out = { 0 };
        struct kvr_dev *host = open_dev(), *dev;
        struct held k, v;

        setenv("KVREEL_EMULATED_CAPABILITY", t[i].capability, 1);
        ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
        unsetenv("KVREEL_EMULATED_CAPABILITY");
        hold(&k, &of, t[i].codec, KVR_K, FILL_NORMAL, host);
        hold(&v, &of, t[i].codec, KVR_V, FILL_NORMAL, host);
        ck_assert_int_eq(kvr_codec_decodes_bf16(k.packed.codec, 1, D), !t[i].wide);
        kvr_from_f32(raw, KVR_BF16, k.x, N * D);
        ck_assert_int_eq(kvr_packed_copy(&k.packed, dev, &seg.k), KVR_OK);
        ck_assert_int_eq(kvr_packed_copy(&v.packed, dev, &seg.v), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&rows, dev, KVR_MEM_KV, sizeof raw), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&of_q, dev, KVR_MEM_ACT, sizeof q), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&of_out, dev, KVR_MEM_ACT, sizeof out[0]), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, rows.p, raw, sizeof raw), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, of_q.p, q, sizeof q), KVR_OK);
        const struct kvr_span span[] = { { .seg = &seg, .n = 170 },
                                         { .seg = &seg, .t0 = 170, .n = 130 },
                                         { .raw = { rows.p, rows.p, KVR_BF16 }, .t0 = 3, .n = 9 } };
        const struct kvr_attend_job job = { .n_heads = 1,
                                            .head_dim = D,
                                            .n_query = T,
                                            .q = of_q.p,
                                            .out = of_out.p,
                                            .spans = span,
                                            .n_spans = 3,
                                            .tensor_cores = true };

        for (int small = 0; small < 2; small++) {
            const struct kvr_attend_needs needs = { .n_heads = 1,
                                                    .head_dim = D,
                                                    .max_query = T,
                                                    .exact = KVR_BF16,
                                                    .staged = true,
                                                    .rotated = true,
                                                    .wide = t[i].wide,
                                                    .max_staged = N,
                                                    .staged_bytes = small };
            const int64_t before = kvr_stream_launches(kvr_dev_stream(dev), t[i].kernel);
            struct kvr_attend_scratch scratch = { 0 };

            ck_assert_int_eq(kvr_attend_reserve(&scratch, dev, &needs), KVR_OK);
            ck_assert_uint_eq(scratch.rows.n_bytes, (small ? ROOM : N) * D * 2 * sizeof(kvr_bf16));
            ck_assert_int_eq(scratch.tiles.n_bytes > 0, t[i].wide);
            kvr_attend(&job, &scratch);
            ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
            ck_assert_int_eq(kvr_dev_get(dev, out[small], of_out.p, sizeof out[0]), KVR_OK);
            ck_assert_int_eq(kvr_stream_launches(kvr_dev_stream(dev), t[i].kernel) - before,
                             small ? (N + ROOM - 1) / ROOM : 1);
            kvr_attend_release(&scratch);
        }
        for (int j = 0; j < T * D; j++)
            ck_assert_float_eq_tol(out[0][j], out[1][j], 0x1p-7f);
        kvr_packed_free(&seg.k);
        kvr_packed_free(&seg.v);
        kvr_buf_free(&rows);
        kvr_buf_free(&of_q);
        kvr_buf_free(&of_out);
        let_go(&k);
        let_go(&v);
        kvr_dev_close(&dev);
        kvr_dev_close(&host);
        both_free();
    }
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

        ck_assert_msg(kvr_attend_mma_can(SIZE_MAX, &a, &span) == t[i].can, "%s",
                      t[i].k ? t[i].k : "raw");
        if (t[i].can)
            ck_assert_uint_le(kvr_attend_mma_shared_bytes(SIZE_MAX, &a, &span), 160 * 1024);
        if (c)
            kvr_codec_close(&c);
    }
}
END_TEST

/* Rows of BF16 with 128 channels: two blocks of sm_90 and sm_80 have room for a tile that is read and
 * one that comes; a block of sm_86, sm_89 or sm_120 has 101,376 bytes, and reads them tile by tile. */
START_TEST(what_a_block_may_have)
{
    static const kvr_bf16 raw[8] __attribute__((aligned(16)));
    const struct kvr_attend_shape a = { 5, 2, 128 };
    const struct kvr_attend_mma_span span = { .k = { .raw = raw, .dtype = KVR_BF16 },
                                              .v = { .raw = raw, .dtype = KVR_BF16 },
                                              .n = 30 };
    const size_t all = kvr_attend_mma_shared_bytes(SIZE_MAX, &a, &span);
    const size_t less = kvr_attend_mma_shared_bytes(101376, &a, &span);

    ck_assert(all > 101376 && less > 0 && less <= 101376);
    ck_assert_uint_eq(kvr_attend_mma_shared_bytes(all, &a, &span), all);
    ck_assert_uint_eq(kvr_attend_mma_shared_bytes(all - 1, &a, &span), less);
    ck_assert(kvr_attend_mma_can(less, &a, &span) && !kvr_attend_mma_can(less - 1, &a, &span));
    ck_assert_uint_eq(kvr_attend_mma_shared_bytes(less - 1, &a, &span), 0);
    if (kvr_stream_block_shared(both_stream) >= 160 * 1024)
        ck_assert_int_ge(kvr_attend_mma_blocks(both_stream, &a, &span), 2);
    if (kvr_stream_emulated())
        ck_assert_int_eq(kvr_attend_mma_blocks(both_stream, &a, &span), 2);
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
    tcase_add_test(tc, lists);
    tcase_add_loop_test(tc, normed_queries, 0, 2 * 9);
    tcase_add_loop_test(tc, coded_spans_of_a_list, 0,
                        (int)(sizeof coded_lists / sizeof coded_lists[0]));
    tcase_add_test(tc, plain_spans_share_a_launch);
    tcase_add_test(tc, coded_spans_share_a_launch);
    tcase_add_test(tc, staged_in_fills);
    tcase_add_test(tc, what_it_takes);
    tcase_add_test(tc, what_a_block_may_have);
    return tc;
}
