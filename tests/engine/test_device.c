/* test_device.c - compares the engine on a CUDA device (emulated in tests) with the engine on the
 * CPU. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device/stream.h"
#include "harness/core/rng.h"
#include "harness/workload/workload.h"
#include "tests/suite.h"
#include "tests/tiny_model.h"

enum { CHUNKS = 2, FRAMES = 2 * CHUNKS, MOST = 1024 };

#define SIZE(...)                                                                                  \
    {                                                                                              \
        .dim = 24, .ffn = 20, .freq = 8, .text_dim = 6, .text_len = 3, .heads = 2, .layers = 2,    \
        .patch_h = 1, .patch_w = 2, .height = 2, .width = 6, .frames = 2, __VA_ARGS__              \
    }
#define RGB ", \"prediction\": \"x0\", \"latent_space\": \"rgb\", \"latent_range\": [-0.25, 0.5]"

static const struct tiny_size flow_size = SIZE(.channels = 4);
static const struct tiny_size rgb_size = SIZE(.channels = 3, .keys = RGB);
static const struct tiny_size drawn_size =
    SIZE(.channels = 3, .keys = RGB ", \"weights\": {\"random\": {\"seed\": 5}}");
static const struct tiny_size wide_size = {
    .dim = 516,
    .ffn = 8,
    .freq = 8,
    .text_dim = 6,
    .text_len = 3,
    .channels = 3,
    .heads = 2,
    .layers = 1,
    .patch_h = 1,
    .patch_w = 2,
    .height = 2,
    .width = 6,
    .frames = 2,
};

/* A size that the warpgroup matrix kernels (WGMMA) accept. */
static const struct tiny_size grouped_size = {
    .dim = 160,
    .ffn = 72,
    .freq = 8,
    .text_dim = 6,
    .text_len = 3,
    .channels = 4,
    .heads = 2,
    .layers = 2,
    .patch_h = 1,
    .patch_w = 2,
    .height = 2,
    .width = 6,
    .frames = 2,
};

static char dir[64];

struct rig {
    struct kvr_dev *dev;
    struct kvr_model *m;
    struct kvr_dit *d;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
};

static enum kvr_status rig_open(struct rig *r, enum kvr_backend backend, enum kvr_dtype compute)
{
    const struct kvr_model_use use = { .compute = compute };
    struct kvr_cache_shape shape = { .frames_per_chunk = 2,
                                     .capacity_frames = FRAMES,
                                     .exact = KVR_F32 };
    const struct kvr_model_config *c;

    memset(r, 0, sizeof *r);
    KVR_TRY(kvr_dev_open(&r->dev, backend));
    KVR_TRY(kvr_model_open_as(&r->m, r->dev, dir, &use));
    KVR_TRY(kvr_dit_open(&r->d, r->dev, r->m));
    KVR_TRY(kvr_scheme_open(&r->scheme, "F32", NULL, 0));
    c = kvr_model_config(r->m);
    shape.n_layers = c->n_layers;
    shape.n_heads = c->n_heads;
    shape.head_dim = kvr_model_head_dim(r->m);
    shape.tokens_per_frame = kvr_model_tokens_per_frame(r->m);
    return kvr_cache_open(&r->cache, r->dev, r->scheme, &shape, KVR_PATH_STAGED);
}

/* Closing the device asserts that no memory is left allocated. */
static void rig_close(struct rig *r)
{
    kvr_cache_close(&r->cache);
    kvr_scheme_close(&r->scheme);
    kvr_dit_close(&r->d);
    kvr_model_close(&r->m);
    kvr_dev_close(&r->dev);
}

static enum kvr_status sample(struct rig *r, float *latents)
{
    float P[3 * 6];
    struct kvr_noise noise = { .seed = 1 }; /* the device generates the noise */

    kvr_normal(P, 3 * 6, 3, KVR_RNG_TEST, 0, 0, 0);
    KVR_TRY(kvr_dit_set_prompt(r->d, P));
    return kvr_sample(r->d, r->cache, FRAMES, NULL, &noise, NULL, latents);
}

static double relative_l2(const float *a, const float *b, int64_t n)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(off / size);
}

