/* test_device.c - for every method, the cache on an emulated CUDA device stores the same bytes as
 * on the CPU, and its attention agrees.
 *
 * long: every method on an emulated device. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"
#include "harness/device/stream.h"
#include "tests/cache/compare.h"
#include "tests/cache/read_tokens.h"
#include "tests/normals.h"
#include "tests/some_methods.h"
#include "tests/suite.h"

enum { S = 7, FRAMES = 3, H = 2, MAX_D = 128, CHUNKS = 3, CHUNK = S * FRAMES };
enum { N = CHUNK * H * MAX_D, CAPACITY = CHUNKS * N };

/* Channels per head: 16, or more if the method or the test needs more. Buffers have room for MAX_D
 * channels; their unused elements are 0. */
static int D = 16;

static struct kvr_cache_shape shape_of(enum kvr_dtype exact, int window)
{
    return (struct kvr_cache_shape){ .n_layers = 1,
                                     .n_heads = H,
                                     .head_dim = D,
                                     .tokens_per_frame = S,
                                     .frames_per_chunk = FRAMES,
                                     .capacity_frames = CHUNKS * FRAMES,
                                     .window_frames = window,
                                     .evict = window != 0,
                                     .exact = exact };
}

/* Result of a rollout: the outputs of every pass, and the keys, values and bytes stored at the
 * end. */
struct result {
    float out[CHUNKS][2][N];
    float k[CAPACITY], v[CAPACITY];
    int64_t n_read;
    struct kvr_cache_bytes bytes;
};

/* If true, clean passes call kvr_cache_commit() without queries instead of kvr_cache_attend(). */
static bool unasked;
/* Type of queries and outputs: F32 (AS_FLOATS), F32 rounded to BF16 (ROUNDED), or BF16 (all
 * others). The test normalizes and rotates FINISHED queries; the attention kernel normalizes and
 * rotates NORMED queries. */
static enum { AS_FLOATS, ROUNDED, AS_BF16, FINISHED, NORMED } queries;

static float inverses[CHUNK], weight[H * MAX_D];
static double cosines[CHUNK * MAX_D / 2], sines[CHUNK * MAX_D / 2];

static void draw_norm(void)
{
    for (int t = 0; t < CHUNK; t++)
        inverses[t] = 0.5f + 0.07f * (float)t;
    for (int i = 0; i < H * D; i++)
        weight[i] = 0.7f + 0.013f * (float)(i % 29);
    for (int i = 0; i < CHUNK * D / 2; i++) {
        cosines[i] = cos(0.31 * i);
        sines[i] = sin(0.31 * i);
    }
}

/* Normalizes and rotates a BF16 query in place, by the definition of query_norm.h. */
static void finish(kvr_bf16 *q)
{
    for (int i = 0; i < CHUNK * H * D; i += 2) {
        const int t = i / (H * D), c = i % (H * D), angle = (t * D + c % D) / 2;
        const float u = kvr_bf16_to_f32(q[i]) * inverses[t] * weight[c];
        const float v = kvr_bf16_to_f32(q[i + 1]) * inverses[t] * weight[c + 1];
        const double x = (double)u, y = (double)v;

        q[i] = kvr_f32_to_bf16((float)(x * cosines[angle] - y * sines[angle]));
        q[i + 1] = kvr_f32_to_bf16((float)(x * sines[angle] + y * cosines[angle]));
    }
}

