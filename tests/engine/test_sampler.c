/* test_sampler.c - compares the denoising schedule with recorded tables. Tests on which indices the
 * noise depends, and the order of calls in a rollout. */
#include "harness/engine/sampler.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "tests/tiny_model.h"
#include "tests/suite.h"

#define FIXTURE "tests/fixtures/wan_tiny"

static const struct kvr_model_config wan = { .timestep_shift = 5,
                                             .n_steps = 4,
                                             .steps = { 1000, 750, 500, 250 } };

/* ---- schedule ------------------------------------------------------------------------- */

/* Each sigma must be within 2e-9 of the recorded table. From 1/32 up, sigmas must therefore be
 * bit-equal, since F32 numbers there are at least 3.7e-9 apart. */
START_TEST(tables_are_the_recorded_ones)
{
    struct kvr_model_config c = wan;
    struct kvr_schedule s;
    struct kvr_st *f;
    struct kvr_tensor t;

    ck_assert_msg(kvr_st_open(&f, FIXTURE "/scheduler.safetensors") == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_st_get(f, "shift5.sigmas", &t), KVR_OK);
    kvr_schedule_make(&s, &c);
    for (int i = 0; i < 1000; i++)
        ck_assert_msg(fabs((double)s.table_sigma[i] - ((const float *)t.data)[i]) <= 2e-9,
                      "sigma %d", i);
    c.timestep_shift = 8;
    ck_assert_int_eq(kvr_st_get(f, "shift8.sigmas", &t), KVR_OK);
    kvr_schedule_make(&s, &c);
    for (int i = 0; i < 1000; i++)
        ck_assert_msg(fabs((double)s.table_sigma[i] - ((const float *)t.data)[i]) <= 2e-9,
                      "sigma %d", i);
    kvr_st_close(&f);
}
END_TEST

START_TEST(table_follows_its_formula)
{
    struct kvr_schedule s;

    kvr_schedule_make(&s, &wan);
    for (int i = 0; i < 1000; i++) {
        double u = 1 - i / 1000.0, sigma = 5 * u / (1 + 4 * u);

        /* Four float32 roundings change sigma by at most 4 * 6e-8 sigma, and sigma is at most 1. */
        ck_assert_msg(fabs(s.table_sigma[i] - sigma) <= 3e-7, "sigma %d", i);
        ck_assert_msg(fabs(s.table_timestep[i] - 1000 * sigma) <= 4e-4, "timestep %d", i);
    }
}
END_TEST

START_TEST(steps_are_warped)
{
    static const float timesteps[] = { 1000.0f, 937.5f, 833.33331f, 625.0f };
    static const float sigmas[] = { 1.0f, 0.9375f, 0.83333331f, 0.625f };
    struct kvr_schedule s;

    kvr_schedule_make(&s, &wan);
    ck_assert_int_eq(s.n_steps, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert(s.timestep[i] == timesteps[i]);
        ck_assert(s.sigma[i] == sigmas[i]);
        ck_assert_int_eq(kvr_schedule_index(&s, timesteps[i]), 250 * i);
    }
    ck_assert_int_eq(kvr_schedule_index(&s, 0), 999);
    ck_assert_int_eq(kvr_schedule_index(&s, 2000), 0);
}
END_TEST

START_TEST(first_of_two_equally_near)
{
    struct kvr_schedule s;

    memset(&s, 0, sizeof s);
    s.table_timestep[10] = 980;
    s.table_timestep[11] = 978;
    ck_assert_int_eq(kvr_schedule_index(&s, 979), 10);
}
END_TEST

