/* test_lowrank.c - few directions: bytes, blocks that have no more, and the best error there is. */
#include "tests/methods/codec_tools.h"

#include "tests/suite.h"

/* A quarter of the channels in BF16: 4 bits, and 33 vectors of 128 for a head. */
START_TEST(sizes)
{
    const struct kvr_block_shape s = { 4680, 12, 128 };
    struct kvr_codec *c = open_codec("lowrank", KVR_K, false, KVR_COMPUTE_F32);

    ck_assert_uint_eq(kvr_codec_bytes(c, &s), 4680 * 1536 / 2 + 12 * 33 * 128 * 2);
    kvr_codec_close(&c);
}
END_TEST

enum { T = 150, H = 2, D = 32, W = H * D };
static const struct kvr_block_shape shape = { T, H, D };

/* Tokens that vary along `n` directions about a mean, those of variances 1, 1/4, 1/16, ... */
static void draw(float *x, int n)
{
    float u[D * D], mean[W], c[D];

    kvr_normal(u, D * D, 3, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(mean, W, 3, KVR_RNG_TEST, 2, 0, 0);
    for (int i = 0; i < n; i++) { /* orthonormal */
        double size = 0;

        for (int j = 0; j < i; j++) {
            double dot = 0;

            for (int e = 0; e < D; e++)
                dot += (double)u[i * D + e] * (double)u[j * D + e];
            for (int e = 0; e < D; e++)
                u[i * D + e] -= (float)dot * u[j * D + e];
        }
        for (int e = 0; e < D; e++)
            size += (double)u[i * D + e] * (double)u[i * D + e];
        for (int e = 0; e < D; e++)
            u[i * D + e] /= (float)sqrt(size);
    }
    for (int r = 0; r < T * H; r++) {
        kvr_normal(c, D, 3, KVR_RNG_TEST, 3, (uint32_t)r, 0);
        for (int e = 0; e < D; e++) {
            x[r * D + e] = 3 * mean[r % H * D + e];
            for (int i = 0; i < n; i++)
                x[r * D + e] += ldexpf(c[i], -i) * u[i * D + e];
        }
    }
}

/* Squared error, and that of reading the mean alone. */
static double error_of(const char *text, const float *x, double *all)
{
    struct kvr_codec *c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    float *work = floats(T * W), *y = floats(T * W);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p;
    double sum = 0;

    ck_assert_msg(kvr_codec_encode(c, dev, x, &shape, work, &p) == KVR_OK, "%s", kvr_error());
    kvr_codec_decode(&p, 0, T, 0, H, y);
    *all = 0;
    for (int e = 0; e < W; e++) {
        double mean = 0;

        for (int t = 0; t < T; t++)
            mean += (double)x[t * W + e] / T;
        for (int t = 0; t < T; t++) {
            const double far = (double)x[t * W + e] - mean,
                         left = (double)x[t * W + e] - (double)y[t * W + e];

            *all += far * far;
            sum += left * left;
        }
    }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(work);
    free(y);
    return sum;
}

/* As many directions as the block has: what is left is BF16's rounding, 2^-9 of each coordinate. */
START_TEST(blocks_of_few_directions)
{
    float *x = floats(T * W);
    double all, error;

    draw(x, 4);
    error = error_of("lowrank(share=0.125)", x, &all);
    /* Mean, coordinates and directions are rounded: three times 2^-9, of the mean of size 3 too. */
    ck_assert_msg(error <= 9 * 0x1p-18 * (all + 9.0 * T * W), "%g of %g", error, all);
    free(x);
}
END_TEST

/* Of directions of variances 1, 1/4, 1/16 .. two leave 1/16 + 1/64 + .. of 4/3: 6.25 %, and a
 * sample of 150 tokens of two heads is within a third of that. No two directions leave less. */
START_TEST(the_largest_are_kept)
{
    float *x = floats(T * W);
    double all, error;

    draw(x, D);
    error = error_of("lowrank(share=0.0625)", x, &all);
    ck_assert_msg(error >= 0.0417 * all && error <= 0.0834 * all, "%g of %g", error, all);
    free(x);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lowrank");
    TCase *tc = tcase_create("lowrank");

    tcase_add_test(tc, sizes);
    tcase_add_test(tc, blocks_of_few_directions);
    tcase_add_test(tc, the_largest_are_kept);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
