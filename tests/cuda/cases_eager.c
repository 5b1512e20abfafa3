/* cases_eager.c - launches=eager runs one launch per operation and gives the bytes and values of
 * the fused kernels.
 *
 * There is no tolerance. On either backend, each operation is rounded once, in the order of the
 * formula, as in the fused stages. */
#include <omp.h>

#include "methods/eager.h"
#include "methods/method.h"
#include "tests/cuda/both.h"

/* Pipelines of the study's methods, and axes, groups and widths that use their own code paths. */
static const char *const pipelines[] = {
    "sym(bits=2)",
    "sym(bits=4)",
    "hadamard | sym(bits=2)",
    "hadamard | sym(bits=4)",
    "asym(bits=2)",
    "asym(bits=4)",
    "asym(bits=2,axis=token)",
    "asym(bits=4,axis=token)",
    "raw",
    "sym(bits=8,group=8)",
    "asym(bits=3,axis=channels,group=8)",
    "hadamard | asym(bits=5,axis=channels,group=16)",
};
enum { N_PIPELINES = sizeof pipelines / sizeof *pipelines };

/* Numbers of tokens that are multiples of 16 (the group size of most pipelines), and others. */
static const struct kvr_block_shape shapes[] = {
    { 32, 2, 32 }, { 37, 1, 16 }, { 9, 3, 16 }, { 1, 1, 64 }, { 18, 1, 8 },
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

struct side {
    struct kvr_dev *dev; /* not owned */
    struct kvr_buf x, work, out;
    struct kvr_packed packed;
};

static void side_open(struct side *s, struct kvr_dev *dev, const struct kvr_codec *c,
                      const float *x, const struct kvr_block_shape *shape)
{
    const size_t n = elements(shape) * sizeof *x;
    const size_t work = (size_t)kvr_codec_work_floats(c, shape) * sizeof *x;

    *s = (struct side){ .dev = dev };
    ck_assert_int_eq(kvr_buf_alloc(&s->x, dev, KVR_MEM_SCRATCH, n), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc_raw(&s->work, dev, KVR_MEM_SCRATCH, work), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc_raw(&s->out, dev, KVR_MEM_SCRATCH, n), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(dev, s->x.p, x, n), KVR_OK);
    ck_assert_msg(kvr_codec_encode(c, dev, s->x.p, shape, s->work.p, &s->packed) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
}

static void side_close(struct side *s)
{
    kvr_packed_free(&s->packed);
    kvr_buf_free(&s->x);
    kvr_buf_free(&s->work);
    kvr_buf_free(&s->out);
}

/* Decodes tokens [t0, t0 + n) of heads [h0, h0 + nh) and returns them in host memory. */
static float *decoded(struct side *s, int64_t t0, int64_t n, int h0, int nh, size_t *size)
{
    float *y;

    *size = (size_t)(n * nh * s->packed.shape.head_dim);
    y = floats(*size);
    kvr_codec_decode(&s->packed, t0, n, h0, nh, s->out.p);
    ck_assert_msg(kvr_dev_sync(s->dev) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_get(s->dev, y, s->out.p, *size * sizeof *y), KVR_OK);
    return y;
}

static void same_bytes(const struct kvr_buf *want, const struct kvr_buf *got, struct kvr_dev *dev,
                       const char *what)
{
    void *host = malloc(want->n_bytes + 1);

    ck_assert_uint_eq(got->n_bytes, want->n_bytes);
    ck_assert_int_eq(kvr_dev_get(dev, host, got->p, got->n_bytes), KVR_OK);
    ck_assert_msg(!want->n_bytes || !memcmp(host, want->p, want->n_bytes),
                  "%s: other bytes than the fused kernels'", what);
    free(host);
}

static void same_values(struct side *want, struct side *got, int64_t t0, int64_t n, int h0, int nh,
                        const char *what)
{
    size_t size;
    float *a = decoded(want, t0, n, h0, nh, &size), *b = decoded(got, t0, n, h0, nh, &size);

    for (size_t i = 0; i < size; i++)
        ck_assert_msg(same(a[i], b[i]), "%s: element %zu: %a fused, %a eager", what, i,
                      (double)a[i], (double)b[i]);
    free(a);
    free(b);
}

static void check(const char *text, const struct kvr_block_shape *shape, enum kvr_compute compute,
                  enum fill fill, struct kvr_dev *host)
{
    struct kvr_codec *fused = open_codec(text, KVR_K, true, compute);
    struct kvr_codec *eager = open_codec(text, KVR_K, true, compute);
    float *x = floats(elements(shape));
    const int64_t T = shape->n_tok;
    struct side want, got;
    char what[160];

    eager->eager = true;
    ck_assert_msg(kvr_eager_check(eager) == KVR_OK, "%s", kvr_error());
    fill_block(x, shape, fill, 5);
    side_open(&want, host, fused, x, shape);
    for (int device = 0; device < 2; device++) {
        snprintf(what, sizeof what, "%s, %lld tokens, %s, %s, %s", text, (long long)T,
                 compute == KVR_COMPUTE_BF16 ? "bf16" : "f32", fill_names[fill],
                 device ? "device" : "CPU");
        side_open(&got, device ? both_dev : host, eager, x, shape);
        for (int i = 0; i < fused->n_stages; i++) {
            same_bytes(&want.packed.stage[i].codes, &got.packed.stage[i].codes, got.dev, what);
            same_bytes(&want.packed.stage[i].meta, &got.packed.stage[i].meta, got.dev, what);
        }
        same_values(&want, &got, 0, T, 0, shape->n_heads, what);
        same_values(&want, &got, T / 3, (T + 2) / 3, shape->n_heads / 2, 1, what);
        side_close(&got);
    }
    side_close(&want);
    kvr_codec_close(&fused);
    kvr_codec_close(&eager);
    free(x);
}

START_TEST(bytes_of_the_fused_kernels)
{
    const struct kvr_block_shape *shape = &shapes[_i % N_SHAPES];
    const char *text = pipelines[_i / N_SHAPES];
    struct kvr_dev *host = open_dev();
    struct kvr_codec *c = open_codec(text, KVR_K, true, KVR_COMPUTE_F32);

    for (int fill = 0;
         fill < N_FILLS && kvr_codec_check(c, shape->n_heads, shape->head_dim) == KVR_OK; fill++)
        for (int compute = 0; compute < 2; compute++)
            check(text, shape, (enum kvr_compute)compute, (enum fill)fill, host);
    kvr_codec_close(&c);
    kvr_dev_close(&host);
}
END_TEST

static int64_t launches(void)
{
    static const char *const names[] = { "eager_map",         "eager_zip",    "eager_reduce_tokens",
                                         "eager_reduce_rows", "eager_pad",    "eager_half",
                                         "eager_pack",        "eager_unpack", "eager_butterfly" };
    int64_t n = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        n += kvr_stream_launches(kvr_dev_stream(both_dev), names[i]);
    return n;
}

/* The number of launches that eager.h states, for 16 tokens and for 17. For 17 tokens, encoding
 * needs one more launch, which pads them to 32. */
START_TEST(one_launch_per_operation)
{
    static const struct {
        const char *text;
        int encode, decode;
    } of[] = {
        { "sym(bits=4)", 9, 2 },
        { "asym(bits=4)", 16, 3 },
        { "asym(bits=2,axis=token)", 16, 3 },
        /* for 32 channels: 5 butterfly strides and a division */
        { "hadamard | sym(bits=4)", 9 + 6, 2 + 6 },
    };

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int more = 0; more < 2; more++) {
            const struct kvr_block_shape shape = { 16 + more, 1, 32 };
            struct kvr_codec *c = open_codec(of[i].text, KVR_K, true, KVR_COMPUTE_F32);
            float *x = floats(elements(&shape));
            struct side s;
            int64_t n = launches();
            size_t size;

            c->eager = true;
            fill_block(x, &shape, FILL_NORMAL, 1);
            side_open(&s, both_dev, c, x, &shape);
            ck_assert_int_eq(launches() - n, of[i].encode + more);
            n = launches();
            free(decoded(&s, 0, shape.n_tok, 0, 1, &size));
            ck_assert_int_eq(launches() - n, of[i].decode);
            side_close(&s);
            kvr_codec_close(&c);
            free(x);
        }
}
END_TEST

/* launches=eager is refused for a method without an eager implementation. The message names the
 * method and the reason. */
START_TEST(refused)
{
    static const struct kvr_setting eager = { "launches", "eager" };
    static const struct {
        const char *method, *says;
    } of[] = {
        { "RTN_INT4", "RTN_INT4: launches=eager: applies only to a @study version" },
        { "PRQ_INT4@study", "PRQ_INT4@study: launches=eager: codec 'sym" },
        { "QAQ_INT4@study", "QAQ_INT4@study: launches=eager: codec 'outliers" },
    };
    static const char *const fits[] = { "BF16@study", "RTN_INT2@study", "KIVI_INT4@study",
                                        "QUAROT_KV_INT4_RECENT2@study",
                                        "FLOWCACHE_PRUNE_INT2@study" };
    struct kvr_scheme *p;

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        ck_assert_int_eq(kvr_scheme_open(&p, of[i].method, &eager, 1), KVR_EUNSUPPORTED);
        ck_assert_msg(strstr(kvr_error(), of[i].says), "%s", kvr_error());
    }
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
        ck_assert_msg(kvr_scheme_open(&p, fits[i], &eager, 1) == KVR_OK, "%s", kvr_error());
        for (int t = 0; t < p->n_tiers; t++)
            ck_assert(p->k[t]->eager && p->v[t]->eager);
        kvr_scheme_close(&p);
    }
}
END_TEST

TCase *cases_eager(void)
{
    TCase *tc = tcase_create("eager");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, bytes_of_the_fused_kernels, 0, N_PIPELINES * N_SHAPES);
    tcase_add_test(tc, one_launch_per_operation);
    tcase_add_test(tc, refused);
    return tc;
}
