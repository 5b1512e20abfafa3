/* test_trq.c - temporal residual quantization (TRQ) of frame differences: worked examples,
 * published sizes, and predictions that encoder and decoder share. */
#include "tests/methods/codec_tools.h"

#include "methods/codecs/trq/trq.h"
#include "methods/method.h"
#include "tests/suite.h"

/* Frames of one token with 8 channels, one group: input x, code bytes, and decoded values. x lists
 * `given` values per frame; the last one fills the other channels. */
static const struct {
    int frames, given;
    float x[2][4];
    uint8_t byte[2][2];
    float back[2][4];
} examples[] = {
    { 1,
      4,
      { { 1, -.5f, .25f, 2 } },
      { { 0xb5, 0x8e } },
      { { 1.140625f, -.5703125f, .28515625f, 2 } } },
    { 2,
      4,
      { { 1, -.5f, .25f, 2 }, { 1.1015625f, -.75f, .5f, 1.6015625f } },
      { { 0xb5, 0x8e }, { 0x9c } },
      { { 1.140625f, -.5703125f, .28515625f, 2 },
        { 1.140625f, -.7734375f, .48828125f, 1.59375f } } },
    /* The anchor frame decodes to 0, so the residual of frame 1 is frame 1. First example: all
     * residuals are positive, and 3 saturates at 2. Second example: all are -2. */
    { 2,
      4,
      { { 0 }, { 1, 1.5f, 2, 3 } },
      { { 0x77, 0x77 }, { 0x6f } },
      { { 0 }, { .66796875f, 1.3359375f, 2, 2 } } },
    { 2, 1, { { 0 }, { -2 } }, { { 0x77, 0x77 }, { 0x00 } }, { { 0 }, { -2 } } },
};

START_TEST(worked_examples)
{
    const struct kvr_block_shape s = { examples[_i].frames, 1, 8 };
    struct kvr_codec *c = open_codec("trq(bits=2,unit=1,group=8)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    const int given = examples[_i].given;
    float x[16], work[16], back[16];
    const uint8_t *codes;
    struct kvr_packed p;

    for (int i = 0; i < 16; i++)
        x[i] = examples[_i].x[i / 8][i % 8 < given ? i % 8 : given - 1];
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, s.n_tok, 0, 1, back);
    codes = p.stage[0].codes.p;
    ck_assert_uint_eq(codes[0], examples[_i].byte[0][0]);
    ck_assert_uint_eq(codes[1], examples[_i].byte[0][1]);
    if (s.n_tok == 2)
        ck_assert_uint_eq(codes[4], examples[_i].byte[1][0]);
    for (int i = 0; i < 8 * s.n_tok; i++)
        /* The expected values are exact; the decoder rounds to BF16, hence the tolerance 2^-8. */
        if (i % 8 < given) {
            const float want = examples[_i].back[i / 8][i % 8];

            ck_assert_msg(fabsf(back[i] - want) <= fabsf(want) * 0x1p-8f, "%d reads %.9g, not %.9g",
                          i, (double)back[i], (double)want);
        }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
}
END_TEST

/* 24 frames of Wan 1.3B: an anchor frame with 4.25 bits per element and 23 frames with 2.375, or
 * 4.375 with bits=4. */
START_TEST(sizes_are_the_published)
{
    const struct kvr_block_shape s = { 24 * 1560, 12, 128 };
    struct kvr_codec *c =
        open_codec(_i ? "trq(bits=4)" : "trq(bits=2)", KVR_K, false, KVR_COMPUTE_F32);
    const struct kvr_packed p = { .codec = c, .shape = s, .place = { .frame_tokens = 1560 } };
    const struct kvr_stage_bytes b = kvr_packed_nominal(&p);

    ck_assert_uint_eq(b.codes + b.meta,
                      (size_t)(1560 * 1536 / 8 * (4.25 + 23 * (_i ? 4.375 : 2.375))));
    if (!_i)
        ck_assert_uint_eq(b.codes + b.meta, 17634240);
    kvr_codec_close(&c);
}
END_TEST

enum { S = 6, F = 5, H = 2, D = 32, W = H * D };
static const struct kvr_block_shape shape = { S * F - 2, H, D };

/* The prediction of frame t is the decoder's frame t - 1. This test quantizes the residuals itself
 * and expects the same decoded values, bit for bit. The last frame is incomplete. */