START_TEST(conversions)
{
    enum { N = 1003 };
    static float x[N], flow[N], x0[N], eps[N], again[N];

    kvr_normal(x, N, 1, KVR_RNG_TEST, 0, 0, 0);
    kvr_normal(flow, N, 1, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(eps, N, 1, KVR_RNG_TEST, 2, 0, 0);
    kvr_x0_from_flow(N, x, flow, 0.9375f, x0);
    kvr_renoise(N, x0, eps, 0.625f, again);
    for (int i = 0; i < N; i++) {
        ck_assert(x0[i] == (float)((double)x[i] - 0.9375 * (double)flow[i]));
        ck_assert(again[i] == 0.375f * x0[i] + 0.625f * eps[i]);
    }
}
END_TEST

/* ---- noise ---------------------------------------------------------------------------- */

START_TEST(noise_is_a_function_of_its_place)
{
    enum { N = 30, F = 3 };
    uint64_t seed = 5, other = 6;
    float a[F * N], b[F * N], c[F * N];

    /* initial noise depends on the frame, not on the chunk that contains it */
    kvr_noise_philox(&seed, 1, -1, 3, F, N, a);
    kvr_noise_philox(&seed, 9, -1, 4, 2, N, b);
    ck_assert(memcmp(a + N, b, 2 * N * sizeof *a) == 0);
    ck_assert(memcmp(a, b, N * sizeof *a) != 0);
    kvr_noise_philox(&other, 1, -1, 3, F, N, b);
    ck_assert(memcmp(a, b, N * sizeof *a) != 0);
    /* re-noising depends on (chunk, step, frame) and differs from the initial noise */
    kvr_noise_philox(&seed, 1, 0, 3, F, N, b);
    ck_assert(memcmp(a, b, N * sizeof *a) != 0);
    kvr_noise_philox(&seed, 1, 1, 3, F, N, c);
    ck_assert(memcmp(b, c, N * sizeof *a) != 0);
    kvr_noise_philox(&seed, 2, 0, 3, F, N, c);
    ck_assert(memcmp(b, c, N * sizeof *a) != 0);
    ck_assert(memcmp(b, b + N, N * sizeof *a) != 0);
    kvr_noise_philox(&seed, 1, 0, 3, 1, N, c);
    ck_assert(memcmp(b, c, N * sizeof *a) == 0);
}
END_TEST

static double root_mean_square(const float *a, const float *b, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += ((double)a[i] - (b ? (double)b[i] : 0)) * ((double)a[i] - (b ? (double)b[i] : 0));
    return sqrt(sum / n);
}

START_TEST(moved_noise_is_a_function_of_its_place_and_draw)
{
    enum { N = 300, F = 3 };
    struct kvr_noise n = { 5, 0, 0x1p-10 };
    uint64_t seed = 5;
    float a[F * N], b[F * N], c[F * N];

    for (int step = -1; step < 2; step++) {
        n.draw = 0; /* draw 0 is not perturbed */
        kvr_noise_philox(&seed, 1, step, 3, F, N, a);
        kvr_noise_moved(&n, 1, step, 3, F, N, b);
        ck_assert(memcmp(a, b, sizeof a) == 0);
        n.draw = 1;
        kvr_noise_moved(&n, 1, step, 3, F, N, b);
        kvr_noise_moved(&n, 1, step, 3, F, N, c);
        ck_assert(memcmp(b, c, sizeof b) == 0);
        /* The perturbation divided by 2^-10 has 900 values with variance 1. Their RMS has a
         * standard deviation of 1 / sqrt(1800); the tolerance is five of them. */
        ck_assert(fabs(root_mean_square(a, b, F * N) * 0x1p10 - 1) <= 0.12);
        /* The perturbations of draws 1 and 2 are independent, so the RMS of their difference is
         * sqrt(2) times that of one perturbation. */
        n.draw = 2;
        kvr_noise_moved(&n, 1, step, 3, F, N, c);
        ck_assert(fabs(root_mean_square(b, c, F * N) * 0x1p10 - sqrt(2)) <= 0.17);
    }
    /* a draw's initial noise depends on the frame; its re-noising depends on chunk, step and
     * frame */
    kvr_noise_moved(&n, 1, -1, 3, F, N, a);
    kvr_noise_moved(&n, 9, -1, 4, 2, N, b);
    ck_assert(memcmp(a + N, b, 2 * N * sizeof *a) == 0);
    kvr_noise_moved(&n, 1, 0, 3, F, N, a);
    kvr_noise_moved(&n, 1, 0, 3, 1, N, b);
    ck_assert(memcmp(a, b, N * sizeof *a) == 0);
    /* a perturbation of any magnitude leaves the variance at 1 */
    n.magnitude = 1;
    kvr_noise_moved(&n, 1, 0, 3, F, N, b);
    ck_assert(fabs(root_mean_square(b, NULL, F * N) - 1) <= 0.12);
}
END_TEST

/* ---- rollouts ------------------------------------------------------------------------- */

static const struct tiny_size flow_size = { .dim = 24,
                                            .ffn = 20,
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
                                            .frames = 2 };
static const struct tiny_size rgb_size = {
    .dim = 24,
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
    .keys = ", \"prediction\": \"x0\", \"latent_space\": \"rgb\", \"latent_range\": [-0.25, 0.5]"
};

enum { CHUNKS = 3, FRAMES = 2 * CHUNKS };

static enum kvr_backend backend; /* the backend that rig_open() opens */

static void on_the_cpu(void)
{
    backend = KVR_CPU;
}

static void on_cuda(void)
{
    backend = KVR_CUDA;
}

struct rig {
    char dir[64];
    struct kvr_dev *dev;
    struct kvr_model *m;
    struct kvr_dit *d;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    int64_t chunk; /* values per chunk */
    float P[3 * 6];
};

static void rig_open(struct rig *r, const struct tiny_size *size)
{
    struct kvr_cache_shape shape = { .frames_per_chunk = 2,
                                     .capacity_frames = FRAMES,
                                     .exact = KVR_F32 };

    memset(r, 0, sizeof *r);
    tiny_model_make(r->dir, size, NULL);
    ck_assert_int_eq(kvr_dev_open(&r->dev, backend), KVR_OK);
    ck_assert_msg(kvr_model_open(&r->m, r->dev, r->dir) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_dit_open(&r->d, r->dev, r->m) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_scheme_open(&r->scheme, "F32", NULL, 0) == KVR_OK, "%s", kvr_error());
    shape.n_layers = size->layers;
    shape.n_heads = size->heads;
    shape.head_dim = size->dim / size->heads;
    shape.tokens_per_frame = kvr_model_tokens_per_frame(r->m);
    ck_assert_msg(kvr_cache_open(&r->cache, r->dev, r->scheme, &shape, KVR_PATH_STAGED) == KVR_OK,
                  "%s", kvr_error());
    r->chunk = 2 * kvr_model_frame_elems(r->m);
    kvr_normal(r->P, 3 * 6, 3, KVR_RNG_TEST, 0, 0, 0);
    ck_assert_int_eq(kvr_dit_set_prompt(r->d, r->P), KVR_OK);
}

/* Closing the device asserts that no memory is left allocated. */
static void rig_close(struct rig *r)
{
    kvr_cache_close(&r->cache);
    kvr_scheme_close(&r->scheme);
    kvr_dit_close(&r->d);
    kvr_model_close(&r->m);
    kvr_dev_close(&r->dev);
    tiny_model_remove(r->dir);
}

struct diary {
    char text[256];
    float last[512]; /* the newest x0 */
    int64_t chunk;
    int stop_at; /* the hook chunk_begin of this chunk stops the rollout; -1: no stop */
};

static enum kvr_status begin(void *ctx, int chunk)
{
    struct diary *d = ctx;

    snprintf(d->text + strlen(d->text), 8, "b%d ", chunk);
    return chunk == d->stop_at ? kvr_fail(KVR_EINTERRUPTED, "enough") : KVR_OK;
}

static enum kvr_status step(void *ctx, int chunk, int index, const float *x0, int n_frames)
{
    struct diary *d = ctx;

    ck_assert_int_eq(n_frames, 2);
    snprintf(d->text + strlen(d->text), 12, "s%d.%d ", chunk, index);
    memcpy(d->last, x0, (size_t)d->chunk * sizeof *x0);
    return KVR_OK;
}

static enum kvr_status end(void *ctx, int chunk, int frame0, int n_frames, const float *x0)
{
    struct diary *d = ctx;

    ck_assert_int_eq(frame0, 2 * chunk);
    ck_assert_int_eq(n_frames, 2);
    snprintf(d->text + strlen(d->text), 8, "e%d ", chunk);
    ck_assert(memcmp(d->last, x0, (size_t)d->chunk * sizeof *x0) == 0);
    return KVR_OK;
}

START_TEST(hooks_come_in_order)
{
    struct rig r;
    struct diary d = { .stop_at = -1 };
    const struct kvr_sample_hooks hooks = {
        .ctx = &d, .chunk_begin = begin, .step = step, .chunk_end = end
    };
    uint64_t seed = 1;
    float latents[CHUNKS * 512];

    rig_open(&r, &flow_size);
    d.chunk = r.chunk;
    ck_assert_msg(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &hooks, latents) ==
                      KVR_OK,
                  "%s", kvr_error());
    ck_assert_str_eq(d.text, "b0 s0.0 s0.1 e0 b1 s1.0 s1.1 e1 b2 s2.0 s2.1 e2 ");
    ck_assert(memcmp(latents + 2 * r.chunk, d.last, (size_t)r.chunk * sizeof *latents) == 0);
    d = (struct diary){ .stop_at = 1, .chunk = r.chunk };
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &hooks, NULL),
                     KVR_EINTERRUPTED);
    ck_assert_str_eq(d.text, "b0 s0.0 s0.1 e0 b1 ");
    ck_assert_int_eq(kvr_sample(r.d, r.cache, 3, kvr_noise_philox, &seed, NULL, NULL), KVR_EINVAL);
    rig_close(&r);
}
END_TEST

