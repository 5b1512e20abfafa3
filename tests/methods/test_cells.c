/* test_cells.c - per-head channel formats against worked examples, tables of minifloats, and
 * published sizes and distortions. */
#include "tests/methods/codec_tools.h"

#include "methods/kernels/pack.h"
#include "methods/method.h"
#include "tests/suite.h"

enum { MOST = 32 };

/* Worked examples. A token has n channels: the `given` elements in x, then zeros. `code` and `back`
 * are the expected codes and decoded values of these `given` elements. */
static const struct {
    const char *text;
    int n, given;
    float x[8];
    int code[8]; /* unsigned, as stored */
    float back[8];
    float tol; /* relative tolerance of `back`, which follows from its number of digits */
} examples[] = {
    { "ints(bits=8,by=inverse,least=1e-6)",
      4,
      4,
      { 1, -.4f, .7f, .999f },
      { 127 + 128, -51 + 128, 89 + 128, 127 + 128 },
      { 1, -51 * .007874016f, 89 * .007874016f, 1 },
      1e-6f },
    { "ints(bits=8,by=inverse,least=1e-6,round=trunc)",
      4,
      4,
      { 1, -.4f, .7f, .999f },
      { 127 + 128, -50 + 128, 88 + 128, 126 + 128 },
      { 1, -50 * .007874016f, 88 * .007874016f, 126 * .007874016f },
      1e-6f },
    { "ints(bits=2,scale=e4m3,zero=e4m3,round=away)",
      4,
      4,
      { -.3f, .1f, .26f, .9f },
      { 0, 1, 1, 3 },
      { -.3125f, .09375f, .09375f, .90625f },
      0 },
    { "ints(bits=2,scale=e4m3,round=away)",
      4,
      4,
      { -.3f, .1f, .26f, .9f },
      { 2, 2, 2, 3 },
      { 0, 0, 0, .875f },
      0 },
    { "ints(bits=2,scale=bf16,zero=point)",
      4,
      4,
      { 1, 1.5f, 2, 3 },
      { 1, 2, 3, 3 },
      { .66796875f, 1.3359375f, 2.00390625f, 2.00390625f },
      0 },
    { "ints(bits=4,scale=bf16)",
      4,
      4,
      { 1, -.5f, .25f, 2 },
      { 4 + 8, -2 + 8, 1 + 8, 7 + 8 },
      { 1.140625f, -.5703125f, .28515625f, 1.99609375f },
      0 },
    { "ints(bits=8,group=32,scale=f16,round=away,by=inverse)",
      32,
      7,
      { 1, -2, .3f, 2, .125f, -.126f, 0 },
      { 64 + 128, -127 + 128, 19 + 128, 127 + 128, 8 + 128, -8 + 128, 128 },
      { 64 * 2.f / 127, -2, 38.f / 127, 2, 16.f / 127, -16.f / 127, 0 },
      0x1p-11f },
    { "ints(bits=5,group=32,scale=f16,zero=f16,round=up,by=inverse)",
      32,
      7,
      { 1, -2, .3f, 2, .125f, -.126f, 0 },
      { 23, 0, 18, 31, 16, 15, 16 },
      { 23 * .12902832f - 2, -2, 18 * .12902832f - 2, 31 * .12902832f - 2, 16 * .12902832f - 2,
        15 * .12902832f - 2, 16 * .12902832f - 2 },
      1e-5f },
    { "ints(bits=4,group=32,scale=f16,round=up,by=inverse,extreme=first)",
      32,
      7,
      { 1, -2, .3f, 2, .125f, -.126f, 0 },
      { 12, 0, 9, 15, 9, 7, 8 },
      { 1, -2, .25f, 1.75f, .25f, -.25f, 0 },
      0 },
    { "iq4_nl",
      32,
      7,
      { 1, -2, .3f, 2, .125f, -.126f, 0 },
      { 13, 0, 10, 15, 9, 7, 8 },
      { 69 * .016524f, -127 * .016524f, 25 * .016524f, 113 * .016524f, 13 * .016524f,
        -10 * .016524f, .016524f },
      1e-4f },
    /* The group has a smaller error if its maximum is coded as 4 instead of 6. */
    { "floats(format=e2m1,group=16,scale=e4m3,relative=true,pick=best)",
      32,
      4,
      { 3, 2.4f, -1, .5f },
      { 6, 5, 3 + 8, 1 },
      { 3, 2.25f, -1.125f, .375f },
      0 },
    /* With pick=floor the scale is 2^0, and 7 saturates at 6. With pick=ceil (the next case) the
     * scale is 2^1. */
    { "floats(format=e2m1,group=32,scale=e8m0,pick=floor)",
      32,
      2,
      { 7, -5 },
      { 7, 6 + 8 },
      { 6, -4 },
      0 },
    { "floats(format=e2m1,group=32,scale=e8m0)", 32, 2, { 7, -5 }, { 6, 4 + 8 }, { 8, -4 }, 0 },
    { "ints(bits=8,group=32,scale=e8m0)",
      32,
      2,
      { 127, -128.5f },
      { 64 + 128, -64 + 128 },
      { 128, -128 },
      0 },
    /* With clip=0.75 the largest level is 0.75 times the largest magnitude, so 4 is clipped to
     * 3. */
    { "ints(bits=2,clip=0.75)", 8, 2, { 4, -1 }, { 3, 2 }, { 3, 0 }, 0 },
    { "ints(bits=2,quantile=0.5)",
      8,
      5,
      { 4, -1, 1, -1, 1 },
      { 3, 1, 3, 1, 3 },
      { 1, -1, 1, -1, 1 },
      0 },
};
enum { N_EXAMPLES = sizeof examples / sizeof *examples };