static void attend_normed(struct kvr_cache *c, struct kvr_dev *dev, const kvr_bf16 *q,
                          kvr_bf16 *out)
{
    const size_t n_angles = (size_t)(CHUNK * D / 2) * sizeof(double);
    struct kvr_buf b = { 0 };

    ck_assert_int_eq(
        kvr_buf_alloc(&b, dev, KVR_MEM_ACT, 2 * n_angles + sizeof weight + sizeof inverses),
        KVR_OK);
    double *co = b.p, *si = co + CHUNK * D / 2;
    float *w = (float *)(si + CHUNK * D / 2), *by = w + H * MAX_D;
    const struct kvr_query_norm norm = { by, w, co, si };

    ck_assert_int_eq(kvr_dev_put(dev, co, cosines, n_angles), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(dev, si, sines, n_angles), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(dev, w, weight, sizeof weight), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(dev, by, inverses, sizeof inverses), KVR_OK);
    ck_assert_msg(kvr_cache_attend_normed(c, 0, q, &norm, out) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
    kvr_buf_free(&b);
}

static void round_all(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
}

static void attend_bf16(struct kvr_cache *c, struct kvr_dev *dev, void *on_device, const float *q,
                        float *out)
{
    static kvr_bf16 host[N];
    const size_t n = (size_t)(CHUNK * H * D);
    kvr_bf16 *from = on_device, *to = from + N;

    kvr_from_f32(host, KVR_BF16, q, n);
    if (queries == FINISHED)
        finish(host);
    ck_assert_int_eq(kvr_dev_put(dev, from, host, n * sizeof *host), KVR_OK);
    if (queries == NORMED)
        attend_normed(c, dev, from, to);
    else
        ck_assert_msg(kvr_cache_attend_bf16(c, 0, from, to) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_get(dev, host, to, n * sizeof *host), KVR_OK);
    kvr_to_f32(out, host, KVR_BF16, n);
}

/* Copies keys, values and queries `x` [3][N] to the device, runs one pass and copies the output
 * back. */
static void pass_on(struct kvr_cache *c, struct kvr_dev *dev, struct kvr_buf *b, float *x,
                    bool clean, float *out)
{
    float *k = b->p, *v = k + N, *q = v + N, *to = q + N;

    if (queries == ROUNDED)
        round_all(x + 2 * N, N);
    ck_assert_int_eq(kvr_dev_put(dev, k, x, 3 * N * sizeof *x), KVR_OK);
    ck_assert_msg(kvr_cache_append(c, 0, k, v) == KVR_OK, "%s", kvr_error());
    if (unasked && clean) {
        ck_assert_msg(kvr_cache_commit(c, 0) == KVR_OK, "%s", kvr_error());
        return;
    }
    if (queries >= AS_BF16) {
        attend_bf16(c, dev, q, x + 2 * N, out);
        return;
    }
    ck_assert_msg(kvr_cache_attend(c, 0, q, to) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_get(dev, out, to, (size_t)(CHUNK * H * D) * sizeof *out), KVR_OK);
    if (queries == ROUNDED)
        round_all(out, (size_t)(CHUNK * H * D));
}

static void rollout(const char *spec, enum kvr_backend backend, enum kvr_path path,
                    enum kvr_dtype exact, int window, kvr_cache_observer_fn *observer, void *ctx,
                    struct result *r)
{
    const struct kvr_cache_shape shape = shape_of(exact, window);
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_buf b = { 0 };
    struct kvr_mem_stats mem;
    static float x[3 * N];

    memset(r, 0, sizeof *r);
    ck_assert_msg(kvr_dev_open(&dev, backend) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_scheme_open(&scheme, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, path) == KVR_OK, "%s: %s", spec,
                  kvr_error());
    set_random_salience(cache);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_ACT, 4 * N * sizeof(float)), KVR_OK);
    kvr_cache_observe(cache, observer, ctx);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < 2; p++) {
            const struct kvr_pass pass = {
                .chunk = c, .frame0 = c * FRAMES, .n_frames = FRAMES, .index = p, .clean = p == 1
            };

            ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
            drawn_normals(x, 3 * N, 3, (uint32_t)(c * 8 + p * 4), 1);
            pass_on(cache, dev, &b, x, pass.clean, r->out[c][p]);
            ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
        }
    r->n_read = read_tokens(cache, 0, r->k, r->v);
    kvr_cache_bytes(cache, &r->bytes);
    /* The stored bytes that the segments report must equal the device's allocation counter. */
    kvr_mem_stats(dev, &mem);
    ck_assert_uint_eq(mem.live[KVR_MEM_KV], r->bytes.resident_kv);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_buf_free(&b);
    kvr_mem_stats(dev, &mem);
    ck_assert_uint_eq(mem.live_total, 0);
    kvr_dev_close(&dev);
}

