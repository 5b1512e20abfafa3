/* test_codec_cuda.c - the codecs of every method give identical packed bytes on both backends.
 * Either backend unpacks the other's bytes, bit-identical except for NaN payloads.
 *
 * There is no tolerance: CUDA kernels perform the same operations in the same order as the CPU. */
#include <limits.h>
#include <unistd.h>

#include "harness/device/stream.h"
#include "methods/method.h"
#include "methods/plugin.h"
#include "tests/methods/codec_tools.h"
#include "tests/suite.h"

static struct kvr_dev *cpu, *cuda;

/* The distinct pipelines of all methods. */
enum { MAX_CODECS = 512 };
static struct wanted {
    char text[256];
    enum kvr_side side;
    bool study;
    enum kvr_compute compute;
} codecs[MAX_CODECS];
static int n_codecs;

/* Exits the program on failure. Replaces ck_assert in code that runs before the tests start. */
static void need(bool so)
{
    if (!so) {
        fprintf(stderr, "%s\n", kvr_error());
        exit(EXIT_FAILURE);
    }
}

static void want(const char *text, enum kvr_side side, bool study, enum kvr_compute compute)
{
    for (int i = 0; i < n_codecs; i++)
        if (!strcmp(codecs[i].text, text) && codecs[i].study == study &&
            codecs[i].compute == compute)
            return; /* already listed: K and V use the same stages */
    need(n_codecs < MAX_CODECS);
    strcpy(codecs[n_codecs].text, text);
    codecs[n_codecs].side = side;
    codecs[n_codecs].study = study;
    codecs[n_codecs++].compute = compute;
}

static void want_plan(const char *spec, enum kvr_compute compute)
{
    struct kvr_scheme *p;

    need(kvr_scheme_open(&p, spec, NULL, 0) == KVR_OK);
    for (int t = 0; t < p->n_tiers; t++) {
        want(p->k[t]->text, KVR_K, kvr_scheme_is_study(p), compute);
        want(p->v[t]->text, KVR_V, kvr_scheme_is_study(p), compute);
    }
    want(p->pooled->text, KVR_K, kvr_scheme_is_study(p), compute);
    kvr_scheme_close(&p);
}

static void want_all(void)
{
    char spec[128];

    for (int i = 0; kvr_methods[i]; i++)
        for (int r = 0; kvr_method_spec(kvr_methods[i], r, spec, sizeof spec); r++)
            for (int c = 0; c < 2; c++)
                want_plan(spec, (enum kvr_compute)c);
}

/* No token count is a multiple of 8. Blocks with several heads also test decoding a subset of
 * heads. Head widths 32, 64 and 128 have specialized kernels. */
