/* test_norm.c - normalized tokens: codes and scales do not depend on a token's norm, and the
 * bytes of the norms are counted. */
#include "tests/methods/codec_tools.h"

#include "tests/suite.h"

static const struct kvr_block_shape shape = { 64, 3, 16 };

static struct kvr_packed encode(const struct kvr_codec *c, struct kvr_dev *dev, const float *x)
{
    float *work = floats(elements(&shape));
    struct kvr_packed p;

    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
    free(work);
    return p;
}

/* Every second token of y is 2^9 times as long as in x. Codes and scales stay the same; only the
 * norms differ. */
START_TEST(long_tokens_cost_the_others_nothing)
{
    struct kvr_codec *c = open_codec("norm | asym(bits=2,group=32)", KVR_K, false, KVR_COMPUTE_F32);
    const int64_t width = shape.n_heads * shape.head_dim;
    float *x = floats(elements(&shape)), *y = floats(elements(&shape)),
          *z = floats(elements(&shape));
    struct kvr_dev *dev = open_dev();
    struct kvr_packed a, b;

    fill_block(x, &shape, FILL_NORMAL, 3);
    for (int64_t i = 0; i < shape.n_tok * width; i++)
        y[i] = x[i] * (i / width % 2 ? 512 : 1);
    a = encode(c, dev, x);
    b = encode(c, dev, y);
    ck_assert_mem_eq(a.stage[1].codes.p, b.stage[1].codes.p, a.stage[1].codes.n_bytes);
    ck_assert_mem_eq(a.stage[1].meta.p, b.stage[1].meta.p, a.stage[1].meta.n_bytes);
    for (int64_t t = 0; t < shape.n_tok; t++) {
        double sum = 0;

        for (int64_t i = 0; i < width; i++)
            sum += (double)x[t * width + i] * (double)x[t * width + i];
        ck_assert_uint_eq(((kvr_f16 *)a.stage[0].meta.p)[t], kvr_f32_to_f16((float)sqrt(sum)));
    }
    kvr_codec_decode(&a, 0, shape.n_tok, 0, 3, x);
    kvr_codec_decode(&b, 0, shape.n_tok, 0, 3, z);
    for (int64_t i = 0; i < shape.n_tok * width; i++)
        ck_assert(z[i] == x[i] * (i / width % 2 ? 512 : 1));
    kvr_packed_free(&a);
    kvr_packed_free(&b);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
    free(z);
}
END_TEST

/* Dividing by the norm and multiplying again restores the values. Each of the two operations has a
 * relative rounding error of at most 2^-24. */
START_TEST(nothing_is_lost)
{
    struct kvr_codec *c = open_codec("norm | raw(type=f32)", KVR_K, false, KVR_COMPUTE_F32);
    float *x = floats(elements(&shape)), *y = floats(elements(&shape));
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p;

    fill_block(x, &shape, (enum fill)_i, 4);
    p = encode(c, dev, x);
    kvr_codec_decode(&p, 0, shape.n_tok, 0, 3, y);
    for (size_t i = 0; i < elements(&shape); i++)
        ck_assert_msg(fabsf(y[i] - x[i]) <= 2.5e-7f * fabsf(x[i]), "%s: %a, not %a", fill_names[_i],
                      (double)y[i], (double)x[i]);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

/* OScaR: 3 bits per element for the grid, and a 16-bit norm per token of 12 heads of 128
 * channels. */
START_TEST(sizes_are_the_published)
{
    const struct kvr_block_shape s = { 4608, 12, 128 };
    struct kvr_codec *c =
        open_codec("hadamard | norm | kivi(bits=2)", KVR_K, false, KVR_COMPUTE_F32);

    ck_assert_uint_eq(kvr_codec_bytes(c, &s), elements(&s) * 3 / 8 + 2 * (size_t)s.n_tok);
    kvr_codec_close(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("norm");
    TCase *tc = tcase_create("norm");

    tcase_add_test(tc, long_tokens_cost_the_others_nothing);
    tcase_add_loop_test(tc, nothing_is_lost, 0, FILL_TINY);
    tcase_add_test(tc, sizes_are_the_published);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