START_TEST(worked_examples)
{
    const struct kvr_block_shape s = { 1, 1, examples[_i].n };
    struct kvr_codec *c = open_codec(examples[_i].text, KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    float x[MOST] = { 0 }, work[MOST], back[MOST];
    struct kvr_layout l;
    struct kvr_packed p;
    uint8_t q[MOST];

    memcpy(x, examples[_i].x, (size_t)examples[_i].given * sizeof *x);
    if (strstr(c->text, "pick=best"))
        x[16] = 6;
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, 1, 0, 1, back);
    kvr_codec_layout(c, 0, &s, &l);
    kvr_unpack_token(p.stage[0].codes.p, 1, s.head_dim, l.bits, 0, 0, s.head_dim, q);
    for (int i = 0; i < examples[_i].given; i++) {
        const float want = examples[_i].back[i];

        ck_assert_msg(q[i] == examples[_i].code[i], "%s: element %d is coded %d, not %d", c->text,
                      i, q[i], examples[_i].code[i]);
        ck_assert_msg(fabsf(back[i] - want) <= fabsf(want) * examples[_i].tol,
                      "%s: element %d reads %.9g, not %.9g", c->text, i, (double)back[i],
                      (double)want);
    }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
}
END_TEST

/* For each format, the number of nonnegative finite values. */
static const struct {
    const char *format;
    int n;
    double low, top; /* smallest and largest positive value */
} formats[] = { { "e4m3", 127, 0x1p-9, 448 },
                { "e5m2", 124, 0x1p-16, 57344 },
                { "e3m2", 32, 0x1p-4, 28 },
                { "e2m3", 32, 0.125, 7.5 },
                { "e2m1", 8, 0.5, 6 } };

/* Each value of a format is encoded exactly. Midpoints round to the even code, and values beyond
 * the range saturate. Each group contains the format's largest value, so that the group's scale is
 * 1. */
