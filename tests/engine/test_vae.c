/* test_vae.c - compares the decoder with a run of the original code in double precision, on the CPU
 * and on the emulated device. */
#include "harness/engine/vae/vae.h"

#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/safetensors.h"
#include "tests/engine/film.h"
#include "tests/suite.h"
#include "tests/threads.h"

#define FOLDER "tests/fixtures/wan_real/"

enum { BASE = 4, MOST = 25 * 3 * 40 * 24 };

static struct kvr_st *golden;

static void open_all(void)
{
    ck_assert_msg(kvr_st_open(&golden, FOLDER "vae_golden.safetensors") == KVR_OK, "%s",
                  kvr_error());
}

static void close_all(void)
{
    kvr_st_close(&golden);
}

static void get(const char *name, struct kvr_tensor *t)
{
    ck_assert_msg(kvr_st_get(golden, name, t) == KVR_OK, "%s", kvr_error());
}

struct rig {
    struct kvr_dev *dev;
    struct kvr_vae *v;
};

static void rig_open_as(struct rig *r, int backend, enum kvr_dtype type, int h, int w)
{
    ck_assert_int_eq(kvr_dev_open(&r->dev, (enum kvr_backend)backend), KVR_OK);
    ck_assert_msg(kvr_vae_open(&r->v, r->dev, type, FOLDER "Wan2.1_VAE_tiny.pth", h, w) == KVR_OK,
                  "%s", kvr_error());
}

static void rig_open(struct rig *r, int backend, int h, int w)
{
    rig_open_as(r, backend, KVR_F32, h, w);
}

static void rig_close(struct rig *r)
{
    struct kvr_mem_stats mem, host;

    kvr_vae_close(&r->v);
    kvr_mem_stats(r->dev, &mem);
    kvr_mem_stats(kvr_dev_host(r->dev), &host);
    ck_assert_uint_eq(mem.live_total + host.live_total, 0);
    kvr_dev_close(&r->dev);
}

static double square(double x)
{
    return x * x;
}

static struct film decode(struct rig *r, const struct kvr_tensor *z, int n)
{
    struct film f = film_of(z, n);

    for (int i = 0; i < n; i++)
        ck_assert_msg(kvr_vae_decode(r->v, film_latent(z, i), film_take, &f) == KVR_OK, "%s",
                      kvr_error());
    ck_assert_int_eq(f.n, kvr_vae_frames(n));
    return f;
}

static const char *const clips[] = { "a", "b", "c", "d" };

/* Float32 rounding causes a relative error of about 1e-6. The tolerance of 1e-5 is far below the
 * effect of any mistake. */
START_TEST(as_recorded)
{
    struct kvr_tensor z, raw;
    char name[16];
    struct film f;
    struct rig r;

    snprintf(name, sizeof name, "%s.z", clips[_i]);
    get(name, &z);
    snprintf(name, sizeof name, "%s.raw", clips[_i]);
    get(name, &raw);
    rig_open(&r, KVR_CPU, (int)z.shape[2], (int)z.shape[3]);
    f = decode(&r, &z, (int)z.shape[0]);
    ck_assert_int_eq(f.n, raw.shape[0]);
    ck_assert_msg(film_apart(&f, &raw, 1, 0) <= 1e-5, "%s: %g", clips[_i],
                  film_apart(&f, &raw, 1, 0));
    free(f.y);
    rig_close(&r);
}
END_TEST

START_TEST(bytes_as_recorded)
{
    struct kvr_tensor z, u8;
    int64_t apart = 0, area;
    uint8_t *bytes;
    struct film f;
    struct rig r;
    bool finite;

    get("a.z", &z);
    get("a.video_u8", &u8);
    rig_open(&r, KVR_CPU, 3, 2);
    f = decode(&r, &z, 7);
    bytes = malloc((size_t)(f.n * f.n_frame));
    kvr_vae_bytes_of(f.y, f.n * f.n_frame, bytes, &finite);
    ck_assert(finite);
    area = f.n_frame / 3;
    for (int64_t i = 0; i < f.n; i++)
        for (int64_t c = 0; c < 3; c++)
            for (int64_t p = 0; p < area; p++)
                apart += bytes[i * f.n_frame + p * 3 + c] !=
                         ((const uint8_t *)u8.data)[(i * 3 + c) * area + p];
    /* A value within 1e-6 of the boundary between two byte values may give either byte. */
    ck_assert_msg(apart <= f.n * f.n_frame / 1000, "%lld bytes differ", (long long)apart);
    f.y[5] = NAN;
    kvr_vae_bytes_of(f.y, f.n_frame, bytes, &finite);
    ck_assert(!finite && bytes[5] == 0);
    free(bytes);
    free(f.y);
    rig_close(&r);
}
END_TEST