static const struct {
    const struct tiny_size *size;
    enum kvr_dtype compute;
    bool reuse;
    double tol;
    const char *capability; /* of the emulated device */
} rollouts[] = {
    /* Results differ only by rounding. Two layers in six passes, with a relative error of 3e-7
     * each, stay below 1e-5, the tolerance of the recorded fixtures for F32. */
    { &flow_size, KVR_F32, false, 1e-5, NULL },
    { &rgb_size, KVR_F32, false, 1e-5, NULL },
    { &flow_size, KVR_F32, true, 1e-5, NULL },
    /* F32 sums on the CPU and on the device differ by 1e-7. An input close to the midpoint of two
     * BF16 numbers may then be rounded either way, which changes it by up to 2^-7 of its size. Few
     * inputs are that close to a midpoint. The bound is half of 1.2e-2, the tolerance of the
     * recorded fixtures for BF16. */
    { &flow_size, KVR_BF16, false, 6e-3, NULL },
    { &rgb_size, KVR_BF16, false, 6e-3, NULL },
    { &flow_size, KVR_BF16, true, 6e-3, NULL },
    { &grouped_size, KVR_BF16, false, 6e-3, NULL },
    { &grouped_size, KVR_BF16, false, 6e-3, "9.0" },
    { &grouped_size, KVR_BF16, true, 6e-3, "9.0" },
    { &flow_size, KVR_BF16, false, 6e-3, "9.0" },
};
enum { N_ROLLOUTS = sizeof rollouts / sizeof rollouts[0] };

START_TEST(latents_are_those_of_the_cpu)
{
    const struct kvr_reuse_opts reuse = { .threshold = 1e9, .warmup = 1 };
    static float latents[2][MOST];
    struct kvr_reuse_counts counts[2];
    int64_t n = 0;

    tiny_model_make(dir, rollouts[_i].size, NULL);
    if (rollouts[_i].capability)
        setenv("KVREEL_EMULATED_CAPABILITY", rollouts[_i].capability, 1);
    for (int backend = 0; backend < 2; backend++) {
        struct rig r;

        ck_assert_msg(rig_open(&r, (enum kvr_backend)backend, rollouts[_i].compute) == KVR_OK, "%s",
                      kvr_error());
        ck_assert_int_eq(kvr_model_compute(r.m), rollouts[_i].compute);
        if (rollouts[_i].reuse)
            ck_assert_int_eq(kvr_dit_set_reuse(r.d, &reuse), KVR_OK);
        n = FRAMES * kvr_model_frame_elems(r.m);
        ck_assert_int_le(n, MOST);
        ck_assert_msg(sample(&r, latents[backend]) == KVR_OK, "%s", kvr_error());
        kvr_dit_reuse_counts(r.d, &counts[backend]);
        if (backend == KVR_CUDA && kvr_stream_emulated())
            ck_assert_int_eq(kvr_stream_launches(kvr_dev_stream(r.dev), "linear_wgmma") > 0,
                             rollouts[_i].capability != NULL);
        rig_close(&r);
    }
    ck_assert_msg(relative_l2(latents[1], latents[0], n) <= rollouts[_i].tol, "%g",
                  relative_l2(latents[1], latents[0], n));
    ck_assert_int_eq(counts[0].skipped, counts[1].skipped);
    ck_assert_int_eq(counts[0].compared, counts[1].compared);
    ck_assert_int_eq(counts[0].compared > 0, rollouts[_i].reuse);
    ck_assert(fabs(counts[0].total - counts[1].total) <= rollouts[_i].tol * counts[0].total);
    unsetenv("KVREEL_EMULATED_CAPABILITY");
    tiny_model_remove(dir);
}
END_TEST

/* On each backend, results in BF16 differ from those in F32. */
START_TEST(bf16_is_not_f32)
{
    static float f32[MOST], bf16[MOST];
    struct rig r;

    tiny_model_make(dir, &flow_size, NULL);
    ck_assert_int_eq(rig_open(&r, (enum kvr_backend)_i, KVR_F32), KVR_OK);
    ck_assert_int_eq(sample(&r, f32), KVR_OK);
    rig_close(&r);
    ck_assert_int_eq(rig_open(&r, (enum kvr_backend)_i, KVR_BF16), KVR_OK);
    ck_assert_int_eq(sample(&r, bf16), KVR_OK);
    const double off = relative_l2(bf16, f32, FRAMES * kvr_model_frame_elems(r.m));

    /* BF16 rounds each input by up to 2^-8 of itself, and the errors partly average out */
    ck_assert_msg(off > 1e-4 && off <= 2e-2, "%g", off);
    rig_close(&r);
    tiny_model_remove(dir);
}
END_TEST