/* A rollout does not depend on the rollouts before it. */
START_TEST(a_rollout_repeats)
{
    struct rig r;
    uint64_t seed = 1, other = 2;
    struct kvr_noise drawn = { .seed = 1 };
    float a[CHUNKS * 512], b[CHUNKS * 512], c[CHUNKS * 512];
    const size_t n = (size_t)CHUNKS;
    float kept;

    rig_open(&r, &flow_size);
    kept = r.P[0];
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, NULL, a), KVR_OK);
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &other, NULL, b), KVR_OK);
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, NULL, c), KVR_OK);
    ck_assert(memcmp(a, c, n * (size_t)r.chunk * sizeof *a) == 0);
    ck_assert(memcmp(a, b, n * (size_t)r.chunk * sizeof *a) != 0);
    /* another prompt gives another video, and the first prompt gives the first video again */
    r.P[0] += 1;
    ck_assert_int_eq(kvr_dit_set_prompt(r.d, r.P), KVR_OK);
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, NULL, b), KVR_OK);
    ck_assert(memcmp(a, b, n * (size_t)r.chunk * sizeof *a) != 0);
    r.P[0] = kept;
    ck_assert_int_eq(kvr_dit_set_prompt(r.d, r.P), KVR_OK);
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, NULL, b), KVR_OK);
    ck_assert(memcmp(a, b, n * (size_t)r.chunk * sizeof *a) == 0);
    /* the built-in noise gives the same video as the noise callback */
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, NULL, &drawn, NULL, b), KVR_OK);
    ck_assert(memcmp(a, b, n * (size_t)r.chunk * sizeof *a) == 0);
    rig_close(&r);
}
END_TEST

