/* test_rollout.c - rollouts of the bundled model that continue given frames or use teacher
 * forcing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/workload/workload.h"
#include "tests/suite.h"

enum { CHUNK = 3, H = 48, W = 48, FRAME = H * W * 3 };

static struct kvr_dev *dev;
static struct kvr_model *model;

static void set_up(void)
{
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_model_open(&model, dev, "models/nano") == KVR_OK, "%s", kvr_error());
}

static void tear_down(void)
{
    kvr_model_close(&model);
    kvr_dev_close(&dev);
}

/* Returns n_frames frames of random bytes, allocated by malloc(). The first 256 bytes are 0 to 255,
 * so that every pixel value is tested. */
static uint8_t *bytes(int n_frames, unsigned x)
{
    uint8_t *p = malloc((size_t)n_frames * FRAME);

    ck_assert_ptr_nonnull(p);
    for (int i = 0; i < n_frames * FRAME; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = i < 256 ? (uint8_t)i : (uint8_t)(x >> 24);
    }
    return p;
}

static struct kvr_rollout_request request(int n_frames, const uint8_t *given, int n_given)
{
    return (struct kvr_rollout_request){ .model = model,
                                         .prompt = "a large red disc bounces over a plain blue "
                                                   "background",
                                         .seed = 3,
                                         .latent_frames = n_frames,
                                         .window_frames = 21,
                                         .path = KVR_PATH_STAGED,
                                         .exact = KVR_BF16,
                                         .given = given,
                                         .n_given = n_given };
}

static enum kvr_status roll(const char *method, const struct kvr_rollout_request *req,
                            struct kvr_rollout_result *out)
{
    struct kvr_scheme *scheme;
    enum kvr_status st;

    ck_assert_msg(kvr_scheme_open(&scheme, method, NULL, 0) == KVR_OK, "%s", kvr_error());
    st = kvr_rollout_run(dev, scheme, req, NULL, NULL, out);
    kvr_scheme_close(&scheme);
    return st;
}

static const char *const methods[] = { "BF16", "RTN_INT4", "KIVI_INT2@study" };

START_TEST(given_frames_come_out_as_they_went_in)
{
    uint8_t *given = bytes(2 * CHUNK, 1);
    const struct kvr_rollout_request req = request(3 * CHUNK, given, 2 * CHUNK);
    const struct kvr_rollout_request whole = request(3 * CHUNK, NULL, 0);
    const int steps = kvr_model_config(model)->n_steps;
    struct kvr_rollout_result r, w;

    ck_assert_msg(roll(methods[_i], &req, &r) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(r.n, 3 * CHUNK);
    ck_assert(memcmp(r.rgb, given, (size_t)(2 * CHUNK) * FRAME) == 0);
    /* A given chunk needs only a clean pass; the generated chunk needs all steps and a clean
     * pass. */
    ck_assert_int_eq(r.n_passes, 2 + steps + 1);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(r.pass[i].chunk, i);
        ck_assert_int_eq(r.pass[i].index, steps);
    }
    /* The cache has as many tokens and bytes as without given frames. */
    ck_assert_msg(roll(methods[_i], &whole, &w) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(r.bytes.tokens, w.bytes.tokens);
    ck_assert_int_eq(r.bytes.nominal, w.bytes.nominal);
    ck_assert_int_eq(r.live_at_start, r.live_at_end);
    kvr_rollout_result_free(&w);
    kvr_rollout_result_free(&r);
    free(given);
}
END_TEST

/* The generated frames depend on every given frame. */
START_TEST(given_frames_are_seen)
{
    uint8_t *given = bytes(2 * CHUNK, 1);
    const struct kvr_rollout_request req = request(3 * CHUNK, given, 2 * CHUNK);
    const size_t rest = (size_t)(2 * CHUNK) * FRAME;
    struct kvr_rollout_result a, b, c;

    ck_assert_int_eq(roll("BF16", &req, &a), KVR_OK);
    ck_assert_int_eq(roll("BF16", &req, &b), KVR_OK);
    ck_assert(memcmp(a.rgb, b.rgb, rest + CHUNK * FRAME) == 0);
    /* changes the first (_i = 0) or last (_i = 1) given frame */
    memset(given + (_i ? 2 * CHUNK - 1 : 0) * FRAME, 255, FRAME);
    ck_assert_int_eq(roll("BF16", &req, &c), KVR_OK);
    ck_assert(memcmp(a.rgb + rest, c.rgb + rest, CHUNK * FRAME) != 0);
    kvr_rollout_result_free(&a);
    kvr_rollout_result_free(&b);
    kvr_rollout_result_free(&c);
    free(given);
}
END_TEST

/* The first chunk of a rollout, given to a second rollout as bytes, is returned unchanged. The next
 * chunk is nearly the same as in the first rollout: rounding to bytes changed the given latents by
 * at most half a pixel level. */
START_TEST(generated_frames_can_be_given)
{
    const struct kvr_rollout_request whole = request(2 * CHUNK, NULL, 0);
    struct kvr_rollout_request again;
    struct kvr_rollout_result a, b;
    int64_t off = 0;

    ck_assert_int_eq(roll("BF16", &whole, &a), KVR_OK);
    again = request(2 * CHUNK, a.rgb, CHUNK);
    ck_assert_int_eq(roll("BF16", &again, &b), KVR_OK);
    ck_assert(memcmp(a.rgb, b.rgb, CHUNK * FRAME) == 0);
    /* 0.02 levels on average were measured; another clip differs by tens of levels. */
    for (int i = CHUNK * FRAME; i < 2 * CHUNK * FRAME; i++)
        off += abs(a.rgb[i] - b.rgb[i]);
    ck_assert_int_le(4 * off, CHUNK * FRAME);
    kvr_rollout_result_free(&a);
    kvr_rollout_result_free(&b);
}
END_TEST

START_TEST(refused)
{
    static const int bad[] = { 1, -3, 2 * CHUNK, 3 * CHUNK };
    uint8_t *given = bytes(3 * CHUNK, 1);
    struct kvr_rollout_request req = request(2 * CHUNK, given, 0);
    struct kvr_rollout_result r;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        req.n_given = bad[i];
        ck_assert_int_eq(roll("BF16", &req, &r), KVR_EINVAL);
        ck_assert_ptr_nonnull(strstr(
            kvr_error(), "the number of given frames must be a multiple of 3 (one chunk) in 0..3"));
    }
    req.n_given = CHUNK;
    req.given = NULL;
    ck_assert_int_eq(roll("BF16", &req, &r), KVR_EINVAL);
    free(given);
}
END_TEST