/* Compares frames, memory and times of a whole rollout. Pixels are latents rounded to 256 levels.
 * In F32, latents agree to 1e-5, so very few bytes differ, each by one level. In BF16, latents
 * agree to 6e-3, which is 1.5 levels on average. */
START_TEST(frames_are_those_of_the_cpu)
{
    const enum kvr_dtype compute = _i ? KVR_BF16 : KVR_F32;
    struct kvr_rollout_result result[2];
    int64_t off = 0;

    tiny_model_make(dir, &drawn_size, NULL);
    for (int backend = 0; backend < 2; backend++) {
        struct kvr_rollout_request req = { .prompt = "a red disc",
                                           .seed = 3,
                                           .latent_frames = FRAMES,
                                           .path = KVR_PATH_STAGED,
                                           .exact = KVR_F32,
                                           .phases = true };
        struct kvr_rollout_result *out = &result[backend];
        struct rig r;

        ck_assert_msg(rig_open(&r, (enum kvr_backend)backend, compute) == KVR_OK, "%s",
                      kvr_error());
        kvr_dit_close(&r.d); /* kvr_rollout_run() opens its own kvr_dit */
        req.model = r.m;
        ck_assert_msg(kvr_rollout_run(r.dev, r.scheme, &req, NULL, NULL, out) == KVR_OK, "%s",
                      kvr_error());
        ck_assert_uint_eq(out->live_at_start, out->live_at_end);
        ck_assert_int_gt(out->dit.linear_ns, 0);
        ck_assert_int_gt(out->dit.cross_ns, 0);
        ck_assert_int_gt(out->dit.other_ns, 0);
        ck_assert_int_le(out->dit.linear_ns + out->dit.cross_ns + out->dit.other_ns +
                             out->cache.attend_ns + out->cache.decode_ns,
                         out->wall_ns);
        ck_assert_int_eq(out->n_passes, CHUNKS * (kvr_model_config(r.m)->n_steps + 1));
        for (int i = 0; i < out->n_passes; i++)
            ck_assert_int_gt(out->pass[i].dit.linear_ns, 0);
        ck_assert_uint_gt(out->mem.peak[KVR_MEM_WEIGHTS], 0);
        ck_assert_uint_gt(out->mem.peak[KVR_MEM_ACT], 0);
        rig_close(&r);
    }
    ck_assert_int_eq(result[0].n, result[1].n);
    for (int i = 0; i < result[0].n * result[0].height * result[0].width * 3; i++) {
        ck_assert_int_le(abs(result[0].rgb[i] - result[1].rgb[i]), _i ? 4 : 1);
        off += result[0].rgb[i] != result[1].rgb[i];
    }
    ck_assert(_i || off <= 2);
    ck_assert_uint_eq(result[0].bytes.resident, result[1].bytes.resident);
    kvr_rollout_result_free(&result[0]);
    kvr_rollout_result_free(&result[1]);
    tiny_model_remove(dir);
}
END_TEST

/* ---- graphs --------------------------------------------------------------------------- */

/* Heads of 16 channels suit both a Hadamard transform and tensor cores. */
static const struct tiny_size four_steps = {
    .dim = 32,
    .ffn = 20,
    .freq = 8,
    .text_dim = 6,
    .text_len = 3,
    .channels = 3,
    .heads = 2,
    .layers = 2,
    .patch_h = 1,
    .patch_w = 2,
    .height = 2,
    .width = 6,
    .frames = 2,
    .keys = RGB ", \"weights\": {\"random\": {\"seed\": 5}}",
    .steps = "[1000, 750, 500, 250]",
};

static const struct {
    const char *method;
    enum kvr_path path;
    enum kvr_dtype compute, exact;
    /* number of CUDA graphs captured and launched in two chunks of four steps */
    int captured, launched;
} recorded[] = {
    { "F32", KVR_PATH_STAGED, KVR_F32, KVR_F32, 2, 6 },
    { "BF16", KVR_PATH_STAGED, KVR_BF16, KVR_BF16, 2, 6 },
    { "RTN_INT4", KVR_PATH_STAGED, KVR_F32, KVR_BF16, 2, 6 },
    { "RTN_INT4", KVR_PATH_DENSE, KVR_F32, KVR_BF16, 2, 6 },
    { "QUAROT_KV_INT4", KVR_PATH_STAGED, KVR_F32, KVR_BF16, 2, 6 },
    { "RTN_INT2", KVR_PATH_FUSED, KVR_BF16, KVR_BF16, 2, 6 },
    /* the study's version encodes keys and values in every pass, so no graph can be reused */
    { "RTN_INT4@study", KVR_PATH_DENSE, KVR_F32, KVR_BF16, 0, 0 },
};