START_TEST(small_floats)
{
    const int n = formats[_i].n;
    const struct kvr_block_shape s = { 1, 1, 2 * 128 };
    char text[64];
    struct kvr_codec *c;
    struct kvr_dev *dev = open_dev();
    float value[128], x[256] = { 0 }, work[256], back[256];
    struct kvr_packed p;
    uint8_t q[256];

    snprintf(text, sizeof text, "floats(format=%s)", formats[_i].format);
    c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    x[255] = (float)formats[_i].top;
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    /* Decodes hand-written codes to find the value of each code. */
    struct kvr_layout l;

    kvr_codec_layout(c, 0, &s, &l);
    for (int i = 0; i < 256; i++)
        q[i] = (uint8_t)(i < n ? i : n - 1);
    kvr_pack(p.stage[0].codes.p, 1, 256, l.bits, 0, 1, 0, 256, q);
    kvr_codec_decode(&p, 0, 1, 0, 1, back);
    memcpy(value, back, sizeof value);
    kvr_packed_free(&p);
    ck_assert(value[0] == 0 && (double)value[1] == formats[_i].low);
    ck_assert((double)value[n - 1] == formats[_i].top);
    /* Even elements are values of the format, odd ones are negative midpoints between two
     * values. */
    for (int i = 0; i < 255; i++) {
        const int j = i / 2 % (n - 1);

        x[i] = i % 2 ? -(value[j] + (value[j + 1] - value[j]) / 2) : value[j];
    }
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, 1, 0, 1, back);
    for (int i = 0; i < 255; i++) {
        const int j = i / 2 % (n - 1);
        const float want = i % 2 ? -value[j % 2 ? j + 1 : j] : value[j];

        ck_assert_msg(back[i] == want, "%s: %g reads %g, not %g", text, (double)x[i],
                      (double)back[i], (double)want);
    }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
}
END_TEST

/* Returns the mean squared error of rounding a standard normal variable to the nearest of n levels.
 * The integral over -10 .. 10 has steps of 1/5000, so its relative error is far below the tolerance
 * of 1e-4. */
static double distortion(const float *level, int n)
{
    double sum = 0;

    for (int i = -50000; i <= 50000; i++) {
        const double x = i / 5000.0;
        double least = INFINITY;

        for (int q = 0; q < n; q++)
            least = fmin(least, (x - (double)level[q]) * (x - (double)level[q]));
        sum += least * exp(-x * x / 2);
    }
    return sum / 5000 / sqrt(2 * acos(-1));
}

/* The published distortions for 1 to 4 bits are .363, .117, .030 and .009. With heads of D = 128
 * channels they are slightly smaller. The coordinates of a random unit vector have lighter tails
 * than a normal variable: their kurtosis is 3 D / (D + 2) instead of 3. */
START_TEST(distortions_of_gauss)
{
    static const double want[] = { 0.36338, 0.11748, 0.034548, 0.0095010 };
    const struct kvr_block_shape s = { 2048, 1, 128 };
    const size_t n = elements(&s);
    const int bits = _i + 1;
    float *x = floats(n), *work = floats(n), *y = floats(n), level[16];
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c;
    struct kvr_packed p;
    double error = 0, size = 0;
    char text[64];

    snprintf(text, sizeof text, "gauss(bits=%d)", bits);
    c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    kvr_normal(x, n, 17, KVR_RNG_TEST, 1, 0, 0);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, s.n_tok, 0, 1, y);
    for (size_t i = 0; i < n; i++) {
        error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        size += (double)x[i] * (double)x[i];
    }
    ck_assert_msg(error / size <= want[bits - 1] && error / size >= 0.96 * want[bits - 1],
                  "%s: %g, in the limit %g", text, error / size, want[bits - 1]);
    /* Decodes each code with a scale of 1, which gives the level of the code. */
    ((kvr_f16 *)p.stage[0].meta.p)[0] = 0x3c00;
    for (int t = 0; t < 1 << bits; t++) {
        uint8_t codes[8 * 16];

        for (int i = 0; i < 8 * 16; i++)
            codes[i] = (uint8_t)t;
        kvr_pack(p.stage[0].codes.p, s.n_tok, 128, bits, 0, 8, 0, 16, codes);
        kvr_codec_decode(&p, 0, 1, 0, 1, y);
        level[t] = y[0];
    }
    ck_assert_msg(fabs(distortion(level, 1 << bits) / want[bits - 1] - 1) <= 1e-4, "%s: %g, not %g",
                  text, distortion(level, 1 << bits), want[bits - 1]);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(y);
}
END_TEST

/* With norm=kept, decoded heads have the norm of the original ones within FP16's 2^-11.
 * Multiplying a head by a power of two changes its stored norm alone. */