/* ---- given frames ---------------------------------------------------------------------- */

struct gift {
    struct diary diary;
    const float *from; /* [FRAMES, frame_elems] */
    int64_t frame;     /* values per frame */
};

static enum kvr_status give(void *ctx, int frame0, int n_frames, float *x0)
{
    struct gift *g = ctx;
    const size_t n = (size_t)(n_frames * g->frame) * sizeof *x0;

    memcpy(x0, g->from + frame0 * g->frame, n);
    memcpy(g->diary.last, x0, n);
    snprintf(g->diary.text + strlen(g->diary.text), 8, "g%d ", frame0);
    return KVR_OK;
}

/* If an earlier rollout's frames are given, the result must equal that rollout bit for bit. Noise
 * depends only on seed, chunk, step and frame, and clean passes over the same frames fill the cache
 * with the same bytes. */
START_TEST(given_chunks_are_committed_as_generated_ones)
{
    const int n_given = 2 * (_i + 1);
    struct gift g = { .diary = { .stop_at = -1 } };
    struct kvr_sample_hooks hooks = { .ctx = &g,
                                      .chunk_begin = begin,
                                      .step = step,
                                      .chunk_end = end,
                                      .n_given = n_given,
                                      .given = give };
    static const char *const order[] = { "b0 g0 e0 b1 s1.0 s1.1 e1 b2 s2.0 s2.1 e2 ",
                                         "b0 g0 e0 b1 g2 e1 b2 s2.0 s2.1 e2 ",
                                         "b0 g0 e0 b1 g2 e1 b2 g4 e2 " };
    uint64_t seed = 1;
    float a[CHUNKS * 512], b[CHUNKS * 512];
    struct kvr_cache_bytes bytes_a, bytes_b;
    struct rig r;

    rig_open(&r, &flow_size);
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, NULL, a), KVR_OK);
    kvr_cache_bytes(r.cache, &bytes_a);
    g.from = a;
    g.frame = r.chunk / 2;
    g.diary.chunk = r.chunk;
    ck_assert_msg(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &hooks, b) == KVR_OK,
                  "%s", kvr_error());
    kvr_cache_bytes(r.cache, &bytes_b);
    ck_assert_str_eq(g.diary.text, order[_i]);
    ck_assert(memcmp(a, b, (size_t)(CHUNKS * r.chunk) * sizeof *a) == 0);
    ck_assert_int_eq(bytes_a.tokens, bytes_b.tokens);
    rig_close(&r);
}
END_TEST

