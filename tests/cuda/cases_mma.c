/* cases_mma.c - attention on tensor cores with one span per launch. Outputs are compared with the
 * CPU and with sums in double precision (mma_reference.h). */
#include "harness/engine/ops_cuda.h"
#include "methods/codecs/hadamard/fwht.h"
#include "tests/cuda/mma_reference.h"

/* Some CTAs, tiles and warps are partly filled. Spans begin and end within a tile, an octet (8
 * tokens) or a quantization group. Codecs are of every kind. */
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
    /* Heads of 128 channels, for each kernel that supports them. */
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

/* Runs the CPU's attention over the same segment. */
static void on_the_cpu(const struct mma_case *c, const float *q, struct mma_held *k,
                       struct mma_held *v, double *out)
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

/* A case's queries and row biases, and the outputs and logs of softmax sums (lse) computed in
 * double precision. */
struct truth {
    float *q, *bias;
    double *out, *lse;
    struct mma_sizes z;
};

static struct truth in_double(const struct mma_case *c, const struct mma_held *k,
                              const struct mma_held *v)
{
    const struct kvr_attend_shape *a = &c->a;
    const int64_t rows = a->n_query * a->n_heads, n = rows * a->head_dim;
    struct truth t = { .q = floats((size_t)n), .bias = floats((size_t)rows) };
    float *s2 = NULL;

    t.out = calloc((size_t)n, sizeof *t.out);
    t.lse = calloc((size_t)rows, sizeof *t.lse);
    ck_assert(t.out && t.lse);
    kvr_normal(t.q, (size_t)n, 3, KVR_RNG_TEST, 3, 0, 0);
    for (int64_t i = 0; i < n && c->taylor; i++)
        t.q[i] *= 3;
    if (k->codec && kvr_codec_rotated(k->codec))
        kvr_fwht(t.q, rows, a->head_dim, KVR_COMPUTE_F32);
    for (int64_t i = 0; i < rows && c->bias; i++)
        t.bias[i] = 0.25f * (float)(i % 7) - 0.5f;
    if (c->taylor) {
        s2 = floats((size_t)(c->n_tok * a->n_heads * a->head_dim));
        for (int h = 0; h < a->n_heads; h++)
            for (int64_t at = 0; at < c->n_tok; at++)
                kvr_squared_scales(&k->packed, h, at, 1, s2 + (at * a->n_heads + h) * a->head_dim);
    }
    for (int64_t i = 0; i < rows; i++)
        mma_one_query(c, t.q + i * a->head_dim, (double)c->log_m - (double)t.bias[i], k->read,
                      v->read, s2, (int)(i % a->n_heads), t.out + i * a->head_dim, t.lse + i, &t.z);
    free(s2);
    return t;
}

static void free_truth(struct truth *t)
{
    free(t->q);
    free(t->bias);
    free(t->out);
    free(t->lse);
}

/* Compares each row's log of the softmax sum, mx + log(sum), with the reference. */
static void check_log_sums(const struct mma_case *c, const struct kvr_attend_state *st,
                           const struct truth *t, const char *what)
{
    const int64_t rows = c->a.n_query * c->a.n_heads;
    float *mx = floats((size_t)rows), *sum = floats((size_t)rows);

    both_get(mx, st->mx, (size_t)rows * sizeof *mx, what);
    both_get(sum, st->sum, (size_t)rows * sizeof *sum, what);
    for (int64_t i = 0; i < rows; i++)
        mx[i] += logf(sum[i]);
    mma_within(t->lse, mx, rows,
               mma_score_bound(c, &t->z, false) + 16 * mma_u + (double)c->n * mma_u, "log sum");
    free(mx);
    free(sum);
}

