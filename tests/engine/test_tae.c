/* test_tae.c - the tiny decoder, frame by frame, compared with whole clips decoded in double
 * precision (tools/fixtures/make-taehv-fixture.py), on the CPU and on the emulated device. */
#include "harness/engine/vae/tae.h"

#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/safetensors.h"
#include "harness/engine/vae/decoder.h"
#include "harness/files/weights/kind.h"
#include "tests/built.h"
#include "tests/engine/film.h"
#include "tests/suite.h"
#include "tests/threads.h"

#define FOLDER "tests/fixtures/wan_real/"

/* channels per level of the fixture's decoder */
static const int widths[KVR_TAE_LEVELS] = { 12, 8, 6, 4 };
static struct kvr_st *golden;

static void open_all(void)
{
    ck_assert_msg(kvr_st_open(&golden, FOLDER "taehv_golden.safetensors") == KVR_OK, "%s",
                  kvr_error());
}

static void close_all(void)
{
    kvr_st_close(&golden);
}

struct rig {
    struct kvr_dev *dev;
    struct kvr_tae *t;
    struct kvr_tensor z, rgb;
};

static void rig_open(struct rig *r, enum kvr_backend backend, const char *clip)
{
    char name[16];

    snprintf(name, sizeof name, "%s.z", clip);
    ck_assert_int_eq(kvr_st_get(golden, name, &r->z), KVR_OK);
    snprintf(name, sizeof name, "%s.rgb", clip);
    ck_assert_int_eq(kvr_st_get(golden, name, &r->rgb), KVR_OK);
    ck_assert_int_eq(kvr_dev_open(&r->dev, backend), KVR_OK);
    ck_assert_msg(kvr_tae_open(&r->t, r->dev, FOLDER "taew2_1_tiny.pth", (int)r->z.shape[2],
                               (int)r->z.shape[3]) == KVR_OK,
                  "%s", kvr_error());
}

static void rig_close(struct rig *r)
{
    struct kvr_mem_stats mem, host;

    kvr_tae_close(&r->t);
    kvr_mem_stats(r->dev, &mem);
    kvr_mem_stats(kvr_dev_host(r->dev), &host);
    ck_assert_uint_eq(mem.live_total + host.live_total, 0);
    kvr_dev_close(&r->dev);
}

static struct film decode(struct rig *r, int n)
{
    struct film f = film_of(&r->z, n);

    for (int i = 0; i < n; i++)
        ck_assert_msg(kvr_tae_decode(r->t, film_latent(&r->z, i), film_take, &f) == KVR_OK, "%s",
                      kvr_error());
    ck_assert_int_eq(f.n, kvr_vae_frames(n));
    return f;
}

/* The recorded pixels are in 0..1, the decoded pixels in -1..1. */
static double apart(const struct film *f, const struct kvr_tensor *want)
{
    return film_apart(f, want, 2, -1);
}

static const char *const clips[] = { "a", "b" };

/* Float32 rounding causes a relative error of about 1e-6. The tolerance of 1e-5 is far below the
 * effect of any mistake. A second run after a reset must give the same bytes. */
START_TEST(as_recorded)
{
    struct film f, again;
    struct rig r;

    rig_open(&r, KVR_CPU, clips[_i]);
    f = decode(&r, (int)r.z.shape[0]);
    ck_assert_int_eq(f.n, r.rgb.shape[0]);
    ck_assert_msg(apart(&f, &r.rgb) <= 1e-5, "%s: %g", clips[_i], apart(&f, &r.rgb));
    kvr_tae_reset(r.t);
    again = decode(&r, (int)r.z.shape[0]);
    ck_assert(memcmp(f.y, again.y, (size_t)(f.n * f.n_frame) * sizeof(float)) == 0);
    free(f.y);
    free(again.y);
    rig_close(&r);
}
END_TEST

/* Computes with kvreel's own kernels, and with the stand-in for cuDNN. */
START_TEST(on_a_device)
{
    struct film f;
    struct rig r;
    char path[4096];

    if (_i)
        setenv("KVREEL_CUDNN", built_file("tests/plugins/fake_cudnn_conv.so", path, sizeof path),
               1);
    rig_open(&r, KVR_CUDA, "a");
    if (_i)
        ck_assert_str_eq(kvr_tae_library(r.t), "cuDNN 9.10");
    else
        ck_assert_ptr_nonnull(strstr(kvr_tae_library(r.t), "kvreel ("));
    f = decode(&r, 2);
    ck_assert_msg(apart(&f, &r.rgb) <= 1e-5, "%g", apart(&f, &r.rgb));
    free(f.y);
    rig_close(&r);
    unsetenv("KVREEL_CUDNN");
}
END_TEST

