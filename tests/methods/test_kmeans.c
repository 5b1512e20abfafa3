/* test_kmeans.c - k-means centroids: stored bytes, labels compared with the nearest centroid in
 * double precision, and decoding without loss if the residual is stored in FP32. */
#include "tests/methods/codec_tools.h"

#include "methods/method.h"
#include "tests/suite.h"

/* Bits per element that Quant VideoGen publishes for blocks of N tokens, with BF16 centres. */
static const struct {
    const char *method;
    int64_t n;
    double bits;
} published[] = {
    { "QVG_INT2", 4680, 3.063 },       { "QVG_INT4", 4680, 5.063 },
    { "QVG_PRO_INT2", 4680, 6.251 },   { "QVG_PRO_INT4", 4680, 8.251 },
    { "QVG_INT2", 9360, 2.625 },       { "QVG_PRO_INT2", 9360, 4.5 },
    { "QVG_INT2", 18720, 2.406 },      { "QVG_PRO_INT4", 18720, 5.625 },
    { "QVG_INT2", 29640, 2.326 },      { "QVG_PRO_INT2", 29640, 3.303 },
    { "QVG_INT2", 37440, 2.297 },      { "QVG_INT4", 37440, 4.297 },
    { "QVG_PRO_INT2", 37440, 3.188 },  { "QVG_PRO_INT4", 37440, 5.188 },
    { "QVG_INT2_ASYM", 37440, 2.422 }, { "QVG_INT2_ASYM", 4680, 3.188 },
};
enum { N_PUBLISHED = sizeof published / sizeof *published };

START_TEST(sizes_are_the_published)
{
    const struct kvr_block_shape s = { published[_i].n, 12, 128 };
    const double scalars = (double)elements(&s);
    struct kvr_scheme *p;
    double bits;

    ck_assert_msg(kvr_scheme_open(&p, published[_i].method, NULL, 0) == KVR_OK, "%s", kvr_error());
    bits = 8 * (double)kvr_codec_bytes(p->k[0], &s) / scalars;
    /* Bits were published with three decimals. */
    ck_assert_msg(fabs(bits - published[_i].bits) <= 5.1e-4, "%s: %g bits, published %g",
                  published[_i].method, bits, published[_i].bits);
    kvr_scheme_close(&p);
}
END_TEST

enum { T = 300, H = 2, D = 32, K = 16 };
static const struct kvr_block_shape shape = { T, H, D };

static void draw(float *x, uint32_t seed)
{
    float centre[20 * D];

    kvr_normal(centre, 20 * D, 3, KVR_RNG_TEST, seed, 1, 0);
    kvr_normal(x, (size_t)T * H * D, 3, KVR_RNG_TEST, seed, 2, 0);
    for (int i = 0; i < T * H; i++)
        for (int c = 0; c < D; c++)
            x[i * D + c] = 0.1f * x[i * D + c] + centre[i * 7 % 20 * D + c];
}

/* X = R + sum C: the residual R plus one centre C per stage. Each FP32 addition is off by less than
 * 1e-6 here. */
START_TEST(nothing_is_lost)
{
    char text[64];
    float *x = floats(T * H * D), *y = floats(T * H * D), *work = floats(T * H * D);
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c;
    struct kvr_packed p;

    snprintf(text, sizeof text, "kmeans(k=16,stages=%d) | raw(type=f32)", _i + 1);
    c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    draw(x, 1);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, T, 0, H, y);
    for (int i = 0; i < T * H * D; i++)
        ck_assert(fabsf(x[i] - y[i]) <= 1e-6f * (float)(_i + 1) * (1 + fabsf(x[i])));
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
    free(work);
}
END_TEST

/* With left=bf16, the grid receives the residual rounded to BF16. */
START_TEST(what_is_left_may_be_rounded)
{
    float *x = floats(T * H * D), *work = floats(T * H * D);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p[2];
    struct kvr_codec *c[2];

    draw(x, 6);
    for (int i = 0; i < 2; i++) {
        c[i] = open_codec(i ? "kmeans(k=16,left=bf16) | raw(type=f32)"
                            : "kmeans(k=16) | raw(type=f32)",
                          KVR_K, false, KVR_COMPUTE_F32);
        ck_assert_int_eq(kvr_codec_encode(c[i], dev, x, &shape, work, &p[i]), KVR_OK);
    }
    ck_assert_mem_eq(p[0].stage[0].codes.p, p[1].stage[0].codes.p, T * H);
    for (int i = 0; i < T * H * D; i++) {
        const float plain = ((float *)p[0].stage[1].codes.p)[i];

        ck_assert(((float *)p[1].stage[1].codes.p)[i] == kvr_bf16_to_f32(kvr_f32_to_bf16(plain)));
    }
    for (int i = 0; i < 2; i++) {
        kvr_packed_free(&p[i]);
        kvr_codec_close(&c[i]);
    }
    kvr_dev_close(&dev);
    free(x);
    free(work);
}
END_TEST