START_TEST(norms_are_kept)
{
    const struct kvr_block_shape s = { 2, 1, 128 };
    struct kvr_codec *c =
        open_codec("gauss(bits=3,table=trapezoid,norm=kept)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    float x[256], work[256], y[256];
    struct kvr_packed p;
    double a = 0, b = 0;

    kvr_normal(x, 128, 17, KVR_RNG_TEST, 2, 0, 0);
    for (int i = 0; i < 128; i++)
        x[128 + i] = x[i] * 0.25f;
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, 2, 0, 1, y);
    for (int i = 0; i < 128; i++) {
        ck_assert(y[128 + i] == y[i] * 0.25f);
        a += (double)x[i] * (double)x[i];
        b += (double)y[i] * (double)y[i];
    }
    ck_assert(fabs(sqrt(b / a) - 1) <= 0x1p-11);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
}
END_TEST

/* Bits per stored scalar, averaged over keys and values. */
static const struct {
    const char *method;
    double bits;
} sizes[] = {
    { "INT8_PTH", 8.25 },
    { "FP8_PTH", 8.25 },
    { "FP8_E4M3", 8 },
    { "FP8_E5M2", 8 },
    { "MXFP8", 8.25 },
    { "MXFP6", 6.25 },
    { "MXFP4", 4.25 },
    { "MXINT8", 8.25 },
    { "NVFP4", 4.5 },
    { "NVINT4", 4.5 },
    { "NVFP4_4OVER6", 4.5 },
    { "Q8_0", 8.5 },
    { "Q5_1", 6 },
    { "Q4_0", 4.5 },
    { "IQ4_NL", 4.5 },
    { "INT4_PTH", 4.25 },
    { "INT8_PTH@vllm", 8.25 },
    { "FP8_E4M3@vllm", 8 },
    { "NVFP4@vllm", 4.5 },
    { "NVFP4_4OVER6@longlive", 4.5 },
    { "TURBOQUANT_K8V4@vllm", 6.125 },
    { "TURBOQUANT_4BIT@vllm", 4.1875 },
    { "TURBOQUANT_K3V4@vllm", 3.6875 },
    { "TURBOQUANT_3BIT@vllm", 3.1875 },
    { "TURBOQUANT_2BIT", 2.125 },
    { "QUAROT_HEAD_INT4", 4.25 },
    { "QUAROT_HEAD_INT2", 2.25 },
    { "OWL_V8", 12.0625 },
    { "ROT_Q8_0", 8.5 },
    { "JENSEN_INT2", 2.75 },
};

/* 21 latent frames of Wan 1.3B take 6,038,323,200 bytes in BF16. With one scale per block, or with
 * group scales relative to a block's scale, each block stores one more FP32 number. There are 60
 * blocks: keys and values of 30 layers. */
START_TEST(sizes_are_the_published)
{
    const struct kvr_block_shape s = { 21 * 1560, 12, 128 };
    const bool vllm = strstr(sizes[_i].method, "@vllm") != NULL;
    const bool whole = !vllm && (!strncmp(sizes[_i].method, "NVFP4", 5) ||
                                 !strncmp(sizes[_i].method, "FP8_E4M3", 8) ||
                                 !strcmp(sizes[_i].method, "FP8_E5M2"));
    struct kvr_scheme *p;

    ck_assert_msg(kvr_scheme_open(&p, sizes[_i].method, NULL, 0) == KVR_OK, "%s", kvr_error());
    ck_assert_uint_eq(30 * (kvr_codec_bytes(p->k[0], &s) + kvr_codec_bytes(p->v[0], &s)),
                      (size_t)(6038323200 / 16 * sizes[_i].bits) + (whole ? 60 * 4 : 0));
    kvr_scheme_close(&p);
}
END_TEST

/* If scales are rounded up to E4M3, no element is clipped, so the error is at most half a scale.
 * The rounded scale is at most 1/8 above the exact one. If scales are rounded to nearest, some
 * elements are clipped. The tolerance includes the FP32 rounding of x / s and q * s, 127 x 2^-22
 * scales. */
