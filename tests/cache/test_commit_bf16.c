/* test_commit_bf16.c - storing BF16 rows gives the same bytes as storing the same values as F32
 * rows. This holds for every method whose stored bytes depend on its codecs alone, also where
 * groups straddle chunks. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/fingerprint.h"
#include "harness/cache/layer.h"
#include "harness/cache/mirror.h"
#include "harness/core/rng.h"
#include "methods/method.h"
#include "tests/suite.h"

enum {
    H = 2,
    D = 128,
    FRAME = 10,
    CHUNK = 3 * FRAME,
    TOKENS = 80,
    WIDTH = H * D,
    N = TOKENS * WIDTH
};

struct rows {
    float wide[2][N];
    kvr_bf16 narrow[2][N];
};

static struct rows *rows_make(void)
{
    struct rows *r = malloc(sizeof *r);

    ck_assert_ptr_nonnull(r);
    for (int i = 0; i < 2; i++) {
        kvr_normal(r->wide[i], N, 5, KVR_RNG_TEST, (uint32_t)i, 0, 0);
        kvr_from_f32(r->narrow[i], KVR_BF16, r->wide[i], N);
        kvr_to_f32(r->wide[i], r->narrow[i], KVR_BF16, N);
    }
    return r;
}

/* Commits tokens t to t + n of keys and values [n,WIDTH]. For a device, the rows are copied to
 * it first. */
static enum kvr_status commit(struct kvr_layer *l, struct kvr_buf *put, const struct rows *r,
                              bool bf16, int64_t t, int64_t n)
{
    const size_t each = bf16 ? sizeof(kvr_bf16) : sizeof(float), bytes = (size_t)n * WIDTH * each;
    const void *k = bf16 ? (const void *)(r->narrow[0] + t * WIDTH) : r->wide[0] + t * WIDTH;
    const void *v = bf16 ? (const void *)(r->narrow[1] + t * WIDTH) : r->wide[1] + t * WIDTH;

    if (!kvr_dev_in_host(l->dev)) {
        KVR_TRY(kvr_buf_reserve(put, l->dev, KVR_MEM_IO, 2 * bytes));
        KVR_TRY(kvr_dev_put(l->dev, put->p, k, bytes));
        KVR_TRY(kvr_dev_put(l->dev, (char *)put->p + bytes, v, bytes));
        k = put->p;
        v = (char *)put->p + bytes;
    }
    KVR_TRY(bf16 ? kvr_layer_commit_bf16(l, k, v, t, n) : kvr_layer_commit(l, k, v, t, n));
    return kvr_dev_sync(l->dev);
}

/* Commits all tokens chunk by chunk to a new layer on `device` and writes a hash of the layer's
 * stored bytes to `hex`. Returns false and commits nothing if a part other than a codec (tiers,
 * retention or a correction) reads the keys or values. */
static bool store(enum kvr_backend device, struct kvr_scheme *p, const struct rows *r, bool bf16,
                  char hex[KVR_SHA256_HEX])
{
    static const struct kvr_layer_geometry geo = { .n_layers = 1,
                                                   .n_heads = H,
                                                   .head_dim = D,
                                                   .tokens_per_frame = FRAME,
                                                   .frames_per_chunk = CHUNK / FRAME,
                                                   .capacity = TOKENS };
    struct kvr_layer_scratch scratch = { 0 };
    struct kvr_layer l, host = { 0 };
    struct kvr_buf put = { 0 };
    struct kvr_dev *dev;
    bool only;

    ck_assert_msg(kvr_dev_open(&dev, device) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_layer_open(&l, dev, p, &geo, &scratch, false) == KVR_OK, "%s", kvr_error());
    only = kvr_layer_only_codes(&l);
    for (int64_t t = 0, n; only && t < TOKENS; t += n) {
        n = TOKENS - t < CHUNK ? TOKENS - t : CHUNK;
        ck_assert_msg(commit(&l, &put, r, bf16, t, n) == KVR_OK, "%s: %s", p->name, kvr_error());
    }
    if (only && !kvr_dev_in_host(dev))
        ck_assert_msg(kvr_layer_mirror(&l, &host) == KVR_OK, "%s", kvr_error());
    if (only)
        ck_assert_msg(kvr_layer_fingerprint(kvr_dev_in_host(dev) ? &l : &host, hex) == KVR_OK, "%s",
                      kvr_error());
    if (host.dev)
        kvr_layer_close(&host);
    kvr_layer_close(&l);
    kvr_layer_scratch_free(&scratch);
    kvr_buf_free(&put);
    kvr_dev_close(&dev);
    return only;
}

static int same_bytes(enum kvr_backend device, const char *method)
{
    char of_floats[KVR_SHA256_HEX], of_bf16[KVR_SHA256_HEX];
    struct kvr_scheme *p;
    struct rows *r = rows_make();
    bool only;

    ck_assert_msg(kvr_scheme_open(&p, method, NULL, 0) == KVR_OK, "%s", kvr_error());
    only = kvr_scheme_check(p, H, D) == KVR_OK && !kvr_scheme_is_study(p) &&
           store(device, p, r, false, of_floats);
    if (only) {
        ck_assert(store(device, p, r, true, of_bf16));
        ck_assert_msg(strcmp(of_floats, of_bf16) == 0, "%s: F32 and BF16 rows give different bytes",
                      method);
    }
    kvr_scheme_close(&p);
    free(r);
    return only;
}

START_TEST(of_every_method)
{
    char spec[128];
    int n = 0;

    for (int i = 0; kvr_methods[i]; i++)
        for (int r = 0; kvr_method_spec(kvr_methods[i], r, spec, sizeof spec); r++)
            n += same_bytes(KVR_CPU, spec);
    ck_assert_int_ge(n, 20);
}
END_TEST

static const char *const on_a_device[] = { "BF16", "RTN_INT4", "KIVI_INT2", "QUAROT_KV_INT4",
                                           "PRQ_INT2" };

START_TEST(on_a_device_too)
{
    ck_assert_int_eq(same_bytes(KVR_CUDA, on_a_device[_i]), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("commit of BF16");
    TCase *tc = tcase_create("bytes");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, of_every_method);
    tcase_add_loop_test(tc, on_a_device_too, 0, sizeof on_a_device / sizeof *on_a_device);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