/* ---- teacher forcing and perturbed noise ------------------------------------------------ */

static void teach(struct kvr_rollout_request *req, enum kvr_forcing forcing)
{
    float *teacher;

    ck_assert_msg(kvr_rollout_reference(dev, req, &teacher) == KVR_OK, "%s", kvr_error());
    req->teacher = teacher;
    req->forcing = forcing;
}

/* A BF16 rollout with itself as teacher has an error of exactly 0 and the frames of a free rollout.
 * For _i = 1, both rollouts use the same perturbed noise. */
START_TEST(the_reference_teaches_itself)
{
    static const enum kvr_forcing forcing[] = { KVR_FORCING_TEACHER, KVR_FORCING_STEP };
    const struct kvr_rollout_request plain = request(3 * CHUNK, NULL, 0);
    struct kvr_rollout_request req = plain;
    struct kvr_rollout_result a, b, unmoved;

    req.jitter_draw = _i;
    req.jitter_magnitude = 0x1p-10;
    ck_assert_int_eq(roll("BF16", &req, &a), KVR_OK);
    ck_assert_ptr_null(a.chunk_error);
    teach(&req, forcing[_i]);
    ck_assert_msg(roll("BF16", &req, &b) == KVR_OK, "%s", kvr_error());
    ck_assert(memcmp(a.rgb, b.rgb, 3 * CHUNK * FRAME) == 0);
    ck_assert_int_eq(b.n_chunks, 3);
    for (int i = 0; i < 3; i++)
        ck_assert(b.chunk_error[i] == 0);
    ck_assert(b.latent_error == 0);
    ck_assert_int_eq(b.live_at_start, b.live_at_end);
    /* the teacher does not count as the cell's memory */
    ck_assert_int_eq(a.mem.peak_total, b.mem.peak_total);
    ck_assert_int_eq(roll("BF16", &plain, &unmoved), KVR_OK);
    ck_assert((memcmp(a.rgb, unmoved.rgb, 3 * CHUNK * FRAME) == 0) == (_i == 0));
    kvr_rollout_result_free(&unmoved);
    kvr_rollout_result_free(&b);
    kvr_rollout_result_free(&a);
    free((float *)req.teacher);
}
END_TEST