static enum kvr_status teach(void *ctx, int chunk, int index, int n_frames, float *x0)
{
    const struct gift *g = ctx;

    ck_assert_int_eq(index, 1); /* the teacher gives x0 of the last step only */
    memcpy(x0, g->from + 2 * chunk * g->frame, (size_t)(n_frames * g->frame) * sizeof *x0);
    return KVR_OK;
}

/* In a forced rollout, each chunk attends to the teacher's earlier chunks. It must equal, bit for
 * bit, the chunk of a rollout with these earlier chunks as given frames. The hooks see the forced
 * rollout's chunk, not the teacher's. */
START_TEST(a_forced_chunk_goes_on_from_the_teacher)
{
    struct gift g = { .diary = { .stop_at = -1 } };
    struct kvr_sample_hooks forced = {
        .ctx = &g, .chunk_begin = begin, .step = step, .chunk_end = end, .forced = teach
    };
    struct kvr_sample_hooks given = { .ctx = &g, .given = give };
    uint64_t seed = 1, other = 2;
    float teacher[CHUNKS * 512], a[CHUNKS * 512], b[CHUNKS * 512];
    struct rig r;

    rig_open(&r, &flow_size);
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &other, NULL, teacher),
                     KVR_OK);
    g.from = teacher;
    g.frame = r.chunk / 2;
    g.diary.chunk = r.chunk;
    ck_assert_msg(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &forced, a) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_str_eq(g.diary.text, "b0 s0.0 s0.1 e0 b1 s1.0 s1.1 e1 b2 s2.0 s2.1 e2 ");
    for (int c = 0; c < CHUNKS; c++) {
        g.diary.text[0] = 0;
        given.n_given = 2 * c;
        ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &given, b),
                         KVR_OK);
        ck_assert(memcmp(a + c * r.chunk, b + c * r.chunk, (size_t)r.chunk * sizeof *a) == 0);
    }
    rig_close(&r);
}
END_TEST

/* Records the x0 of every chunk and step of a rollout, which then is another rollout's teacher. */
struct trajectory {
    float x0[CHUNKS][2][512];
    int64_t chunk; /* values per chunk */
    int asked;
};

static enum kvr_status keep_step(void *ctx, int chunk, int index, const float *x0, int n_frames)
{
    struct trajectory *t = ctx;

    (void)n_frames;
    memcpy(t->x0[chunk][index], x0, (size_t)t->chunk * sizeof *x0);
    return KVR_OK;
}

static enum kvr_status give_step(void *ctx, int chunk, int index, int n_frames, float *x0)
{
    struct trajectory *t = ctx;

    ck_assert_int_eq(n_frames, 2);
    t->asked++;
    memcpy(x0, t->x0[chunk][index], (size_t)t->chunk * sizeof *x0);
    return KVR_OK;
}

/* A rollout that is forced at every step to its own x0 does not change. Forcing another x0 at the
 * first step of chunk 0 changes only chunk 0, because later chunks attend to the teacher's
 * last-step x0 of chunk 0. */