START_TEST(scales_rounded_up_clip_nothing)
{
    static const char *const text[] = { "ints(group=32,scale=e4m3up)",
                                        "ints(group=32,scale=e4m3)" };
    const struct kvr_block_shape s = { 256, 1, 64 };
    const size_t n = elements(&s);
    float *x = floats(n), *work = floats(n), *y = floats(n), *scale = floats(n);
    struct kvr_dev *dev = open_dev();
    int clipped[2] = { 0 };

    for (int k = 0; k < 2; k++) {
        struct kvr_codec *c = open_codec(text[k], KVR_K, false, KVR_COMPUTE_F32);
        struct kvr_packed p;

        kvr_normal(x, n, 17, KVR_RNG_TEST, 4, 0, 0);
        for (size_t i = 0; i < n; i++)
            x[i] *= 16; /* keeps all scales above E4M3's smallest normal number */
        ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
        kvr_codec_decode(&p, 0, s.n_tok, 0, 1, y);
        kvr_packed_scales(&p, 0, s.n_tok, 0, 1, scale);
        for (size_t i = 0; i < n; i++) {
            float most = 0;

            for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; j++)
                most = fmaxf(most, fabsf(x[j]));
            clipped[k] += !(fabsf(y[i] - x[i]) <= scale[i] * (0.5f + 127 * 0x1p-22f));
            ck_assert(k || (scale[i] >= most / 127 && scale[i] <= most / 127 * 1.125f));
        }
        kvr_packed_free(&p);
        kvr_codec_close(&c);
    }
    ck_assert_int_eq(clipped[0], 0);
    ck_assert_int_gt(clipped[1], 0);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(y);
    free(scale);
}
END_TEST

/* The groups of a block with scale=block share one scale, so an infinity makes all of them NaN. */
START_TEST(infinity_makes_the_block_nan)
{
    static const char *const text[] = { "ints(bits=8,scale=block)", "ints(bits=4,scale=block)",
                                        "floats(scale=block)", "floats(format=e5m2,scale=block)" };
    const struct kvr_block_shape shape = { 3, 2, MOST };
    const size_t n = elements(&shape);
    float *x = floats(n), *y = floats(n);

    for (size_t i = 0; i < n; i++)
        x[i] = (float)i - 7;
    x[MOST + 1] = -INFINITY;
    for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
        there_and_back(text[k], &shape, x, y);
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(isnan(y[i]), "%s: %zu: %g", text[k], i, (double)y[i]);
    }
    free(x);
    free(y);
}
END_TEST

START_TEST(impossible_settings_are_refused)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        { "ints(scale=one)", "scale" },
        { "ints(scale=block,zero=f16)", "zero" },
        { "ints(bits=8,zero=hidden)", "hidden" },
        { "ints(bits=4,zero=hidden,scale=f16)", "hidden" },
        { "ints(extreme=first,scale=e8m0)", "extreme" },
        { "ints(group=48)", "48" },
        { "ints(group=4)", "4" },
        { "ints(quantile=0.99,zero=point)", "quantile" },
        { "floats(format=e2m1,scale=one)", "e2m1" },
        { "floats(relative=true)", "relative" },
        { "floats(pick=floor)", "floor" },
        { "floats(scale=e4m3,pick=best)", "best" },
        { "gauss(bits=2,table=trapezoid)", "trapezoid" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kvr_codec *c = open_codec(bad[i].text, KVR_K, false, KVR_COMPUTE_F32);

        ck_assert_msg(kvr_codec_check(c, 2, 64) == KVR_EINVAL, "%s was taken", c->text);
        ck_assert_msg(strstr(kvr_error(), bad[i].word) != NULL, "'%s' lacks '%s'", kvr_error(),
                      bad[i].word);
        kvr_codec_close(&c);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cells");
    TCase *tc = tcase_create("cells");

    tcase_add_loop_test(tc, worked_examples, 0, N_EXAMPLES);
    tcase_add_loop_test(tc, small_floats, 0, (int)(sizeof formats / sizeof *formats));
    tcase_add_loop_test(tc, distortions_of_gauss, 0, 4);
    tcase_add_test(tc, norms_are_kept);
    tcase_add_loop_test(tc, sizes_are_the_published, 0, (int)(sizeof sizes / sizeof *sizes));
    tcase_add_test(tc, scales_rounded_up_clip_nothing);
    tcase_add_test(tc, infinity_makes_the_block_nan);
    tcase_add_test(tc, impossible_settings_are_refused);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
