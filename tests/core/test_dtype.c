/* test_dtype.c - conversions of every narrow value, every midpoint, and a sweep of floats,
 * against a definition of round to nearest even. */
#include "harness/core/dtype.h"
#include "tests/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

/* SWEEP_STEP is a prime, so low bits have no pattern, and each exponent gets 2046 floats. */
enum { SWEEP_STEP = 4099 };

struct format {
    const char *name;
    enum kvr_dtype dtype;
    int bits, mantissa, bias;
    /* has_inf: codes with the largest exponent are infinity and NaN. Otherwise there is no
     * infinity, and NaN is the code whose bits below the sign are all set. */
    bool has_inf;
};

static const struct format formats[] = {
    { "bf16", KVR_BF16, 16, 7, 127, true },
    { "f16", KVR_F16, 16, 10, 15, true },
    { "e4m3", KVR_F8_E4M3, 8, 3, 7, false },
    { "e5m2", KVR_F8_E5M2, 8, 2, 15, true },
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static float widen(const struct format *f, unsigned code)
{
    switch (f->dtype) {
    case KVR_BF16:
        return kvr_bf16_to_f32((kvr_bf16)code);
    case KVR_F16:
        return kvr_f16_to_f32((kvr_f16)code);
    case KVR_F8_E4M3:
        return kvr_e4m3_to_f32((uint8_t)code);
    default:
        return kvr_e5m2_to_f32((uint8_t)code);
    }
}

static unsigned narrow(const struct format *f, float x)
{
    switch (f->dtype) {
    case KVR_BF16:
        return kvr_f32_to_bf16(x);
    case KVR_F16:
        return kvr_f32_to_f16(x);
    case KVR_F8_E4M3:
        return kvr_f32_to_e4m3(x);
    default:
        return kvr_f32_to_e5m2(x);
    }
}

static unsigned sign_bit(const struct format *f)
{
    return 1u << (f->bits - 1);
}

/* Returns the code of the largest finite value. */
static unsigned top_code(const struct format *f)
{
    unsigned all = sign_bit(f) - 1;

    return f->has_inf ? all - (1u << f->mantissa) : all - 1;
}

static bool is_nan_code(const struct format *f, unsigned code)
{
    unsigned a = code & (sign_bit(f) - 1);

    return f->has_inf ? a > top_code(f) + 1 : a > top_code(f);
}

/* Returns the value of a nonnegative code. The code after the largest finite value gets the value
 * that it would have without infinity and NaN. Rounding needs this value, because numbers that
 * overflow lie between it and the largest finite value, or above it. */
static double value(const struct format *f, unsigned abs_code)
{
    int e = (int)(abs_code >> f->mantissa);
    unsigned m = abs_code & ((1u << f->mantissa) - 1);

    if (e == 0)
        return ldexp(m, 1 - f->bias - f->mantissa);
    return ldexp((1u << f->mantissa) + m, e - f->bias - f->mantissa);
}

/* The definition of rounding: the nearer of two neighbours, or the even code in a tie. */
static unsigned nearest(const struct format *f, double x)
{
    unsigned sign = signbit(x) ? sign_bit(f) : 0;
    unsigned lo = 0, hi = top_code(f) + 1;
    double below, above;

    x = fabs(x);
    if (x >= value(f, hi)) {
        lo = hi;
    } else {
        while (hi - lo > 1) {
            unsigned mid = (lo + hi) / 2;

            if (value(f, mid) <= x)
                lo = mid;
            else
                hi = mid;
        }
        below = x - value(f, lo);
        above = value(f, hi) - x;
        if (above < below || (above == below && (hi & 1) == 0))
            lo = hi;
    }
    if (lo > top_code(f) && !f->has_inf)
        lo = top_code(f); /* saturates */
    return sign | lo;
}

static void check_narrow(const struct format *f, float x)
{
    unsigned got = narrow(f, x);
    unsigned want;

    if (isnan(x)) {
        if (!is_nan_code(f, got) || !(got & sign_bit(f)) != !signbit(x))
            ck_abort_msg("%s: NaN %08x became %04x", f->name, kvr_f32_bits(x), got);
        return;
    }
    want = nearest(f, x);
    if (got != want)
        ck_abort_msg("%s: %a became %04x, need %04x", f->name, (double)x, got, want);
}

START_TEST(every_code_has_its_value)
{
    const struct format *f = &formats[_i];
    unsigned n = 1u << f->bits;

    for (unsigned c = 0; c < n; c++) {
        unsigned a = c & (sign_bit(f) - 1);
        float x = widen(f, c);
        bool negative = (c & sign_bit(f)) != 0;
        double want = a > top_code(f) ? (double)INFINITY : value(f, a);

        if (is_nan_code(f, c) ? !isnan(x) : !((double)x == (negative ? -want : want)))
            ck_abort_msg("%s: code %04x is %a", f->name, c, (double)x);
        if (!signbit(x) != !negative)
            ck_abort_msg("%s: code %04x lost its sign", f->name, c);
    }
}
END_TEST

START_TEST(every_code_comes_back)
{
    const struct format *f = &formats[_i];
    unsigned n = 1u << f->bits;

    for (unsigned c = 0; c < n; c++) {
        unsigned got = narrow(f, widen(f, c));

        if (is_nan_code(f, c) ? !is_nan_code(f, got) || (got ^ c) & sign_bit(f) : got != c)
            ck_abort_msg("%s: code %04x came back as %04x", f->name, c, got);
    }
}
END_TEST

START_TEST(midpoints_and_their_neighbours)
{
    const struct format *f = &formats[_i];

    for (unsigned c = 0; c <= top_code(f); c++) {
        double mid = (value(f, c) + value(f, c + 1)) / 2;
        float x = (float)mid;

        if ((double)x != mid)
            ck_abort_msg("%s: midpoint %a is no float", f->name, mid);
        for (int s = -1; s <= 1; s += 2) {
            check_narrow(f, (float)s * x);
            check_narrow(f, (float)s * nextafterf(x, 0.0f));
            check_narrow(f, (float)s * nextafterf(x, INFINITY));
        }
    }
}
END_TEST

START_TEST(sweep_of_all_floats)
{
    const struct format *f = &formats[_i];

    for (uint64_t u = 0; u < (1ull << 32); u += SWEEP_STEP)
        check_narrow(f, kvr_bits_f32((uint32_t)u));
}
END_TEST

START_TEST(corners)
{
    const struct format *f = &formats[_i];
    static const uint32_t bits[] = {
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
        0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fbfffff, 0x7fc00000,
        0xffffffff, 0x7fffffff, 0x43e00000, 0x43e80000, 0x43e80001, 0x477fefff, 0x477ff000,
    };

    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        check_narrow(f, kvr_bits_f32(bits[i]));
}
END_TEST

/* Values worked out by hand, which would show an error common to the code and the definition. */
START_TEST(known_values)
{
    ck_assert_uint_eq(kvr_f32_to_bf16(1.0f), 0x3f80);
    ck_assert_uint_eq(kvr_f32_to_bf16(3.14159274f), 0x4049);
    ck_assert_uint_eq(kvr_f32_to_bf16(3.4e38f), 0x7f80);
    ck_assert_uint_eq(kvr_f32_to_f16(1.0f), 0x3c00);
    ck_assert_uint_eq(kvr_f32_to_f16(65504.0f), 0x7bff);
    ck_assert_uint_eq(kvr_f32_to_f16(65519.996f), 0x7bff);
    ck_assert_uint_eq(kvr_f32_to_f16(65520.0f), 0x7c00);
    ck_assert_uint_eq(kvr_f32_to_f16(0x1p-25f), 0x0000);
    ck_assert_uint_eq(kvr_f32_to_f16(0x1.8p-25f), 0x0001);
    ck_assert_uint_eq(kvr_f32_to_e4m3(1.0f), 0x38);
    ck_assert_uint_eq(kvr_f32_to_e4m3(448.0f), 0x7e);
    ck_assert_uint_eq(kvr_f32_to_e4m3(-1e9f), 0xfe);
    ck_assert_uint_eq(kvr_f32_to_e4m3(INFINITY), 0x7e);
    ck_assert_uint_eq(kvr_f32_to_e5m2(1.0f), 0x3c);
    ck_assert_uint_eq(kvr_f32_to_e5m2(57344.0f), 0x7b);
    ck_assert_uint_eq(kvr_f32_to_e5m2(61440.0f), 0x7c);
    ck_assert(kvr_e4m3_to_f32(0x01) == 0x1p-9f);
    ck_assert(kvr_e5m2_to_f32(0x01) == 0x1p-16f);
}
END_TEST

static bool same_bits(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n) == 0;
}