/* The current chunk is not quantized, so chunk 0, which has no past, equals the teacher's. Rollouts
 * with and without teacher forcing have therefore the same past in chunk 1, and differ from chunk 2
 * on. */
START_TEST(a_teacher_replaces_the_past)
{
    struct kvr_rollout_request req = request(3 * CHUNK, NULL, 0);
    struct kvr_rollout_result freely, forced;

    ck_assert_int_eq(roll("RTN_INT2", &req, &freely), KVR_OK);
    teach(&req, KVR_FORCING_TEACHER);
    ck_assert_int_eq(roll("RTN_INT2", &req, &forced), KVR_OK);
    ck_assert(memcmp(freely.rgb, forced.rgb, 2 * CHUNK * FRAME) == 0);
    ck_assert(
        memcmp(freely.rgb + 2 * CHUNK * FRAME, forced.rgb + 2 * CHUNK * FRAME, CHUNK * FRAME) != 0);
    ck_assert(forced.chunk_error[0] == 0);
    for (int i = 1; i < 3;
         i++) /* 0.02 and 0.03 were measured; unrelated latents have an error of sqrt(2) */
        ck_assert_msg(forced.chunk_error[i] >= 1e-4 && forced.chunk_error[i] <= 0.5, "%g",
                      forced.chunk_error[i]);
    ck_assert(forced.latent_error >= forced.chunk_error[0] && forced.latent_error <= 0.5);
    kvr_rollout_result_free(&forced);
    kvr_rollout_result_free(&freely);
    free((float *)req.teacher);
}
END_TEST

START_TEST(given_chunks_have_no_error)
{
    uint8_t *given = bytes(CHUNK, 1);
    struct kvr_rollout_request req = request(2 * CHUNK, given, CHUNK);
    struct kvr_rollout_result r;

    teach(&req, KVR_FORCING_TEACHER);
    ck_assert_int_eq(roll("RTN_INT2", &req, &r), KVR_OK);
    ck_assert(isnan(r.chunk_error[0]));
    ck_assert(r.chunk_error[1] > 0 && r.chunk_error[1] == r.latent_error);
    kvr_rollout_result_free(&r);
    free((float *)req.teacher);
    free(given);
}
END_TEST

/* With forcing `step`, errors do not accumulate over the denoising steps of a chunk, so they are
 * smaller than with `teacher`. */
START_TEST(every_step_is_forced)
{
    struct kvr_rollout_request req = request(2 * CHUNK, NULL, 0);
    struct kvr_rollout_result chunk, step;

    teach(&req, KVR_FORCING_TEACHER);
    ck_assert_int_eq(roll("RTN_INT2", &req, &chunk), KVR_OK);
    req.forcing = KVR_FORCING_STEP;
    ck_assert_int_eq(roll("RTN_INT2", &req, &step), KVR_OK);
    ck_assert(step.chunk_error[0] == 0 && step.chunk_error[1] > 0);
    ck_assert(memcmp(chunk.rgb + CHUNK * FRAME, step.rgb + CHUNK * FRAME, CHUNK * FRAME) != 0);
    ck_assert_msg(step.latent_error < chunk.latent_error, "%g, by chunk %g", step.latent_error,
                  chunk.latent_error);
    kvr_rollout_result_free(&step);
    kvr_rollout_result_free(&chunk);
    free((float *)req.teacher);
}
END_TEST

START_TEST(forcing_and_teacher_go_together)
{
    static const float x[1] = { 0 };
    struct kvr_rollout_request req = request(CHUNK, NULL, 0);
    struct kvr_rollout_result r;

    req.forcing = KVR_FORCING_STEP;
    ck_assert_int_eq(roll("BF16", &req, &r), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(),
                     "rollout: forcing 'step' was requested without a teacher rollout; 'teacher' "
                     "and 'step' need a teacher rollout, 'none' must have none");
    req.forcing = KVR_FORCING_NONE;
    req.teacher = x;
    ck_assert_int_eq(roll("BF16", &req, &r), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(),
                     "rollout: forcing 'none' was requested with a teacher rollout; 'teacher' and "
                     "'step' need a teacher rollout, 'none' must have none");
}
END_TEST

/* ---- commit of the last step ------------------------------------------------------------- */

/* LAST_STEP commits the keys and values of the last denoising step, so each generated chunk needs
 * one pass fewer. The cache has the same size. BF16 with the option commit=last_step gives the same
 * frames as LAST_STEP. */
