/* test_halves.c - LightX2V's grid: a worked example, sizes, and a slow reference. */
#include "tests/methods/codec_tools.h"

#include "methods/kernels/pack.h"
#include "tests/suite.h"

/* Four tokens of one channel. Four zeros complete the group of 8. They lie within the range of the
 * four tokens, so they do not change the scale. */
START_TEST(worked_example)
{
    static const float in[] = { .1f, -.7f, 1.3f, .31f };
    static const float want[] = { -.0336914f, -.6992188f, 1.296875f, .6328125f };
    static const uint8_t code[] = { 1, 0, 3, 2 };
    const struct kvr_block_shape s = { 8, 1, 8 };
    struct kvr_codec *c = open_codec("halves(bits=2,group=8)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    float x[64] = { 0 }, work[64], back[64];
    struct kvr_packed p;
    uint8_t q[8];

    for (int t = 0; t < 4; t++)
        x[t * 8] = in[t];
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, 8, 0, 1, back);
    ck_assert(((float *)p.stage[0].meta.p)[0] == .66650390625f);
    ck_assert(((float *)p.stage[0].meta.p)[8] == -.7001953125f);
    for (int t = 0; t < 4; t++) {
        kvr_unpack_token(p.stage[0].codes.p, 8, 8, 2, t, 0, 8, q);
        ck_assert_uint_eq(q[0], code[t]);
        /* The expected values are rounded to BF16. */
        ck_assert_msg(fabsf(kvr_bf16_to_f32(kvr_f32_to_bf16(back[t * 8])) - want[t]) <= 1e-7f,
                      "%.9g, not %.9g", (double)back[t * 8], (double)want[t]);
    }
    ck_assert(back[1] == 0); /* a channel of zeros decodes to 0 */
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
}
END_TEST

/* An element takes b bits plus 64 bits per group of 64 tokens, an FP32 scale and an FP32 minimum.
 * The last group is padded. The published totals are for the keys and values of 30 layers and 21 or
 * 42 latent frames. */
START_TEST(sizes_are_the_published)
{
    static const struct {
        const char *text;
        size_t frames_21, frames_42;
    } want[] = { { "halves(bits=8)", 3397386240, 6794772480 },
                 { "halves(bits=4)", 1887436800, 3774873600 },
                 { "halves(bits=2)", 1132462080, 2264924160 } };
    struct kvr_codec *c = open_codec(want[_i].text, KVR_K, false, KVR_COMPUTE_F32);

    for (int twice = 0; twice < 2; twice++) {
        const struct kvr_block_shape s = { (twice ? 42 : 21) * 1560, 12, 128 };

        ck_assert_uint_eq(60 * kvr_codec_bytes(c, &s),
                          twice ? want[_i].frames_42 : want[_i].frames_21);
    }
    kvr_codec_close(&c);
}
END_TEST

static float half(float x)
{
    return kvr_f16_to_f32(kvr_f32_to_f16(x));
}

/* Values are exact in FP16. The last group has 5 tokens and is padded with zeros to 16. */
START_TEST(the_slow_model)
{
    const struct kvr_block_shape s = { 37, 2, 16 };
    const int bits = _i, width = 32, qm = (1 << bits) - 1;
    float *x = floats(elements(&s)), *work = floats(elements(&s)), *y = floats(elements(&s));
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c;
    struct kvr_packed p;
    char text[64];

    snprintf(text, sizeof text, "halves(bits=%d,group=16)", bits);
    c = open_codec(text, KVR_V, false, KVR_COMPUTE_F32);
    fill_block(x, &s, FILL_OFFSET, 3);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, s.n_tok, 0, 2, y);
    for (int64_t t = 0; t < s.n_tok; t++)
        for (int e = 0; e < width; e++) {
            float lo = INFINITY, hi = -INFINITY, step, q;

            for (int64_t i = t / 16 * 16; i < t / 16 * 16 + 16; i++) {
                const float v = i < s.n_tok ? half(x[i * width + e]) : 0;

                lo = fminf(lo, v);
                hi = fmaxf(hi, v);
            }
            step = half(half(hi - lo) / (float)qm);
            q = rintf(half(half(half(x[t * width + e]) - lo) / step));
            q = q > (float)qm ? (float)qm : q;
            ck_assert_msg(y[t * width + e] == q * step + lo, "%s: %a, not %a", text,
                          (double)y[t * width + e], (double)(q * step + lo));
        }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(y);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("halves");
    TCase *tc = tcase_create("halves");

    tcase_add_test(tc, worked_example);
    tcase_add_loop_test(tc, sizes_are_the_published, 0, 3);
    tcase_add_loop_test(tc, the_slow_model, 2, 9);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
