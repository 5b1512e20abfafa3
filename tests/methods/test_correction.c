/* test_correction.c - corrections against a Monte Carlo simulation, and their effect on
 * attention mass. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "methods/method.h"
#include "tests/suite.h"

enum { D = 128, CACHED = 1560, CURRENT = 400, QUERIES = 48 };

static float *normal(size_t n, float scale, uint32_t a)
{
    float *x = malloc(n * sizeof *x);

    ck_assert_ptr_nonnull(x);
    kvr_normal(x, n, 11, KVR_RNG_TEST, a, 0, 0);
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
    return x;
}

/* Encoded keys [T,1,D], and the moments that a correction stores for them. */
struct coded {
    struct kvr_dev *dev;
    struct kvr_packed p;
    kvr_f16 *moments;
};

static void code(struct coded *c, const struct kvr_codec *codec, const float *x, int64_t n,
                 const struct kvr_correction *corr)
{
    const struct kvr_block_shape shape = { n, 1, D };
    float *work = malloc((size_t)n * D * sizeof *work);

    memset(c, 0, sizeof *c);
    ck_assert_int_eq(kvr_dev_open(&c->dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_codec_encode(codec, c->dev, x, &shape, work, &c->p) == KVR_OK, "%s",
                  kvr_error());
    if (corr && corr->moments) {
        c->moments = calloc((size_t)corr->moments * D, sizeof *c->moments);
        memcpy(work, x, (size_t)n * D * sizeof *work);
        kvr_codec_transform(codec, NULL, KVR_TO_SPACE, work, n, 0, 1, D);
        corr->prepare(&c->p, work, c->moments);
    }
    free(work);
}

static void coded_free(struct coded *c)
{
    kvr_packed_free(&c->p);
    free(c->moments);
    kvr_dev_close(&c->dev);
}

/* Returns the correction c of one key for one query. The query is already divided by sqrt(D), and
 * rotated if the codec rotates keys. */
static double correction_of(const struct kvr_correction *corr, const struct coded *c,
                            const float *q, int64_t key)
{
    float q2[D], s = 0;

    for (int i = 0; i < D; i++)
        q2[i] = q[i] * q[i];
    corr->apply(&(struct kvr_correction_job){
        .k = &c->p,
        .moments = c->moments,
        .t0 = key,
        .n = 1,
        .q = q,
        .q2 = q2,
        .m = 1,
        .d = D,
        .s = &s,
        .stride = 1,
    });
    return -(double)s;
}

/* Estimates log E exp(q . delta), with delta_c uniform in +-s_c/2. Uses antithetic pairs: exp(e)
 * + exp(-e). */
static double monte_carlo(const float *q, const float *s2, int samples, uint32_t stream)
{
    float *u = malloc((size_t)samples * D * sizeof *u);
    double sum = 0, result, width[D];

    kvr_uniform(u, (size_t)samples * D, 5, KVR_RNG_TEST, stream, 9, 0);
    for (int c = 0; c < D; c++)
        width[c] = (double)q[c] * sqrt((double)s2[c]);
    for (int i = 0; i < samples; i++) {
        double e = 0;

        for (int c = 0; c < D; c++)
            e += width[c] * ((double)u[i * D + c] - 0.5);
        sum += cosh(e);
    }
    result = log(sum / samples);
    free(u);
    return result;
}

static const char *const layouts[] = {
    "asym(bits=2,axis=channels,group=32)",
    "asym(bits=2,axis=tokens,group=16)",
    "asym(bits=2,axis=token)",
    "hadamard | asym(bits=2,axis=channels,group=32)",
    "sym(bits=4,axis=tokens,group=16)",
    "ints(bits=2,group=32,scale=e4m3,zero=bf16)",
    "rotate(signs=1) | ints(bits=3,scale=f32)",
    "kmeans(k=8) | ints(bits=2,group=64,scale=e4m3,zero=e4m3,round=away)",
    "ints(bits=4,group=32,scale=e8m0)",
};

/* The formulas agree with the simulation within 2 %. The simulation of 40,000 antithetic pairs has
 * a standard error of about 0.5 % at the largest correction tested, 1.3; there the Taylor formula
 * is off by 0.3 %. */
START_TEST(formula_is_what_uniform_errors_do)
{
    const float scales[] = { 0.5f, 1, 2, 4 };
    struct kvr_codec *codec;
    struct coded c;
    float *x = normal(64 * D, 1, 1), *q = normal(D, 1, 2), s2[D], qs[D];

    ck_assert_msg(kvr_codec_open(&codec, layouts[_i], KVR_K, false) == KVR_OK, "%s", kvr_error());
    code(&c, codec, x, 64, NULL);
    for (int i = 0; i < 4; i++) {
        const int64_t key = 7 + 13 * i;
        double mc, taylor, exact;

        for (int e = 0; e < D; e++)
            qs[e] = q[e] * scales[i] / sqrtf(D);
        kvr_squared_scales(&c.p, 0, key, 1, s2);
        mc = monte_carlo(qs, s2, 40000, (uint32_t)(_i * 4 + i));
        taylor = correction_of(kvr_correction_at(1), &c, qs, key);
        exact = correction_of(kvr_correction_at(2), &c, qs, key);
        ck_assert_msg(fabs(taylor / mc - 1) <= 0.02, "%s: taylor %g, Monte Carlo %g", layouts[_i],
                      taylor, mc);
        ck_assert_msg(fabs(exact / mc - 1) <= 0.02, "%s: exact %g, Monte Carlo %g", layouts[_i],
                      exact, mc);
        /* a^2/6 is an upper bound of log(sinh a / a). */
        ck_assert(taylor >= exact * (1 - 1e-5));
        /* A formula with twice the quantization step, hence four times the correction, must fail
         * the comparison. */
        ck_assert(!(fabs(4 * taylor / mc - 1) <= 0.02));
    }
    coded_free(&c);
    kvr_codec_close(&codec);
    free(x);
    free(q);
}
END_TEST

/* `flat` is the mean of `taylor` over the keys. Its moments are rounded to FP16, with a relative
 * error of 2^-11. */
START_TEST(flat_is_the_mean_of_taylor)
{
    const struct kvr_correction *flat = kvr_correction_at(3), *taylor = kvr_correction_at(1);
    struct kvr_codec *codec;
    struct coded c;
    float *x = normal(90 * D, 1, 3), *q = normal(D, 0.2f, 4);
    double mean = 0;

    ck_assert_str_eq(flat->name, "flat");
    ck_assert_int_eq(kvr_codec_open(&codec, layouts[_i], KVR_K, false), KVR_OK);
    code(&c, codec, x, 90, flat);
    for (int64_t j = 0; j < 90; j++)
        mean += correction_of(taylor, &c, q, j) / 90;
    ck_assert_msg(fabs(correction_of(flat, &c, q, 0) / mean - 1) <= 1e-3, "%s", layouts[_i]);
    coded_free(&c);
    kvr_codec_close(&codec);
    free(x);
    free(q);
}
END_TEST

/* Gaussian keys and queries of one attention call. Of the keys, 1560 are encoded later, and 400
 * (the current chunk) are not. Scores have a standard deviation of 2. Per query, za is the softmax
 * sum over the 1560 keys before they are encoded, and zc the sum over the other 400. The 1560 keys
 * have about 0.8 of the attention mass. */
struct scene {
    float *x, *q;
    double za[QUERIES], zc[QUERIES];
};

static double dot(const float *a, const float *b)
{
    double s = 0;

    for (int e = 0; e < D; e++)
        s += (double)a[e] * b[e];
    return s;
}

/* Returns the keys and queries, which are the same for all codecs. The first call generates
 * them. */
static const struct scene *the_scene(void)
{
    static struct scene s;

    if (s.x)
        return &s;
    float *cur = normal(CURRENT * D, 1, 6);

    s.x = normal(CACHED * D, 1, 5);
    s.q = normal(QUERIES * D, 2.0f / sqrtf(D), 7);
    for (int i = 0; i < QUERIES; i++) {
        for (int j = 0; j < CACHED; j++)
            s.za[i] += exp(dot(s.q + i * D, s.x + j * D));
        for (int j = 0; j < CURRENT; j++)
            s.zc[i] += exp(dot(s.q + i * D, cur + j * D));
    }
    free(cur);
    return &s;
}

/* Writes the correction c of all encoded keys for one query. */
static void corrections_of(const struct kvr_correction *corr, const struct coded *c, const float *q,
                           float *out)
{
    float q2[D], s[KVR_CORRECTION_MAX_KEYS];

    for (int e = 0; e < D; e++)
        q2[e] = q[e] * q[e];
    for (int j = 0; j < CACHED; j += KVR_CORRECTION_MAX_KEYS) {
        const int left = CACHED - j;
        const int n = left < KVR_CORRECTION_MAX_KEYS ? left : KVR_CORRECTION_MAX_KEYS;

        memset(s, 0, sizeof s);
        corr->apply(&(struct kvr_correction_job){
            .k = &c->p,
            .moments = c->moments,
            .t0 = j,
            .n = n,
            .q = q,
            .q2 = q2,
            .m = 1,
            .d = D,
            .s = s,
            .stride = n,
        });
        for (int k = 0; k < n; k++)
            out[j + k] = -s[k];
    }
}

/* Mean shift of the attention mass on the encoded keys, without correction and with it. */
static void mass_shifts(const struct kvr_codec *codec, const struct kvr_correction *corr,
                        double *plain, double *fixed)
{
    const struct scene *s = the_scene();
    float *back = malloc(CACHED * D * sizeof *back), off[CACHED];
    struct coded c;

    ck_assert_ptr_nonnull(back);
    *plain = *fixed = 0;
    code(&c, codec, s->x, CACHED, corr);
    kvr_codec_decode(&c.p, 0, CACHED, 0, 1, back);
    for (int i = 0; i < QUERIES; i++) {
        const double za = s->za[i], zc = s->zc[i];
        double zb = 0, zf = 0;
        float qr[D];

        memcpy(qr, s->q + i * D, sizeof qr);
        kvr_codec_transform(codec, NULL, KVR_QUERY_TO_SPACE, qr, 1, 0, 1, D);
        corrections_of(corr, &c, qr, off);
        for (int j = 0; j < CACHED; j++) {
            const double t = dot(s->q + i * D, back + j * D);

            zb += exp(t);
            zf += exp(t - (double)off[j]);
        }
        *plain += (zb / (zb + zc) - za / (za + zc)) / QUERIES;
        *fixed += (zf / (zf + zc) - za / (za + zc)) / QUERIES;
    }
    coded_free(&c);
    free(back);
}

/* With the correction `energy`, the attention mass on the encoded keys must shift by at most 0.01,
 * for every key codec of every version of every method. */
START_TEST(energy_holds_for_every_registered_codec)
{
    char seen[256][256], spec[128];
    int n_seen = 0, n_large = 0;

    for (int i = 0; kvr_methods[i]; i++)
        for (int r = 0; kvr_method_spec(kvr_methods[i], r, spec, sizeof spec); r++) {
            struct kvr_scheme *p;

            ck_assert_msg(kvr_scheme_open(&p, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
            for (int t = 0; t < p->n_tiers; t++) {
                const struct kvr_codec *k = p->k[t];
                char id[256];
                bool old = false;

                snprintf(id, sizeof id, "%d %.250s", k->study, k->text);
                for (int s = 0; s < n_seen; s++)
                    old |= !strcmp(seen[s], id);
                if (old || kvr_codec_is_raw(k))
                    continue;
                ck_assert_int_lt(n_seen, 256);
                strcpy(seen[n_seen++], id);
                double plain, fixed;

                mass_shifts(k, kvr_correction_at(4), &plain, &fixed);
                ck_assert_msg(fabs(fixed) <= 0.01, "%s %s: %g with energy (%g without)", spec,
                              k->text, fixed, plain);
                n_large += fabs(plain) > 0.01;
            }
            kvr_scheme_close(&p);
        }
    ck_assert_int_ge(n_seen, 12);
    ck_assert_int_ge(n_large, 4); /* Several codecs have a shift above 0.01 without correction. */
}
END_TEST

/* 2-bit asymmetric codes, with kvreel's scales and with the published E4M3 scales and BF16
 * minima. Uncorrected, the encoded keys gain attention mass; `taylor` removes at least 70 % of
 * the gain. */
START_TEST(taylor_returns_stolen_mass)
{
    static const char *const carriers[] = { "asym(bits=2,axis=channels,group=32)",
                                            "ints(bits=2,group=32,scale=e4m3,zero=bf16)" };
    struct kvr_codec *codec;
    double plain, taylor;

    ck_assert_int_eq(kvr_codec_open(&codec, carriers[_i], KVR_K, false), KVR_OK);
    mass_shifts(codec, kvr_correction_at(1), &plain, &taylor);
    ck_assert_msg(plain >= 0.03, "plain %g", plain);
    ck_assert_msg(fabs(taylor) <= 0.3 * plain, "plain %g, taylor %g", plain, taylor);
    kvr_codec_close(&codec);
}
END_TEST

/* kvr_squared_scales() must report scales that are stored as E4M3 with exactly the value that
 * decoding uses. If it does, the decoded values of a group differ by integer multiples of the
 * scale. The tolerance of 1e-5 covers the F32 rounding in the decoder. */
START_TEST(scales_are_those_of_the_grid)
{
    struct kvr_codec *codec;
    struct coded c;
    float *x = normal(64 * D, 1, 9), *back = malloc(64 * D * sizeof *back), s2[D];

    ck_assert_ptr_nonnull(back);
    ck_assert_int_eq(
        kvr_codec_open(&codec, "ints(bits=2,group=32,scale=e4m3,zero=bf16)", KVR_K, false), KVR_OK);
    code(&c, codec, x, 64, NULL);
    kvr_codec_decode(&c.p, 0, 64, 0, 1, back);
    for (int64_t t = 0; t < 64; t++) {
        kvr_squared_scales(&c.p, 0, t, 1, s2);
        for (int e = 0; e < D; e++) {
            const double steps =
                (double)(back[t * D + e] - back[t * D + e / 32 * 32]) / sqrt((double)s2[e]);

            ck_assert(s2[e] > 0 && s2[e] == s2[e / 32 * 32]);
            ck_assert_msg(fabs(steps - rint(steps)) <= 1e-5 && fabs(steps) <= 3, "%g", steps);
        }
    }
    coded_free(&c);
    kvr_codec_close(&codec);
    free(x);
    free(back);
}
END_TEST

/* Exactly stored elements have no error, so they do not contribute to the correction. */
START_TEST(exact_elements_do_not_count)
{
    struct kvr_codec *codec;
    struct coded c;
    float *x = normal(64 * D, 1, 8), q[D] = { 0 }, s2[D];

    x[10 * D + 3] = 500; /* An outlier beyond 6 sigma of a block that is nearly Gaussian. */
    ck_assert_int_eq(kvr_codec_open(&codec, "outliers(sigma=6) | asym(bits=2)", KVR_K, false),
                     KVR_OK);
    code(&c, codec, x, 64, NULL);
    kvr_squared_scales(&c.p, 0, 10, 1, s2);
    ck_assert(s2[3] == 0 && s2[4] > 0);
    q[3] = 1;
    ck_assert_double_eq(correction_of(kvr_correction_at(1), &c, q, 10), 0);
    ck_assert(correction_of(kvr_correction_at(1), &c, q, 9) > 0);
    coded_free(&c);
    kvr_codec_close(&codec);
    free(x);
}
END_TEST

START_TEST(misleading_plans_are_named)
{
    struct kvr_scheme *p;

    ck_assert_int_eq(kvr_scheme_open(&p, "RTN_INT2@study+taylor", NULL, 0), KVR_OK);
    ck_assert_str_eq(p->name, "RTN_INT2@study+taylor");
    ck_assert_ptr_nonnull(kvr_scheme_warning(p));
    kvr_scheme_close(&p);
    ck_assert_int_eq(kvr_scheme_open(&p, "RTN_INT2@study+energy", NULL, 0), KVR_OK);
    ck_assert_ptr_null(kvr_scheme_warning(p));
    kvr_scheme_close(&p);
    ck_assert_int_eq(kvr_scheme_open(&p, "KIVI_INT2+taylor", NULL, 0), KVR_OK);
    ck_assert_ptr_null(kvr_scheme_warning(p));
    kvr_scheme_close(&p);
    /* `taylor` warns about a grid of three levels (QVG_INT2). It accepts the codec of the paper
     * that introduced the correction (JENSEN_INT2). It is refused if codes round towards 0
     * (INT8_PTH@vllm) or if levels are not equidistant (TURBOQUANT_2BIT). */
    ck_assert_int_eq(kvr_scheme_open(&p, "QVG_INT2+taylor", NULL, 0), KVR_OK);
    ck_assert_ptr_nonnull(kvr_scheme_warning(p));
    kvr_scheme_close(&p);
    ck_assert_int_eq(kvr_scheme_open(&p, "JENSEN_INT2+taylor", NULL, 0), KVR_OK);
    ck_assert_ptr_null(kvr_scheme_warning(p));
    kvr_scheme_close(&p);
    ck_assert_int_eq(kvr_scheme_open(&p, "INT8_PTH@vllm+taylor", NULL, 0), KVR_EUNSUPPORTED);
    ck_assert_int_eq(kvr_scheme_open(&p, "TURBOQUANT_2BIT+taylor", NULL, 0), KVR_EUNSUPPORTED);
    ck_assert_int_eq(kvr_scheme_open(&p, "KIVI_INT2+tailor", NULL, 0), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "taylor"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("correction");
    TCase *t = tcase_create("correction");

    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, formula_is_what_uniform_errors_do, 0,
                        (int)(sizeof layouts / sizeof *layouts));
    tcase_add_loop_test(t, flat_is_the_mean_of_taylor, 0, (int)(sizeof layouts / sizeof *layouts));
    tcase_add_test(t, energy_holds_for_every_registered_codec);
    tcase_add_loop_test(t, taylor_returns_stolen_mass, 0, 2);
    tcase_add_test(t, scales_are_those_of_the_grid);
    tcase_add_test(t, exact_elements_do_not_count);
    tcase_add_test(t, misleading_plans_are_named);
    suite_add_tcase(s, t);
    return run_suite(s);
}