static void roll(const char *method, const struct kvr_rollout_request *how,
                 struct kvr_rollout_result *out, enum kvr_backend backend, enum kvr_dtype compute)
{
    struct kvr_rollout_request req = *how;
    struct rig r;

    ck_assert_msg(rig_open(&r, backend, compute) == KVR_OK, "%s", kvr_error());
    kvr_dit_close(&r.d);
    kvr_scheme_close(&r.scheme);
    ck_assert_msg(kvr_scheme_open(&r.scheme, method, NULL, 0) == KVR_OK, "%s", kvr_error());
    req.model = r.m;
    ck_assert_msg(kvr_rollout_run(r.dev, r.scheme, &req, NULL, NULL, out) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_uint_eq(out->live_at_start, out->live_at_end);
    rig_close(&r);
}

/* A rollout gives the same bytes with and without graphs. */
START_TEST(a_recording_does_the_same_work)
{
    struct kvr_rollout_request req = { .prompt = "a red disc",
                                       .seed = 3,
                                       .latent_frames = FRAMES,
                                       .path = recorded[_i].path,
                                       .exact = recorded[_i].exact };
    struct kvr_rollout_result result[2];
    size_t n;

    tiny_model_make(dir, &four_steps, NULL);
    for (int graphs = 0; graphs < 2; graphs++) {
        req.graphs = graphs;
        roll(recorded[_i].method, &req, &result[graphs], KVR_CUDA, recorded[_i].compute);
    }
    n = (size_t)result[0].n * (size_t)result[0].height * (size_t)result[0].width * 3;
    ck_assert_uint_gt(n, 0);
    ck_assert(memcmp(result[0].rgb, result[1].rgb, n) == 0);
    ck_assert_int_eq(result[0].graphs.captured, 0);
    ck_assert_int_eq(result[0].graphs.launched, 0);
    ck_assert_int_eq(result[0].dit.graph_ns, 0);
    ck_assert_int_eq(result[1].graphs.captured, recorded[_i].captured);
    ck_assert_int_eq(result[1].graphs.launched, recorded[_i].launched);
    ck_assert_int_eq(result[1].dit.graph_ns > 0, recorded[_i].launched > 0);
    ck_assert_int_gt(result[1].dit.other_ns, 0);
    kvr_rollout_result_free(&result[0]);
    kvr_rollout_result_free(&result[1]);
    tiny_model_remove(dir);
}
END_TEST

static enum kvr_status just_look(void *ctx, const struct kvr_cache_view *view)
{
    (void)view;
    ++*(int *)ctx;
    return KVR_OK;
}

static void listen(void *ctx, const char *name, const float *data, int64_t n)
{
    (void)name;
    (void)data;
    (void)n;
    ++*(int *)ctx;
}

/* With `graphs: true` an observer still sees every pass, and feature reuse still decides at every
 * step. On the CPU graphs are not used. */
START_TEST(who_looks_is_not_passed_by)
{
    struct kvr_rollout_request req = { .prompt = "a red disc",
                                       .seed = 3,
                                       .latent_frames = FRAMES,
                                       .path = KVR_PATH_STAGED,
                                       .exact = KVR_F32,
                                       .graphs = true };
    const struct kvr_reuse_opts reuse = { .threshold = 1e9, .warmup = 1 };
    static float latents[MOST];
    struct kvr_rollout_result result;
    struct kvr_graph_counts counts;
    struct rig r;
    int seen = 0;

    tiny_model_make(dir, &four_steps, NULL);
    roll("F32", &req, &result, KVR_CPU, KVR_F32);
    ck_assert_int_eq(result.graphs.captured, 0);
    kvr_rollout_result_free(&result);
    req.observer = just_look;
    req.observer_ctx = &seen;
    roll("F32", &req, &result, KVR_CUDA, KVR_F32);
    ck_assert_int_eq(result.graphs.captured, 0);
    ck_assert_int_eq(seen, 2 * CHUNKS * 5); /* layers, chunks, passes */
    kvr_rollout_result_free(&result);
    for (int taps = 0; taps < 2; taps++) {
        ck_assert_int_eq(rig_open(&r, KVR_CUDA, KVR_F32), KVR_OK);
        kvr_dit_set_graphs(r.d, true);
        seen = 0;
        if (taps)
            kvr_dit_tap(r.d, listen, &seen);
        else
            ck_assert_int_eq(kvr_dit_set_reuse(r.d, &reuse), KVR_OK);
        ck_assert_msg(sample(&r, latents) == KVR_OK, "%s", kvr_error());
        kvr_dit_graph_counts(r.d, &counts);
        ck_assert_int_eq(counts.launched, 0);
        ck_assert_int_eq(seen > 0, taps);
        rig_close(&r);
    }
    tiny_model_remove(dir);
}
END_TEST

/* n: number of tapped tensors that must be BF16. not_bf16: number of their values that are not
 * BF16. */
struct looked {
    int n, not_bf16;
};

static bool rounded_everywhere(const char *name)
{
    static const char *const ends[] = { "patch_tokens",  "q_rope",         "k_rope",  ".v",
                                        "self_attn_out", "cross_attn_out", "ffn_out", ".out",
                                        "cross_k",       "cross_v" };
    const size_t n = strlen(name);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n >= strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i]))
            return true;
    return false;
}

