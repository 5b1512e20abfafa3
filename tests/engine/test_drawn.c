/* test_drawn.c - decoders with random weights: they open, use as much memory as computed, and
 * decode to finite frames. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"
#include "harness/engine/vae/decoder.h"
#include "harness/engine/vae/drawn.h"
#include "harness/engine/vae/tae.h"
#include "tests/suite.h"

enum { SIDE = 2, FRAMES = 3 };

static char dir[64], path[96];

static const struct {
    enum kvr_decoder_kind kind;
    int channels, base;
} decoders[] = { { KVR_DECODER_VAE, 16, 4 },
                 { KVR_DECODER_VAE, 48, 4 },
                 { KVR_DECODER_TAEHV, 16, 0 } };

static enum kvr_status count_finite(void *ctx, const float *y)
{
    const int side = ((int *)ctx)[1];

    for (int i = 0; i < side * side * 3; i++)
        if (!isfinite(y[i]))
            return kvr_fail(KVR_ENAN, "value %d is %g", i, (double)y[i]);
    ++*(int *)ctx;
    return KVR_OK;
}

START_TEST(it_decodes)
{
    const enum kvr_decoder_kind kind = decoders[_i].kind;
    const int channels = decoders[_i].channels;
    static float z[48 * SIDE * SIDE];
    struct kvr_dev *dev;
    struct kvr_decoder *d;
    int seen[2] = { 0 };

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_decoder_draw(kind, channels, decoders[_i].base, 1, path) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_msg(kvr_decoder_open(&d, dev, kind, KVR_F32, path, SIDE, SIDE) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(kvr_decoder_channels(d), channels);
    seen[1] = SIDE * kvr_decoder_scale(d);
    for (int i = 0; i < channels * SIDE * SIDE; i++)
        z[i] = (float)(i % 7 - 3) / 3;
    for (int f = 0; f < FRAMES; f++)
        ck_assert_msg(kvr_decoder_decode(d, z, count_finite, seen) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(seen[0], kvr_vae_frames(FRAMES));
    kvr_decoder_close(&d);
    kvr_dev_close(&dev);
}
END_TEST

/* Pixels y of a decoder with 96 base channels, as many as Wan 2.1's: three latent frames give 9
 * frames [16,16,3]. */
enum { REAL = 9 * 16 * 16 * 3 };
struct values {
    float y[REAL];
    int n;
};

static enum kvr_status keep(void *ctx, const float *y)
{
    struct values *v = ctx;

    memcpy(v->y + v->n, y, 16 * 16 * 3 * sizeof *y);
    v->n += 16 * 16 * 3;
    return KVR_OK;
}

/* Compares pixels in BF16 and in F32, with random weights at Wan's widths. About 120 roundings of
 * RMS 0.0017 add up to a relative error of 1.9e-2, which is 34 dB below the values. */
START_TEST(in_bf16_at_real_widths)
{
    static struct values v[2];
    static float z[16 * SIDE * SIDE];
    double off = 0, size = 0, db;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_decoder_draw(KVR_DECODER_VAE, 16, 0, 1, path) == KVR_OK, "%s", kvr_error());
    for (int half = 0; half < 2; half++) {
        struct kvr_decoder *d;

        ck_assert_msg(kvr_decoder_open(&d, dev, KVR_DECODER_VAE, half ? KVR_BF16 : KVR_F32, path,
                                       SIDE, SIDE) == KVR_OK,
                      "%s", kvr_error());
        for (int f = 0; f < FRAMES; f++) {
            for (int i = 0; i < 16 * SIDE * SIDE; i++)
                z[i] = (float)((i + f) % 7 - 3) / 3;
            ck_assert_int_eq(kvr_decoder_decode(d, z, keep, &v[half]), KVR_OK);
        }
        kvr_decoder_close(&d);
    }
    for (int i = 0; i < REAL; i++) {
        const double d = (double)v[1].y[i] - (double)v[0].y[i];

        off += d * d;
        size += (double)v[0].y[i] * (double)v[0].y[i];
    }
    db = -10 * log10(off / size);
    printf("BF16 beside F32, 96 channels, drawn weights: %.1f dB below the values, PSNR %.1f dB\n",
           db, -10 * log10(off / 4 / REAL));
    ck_assert_msg(db >= 34 && db <= 60, "%g dB", db);
    kvr_dev_close(&dev);
}
END_TEST

