/* test_fit.c - fitting an option to a budget of bits: the solver finds the largest value whose
 * predicted bytes fit. Unsolvable cases are refused with the reason. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/plan/fit.h"
#include "tests/suite.h"

static const struct kvr_geometry small = {
    .name = "small",
    .n_layers = 2,
    .n_heads = 3,
    .head_dim = 64,
    .tokens_per_frame = 36,
    .frames_per_chunk = 3,
    .pixel_frames = 1,
};
enum { FRAMES = 21 };

static double bits_of(const char *spec, const struct kvr_setting *set, int n)
{
    const struct kvr_predict_run run = { .latent_frames = FRAMES };
    struct kvr_scheme *p;
    struct kvr_prediction out;

    ck_assert_msg(kvr_scheme_open(&p, spec, set, n) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_predict(p, &small, &run, &out) == KVR_OK, "%s", kvr_error());
    kvr_scheme_close(&p);
    return 16 * (double)out.nominal / (double)out.bf16;
}

/* For each budget `asked`, the solved value must fit, and the value `more`, which gives the next
 * larger cache, must not. */
static const struct {
    const char *method, *option, *asked, *more;
    double bits, least; /* bits: the budget; least: maximum number of bits that the solution may
                         * leave unused */
} fits[] = {
    /* Each of 21 frames takes 0.762 bits per element, so whole frames leave at most that unused. */
    { "ROLLING_WINDOW", "frames", "fit 3", "5", 3, 0.762 },
    { "STREAMING_LLM", "frames", "fit 2.5", "3.4", 2.5, 0.05 },
    { "H2O", "tokens", "fit 4", "200", 4, 0.05 },
    { "RTN_INT4", "group", "fit 5", "16", 5, 0.8 },
    { "RTN_INT4", "bits", "fit 4", "4", 4, 1.1 },
    /* With two scales of 1 bit per element, K has 2 bits + 2 and V has 8 bits. */
    { "PRQ_INT2", "k.bits", "fit 8", "3", 8, 1.1 },
    { "PRQ_INT2", "k.2.bits", "fit 8.5", "5", 8.5, 0.6 },
    { "AGE_TIER_INT2", "ratio", "fit 4", "0.9", 4, 0.5 },
    /* The group of 32 must divide `residual`, so few values of `residual` are possible. */
    { "KIVI_R128_INT2", "residual", "fit 4", "128", 4, 0.12 },
};