/* After 40 iterations the labels have converged. Each is the nearest centre by distances in
 * double precision, up to rounding. */
START_TEST(labels_are_of_the_nearest)
{
    float *x = floats(T * H * D), *work = floats(T * H * D);
    struct kvr_codec *c =
        open_codec("kmeans(k=16,iterations=40) | raw(type=f32)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p;
    const kvr_bf16 *centre;
    const uint8_t *label;
    double left = 0, all = 0;

    draw(x, 2);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
    label = p.stage[0].codes.p;
    centre = p.stage[0].meta.p;
    for (int t = 0; t < T; t++)
        for (int h = 0; h < H; h++) {
            double mine = 0, least = INFINITY, size = 0;

            for (int k = 0; k < K; k++) {
                double far = 0;

                for (int e = 0; e < D; e++) {
                    const double v = (double)x[(t * H + h) * D + e] -
                                     (double)kvr_bf16_to_f32(centre[(h * K + k) * D + e]);

                    far += v * v;
                    size += k ? 0 : (double)x[(t * H + h) * D + e] * (double)x[(t * H + h) * D + e];
                }
                mine = k == label[t * H + h] ? far : mine;
                least = fmin(least, far);
            }
            /* The labels have converged, so a label differs from the nearest centre only if
             * rounding of the FP32 distances decides, about 64 roundings of numbers up to
             * `size`. */
            ck_assert_msg(mine <= least + 1e-5 * size, "%g, the nearest is at %g", mine, least);
            left += mine;
            all += size;
        }
    ck_assert_msg(left <= 0.5 * all, "%g of %g", left, all);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
}
END_TEST

static void code(struct kvr_packed *p, struct kvr_dev *dev, const struct kvr_codec *c, float *x,
                 const struct kvr_block_shape *s)
{
    float *work = floats(elements(s));

    ck_assert_int_eq(kvr_codec_encode(c, dev, x, s, work, p), KVR_OK);
    free(work);
}

START_TEST(a_seed_is_a_result)
{
    static const char *const seed[] = { "1234", "1234", "5" };
    float *x = floats(T * H * D);
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c[3];
    struct kvr_packed p[3];

    draw(x, 3);
    for (int i = 0; i < 3; i++) {
        int n;

        c[i] = open_codec("kmeans(k=16) | sym(bits=2)", KVR_K, false, KVR_COMPUTE_F32);
        ck_assert_int_eq(kvr_codec_set(c[i], 0, "seed", seed[i], &n), KVR_OK);
        code(&p[i], dev, c[i], x, &shape);
    }
    ck_assert_mem_eq(p[0].stage[0].codes.p, p[1].stage[0].codes.p, T * H);
    ck_assert_mem_ne(p[0].stage[0].codes.p, p[2].stage[0].codes.p, T * H);
    for (int i = 0; i < 3; i++) {
        kvr_packed_free(&p[i]);
        kvr_codec_close(&c[i]);
    }
    kvr_dev_close(&dev);
    free(x);
}
END_TEST

/* In a block of one token, the centre is the token itself rounded to BF16. The residual is also
 * stored in BF16. */
START_TEST(few_tokens)
{
    const struct kvr_block_shape s = { 1, H, D };
    struct kvr_codec *c = open_codec("kmeans | exact", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    float x[H * D], y[H * D];
    struct kvr_packed p;

    kvr_normal(x, H * D, 3, KVR_RNG_TEST, 4, 0, 0);
    code(&p, dev, c, x, &s);
    ck_assert_uint_eq(p.stage[0].meta.n_bytes, H * D * sizeof(kvr_bf16));
    kvr_codec_decode(&p, 0, 1, 0, H, y);
    /* The BF16 centre and the BF16 residual together have 16 significant bits. */
    for (int i = 0; i < H * D; i++)
        ck_assert(fabsf(x[i] - y[i]) <= 0x1p-16f * fabsf(x[i]));
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kmeans");
    TCase *tc = tcase_create("kmeans");

    tcase_add_loop_test(tc, sizes_are_the_published, 0, N_PUBLISHED);
    tcase_add_loop_test(tc, nothing_is_lost, 0, 4);
    tcase_add_test(tc, what_is_left_may_be_rounded);
    tcase_add_test(tc, labels_are_of_the_nearest);
    tcase_add_test(tc, a_seed_is_a_result);
    tcase_add_test(tc, few_tokens);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