static void run_case(const struct mma_case *c, enum fill fill)
{
    const struct kvr_attend_shape a = c->a;
    const int64_t rows = a.n_query * a.n_heads, n = rows * a.head_dim;
    struct kvr_dev *dev = open_dev();
    struct mma_held k, v;
    float *got = floats((size_t)n), *d_out = both_out((size_t)n * sizeof *got);
    const struct kvr_attend_state st = mma_state(&a);
    struct kvr_attend_mma_span span = { .t0 = c->t0, .n = c->n, .log_m = c->log_m };
    char what[512];

    snprintf(what, sizeof what, "%s, %s: %s", c->k ? c->k : "raw", c->v ? c->v : "raw",
             fill_names[fill]);
    mma_hold(&k, c, c->k, KVR_K, fill, dev);
    mma_hold(&v, c, c->v, KVR_V, fill == FILL_ZERO ? FILL_NORMAL : fill, dev);
    struct truth t = in_double(c, &k, &v);
    const double tol = mma_bound(c, &t.z, false);

    span.k = k.source;
    span.v = v.source;
    span.row_bias = c->bias ? both_in(t.bias, (size_t)rows * sizeof *t.bias) : NULL;
    span.taylor = c->taylor;
    ck_assert_msg(kvr_attend_mma_accepts(kvr_stream_block_shared(both_stream), &a, &span), "%s",
                  what);
    /* A bound above 5 % of the largest value might not detect a wrong kernel. */
    if (fill == FILL_NORMAL)
        ck_assert_msg(tol < 0.05 * t.z.top, "%s: %g of %g", what, tol, t.z.top);
    const struct kvr_attend_io io = mma_between(both_in(t.q, (size_t)n * sizeof *t.q), &st);

    for (int list = kvr_attend_list_accepts(&a, &span) && mma_lists_here(); list >= 0; list--) {
        kvr_attend_begin_cuda(both_stream, &a, &st);
        mma_by_kernel(&a, list ? BY_LIST : BY_SPAN, &io, &span, 1, NULL, 0);
        kvr_attend_finish_cuda(both_stream, &a, &st, d_out);
        both_get(got, d_out, (size_t)n * sizeof *got, what);
        mma_within(t.out, got, n, tol, what);
        if (fill == FILL_NORMAL || fill == FILL_INF)
            mma_ends_alike(&a, list ? BY_LIST : BY_SPAN, &span, 1, NULL, 0, t.q, what);
        check_log_sums(c, &st, &t, what);
    }
    if (k.codec && v.codec && !kvr_codec_rotated(k.codec) && !kvr_codec_rotated(v.codec) &&
        !c->bias && fill < N_FINITE_FILLS) {
        on_the_cpu(c, t.q, &k, &v, t.out);
        mma_within(t.out, got, n, mma_bound(c, &t.z, true), what);
    }
    both_free();
    mma_release(&k);
    mma_release(&v);
    kvr_dev_close(&dev);
    free_truth(&t);
    free(got);
}

START_TEST(sources)
{
    const struct mma_case *c = &cases[_i];

    for (int f = 0; f < N_OF_FILLS && (f == 0 || c->hostile); f++)
        run_case(c, fills[f]);
}
END_TEST

/* A span gives the same bits in one launch as in several launches over parts that end at tile
 * boundaries. The order of blocks and threads does not matter. */
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
    struct mma_held k, v;
    float q[N], first[N], got[N], *d_q, *d_out = both_out(sizeof got);

    mma_hold(&k, &c, c.k, KVR_K, FILL_NORMAL, dev);
    mma_hold(&v, &c, c.v, KVR_V, FILL_NORMAL, dev);
    kvr_normal(q, N, 3, KVR_RNG_TEST, 3, 0, 0);
    d_q = both_in(q, sizeof q);
    for (int i = 0; i < 4; i++) {
        const struct kvr_attend_state st = mma_state(&c.a);
        const struct kvr_attend_io io = mma_between(d_q, &st);

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
    mma_release(&k);
    mma_release(&v);
    kvr_dev_close(&dev);
}
END_TEST

/* Three spans of 50 tokens, which do not end at tile boundaries. The kernel of attend_cuda.h
 * processes the second span. The output stays within the bound. */
