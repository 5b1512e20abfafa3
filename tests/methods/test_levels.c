/* test_levels.c - fixed codebooks against their definition in double precision, and their sizes
 * at the study's geometry. */
#include "tests/methods/codec_tools.h"

#include "methods/kernels/pack.h"
#include "methods/method.h"
#include "tests/suite.h"

/* Expected table entries of each codebook stage. */
static const struct {
    const char *text;
    int n;
    double level[4]; /* levels 0, n/2 - 1, n/2 and n - 1 */
    const char *method;
    uint64_t bytes_21; /* bytes for 21 latent frames of Wan 1.3B, keys and values of 30 layers */
} codebooks[] = {
    { "nf4(group=32)", 16, { -1, 0, 0.07958029955625534, 1 }, "NF4_G64", 1603929600 },
};
enum { N_BOOKS = sizeof codebooks / sizeof *codebooks };

static struct kvr_layout layout_of(const struct kvr_codec *c, const struct kvr_block_shape *s)
{
    struct kvr_layout l;

    kvr_codec_layout(c, 0, s, &l);
    return l;
}

START_TEST(tables_ascend)
{
    struct kvr_codec *c = open_codec(codebooks[_i].text, KVR_K, false, KVR_COMPUTE_F32);
    const struct kvr_layout l = layout_of(c, &(struct kvr_block_shape){ 1, 1, 32 });
    const int n = codebooks[_i].n;

    ck_assert_int_eq(l.form, KVR_FORM_LEVELS);
    ck_assert_int_eq(1 << l.bits, n);
    for (int i = 1; i < n; i++)
        ck_assert(l.level[i] > l.level[i - 1]);
    ck_assert(l.level[0] == (float)codebooks[_i].level[0]);
    ck_assert(l.level[n / 2 - 1] == (float)codebooks[_i].level[1]);
    ck_assert(l.level[n / 2] == (float)codebooks[_i].level[2]);
    ck_assert(l.level[n - 1] == (float)codebooks[_i].level[3]);
    kvr_codec_close(&c);
}
END_TEST

/* Each code must be the index of the level nearest to x / s, the lower index on ties. The reference
 * uses double precision; the codec rounds x / s to F32, by 2^-24 relative. The code of another
 * level is therefore accepted if both distances agree within 2^-23 |x / s|. */
START_TEST(codes_are_nearest)
{
    const struct kvr_block_shape s = { 37, 2, 64 };
    const int64_t channels = (int64_t)s.n_heads * s.head_dim;
    struct kvr_codec *c = open_codec(codebooks[_i].text, KVR_K, false, KVR_COMPUTE_F32);
    const struct kvr_layout l = layout_of(c, &s);
    const size_t n = elements(&s);
    struct kvr_dev *dev = open_dev();
    float *x = floats(n), *work = floats(n);
    int n_other = 0;

    for (int f = 0; f < N_FINITE_FILLS; f++) {
        struct kvr_packed p;

        /* The scale is not a normal FP16 number. */
        if (f == FILL_TINY || f == FILL_BEYOND_FP16)
            continue;
        fill_block(x, &s, (enum fill)f, 2);
        ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
        for (size_t i = 0; i < n; i++) {
            const double scale =
                (double)kvr_f16_to_f32(((const kvr_f16 *)p.stage[0].meta.p)[i / (size_t)l.group]);
            const double v = scale ? (double)x[i] / scale : 0;
            uint8_t q;
            int best = 0;

            kvr_unpack_token(p.stage[0].codes.p, s.n_tok, channels, l.bits, (int64_t)i / channels,
                             (int64_t)i % channels, 1, &q);
            for (int j = 1; j < codebooks[_i].n; j++)
                if (fabs(v - (double)l.level[j]) < fabs(v - (double)l.level[best]))
                    best = j;
            if (q != best)
                ck_assert_msg(fabs(fabs(v - (double)l.level[q]) -
                                   fabs(v - (double)l.level[best])) <= fabs(v) * 0x1p-23,
                              "%s, %s: %g is coded %d, nearest is %d", c->text, fill_names[f], v, q,
                              best);
            n_other += q != best;
        }
        kvr_packed_free(&p);
    }
    ck_assert_int_le(n_other, 4);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
}
END_TEST

/* If every element of a group is a level times the same power of two, it is decoded exactly. */
START_TEST(levels_are_themselves)
{
    struct kvr_codec *c = open_codec(codebooks[_i].text, KVR_K, false, KVR_COMPUTE_F32);
    const struct kvr_block_shape s = { 8, 1, 256 };
    const struct kvr_layout l = layout_of(c, &s);
    struct kvr_dev *dev = open_dev();
    float *x = floats(8 * 256), *y = floats(8 * 256), *work = floats(8 * 256);
    const float top = fmaxf(fabsf(l.level[0]), l.level[codebooks[_i].n - 1]);
    struct kvr_packed p;

    for (int i = 0; i < 8 * 256; i++) {
        const int g = i / l.group;

        x[i] = ldexpf(l.level[i % codebooks[_i].n], g % 9 - 4);
        if (i % l.group == 0)
            x[i] = ldexpf(l.level[0] == -top ? -top : top, g % 9 - 4);
    }
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, 8, 0, 1, y);
    ck_assert_mem_eq(x, y, 8 * 256 * sizeof *x);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
    free(work);
}
END_TEST

START_TEST(sizes_are_the_published)
{
    const struct kvr_block_shape s = { 21 * 1560, 12, 128 };
    struct kvr_scheme *p;

    ck_assert_int_eq(kvr_scheme_open(&p, codebooks[_i].method, NULL, 0), KVR_OK);
    ck_assert_uint_eq(30 * (kvr_codec_bytes(p->k[0], &s) + kvr_codec_bytes(p->v[0], &s)),
                      codebooks[_i].bytes_21);
    kvr_scheme_close(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("levels");
    TCase *tc = tcase_create("levels");

    tcase_add_loop_test(tc, tables_ascend, 0, N_BOOKS);
    tcase_add_loop_test(tc, codes_are_nearest, 0, N_BOOKS);
    tcase_add_loop_test(tc, levels_are_themselves, 0, N_BOOKS);
    tcase_add_loop_test(tc, sizes_are_the_published, 0, N_BOOKS);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
