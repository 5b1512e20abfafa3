/* test_qjl.c - the stage `qjl`, which stores signs of random projections: inner products without
 * bias, their variance, published distortions and sizes. */
#include "tests/methods/codec_tools.h"

#include "methods/codecs/qjl/qjl.h"
#include "tests/suite.h"

enum { D = 128, N = 4000 };

static const struct kvr_block_shape shape = { N, 1, D };

/* Encodes and decodes x [N,D] with the codec `text`. */
static void through(const char *text, const float *x, float *y)
{
    struct kvr_codec *c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    float *work = floats(elements(&shape));
    struct kvr_packed p;

    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, N, 0, 1, y);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(work);
}

static double dot(const float *a, const float *b)
{
    double sum = 0;

    for (int c = 0; c < D; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

/* Entries of the projection have mean 0 and variance 1. The mean of the 16384 entries may differ
 * from 0 by 0.04, five standard errors. */
START_TEST(projections_are_normal_enough)
{
    double sum = 0, square = 0, fourth = 0;

    for (int i = 0; i < D; i++)
        for (int c = 0; c < D; c++) {
            const double s = qjl_number(1, i, c) / 4.0;

            sum += s / D / D;
            square += s * s / D / D;
            fourth += s * s * s * s / D / D;
        }
    ck_assert_msg(fabs(sum) <= .04 && fabs(square - 1) <= .06 && fabs(fourth - 2.97) <= .4,
                  "%g, %g, %g", sum, square, fourth);
}
END_TEST

/* Measures the error of the inner product of q with the decoded r, for pairs of normal vectors q
 * and r. Its mean is within four standard errors of 0. Its variance is within 8 % of ((pi / 2)
 * |q|^2 |r|^2 - (q . r)^2) / D. */
START_TEST(products_have_no_bias)
{
    float *r = floats(elements(&shape)), *q = floats(elements(&shape)),
          *y = floats(elements(&shape));
    double sum = 0, square = 0, formula = 0, own = 0;

    kvr_normal(r, elements(&shape), 3, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(q, elements(&shape), 3, KVR_RNG_TEST, 2, 0, 0);
    through("qjl", r, y);
    for (int64_t i = 0; i < N; i++) {
        const double e = dot(q + i * D, y + i * D) - dot(q + i * D, r + i * D);

        own += dot(r + i * D, y + i * D) / dot(r + i * D, r + i * D) / N;
        sum += e / N;
        square += e * e / N;
        formula += (1.5707963 * dot(q + i * D, q + i * D) * dot(r + i * D, r + i * D) -
                    pow(dot(q + i * D, r + i * D), 2)) /
                   D / N;
    }
    ck_assert_msg(fabs(sum) <= 4 * sqrt(square / N), "bias %g of %g", sum, sqrt(square));
    /* The inner product of r with the decoded r depends on the lengths of the 128 projection
     * vectors, which all r share. A length varies by 6 %, so the mean length varies by 0.5 %. */
    ck_assert_msg(fabs(own - 1) <= .02, "r . r^ is %g |r|^2", own);
    ck_assert_msg(fabs(square / formula - 1) <= .08, "variance %g, formula %g", square, formula);
    free(r);
    free(q);
    free(y);
}
END_TEST

/* TurboQuant's squared error of inner products, multiplied by D and divided by |q|^2 |k|^2. It is
 * pi / 2 times the relative squared error of the stage `gauss`, which is 0.3634, 0.1175 and 0.0345
 * for 1, 2 and 3 bits. */
START_TEST(distortions_are_the_published)
{
    static const double want[] = { .5708, .1846, .0542 };
    float *k = floats(elements(&shape)), *q = floats(elements(&shape)),
          *y = floats(elements(&shape));
    double got = 0;
    char text[64];

    snprintf(text, sizeof text, "rotate(signs=1) | gauss(bits=%d) + qjl", _i + 1);
    kvr_normal(k, elements(&shape), 3, KVR_RNG_TEST, 3, 0, 0);
    kvr_normal(q, elements(&shape), 3, KVR_RNG_TEST, 4, 0, 0);
    through(text, k, y);
    for (int64_t i = 0; i < N; i++)
        got += pow(dot(q + i * D, y + i * D) - dot(q + i * D, k + i * D), 2) * D /
               (dot(q + i * D, q + i * D) * dot(k + i * D, k + i * D)) / N;
    ck_assert_msg(fabs(got / want[_i] - 1) <= .08, "%s: %g, not %g", text, got, want[_i]);
    free(k);
    free(q);
    free(y);
}
END_TEST

/* `gauss` with b bits and one sign bit per element, and two FP16 norms per 128 elements */
START_TEST(sizes_are_the_published)
{
    const struct kvr_block_shape s = { 32760, 12, D };
    struct kvr_codec *c;
    char text[64];

    snprintf(text, sizeof text, "rotate(signs=1) | gauss(bits=%d) + qjl", _i + 1);
    c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    ck_assert_uint_eq(kvr_codec_bytes(c, &s), elements(&s) * (size_t)(4 * (_i + 2) + 1) / 32);
    kvr_codec_close(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("qjl");
    TCase *tc = tcase_create("qjl");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, projections_are_normal_enough);
    tcase_add_test(tc, products_have_no_bias);
    tcase_add_loop_test(tc, distortions_are_the_published, 0, 3);
    tcase_add_loop_test(tc, sizes_are_the_published, 0, 3);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