static struct result cpu, cuda;

/* Both backends hold the same codes, so the decoded values are bit-identical. Outputs may differ by
 * 2e-5. The backends add up to 63 F32 terms in different orders. One may also transform queries
 * where the other transforms keys, as the CPU's paths do (test_paths.c). */
static void compare(const char *spec, enum kvr_path path, int window)
{
    double w;

    rollout(spec, KVR_CPU, path, KVR_F32, window, NULL, NULL, &cpu);
    rollout(spec, KVR_CUDA, path, KVR_F32, window, NULL, NULL, &cuda);
    w = worst(&cpu.out[0][0][0], &cuda.out[0][0][0], (size_t)CHUNKS * 2 * N);
    ck_assert_msg(w <= 2e-5, "%s, %s, window %d: outputs differ by %g", spec, kvr_path_names[path],
                  window, w);
    ck_assert_int_eq(cpu.n_read, cuda.n_read);
    ck_assert_msg(!memcmp(cpu.k, cuda.k, sizeof cpu.k), "%s: keys differ", spec);
    ck_assert_msg(!memcmp(cpu.v, cuda.v, sizeof cpu.v), "%s: values differ", spec);
    ck_assert_uint_eq(cpu.bytes.nominal, cuda.bytes.nominal);
    ck_assert_uint_eq(cpu.bytes.resident, cuda.bytes.resident);
    ck_assert_uint_eq(cpu.bytes.resident_kv, cuda.bytes.resident_kv);
    cuda.out[1][0][7] = NAN;
    ck_assert(!(worst(&cpu.out[0][0][0], &cuda.out[0][0][0], (size_t)CHUNKS * 2 * N) <= 2e-5));
}

START_TEST(every_method_agrees)
{
    const struct kvr_method *m = kvr_methods[_i];

    if (left_out_sanitized(_i))
        return;
    D = head_dim_for(m->name, H, 16);
    for (int study = 0; study < 1 + m->study; study++) {
        char spec[96];

        snprintf(spec, sizeof spec, "%s%s", m->name, study ? "@study" : "");
        compare(spec, KVR_PATH_STAGED, 0);
        compare(spec, KVR_PATH_STAGED, 6);
    }
}
END_TEST

/* Specs for the staged path with corrections, and for the dense and decoded paths with a window. */
static const char *const some[] = {
    "BF16",
    "KIVI_INT2+taylor",
    "QUAROT_KV_INT2+exact",
    "RTN_INT2@study+energy",
    "AGE_TIER_INT2+flat",
    "FLOWCACHE_SOFT_PRUNE_INT2+energy",
    "SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT2",
};

START_TEST(paths_and_corrections_agree)
{
    compare(some[_i], KVR_PATH_STAGED, 0);
    if (!strchr(some[_i], '+')) {
        compare(some[_i], KVR_PATH_DENSE, 6);
        compare(some[_i], KVR_PATH_DECODED, 6);
    }
}
END_TEST

/* With a BF16 cache, tensor cores round q, k, v and weights to BF16, with an RMS relative error of
 * 0.0017. The elements of q and k have variance 1, and so have the scores. Both roundings together
 * give scores an error of standard deviation 0.0017 sqrt(2) = 0.0024. An output is a weighted mean
 * of values and has a smaller error. The limit 2^-6 is six standard deviations. */
