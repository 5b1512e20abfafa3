/* test_rng.c - Philox: published vectors, independence of partitioning, and moments. */
#include "harness/core/normal_pair.h"
#include "harness/core/rng.h"
#include "tests/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 20 };

START_TEST(known_answers) /* Random123, kat_vectors, philox4x32 10 rounds */
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];

        kvr_philox(cases[i].counter, cases[i].key, out);
        for (int j = 0; j < 4; j++)
            ck_assert_uint_eq(out[j], cases[i].out[j]);
    }
}
END_TEST

START_TEST(counter_layout_is_the_documented_one)
{
    const uint64_t seed = 0x1122334455667788ull;
    const uint64_t block = 0x00abcdef89ull;
    const uint32_t key[2] = { 0x55667788, 0x11223344 };
    const uint32_t counter[4] = { 0xabcdef89, 3u << 24 | 0x00, 77, 0xfffffff0 };
    const uint32_t far_counter[4] = { 5, 3u << 24 | 0x123456, 77, 0xfffffff0 };
    uint32_t words[4];
    float u[4];

    kvr_philox(counter, key, words);
    kvr_uniform(u, 4, seed, KVR_RNG_TEST, 77, 0xfffffff0, block * 4);
    for (int i = 0; i < 4; i++)
        ck_assert(u[i] == (float)(words[i] >> 8) / 16777216.0f);
    kvr_philox(far_counter, key, words);
    kvr_uniform(u, 4, seed, KVR_RNG_TEST, 77, 0xfffffff0, (0x123456ull << 32 | 5) * 4);
    for (int i = 0; i < 4; i++)
        ck_assert(u[i] == (float)(words[i] >> 8) / 16777216.0f);
}
END_TEST

START_TEST(any_part_is_the_same_alone)
{
    enum { TOTAL = 101 };
    float all[TOTAL], part[TOTAL + 1], uniform[TOTAL];

    kvr_normal(all, TOTAL, 9, KVR_RNG_NOISE, 1, 2, 0);
    kvr_uniform(uniform, TOTAL, 9, KVR_RNG_NOISE, 1, 2, 0);
    for (size_t first = 0; first < TOTAL; first++) {
        for (size_t n = 0; first + n <= TOTAL; n += 1 + n / 3) {
            part[n] = 7.0f;
            kvr_normal(part, n, 9, KVR_RNG_NOISE, 1, 2, first);
            ck_assert_int_eq(memcmp(part, all + first, n * sizeof *all), 0);
            kvr_uniform(part, n, 9, KVR_RNG_NOISE, 1, 2, first);
            ck_assert_int_eq(memcmp(part, uniform + first, n * sizeof *all), 0);
            ck_assert(part[n] == 7.0f);
        }
    }
}
END_TEST

START_TEST(streams_differ)
{
    static const struct {
        uint64_t seed;
        enum kvr_rng_use use;
        uint32_t a, b;
    } s[] = {
        { 1, KVR_RNG_NOISE, 0, 0 }, { 2, KVR_RNG_NOISE, 0, 0 }, { 1ull << 32, KVR_RNG_NOISE, 0, 0 },
        { 1, KVR_RNG_TEST, 0, 0 },  { 1, KVR_RNG_NOISE, 1, 0 }, { 1, KVR_RNG_NOISE, 0, 1 },
    };
    enum { STREAMS = sizeof s / sizeof *s, LEN = 256 };
    float x[STREAMS][LEN];

    for (int i = 0; i < STREAMS; i++)
        kvr_uniform(x[i], LEN, s[i].seed, s[i].use, s[i].a, s[i].b, 0);
    for (int i = 0; i < STREAMS; i++) {
        for (int j = 0; j < i; j++) {
            int same = 0;

            for (int k = 0; k < LEN; k++)
                same += x[i][k] == x[j][k];
            ck_assert_int_le(same, 1);
        }
    }
}
END_TEST

/* Bounds are five standard errors of the statistic over n samples: sd / sqrt(n) for a mean,
 * sqrt((kurtosis - 1) / n) var for a variance. The samples are fixed, so the result never
 * changes. */
START_TEST(normal_moments)
{
    float *x = malloc(N * sizeof *x);
    double sum = 0, sum2 = 0, sum3 = 0, sum4 = 0, lag = 0;
    double n = N;

    ck_assert_ptr_nonnull(x);
    kvr_normal(x, N, 1234, KVR_RNG_TEST, 0, 0, 0);
    for (int i = 0; i < N; i++) {
        double v = x[i];

        if (!(fabs(v) <= 6.77)) /* sqrt(2 ln 2^33) = 6.7638 */
            ck_abort_msg("element %d is %g", i, v);
        sum += v;
        sum2 += v * v;
        sum3 += v * v * v;
        sum4 += v * v * v * v;
        if (i > 0)
            lag += v * (double)x[i - 1];
    }
    ck_assert(fabs(sum / n) <= 5 / sqrt(n));
    ck_assert(fabs(sum2 / n - 1) <= 5 * sqrt(2 / n));
    ck_assert(fabs(sum3 / n) <= 5 * sqrt(15 / n));     /* variance of x^3: 15 */
    ck_assert(fabs(sum4 / n - 3) <= 5 * sqrt(96 / n)); /* variance of x^4: 105 - 9 */
    ck_assert(fabs(lag / n) <= 5 / sqrt(n));
    free(x);
}
END_TEST