START_TEST(a_pass_less)
{
    const int steps = kvr_model_config(model)->n_steps, given_chunks = _i;
    uint8_t *given = bytes(CHUNK, 1);
    struct kvr_rollout_request req = request(3 * CHUNK, _i ? given : NULL, _i * CHUNK);
    const struct kvr_setting set = { "commit", "last_step" };
    const size_t first = CHUNK * FRAME, frames = 3 * first;
    struct kvr_rollout_result row, usual, option;
    struct kvr_scheme *scheme;

    ck_assert_msg(roll("LAST_STEP", &req, &row) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(roll("BF16", &req, &usual) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(row.n_passes, (3 - given_chunks) * steps + given_chunks);
    ck_assert_int_eq(usual.n_passes, (3 - given_chunks) * steps + 3);
    ck_assert_int_eq(row.pass[row.n_passes - 1].index, steps - 1);
    ck_assert_int_eq(row.pass[0].index, given_chunks ? steps : 0);
    ck_assert_int_eq(row.bytes.nominal, usual.bytes.nominal);
    ck_assert(memcmp(row.rgb, usual.rgb, (size_t)(1 + _i) * first) == 0);
    ck_assert(memcmp(row.rgb, usual.rgb, frames) != 0);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "BF16", &set, 1), KVR_OK);
    ck_assert_msg(kvr_rollout_run(dev, scheme, &req, NULL, NULL, &option) == KVR_OK, "%s",
                  kvr_error());
    ck_assert(memcmp(row.rgb, option.rgb, frames) == 0);
    kvr_scheme_close(&scheme);
    kvr_rollout_result_free(&row);
    kvr_rollout_result_free(&usual);
    kvr_rollout_result_free(&option);
    free(given);
}
END_TEST

/* A teacher's chunks are committed by clean passes, so LAST_STEP cannot run under a teacher. It can
 * run if only the steps are forced. */
START_TEST(a_teacher_needs_clean_passes)
{
    struct kvr_rollout_request req = request(2 * CHUNK, NULL, 0);
    struct kvr_rollout_result r;

    teach(&req, KVR_FORCING_TEACHER);
    ck_assert_int_eq(roll("LAST_STEP", &req, &r), KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "commit=last_step"));
    req.forcing = KVR_FORCING_STEP;
    ck_assert_msg(roll("LAST_STEP", &req, &r) == KVR_OK, "%s", kvr_error());
    ck_assert(r.chunk_error[0] == 0 && r.chunk_error[1] > 0);
    kvr_rollout_result_free(&r);
    free((float *)req.teacher);
}
END_TEST

START_TEST(jitter_out_of_bounds)
{
    static const struct {
        int draw;
        double magnitude;
    } bad[] = { { -1, 0x1p-10 }, { 1, -0.5 }, { 1, 1.5 }, { 1, NAN }, { 1 << 24, 0x1p-10 } };
    struct kvr_rollout_request req = request(CHUNK, NULL, 0);
    struct kvr_rollout_result r;
    float *latents;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        req.jitter_draw = bad[i].draw;
        req.jitter_magnitude = bad[i].magnitude;
        ck_assert_int_eq(roll("BF16", &req, &r), KVR_EINVAL);
        ck_assert_ptr_nonnull(strstr(kvr_error(), "rollout: jitter"));
        ck_assert_int_eq(kvr_rollout_reference(dev, &req, &latents), KVR_EINVAL);
        ck_assert_ptr_null(latents);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rollout");
    TCase *tc = tcase_create("given frames");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, given_frames_come_out_as_they_went_in, 0,
                        sizeof methods / sizeof *methods);
    tcase_add_loop_test(tc, given_frames_are_seen, 0, 2);
    tcase_add_test(tc, generated_frames_can_be_given);
    tcase_add_test(tc, refused);
    suite_add_tcase(s, tc);
    tc = tcase_create("teacher forcing");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, the_reference_teaches_itself, 0, 2);
    tcase_add_test(tc, a_teacher_replaces_the_past);
    tcase_add_test(tc, given_chunks_have_no_error);
    tcase_add_test(tc, every_step_is_forced);
    tcase_add_test(tc, forcing_and_teacher_go_together);
    tcase_add_test(tc, jitter_out_of_bounds);
    suite_add_tcase(s, tc);
    tc = tcase_create("no clean pass");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, a_pass_less, 0, 2);
    tcase_add_test(tc, a_teacher_needs_clean_passes);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