static void compare_bf16(const char *spec, enum kvr_path path, int window)
{
    double w;

    rollout(spec, KVR_CPU, path, KVR_BF16, window, NULL, NULL, &cpu);
    rollout(spec, KVR_CUDA, path, KVR_BF16, window, NULL, NULL, &cuda);
    w = worst(&cpu.out[0][0][0], &cuda.out[0][0][0], (size_t)CHUNKS * 2 * N);
    ck_assert_msg(w <= 1.0 / 64, "%s, %s: outputs differ by %g", spec, kvr_path_names[path], w);
    ck_assert(w > 0);
    ck_assert_msg(!memcmp(cpu.k, cuda.k, sizeof cpu.k), "%s: keys differ", spec);
    ck_assert_msg(!memcmp(cpu.v, cuda.v, sizeof cpu.v), "%s: values differ", spec);
}

/* Returns whether the fused kernel can decode all stages of the codec. */
static bool reads_in_place(const struct kvr_codec *c)
{
    const struct kvr_block_shape block = { CHUNK, H, D };
    struct kvr_layout l;

    for (int i = 0; i < c->n_stages; i++) {
        kvr_codec_layout(c, i, &block, &l);
        if (c->stage[i].stage->kind == KVR_STAGE_SHIFT ||
            (c->stage[i].stage->kind == KVR_STAGE_GRID && l.form != KVR_FORM_RAW &&
             l.form != KVR_FORM_INTEGER))
            return false;
    }
    return true;
}

static bool can_fuse(const char *spec)
{
    struct kvr_scheme *p;
    bool all = true;

    ck_assert_int_eq(kvr_scheme_open(&p, spec, NULL, 0), KVR_OK);
    for (int t = 0; t < p->n_tiers; t++)
        all = all && reads_in_place(p->k[t]) && reads_in_place(p->v[t]);
    kvr_scheme_close(&p);
    return all;
}

START_TEST(tensor_cores_agree)
{
    const struct kvr_method *m = kvr_methods[_i];

    if (left_out_sanitized(_i))
        return;
    D = head_dim_for(m->name, H, 16);
    for (int study = 0; study < 1 + m->study; study++) {
        char spec[96];

        snprintf(spec, sizeof spec, "%s%s", m->name, study ? "@study" : "");
        compare_bf16(spec, KVR_PATH_STAGED, study ? 6 : 0);
        if (can_fuse(spec))
            compare_bf16(spec, KVR_PATH_FUSED, study ? 6 : 0);
    }
}
END_TEST

START_TEST(corrected_on_tensor_cores)
{
    if (!strstr(some[_i], "exact"))
        compare_bf16(some[_i], KVR_PATH_FUSED, 0);
    compare_bf16(some[_i], KVR_PATH_STAGED, 0);
}
END_TEST

static bool takes_bf16(const char *spec, enum kvr_backend backend, enum kvr_path path,
                       enum kvr_dtype exact)
{
    const struct kvr_cache_shape shape = shape_of(exact, 0);
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    bool takes;

    ck_assert_int_eq(kvr_dev_open(&dev, backend), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&scheme, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, path) == KVR_OK, "%s: %s", spec,
                  kvr_error());
    takes = kvr_cache_attends_bf16(cache);
    if (!takes)
        ck_assert_int_eq(kvr_cache_attend_bf16(cache, 0, NULL, NULL), KVR_EUNSUPPORTED);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
    return takes;
}

/* BF16 queries give the same output bits as the same queries passed as F32, with the output
 * rounded to BF16. */