/* Compares every layer's result for the first two latent frames. A layer that doubles frames
 * reports its second frame after all later layers have processed the first. */
struct taps {
    int latent, seen, n_names;
    struct {
        char name[16];
        int came;
    } name[32];
    double worst;
};

/* Number of earlier results of this layer for the current latent frame. */
static int64_t turn(struct taps *t, const char *name)
{
    int i = 0;

    while (i < t->n_names && strcmp(t->name[i].name, name) != 0)
        i++;
    if (i == t->n_names) {
        ck_assert_int_lt(i, 32);
        snprintf(t->name[i].name, sizeof t->name[i].name, "%s", name);
        t->name[i].came = 0;
        t->n_names++;
    }
    return t->name[i].came++;
}

static void compare_tap(void *ctx, const char *name, const float *x, int64_t n)
{
    struct taps *t = ctx;
    const int64_t k = turn(t, name);
    double off = 0, all = 0;
    struct kvr_tensor want;
    int64_t channels, frames, area;
    char full[40];

    snprintf(full, sizeof full, "a.f%d.%s", t->latent, name);
    if (kvr_st_get(golden, full, &want) != KVR_OK)
        return;
    channels = want.shape[0];
    frames = want.shape[1];
    area = want.shape[2] * want.shape[3];
    ck_assert_int_eq(n, channels * area);
    ck_assert_int_lt(k, frames);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t p = 0; p < area; p++) {
            const double v = ((const float *)want.data)[(c * frames + k) * area + p];

            off += square(x[p * channels + c] - v);
            all += v * v;
        }
    t->worst = fmax(t->worst, sqrt(off / all));
    t->seen++;
}

START_TEST(layers_and_states)
{
    static const int recorded[] = { 0, 1, 11, 12, 18, 31 };
    struct taps taps = { 0 };
    struct kvr_tensor z;
    struct rig r;

    get("a.z", &z);
    rig_open(&r, _i, 3, 2);
    kvr_vae_tap(r.v, compare_tap, &taps);
    for (taps.latent = 0; taps.latent < 2; taps.latent++) {
        const float *frame[2];
        int64_t n;
        int seen;

        taps.n_names = 0;
        ck_assert_int_eq(kvr_vae_decode(r.v, (const float *)z.data + taps.latent * 96, NULL, NULL),
                         KVR_OK);
        ck_assert_int_eq(kvr_vae_state(r.v, 0, frame, &seen, &n), KVR_OK);
        ck_assert_int_eq(seen, taps.latent + 1);
        /* Layer 11 doubles frames. It does not process the first latent frame, so it has seen one
         * fewer. */
        ck_assert_int_eq(kvr_vae_state(r.v, 11, frame, &seen, &n), KVR_OK);
        ck_assert_int_eq(seen, taps.latent);
    }
    ck_assert_msg(taps.worst <= 1e-5, "a layer is off by %g", taps.worst);
    /* For the first latent frame, each of 20 layers gives one result. For the second, 7 layers give
     * one result each, 4 layers give two and 9 layers give four. */
    ck_assert_int_eq(taps.seen, 20 + 7 + 2 * 4 + 4 * 9);
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        struct kvr_tensor want;
        const float *frame[2];
        double worst = 0;
        char name[32];
        int64_t n, area;
        int n_frames;

        snprintf(name, sizeof name, "a.state_after2.%d", recorded[i]);
        get(name, &want);
        area = want.shape[2] * want.shape[3];
        ck_assert_int_eq(kvr_vae_state(r.v, recorded[i], frame, &n_frames, &n), KVR_OK);
        ck_assert_int_eq(n, want.shape[0] * area);
        for (int f = 0; f < 2; f++)
            for (int64_t e = 0; e < n; e++) {
                const int64_t c = e % want.shape[0], p = e / want.shape[0];
                const double v = ((const float *)want.data)[(c * 2 + f) * area + p];
                const int mine = f - (2 - n_frames); /* a frame that was never pushed is zeros */

                worst = fmax(worst, fabs((mine >= 0 ? (double)frame[mine][e] : 0) - v));
            }
        /* States have values of a few units, computed in float32 by up to 30 layers. */
        ck_assert_msg(worst <= 2e-5, "state %d: %g", recorded[i], worst);
    }
    rig_close(&r);
}
END_TEST