START_TEST(forced_steps_are_what_comes_next)
{
    struct trajectory t = { .asked = 0 };
    const struct kvr_sample_hooks keep = { .ctx = &t, .step = keep_step };
    const struct kvr_sample_hooks forced = { .ctx = &t, .forced = give_step, .every_step = true };
    uint64_t seed = 1;
    float a[CHUNKS * 512], b[CHUNKS * 512];
    struct rig r;

    rig_open(&r, &flow_size);
    t.chunk = r.chunk;
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &keep, a), KVR_OK);
    ck_assert_msg(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &forced, b) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(t.asked, 2 * CHUNKS);
    ck_assert(memcmp(a, b, (size_t)(CHUNKS * r.chunk) * sizeof *a) == 0);
    t.x0[0][0][0] += 1;
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &forced, b), KVR_OK);
    ck_assert(memcmp(a, b, (size_t)r.chunk * sizeof *a) != 0);
    ck_assert(memcmp(a + r.chunk, b + r.chunk, (size_t)(2 * r.chunk) * sizeof *a) == 0);
    rig_close(&r);
}
END_TEST

/* The input of each chunk's last step, computed as the sampler does. */
struct last_inputs {
    float x[CHUNKS][512];
    uint64_t seed;
    int64_t chunk;
    float renoise;
};

static enum kvr_status note_input(void *ctx, int chunk, int index, const float *x0, int n_frames)
{
    struct last_inputs *in = ctx;
    float eps[512];

    if (index > 0)
        return KVR_OK;
    kvr_noise_philox(&in->seed, chunk, index, 2 * chunk, n_frames, in->chunk / n_frames, eps);
    kvr_renoise((size_t)in->chunk, x0, eps, in->renoise, in->x[chunk]);
    return KVR_OK;
}

static enum kvr_status give_input(void *ctx, int chunk, int index, int n_frames, float *x0)
{
    const struct last_inputs *in = ctx;

    ck_assert_int_eq(index, 1);
    ck_assert_int_eq(n_frames, 2);
    memcpy(x0, in->x[chunk], (size_t)in->chunk * sizeof *x0);
    return KVR_OK;
}

static enum kvr_status count_pass(void *ctx, const struct kvr_cache_view *view)
{
    int *n = ctx;

    if (view->layer == 0) {
        n[0]++;
        n[1] += view->pass->clean;
    }
    return KVR_OK;
}

/* With `last_step`, the last denoising step also commits the chunk, so a chunk has only as many
 * passes as steps. The result must equal, bit for bit, a rollout whose clean passes take the last
 * steps' inputs at the last step's timestep (context_timestep). */
START_TEST(the_last_step_stays)
{
    struct tiny_size size = flow_size;
    struct last_inputs in = { .seed = 1 };
    const struct kvr_sample_hooks alone = { .ctx = &in, .step = note_input, .last_step = true };
    const struct kvr_sample_hooks forced = { .ctx = &in, .forced = give_input };
    float a[CHUNKS * 512], b[CHUNKS * 512], usual[CHUNKS * 512];
    struct kvr_schedule s;
    int passes[2] = { 0 };
    uint64_t seed = 1;
    struct rig r;

    size.keys = ", \"context_timestep\": 833.3333129882812";
    rig_open(&r, &size);
    kvr_schedule_make(&s, kvr_model_config(r.m));
    ck_assert(s.timestep[1] == (float)kvr_model_config(r.m)->context_timestep);
    in.renoise = s.renoise[1];
    in.chunk = r.chunk;
    kvr_cache_observe(r.cache, count_pass, passes);
    ck_assert_msg(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &alone, a) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(passes[0], 2 * CHUNKS);
    ck_assert_int_eq(passes[1], CHUNKS);
    kvr_cache_observe(r.cache, NULL, NULL);
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, NULL, usual),
                     KVR_OK);
    ck_assert(memcmp(a, usual, (size_t)r.chunk * sizeof *a) == 0); /* chunk 0 reads no cached chunk,
                                                                    * so both ways to commit give
                                                                    * the same chunk */
    ck_assert(memcmp(a + r.chunk, usual + r.chunk, (size_t)r.chunk * sizeof *a) != 0);
    if (backend == KVR_CPU) {
        ck_assert_msg(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &forced, b) ==
                          KVR_OK,
                      "%s", kvr_error());
        ck_assert(memcmp(a, b, (size_t)(CHUNKS * r.chunk) * sizeof *a) == 0);
    }
    rig_close(&r);
}
END_TEST