/* Compares the memory that a device counts with the computed size, in F32 and in BF16. In BF16,
 * tensor cores need outputs in multiples of 8. The head's 3 outputs are therefore padded to 8. Each
 * of the 5 added outputs has 27 x 96 weights and a bias. */
START_TEST(the_memory_of_a_device)
{
    const enum kvr_dtype type = _i ? KVR_BF16 : KVR_F32;
    const size_t padding = _i ? 5 * (27 * 96 * sizeof(kvr_bf16) + sizeof(float)) : 0;
    struct kvr_vae_cost cost;
    struct kvr_mem_stats mem;
    struct kvr_decoder *d;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
    ck_assert_int_eq(kvr_decoder_draw(KVR_DECODER_VAE, 16, 0, 1, path), KVR_OK);
    ck_assert_msg(kvr_decoder_open(&d, dev, KVR_DECODER_VAE, type, path, SIDE, SIDE) == KVR_OK,
                  "%s", kvr_error());
    kvr_mem_stats(dev, &mem);
    ck_assert(kvr_decoder_cost(KVR_DECODER_VAE, 16, SIDE, SIDE, type, &cost));
    ck_assert_uint_eq(mem.live[KVR_MEM_WEIGHTS], cost.weights + padding);
    ck_assert_uint_eq(mem.live[KVR_MEM_ACT], cost.states + cost.frames);
    kvr_decoder_close(&d);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(all_weights_are_there_and_no_more)
{
    const enum kvr_decoder_kind kind = decoders[_i].kind;
    struct kvr_vae_cost cost = { 0 };
    struct kvr_st *f;
    size_t n = 0;

    if (kind == KVR_DECODER_TAEHV)
        kvr_tae_cost(kvr_tae_widths, SIDE, SIDE, &cost);
    else
        ck_assert(
            kvr_vae_cost(decoders[_i].channels, decoders[_i].base, SIDE, SIDE, KVR_F32, &cost));
    ck_assert_int_eq(kvr_decoder_draw(kind, decoders[_i].channels, decoders[_i].base, 1, path),
                     KVR_OK);
    ck_assert_int_eq(kvr_st_open(&f, path), KVR_OK);
    for (int i = 0; i < kvr_st_count(f); i++) {
        struct kvr_tensor t;

        ck_assert_int_eq(kvr_st_view(f, kvr_st_name(f, i), &t), KVR_OK);
        n += kvr_tensor_bytes(&t);
    }
    kvr_st_close(&f);
    ck_assert_msg(n <= cost.weights && n >= cost.weights / 100 * 99, "%zu bytes, cost says %zu", n,
                  cost.weights);
}
END_TEST

START_TEST(the_same_bytes_for_a_seed)
{
    char hex[3][KVR_SHA256_HEX];

    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(kvr_decoder_draw(KVR_DECODER_VAE, 16, 2, i == 2 ? 8 : 7, path), KVR_OK);
        ck_assert_int_eq(kvr_sha256_file(path, hex[i]), KVR_OK);
    }
    ck_assert_str_eq(hex[0], hex[1]);
    ck_assert_str_ne(hex[0], hex[2]);
}
END_TEST

START_TEST(no_such_decoder)
{
    ck_assert_int_eq(kvr_decoder_draw(KVR_DECODER_TAEHV, 48, 0, 1, path), KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(
        strstr(kvr_error(), "decoder taehv does not support latents of 48 channels"));
    ck_assert_int_eq(kvr_decoder_draw(KVR_DECODER_VAE, 3, 0, 1, path), KVR_EUNSUPPORTED);
}
END_TEST

static void make_dir(void)
{
    strcpy(dir, "/tmp/kvreel-test-drawn-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/d.safetensors", dir);
}

static void drop_dir(void)
{
    remove(path);
    remove(dir);
}

int main(void)
{
    Suite *s = suite_create("drawn");
    TCase *tc = tcase_create("drawn");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, make_dir, drop_dir);
    tcase_add_loop_test(tc, it_decodes, 0, 3);
    tcase_add_test(tc, in_bf16_at_real_widths);
    tcase_add_loop_test(tc, the_memory_of_a_device, 0, 2);
    tcase_add_loop_test(tc, all_weights_are_there_and_no_more, 0, 3);
    tcase_add_test(tc, the_same_bytes_for_a_seed);
    tcase_add_test(tc, no_such_decoder);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
