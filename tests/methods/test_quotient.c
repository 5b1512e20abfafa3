/* test_quotient.c - results of kvr_quotient() are bit-identical to a division, for every 11-bit
 * divisor and for the square roots of the Walsh-Hadamard transform. */
#include "methods/kernels/quotient.h"

#include <stdlib.h>

#include "harness/core/dtype.h"
#include "tests/suite.h"

static void check(float y, float s, float inv)
{
    const float want = y / s, got = kvr_quotient(y, s, inv);

    if (kvr_f32_bits(want) != kvr_f32_bits(got) && !(isnan(want) && isnan(got)))
        ck_abort_msg("%a / %a: %a, by products %a", (double)y, (double)s, (double)want,
                     (double)got);
    if (isfinite(y) && !(kvr_quotient_finite(y, s, inv) == want))
        ck_abort_msg("%a / %a: finite: %a", (double)y, (double)s, (double)want);
}

/* Step between the dividends tried for each 11-bit divisor. It is a prime, and the first dividend
 * depends on the divisor, so that divisors are tested with different dividends. With KVREEL_EVERY=1
 * all 2^33 pairs are tried. */
static unsigned stride(void)
{
    return getenv("KVREEL_EVERY") ? 1 : 1021;
}

/* Exponents and signs are exact in every operation, so one dividend per significand is enough. */
START_TEST(steps)
{
    const unsigned every = stride();

    for (unsigned m = 1024; m < 2048; m++) {
        const float s = (float)m, inv = 1 / s;
        unsigned wrong = 0;

        for (unsigned u = m % every; u < 1u << 23; u += every) {
            const float y = kvr_bits_f32(0x3f800000u | u);

            wrong += kvr_quotient_finite(y, s, inv) != y / s;
        }
        ck_assert_msg(wrong == 0, "%u wrong by %u", wrong, m);
        /* Dividends next to the values at which a code changes. */
        for (unsigned q = 0; q < 512; q++)
            for (int near = -2; near <= 2; near++)
                check(kvr_bits_f32(kvr_f32_bits(((float)q + 0.5f) * s) + (unsigned)near), s, inv);
    }
}
END_TEST

/* kvr_inverse_refine() turns an approximation of 1 / s that is off by at most 4 ulp into the
 * correctly rounded 1 / s. */
START_TEST(inverses)
{
    for (unsigned m = 1024; m < 2048; m++)
        for (int sign = -1; sign <= 1; sign += 2)
            for (int by = -4; by <= 4; by++) {
                const float s = (float)sign * (float)m, want = 1 / s;
                const float near = kvr_bits_f32(kvr_f32_bits(want) + (unsigned)by);
                const float got = kvr_inverse_refine(near, s);

                ck_assert_msg(got == want, "1 / %u from %d: %a, not %a", m, by, (double)got,
                              (double)want);
            }
}
END_TEST

START_TEST(roots)
{
    static const int d[] = { 2, 8, 32, 128, 512 };

    for (size_t i = 0; i < sizeof d / sizeof *d; i++) {
        const float s = sqrtf((float)d[i]), inv = 1 / s;
        unsigned wrong = 0;

        for (unsigned u = 0; u < 1u << 23; u++) {
            const float y = kvr_bits_f32(0x3f800000u | u);

            wrong += kvr_quotient(y, s, inv) != y / s;
        }
        ck_assert_msg(wrong == 0, "d = %d: %u", d[i], wrong);
    }
}
END_TEST

/* Zeros, infinities, NaN, and the limits of the range that the header allows. */
START_TEST(edges)
{
    static const float y[] = { 0.0f, -0.0f,     INFINITY,          -INFINITY,
                               NAN,  0x1p-100f, -0x1.fffffep-100f, 0x1.fffffep103f };
    static const float s[] = { 1, 3, 0x1p-24f, -0x1.ffcp-14f, 65504, 11.3137083f };

    for (size_t i = 0; i < sizeof y / sizeof *y; i++)
        for (size_t j = 0; j < sizeof s / sizeof *s; j++)
            /* With a negative divisor, a zero may have either sign. */
            if (y[i] != 0 || s[j] > 0)
                check(y[i], s[j], 1 / s[j]);
    ck_assert(kvr_quotient(0, -3, 1.0f / -3) == 0);
    ck_assert(isnan(kvr_quotient_any(NAN, 3, 1.0f / 3)));
    ck_assert(kvr_quotient_any(-INFINITY, 3, 1.0f / 3) == -INFINITY);
    /* The quotient exceeds the range of F32. */
    ck_assert(kvr_quotient_any(0x1p127f, 1e-8f, 1 / 1e-8f) == INFINITY);
}
END_TEST

/* For subnormal dividends, the result differs from a division by at most 2^-149, and it is 0
 * exactly when the division gives 0. */
START_TEST(below)
{
    static const float s[] = { 3, 7, 127, 255, 11.3137083f };

    for (size_t j = 0; j < sizeof s / sizeof *s; j++)
        for (unsigned u = 0; u < 1u << 16; u++) {
            const float y = kvr_bits_f32(u), q = kvr_quotient_finite(y, s[j], 1 / s[j]);

            ck_assert((q == 0) == (y / s[j] == 0));
            ck_assert(fabsf(q - y / s[j]) <= 0x1p-149f);
        }
}
END_TEST

/* Divisors with 24 significant bits, for which two corrections are needed. */
START_TEST(any_divisor)
{
    unsigned state = 1;

    for (int i = 0; i < 1 << 20; i++) {
        float s, y;

        state = state * 1664525u + 1013904223u;
        s = kvr_bits_f32(0x3f800000u | (state >> 9));
        state = state * 1664525u + 1013904223u;
        y = kvr_bits_f32(0x3f800000u | (state >> 9));
        ck_assert(kvr_quotient_any(y, s, 1 / s) == y / s);
        /* dividends near the values at which a code changes */
        y = ((float)(i % 255) + 0.5f) * s;
        ck_assert(kvr_quotient_any(y, s, 1 / s) == y / s);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("quotient");
    TCase *tc = tcase_create("quotient");

    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, steps);
    tcase_add_test(tc, inverses);
    tcase_add_test(tc, roots);
    tcase_add_test(tc, edges);
    tcase_add_test(tc, below);
    tcase_add_test(tc, any_divisor);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
