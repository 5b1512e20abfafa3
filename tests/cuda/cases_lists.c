/* cases_lists.c - attention on tensor cores over lists of spans. One launch over a list is compared
 * with one launch per span, and with sums in double precision (mma_reference.h). */
#include "harness/engine/ops_cuda.h"
#include "tests/cuda/mma_reference.h"

/* More spans than one launch accepts, of different sizes. One is empty. */
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
    float *q, *k, *v; /* on the host, rounded to BF16 */
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

/* Computes attention over all spans in double precision. Returns the error bound of the output. */
static double list_in_double(const struct list_data *x, double *want)
{
    struct mma_case c = { .a = { LIST_T, LIST_H, LIST_D } };
    struct mma_sizes z = { 0 };
    double part[LIST_D], lse[LIST_SPANS];

    for (int64_t r = 0; r < LIST_T * LIST_H; r++) {
        double *to = want + r * LIST_D, all = 0;

        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < LIST_SPANS; i++) {
                c.t0 = list_spans[i].t0;
                c.n = list_spans[i].n;
                if (!c.n)
                    continue;
                mma_one_query(&c, x->q + r * LIST_D, (double)list_spans[i].log_m, x->k, x->v, NULL,
                              (int)(r % LIST_H), part, &lse[i], &z);
                if (!pass)
                    all += exp(lse[i]);
                for (int d = 0; d < LIST_D && pass; d++)
                    to[d] += exp(lse[i]) / all * part[d];
            }
    }
    c.n = LIST_N;
    return mma_bound(&c, &z, false);
}

/* The kernels of attend_wgmma.cu and attend_mma.cu process a list of spans in one launch, with and
 * without split-KV. attend_mma.cu also processes it with one launch per span. All outputs are
 * within the bound, and bit-identical for any order of blocks and threads. Without split-KV, one
 * launch of attend_mma.cu gives the bits of one launch per span. */
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
        const struct kvr_attend_state st = mma_state(&a);
        const int64_t cuts = kvr_stream_launches(both_stream, "attend_parts");
        const struct kvr_attend_io io = mma_between(x.d_q, &st);
        const int how = groups ? BY_LIST : by_span ? BY_SPAN : BY_ROWS;

        if (groups && !mma_lists_here())
            continue;
        kvr_stream_seed(both_stream, 70 + (uint64_t)i);
        kvr_attend_begin_cuda(both_stream, &a, &st);
        mma_by_kernel(&a, how, &io, x.span, LIST_SPANS, cut ? parts : NULL, cut ? n_parts : 0);
        kvr_attend_finish_cuda(both_stream, &a, &st, d_out);
        both_get(got, d_out, N * sizeof *got, "list");
        mma_within(want, got, N, tol,
                   by_span ? "span by span"
                   : cut   ? "a list in parts"
                           : "a list");
        ck_assert_int_eq(kvr_stream_launches(both_stream, "attend_parts") > cuts, cut);
        if (i % 3 == 1)
            memcpy(first, got, N * sizeof *got);
        else if (cut)
            ck_assert_mem_eq(first, got, N * sizeof *got);
        if (i == 3)
            memcpy(whole, got, N * sizeof *got);
        else if (by_span)
            ck_assert_mem_eq(whole, got, N * sizeof *got);
        /* LIST_SPANS spans need two launches, the first four spans need one. */
        if (i % 3 != 2)
            for (int n = LIST_SPANS; n; n = n == LIST_SPANS ? 4 : 0)
                mma_ends_alike(&a, how, x.span, n, cut ? parts : NULL, cut ? n_parts : 0, x.q,
                               "ends");
    }
    close_list(&x);
    free(got);
    free(first);
    free(whole);
    free(want);
}
END_TEST

/* Queries, norm weights and rotation angles for attention of shape `a`. A query's sum of squares
 * consists of NORM_PARTS partial sums. */
enum { NORM_PARTS = 3 };
struct norm_inputs {
    size_t n;
    kvr_bf16 *q;
    const kvr_bf16 *d_q;
    const float *weight;
    const double *cosines, *sines;
    float *inverses;
};

static struct norm_inputs norm_inputs(const struct kvr_attend_shape *a)
{
    const int width = a->n_heads * a->head_dim;
    const size_t n = (size_t)(a->n_query * width),
                 n_angles = (size_t)(a->n_query * a->head_dim / 2);
    const size_t n_parts = (size_t)a->n_query * NORM_PARTS;
    struct norm_inputs x = { .n = n, .q = malloc(n * sizeof *x.q) };
    double *co = malloc(n_angles * sizeof *co), *si = malloc(n_angles * sizeof *si);
    float *squares = floats(n_parts), *w = floats((size_t)width);