/* The bulk conversions equal the scalar ones bit for bit, including NaN payloads. */
START_TEST(bulk_widening_is_the_scalar_one)
{
    const struct format *f = &formats[_i];
    size_t n = (size_t)1 << f->bits;
    size_t size = kvr_dtype_size(f->dtype);
    unsigned char *src = malloc(n * size + 1);
    float *dst = malloc((n + 1) * sizeof *dst);

    ck_assert(src && dst);
    /* The source is off by one byte, since it need not be aligned. */
    for (size_t c = 0; c < n; c++) {
        uint16_t h = (uint16_t)c;

        if (size == 2)
            memcpy(src + 1 + 2 * c, &h, 2);
        else
            src[1 + c] = (unsigned char)c;
    }
    dst[n] = 42.0f;
    kvr_to_f32(dst, src + 1, f->dtype, n);
    for (size_t c = 0; c < n; c++) {
        float want = widen(f, (unsigned)c);

        if (!same_bits(&dst[c], &want, sizeof want))
            ck_abort_msg("%s: code %04zx: bulk %a, scalar %a", f->name, c, (double)dst[c],
                         (double)want);
    }
    ck_assert(dst[n] == 42.0f);
    free(src);
    free(dst);
}
END_TEST

START_TEST(bulk_narrowing_is_the_scalar_one)
{
    const struct format *f = &formats[_i];
    size_t size = kvr_dtype_size(f->dtype);
    /* N is odd, so that every tail length occurs. */
    enum { N = 1021 };
    float src[N];
    unsigned char dst[2 * N + 1];
    uint64_t u = 0;

    while (u < (1ull << 32)) {
        size_t n = 0;

        for (; n < N && u < (1ull << 32); u += SWEEP_STEP)
            src[n++] = kvr_bits_f32((uint32_t)u);
        n -= (size_t)(u / SWEEP_STEP % 17) % n;
        dst[n * size] = 0x5a;
        kvr_from_f32(dst, f->dtype, src, n);
        if (dst[n * size] != 0x5a)
            ck_abort_msg("%s: wrote past %zu elements", f->name, n);
        for (size_t i = 0; i < n; i++) {
            uint16_t got = dst[i];

            if (size == 2)
                memcpy(&got, dst + 2 * i, 2);
            if (got != narrow(f, src[i]))
                ck_abort_msg("%s: %08x: bulk %04x, scalar %04x", f->name, kvr_f32_bits(src[i]), got,
                             narrow(f, src[i]));
        }
    }
}
END_TEST

