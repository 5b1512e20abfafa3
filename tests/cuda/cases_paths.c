/* cases_paths.c - kvr_attend() on an emulated device of a given compute capability: which spans
 * of a cache share a launch. */
#include "tests/cuda/mma_reference.h"

/* A device with BF16 rows (used as keys and as values), queries and output. */
struct path {
    struct kvr_dev *dev, *host;
    struct kvr_buf rows, q, out;
    struct kvr_segment seg; /* encoded segment, if the test has one */
    struct mma_held k, v;
};

static void put_buf(struct path *x, struct kvr_buf *to, enum kvr_mem_tag what, const void *from,
                    size_t n)
{
    ck_assert_int_eq(kvr_buf_alloc(to, x->dev, what, n), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(x->dev, to->p, from, n), KVR_OK);
}

/* Opens the device. capability = NULL uses the default. */
static void open_path(struct path *x, const char *capability)
{
    *x = (struct path){ .host = open_dev() };
    if (capability)
        setenv("KVREEL_EMULATED_CAPABILITY", capability, 1);
    ck_assert_int_eq(kvr_dev_open(&x->dev, KVR_CUDA), KVR_OK);
    unsetenv("KVREEL_EMULATED_CAPABILITY");
}

static void put_rows(struct path *x, const kvr_bf16 *raw, size_t n_raw, const float *q, size_t n_q)
{
    put_buf(x, &x->rows, KVR_MEM_KV, raw, n_raw * sizeof *raw);
    put_buf(x, &x->q, KVR_MEM_ACT, q, n_q * sizeof *q);
    ck_assert_int_eq(kvr_buf_alloc(&x->out, x->dev, KVR_MEM_ACT, n_q * sizeof *q), KVR_OK);
}

/* Encodes a segment with the codecs and the shape of `of`. The BF16 rows are the segment's keys
 * before encoding. */
static void put_coded(struct path *x, const struct mma_case *of, const float *q)
{
    const size_t n = (size_t)(of->n_tok * of->a.n_heads * of->a.head_dim);
    kvr_bf16 *raw = malloc(n * sizeof *raw);

    ck_assert_ptr_nonnull(raw);
    mma_hold(&x->k, of, of->k, KVR_K, FILL_NORMAL, x->host);
    mma_hold(&x->v, of, of->v, KVR_V, FILL_NORMAL, x->host);
    x->seg = (struct kvr_segment){ .kind = KVR_SEG_CODED, .n_tok = of->n_tok };
    ck_assert_int_eq(kvr_packed_copy(&x->k.packed, x->dev, &x->seg.k), KVR_OK);
    ck_assert_int_eq(kvr_packed_copy(&x->v.packed, x->dev, &x->seg.v), KVR_OK);
    kvr_from_f32(raw, KVR_BF16, x->k.x, n);
    put_rows(x, raw, n, q, (size_t)(of->a.n_query * of->a.n_heads * of->a.head_dim));
    free(raw);
}

static void close_path(struct path *x)
{
    if (x->k.codec) {
        kvr_packed_free(&x->seg.k);
        kvr_packed_free(&x->seg.v);
        mma_release(&x->k);
        mma_release(&x->v);
    }
    kvr_buf_free(&x->rows);
    kvr_buf_free(&x->q);
    kvr_buf_free(&x->out);
    kvr_dev_close(&x->dev);
    kvr_dev_close(&x->host);
    both_free();
}

/* Runs attention with one head. `out` receives n_query * head_dim floats. */
static void attend_path(struct path *x, const struct kvr_span *span, int n_spans, int n_query,
                        int head_dim, bool tensor_cores, bool fused,
                        struct kvr_attend_scratch *scratch, float *out)
{
    const struct kvr_attend_job job = {
        .n_heads = 1,
        .head_dim = head_dim,
        .n_query = n_query,
        .q = x->q.p,
        .out = x->out.p,
        .spans = span,
        .n_spans = n_spans,
        .fused = fused,
        .tensor_cores = tensor_cores,
    };

    kvr_attend(&job, scratch);
    ck_assert_msg(kvr_dev_sync(x->dev) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_get(x->dev, out, x->out.p, (size_t)(n_query * head_dim) * sizeof *out),
                     KVR_OK);
}

static int64_t launches(const struct path *x, const char *kernel)
{
    return kvr_stream_launches(kvr_dev_stream(x->dev), kernel);
}

/* All unquantized spans of a cache share one launch of attend_wgmma.cu on compute capability 9.0
 * with heads of 64 or 128 channels. Otherwise they share one launch of attend_mma.cu. */
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
        struct kvr_span span[3];
        struct path x;

        open_path(&x, t[i].capability);
        put_rows(&x, raw, MOST, q, T * 128);
        for (int k = 0; k < 3; k++)
            span[k] = (struct kvr_span){
                .raw = { x.rows.p, x.rows.p, KVR_BF16 }, .t0 = 10 * k, .n = 10, .log_m = (float)k
            };
        ck_assert_int_eq(kvr_attend_reserve(&scratch, x.dev, &needs), KVR_OK);
        attend_path(&x, span, 3, T, d, true, false, &scratch, out);
        ck_assert_int_eq(launches(&x, "attend_list"), t[i].lists);
        ck_assert_int_eq(launches(&x, "attend_mma_rows"), t[i].rows);
        if (!i)
            memcpy(first, out, sizeof out);
        for (int k = 0; k < T * d && d == 128; k++)
            /* BF16 rounds values and weights below 1 by at most 2^-9. */
            ck_assert_float_eq_tol(out[k], first[k], 0.02f);
        kvr_attend_release(&scratch);
        close_path(&x);
    }
}
END_TEST

