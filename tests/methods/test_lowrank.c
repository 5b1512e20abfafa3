/* test_lowrank.c - principal directions: stored bytes, blocks of low rank, and the error of the
 * best approximation. */
#include "tests/methods/codec_tools.h"

#include <unistd.h>

#include "harness/core/safetensors.h"
#include "methods/codecs/lowrank/lowrank.h"
#include "tests/suite.h"

/* A token's head vector of 128 channels is stored as 32 coordinates in BF16, hence 4 bits per
 * channel. A head also stores 33 vectors of 128 BF16 values: the mean and 32 directions. */
START_TEST(sizes)
{
    const struct kvr_block_shape s = { 4680, 12, 128 };
    struct kvr_codec *c = open_codec("lowrank", KVR_K, false, KVR_COMPUTE_F32);

    ck_assert_uint_eq(kvr_codec_bytes(c, &s), 4680 * 1536 / 2 + 12 * 33 * 128 * 2);
    kvr_codec_close(&c);
}
END_TEST

enum { T = 150, H = 2, D = 32, W = H * D };
static const struct kvr_block_shape shape = { T, H, D };

/* Draws tokens that vary along n directions around a mean, with variances 1, 1/4, 1/16, ... */
static void draw(float *x, int n)
{
    float u[D * D], mean[W], c[D];

    kvr_normal(u, D * D, 3, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(mean, W, 3, KVR_RNG_TEST, 2, 0, 0);
    /* Gram-Schmidt makes the directions orthonormal. */
    for (int i = 0; i < n; i++) {
        double size = 0;

        for (int j = 0; j < i; j++) {
            double dot = 0;

            for (int e = 0; e < D; e++)
                dot += (double)u[i * D + e] * (double)u[j * D + e];
            for (int e = 0; e < D; e++)
                u[i * D + e] -= (float)dot * u[j * D + e];
        }
        for (int e = 0; e < D; e++)
            size += (double)u[i * D + e] * (double)u[i * D + e];
        for (int e = 0; e < D; e++)
            u[i * D + e] /= (float)sqrt(size);
    }
    for (int r = 0; r < T * H; r++) {
        kvr_normal(c, D, 3, KVR_RNG_TEST, 3, (uint32_t)r, 0);
        for (int e = 0; e < D; e++) {
            x[r * D + e] = 3 * mean[r % H * D + e];
            for (int i = 0; i < n; i++)
                x[r * D + e] += ldexpf(c[i], -i) * u[i * D + e];
        }
    }
}

/* Returns the sum of squared errors of the codec `text`. Sets *all to the sum of squared deviations
 * from the mean, which would be the error if only the mean were stored. */
static double error_of(const char *text, const float *x, double *all)
{
    struct kvr_codec *c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    float *work = floats(T * W), *y = floats(T * W);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p;
    double sum = 0;

    ck_assert_msg(kvr_codec_encode(c, dev, x, &shape, work, &p) == KVR_OK, "%s", kvr_error());
    kvr_codec_decode(&p, 0, T, 0, H, y);
    *all = 0;
    for (int e = 0; e < W; e++) {
        double mean = 0;

        for (int t = 0; t < T; t++)
            mean += (double)x[t * W + e] / T;
        for (int t = 0; t < T; t++) {
            const double far = (double)x[t * W + e] - mean,
                         left = (double)x[t * W + e] - (double)y[t * W + e];

            *all += far * far;
            sum += left * left;
        }
    }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(work);
    free(y);
    return sum;
}

/* If the block has no more directions than the codec stores, the only error is the rounding to
 * BF16. */
START_TEST(blocks_of_few_directions)
{
    float *x = floats(T * W);
    double all, error;

    draw(x, 4);
    error = error_of("lowrank(share=0.125)", x, &all);
    /* Mean, coordinates and directions are rounded to BF16, each with an RMS relative error of 0.43
     * x 2^-8. Three independent roundings cause a squared error of 2.2 x 2^-18 times the sum of
     * squares of x. The limit is 9 x 2^-18 times this sum: the squared deviations from the mean,
     * plus 9 for the mean of every element (draw() scales means by 3). */
    ck_assert_msg(error <= 9 * 0x1p-18 * (all + 9.0 * T * W), "%g of %g", error, all);
    free(x);
}
END_TEST

/* The variances along the directions are 1, 1/4, 1/16, ..., in total 4/3. If the codec stores the
 * two largest, 1/16 + 1/64 + ... = 1/12 remains, 6.25 % of the total. Any other two directions
 * would leave more. For this sample of 150 tokens and two heads the test accepts a deviation of a
 * third. */
START_TEST(the_largest_are_kept)
{
    float *x = floats(T * W);
    double all, error;

    draw(x, D);
    error = error_of("lowrank(share=0.0625)", x, &all);
    ck_assert_msg(error >= 0.0417 * all && error <= 0.0834 * all, "%g of %g", error, all);
    free(x);
}
END_TEST

/* ---- directions from a calibration file ----------------------------------------------------- */

/* Without a file, `principal` gives the bytes of `lowrank`. */
START_TEST(without_a_file_they_are_the_blocks_own)
{
    float *x = floats(T * W);
    struct placed a, b;

    draw(x, D);
    placed_open(&a, "lowrank", &shape, &(struct kvr_place){ 0 }, x);
    placed_open(&b, "principal", &shape, &(struct kvr_place){ 0 }, x);
    for (int i = 0; i < 2; i++) {
        const struct kvr_buf *one = i ? &a.packed.stage[0].meta : &a.packed.stage[0].codes;
        const struct kvr_buf *two = i ? &b.packed.stage[0].meta : &b.packed.stage[0].codes;

        ck_assert_uint_eq(one->n_bytes, two->n_bytes);
        ck_assert_mem_eq(one->p, two->p, one->n_bytes);
    }
    placed_close(&a);
    placed_close(&b);
    free(x);
}
END_TEST

enum { LAYERS = 2 };
static char file[80];

/* Writes a calibration file. The mean of layer l is l. Direction c is the unit vector of channel c
 * + l for keys and c + l + 1 for values, modulo D. Wrong values of the arguments make an invalid
 * file; `name` replaces the name of tensor k.1. */
static void write_basis(int heads, const char *name, enum kvr_dtype dtype, int n)
{
    static float data[2 * LAYERS][H + 1][1 + D][D];
    static const char *const names[] = { "k.0", "v.0", "k.1", "v.1" };
    struct kvr_st_item item[2 * LAYERS];

    memset(data, 0, sizeof data);
    for (int i = 0; i < 2 * LAYERS; i++) {
        for (int h = 0; h < H + 1; h++)
            for (int c = 0; c < D; c++) {
                data[i][h][0][c] = (float)(i / 2);
                data[i][h][1 + c][(c + i / 2 + i % 2) % D] = 1;
            }
        item[i] = (struct kvr_st_item){
            .name = name && i == 2 ? name : names[i],
            .t = { .data = data[i], .dtype = dtype, .n_dims = 3, .shape = { heads, 1 + D, D } }
        };
    }
    strcpy(file, "/tmp/kvr_basis_XXXXXX");
    ck_assert_int_ge(close(mkstemp(file)), 0);
    ck_assert_msg(kvr_st_write(file, item, n, NULL) == KVR_OK, "%s", kvr_error());
}

/* Every direction in the file is the unit vector of one channel. The codec stores a quarter of the
 * directions, so a quarter of the channels decode to their values and the others to the mean. */
START_TEST(a_layer_has_its_own)
{
    const int layer = _i % 2;
    const bool values = _i / 2;
    const struct kvr_place place = { .layer = layer, .n_layers = LAYERS };
    float *x = floats(T * W), *work = floats(T * W), *y = floats(T * W);
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c;
    struct kvr_packed p;
    char text[128];

    write_basis(H, NULL, KVR_F32, 2 * LAYERS);
    snprintf(text, sizeof text, "principal(basis=%s)", file);
    c = open_codec(text, values ? KVR_V : KVR_K, false, KVR_COMPUTE_F32);
    ck_assert_int_eq(kvr_codec_check(c, H, D), KVR_OK);
    fill_block(x, &shape, FILL_NORMAL, 3);
    ck_assert_msg(kvr_codec_encode_at(c, dev, x, &shape, &place, work, &p) == KVR_OK, "%s",
                  kvr_error());
    kvr_codec_decode(&p, 0, T, 0, H, y);
    for (int i = 0; i < T * W; i++) {
        const bool kept = (i % D - layer - values + D) % D < D / 4;
        const float want = kept ? x[i] : (float)layer;

        /* The stored coordinate is x minus the mean, 0 or 1. It is rounded to BF16, with a relative
         * error of at most 2^-8. */
        ck_assert_msg(fabsf(y[i] - want) <= 0x1p-8f * (fabsf(want) + 1), "channel %d: %g reads %g",
                      i % D, (double)x[i], (double)y[i]);
    }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    remove(file);
    free(x);
    free(work);
    free(y);
}
END_TEST

START_TEST(a_file_that_is_none_is_refused)
{
    static const struct {
        int heads, n, n_layers;
        const char *name;
        enum kvr_dtype dtype;
        const char *message;
        enum kvr_status status;
    } bad[] = {
        { H + 1, 2 * LAYERS, LAYERS, NULL, KVR_F32, "k.1", KVR_EFORMAT },
        { H, 2 * LAYERS, LAYERS, "other", KVR_F32, "k.1", KVR_ENOTFOUND },
        { H, 2 * LAYERS, LAYERS, NULL, KVR_BF16, "must be F32", KVR_EFORMAT },
        { H, 3, LAYERS, NULL, KVR_F32, "3 tensors; a model of 2 layers", KVR_EFORMAT },
        { H, 2 * LAYERS, LAYERS + 1, NULL, KVR_F32, "4 tensors; a model of 3", KVR_EFORMAT },
        { H, 2 * LAYERS, 0, NULL, KVR_F32, "gives no layer index", KVR_EUNSUPPORTED },
        { 0, 0, LAYERS, NULL, KVR_F32, "/tmp/kvr_basis", KVR_ENOTFOUND },
    };
    const struct kvr_place place = { .layer = 1, .n_layers = bad[_i].n_layers };
    float *x = floats(T * W), *work = floats(T * W);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p;
    struct kvr_codec *c;
    char text[128];

    write_basis(bad[_i].n ? bad[_i].heads : H, bad[_i].name, bad[_i].dtype,
                bad[_i].n ? bad[_i].n : 1);
    if (!bad[_i].n)
        remove(file);
    snprintf(text, sizeof text, "principal(basis=%s)", file);
    c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    ck_assert_msg(kvr_codec_encode_at(c, dev, x, &shape, &place, work, &p) == bad[_i].status,
                  "%d: %s", _i, kvr_error());
    ck_assert_msg(strstr(kvr_error(), bad[_i].message) && strstr(kvr_error(), file),
                  "'%s' lacks '%s'", kvr_error(), bad[_i].message);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    remove(file);
    free(x);
    free(work);
}
END_TEST
enum { N_BAD = 7 };

int main(void)
{
    Suite *s = suite_create("lowrank");
    TCase *tc = tcase_create("lowrank");

    tcase_add_test(tc, sizes);
    tcase_add_test(tc, blocks_of_few_directions);
    tcase_add_test(tc, the_largest_are_kept);
    tcase_add_test(tc, without_a_file_they_are_the_blocks_own);
    tcase_add_loop_test(tc, a_layer_has_its_own, 0, 4);
    tcase_add_loop_test(tc, a_file_that_is_none_is_refused, 0, N_BAD);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