START_TEST(wide_types)
{
    const float src[] = { 0.0f, -0.0f, 1.5f, -3.25e-40f, 3.4e38f, INFINITY };
    enum { N = sizeof src / sizeof *src };
    const double wide[] = { 1e300, -1e-300, 1.0 + 0x1p-24, 1.0 + 0x1.8p-24 };
    const float want[] = { INFINITY, -0.0f, 1.0f, 1.0f + 0x1p-23f };
    double d[N];
    float back[N], narrowed[4];

    kvr_from_f32(d, KVR_F64, src, N);
    kvr_to_f32(back, d, KVR_F64, N);
    ck_assert(same_bits(back, src, sizeof src));
    kvr_from_f32(back, KVR_F32, src, N);
    ck_assert(same_bits(back, src, sizeof src));
    kvr_to_f32(back, src, KVR_F32, N);
    ck_assert(same_bits(back, src, sizeof src));
    kvr_to_f32(narrowed, wide, KVR_F64, 4);
    ck_assert(same_bits(narrowed, want, sizeof want));
    kvr_to_f32(NULL, NULL, KVR_F32, 0);
    kvr_from_f32(NULL, KVR_F32, NULL, 0);
}
END_TEST

START_TEST(names_and_sizes)
{
    static const char *const names[KVR_N_DTYPES] = {
        "F32", "F64", "F16", "BF16", "F8_E4M3", "F8_E5M2", "BOOL", "U8",
        "I8",  "U16", "I16", "U32",  "I32",     "U64",     "I64",
    };
    static const size_t sizes[KVR_N_DTYPES] = { 4, 8, 2, 2, 1, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8 };
    enum kvr_dtype t = KVR_I64;

    for (int i = 0; i < KVR_N_DTYPES; i++) {
        ck_assert_str_eq(kvr_dtype_name((enum kvr_dtype)i), names[i]);
        ck_assert_uint_eq(kvr_dtype_size((enum kvr_dtype)i), sizes[i]);
        ck_assert(kvr_dtype_parse(names[i], &t));
        ck_assert_int_eq((int)t, i);
    }
    ck_assert(!kvr_dtype_parse("f32", &t));
    ck_assert(!kvr_dtype_parse("", &t));
    ck_assert(!kvr_dtype_parse("F8_E4M3FN", &t));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtype");
    TCase *tc = tcase_create("dtype");

    tcase_add_loop_test(tc, every_code_has_its_value, 0, N_FORMATS);
    tcase_add_loop_test(tc, every_code_comes_back, 0, N_FORMATS);
    tcase_add_loop_test(tc, midpoints_and_their_neighbours, 0, N_FORMATS);
    tcase_add_loop_test(tc, sweep_of_all_floats, 0, N_FORMATS);
    tcase_add_loop_test(tc, corners, 0, N_FORMATS);
    tcase_add_test(tc, known_values);
    tcase_add_loop_test(tc, bulk_widening_is_the_scalar_one, 0, N_FORMATS);
    tcase_add_loop_test(tc, bulk_narrowing_is_the_scalar_one, 0, N_FORMATS);
    tcase_add_test(tc, wide_types);
    tcase_add_test(tc, names_and_sizes);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
