/* test_rotate.c - compares block rotations with random signs with their definition in double
 * precision, and tests the stages `mean` and `demean`. */
#include "tests/methods/codec_tools.h"

#include "tests/suite.h"

enum { D = 128, ROWS = 6 };

static const struct {
    const char *text;
    int block;
    bool signs;
} rotations[] = { { "rotate | raw(type=f32)", 128, false },
                  { "rotate(block=64) | raw(type=f32)", 64, false },
                  { "rotate(block=32,signs=7) | raw(type=f32)", 32, true },
                  { "rotate(signs=1) | raw(type=f32)", 128, true } };

/* Entry H[i][j] of Sylvester's matrix: (-1)^n, where n is the number of bits that i and j have
 * in common. */
static double walsh(int i, int j)
{
    return __builtin_popcount((unsigned)(i & j)) % 2 ? -1 : 1;
}

/* Row 0 of H has only +1, so the first element of a rotated block reveals the random sign of the
 * channel whose unit vector was rotated. Seven butterfly stages over 128 floats are off by less
 * than 1e-5 here. */
START_TEST(is_what_it_says)
{
    struct kvr_codec *c = open_codec(rotations[_i].text, KVR_K, false, KVR_COMPUTE_F32);
    const int b = rotations[_i].block;
    float x[ROWS * D], y[ROWS * D], q[ROWS * D], unit[D * D] = { 0 };
    int n_minus = 0;

    for (int i = 0; i < D; i++)
        unit[i * D + i] = 1;
    kvr_codec_transform(c, NULL, KVR_TO_SPACE, unit, D, 0, 1, D);
    kvr_normal(x, ROWS * D, 3, KVR_RNG_TEST, 1, 0, 0);
    memcpy(y, x, sizeof x);
    memcpy(q, x, sizeof x);
    kvr_codec_transform(c, NULL, KVR_TO_SPACE, y, ROWS, 0, 1, D);
    kvr_codec_transform(c, NULL, KVR_QUERY_TO_SPACE, q, ROWS, 0, 1, D);
    /* The rotation is orthogonal, so queries are transformed like keys. */
    ck_assert_mem_eq(y, q, sizeof y);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < D; i++) {
            double want = 0;

            for (int j = 0; j < b; j++) {
                const int from = i / b * b + j;
                const double sign = unit[from * D + from / b * b] < 0 ? -1 : 1;

                want += walsh(i % b, j) * sign * (double)x[r * D + from] / sqrt(b);
            }
            ck_assert_msg(fabs((double)y[r * D + i] - want) <= 1e-5, "%s: %d: %g, not %g", c->text,
                          i, (double)y[r * D + i], want);
        }
    for (int i = 0; i < D; i++)
        n_minus += unit[i * D + i / b * b] < 0;
    ck_assert(rotations[_i].signs ? n_minus > D / 4 && n_minus < 3 * D / 4 : n_minus == 0);
    kvr_codec_transform(c, NULL, KVR_FROM_SPACE, y, ROWS, 0, 1, D);
    for (int i = 0; i < ROWS * D; i++)
        ck_assert(fabsf(y[i] - x[i]) <= 1e-5f);
    kvr_codec_close(&c);
}
END_TEST

START_TEST(blocks_have_to_fit)
{
    struct kvr_codec *c = open_codec("rotate(block=48) | sym", KVR_K, false, KVR_COMPUTE_F32);

    ck_assert_int_eq(kvr_codec_check(c, 1, 96), KVR_EINVAL);
    ck_assert(strstr(kvr_error(), "48") != NULL);
    kvr_codec_close(&c);
    c = open_codec("rotate(block=32) | sym", KVR_K, false, KVR_COMPUTE_F32);
    ck_assert_int_eq(kvr_codec_check(c, 1, 96), KVR_OK);
    kvr_codec_close(&c);
}
END_TEST

/* With `mean`, a channel with a large offset has the same 4-bit error as one without, and the
 * offset is restored. */
START_TEST(offsets_cost_nothing)
{
    const struct kvr_block_shape s = { 512, 1, 64 };
    const size_t n = elements(&s);
    static const char *const text[] = { "ints(bits=4,scale=f16)", "mean | ints(bits=4,scale=f16)" };
    struct kvr_dev *dev = open_dev();
    float *x = floats(n), *y = floats(n), *work = floats(n);
    double error[2] = { 0 };

    kvr_normal(x, n, 3, KVR_RNG_TEST, 2, 0, 0);
    for (size_t i = 0; i < n; i++)
        x[i] += i % 64 == 5 ? 30.0f : 0;
    for (int k = 0; k < 2; k++) {
        struct kvr_codec *c = open_codec(text[k], KVR_K, false, KVR_COMPUTE_F32);
        struct kvr_packed p;

        ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
        kvr_codec_decode(&p, 0, s.n_tok, 0, 1, y);
        for (size_t i = 0; i < n; i++)
            error[k] += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]) / (double)n;
        kvr_packed_free(&p);
        kvr_codec_close(&c);
    }
    /* With `mean` the step is about 2.5 / 7, since values are standard normal; without it the step
     * is about 30 / 7. */
    ck_assert_msg(error[1] <= 0.02 && error[0] >= 0.5, "%g and %g", error[0], error[1]);
    kvr_dev_close(&dev);
    free(x);
    free(y);
    free(work);
}
END_TEST

/* `demean` subtracts the mean, and decoding does not add it again. The codec's error is therefore
 * reported as KVR_NOISE_MEASURED, not by a formula. */
START_TEST(demean_forgets)
{
    const struct kvr_block_shape s = { 1, 1, 8 };
    struct kvr_codec *c = open_codec("demean | raw(type=f32)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    float x[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, y[8], work[8];
    struct kvr_coding_noise noise;
    struct kvr_packed p;

    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, 1, 0, 1, y);
    for (int i = 0; i < 8; i++)
        ck_assert(y[i] == x[i] - 4.5f);
    kvr_codec_noise(&p, &noise);
    ck_assert_int_eq(noise.kind, KVR_NOISE_MEASURED);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rotate");
    TCase *tc = tcase_create("rotate");

    tcase_add_loop_test(tc, is_what_it_says, 0, (int)(sizeof rotations / sizeof *rotations));
    tcase_add_test(tc, blocks_have_to_fit);
    tcase_add_test(tc, offsets_cost_nothing);
    tcase_add_test(tc, demean_forgets);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
