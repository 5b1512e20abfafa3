/* test_pixels.c - decoding frames chunk by chunk in a second thread gives the frames of decoding
 * after the rollout. Also tests errors in either thread. */
#include "harness/workload/pixels.h"

#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "tests/suite.h"

enum { FRAMES = 4 };

struct rig {
    struct kvr_dev *dev;
    struct kvr_model *m;
    float *latents; /* [FRAMES, n] */
    int64_t n;
};

static void rig_open(struct rig *r, enum kvr_backend backend)
{
    const struct kvr_model_use use = { .look = true };

    ck_assert_int_eq(kvr_dev_open(&r->dev, backend), KVR_OK);
    ck_assert_msg(kvr_model_open_as(&r->m, r->dev, "tests/fixtures/wan_folder", &use) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_ptr_nonnull(kvr_model_vae(r->m));
    r->n = kvr_model_frame_elems(r->m);
    r->latents = malloc((size_t)(FRAMES * r->n) * sizeof *r->latents);
    kvr_uniform(r->latents, (size_t)(FRAMES * r->n), 1, KVR_RNG_SYNTHETIC, 7, 0, 0);
}

static void rig_close(struct rig *r)
{
    kvr_model_close(&r->m);
    kvr_dev_close(&r->dev);
    free(r->latents);
}

/* Decodes all frames after the rollout. */
static struct kvr_rollout_result all_at_once(struct rig *r)
{
    struct kvr_rollout_result out = { .latents = r->latents, .finite = true };
    int64_t ns;

    ck_assert_msg(kvr_rollout_pixels(r->dev, r->m, FRAMES, &out, &ns) == KVR_OK, "%s", kvr_error());
    ck_assert_int_gt(ns, 0);
    return out;
}

START_TEST(the_same_frames)
{
    struct kvr_rollout_result out = { .finite = true }, want;
    struct kvr_pixels_done done;
    struct kvr_pixels *p;
    struct rig r;
    float *copy;

    rig_open(&r, (enum kvr_backend)_i);
    want = all_at_once(&r);
    ck_assert_msg(kvr_pixels_start(&p, (enum kvr_backend)_i, r.m, NULL, FRAMES, 2) == KVR_OK, "%s",
                  kvr_error());
    copy = malloc((size_t)(2 * r.n) * sizeof *copy);
    for (int f = 0; f < FRAMES; f += 2) {
        memcpy(copy, r.latents + f * r.n, (size_t)(2 * r.n) * sizeof *copy);
        ck_assert_int_eq(kvr_pixels_push(p, f, 2, copy), KVR_OK);
        /* Overwrites the latents: kvr_pixels_push() must have copied them. */
        memset(copy, 0xff, (size_t)(2 * r.n) * sizeof *copy);
    }
    ck_assert_msg(kvr_pixels_finish(&p, KVR_OK, &out, &done) == KVR_OK, "%s", kvr_error());
    ck_assert_ptr_null(p);
    ck_assert(done.ns > 0 && !done.device_full && out.finite);
    ck_assert_int_eq(out.n, 1 + 4 * (FRAMES - 1));
    ck_assert(out.n == want.n && out.height == want.height && out.width == want.width);
    ck_assert_mem_eq(out.rgb, want.rgb, (size_t)out.n * (size_t)(out.height * out.width) * 3);
    free(copy);
    free(out.rgb);
    free(want.rgb);
    rig_close(&r);
}
END_TEST

/* For a latent that is not finite, kvr_pixels_finish() returns the decoder's status and message to
 * the calling thread. */
START_TEST(a_bad_latent)
{
    struct kvr_rollout_result out = { .finite = true };
    struct kvr_pixels_done done;
    struct kvr_pixels *p;
    struct rig r;

    rig_open(&r, KVR_CPU);
    r.latents[2 * r.n + 5] = NAN;
    ck_assert_int_eq(kvr_pixels_start(&p, KVR_CPU, r.m, NULL, FRAMES, 1), KVR_OK);
    ck_assert_int_eq(kvr_pixels_push(p, 0, FRAMES, r.latents), KVR_OK);
    ck_assert_int_eq(kvr_pixels_finish(&p, KVR_OK, &out, &done), KVR_ENAN);
    ck_assert_str_eq(kvr_error(), "decoder: frame 5: a decoded pixel is NaN or infinite");
    ck_assert(!out.finite);
    free(out.rgb);
    rig_close(&r);
}
END_TEST

/* If the rollout fails after one of two chunks, kvr_pixels_finish() must not wait for the second
 * chunk. It must return the rollout's status and keep its error message. */
START_TEST(a_failed_rollout)
{
    struct kvr_rollout_result out = { 0 };
    struct kvr_pixels_done done;
    struct kvr_pixels *p;
    struct rig r;

    rig_open(&r, KVR_CPU);
    ck_assert_int_eq(kvr_pixels_start(&p, KVR_CPU, r.m, NULL, FRAMES, 1), KVR_OK);
    ck_assert_int_eq(kvr_pixels_push(p, 0, 2, r.latents), KVR_OK);
    kvr_fail(KVR_EDIVERGED, "rollout: chunk 1: far off");
    ck_assert_int_eq(kvr_pixels_finish(&p, KVR_EDIVERGED, &out, &done), KVR_EDIVERGED);
    ck_assert_str_eq(kvr_error(), "rollout: chunk 1: far off");
    ck_assert_ptr_null(out.rgb);
    rig_close(&r);
}
END_TEST

/* The device lacks the memory for a decoder. */
START_TEST(no_device)
{
    struct kvr_pixels *p;
    struct rig r;

    rig_open(&r, KVR_CPU);
    setenv("KVREEL_EMULATED_BYTES", "100000", 1);
    ck_assert_int_eq(kvr_pixels_start(&p, KVR_CUDA, r.m, NULL, FRAMES, 1), KVR_ENOMEM);
    ck_assert_ptr_null(p);
    unsetenv("KVREEL_EMULATED_BYTES");
    rig_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pixels");
    TCase *tc = tcase_create("pixels");

    tcase_set_timeout(tc, 0);
    omp_set_num_threads(2);
    tcase_add_loop_test(tc, the_same_frames, 0, KVR_N_BACKENDS);
    tcase_add_test(tc, a_bad_latent);
    tcase_add_test(tc, a_failed_rollout);
    tcase_add_test(tc, no_device);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