/* On the fused path, encoded spans that attend_wgmma.cu can dequantize share its launch with
 * unquantized spans. */
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
    const struct kvr_attend_needs fused = {
        .n_heads = 1, .head_dim = D, .max_query = T, .exact = KVR_BF16, .rotated = true
    };
    const struct kvr_attend_needs staged = { .n_heads = 1,
                                             .head_dim = D,
                                             .max_query = T,
                                             .exact = KVR_F32,
                                             .staged = true,
                                             .rotated = true };
    float q[T * D], out[T * D], want[T * D];

    if (!kvr_stream_emulated())
        return;
    kvr_normal(q, T * D, 3, KVR_RNG_TEST, 3, 0, 0);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        const struct mma_case of = { t[i].k, t[i].v, 0, { T, 1, D }, N, 0, N, .log_m = 0 };
        struct kvr_attend_scratch scratch = { 0 };
        struct path x;

        open_path(&x, t[i].capability);
        put_coded(&x, &of, q);
        const struct kvr_span span[] = {
            { .seg = &x.seg, .n = 30 }, { .raw = { x.rows.p, x.rows.p, KVR_BF16 }, .t0 = 3, .n = 9 }
        };

        ck_assert_int_eq(kvr_attend_reserve(&scratch, x.dev, &fused), KVR_OK);
        attend_path(&x, span, 2, T, D, true, true, &scratch, out);
        ck_assert_int_eq(launches(&x, "attend_list"), t[i].lists);
        ck_assert_int_eq(launches(&x, "attend_mma_coded"), t[i].spans);
        /* Reference: F32 on the staged path. */
        ck_assert_int_eq(kvr_attend_reserve(&scratch, x.dev, &staged), KVR_OK);
        attend_path(&x, span, 2, T, D, false, false, &scratch, want);
        /* BF16 rounds values below 4 by at most 2^-7, and weights below 1 by 2^-9. */
        for (int j = 0; j < T * D; j++)
            ck_assert_float_eq_tol(out[j], want[j], 0.06f);
        kvr_attend_release(&scratch);
        close_path(&x);
    }
}
END_TEST

/* On the staged path, all encoded spans of a call share one launch with the unquantized spans. If
 * scratch memory does not hold all decoded tokens, there are several launches, whose softmax states
 * are merged. Tiles then differ, and so does the rounding of weights. The two results may differ by
 * 2^-9 of the largest value, which is 4. */
START_TEST(staged_in_fills)
{
    static const struct {
        const char *capability, *codec, *kernel;
        bool wide;
    } t[] = { { "9.0", "sym(bits=4)", "attend_list", false },
              { "8.0", "sym(bits=4)", "attend_mma_rows", false },
              { "9.0", "hadamard | sym(bits=4)", "attend_list", false },
              { "9.0", "outliers(sigma=2) | sym(bits=4)", "attend_list", false },
              { "9.0", "mean | sym(bits=4)", "attend_list", true } };
    enum { T = 3, D = 128, N = 300, ROOM = 128 };
    float q[T * D], out[2][T * D];

    if (!kvr_stream_emulated())
        return;
    kvr_normal(q, T * D, 3, KVR_RNG_TEST, 3, 0, 0);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        const struct mma_case of = { t[i].codec, t[i].codec, 0, { T, 1, D }, N, 0, N, .log_m = 0 };
        struct path x;

        open_path(&x, t[i].capability);
        put_coded(&x, &of, q);
        ck_assert_int_eq(kvr_codec_decodes_bf16(x.k.packed.codec, 1, D), !t[i].wide);
        const struct kvr_span span[] = {
            { .seg = &x.seg, .n = 170 },
            { .seg = &x.seg, .t0 = 170, .n = 130 },
            { .raw = { x.rows.p, x.rows.p, KVR_BF16 }, .t0 = 3, .n = 9 }
        };

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
            const int64_t before = launches(&x, t[i].kernel);
            struct kvr_attend_scratch scratch = { 0 };

            ck_assert_int_eq(kvr_attend_reserve(&scratch, x.dev, &needs), KVR_OK);
            ck_assert_uint_eq(scratch.rows.n_bytes, (small ? ROOM : N) * D * 2 * sizeof(kvr_bf16));
            ck_assert_int_eq(scratch.tiles.n_bytes > 0, t[i].wide);
            attend_path(&x, span, 3, T, D, true, false, &scratch, out[small]);
            ck_assert_int_eq(launches(&x, t[i].kernel) - before, small ? (N + ROOM - 1) / ROOM : 1);
            kvr_attend_release(&scratch);
        }
        for (int j = 0; j < T * D; j++)
            ck_assert_float_eq_tol(out[0][j], out[1][j], 0x1p-7f);
        close_path(&x);
    }
}
END_TEST

void mma_add_paths(TCase *tc)
{
    tcase_add_test(tc, plain_spans_share_a_launch);
    tcase_add_test(tc, coded_spans_share_a_launch);
    tcase_add_test(tc, staged_in_fills);
}