/* The generated frames depend on the given frames. */
START_TEST(other_given_frames_are_another_video)
{
    struct gift g = { .diary = { .stop_at = -1 } };
    struct kvr_sample_hooks hooks = { .ctx = &g, .n_given = 2, .given = give };
    uint64_t seed = 1;
    float a[CHUNKS * 512], b[CHUNKS * 512], given[512];
    struct rig r;

    rig_open(&r, &flow_size);
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, NULL, a), KVR_OK);
    memcpy(given, a, sizeof given);
    given[0] += 1;
    g.from = given;
    g.frame = r.chunk / 2;
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &hooks, b), KVR_OK);
    ck_assert(memcmp(b, given, (size_t)r.chunk * sizeof *b) == 0);
    ck_assert(memcmp(a + r.chunk, b + r.chunk, (size_t)r.chunk * sizeof *a) != 0);
    rig_close(&r);
}
END_TEST

START_TEST(given_frames_are_whole_chunks)
{
    struct kvr_sample_hooks hooks = { .n_given = 1, .given = give };
    static const int bad[] = { 1, -2, FRAMES + 2 };
    uint64_t seed = 1;
    struct rig r;

    rig_open(&r, &flow_size);
    for (int i = 0; i < 3; i++) {
        hooks.n_given = bad[i];
        ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &hooks, NULL),
                         KVR_EINVAL);
        ck_assert_ptr_nonnull(
            strstr(kvr_error(),
                   "of 6 frames are given; the number of given frames must be a multiple of 2"));
    }
    rig_close(&r);
}
END_TEST

/* The x0 of an RGB model is clamped to its range at the end of a chunk, not at earlier steps. */
struct extremes {
    float lo[2], hi[2]; /* smallest and largest value of x0 at step 0 and at step 1 */
    int64_t chunk;
};

static enum kvr_status note_extremes(void *ctx, int chunk, int index, const float *x0, int n_frames)
{
    struct extremes *e = ctx;

    (void)chunk;
    (void)n_frames;
    for (int64_t i = 0; i < e->chunk; i++) {
        e->lo[index] = fminf(e->lo[index], x0[i]);
        e->hi[index] = fmaxf(e->hi[index], x0[i]);
    }
    return KVR_OK;
}

START_TEST(rgb_is_clamped_once)
{
    struct rig r;
    struct extremes e = { 0 };
    const struct kvr_sample_hooks hooks = { .ctx = &e, .step = note_extremes };
    uint64_t seed = 1;

    rig_open(&r, &rgb_size);
    e.chunk = r.chunk;
    ck_assert_msg(kvr_sample(r.d, r.cache, FRAMES, kvr_noise_philox, &seed, &hooks, NULL) == KVR_OK,
                  "%s", kvr_error());
    ck_assert(e.lo[0] < -0.25f && e.hi[0] > 0.5f);
    ck_assert(e.lo[1] == -0.25f && e.hi[1] == 0.5f);
    rig_close(&r);
}
END_TEST

static enum kvr_status nan_noise(void *ctx, int chunk, int index, int frame0, int n_frames,
                                 int64_t frame_elems, float *dst)
{
    (void)ctx;
    (void)frame0;
    for (int64_t i = 0; i < n_frames * frame_elems; i++)
        dst[i] = chunk == 1 && index < 0 ? NAN : 0.5f;
    return KVR_OK;
}

START_TEST(not_a_number_ends_the_run)
{
    struct rig r;

    rig_open(&r, &rgb_size);
    ck_assert_int_eq(kvr_sample(r.d, r.cache, FRAMES, nan_noise, NULL, NULL, NULL), KVR_ENAN);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "chunk 1 step 0: frame 2:"));
    rig_close(&r);
}
END_TEST