START_TEST(turns)
{
    enum { T = 21, H = 2, D = 48, N = 150, W = H * D };
    static const struct mma_case c = { .a = { T, H, D }, .n_tok = N, .n = N };
    const struct kvr_block_shape shape = { N, H, D };
    float *x = floats(2 * N * W), q[T * W], got[T * W], *d_x, *d_q;
    float *d_out = both_out(sizeof got);
    double want[T * W], lse;
    const struct kvr_attend_state st = mma_state(&c.a);
    struct mma_sizes z = { 0 };

    fill_block(x, &shape, FILL_NORMAL, 1);
    fill_block(x + N * W, &shape, FILL_OFFSET, 2);
    kvr_normal(q, T * W, 3, KVR_RNG_TEST, 3, 0, 0);
    for (int i = 0; i < T * W; i++)
        q[i] = (float)to_bf16(q[i]);
    for (int i = 0; i < T * H; i++)
        mma_one_query(&c, q + i * D, 0, x, x + N * W, NULL, i % H, want + i * D, &lse, &z);
    d_x = both_in(x, 2 * N * W * sizeof *x);
    d_q = both_in(q, sizeof q);
    const struct kvr_attend_io io = mma_between(d_q, &st);

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
    mma_within(want, got, T * W, mma_bound(&c, &z, false), "turns");
    both_free();
    free(x);
}
END_TEST

/* Scores are about 10000 and their terms are exact in F32, so the bound has no term for the
 * rounding of sums. With _i = 1 there is also a segment of m zero tokens, represented by one
 * token with score log m. */
START_TEST(far_apart)
{
    enum { T = 18, H = 1, D = 16, N = 70 };
    static const struct mma_case c = { .a = { T, H, D }, .n_tok = N, .n = N };
    const struct kvr_block_shape shape = { N, H, D };
    float k[N * D], v[N * D], q[T * D], got[T * D];
    double want[T * D], lse;
    struct mma_sizes z = { 0 };
    const struct kvr_attend_state st = mma_state(&c.a);
    const struct kvr_attend_mma_span zeros = { .n = 1, .log_m = 30000 };
    float *d_q, *d_out = both_out(sizeof got);

    fill_block(v, &shape, FILL_NORMAL, 1);
    for (int i = 0; i < N * D; i++)
        k[i] = (float)(i * 7 % 11 - 5);
    for (int i = 0; i < T * D; i++)
        q[i] = (float)(32 * (i * 13 % 97) - 960);
    for (int i = 0; i < T; i++)
        mma_one_query(&c, q + i * D, 0, k, v, NULL, 0, want + i * D, &lse, &z);
    ck_assert(z.S > 9000);
    d_q = both_in(q, sizeof q);
    const struct kvr_attend_io io = mma_between(d_q, &st);

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
    /* The token with score log m = 30000 has all of the weight, and its value is 0. */
    for (int i = 0; i < T * D && _i; i++)
        ck_assert_float_eq(got[i], 0);
    if (!_i)
        mma_within(want, got, T * D, z.top * ((1 + mma_half) * exp(32 * mma_u * z.S) - 1),
                   "far apart");
    both_free();
}
END_TEST

/* kvr_attend_mma_accepts() accepts exactly the codecs and head sizes that the launcher supports. */
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

        ck_assert_msg(kvr_attend_mma_accepts(SIZE_MAX, &a, &span) == t[i].can, "%s",
                      t[i].k ? t[i].k : "raw");
        if (t[i].can)
            ck_assert_uint_le(kvr_attend_mma_shared_bytes(SIZE_MAX, &a, &span), 160 * 1024);
        if (c)
            kvr_codec_close(&c);
    }
}
END_TEST

/* Shared memory that the kernel needs for BF16 rows with 128 channels. On sm_90 and sm_80, two CTAs
 * per SM have room for two stages each. On sm_86, sm_89 and sm_120, a CTA has 101,376 bytes, enough
 * for one stage. */
START_TEST(shared_memory_limits)
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
    ck_assert(kvr_attend_mma_accepts(less, &a, &span) &&
              !kvr_attend_mma_accepts(less - 1, &a, &span));
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
    mma_add_lists(tc);
    mma_add_paths(tc);
    tcase_add_test(tc, what_it_takes);
    tcase_add_test(tc, shared_memory_limits);
    return tc;
}
