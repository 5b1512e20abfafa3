/* test_vidkv.c - VidKV's two codecs: groups of equal values, the variants of VidKV's own
 * code, published sizes, and decoded keys compared with a slow reference implementation. */
#include "tests/methods/codec_tools.h"

#include "tests/suite.h"

/* Encodes and decodes x with the codec `text`. */
static void through(const char *text, const struct kvr_block_shape *s, const float *x, float *y)
{
    struct kvr_codec *c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    float *work = floats(elements(s));
    struct kvr_packed p;

    ck_assert_int_eq(kvr_codec_encode(c, dev, x, s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, s->n_tok, 0, s->n_heads, y);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(work);
}

/* A group of equal values decodes to that value. With scaled=false, which reproduces VidKV's own
 * code, it decodes to -1, 0 or 1, the value's sign. */
START_TEST(a_constant_is_exact)
{
    static const float value[] = { 3.5f, -.25f, 0 };
    const struct kvr_block_shape s = { 40, 1, 8 };
    float x[320], y[320], z[320];

    for (int i = 0; i < 320; i++)
        x[i] = value[_i];
    through("ternary", &s, x, y);
    through("ternary(scaled=false)", &s, x, z);
    for (int i = 0; i < 320; i++) {
        ck_assert(y[i] == value[_i]);
        ck_assert(z[i] == (float)((value[_i] > 0) - (value[_i] < 0)));
    }
}
END_TEST

/* Compares decoded values with the definition: -scale, 0 or scale, where scale is the mean
 * magnitude of 16 tokens of a channel. */
START_TEST(values_by_the_slow_model)
{
    const struct kvr_block_shape s = { 45, 2, 16 };
    const int width = 32;
    float *x = floats(elements(&s)), *y = floats(elements(&s));

    fill_block(x, &s, _i ? FILL_OFFSET : FILL_NORMAL, 3);
    through("ternary(group=16)", &s, x, y);
    for (int64_t t = 0; t < s.n_tok; t++)
        for (int c = 0; c < width; c++) {
            double sum = 0;
            float scale, want;
            int n = 0;

            for (int64_t i = t / 16 * 16; i < t / 16 * 16 + 16 && i < s.n_tok; i++, n++)
                sum += fabs((double)x[i * width + c]);
            scale = kvr_f16_to_f32(kvr_f32_to_f16((float)(sum / n)));
            want = x[t * width + c] > scale / 2    ? scale
                   : x[t * width + c] < -scale / 2 ? -scale
                                                   : 0;
            ck_assert_msg(y[t * width + c] == want, "%a, not %a", (double)y[t * width + c],
                          (double)want);
        }
    free(x);
    free(y);
}
END_TEST

static double half(double x)
{
    return (double)kvr_f16_to_f32(kvr_f32_to_f16((float)x));
}

/* The 8 of 16 channels with the narrower value range are coded as signs of their Fourier transform.
 * The reference computes in double precision, so FP16 roundings may differ. The tolerance is 2^-10
 * of the largest value. */
START_TEST(keys_by_the_slow_model)
{
    enum { T = 32, D = 16, E = 8 };
    const struct kvr_block_shape s = { T, 1, D };
    static float x[T * D], y[T * D];
    static double X[T][E][2];
    const bool balanced = _i == 0;

    fill_block(x, &s, FILL_NORMAL, 5);
    for (int i = 0; i < T * D; i++)
        x[i] *= i % 2 ? 8 : 1; /* even channels have the narrower range */
    through(balanced ? "vidkv" : "vidkv(balanced=false)", &s, x, y);
    for (int t = 0; t < T; t++)
        for (int f = 0; f < E; f++) {
            X[t][f][0] = X[t][f][1] = 0;
            for (int j = 0; j < E; j++) {
                X[t][f][0] += (double)x[t * D + 2 * j] * cos(2 * M_PI * f * j / E);
                X[t][f][1] -= (double)x[t * D + 2 * j] * sin(2 * M_PI * f * j / E);
            }
        }
    for (int t = 0; t < T; t++)
        for (int j = 0; j < E; j++) {
            double want = 0, lo = INFINITY, hi = -INFINITY, step;

            for (int f = 0; f < E; f++)
                for (int part = 0; part < 2; part++) {
                    /* At frequencies 0 and E / 2 the transform has no imaginary part. The reference
                     * skips it, because sin() is not exactly 0 there. */
                    const double w = part ? -sin(2 * M_PI * f * j / E) : cos(2 * M_PI * f * j / E);
                    double mean = 0;

                    for (int i = 0; i < T; i++)
                        mean += fabs(X[i][f][part]) / T;
                    if (part && f % (E / 2) == 0)
                        continue;
                    mean *= X[t][f][part] >= 0 ? 1 : balanced ? -1 : 0;
                    want += mean * w / E;
                }
            ck_assert_msg(fabs((double)y[t * D + 2 * j] - want) <= 4e-3, "token %d, %d: %g, not %g",
                          t, 2 * j, (double)y[t * D + 2 * j], want);
            for (int i = 0; i < T; i++) {
                lo = fmin(lo, half((double)x[i * D + 2 * j + 1]));
                hi = fmax(hi, half((double)x[i * D + 2 * j + 1]));
            }
            step = half(half(hi - lo) / 3);
            want = half((double)x[t * D + 2 * j + 1]);
            want = fmin(fmax(rint(half(half(want - lo) / step)), 0), 3) * step + lo;
            ck_assert_msg(fabs((double)y[t * D + 2 * j + 1] - want) <= 1e-5,
                          "token %d, %d: %g, not %g", t, 2 * j + 1, (double)y[t * D + 2 * j + 1],
                          want);
        }
}
END_TEST

/* Keys take 3.5 bits per element and values 3; for 21 frames and 30 layers that is 1.142 GiB. A
 * block of keys also has D = 128 bits that mark the channels with a narrow range. */
START_TEST(sizes_are_the_published)
{
    const struct kvr_block_shape s = { 32768, 12, 128 }, frames = { 21 * 1560, 12, 128 };
    struct kvr_codec *k = open_codec("vidkv", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_codec *v = open_codec("ternary", KVR_V, false, KVR_COMPUTE_F32);
    double gib;

    ck_assert_uint_eq(kvr_codec_bytes(k, &s), elements(&s) * 7 / 16 + 16);
    ck_assert_uint_eq(kvr_codec_bytes(v, &s), elements(&s) * 3 / 8);
    gib = 30 * (double)(kvr_codec_bytes(k, &frames) + kvr_codec_bytes(v, &frames)) / 0x1p30;
    ck_assert_msg(fabs(gib - 1.142) <= .001, "%g", gib);
    kvr_codec_close(&k);
    kvr_codec_close(&v);
}
END_TEST

/* share=0 codes every channel as signs, and share=1 codes every channel in 2 bits. */
START_TEST(one_kind_of_channel)
{
    const struct kvr_block_shape s = { 40, 2, 16 };
    float x[1280], y[1280];
    double error = 0, energy = 0;

    fill_block(x, &s, FILL_NORMAL, 7);
    through(_i ? "vidkv(share=1)" : "vidkv(share=0)", &s, x, y);
    for (int i = 0; i < 1280; i++) {
        error += ((double)y[i] - x[i]) * ((double)y[i] - x[i]);
        energy += (double)x[i] * x[i];
    }
    /* Four uniform levels over the range of 32 normal numbers have a step of 4.1 / 3 sigma, hence
     * an error of step^2 / 12 = 0.16 of the energy. One sign per Fourier term has 1 - 2 / pi =
     * 0.36. The limit is 1.4 times the larger error. */
    ck_assert_msg(error <= .5 * energy, "share=%d: %g of %g", _i, error, energy);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vidkv");
    TCase *tc = tcase_create("vidkv");

    tcase_add_loop_test(tc, a_constant_is_exact, 0, 3);
    tcase_add_loop_test(tc, values_by_the_slow_model, 0, 2);
    tcase_add_loop_test(tc, keys_by_the_slow_model, 0, 2);
    tcase_add_test(tc, sizes_are_the_published);
    tcase_add_loop_test(tc, one_kind_of_channel, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