START_TEST(the_same_bytes)
{
    struct film f[2];
    struct rig r;

    for (int i = 0; i < 2; i++) {
        set_threads(i ? 3 : 1);
        rig_open(&r, KVR_CPU, "a");
        f[i] = decode(&r, 3);
        rig_close(&r);
    }
    ck_assert(memcmp(f[0].y, f[1].y, (size_t)(f[0].n * f[0].n_frame) * sizeof(float)) == 0);
    free(f[0].y);
    free(f[1].y);
}
END_TEST

/* The computed memory equals what the allocator counts, and decoding more frames needs no more
 * memory. */
START_TEST(memory)
{
    struct kvr_mem_stats one, more;
    struct kvr_vae_cost cost;
    struct film f;
    struct rig r;

    omp_set_num_threads(1);
    rig_open(&r, KVR_CPU, "a");
    f = decode(&r, 1);
    free(f.y);
    kvr_mem_stats(r.dev, &one);
    kvr_tae_reset(r.t);
    f = decode(&r, 4);
    free(f.y);
    kvr_mem_stats(r.dev, &more);
    kvr_tae_cost(widths, 3, 2, &cost);
    ck_assert_uint_eq(one.live_total, more.live_total);
    ck_assert_uint_eq(one.peak_total, more.peak_total);
    ck_assert_uint_eq(more.live[KVR_MEM_ACT], cost.states + cost.frames);
    ck_assert_uint_ge(more.live[KVR_MEM_WEIGHTS], cost.weights);
    rig_close(&r);
}
END_TEST

/* Sizes of taew2_1 at 480x832 (latent frames of h = 60, w = 104), computed from the table of its
 * layers. It has 9,844,611 parameters; layers without biases get biases of zero. Its states have 3
 * x (256 h w + 128 x 4 h w + 64 x 16 h w) elements. A latent frame takes 527 GFLOP. */
START_TEST(real_sizes)
{
    struct kvr_vae_cost c;

    kvr_decoder_cost(KVR_DECODER_TAEHV, 16, 60, 104, KVR_F32, &c);
    ck_assert_uint_eq(c.weights, (size_t)(9844611 + 640 + 256) * sizeof(float));
    ck_assert_uint_eq(c.states, (size_t)33546240 * sizeof(float));
    ck_assert_msg(fabs(c.flop_next / 527.0e9 - 1) <= 0.002, "%g", c.flop_next);
    ck_assert(c.flop_first < c.flop_next);
    ck_assert_uint_le(c.states + c.weights + c.frames, (size_t)600 << 20);
    ck_assert_int_eq(kvr_decoder_file_bytes(KVR_DECODER_TAEHV, 16), 22631078);
}
END_TEST

/* The kind of decoder is detected by its tensors' names, and every name is required. */
START_TEST(by_its_names)
{
    struct kvr_kind_report report;
    struct kvr_weights *w;

    ck_assert_int_eq(kvr_weights_open(&w, FOLDER "taew2_1_tiny.pth"), KVR_OK);
    ck_assert_int_eq(kvr_kind_detect(&report, w, 0), KVR_OK);
    ck_assert_str_eq(report.kind, "taehv");
    ck_assert_int_eq(report.n_missing, 0);
    kvr_kind_free(&report);
    kvr_weights_close(&w);
}
END_TEST

START_TEST(refused)
{
    struct kvr_dev *dev;
    struct kvr_tae *t;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_tae_open(&t, dev, FOLDER "Wan2.1_VAE_tiny.pth", 3, 2), KVR_EFORMAT);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "not a TAEHV of Wan 2.1: weight 'decoder.1.weight'"));
    ck_assert_int_eq(kvr_tae_open(&t, dev, FOLDER "none.pth", 3, 2), KVR_ENOTFOUND);
    ck_assert_int_eq(kvr_tae_open(&t, dev, FOLDER "taew2_1_tiny.pth", 3, 0), KVR_EINVAL);
    ck_assert_ptr_null(t);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tae");
    TCase *tc = tcase_create("tae");

    tcase_set_timeout(tc, 0);
    tcase_add_unchecked_fixture(tc, open_all, close_all);
    tcase_add_loop_test(tc, as_recorded, 0, sizeof clips / sizeof *clips);
    tcase_add_loop_test(tc, on_a_device, 0, 2);
    tcase_add_test(tc, the_same_bytes);
    tcase_add_test(tc, memory);
    tcase_add_test(tc, real_sizes);
    tcase_add_test(tc, by_its_names);
    tcase_add_test(tc, refused);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
