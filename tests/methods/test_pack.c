/* test_pack.c - packed bit planes: every bit width, token counts that leave the last byte of a
 * plane incomplete, and every range of channels. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "methods/kernels/pack.h"
#include "tests/suite.h"

enum { MAX_T = 41, C = 19, GUARD = 64 };

static uint8_t code(int bits, int64_t t, int64_t c)
{
    return (uint8_t)((unsigned)(t * 37 + c * 101 + t * c) * 2654435761u >> 13 &
                     ((1u << bits) - 1u));
}

static void check_guard(const uint8_t *p, size_t n)
{
    for (int i = 0; i < GUARD; i++)
        if (p[n + (size_t)i] != 0xa5)
            ck_abort_msg("byte %d after the end was written", i);
}

/* Reads the code of token t and channel c from the layout drawn in pack.h. */
static unsigned by_the_drawing(const uint8_t *packed, int64_t n_tok, int bits, int64_t t, int64_t c)
{
    unsigned value = 0;

    for (int f = 8; f >= 1; f /= 2) {
        const int per_byte = 8 / f;

        if (!(bits & f))
            continue;
        value = value << f | (packed[t / per_byte * C + c] >> (t % per_byte * f) & ((1 << f) - 1));
        packed += (n_tok + per_byte - 1) / per_byte * C;
    }
    return value;
}

START_TEST(round_trip)
{
    const int bits = _i % 8 + 1;
    const int64_t n_tok = (int[]){ 1, 7, 8, 9, 16, 40, 41 }[_i / 8];
    const size_t n = kvr_pack_bytes(n_tok, C, bits);
    uint8_t *packed = malloc(n + GUARD), codes[MAX_T * C], back[C + GUARD];

    ck_assert_ptr_nonnull(packed);
    memset(packed, 0xa5, n + GUARD);
    /* Each call packs 8 tokens and 1 to 7 channels. The last tokens come first. */
    for (int64_t t0 = (n_tok - 1) / 8 * 8; t0 >= 0; t0 -= 8)
        for (int64_t c0 = 0; c0 < C;) {
            const int64_t m = n_tok - t0 < 8 ? n_tok - t0 : 8;
            const int64_t nc = c0 == 0 ? 1 : C - c0 < 7 ? C - c0 : 7;

            for (int64_t t = 0; t < m; t++)
                for (int64_t c = 0; c < nc; c++)
                    codes[t * nc + c] = code(bits, t0 + t, c0 + c);
            kvr_pack(packed, n_tok, C, bits, t0, m, c0, nc, codes);
            c0 += nc;
        }
    check_guard(packed, n);
    for (int64_t t = 0; t < n_tok; t++) {
        for (int64_t c = 0; c < C; c++)
            if (by_the_drawing(packed, n_tok, bits, t, c) != code(bits, t, c))
                ck_abort_msg("%d bits: token %d, channel %d", bits, (int)t, (int)c);
        for (int64_t c0 = 0; c0 < C; c0++)
            for (int64_t nc = 1; nc <= C - c0; nc++) {
                memset(back, 0xa5, sizeof back);
                kvr_unpack_token(packed, n_tok, C, bits, t, c0, nc, back);
                check_guard(back, (size_t)nc);
                for (int64_t c = 0; c < nc; c++)
                    if (back[c] != code(bits, t, c0 + c))
                        ck_abort_msg("%d bits: unpacked token %d, channel %d", bits, (int)t,
                                     (int)(c0 + c));
            }
    }
    free(packed);
}
END_TEST

/* Bits of the last byte that belong to no token are 0, so that equal codes give equal bytes. */
START_TEST(spare_fields_are_zero)
{
    uint8_t codes[3 * C], packed[2 * C];

    memset(codes, 3, sizeof codes);
    memset(packed, 0xff, sizeof packed);
    kvr_pack(packed, 3, C, 2, 0, 3, 0, C, codes);
    for (int c = 0; c < C; c++)
        ck_assert_uint_eq(packed[c], 0x3f);
}
END_TEST

/* A plane of f-bit fields has f * n_tok bits per channel, rounded up to a byte. */
START_TEST(bytes_are_the_formula)
{
    for (int64_t t = 0; t <= 40; t++) {
        ck_assert_uint_eq(kvr_pack_bytes(t, C, 8), (size_t)(t * C));
        ck_assert_uint_eq(kvr_pack_bytes(t, C, 4), (size_t)((t + 1) / 2 * C));
        ck_assert_uint_eq(kvr_pack_bytes(t, C, 2), (size_t)((t + 3) / 4 * C));
        ck_assert_uint_eq(kvr_pack_bytes(t, C, 3), (size_t)(((t + 3) / 4 + (t + 7) / 8) * C));
        ck_assert_uint_eq(kvr_pack_bytes(t, C, 7),
                          (size_t)(((t + 1) / 2 + (t + 3) / 4 + (t + 7) / 8) * C));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pack");
    TCase *tc = tcase_create("pack");

    suite_add_tcase(s, tc);
    tcase_add_loop_test(tc, round_trip, 0, 8 * 7);
    tcase_add_test(tc, spare_fields_are_zero);
    tcase_add_test(tc, bytes_are_the_formula);
    return run_suite_forked(s);
}