START_TEST(uniform_moments)
{
    float *x = malloc(N * sizeof *x);
    double sum = 0, sum2 = 0;
    int bins[16] = { 0 };
    double n = N;

    ck_assert_ptr_nonnull(x);
    kvr_uniform(x, N, 99, KVR_RNG_TEST, 5, 6, 1);
    for (int i = 0; i < N; i++) {
        if (!(x[i] >= 0.0f && x[i] < 1.0f))
            ck_abort_msg("element %d is %g", i, (double)x[i]);
        sum += (double)x[i];
        sum2 += (double)x[i] * (double)x[i];
        bins[(int)(x[i] * 16.0f)]++;
    }
    ck_assert(fabs(sum / n - 0.5) <= 5 * sqrt(1.0 / 12 / n));
    ck_assert(fabs(sum2 / n - 1.0 / 3) <= 5 * sqrt((1.0 / 5 - 1.0 / 9) / n));
    for (int i = 0; i < 16; i++) /* binomial, p = 1/16 */
        ck_assert(fabs(bins[i] - n / 16) <= 5 * sqrt(n * 15 / 256));
    free(x);
}
END_TEST

/* Returns the error of x against y in units of 2^-52 of y. */
static double ulps(double x, long double y)
{
    return (double)(fabsl((long double)x - y) / fabsl(y)) * 0x1p52;
}

/* Compares kvr_pair_ln() and kvr_pair_rotate() with the library's long double functions, whose
 * results have 11 more bits. The unit is 2^-52 of the result. The last addition has an error of at
 * most 1/2 unit. In the logarithm, s has another 1/2. The later terms of the series are at most a
 * hundredth of the first, so the total is below 1.1 units. In cosine and sine, the terms after the
 * first are at most 1/6 of the sum. Their four roundings of 1/2 add 1/3 unit. */
START_TEST(logarithm_and_turn_are_exact_to_a_unit)
{
    static const uint32_t ends[] = { 0,          1,          2,          0x3fffffff, 0x40000000,
                                     0x7fffffff, 0x80000000, 0xb504f333, 0xb504f334, 0xbfffffff,
                                     0xc0000000, 0xfffffffe, 0xffffffff };
    double ln = 0, turn = 0;

    for (uint32_t i = 0; i < 1000000; i++) {
        const uint32_t u = i < 13 ? ends[i] : i * 2654435761u;
        const double angle = 6.283185307179586476925 * (((double)u + 0.5) * 0x1p-32);
        double c, s, off;

        off = ulps(kvr_pair_ln(2 * (uint64_t)u + 1), logl(((long double)u + 0.5L) * 0x1p-32L));
        ln = off <= ln ? ln : off;
        kvr_pair_rotate(angle, &c, &s);
        off = fmax(ulps(c, cosl((long double)angle)), ulps(s, sinl((long double)angle)));
        turn = off <= turn ? turn : off;
    }
    ck_assert_msg(ln <= 1.1, "ln: %g units", ln);
    ck_assert_msg(turn <= 0.84, "cosine and sine: %g units", turn);
}
END_TEST

/* kvr_normal_pair() gives the floats that the library's log, cos and sin in double precision give.
 * A double that is off by one unit rounds to another float with a probability of 2^-28, so at most
 * one of the 2^19 floats may differ. */
START_TEST(normals_are_those_of_the_library)
{
    enum { PAIRS = 1 << 18 };
    int other = 0;

    for (uint32_t i = 0; i < PAIRS; i++) {
        const uint32_t u = i * 2654435761u, v = ~(i * 2246822519u);
        const double r = sqrt(-2.0 * log(((double)u + 0.5) * 0x1p-32));
        const double angle = 6.283185307179586476925 * (((double)v + 0.5) * 0x1p-32);
        float x[2];

        kvr_normal_pair(u, v, x);
        other += x[0] != (float)(r * cos(angle));
        other += x[1] != (float)(r * sin(angle));
    }
    ck_assert_int_le(other, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rng");
    TCase *tc = tcase_create("rng");

    tcase_add_test(tc, known_answers);
    tcase_add_test(tc, counter_layout_is_the_documented_one);
    tcase_add_test(tc, any_part_is_the_same_alone);
    tcase_add_test(tc, streams_differ);
    tcase_add_test(tc, normal_moments);
    tcase_add_test(tc, uniform_moments);
    tcase_add_test(tc, logarithm_and_turn_are_exact_to_a_unit);
    tcase_add_test(tc, normals_are_those_of_the_library);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
