/* test_kivi.c - KIVI's residual window. However chunks are cut, complete blocks of 128 tokens
 * are quantized as if they arrived at once, and the remaining tokens stay exact. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/layer.h"
#include "harness/core/dtype.h"
#include "harness/core/rng.h"
#include "tests/suite.h"

enum { S = 50, F = 3, H = 2, D = 32, CHUNK = S * F, W = H * D, CHUNKS = 4, N = CHUNK * CHUNKS };
enum { RESIDUAL = 128 };

static float x[2][N * W], got[2][N * W], want[N * W];
static uint8_t held[N];

/* Quantizes the first n keys or values by one call of the codec and decodes them into `want`. */
static void at_once(struct kvr_dev *dev, const struct kvr_codec *c, const float *from, int64_t n)
{
    const struct kvr_block_shape s = { n, H, D };
    float *work = malloc(sizeof want);
    struct kvr_packed p;

    ck_assert_int_eq(kvr_codec_encode(c, dev, from, &s, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, n, 0, H, want);
    kvr_packed_free(&p);
    free(work);
}

START_TEST(codes_do_not_depend_on_chunks)
{
    const struct kvr_layer_geometry geo = { .n_layers = 1,
                                            .n_heads = H,
                                            .head_dim = D,
                                            .tokens_per_frame = S,
                                            .frames_per_chunk = F,
                                            .capacity = N };
    struct kvr_layer_scratch scratch = { 0 };
    struct kvr_layer layer;
    struct kvr_scheme *scheme;
    struct kvr_dev *dev;

    for (int side = 0; side < 2; side++) {
        kvr_normal(x[side], N * W, 5, KVR_RNG_TEST, (uint32_t)side, 0, 0);
        for (int i = 0; i < N * W; i++)
            x[side][i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[side][i]));
    }
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, _i ? "KIVI_R128_INT4" : "KIVI_R128_INT2", NULL, 0),
                     KVR_OK);
    ck_assert_int_eq(kvr_layer_open(&layer, dev, scheme, &geo, &scratch, false), KVR_OK);
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const int64_t n = (int64_t)(chunk + 1) * CHUNK, coded = n / RESIDUAL * RESIDUAL;
        size_t bytes = 0;

        /* Storing a chunk twice must not change the result. */
        for (int twice = 0; twice < 2; twice++)
            ck_assert_msg(kvr_layer_commit(&layer, x[0] + chunk * CHUNK * W,
                                           x[1] + chunk * CHUNK * W, (int64_t)chunk * CHUNK,
                                           CHUNK) == KVR_OK,
                          "%s", kvr_error());
        kvr_layer_dense(&layer, 0, n, got[0], got[1], held);
        for (int side = 0; side < 2; side++) {
            const struct kvr_codec *c = side ? scheme->v[0] : scheme->k[0];

            at_once(dev, c, x[side], coded);
            ck_assert_mem_eq(got[side], want, (size_t)(coded * W) * sizeof(float));
            ck_assert_mem_eq(got[side] + coded * W, x[side] + coded * W,
                             (size_t)((n - coded) * W) * sizeof(float));
        }
        for (int i = 0; i < layer.n; i++)
            bytes += kvr_packed_bytes(&layer.seg[i].k) + kvr_packed_bytes(&layer.seg[i].v);
        /* Coded values take b bits plus 32 bits per group of 32, unquantized ones 16 bits. */
        ck_assert_uint_eq(bytes, (size_t)(2 * W * (coded * (_i ? 5 : 3) + (n - coded) * 16) / 8));
    }
    kvr_layer_close(&layer);
    kvr_layer_scratch_free(&scratch);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kivi");
    TCase *tc = tcase_create("kivi");

    tcase_add_loop_test(tc, codes_do_not_depend_on_chunks, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