static const struct kvr_block_shape shapes[] = {
    { 41, 3, 32 }, { 1, 2, 128 }, { 18, 2, 64 }, { 139, 1, 32 }
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* Returns the i-th shape, or the next one that the codec supports. */
static const struct kvr_block_shape *fitting_shape(const struct kvr_codec *c, int i)
{
    for (int s = 0; s < N_SHAPES; s++) {
        const struct kvr_block_shape *shape = &shapes[(i + s) % N_SHAPES];

        if (kvr_codec_check(c, shape->n_heads, shape->head_dim) == KVR_OK)
            return shape;
    }
    ck_abort_msg("%s: %s", c->text, kvr_error());
    return NULL;
}

/* One backend's input, buffers and encoded block. */
struct side {
    struct kvr_dev *dev;
    struct kvr_buf x, work, out;
    struct kvr_packed packed;
};

static void alloc(struct kvr_buf *b, struct kvr_dev *dev, size_t n)
{
    *b = (struct kvr_buf){ 0 };
    ck_assert_msg(kvr_buf_alloc(b, dev, KVR_MEM_SCRATCH, n) == KVR_OK, "%s", kvr_error());
}

static void encode(struct side *s, struct kvr_dev *dev, const struct kvr_codec *c, const float *x,
                   const struct kvr_block_shape *shape)
{
    const size_t n = elements(shape) * sizeof *x;
    float *back = floats(elements(shape));

    s->dev = dev;
    alloc(&s->x, dev, n);
    alloc(&s->work, dev, n);
    alloc(&s->out, dev, n);
    ck_assert_int_eq(kvr_dev_put(dev, s->x.p, x, n), KVR_OK);
    ck_assert_msg(kvr_codec_encode(c, dev, s->x.p, shape, s->work.p, &s->packed) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
    ck_assert_ptr_eq(s->packed.dev, dev);
    ck_assert_int_eq(kvr_dev_get(dev, back, s->x.p, n), KVR_OK);
    ck_assert_mem_eq(back, x, n); /* the input is unchanged */
    free(back);
}

static void free_side(struct side *s)
{
    kvr_packed_free(&s->packed);
    kvr_buf_free(&s->x);
    kvr_buf_free(&s->work);
    kvr_buf_free(&s->out);
}

struct part {
    int64_t t0, n;
    int h0, nh;
    bool rotated;
};

/* Decodes the tokens and heads `d` of block `p` on the backend of `s`, and copies them to
 * `host`. */
static void decode(struct side *s, const struct kvr_packed *p, const struct part *d, float *host)
{
    const size_t n = (size_t)d->n * (size_t)d->nh * (size_t)p->shape.head_dim * sizeof *host;

    if (d->rotated)
        kvr_codec_decode_rotated(p, d->t0, d->n, d->h0, d->nh, s->out.p);
    else
        kvr_codec_decode(p, d->t0, d->n, d->h0, d->nh, s->out.p);
    ck_assert_msg(kvr_dev_sync(s->dev) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_get(s->dev, host, s->out.p, n), KVR_OK);
}

static void same_bits(const float *a, const float *b, size_t n, const char *what, const char *codec,
                      const char *fill)
{
    for (size_t i = 0; i < n; i++)
        if (kvr_f32_bits(a[i]) != kvr_f32_bits(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            ck_abort_msg("%s, %s, %s: %zu: %a on the CPU, %a on CUDA", codec, fill, what, i,
                         (double)a[i], (double)b[i]);
}

static void same_bytes(const struct kvr_packed *host, const struct kvr_packed *device,
                       const char *codec, const char *fill)
{
    const bool nan_may_differ = !kvr_stream_emulated() && (!strcmp(fill, fill_names[FILL_NAN]) ||
                                                           !strcmp(fill, fill_names[FILL_INF]));

    for (int i = 0; i < KVR_MAX_STAGES; i++) {
        const struct kvr_stage_data *a = &host->stage[i], *b = &device->stage[i];

        ck_assert_msg(a->n_entries == b->n_entries, "%s, %s: %lld kept, %lld on CUDA", codec, fill,
                      (long long)a->n_entries, (long long)b->n_entries);
        ck_assert_uint_eq(a->codes.n_bytes, b->codes.n_bytes);
        ck_assert_uint_eq(a->meta.n_bytes, b->meta.n_bytes);
        if (a->codes.p) {
            ck_assert_msg(same_coded(a->codes.p, b->codes.p, a->codes.n_bytes, nan_may_differ),
                          "%s, %s: stage %d: other codes", codec, fill, i);
            ck_assert_int_eq(a->codes.tag, b->codes.tag);
        }
        if (a->meta.p) {
            ck_assert_msg(same_coded(a->meta.p, b->meta.p, a->meta.n_bytes, nan_may_differ),
                          "%s, %s: stage %d: other side information", codec, fill, i);
            ck_assert_int_eq(a->meta.tag, b->meta.tag);
        }
    }
}

/* Copies each backend's packed block to the other backend. The packed bytes must be equal, and each
 * backend must decode the other's block to the values `want`. */
static void cross(struct side *a, struct side *b, const struct part *d, const float *want,
                  float *got, size_t n, const char *codec, const char *fill)
{
    struct kvr_packed moved;

    ck_assert_msg(kvr_packed_copy(&b->packed, cpu, &moved) == KVR_OK, "%s", kvr_error());
    same_bytes(&a->packed, &moved, codec, fill);
    decode(a, &moved, d, got);
    same_bits(want, got, n, "packed by CUDA", codec, fill);
    kvr_packed_free(&moved);
    ck_assert_msg(kvr_packed_copy(&a->packed, cuda, &moved) == KVR_OK, "%s", kvr_error());
    decode(b, &moved, d, got);
    same_bits(want, got, n, "packed by the CPU", codec, fill);
    kvr_packed_free(&moved);
}

static void same_steps(struct side *a, struct side *b)
{
    struct kvr_coding_noise here, there;
    kvr_f16 one, other;

    kvr_codec_noise(&a->packed, &here);
    kvr_codec_noise(&b->packed, &there);
    ck_assert(here.kind == there.kind && here.axis == there.axis && here.group == there.group &&
              here.dead_zone == there.dead_zone && here.relative == there.relative &&
              here.rotated == there.rotated && here.n_exact == there.n_exact &&
              !here.scale == !there.scale && !here.exact == !there.exact);
    if (!here.scale)
        return;
    one = here.scale[0];
    ck_assert_int_eq(kvr_dev_get(cuda, &other, there.scale, sizeof other), KVR_OK);
    ck_assert_uint_eq(one, other);
}

/* kvr_codec_decode_bf16 equals kvr_codec_decode rounded once. Guard values before and after the
 * output are unchanged. */
static void same_as_bf16(struct side *s, const struct part *d, const float *want, size_t n,
                         const char *codec, const char *fill)
{
    enum { MARGIN = 8 };
    const struct kvr_block_shape *shape = &s->packed.shape;
    struct kvr_buf out;
    kvr_bf16 *got;

    if (!kvr_codec_decodes_bf16(s->packed.codec, shape->n_heads, shape->head_dim))
        return;
    got = malloc((n + 2 * MARGIN) * sizeof *got);
    ck_assert_ptr_nonnull(got);
    for (size_t i = 0; i < n + 2 * MARGIN; i++)
        got[i] = 0x4321;
    alloc(&out, s->dev, (n + 2 * MARGIN) * sizeof *got);
    ck_assert_int_eq(kvr_dev_put(s->dev, out.p, got, (n + 2 * MARGIN) * sizeof *got), KVR_OK);
    kvr_codec_decode_bf16(&s->packed, d->t0, d->n, d->h0, d->nh, (kvr_bf16 *)out.p + MARGIN);
    ck_assert_msg(kvr_dev_sync(s->dev) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_get(s->dev, got, out.p, (n + 2 * MARGIN) * sizeof *got), KVR_OK);
    for (size_t i = 0; i < n; i++) {
        const float x = kvr_bf16_to_f32(got[MARGIN + i]);

        ck_assert_msg(got[MARGIN + i] == kvr_f32_to_bf16(want[i]) || (isnan(x) && isnan(want[i])),
                      "%s, %s: %zu: %a as BF16, %a as F32", codec, fill, i, (double)x,
                      (double)want[i]);
    }
    for (size_t i = 0; i < MARGIN; i++)
        ck_assert(got[i] == 0x4321 && got[MARGIN + n + i] == 0x4321);
    kvr_buf_free(&out);
    free(got);
}

static void compare(const struct kvr_codec *c, const struct kvr_block_shape *shape, enum fill fill)
{
    const struct part parts[] = {
        { 0, shape->n_tok, 0, shape->n_heads, false },
        { 0, shape->n_tok, 0, shape->n_heads, true },
        { shape->n_tok / 3, (shape->n_tok + 2) / 3, shape->n_heads - 1, 1, false },
        { shape->n_tok / 2, 1, 0, shape->n_heads - 1, true },
    };
    const size_t n = elements(shape);
    float *x = floats(n), *want = floats(n), *got = floats(n);
    struct side a = { 0 }, b = { 0 };

    fill_block(x, shape, fill, 17);
    encode(&a, cpu, c, x, shape);
    encode(&b, cuda, c, x, shape);
    same_steps(&a, &b);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct part *d = &parts[i];
        const size_t m = (size_t)d->n * (size_t)d->nh * (size_t)shape->head_dim;

        decode(&a, &a.packed, d, want);
        decode(&b, &b.packed, d, got);
        same_bits(want, got, m, "decoded", c->text, fill_names[fill]);
        if (!d->rotated)
            same_as_bf16(&b, d, want, m, c->text, fill_names[fill]);
        if (i % 2 == 0)
            cross(&a, &b, d, want, got, m, c->text, fill_names[fill]);
    }
    free_side(&a);
    free_side(&b);
    free(x);
    free(want);
    free(got);
}

START_TEST(every_codec)
{
    const struct wanted *w = &codecs[_i];
    struct kvr_codec *c = open_codec(w->text, w->side, w->study, w->compute);

    for (int f = 0; f < N_FILLS; f++)
        /* BF16 arithmetic runs only every third kind of input, to save time. */
        if (w->compute == KVR_COMPUTE_F32 || f % 3 == 0)
            compare(c, fitting_shape(c, f), (enum fill)f);
    compare(c, fitting_shape(c, 0), FILL_OUTLIER_CHANNEL);
    kvr_codec_close(&c);
}
END_TEST

/* Pipelines that no method uses. */
static const char *const others[] = {
    "sym(bits=3,axis=channels,group=16)",
    "asym(bits=5,axis=channels,group=8)",
    "raw(type=f32)",
    "hadamard | outliers(sigma=2) | sym(bits=4,axis=token)",
    "outliers(sigma=1,max_ratio=0.01,left=keep) | hadamard | asym(bits=8) + sym(bits=2)",
    "hadamard | exact",
    "trq(bits=4,anchor=8,group=16,unit=9)",
    "hadamard | trq(group=32,unit=4)",
    "halves(bits=3,group=24)",
};

START_TEST(other_pipelines)
{
    const bool study = _i % 2;
    const enum kvr_compute compute = (enum kvr_compute)(_i / 2 % 2);
    struct kvr_codec *c = open_codec(others[_i / 4], KVR_V, study, compute);

    for (int f = 0; f < N_FILLS; f++)
        compare(c, &shapes[0], (enum fill)f);
    kvr_codec_close(&c);
}
END_TEST

/* Shapes for which kernels take paths that the small shapes above do not reach. */
static const struct {
    const char *text;
    struct kvr_block_shape shape;
} large[] = {
    { "floats(scale=block)", { 1060, 4, 128 } }, /* cells_most: several elements per thread */
    { "floats(scale=block)", { 33, 1, 30 } },    /* cells_most: rows that are no multiple of 16 B */
    /* kmeans_label, kmeans_means: several tiles of tokens, centroids and channels */
    { "kmeans(k=70) | asym(bits=2,axis=token)", { 1030, 1, 24 } },
    { "kmeans(left=bf16) | asym(bits=2,axis=token)", { 70, 2, 160 } },
    /* heads with more channels than a CTA or a warp processes at a time */
    { "trq(group=256,unit=7)", { 19, 2, 256 } },
    { "trq(bits=4,group=24,unit=9)", { 41, 1, 48 } },
    { "qjl", { 19, 2, 256 } },
    { "qjl", { 19, 1, 144 } },
    { "vidkv", { 19, 2, 256 } },
    { "packkv", { 139, 1, 256 } },
    { "demean | sym(bits=8)", { 19, 2, 256 } },
};

START_TEST(large_and_odd_shapes)
{
    struct kvr_codec *c = open_codec(large[_i].text, KVR_K, false, KVR_COMPUTE_F32);

    compare(c, &large[_i].shape, FILL_OUTLIER_CHANNEL);
    kvr_codec_close(&c);
}
END_TEST

/* Decoding neither waits nor allocates, so it can be captured in a graph. */
START_TEST(decode_only_launches)
{
    static const char *const text = "outliers(sigma=2) | hadamard | sym(bits=2) + asym(bits=4)";
    struct kvr_codec *c = open_codec(text, KVR_K, false, KVR_COMPUTE_BF16);
    const struct kvr_block_shape *shape = &shapes[0];
    const struct part all = { 0, shape->n_tok, 0, shape->n_heads, false };
    const size_t n = elements(shape);
    float *x = floats(n), *want = floats(n), *got = floats(n);
    struct kvr_stream *s = kvr_dev_stream(cuda);
    struct kvr_graph *graph;
    struct side b = { 0 };

    fill_block(x, shape, FILL_NORMAL, 5);
    encode(&b, cuda, c, x, shape);
    decode(&b, &b.packed, &all, want);
    ck_assert_int_eq(kvr_stream_capture_begin(s), KVR_OK);
    kvr_codec_decode(&b.packed, 0, shape->n_tok, 0, shape->n_heads, b.out.p);
    ck_assert_msg(kvr_stream_capture_end(s, &graph) == KVR_OK, "%s", kvr_error());
    kvr_dev_zero(cuda, b.out.p, n * sizeof *got);
    ck_assert_int_eq(kvr_graph_launch(s, graph), KVR_OK);
    ck_assert_msg(kvr_dev_sync(cuda) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_get(cuda, got, b.out.p, n * sizeof *got), KVR_OK);
    same_bits(want, got, n, "by a graph", text, "normal");
    kvr_graph_close(&graph);
    free_side(&b);
    kvr_codec_close(&c);
    free(x);
    free(want);
    free(got);
}
END_TEST

/* The n-th allocation fails, for n = 1, 2, ..., until encoding succeeds. Each failure returns an
 * error and leaves no memory allocated. */
START_TEST(memory_runs_out)
{
    struct kvr_codec *c =
        open_codec("outliers(sigma=2) | sym(bits=4)", KVR_K, false, KVR_COMPUTE_F32);
    const struct kvr_block_shape *shape = &shapes[0];
    const size_t n = elements(shape);
    float *x = floats(n);
    struct kvr_buf d_x, work;
    struct kvr_mem_stats before, after;
    uint64_t fail = 0;
    enum kvr_status st;

    fill_block(x, shape, FILL_NORMAL, 5);
    alloc(&d_x, cuda, n * sizeof *x);
    alloc(&work, cuda, n * sizeof *x);
    ck_assert_int_eq(kvr_dev_put(cuda, d_x.p, x, n * sizeof *x), KVR_OK);
    kvr_mem_stats(cuda, &before);
    do {
        struct kvr_packed p;

        kvr_mem_fail_after(cuda, ++fail);
        st = kvr_codec_encode(c, cuda, d_x.p, shape, work.p, &p);
        kvr_mem_fail_after(cuda, 0);
        kvr_packed_free(&p);
        kvr_mem_stats(cuda, &after);
        ck_assert_uint_eq(before.live_total, after.live_total);
        ck_assert(st == KVR_OK || st == KVR_ENOMEM);
    } while (st != KVR_OK);
    /* Encoding makes five allocations: work buffer, outlier values, outlier indices, codes and
     * scales. */
    ck_assert_uint_eq(fail, 6);
    kvr_buf_free(&d_x);
    kvr_buf_free(&work);
    kvr_codec_close(&c);
    free(x);
}
END_TEST

/* Writes the path of BUILD/name, where BUILD is the parent of this program's folder. */
static void built(const char *name, char *path, size_t size)
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *at;

    ck_assert_int_gt(n, 0);
    self[n] = 0;
    at = strstr(self, "/tests/cuda/");
    ck_assert_ptr_nonnull(at);
    *at = 0;
    ck_assert_uint_lt((size_t)snprintf(path, size, "%s/%s", self, name), size);
}

/* Stages without CUDA functions run on the host. This test runs a plug-in's SHIFT stage;
 * every_kind_bounced runs built-in stages (transform, EXACT, grids) whose CUDA functions it
 * removes. */
START_TEST(plugin_stage)
{
    static const char *const texts[] = { "center | sym(bits=4)", "hadamard | center | asym(bits=2)",
                                         "center | raw(type=f32)" };
    char path[PATH_MAX];
    struct kvr_codec *c;

    built("examples/plugin/center.so", path, sizeof path);
    ck_assert_msg(kvr_plugin_load(path) == KVR_OK, "%s", kvr_error());
    c = open_codec(texts[_i % 3], KVR_K, false, KVR_COMPUTE_F32);
    for (int f = 0; f < N_FILLS; f++)
        compare(c, &shapes[0], (enum fill)f);
    kvr_codec_close(&c);
}
END_TEST

START_TEST(every_kind_bounced)
{
    struct kvr_codec *c = open_codec("hadamard | outliers(sigma=2) | sym(bits=2) + asym(bits=4)",
                                     KVR_K, _i % 2, (enum kvr_compute)(_i / 2));
    struct kvr_stage bounced[4];
    struct kvr_mem_stats stats;

    ck_assert_int_eq(c->n_stages, 4);
    for (int i = 0; i < 4; i++) {
        bounced[i] = *c->stage[i].stage;
        bounced[i].cuda = NULL;
        c->stage[i].stage = &bounced[i];
    }
    for (int f = 0; f < N_FILLS; f++)
        compare(c, &shapes[0], (enum fill)f);
    kvr_mem_stats(kvr_dev_host(cuda), &stats);
    ck_assert_uint_eq(stats.live_total, 0);
    kvr_codec_close(&c);
}
END_TEST

/* If host memory runs out during decoding, every decoded value must be NaN. */
START_TEST(bounced_without_memory)
{
    struct kvr_codec *c = open_codec("sym(bits=4)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_stage bounced = *c->stage[0].stage;
    const struct kvr_block_shape *shape = &shapes[0];
    const struct part all = { 0, shape->n_tok, 0, shape->n_heads, false };
    const size_t n = elements(shape);
    float *x = floats(n), *got = floats(n);
    struct side b = { 0 };

    bounced.cuda = NULL;
    c->stage[0].stage = &bounced;
    fill_block(x, shape, FILL_NORMAL, 5);
    encode(&b, cuda, c, x, shape);
    for (uint64_t fail = 1; fail <= 3; fail++) {
        kvr_mem_fail_after(kvr_dev_host(cuda), fail);
        decode(&b, &b.packed, &all, got);
        kvr_mem_fail_after(kvr_dev_host(cuda), 0);
        for (size_t i = 0; i < n; i++)
            if (!isnan(got[i]))
                ck_abort_msg("%zu is %a", i, (double)got[i]);
    }
    free_side(&b);
    kvr_codec_close(&c);
    free(x);
    free(got);
}
END_TEST

/* The comparison detects a damaged byte. */
START_TEST(comparison_can_fail)
{
    struct kvr_codec *c = open_codec("sym(bits=4)", KVR_K, false, KVR_COMPUTE_F32);
    const struct kvr_block_shape *shape = &shapes[0];
    float *x = floats(elements(shape));
    struct side a = { 0 }, b = { 0 };
    struct kvr_packed moved;
    uint8_t byte;

    fill_block(x, shape, FILL_NORMAL, 5);
    encode(&a, cpu, c, x, shape);
    encode(&b, cuda, c, x, shape);
    ck_assert_int_eq(kvr_dev_get(cuda, &byte, b.packed.stage[0].codes.p, 1), KVR_OK);
    byte ^= 1;
    ck_assert_int_eq(kvr_dev_put(cuda, b.packed.stage[0].codes.p, &byte, 1), KVR_OK);
    ck_assert_int_eq(kvr_packed_copy(&b.packed, cpu, &moved), KVR_OK);
    ck_assert(memcmp(moved.stage[0].codes.p, a.packed.stage[0].codes.p,
                     moved.stage[0].codes.n_bytes) != 0);
    kvr_packed_free(&moved);
    free_side(&a);
    free_side(&b);
    kvr_codec_close(&c);
    free(x);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("codecs on CUDA");
    TCase *tc = tcase_create("codecs");
    int failed;

    need(kvr_dev_open(&cpu, KVR_CPU) == KVR_OK && kvr_dev_open(&cuda, KVR_CUDA) == KVR_OK);
    want_all();
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, every_codec, 0, n_codecs);
    tcase_add_loop_test(tc, other_pipelines, 0, 4 * (int)(sizeof others / sizeof *others));
    tcase_add_loop_test(tc, large_and_odd_shapes, 0, (int)(sizeof large / sizeof *large));
    tcase_add_test(tc, decode_only_launches);
    tcase_add_test(tc, memory_runs_out);
    tcase_add_loop_test(tc, every_kind_bounced, 0, 4);
    tcase_add_test(tc, bounced_without_memory);
    tcase_add_test(tc, comparison_can_fail);
    /* Plug-in tests run last, because a loaded plug-in cannot be unloaded. */
    tcase_add_loop_test(tc, plugin_stage, 0, 3);
    suite_add_tcase(s, tc);
    failed = run_suite(s);
    kvr_dev_close(&cuda);
    kvr_dev_close(&cpu);
    return failed;
}