START_TEST(the_largest_value_that_fits)
{
    struct kvr_setting set = { fits[_i].option, fits[_i].asked };
    struct kvr_fit fit;
    double bits;

    ck_assert_msg(kvr_fit_solve(&fit, fits[_i].method, &set, 1, &small, FRAMES, NULL) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(fit.at, 0);
    ck_assert(fit.bits == fits[_i].bits);
    set.value = fit.value;
    bits = bits_of(fits[_i].method, &set, 1);
    ck_assert(fabs(bits - fit.predicted) <= 1e-12);
    ck_assert_msg(bits <= fits[_i].bits && bits >= fits[_i].bits - fits[_i].least,
                  "%s %s=%s: %g bits of %g", fits[_i].method, set.name, set.value, bits,
                  fits[_i].bits);
    set.value = fits[_i].more;
    ck_assert(bits_of(fits[_i].method, &set, 1) > fits[_i].bits);
}
END_TEST

/* While one option is solved, the other settings apply, for example another retention. */
START_TEST(other_settings_apply)
{
    const struct kvr_setting set[] = { { "retention", "ROLLING_WINDOW" },
                                       { "unit", "token" },
                                       { "frames", "fit 2" },
                                       { "group", "32" } };
    struct kvr_setting solved[4];
    struct kvr_fit fit;

    ck_assert_msg(kvr_fit_solve(&fit, "RTN_INT4", set, 4, &small, FRAMES, NULL) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(fit.at, 2);
    memcpy(solved, set, sizeof set);
    solved[2].value = fit.value;
    ck_assert(bits_of("RTN_INT4", solved, 4) <= 2);
    ck_assert(bits_of("RTN_INT4", solved, 4) >= 1.9);
    /* at 2 bits BF16 fits only 2.625 frames; RTN_INT4 fits more than twice as many */
    ck_assert(strtod(fit.value, NULL) > 2 * 2.625);
}
END_TEST

START_TEST(nothing_asked)
{
    const struct kvr_setting set = { "group", "32" };
    struct kvr_fit fit;

    ck_assert_int_eq(kvr_fit_solve(&fit, "RTN_INT4", &set, 1, &small, FRAMES, NULL), KVR_OK);
    ck_assert_int_eq(fit.at, -1);
}
END_TEST

static int n_asked;

static bool after_three(void)
{
    return ++n_asked > 3;
}

/* Solving a full-size model's budget takes long, so it can be interrupted after any chunk of a
 * layer. */
START_TEST(interrupted)
{
    const struct kvr_setting set = { "frames", "fit 3" };
    const int64_t before = kvr_predictions();
    struct kvr_fit fit;

    n_asked = 0;
    ck_assert_int_eq(kvr_fit_solve(&fit, "ROLLING_WINDOW", &set, 1, &small, FRAMES, after_three),
                     KVR_EINTERRUPTED);
    ck_assert_int_eq(n_asked, 4);
    ck_assert_int_eq(kvr_predictions() - before, 1);
}
END_TEST

static const struct {
    const char *method;
    struct kvr_setting set[2];
    int n;
    enum kvr_status st;
    const char *why;
} refused[] = {
    { "RTN_INT4",
      { { "group", "fit 3" } },
      1,
      KVR_EUNSUPPORTED,
      "3 bits per element; the smallest encoding needs 4" },
    { "INT8_PTH",
      { { "bits", "fit 8" }, { "scale", "one" } },
      2,
      KVR_EUNSUPPORTED,
      "integer codes need a scale" },
    { "RTN_INT4", { { "group", "fit 0" } }, 1, KVR_EINVAL, "bits above 0" },
    { "RTN_INT4", { { "group", "fit x" } }, 1, KVR_EINVAL, "bits above 0" },
    { "ROLLING_WINDOW", { { "frames", "fit 20" } }, 1, KVR_EINVAL, "at most 16, the bits of BF16" },
    { "RTN_INT4", { { "axis", "fit 3" } }, 1, KVR_EINVAL, "not a numeric option of RTN_INT4" },
    { "RTN_INT4", { { "frames", "fit 3" } }, 1, KVR_EINVAL, "not a numeric option of RTN_INT4" },
    { "RTN_INT4",
      { { "group", "fit 5" }, { "bits", "fit 5" } },
      2,
      KVR_EINVAL,
      "options group and bits both" },
};

START_TEST(refusals)
{
    struct kvr_fit fit;

    ck_assert_int_eq(kvr_fit_solve(&fit, refused[_i].method, refused[_i].set, refused[_i].n, &small,
                                   FRAMES, NULL),
                     refused[_i].st);
    ck_assert_msg(strstr(kvr_error(), refused[_i].why) != NULL, "%s", kvr_error());
}
END_TEST

/* The setting `retention` accepts a method's name, a retention policy as text, or none. The study's
 * version of a method refuses retention that evicts single tokens. */
START_TEST(another_retention)
{
    struct kvr_setting set = { "retention", "H2O" };
    struct kvr_scheme *p = NULL;

    ck_assert_int_eq(kvr_scheme_open(&p, "RTN_INT4", &set, 1), KVR_OK);
    ck_assert_str_eq(p->retention.part->name, "keep");
    kvr_scheme_close(&p);
    set.value = "keep(score=random,tokens=5)";
    ck_assert_int_eq(kvr_scheme_open(&p, "KIVI_INT2", &set, 1), KVR_OK);
    ck_assert_str_eq(p->retention.part->name, "keep");
    kvr_scheme_close(&p);
    set.value = "none";
    ck_assert_int_eq(kvr_scheme_open(&p, "SINK_WINDOW", &set, 1), KVR_OK);
    ck_assert_ptr_null(p->retention.part);
    kvr_scheme_close(&p);
    set.value = "H2O";
    ck_assert_int_eq(kvr_scheme_open(&p, "RTN_INT4@study", &set, 1), KVR_EINVAL);
    ck_assert(strstr(kvr_error(), "single tokens"));
    set.value = "H3O";
    ck_assert_int_ne(kvr_scheme_open(&p, "RTN_INT4", &set, 1), KVR_OK);
    ck_assert(strstr(kvr_error(), "unknown name 'H3O'"));
    ck_assert_ptr_null(p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fit");
    TCase *tc = tcase_create("fit");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, the_largest_value_that_fits, 0, (int)(sizeof fits / sizeof *fits));
    tcase_add_test(tc, other_settings_apply);
    tcase_add_test(tc, nothing_asked);
    tcase_add_test(tc, interrupted);
    tcase_add_loop_test(tc, refusals, 0, (int)(sizeof refused / sizeof *refused));
    tcase_add_test(tc, another_retention);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