    ck_assert(x.q && co && si);
    for (size_t i = 0; i < n; i++) {
        const float v = (float)(int)(i * 7919 % 257 % 17) - 8;

        x.q[i] = kvr_f32_to_bf16(v);
        squares[i / (size_t)width * NORM_PARTS + i % (size_t)width % NORM_PARTS] += v * v;
    }
    for (int i = 0; i < width; i++)
        w[i] = 0.3f + 0.01f * (float)(i % 37);
    for (size_t i = 0; i < n_angles; i++) {
        co[i] = cos((double)i * 0.37);
        si[i] = sin((double)i * 0.37);
    }
    x.d_q = both_in(x.q, n * sizeof *x.q);
    x.weight = both_in(w, (size_t)width * sizeof *w);
    x.cosines = both_in(co, n_angles * sizeof *co);
    x.sines = both_in(si, n_angles * sizeof *si);
    x.inverses = both_out((size_t)a->n_query * sizeof *x.inverses);
    kvr_query_inverses_cuda(both_stream, a->n_query, both_in(squares, n_parts * sizeof *squares),
                            NORM_PARTS, width, 1e-6, x.inverses);
    free(co);
    free(si);
    free(squares);
    free(w);
    return x;
}

/* Normalizes the queries in a separate launch of rms_norm or, with `rotates`, of rms_rope. `to` is
 * a copy of the queries and receives the result. rms_rope processes two tensors per launch; `spare`
 * receives the second result. */
static void norm_by_pass(const struct norm_inputs *x, const struct kvr_attend_shape *a,
                         bool rotates, kvr_bf16 *to, kvr_bf16 *spare)
{
    const struct kvr_rows rows = { a->n_query, a->n_heads * a->head_dim, 1 };

    if (rotates)
        kvr_rms_rope_bf16_cuda(both_stream, &rows, a->head_dim,
                               (const float *const[]){ x->weight, x->weight }, 1e-6, x->cosines,
                               x->sines, (const kvr_bf16 *const[]){ x->d_q, x->d_q },
                               (kvr_bf16 *const[]){ to, spare });
    else
        kvr_rms_norm_bf16_cuda(both_stream, &rows, x->weight, 1e-6, to);
}