/* A noisy pass of a shape that has been run before allocates nothing. */
START_TEST(forward_allocates_nothing)
{
    const struct kvr_pass pass = { .n_frames = 2 };
    const float t[2] = { 500, 500 };
    struct kvr_mem_stats before, after;
    struct kvr_buf b = { 0 };
    float x[512] = { 0 }, *on_device;
    struct rig r;

    rig_open(&r, &flow_size);
    kvr_normal(x, (size_t)r.chunk, 1, KVR_RNG_TEST, 0, 0, 0);
    ck_assert_int_eq(kvr_buf_alloc(&b, r.dev, KVR_MEM_IO, 2 * sizeof x), KVR_OK);
    on_device = b.p;
    ck_assert_int_eq(kvr_dev_put(r.dev, on_device, x, sizeof x), KVR_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(kvr_cache_begin_pass(r.cache, &pass), KVR_OK);
        kvr_mem_stats(r.dev, &before);
        ck_assert_msg(kvr_dit_forward(r.d, r.cache, on_device, t, &pass, on_device + 512) == KVR_OK,
                      "%s", kvr_error());
        kvr_mem_stats(r.dev, &after);
        ck_assert_int_eq(kvr_cache_end_pass(r.cache), KVR_OK);
    }
    ck_assert_msg(kvr_dev_sync(r.dev) == KVR_OK, "%s", kvr_error());
    ck_assert_uint_eq(before.n_allocs, after.n_allocs);
    kvr_buf_free(&b);
    rig_close(&r);
}
END_TEST

START_TEST(forward_refuses)
{
    const float t[2] = { 500, 500 };
    struct kvr_pass pass = { .n_frames = 1 };
    float x[512] = { 0 }, out[512];
    struct kvr_dit *bare;
    struct rig r;

    rig_open(&r, &flow_size);
    ck_assert_int_eq(kvr_dit_forward(r.d, r.cache, x, t, &pass, out), KVR_EINVAL);
    pass.n_frames = 2;
    pass.frame0 = 1023; /* frames 1023 and 1024, but positions end at 1023 */
    ck_assert_int_eq(kvr_dit_forward(r.d, r.cache, x, t, &pass, out), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "1023"));
    pass.frame0 = 0;
    ck_assert_int_eq(kvr_dit_open(&bare, r.dev, r.m), KVR_OK);
    ck_assert_int_eq(kvr_dit_forward(bare, r.cache, x, t, &pass, out), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "prompt"));
    kvr_dit_close(&bare);
    rig_close(&r);
}
END_TEST

static TCase *rollouts(const char *name, void (*where)(void))
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 0);
    tcase_add_checked_fixture(tc, where, NULL);
    tcase_add_test(tc, hooks_come_in_order);
    tcase_add_test(tc, a_rollout_repeats);
    tcase_add_loop_test(tc, given_chunks_are_committed_as_generated_ones, 0, CHUNKS);
    tcase_add_test(tc, a_forced_chunk_goes_on_from_the_teacher);
    tcase_add_test(tc, forced_steps_are_what_comes_next);
    tcase_add_test(tc, the_last_step_stays);
    tcase_add_test(tc, other_given_frames_are_another_video);
    tcase_add_test(tc, given_frames_are_whole_chunks);
    tcase_add_test(tc, rgb_is_clamped_once);
    tcase_add_test(tc, not_a_number_ends_the_run);
    tcase_add_test(tc, forward_allocates_nothing);
    tcase_add_test(tc, forward_refuses);
    return tc;
}

int main(void)
{
    Suite *s = suite_create("sampler");
    TCase *tc = tcase_create("sampler");

    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, tables_are_the_recorded_ones);
    tcase_add_test(tc, table_follows_its_formula);
    tcase_add_test(tc, steps_are_warped);
    tcase_add_test(tc, first_of_two_equally_near);
    tcase_add_test(tc, conversions);
    tcase_add_test(tc, noise_is_a_function_of_its_place);
    tcase_add_test(tc, moved_noise_is_a_function_of_its_place_and_draw);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, rollouts("CPU", on_the_cpu));
    suite_add_tcase(s, rollouts("CUDA", on_cuda));
    return run_suite(s);
}