/* Decodes two latent frames on a device. After a reset, the first must decode to the same bytes. */
START_TEST(on_a_device)
{
    struct kvr_tensor z, raw;
    struct film f, again;
    struct rig r;

    get("a.z", &z);
    get("a.raw", &raw);
    rig_open(&r, KVR_CUDA, (int)z.shape[2], (int)z.shape[3]);
    f = decode(&r, &z, 2);
    ck_assert_msg(film_apart(&f, &raw, 1, 0) <= 1e-5, "%g", film_apart(&f, &raw, 1, 0));
    kvr_vae_reset(r.v);
    again = decode(&r, &z, 1);
    ck_assert(memcmp(f.y, again.y, (size_t)f.n_frame * sizeof(float)) == 0);
    free(f.y);
    free(again.y);
    rig_close(&r);
}
END_TEST

/* In BF16 about 30 layers round frames and weights four times each, with an RMS relative error of
 * 1.7e-3. Independent errors add up to sqrt(120) 1.7e-3 = 1.9e-2. The error of this test's decoder,
 * with only 4 base channels, is larger: it grows from 3.5e-3 in the first layer to 2.5e-2 in the
 * last. */
START_TEST(in_bf16)
{
    struct kvr_tensor z, raw;
    struct kvr_mem_stats mem;
    struct kvr_vae_cost cost;
    struct film f, again;
    struct rig r;
    double off;

    get("a.z", &z);
    get("a.raw", &raw);
    rig_open_as(&r, _i, KVR_BF16, 3, 2);
    f = decode(&r, &z, 2);
    off = film_apart(&f, &raw, 1, 0);
    ck_assert_msg(off <= 3.5e-2 && off >= 1e-3, "%g", off);
    for (int64_t i = 0; i < f.n * f.n_frame; i++)
        ck_assert(kvr_bf16_to_f32(kvr_f32_to_bf16(f.y[i])) == f.y[i]);
    kvr_mem_stats(r.dev, &mem);
    ck_assert(kvr_vae_cost(16, BASE, 3, 2, KVR_BF16, &cost));
    ck_assert_uint_eq(mem.live[KVR_MEM_ACT], cost.states + cost.frames);
    kvr_vae_reset(r.v);
    again = decode(&r, &z, 1);
    ck_assert(memcmp(f.y, again.y, (size_t)f.n_frame * sizeof(float)) == 0);
    free(f.y);
    free(again.y);
    rig_close(&r);
}
END_TEST

/* A clip decodes to the same bytes again after a reset, and with 1 or 3 threads. */
START_TEST(the_same_bytes)
{
    struct kvr_tensor z;
    struct film f[3];
    struct rig r;

    get("c.z", &z);
    set_threads(3);
    rig_open(&r, KVR_CPU, 5, 3);
    f[0] = decode(&r, &z, 2);
    kvr_vae_reset(r.v);
    f[1] = decode(&r, &z, 2);
    rig_close(&r);
    omp_set_num_threads(1);
    rig_open(&r, KVR_CPU, 5, 3);
    f[2] = decode(&r, &z, 2);
    rig_close(&r);
    for (int i = 1; i < 3; i++)
        ck_assert(memcmp(f[0].y, f[i].y, (size_t)(f[0].n * f[0].n_frame) * sizeof(float)) == 0);
    for (int i = 0; i < 3; i++)
        free(f[i].y);
}
END_TEST

/* The computed memory equals the allocator's, apart from scratch strips and padded weights.
 * Decoding more latent frames needs no more memory. */