static void look(void *ctx, const char *name, const float *data, int64_t n)
{
    struct looked *l = ctx;

    if (!rounded_everywhere(name))
        return;
    l->n++;
    for (int64_t i = 0; i < n; i++)
        l->not_bf16 += !(data[i] == kvr_bf16_to_f32(kvr_f32_to_bf16(data[i])));
}

/* In BF16, tapping intermediate tensors selects other kernels for sums and norms, which must give
 * the same bytes. Tensors between layers are BF16, also on the CPU. */
START_TEST(a_look_changes_nothing)
{
    static float latents[2][MOST];
    const struct tiny_size *const sizes[] = { &flow_size, &four_steps };
    struct looked seen = { 0 };
    int64_t n = 0;
    int passes = 0;

    tiny_model_make(dir, sizes[_i % 2], NULL);
    for (int taps = 0; taps < 2; taps++) {
        struct rig r;

        ck_assert_int_eq(rig_open(&r, (enum kvr_backend)(_i / 2), KVR_BF16), KVR_OK);
        passes = CHUNKS * (kvr_model_config(r.m)->n_steps + 1);
        if (taps)
            kvr_dit_tap(r.d, look, &seen);
        n = FRAMES * kvr_model_frame_elems(r.m);
        ck_assert_int_le(n, MOST);
        ck_assert_msg(sample(&r, latents[taps]) == KVR_OK, "%s", kvr_error());
        rig_close(&r);
    }
    /* tapped tensors: K and V of cross-attention in two layers; per pass, patch_tokens and 7 in
     * each of two layers */
    ck_assert_int_eq(seen.n, 2 * 2 + passes * (1 + 2 * 7));
    ck_assert_int_eq(seen.not_bf16, 0);
    ck_assert_mem_eq(latents[0], latents[1], (size_t)n * sizeof(float));
    tiny_model_remove(dir);
}
END_TEST

/* BF16 activations get an F32 copy only if another component needs F32. Here, an F32 cache needs Q,
 * K and V in F32. */
START_TEST(no_room_for_floats_that_nobody_takes)
{
    enum { N = 2 * 6, DIM = 32 }; /* tokens per chunk and width of the model four_steps */
    size_t bytes[2];

    tiny_model_make(dir, &four_steps, NULL);
    for (int i = 0; i < 2; i++) {
        const struct kvr_rollout_request req = { .prompt = "a red disc",
                                                 .seed = 3,
                                                 .latent_frames = FRAMES,
                                                 .path = KVR_PATH_STAGED,
                                                 .exact = i ? KVR_F32 : KVR_BF16 };
        struct kvr_rollout_result result;

        roll(i ? "F32" : "BF16", &req, &result, KVR_CUDA, KVR_BF16);
        bytes[i] = result.mem.peak[KVR_MEM_ACT];
        kvr_rollout_result_free(&result);
    }
    ck_assert_msg(bytes[1] == bytes[0] + 3 * N * DIM * sizeof(float), "%zu of BF16, %zu of floats",
                  bytes[0], bytes[1]);
    tiny_model_remove(dir);
}
END_TEST