static const struct norm_case {
    struct kvr_attend_shape a;
    int how;
    bool cut;
    const char *codec; /* codec of K and V, or RAW for BF16 rows */
} norm_cases[] = {
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

/* Attention that normalizes, and optionally rotates, its queries on load gives the bits of
 * rms_norm or rms_rope followed by attention. Queries are small integers, so the sums of their
 * squares do not depend on the order. The queries may lie in the kernel's own output buffer. */
START_TEST(normed_queries)
{
    enum { SLOTS = 12, TOKENS = 200 };
    const struct norm_case *t = &norm_cases[_i / 2];
    const int how = t->how;
    const struct kvr_attend_shape a = t->a;
    const bool rotates = _i % 2, coded = t->codec;
    const struct mma_case of = { t->codec, t->codec, KVR_BF16, a, TOKENS, 0, TOKENS, .log_m = 0 };
    const size_t n_parts = (size_t)SLOTS * KVR_ATTEND_SPLIT_QUERIES * (size_t)(a.head_dim + 2);
    float *const parts = t->cut ? both_out(n_parts * sizeof *parts) : NULL;
    const int64_t passes = kvr_stream_launches(both_stream, "attend_norm");

    if (how == BY_LIST && !mma_lists_here())
        return;
    const struct norm_inputs x = norm_inputs(&a);
    const size_t bytes = x.n * sizeof(kvr_bf16);
    kvr_bf16 *want = malloc(bytes), *got = malloc(bytes);
    kvr_bf16 *finished = both_inout(x.q, bytes), *out = both_inout(x.q, bytes);
    const struct kvr_attend_state st = mma_state(&a);
    struct kvr_dev *dev = open_dev();
    struct mma_held k, v;

    ck_assert(want && got);
    mma_hold(&k, &of, of.k, KVR_K, FILL_NORMAL, dev);
    mma_hold(&v, &of, of.v, KVR_V, FILL_NORMAL, dev);
    const struct kvr_attend_mma_span span[] = {
        { .k = k.source, .v = v.source, .n = 96 },
        { .k = k.source, .v = v.source, .t0 = 96, .n = TOKENS - 96, .log_m = 0.5f },
    };
    struct kvr_attend_io io = { .q16 = finished, .state = st, .begins = true, .out16 = out };

    norm_by_pass(&x, &a, rotates, finished, out);
    mma_by_kernel(&a, how, &io, span, how == BY_SPAN ? 1 : 2, parts, parts ? n_parts : 0);
    both_get(want, out, bytes, "queries normalized by a separate pass");
    io.norm = (struct kvr_query_norm){ x.inverses, x.weight, rotates ? x.cosines : NULL,
                                       rotates ? x.sines : NULL };
    for (int in_place = 0; in_place < 2; in_place++) {
        io.q16 = in_place ? (io.out16 = both_inout(x.q, bytes)) : x.d_q;
        mma_by_kernel(&a, how, &io, span, how == BY_SPAN ? 1 : 2, parts, parts ? n_parts : 0);
        both_get(got, io.out16, bytes, "queries normalized while loaded");
        for (size_t i = 0; i < x.n; i++)
            ck_assert_msg(got[i] == want[i], "value %zu: %#x, not %#x", i, got[i], want[i]);
    }
    ck_assert_int_eq(kvr_stream_launches(both_stream, "attend_norm") - passes, coded ? 2 : 0);
    both_free();
    mma_release(&k);
    mma_release(&v);
    kvr_dev_close(&dev);
    free(x.q);
    free(want);
    free(got);
}
END_TEST

/* One launch over spans encoded in one format and unquantized rows gives the bits of a launch over
 * unquantized rows with the decoded values. Spans end within a tile, an octet (8 tokens) and a
 * quantization group, and the last query block of a head is partial. With 67, 200 and 300 queries,
 * a head uses one CTA, a pair of CTAs that shares decoded tiles, or a pair and a single CTA. With
 * 300 queries and one head, the number of CTAs is odd. */
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
      /* Split along keys: three query blocks, with four KV splits each. */
      true },
};

/* Copies the decoded values to the device as BF16 rows. */
static struct kvr_attend_mma_source decoded(const struct mma_held *x, size_t n)
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
    struct mma_held k, v;
    float *q = floats(N), *want = floats(N), *got = floats(N), *d_q, *d_out, *parts;
    const struct kvr_attend_state st = mma_state(&of.a);
    const size_t n_parts = (size_t)SLOTS * KVR_ATTEND_SPLIT_QUERIES * (D + 2);
    char what[256];

    snprintf(what, sizeof what, "%s, %s: %s, %d queries of %d heads", c->k, c->v, fill_names[fill],
             T, H);
    mma_hold(&k, &of, c->k, KVR_K, fill, dev);
    mma_hold(&v, &of, c->v, KVR_V, fill == FILL_ZERO ? FILL_NORMAL : fill, dev);
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
        /* Span 1 is unquantized and does not begin at a multiple of 8 tokens. */
        if (i == 1)
            continue;
        coded[i].k = k.source;
        coded[i].v = v.source;
    }
    ck_assert_msg(kvr_attend_list_accepts(&of.a, &coded[0]) == c->taken, "%s", what);
    for (int i = 0; i < 4 && c->taken && mma_lists_here(); i++) {
        const bool cut = i > 1;
        const struct kvr_attend_io io = mma_between(d_q, &st);

        kvr_stream_seed(both_stream, 40 + (uint64_t)i);
        kvr_attend_begin_cuda(both_stream, &of.a, &st);
        kvr_attend_list_cuda(both_stream, &of.a, &io, i % 2 ? coded : plain, SPANS,
                             cut ? parts : NULL, cut ? n_parts : 0);
        kvr_attend_finish_cuda(both_stream, &of.a, &st, d_out);
        both_get(i % 2 ? got : want, d_out, N * sizeof *got, what);
        if (i % 2)
            mma_same_bits(want, got, N, what);
    }
    both_free();
    mma_release(&k);
    mma_release(&v);
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

void mma_add_lists(TCase *tc)
{
    tcase_add_test(tc, lists);
    tcase_add_loop_test(tc, normed_queries, 0, 2 * 9);
    tcase_add_loop_test(tc, coded_spans_of_a_list, 0,
                        (int)(sizeof coded_lists / sizeof coded_lists[0]));
}
