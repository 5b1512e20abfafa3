/* test_nuq.c - levels fitted to a block: bytes, exact elements, and that the levels are the best.
 */
#include "tests/methods/codec_tools.h"

#include "methods/codecs/nuq/nuq.h"
#include "tests/suite.h"

/* b + .32 bits and a little, KVQuant's own figure: 1 % exact in 32 bits, a range of 32 bits. */
START_TEST(sizes)
{
    const struct kvr_block_shape s = { 4680, 12, 128 };
    struct kvr_codec *k = open_codec("nuq(bits=3)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_codec *v = open_codec("nuq(bits=3,axis=token)", KVR_V, false, KVR_COMPUTE_F32);

    ck_assert_uint_eq(kvr_codec_bytes(k, &s), 4680 * 1536 * 3 / 8 + 32 + 1536 * (4 + 47 * 4));
    ck_assert_uint_eq(kvr_codec_bytes(v, &s), 4680 * 1536 * 3 / 8 + 32 + 4680 * (4 + 15 * 4));
    kvr_codec_close(&k);
    kvr_codec_close(&v);
}
END_TEST

enum { T = 200, H = 2, D = 32, W = H * D };
static const struct kvr_block_shape shape = { T, H, D };

/* Two humps, and an element of every vector far away. */
static void draw(float *x, bool by_token)
{
    kvr_normal(x, T * W, 7, KVR_RNG_TEST, 1, 0, 0);
    for (int i = 0; i < T * W; i++) {
        const int place = by_token ? i % W : i / W, vector = by_token ? i / W : i % W;

        x[i] = 0.1f * x[i] + (i * 7 % 13 < 5 ? 1.0f : -1.0f);
        if (place == vector * 5 % (by_token ? W : T))
            x[i] = 30;
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i])); /* FP16 holds it: exact is exact */
    }
}

static struct kvr_packed code(struct kvr_dev *dev, const struct kvr_codec *c, const float *x,
                              float *y)
{
    float *work = floats(T * W);
    struct kvr_packed p;

    ck_assert_msg(kvr_codec_encode(c, dev, x, &shape, work, &p) == KVR_OK, "%s", kvr_error());
    kvr_codec_decode(&p, 0, T, 0, H, y);
    free(work);
    return p;
}

/* What lies far away is read as FP16 and does not widen the range: humps of .1 within +-1.4 are
 * read to within a cell; a level is the mean of the elements that are coded as it. */
START_TEST(levels_are_means)
{
    const bool by_token = _i % 2;
    const int bits = 2 + _i / 2;
    const struct nuq g = { bits,
                           (int)rint(.01 * (by_token ? W : T)),
                           by_token,
                           T,
                           W,
                           by_token ? T : W,
                           by_token ? W : T };
    float *x = floats(T * W), *y = floats(T * W);
    struct kvr_dev *dev = open_dev();
    double sum[16] = { 0 }, weight[16] = { 0 }, error = 0;
    struct kvr_packed p;
    struct kvr_codec *c;
    const uint8_t *meta;
    char text[64];

    snprintf(text, sizeof text, "nuq(bits=%d,axis=%s)", bits, by_token ? "token" : "tokens");
    c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    draw(x, by_token);
    p = code(dev, c, x, y);
    meta = p.stage[0].meta.p;
    for (int i = 0; i < T * W; i++) {
        const int64_t v = by_token ? i / W : i % W;
        const double middle = kvr_f16_to_f32((kvr_f16)nuq_get(meta, nuq_middle_at(&g, v), 2));
        const double half = kvr_f16_to_f32((kvr_f16)nuq_get(meta, nuq_middle_at(&g, v) + 2, 2));
        int q = 0;

        ck_assert_msg(x[i] < 29 || y[i] == 30 || g.kept == 0, "%s: 30 reads %g", text,
                      (double)y[i]);
        if (x[i] > 29 || y[i] == x[i])
            continue;
        for (int l = 1; l < 1 << bits; l++) {
            const double a = cells_float(nuq_get(meta, 4 * l, 4)),
                         b = cells_float(nuq_get(meta, 4 * q, 4));

            q = fabs(a * half + middle - (double)y[i]) < fabs(b * half + middle - (double)y[i]) ? l
                                                                                                : q;
        }
        sum[q] += half * half * ((double)x[i] - middle) / half;
        weight[q] += half * half;
        error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    }
    for (int q = 0; q < 1 << bits; q++)
        if (weight[q] > 0) { /* means of bins of 2 / 1024 */
            const double level = cells_float(nuq_get(meta, 4 * q, 4));

            ck_assert_msg(fabs(sum[q] / weight[q] - level) <= 4e-3, "%s: level %d is %g, mean %g",
                          text, q, level, sum[q] / weight[q]);
        }
    /* A uniform grid over the same range errs by step^2 / 12. */
    ck_assert_msg(error / (T * W) <= 0.6 * pow(2.8 / (1 << bits), 2) / 12, "%s: %g", text,
                  error / (T * W));
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

/* norm=true: the variance of what is read is that of what was coded; without, it is less. */
START_TEST(norm_keeps_the_variance)
{
    float *x = floats(T * W), *y = floats(T * W);
    struct kvr_dev *dev = open_dev();
    double read[2];
    double given = 0;

    kvr_normal(x, T * W, 7, KVR_RNG_TEST, 2, 0, 0);
    for (int i = 0; i < T * W; i++)
        given += (double)x[i] * (double)x[i];
    for (int norm = 0; norm < 2; norm++) {
        struct kvr_codec *c =
            open_codec(norm ? "nuq(bits=2,exact=0,norm=true)" : "nuq(bits=2,exact=0)", KVR_K, false,
                       KVR_COMPUTE_F32);
        struct kvr_packed p = code(dev, c, x, y);

        read[norm] = 0;
        for (int i = 0; i < T * W; i++)
            read[norm] += (double)y[i] * (double)y[i];
        kvr_packed_free(&p);
        kvr_codec_close(&c);
    }
    ck_assert_msg(read[0] <= 0.95 * given, "%g of %g", read[0], given);
    /* By vectors of unlike ranges, weighted: to a few percent. */
    ck_assert_msg(fabs(read[1] / given - 1) <= 0.03, "%g of %g", read[1], given);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("nuq");
    TCase *tc = tcase_create("nuq");

    tcase_add_test(tc, sizes);
    tcase_add_loop_test(tc, levels_are_means, 0, 6);
    tcase_add_test(tc, norm_keeps_the_variance);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
