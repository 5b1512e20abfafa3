/* test_packkv.c - PackKV: the permutation changes bytes but no value, values match the definition,
 * and the size bound holds. */
#include "tests/methods/codec_tools.h"

#include "tests/suite.h"

enum { T = 150, H = 2, D = 16, W = H * D };

static const struct kvr_block_shape shape = { T, H, D };

START_TEST(an_order_is_no_loss)
{
    static float x[T * W], y[3][T * W];
    int64_t n[3];

    fill_block(x, &shape, (enum fill)(_i % N_FILLS), 3);
    /* In the last case, four kinds of tokens alternate. The greedy order collects similar tokens,
     * so that the codes of 16 consecutive tokens have small ranges and need few bits. */
    if (_i >= N_FILLS)
        for (int t = 0; t < T; t++)
            for (int c = 0; c < W; c++)
                x[t * W + c] = x[t % 4 * W + c] + 1e-3f * x[t * W + c];
    n[0] = there_and_back("packkv(order=none)", &shape, x, y[0]);
    n[1] = there_and_back("packkv(order=median)", &shape, x, y[1]);
    n[2] = there_and_back("packkv", &shape, x, y[2]);
    for (int i = 0; i < T * W; i++)
        for (int k = 1; k < 3; k++)
            ck_assert(y[k][i] == y[0][i] || (y[k][i] != y[k][i] && y[0][i] != y[0][i]));
    if (_i >= N_FILLS)
        ck_assert_msg(n[2] < n[0], "greedy %lld, none %lld", (long long)n[2], (long long)n[0]);
}
END_TEST

static float half(float x)
{
    return kvr_f16_to_f32(kvr_f32_to_f16(x));
}

START_TEST(values_by_the_slow_model)
{
    const float rel = _i ? .2f : .1f;
    static float x[T * W], y[T * W];

    fill_block(x, &shape, FILL_NORMAL, 5);
    there_and_back(_i ? "packkv(rel=0.2,bits=3)" : "packkv", &shape, x, y);
    for (int t = 0; t < T; t++) {
        float lo = INFINITY, hi = -INFINITY, s, z;

        for (int c = 0; c < W; c++) {
            lo = fminf(lo, half(x[t * W + c]));
            hi = fmaxf(hi, half(x[t * W + c]));
        }
        s = half(half(hi - lo) * rel);
        z = rintf(half(lo / s));
        for (int c = 0; c < W; c++) {
            const float q = rintf(half(half(x[t * W + c]) / s)) - z;
            const float want = t < T / 64 * 64 ? (q + z) * s : x[t * W + c];

            ck_assert_msg(y[t * W + c] == want, "token %d: %a, not %a", t, (double)y[t * W + c],
                          (double)want);
            ck_assert(t >= T / 64 * 64 || (q >= 0 && q <= (_i ? 7 : 15)));
        }
    }
}
END_TEST

/* The published upper bound of bits per element counts the packed codes, 16 bytes per head of a
 * 64-token block, and 4 bytes per token. kvreel stores one more byte per token, its position. */
START_TEST(most_is_the_published)
{
    const struct kvr_block_shape s = { 32768, 12, 128 };
    struct kvr_codec *c =
        open_codec(_i ? "packkv(rel=0.2,bits=3)" : "packkv", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_layout l;
    double bits;

    kvr_codec_layout(c, 0, &s, &l);
    bits =
        8 * (double)(l.bytes.meta + l.bytes.codes + (size_t)l.most_entries) / (double)elements(&s);
    ck_assert_msg(fabs(bits - ((_i ? 3 + 5 / 16. : 4 + 7 / 16.) + (32 + 8) / 1536. + 1 / 64.)) <=
                      1e-9,
                  "%g", bits);
    ck_assert_msg(fabs(bits - 8 / 1536. - (_i ? 3.35 : 4.47)) <= .005, "%g", bits);
    kvr_codec_close(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("packkv");
    TCase *tc = tcase_create("packkv");

    tcase_add_loop_test(tc, an_order_is_no_loss, 0, N_FILLS + 1);
    tcase_add_loop_test(tc, values_by_the_slow_model, 0, 2);
    tcase_add_loop_test(tc, most_is_the_published, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