START_TEST(bf16_queries)
{
    static const struct {
        const char *spec;
        bool staged, fused, dense;
    } t[] = { { "BF16", true, true, true },
              { "RTN_INT4", true, true, true },
              { "KIVI_INT2", true, true, true },
              { "QUAROT_KV_INT2", true, true, true },
              { "PRQ_INT4", true, true, true },
              { "RTN_INT2@study", true, true, true },
              { "KIVI_INT2+taylor", false, true, false },
              { "RTN_INT4+energy", false, false, false },
              { "AGE_TIER_INT2", true, true, true } };
    const bool groups = _i % 2;

    D = groups ? 128 : 16;
    if (groups)
        setenv("KVREEL_EMULATED_CAPABILITY", "9.0", 1);
    for (int path = 0; path < 4; path++) {
        const char *spec = t[_i / 2].spec;
        const bool takes = path == KVR_PATH_STAGED  ? t[_i / 2].staged
                           : path == KVR_PATH_FUSED ? t[_i / 2].fused
                                                    : t[_i / 2].dense;

        if (kvr_path_copies(path) && strchr(spec, '+'))
            continue;
        ck_assert_msg(takes_bf16(spec, KVR_CUDA, path, KVR_BF16) == takes, "%s, %s", spec,
                      kvr_path_names[path]);
        ck_assert(!takes_bf16(spec, KVR_CPU, path, KVR_BF16));
        if (path != KVR_PATH_FUSED)
            ck_assert(!takes_bf16(spec, KVR_CUDA, path, KVR_F32));
        if (!takes)
            continue;
        queries = ROUNDED;
        rollout(spec, KVR_CUDA, path, KVR_BF16, 0, NULL, NULL, &cpu);
        queries = AS_BF16;
        rollout(spec, KVR_CUDA, path, KVR_BF16, 0, NULL, NULL, &cuda);
        queries = AS_FLOATS;
        ck_assert(cpu.out[CHUNKS - 1][1][1] != 0);
        ck_assert_msg(!memcmp(cpu.out, cuda.out, sizeof cpu.out), "%s, %s: outputs differ", spec,
                      kvr_path_names[path]);
    }
    unsetenv("KVREEL_EMULATED_CAPABILITY");
}
END_TEST

/* Queries that attention normalizes and rotates itself give the same bits as queries that the
 * test has normalized and rotated. */
START_TEST(normed_queries)
{
    static const char *const specs[] = { "BF16", "RTN_INT4", "QUAROT_KV_INT2" };

    D = _i % 2 ? 128 : 16;
    draw_norm();
    if (_i % 2)
        setenv("KVREEL_EMULATED_CAPABILITY", "9.0", 1);
    for (int path = KVR_PATH_STAGED; path <= KVR_PATH_FUSED; path++) {
        queries = FINISHED;
        rollout(specs[_i / 2], KVR_CUDA, path, KVR_BF16, 0, NULL, NULL, &cpu);
        queries = NORMED;
        rollout(specs[_i / 2], KVR_CUDA, path, KVR_BF16, 0, NULL, NULL, &cuda);
        queries = AS_FLOATS;
        ck_assert(cpu.out[CHUNKS - 1][1][1] != 0);
        ck_assert_msg(!memcmp(cpu.out, cuda.out, sizeof cpu.out), "%s, %s: outputs differ",
                      specs[_i / 2], kvr_path_names[path]);
    }
    unsetenv("KVREEL_EMULATED_CAPABILITY");
}
END_TEST

/* A cache on the fused path fails to open, with a reason, where the fused kernel does not
 * support its configuration. */
START_TEST(fused_is_refused_with_a_reason)
{
    static const struct {
        const char *spec;
        enum kvr_dtype exact;
        int head_dim;
        const char *why;
    } cases[] = {
        { "RTN_INT4", KVR_F32, 16, "this cache is F32" },
        { "RTN_INT4+exact", KVR_BF16, 16, "diagnostic" },
        { "RTN_INT4", KVR_BF16, 24, "head_dim" },
    };
    struct kvr_cache_shape shape = shape_of(cases[_i].exact, 0);
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache = NULL;

    shape.head_dim = cases[_i].head_dim;
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, cases[_i].spec, NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_FUSED), KVR_EUNSUPPORTED);
    ck_assert_msg(strstr(kvr_error(), cases[_i].why) && strstr(kvr_error(), "staged"), "%s",
                  kvr_error());
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}
END_TEST

