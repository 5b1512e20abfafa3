/* test_ranged.c - range coding: bytes worked out by hand, and lossless decoding. */
#include "tests/methods/codec_tools.h"

#include "methods/codecs/ranged/ranged.h"
#include "tests/suite.h"

static struct kvr_packed code(struct kvr_dev *dev, const struct kvr_codec *c, const float *x,
                              const struct kvr_block_shape *s, float *y)
{
    float *work = floats(elements(s));
    struct kvr_packed p;

    ck_assert_msg(kvr_codec_encode(c, dev, x, s, work, &p) == KVR_OK, "%s", kvr_error());
    kvr_codec_decode(&p, 0, s->n_tok, 0, s->n_heads, y);
    free(work);
    return p;
}

/* Eight tokens of 8 channels. Channel 1 is 15 in every token, the largest magnitude, so that the
 * step is 1. Channel 0 has the symbols 15 15 16 14 15 15 16 15, and the other channels are 0. The
 * second case repeats the tokens four times. */
START_TEST(worked_example)
{
    static const int symbol[] = { 15, 15, 16, 14, 15, 15, 16, 15 };
    static const unsigned f[] = { 13, 14, 8202, 49143, 65520, 65521 };
    static const uint8_t one[] = { 0x80, 0xa0 }, four[] = { 0x80, 0xa8, 0x2a, 0x75, 0x0c, 0x20 };
    const struct kvr_block_shape s = { _i ? 32 : 8, 1, 8 };
    const struct ranged g = { 32, s.n_tok, 8, 1 };
    struct kvr_codec *c = open_codec("ranged(bins=32)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    float x[32 * 8] = { 0 }, y[32 * 8];
    struct kvr_packed p;
    unsigned n;

    for (int t = 0; t < s.n_tok; t++) {
        x[t * 8] = (float)(symbol[t % 8] - 15);
        x[t * 8 + 1] = 15;
    }
    p = code(dev, c, x, &s, y);
    for (int i = 13; i <= 18; i++)
        ck_assert_uint_eq(cells_get(p.stage[0].meta.p, ranged_f_at(&g, 0, i), 2), f[i - 13]);
    ck_assert_uint_eq(cells_get(p.stage[0].meta.p, ranged_f_at(&g, 0, 32), 2), 65535);
    n = cells_get(p.stage[0].meta.p, 0, 4);
    ck_assert_uint_eq(n, _i ? sizeof four : sizeof one);
    ck_assert_mem_eq(p.stage[0].codes.p, _i ? four : one, n);
    for (int i = 0; i < 8 * s.n_tok; i++)
        ck_assert(y[i] == x[i]);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
}
END_TEST

/* The test recomputes the symbols of a block of several segments and checks the decoded values, for
 * every kind of data in codec_tools.h. Decoding a part of the block gives the same values. No block
 * is larger than the layout's maximum. */
START_TEST(every_code_comes_back)
{
    static const int bins[] = { 4, 16, 32, 64 };
    const enum fill fill = (enum fill)(_i / 4);
    const struct kvr_block_shape s = { 2 * RANGED_SEGMENT + 77, 2, 16 };
    const int b = bins[_i % 4], width = 32;
    const float half = (float)(b / 2 - 1);
    float *x = floats(elements(&s)), *y = floats(elements(&s)), part[16 * 300];
    struct kvr_dev *dev = open_dev();
    struct kvr_layout l;
    struct kvr_packed p;
    struct kvr_codec *c;
    char text[32];

    snprintf(text, sizeof text, "ranged(bins=%d)", b);
    c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    fill_block(x, &s, fill, 9);
    p = code(dev, c, x, &s, y);
    for (int t = 0; t < s.n_tok; t++) {
        float size = 0;

        for (int i = 0; i < width; i++)
            size = isfinite(size) && isfinite(x[t * width + i])
                       ? fmaxf(size, fabsf(x[t * width + i]))
                       : NAN;
        for (int i = 0; i < width && isfinite(size); i++) {
            const float a = kvr_bf16_to_f32(kvr_f32_to_bf16(size));
            const float q = a > 0 ? rintf(x[t * width + i] * (half / a) + half) : half;

            ck_assert_msg(y[t * width + i] == (q - half) / half * a, "%s, %s: token %d: %a", text,
                          fill_names[fill], t, (double)y[t * width + i]);
        }
    }
    kvr_codec_decode(&p, 200, 300, 1, 1, part);
    for (int t = 0; t < 300; t++)
        for (int i = 0; i < 16; i++)
            ck_assert(same(part[t * 16 + i], y[(200 + t) * width + 16 + i]));
    kvr_codec_layout(c, 0, &s, &l);
    ck_assert_int_le(p.stage[0].n_entries, l.most_entries);
    ck_assert_uint_eq(kvr_packed_bytes(&p), l.bytes.meta + (size_t)p.stage[0].n_entries);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

/* Channels with uniformly distributed symbols take at least 90 % of the layout's maximum size. A
 * constant channel takes at most 2 bytes per segment of 256 tokens. */
START_TEST(bytes_follow_the_data)
{
    const struct kvr_block_shape s = { 1024, 1, 16 };
    struct kvr_codec *c = open_codec("ranged(bins=16)", KVR_K, false, KVR_COMPUTE_F32);
    float *x = floats(elements(&s)), *y = floats(elements(&s));
    struct kvr_dev *dev = open_dev();
    struct kvr_layout l;

    kvr_codec_layout(c, 0, &s, &l);
    for (int constant = 0; constant < 2; constant++) {
        struct kvr_packed p;

        for (int i = 0; i < 1024 * 16; i++)
            x[i] = constant ? 1 : (float)(i / 16 * 7 % 15 - 7 + (i % 16 == 0 ? 0 : 0));
        for (int t = 0; t < 1024; t++)
            x[t * 16] = 7;
        p = code(dev, c, x, &s, y);
        if (constant)
            ck_assert_int_le(p.stage[0].n_entries, 16 * 4 * 2);
        else
            ck_assert_int_ge(p.stage[0].n_entries, (int64_t)(0.9 * (double)l.most_entries));
        ck_assert_int_le(p.stage[0].n_entries, l.most_entries);
        kvr_packed_free(&p);
    }
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ranged");
    TCase *tc = tcase_create("ranged");

    tcase_add_loop_test(tc, worked_example, 0, 2);
    tcase_add_loop_test(tc, every_code_comes_back, 0, 4 * N_FILLS);
    tcase_add_test(tc, bytes_follow_the_data);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
