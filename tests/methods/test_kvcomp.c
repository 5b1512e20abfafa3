/* test_kvcomp.c - KVComp: lossless Huffman coding of the symbols, size near the entropy,
 * constants, and absent symbols. */
#include "tests/methods/codec_tools.h"

#include "tests/suite.h"

enum { T = 150, H = 2, D = 16, W = H * D };

static const struct kvr_block_shape shape = { T, H, D };

/* KVComp decodes to the same values as PackKV for any data, since its variable-length code is
 * lossless. */
START_TEST(symbols_come_back)
{
    static const char *const text[][2] = { { "kvcomp", "packkv" },
                                           { "kvcomp(rel=0.2,bits=3)", "packkv(rel=0.2,bits=3)" } };
    static float x[T * W], y[2][T * W];

    fill_block(x, &shape, (enum fill)(_i / 2), 3);
    for (int k = 0; k < 2; k++)
        there_and_back(text[_i % 2][k], &shape, x, y[k]);
    for (int i = 0; i < T * W; i++)
        ck_assert(y[0][i] == y[1][i] || (y[0][i] != y[0][i] && y[1][i] != y[1][i]));
}
END_TEST

/* Each block of 64 tokens has one step, so the symbols follow from the decoded values. The
 * stored bytes are within 5 % of the symbols' entropy. */
START_TEST(bytes_are_near_entropy)
{
    const int64_t n = T / 64 * 64 * W;
    static float x[T * W], y[T * W];
    int64_t count[16] = { 0 }, bytes;
    double entropy = 0;

    fill_block(x, &shape, FILL_NORMAL, 5);
    bytes = there_and_back("kvcomp(over=block)", &shape, x, y);
    for (int b = 0; b < T / 64; b++) {
        float lo = INFINITY, hi = -INFINITY, step;

        for (int i = b * 64 * W; i < (b + 1) * 64 * W; i++) {
            lo = fminf(lo, kvr_f16_to_f32(kvr_f32_to_f16(x[i])));
            hi = fmaxf(hi, kvr_f16_to_f32(kvr_f32_to_f16(x[i])));
        }
        step = kvr_f16_to_f32(kvr_f32_to_f16(kvr_f16_to_f32(kvr_f32_to_f16(hi - lo)) * .1f));
        for (int i = b * 64 * W; i < (b + 1) * 64 * W; i++) {
            const float q = rintf(y[i] / step) - rintf(lo / step);

            ck_assert(fabsf(y[i] - x[i]) <= .51f * step && q >= 0 && q < 16);
            count[(int)q]++;
        }
    }
    for (int q = 0; q < 16; q++)
        if (count[q])
            entropy -= (double)count[q] * log2((double)count[q] / (double)n);
    ck_assert_msg(8 * (double)bytes >= entropy && 8 * (double)bytes <= entropy * 1.05 + 8. * 8,
                  "%lld bytes, entropy %g", (long long)bytes, entropy / 8);
}
END_TEST

/* Side information: 6 bytes per unit of 8192 elements and 2 per head vector of 128 are .131 bits
 * per element. The Huffman code adds 16 bytes, and the scales 4 bytes per token or per 64
 * tokens. */
START_TEST(sizes_are_the_published)
{
    const struct kvr_block_shape s = { 32768, 12, 128 };
    struct kvr_codec *c =
        open_codec(_i ? "kvcomp(over=block)" : "kvcomp", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_layout l;
    double bits;

    kvr_codec_layout(c, 0, &s, &l);
    bits = 8 * (double)(l.bytes.meta - 16 - 4 * (size_t)(_i ? s.n_tok / 64 : s.n_tok)) /
           (double)elements(&s);
    ck_assert_msg(fabs(bits - (48 / 8192. + 16 / 128.)) <= 1e-9, "%g", bits);
    kvr_codec_close(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kvcomp");
    TCase *tc = tcase_create("kvcomp");

    tcase_add_loop_test(tc, symbols_come_back, 0, 2 * N_FILLS);
    tcase_add_test(tc, bytes_are_near_entropy);
    tcase_add_loop_test(tc, sizes_are_the_published, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