/* The kernel for unquantized tokens needs 57344 B of shared memory per block, the kernel for
 * quantized tokens 38912 B or more. With 50000 B, the latter also reads unquantized tokens. With
 * 30000 B, neither fits: the staged path multiplies in F32, and a cache with the fused path cannot
 * be opened. The emulated device rejects launches that exceed the limit. */
START_TEST(with_little_shared_memory)
{
    static const char *const specs[] = { "BF16", "RTN_INT4", "KIVI_INT2+taylor" };
    const char *spec = specs[_i];
    struct kvr_cache_shape shape;
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache = NULL;

    /* A real device's shared memory cannot be limited. */
    if (!kvr_stream_emulated())
        return;
    D = 64;
    setenv("KVREEL_EMULATED_SHARED", "50000", 1);
    compare_bf16(spec, KVR_PATH_STAGED, 0);
    compare_bf16(spec, KVR_PATH_FUSED, 0);
    setenv("KVREEL_EMULATED_SHARED", "30000", 1);
    compare_bf16(spec, KVR_PATH_STAGED, 0);
    shape = shape_of(KVR_BF16, 0);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
    unsetenv("KVREEL_EMULATED_SHARED");
    ck_assert_int_eq(kvr_scheme_open(&scheme, spec, NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_FUSED), KVR_EUNSUPPORTED);
    ck_assert_msg(strstr(kvr_error(), "per block, this device has 30000; use path staged"), "%s",
                  kvr_error());
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
    D = 16;
}
END_TEST

/* On a device, kvr_cache_read() must decode and copy many tokens per kernel launch: waiting for the
 * device takes longer than decoding one token. */
START_TEST(read_back_in_blocks)
{
    const struct kvr_cache_shape shape = shape_of(KVR_F32, 0);
    static float x[3 * N], y[CAPACITY];
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_buf b = { 0 };
    int64_t before;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "RTN_INT4", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&b, dev, KVR_MEM_ACT, 4 * N * sizeof(float)), KVR_OK);
    kvr_normal(x, 3 * N, 3, KVR_RNG_TEST, 1, 1, 0);
    for (int c = 0; c < CHUNKS; c++) {
        const struct kvr_pass pass = {
            .chunk = c, .frame0 = c * FRAMES, .n_frames = FRAMES, .index = 0, .clean = true
        };

        ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
        pass_on(cache, dev, &b, x, true, y);
        ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
    }
    before = kvr_stream_launches(kvr_dev_stream(dev), "grid_decode");
    ck_assert_int_eq(read_tokens(cache, 0, y, y), CHUNKS * CHUNK);
    before = kvr_stream_launches(kvr_dev_stream(dev), "grid_decode") - before;
    ck_assert_msg(before > 0 && before <= 4 * CHUNKS, "%lld launches for %d chunks of %d tokens",
                  (long long)before, CHUNKS, CHUNK);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_buf_free(&b);
    kvr_dev_close(&dev);
}
END_TEST

/* A cache fails to open if the device has no kernel for its attention: grouped KV heads, a causal
 * mask, or INT8 arithmetic at this head_dim. */
START_TEST(a_device_says_what_it_cannot_do)
{
    static const struct {
        int n_kv_heads;
        bool causal;
        enum kvr_attend_as attend;
        const char *why;
    } cases[] = {
        { 1, false, KVR_ATTEND_FLOAT, "query heads on 1 KV heads" },
        { 0, true, KVR_ATTEND_FLOAT, "causal" },
        { 0, false, KVR_ATTEND_INT8, "attend int8 on a device: head_dim" },
    };
    struct kvr_cache_shape shape = shape_of(KVR_BF16, 0);
    struct kvr_scheme *scheme;
    struct kvr_cache *cache = NULL;
    struct kvr_dev *dev;

    shape.n_kv_heads = cases[_i].n_kv_heads;
    shape.causal = cases[_i].causal;
    shape.attend = cases[_i].attend;
    ck_assert_int_eq(kvr_scheme_open(&scheme, "RTN_INT4", NULL, 0), KVR_OK);
    for (int b = 0; b < KVR_N_BACKENDS; b++) {
        ck_assert_int_eq(kvr_dev_open(&dev, (enum kvr_backend)b), KVR_OK);
        ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED),
                         b == KVR_CPU ? KVR_OK : KVR_EUNSUPPORTED);
        ck_assert_msg(b == KVR_CPU || strstr(kvr_error(), cases[_i].why), "%s", kvr_error());
        kvr_cache_close(&cache);
        kvr_dev_close(&dev);
    }
    kvr_scheme_close(&scheme);
}
END_TEST