/* On CUDA, weights have the data type in which the model computes. BF16 weights take half the bytes
 * of F32, with two exceptions. Columns are padded to a multiple of 32, here from 516 to 544. Biases
 * and other vectors, here 2 % of the weights, stay F32. */
START_TEST(bf16_weights_are_smaller)
{
    size_t weights[2];

    tiny_model_make(dir, &wide_size, NULL);
    for (int i = 0; i < 2; i++) {
        struct kvr_dev *dev;
        struct kvr_model *m;
        const struct kvr_model_use use = { .compute = i ? KVR_BF16 : KVR_F32 };
        struct kvr_mem_stats s;

        ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
        ck_assert_msg(kvr_model_open_as(&m, dev, dir, &use) == KVR_OK, "%s", kvr_error());
        kvr_mem_stats(dev, &s);
        weights[i] = s.live[KVR_MEM_WEIGHTS];
        /* Apart from weights, only cuBLASLt's workspace of 32 MiB stays allocated; the emulated
         * device has none. */
        ck_assert_uint_eq(weights[i] + s.live[KVR_MEM_SCRATCH], s.live_total);
        ck_assert_uint_eq(s.live[KVR_MEM_SCRATCH], kvr_stream_emulated() ? 0 : 32 << 20);
        ck_assert_ptr_nonnull(strstr(kvr_model_library(m), "cuBLASLt"));
        kvr_model_close(&m);
        kvr_dev_close(&dev);
    }
    ck_assert_msg((double)weights[1] <= 0.56 * (double)weights[0], "%zu of %zu", weights[1],
                  weights[0]);
    tiny_model_remove(dir);
}
END_TEST

START_TEST(heads_that_are_too_wide_are_refused)
{
    struct rig r;

    tiny_model_make(dir, &wide_size, NULL);
    ck_assert_int_eq(rig_open(&r, KVR_CUDA, KVR_F32), KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "258"));
    ck_assert_ptr_nonnull(strstr(kvr_error(), "256"));
    rig_close(&r);
    tiny_model_remove(dir);
}
END_TEST

/* Makes one allocation fail while a model is opened: the 1st, 8th, 15th and so on, until opening
 * succeeds. Each failure must return an error and leave no memory allocated. */
START_TEST(out_of_memory)
{
    static float latents[MOST];
    bool ok = false;
    int failed = 0;

    tiny_model_make(dir, &flow_size, NULL);
    for (uint64_t n = 1; !ok; n += 7) {
        struct rig r = { 0 };
        const struct kvr_model_use use = { .compute = KVR_BF16 };

        ck_assert_int_eq(kvr_dev_open(&r.dev, KVR_CUDA), KVR_OK);
        kvr_mem_fail_after(r.dev, n);
        ok = kvr_model_open_as(&r.m, r.dev, dir, &use) == KVR_OK &&
             kvr_dit_open(&r.d, r.dev, r.m) == KVR_OK;
        failed += !ok;
        ck_assert(ok || strstr(kvr_error(), "injected"));
        kvr_mem_fail_after(r.dev, 0);
        rig_close(&r);
    }
    ck_assert_int_gt(failed, 5);
    struct rig r;

    ck_assert_int_eq(rig_open(&r, KVR_CUDA, KVR_F32), KVR_OK);
    kvr_mem_fail_after(r.dev, 1); /* the allocation by kvr_sample() */
    ck_assert_int_eq(sample(&r, latents), KVR_ENOMEM);
    ck_assert_int_eq(sample(&r, latents), KVR_OK); /* the next rollout succeeds */
    rig_close(&r);
    tiny_model_remove(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device");
    TCase *tc = tcase_create("device");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, latents_are_those_of_the_cpu, 0, N_ROLLOUTS);
    tcase_add_loop_test(tc, bf16_is_not_f32, 0, KVR_N_BACKENDS);
    tcase_add_loop_test(tc, frames_are_those_of_the_cpu, 0, 2);
    tcase_add_loop_test(tc, a_recording_does_the_same_work, 0, sizeof recorded / sizeof *recorded);
    tcase_add_test(tc, who_looks_is_not_passed_by);
    tcase_add_loop_test(tc, a_look_changes_nothing, 0, 2 * KVR_N_BACKENDS);
    tcase_add_test(tc, no_room_for_floats_that_nobody_takes);
    tcase_add_test(tc, bf16_weights_are_smaller);
    tcase_add_test(tc, heads_that_are_too_wide_are_refused);
    tcase_add_test(tc, out_of_memory);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