START_TEST(predictions_are_the_decoders_frames)
{
    static const struct kvr_place place = { .frame_tokens = S };
    const enum fill fill = (enum fill)(_i % N_FILLS);
    const bool wide = _i >= N_FILLS;
    const int bits = wide ? 4 : 2, anchor_bits = wide ? 8 : 4, group = wide ? 32 : 16;
    float *x = floats(elements(&shape)), *work = floats(elements(&shape)),
          *y = floats(elements(&shape));
    const struct trq g = { .bits = bits,
                           .anchor = anchor_bits,
                           .group = group,
                           .n_tok = shape.n_tok,
                           .unit = S,
                           .channels = W };
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p;
    struct kvr_codec *c;
    char text[80];

    snprintf(text, sizeof text, "trq(bits=%d,anchor=%d,group=%d)", bits, anchor_bits, group);
    c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    fill_block(x, &shape, fill, 5);
    ck_assert_int_eq(kvr_codec_encode_at(c, dev, x, &shape, &place, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, shape.n_tok, 0, H, y);
    for (int64_t t = 0; t < shape.n_tok; t++)
        for (int at = 0; at < W; at += group) {
            const bool anchor = t < S;
            float e[TRQ_MAX_GROUP];
            struct trq_fit f;

            for (int i = 0; i < group; i++)
                e[i] = x[t * W + at + i] - (anchor ? 0 : trq_kept(y[(t - S) * W + at + i]));
            f = trq_fit(&g, anchor, e);
            for (int i = 0; i < group; i++) {
                const float before = anchor ? 0 : trq_kept(y[(t - S) * W + at + i]);
                const unsigned q = trq_code(anchor, anchor ? anchor_bits : bits, &f, e[i]);
                const float want = trq_value(&g, anchor, &f, q, before);

                ck_assert_msg(same(y[t * W + at + i], want), "%s, %s: token %d: %a, not %a", text,
                              fill_names[fill], (int)t, (double)y[t * W + at + i], (double)want);
            }
        }
    /* Decoding one token of one head must give the same values as decoding the whole block. */
    for (int64_t t = 1; t < shape.n_tok; t += 7) {
        float part[D];

        kvr_codec_decode(&p, t, 1, 1, 1, part);
        for (int i = 0; i < D; i++)
            ck_assert(same(part[i], y[t * W + D + i]));
    }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(y);
}
END_TEST

/* If frames do not change, 2-bit differences reduce the error of the 4-bit anchor frame, and
 * errors do not accumulate. */
START_TEST(still_frames_cost_nothing)
{
    static const struct kvr_block_shape s = { 24 * S, H, D };
    static const struct kvr_place place = { .frame_tokens = S };
    struct kvr_codec *c = open_codec("trq(group=32)", KVR_K, false, KVR_COMPUTE_F32);
    float *x = floats(elements(&s)), *work = floats(elements(&s)), *y = floats(elements(&s));
    struct kvr_dev *dev = open_dev();
    double first = 0, last = 0;
    struct kvr_packed p;

    kvr_normal(x, S * W, 3, KVR_RNG_TEST, 1, 0, 0);
    for (int f = 1; f < 24; f++)
        memcpy(x + f * S * W, x, S * W * sizeof *x);
    ck_assert_int_eq(kvr_codec_encode_at(c, dev, x, &s, &place, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, s.n_tok, 0, H, y);
    for (int i = 0; i < S * W; i++) {
        first += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        last +=
            ((double)y[23 * S * W + i] - (double)x[i]) * ((double)y[23 * S * W + i] - (double)x[i]);
    }
    ck_assert_msg(last <= 0.2 * first, "%g after 24 frames, %g of the anchor", last, first);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(y);
}
END_TEST

START_TEST(impossible_settings_are_refused)
{
    static const char *const bad[] = { "trq(bits=3)", "trq(anchor=5)", "trq(group=48)",
                                       "trq(group=12)" };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kvr_codec *c = open_codec(bad[i], KVR_K, false, KVR_COMPUTE_F32);

        ck_assert_msg(kvr_codec_check(c, 2, 64) == KVR_EINVAL, "%s was taken", c->text);
        kvr_codec_close(&c);
    }
}
END_TEST

/* With share=0 all heads get 2 bits, so `trq_heads` must decode like `trq(bits=2)`. With share=1
 * all heads get 4 bits, so it must decode like `trq(bits=4)`. */
START_TEST(equal_heads_decode_like_trq)
{
    static const char *const text[][2] = {
        { "trq_heads(share=0,group=16)", "trq(bits=2,group=16)" },
        { "trq_heads(share=1,group=16)", "trq(bits=4,group=16)" },
    };
    static const struct kvr_place place = { .frame_tokens = S };
    const size_t n = elements(&shape);
    float *x = floats(n), *work = floats(n), *y[2] = { floats(n), floats(n) };
    struct kvr_dev *dev = open_dev();

    fill_block(x, &shape, FILL_NORMAL, 7);
    for (int k = 0; k < 2; k++) {
        struct kvr_codec *c = open_codec(text[_i][k], KVR_K, false, KVR_COMPUTE_F32);
        struct kvr_packed p;

        ck_assert_int_eq(kvr_codec_encode_at(c, dev, x, &shape, &place, work, &p), KVR_OK);
        kvr_codec_decode(&p, 0, shape.n_tok, 0, H, y[k]);
        kvr_packed_free(&p);
        kvr_codec_close(&c);
    }
    ck_assert_mem_eq(y[0], y[1], n * sizeof(float));
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(y[0]);
    free(y[1]);
}
END_TEST

/* With share=0.5 the head whose frames differ more gets 4 bits and the other head gets 2. Each head
 * must decode as with `trq` at that number of bits. */
START_TEST(the_changing_head_gets_4_bits)
{
    static const char *const text[] = { "trq_heads(share=0.5,group=16)", "trq(bits=2,group=16)",
                                        "trq(bits=4,group=16)" };
    static const struct kvr_place place = { .frame_tokens = S };
    const size_t n = elements(&shape);
    float *x = floats(n), *work = floats(n), *y[3] = { floats(n), floats(n), floats(n) };
    struct kvr_dev *dev = open_dev();

    fill_block(x, &shape, FILL_NORMAL, 8);
    /* Frames of the first head hardly change. */
    for (int64_t t = S; t < shape.n_tok; t++)
        for (int c = 0; c < D; c++)
            x[t * W + c] = x[(t - S) * W + c] + x[t * W + c] / 64;
    for (int k = 0; k < 3; k++) {
        struct kvr_codec *c = open_codec(text[k], KVR_K, false, KVR_COMPUTE_F32);
        struct kvr_packed p;

        ck_assert_int_eq(kvr_codec_encode_at(c, dev, x, &shape, &place, work, &p), KVR_OK);
        kvr_codec_decode(&p, 0, shape.n_tok, 0, H, y[k]);
        kvr_packed_free(&p);
        kvr_codec_close(&c);
    }
    for (size_t i = 0; i < n; i++)
        ck_assert(y[0][i] == y[i % W < D ? 1 : 2][i]);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    for (int k = 0; k < 3; k++)
        free(y[k]);
}
END_TEST

/* 24 frames of 12 heads take 3.731 bits per element if 8 heads get 4 bits. The block also stores
 * one byte per head, which this rate excludes. */
START_TEST(four_bit_heads_have_the_published_size)
{
    const struct kvr_block_shape s = { 24 * 1560, 12, 128 };
    struct kvr_codec *c = open_codec("trq_heads(unit=1560)", KVR_K, false, KVR_COMPUTE_F32);
    const double bits = 8 * (double)(kvr_codec_bytes(c, &s) - 12) / (double)elements(&s);

    ck_assert_msg(fabs(bits - (4.25 + 23 * (8 * 4.375 + 4 * 2.375) / 12) / 24) <= 1e-9 &&
                      fabs(bits - 3.731) <= .0005,
                  "%g", bits);
    kvr_codec_close(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trq");
    TCase *tc = tcase_create("trq");

    tcase_add_loop_test(tc, worked_examples, 0, (int)(sizeof examples / sizeof *examples));
    tcase_add_loop_test(tc, sizes_are_the_published, 0, 2);
    tcase_add_loop_test(tc, predictions_are_the_decoders_frames, 0, 2 * N_FILLS);
    tcase_add_test(tc, still_frames_cost_nothing);
    tcase_add_test(tc, impossible_settings_are_refused);
    tcase_add_loop_test(tc, equal_heads_decode_like_trq, 0, 2);
    tcase_add_test(tc, the_changing_head_gets_4_bits);
    tcase_add_test(tc, four_bit_heads_have_the_published_size);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