/* Data that an observer records in each pass: the number of segments, and a weighted sum of stored
 * keys and inputs. Both backends must give identical bits. */
struct seen {
    int n;
    double sum[CHUNKS * 2];
    int segments[CHUNKS * 2];
};

static enum kvr_status look(void *ctx, const struct kvr_cache_view *v)
{
    struct seen *s = ctx;
    static float k[CAPACITY];
    double sum = 0;

    ck_assert_int_eq(kvr_dev_backend(v->past->dev), KVR_CPU);
    kvr_layer_dense(v->past, 0, (int64_t)CHUNKS * CHUNK, k, NULL, NULL);
    for (int i = 0; i < CAPACITY; i++)
        sum += (i % 7 + 1) * (double)k[i];
    for (int i = 0; i < CHUNK * H * D; i++)
        sum += (double)((const float *)v->k)[i] * (v->q ? v->q[i] + v->out[i] * 0 : 1);
    s->segments[s->n] = v->past->n;
    s->sum[s->n++] = sum;
    return KVR_OK;
}

START_TEST(observers_get_the_same_data)
{
    static const char *const specs[] = { "QAQ_INT2+energy", "QAQ_INT2+energy",
                                         "FLOWCACHE_SOFT_PRUNE_INT2", "PRQ_INT4@study" };
    struct seen a = { 0 }, b = { 0 };

    unasked = _i == 0;
    rollout(specs[_i], KVR_CPU, KVR_PATH_STAGED, KVR_F32, 0, look, &a, &cpu);
    rollout(specs[_i], KVR_CUDA, KVR_PATH_STAGED, KVR_F32, 0, look, &b, &cuda);
    unasked = false;
    ck_assert_int_eq(a.n, CHUNKS * 2);
    ck_assert_int_eq(b.n, CHUNKS * 2);
    for (int i = 0; i < a.n; i++) {
        ck_assert_int_eq(a.segments[i], b.segments[i]);
        ck_assert_msg(a.sum[i] == b.sum[i], "%s: pass %d: %.17g, on the device %.17g", specs[_i], i,
                      a.sum[i], b.sum[i]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cache on a device");
    TCase *tc = tcase_create("device");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_method_agrees, 0, n_methods());
    tcase_add_loop_test(tc, a_device_says_what_it_cannot_do, 0, 3);
    tcase_add_loop_test(tc, paths_and_corrections_agree, 0, (int)(sizeof some / sizeof *some));
    tcase_add_loop_test(tc, tensor_cores_agree, 0, n_methods());
    tcase_add_loop_test(tc, corrected_on_tensor_cores, 0, (int)(sizeof some / sizeof *some));
    tcase_add_loop_test(tc, bf16_queries, 0, 2 * 9);
    tcase_add_loop_test(tc, normed_queries, 0, 2 * 3);
    tcase_add_loop_test(tc, fused_is_refused_with_a_reason, 0, 3);
    tcase_add_loop_test(tc, observers_get_the_same_data, 0, 4);
    suite_add_tcase(s, tc);
    tc = tcase_create("what a device has");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, with_little_shared_memory, 0, 3);
    tcase_add_test(tc, read_back_in_blocks);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