START_TEST(memory)
{
    struct kvr_vae_cost cost;
    struct kvr_mem_stats one, seven;
    struct kvr_tensor z;
    struct film f;
    struct rig r;

    omp_set_num_threads(1);
    get("a.z", &z);
    rig_open(&r, _i, 3, 2);
    f = decode(&r, &z, 1);
    free(f.y);
    kvr_mem_stats(r.dev, &one);
    kvr_vae_reset(r.v);
    f = decode(&r, &z, _i ? 1 : 7); /* frames take long on the emulated device */
    free(f.y);
    kvr_mem_stats(r.dev, &seven);
    kvr_vae_cost(16, BASE, 3, 2, KVR_F32, &cost);
    ck_assert_uint_eq(one.live_total, seven.live_total);
    ck_assert_uint_eq(one.peak_total, seven.peak_total);
    ck_assert_uint_eq(seven.live[KVR_MEM_ACT], cost.states + cost.frames);
    ck_assert_uint_ge(seven.live[KVR_MEM_WEIGHTS], cost.weights);
    ck_assert_uint_eq(seven.live[KVR_MEM_ACT] + seven.live[KVR_MEM_WEIGHTS] +
                          seven.live[KVR_MEM_SCRATCH],
                      seven.live_total);
    rig_close(&r);
}
END_TEST

/* Sizes of Wan 2.1's decoder at 480x832, compared with a separate count layer by layer. It has
 * states of 944,286,720 elements and 73.3 M parameters. It needs 4.35 TFLOP for the first latent
 * frame and 13.55 for each later one. */
enum { REAL_VECTORS = 96 * (127 + 85) + 16 + 3 }; /* number of biases and norm factors */

START_TEST(real_sizes)
{
    struct kvr_vae_cost c, half;

    kvr_vae_cost(16, 96, 60, 104, KVR_F32, &c);
    ck_assert_uint_eq(c.states, (size_t)944286720 * sizeof(float));
    ck_assert_uint_eq(c.weights, (size_t)(73295331 + 272) * sizeof(float));
    ck_assert_msg(fabs(c.flop_first / 4.35e12 - 1) <= 0.005, "%g", c.flop_first);
    ck_assert_msg(fabs(c.flop_next / 13.55e12 - 1) <= 0.005, "%g", c.flop_next);
    ck_assert_uint_le(c.states + c.weights + c.frames, (size_t)11 << 29); /* 5.5 GiB in F32 */
    kvr_vae_cost(16, 96, 60, 104, KVR_BF16, &half);
    ck_assert_uint_eq(2 * half.states, c.states);
    ck_assert_uint_eq(2 * half.frames, c.frames);
    /* norm factors and biases stay F32, 2 bytes more than in BF16 */
    ck_assert_uint_eq(2 * half.weights - c.weights, (size_t)REAL_VECTORS * sizeof(float));
    ck_assert(half.flop_first == c.flop_first && half.flop_next == c.flop_next);
}
END_TEST

START_TEST(refused)
{
    struct kvr_dev *dev;
    struct kvr_vae *v;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_vae_open(&v, dev, KVR_F32, FOLDER "umt5.safetensors", 3, 2), KVR_EFORMAT);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "decoder.head.2.weight"));
    ck_assert_int_eq(kvr_vae_open(&v, dev, KVR_F32, FOLDER "none.pth", 3, 2), KVR_ENOTFOUND);
    ck_assert_int_eq(kvr_vae_open(&v, dev, KVR_F32, FOLDER "Wan2.1_VAE_tiny.pth", 0, 2),
                     KVR_EINVAL);
    ck_assert_ptr_null(v);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vae");
    TCase *tc = tcase_create("vae");

    tcase_set_timeout(tc, 0);
    tcase_add_unchecked_fixture(tc, open_all, close_all);
    tcase_add_loop_test(tc, as_recorded, 0, sizeof clips / sizeof *clips);
    tcase_add_test(tc, bytes_as_recorded);
    tcase_add_loop_test(tc, layers_and_states, 0, KVR_N_BACKENDS);
    tcase_add_test(tc, on_a_device);
    tcase_add_loop_test(tc, in_bf16, 0, KVR_N_BACKENDS);
    tcase_add_test(tc, the_same_bytes);
    tcase_add_loop_test(tc, memory, 0, KVR_N_BACKENDS);
    tcase_add_test(tc, real_sizes);
    tcase_add_test(tc, refused);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
