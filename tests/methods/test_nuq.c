/* test_nuq.c - quantization levels fitted to a block: bytes, outliers, and optimality. */
#include "tests/methods/codec_tools.h"

#include <sys/stat.h>
#include <unistd.h>

#include "methods/codecs/nuq/nuq.h"
#include "tests/suite.h"

/* KVQuant takes b + 0.32 bits per element, because 1 % of the elements are outliers of 32 bits
 * (index and FP16 value). In addition, kvreel stores 32 bits per vector for its range (FP16 centre
 * and half-width), and 8 FP32 levels per block. */
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

/* Draws two clusters around 1 and -1, and one outlier of 30 in every vector. */
static void draw(float *x, bool by_token)
{
    kvr_normal(x, T * W, 7, KVR_RNG_TEST, 1, 0, 0);
    for (int i = 0; i < T * W; i++) {
        const int place = by_token ? i % W : i / W, vector = by_token ? i / W : i % W;

        x[i] = 0.1f * x[i] + (i * 7 % 13 < 5 ? 1.0f : -1.0f);
        if (place == vector * 5 % (by_token ? W : T))
            x[i] = 30;
        /* BF16 values of this size are exact in FP16, so outliers are stored without error. */
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
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

/* Outliers are stored in FP16 and do not widen the range. The other elements lie within +-1.4. Each
 * level is the mean of the elements coded with it, and the squared error is smaller than with a
 * uniform grid. */
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
        const double middle = kvr_f16_to_f32((kvr_f16)cells_get(meta, nuq_middle_at(&g, v), 2));
        const double half = kvr_f16_to_f32((kvr_f16)cells_get(meta, nuq_middle_at(&g, v) + 2, 2));
        int q = 0;

        ck_assert_msg(x[i] < 29 || y[i] == 30 || g.n_outliers == 0, "%s: 30 reads %g", text,
                      (double)y[i]);
        if (x[i] > 29 || y[i] == x[i])
            continue;
        for (int l = 1; l < 1 << bits; l++) {
            const double a = cells_float(cells_get(meta, 4 * l, 4)),
                         b = cells_float(cells_get(meta, 4 * q, 4));

            q = fabs(a * half + middle - (double)y[i]) < fabs(b * half + middle - (double)y[i]) ? l
                                                                                                : q;
        }
        sum[q] += half * half * ((double)x[i] - middle) / half;
        weight[q] += half * half;
        error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    }
    for (int q = 0; q < 1 << bits; q++)
        /* The codec computes the means from a histogram with bins of width 2 / 1024. */
        if (weight[q] > 0) {
            const double level = cells_float(cells_get(meta, 4 * q, 4));

            ck_assert_msg(fabs(sum[q] / weight[q] - level) <= 4e-3, "%s: level %d is %g, mean %g",
                          text, q, level, sum[q] / weight[q]);
        }
    /* at most 0.6 times step^2 / 12, the mean squared error of a uniform grid over -1.4 .. 1.4 */
    ck_assert_msg(error / (T * W) <= 0.6 * pow(2.8 / (1 << bits), 2) / 12, "%s: %g", text,
                  error / (T * W));
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

/* With norm=true, decoded values have the variance of the original ones. Without it their
 * variance is smaller. */
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
    /* The codec preserves a variance in which vectors with a wide range have a larger weight, so
     * the unweighted variance agrees only within 3 %. */
    ck_assert_msg(fabs(read[1] / given - 1) <= 0.03, "%g of %g", read[1], given);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

/* ---- levels from a calibration file ---------------------------------------------------------- */

static char table[64];

static void write_table(const char *text)
{
    FILE *f = fopen(table, "w");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void make_table(void)
{
    strcpy(table, "/tmp/kvr_levels_XXXXXX");
    ck_assert_int_ge(close(mkstemp(table)), 0);
}

static void remove_table(void)
{
    remove(table);
}

static struct kvr_codec *calibrated(const char *text, enum kvr_side side)
{
    struct kvr_codec *c = open_codec(text, side, false, KVR_COMPUTE_F32);
    int n;

    ck_assert_int_eq(kvr_codec_set(c, 0, "levels", table, &n), KVR_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_msg(kvr_codec_check(c, H, D) == KVR_OK, "%s", kvr_error());
    return c;
}

static const char two_layers[] = "# of a test\n"
                                 "k 0 -0.75 -0.25 0.25 0.75\n"
                                 "v 0 -1 -0.5 0 0.5 # asymmetric\n"
                                 "\n"
                                 "k 1 -0.9 -0.1 0.2 1\n"
                                 "v 1 -0.5 0 0 0.5\n";

/* Without a file, `kvquant` gives the bytes of `nuq`. */
START_TEST(without_a_file_they_are_the_blocks_own)
{
    struct kvr_codec *a = open_codec("nuq(bits=2,norm=true)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_codec *b = open_codec("kvquant(bits=2,norm=true)", KVR_K, false, KVR_COMPUTE_F32);
    float *x = floats(T * W), *y = floats(T * W);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p, q;

    draw(x, false);
    p = code(dev, a, x, y);
    q = code(dev, b, x, y);
    ck_assert_uint_eq(p.stage[0].meta.n_bytes, q.stage[0].meta.n_bytes);
    ck_assert_mem_eq(p.stage[0].codes.p, q.stage[0].codes.p, p.stage[0].codes.n_bytes);
    ck_assert_mem_eq(p.stage[0].meta.p, q.stage[0].meta.p, p.stage[0].meta.n_bytes);
    kvr_packed_free(&p);
    kvr_packed_free(&q);
    kvr_codec_close(&a);
    kvr_codec_close(&b);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

/* Keys and values of each layer use their own line of the file, and are coded with the nearest
 * of its levels. */
START_TEST(a_layer_has_its_own)
{
    static const double want[2][2][4] = { { { -.75, -.25, .25, .75 }, { -1, -.5, 0, .5 } },
                                          { { -.9, -.1, .2, 1 }, { -.5, 0, 0, .5 } } };
    const int layer = _i % 2;
    const enum kvr_side side = _i / 2 ? KVR_V : KVR_K;
    const struct kvr_place place = { .layer = layer, .n_layers = 2 };
    const double *level = want[layer][side == KVR_V];
    struct nuq g = { .bits = 2, .n_tok = T, .channels = W, .n_vectors = W, .length = T };
    float *x = floats(T * W), *work = floats(T * W), *y = floats(T * W);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p;
    struct kvr_codec *c;
    const uint8_t *meta;

    make_table();
    write_table(two_layers);
    c = calibrated("kvquant(bits=2,exact=0)", side);
    kvr_normal(x, T * W, 7, KVR_RNG_TEST, 3, 0, 0);
    ck_assert_msg(kvr_codec_encode_at(c, dev, x, &shape, &place, work, &p) == KVR_OK, "%s",
                  kvr_error());
    kvr_codec_decode(&p, 0, T, 0, H, y);
    meta = p.stage[0].meta.p;
    for (int q = 0; q < 4; q++)
        ck_assert(cells_float(cells_get(meta, 4 * q, 4)) == (float)level[q]);
    for (int i = 0; i < T * W; i++) {
        const float middle = kvr_f16_to_f32((kvr_f16)cells_get(meta, nuq_middle_at(&g, i % W), 2));
        const float half =
            kvr_f16_to_f32((kvr_f16)cells_get(meta, nuq_middle_at(&g, i % W) + 2, 2));
        double best = INFINITY;

        for (int q = 0; q < 4; q++)
            best = fmin(best, fabs(level[q] * (double)half + (double)middle - (double)x[i]));
        /* Halfway between two levels, FP32 rounding may select either. */
        ck_assert_msg(fabs((double)y[i] - (double)x[i]) <= best + 1e-5, "%g reads %g", (double)x[i],
                      (double)y[i]);
    }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    remove_table();
    free(x);
    free(work);
    free(y);
}
END_TEST

START_TEST(a_file_that_is_none_is_refused)
{
    static const struct {
        const char *text, *message;
        enum kvr_status status;
    } bad[] = {
        { "k 0 -1 0 1\n", ":1: need k (keys) or v (values), a layer index, and 4 ascending levels",
          KVR_EFORMAT },
        { "k 0 -1 0 .5 1 1\n", ":1: need", KVR_EFORMAT },
        { "k 0 -1 0 1 .5\n", ":1: need", KVR_EFORMAT },
        { "k 0 -1 0 .5 1.5\n", ":1: need", KVR_EFORMAT },
        { "k 0 -1 0 .5 nan\n", ":1: need", KVR_EFORMAT },
        { "q 0 -1 0 .5 1\n", ":1: need", KVR_EFORMAT },
        { "k -1 -1 0 .5 1\n", ":1: need", KVR_EFORMAT },
        { "k 0 -1 0 .5 one\n", ":1: need", KVR_EFORMAT },
        { "k 0 -1 0 .5 1\n#\nk 0 -1 0 .5 1\n", ":3: layer 0 is listed twice", KVR_EFORMAT },
        { "k 0 -1 0 .5 1\nv 0 -1 0 .5 1\n", "2 lines of levels; a model of 2 layers", KVR_EFORMAT },
        { "k 1 -1 0 .5 1\nv 0 -1 0 .5 1\nv 1 -1 0 .5 1\nv 0 -1 0 .5 1\n", "4 lines", KVR_EFORMAT },
        { NULL, "No such file", KVR_ENOTFOUND },
        { "/", "not a regular file", KVR_EINVAL },
        { two_layers, "gives no layer index", KVR_EUNSUPPORTED },
    };
    const struct kvr_place place = { .n_layers = bad[_i].text == two_layers ? 0 : 2 };
    float *x = floats(T * W), *work = floats(T * W);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p;
    struct kvr_codec *c;

    make_table();
    if (bad[_i].text && *bad[_i].text != '/')
        write_table(bad[_i].text);
    else
        remove_table();
    if (bad[_i].text && *bad[_i].text == '/')
        ck_assert_int_eq(mkdir(table, 0700), 0);
    c = calibrated("kvquant(bits=2)", KVR_K);
    ck_assert_msg(kvr_codec_encode_at(c, dev, x, &shape, &place, work, &p) == bad[_i].status,
                  "%s: %s", bad[_i].text, kvr_error());
    ck_assert_msg(strstr(kvr_error(), bad[_i].message) && strstr(kvr_error(), table),
                  "'%s' lacks '%s'", kvr_error(), bad[_i].message);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    remove_table();
    free(x);
    free(work);
}
END_TEST
enum { N_BAD_TABLES = 14 };

/* The path is a word of the codec's text, so it must not contain blanks or the delimiters , ) |.
 * The limit of its length is 120 characters. */
START_TEST(a_path_is_refused_that_is_no_word)
{
    static const char *const bad[] = { "a,b", "a)", "a|b", "a b" };
    char longer[130];

    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = 0;
    for (int i = 0; i < 5; i++) {
        struct kvr_codec *c = open_codec("kvquant", KVR_K, false, KVR_COMPUTE_F32);
        int n;

        ck_assert_int_eq(kvr_codec_set(c, 0, "levels", i < 4 ? bad[i] : longer, &n), KVR_OK);
        ck_assert_int_eq(kvr_codec_check(c, H, D), KVR_EINVAL);
        ck_assert_ptr_nonnull(strstr(kvr_error(), "a path of at most 120 characters"));
        kvr_codec_close(&c);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("nuq");
    TCase *tc = tcase_create("nuq");

    tcase_add_test(tc, sizes);
    tcase_add_loop_test(tc, levels_are_means, 0, 6);
    tcase_add_test(tc, norm_keeps_the_variance);
    tcase_add_test(tc, without_a_file_they_are_the_blocks_own);
    tcase_add_loop_test(tc, a_layer_has_its_own, 0, 4);
    tcase_add_loop_test(tc, a_file_that_is_none_is_refused, 0, N_BAD_TABLES);
    tcase_add_test(tc, a_path_is_refused_that_is_no_word);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
