/* test_umt5.c - compares the text encoder with a run of the original code in double precision, on
 * the CPU and on the emulated device. */
#include "harness/engine/text/umt5.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/json.h"
#include "harness/core/safetensors.h"
#include "tests/suite.h"
#include "tests/threads.h"

#define FOLDER "tests/fixtures/wan_real/"

enum { TEXTS = 4, LEN = 40, LONG = 150, MOST = 64 };

static struct kvr_dev *devs[KVR_N_BACKENDS];
static struct kvr_st *golden;

static void open_all(void)
{
    for (int i = 0; i < KVR_N_BACKENDS; i++)
        ck_assert_msg(kvr_dev_open(&devs[i], (enum kvr_backend)i) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_st_open(&golden, FOLDER "umt5_golden.safetensors") == KVR_OK, "%s",
                  kvr_error());
}

static void close_all(void)
{
    kvr_st_close(&golden);
    for (int i = 0; i < KVR_N_BACKENDS; i++)
        kvr_dev_close(&devs[i]);
}

static struct kvr_umt5 *encoder(struct kvr_dev *dev, const char *file)
{
    struct kvr_umt5 *e;

    ck_assert_msg(kvr_umt5_open(&e, dev, file) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_umt5_sizes(e)->n_layers, 2);
    return e;
}

static const float *floats(const char *name, int64_t *n)
{
    struct kvr_tensor t;

    ck_assert_msg(kvr_st_get(golden, name, &t) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(t.dtype, KVR_F32);
    *n = kvr_tensor_count(&t);
    return t.data;
}

static const int32_t *ids_of(const char *name)
{
    struct kvr_tensor t;

    ck_assert_msg(kvr_st_get(golden, name, &t) == KVR_OK, "%s", kvr_error());
    return t.data;
}

static const int lengths[TEXTS] = { 1, 7, 31, 40 };

static void make_texts(struct kvr_umt5_text *t)
{
    for (int i = 0; i < TEXTS; i++)
        t[i] = (struct kvr_umt5_text){ ids_of("ids") + i * LEN, lengths[i] };
}

/* |x - want| / |want| in the L2 norm. */
static double apart(const float *x, const float *want, int64_t n)
{
    double off = 0, all = 0;

    for (int64_t i = 0; i < n; i++) {
        off += ((double)x[i] - want[i]) * ((double)x[i] - want[i]);
        all += (double)want[i] * want[i];
    }
    return sqrt(off / all);
}

/* Returns the largest relative L2 distance of a text's rows in x from its rows in the golden tensor
 * `name`. x has lengths[i] rows for text i, and the golden tensor has LEN. */
static double worst(const float *x, const char *name, int width)
{
    double most = 0;
    int64_t n, at = 0;
    const float *want = floats(name, &n);

    ck_assert_int_eq(n, TEXTS * LEN * width);
    for (int i = 0; i < TEXTS; i++) {
        const double d =
            apart(x + at * width, want + (int64_t)i * LEN * width, (int64_t)lengths[i] * width);

        most = d > most ? d : most;
        ck_assert(d == d);
        at += lengths[i];
    }
    return most;
}

START_TEST(buckets)
{
    const char *key;
    json_t *doc, *v;
    int seen = 0;

    ck_assert_int_eq(kvr_json_load(&doc, FOLDER "buckets.json"), KVR_OK);
    json_object_foreach(json_object_get(doc, "ranges"), key, v)
    {
        const int lo = (int)json_integer_value(json_array_get(v, 0));
        const int hi = (int)json_integer_value(json_array_get(v, 1));

        for (int d = lo; d <= hi; d++, seen++)
            ck_assert_msg(kvr_umt5_bucket(d, 32) == atoi(key), "%d", d);
    }
    ck_assert_int_eq(seen, 1201);
    json_decref(doc);
}
END_TEST

struct taps {
    int seen;
    double worst;
};

/* Compares the recorded intermediate tensors of block 0, which belong to the second text of the
 * call. */
static void compare_tap(void *ctx, const char *name, const float *data, int64_t n)
{
    struct taps *t = ctx;
    const int64_t rows = 1 + 7 + 31 + 40, width = n / rows;
    int64_t n_want;

    if (strncmp(name, "block", 5) != 0)
        return;
    if (strcmp(name, "block0.out") == 0 || strcmp(name, "block1.out") == 0) {
        t->worst = fmax(t->worst, worst(data, name, (int)width));
    } else if (strncmp(name, "block0", 6) == 0) {
        const float *want = floats(name, &n_want);

        ck_assert_int_eq(n_want, LEN * width);
        t->worst = fmax(t->worst, apart(data + width, want, 7 * width));
    } else {
        return;
    }
    t->seen++;
}

/* Float32 rounding changes each intermediate tensor by a relative error of about 3e-7. The
 * tolerance of 1e-5 is far below the effect of the smallest mistake. */
START_TEST(as_recorded)
{
    struct kvr_umt5 *e = encoder(devs[_i], FOLDER "umt5.safetensors");
    struct kvr_umt5_text texts[TEXTS];
    struct taps taps = { 0 };
    float out[(1 + 7 + 31 + 40) * MOST];

    make_texts(texts);
    kvr_umt5_tap(e, compare_tap, &taps);
    ck_assert_msg(kvr_umt5_encode(e, texts, TEXTS, out) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(taps.worst <= 1e-5, "a part is off by %g", taps.worst);
    ck_assert_int_eq(taps.seen, 12);
    ck_assert_msg(worst(out, "out", 64) <= 1e-5, "%g", worst(out, "out", 64));
    ck_assert_msg(worst(out, "prompt_embeds", 64) <= 1e-5, "%g", worst(out, "prompt_embeds", 64));
    kvr_umt5_close(&e);
}
END_TEST

/* Weights in BF16, sums in F32; compared with double precision on the same weights. */
START_TEST(bf16_weights)
{
    struct kvr_umt5 *e = encoder(devs[_i], FOLDER "models_t5_tiny-enc-bf16.pth");
    struct kvr_umt5_text texts[TEXTS];
    float out[(1 + 7 + 31 + 40) * MOST];

    make_texts(texts);
    ck_assert_msg(kvr_umt5_encode(e, texts, TEXTS, out) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(worst(out, "bf16_weights.out", 64) <= 1e-5, "%g",
                  worst(out, "bf16_weights.out", 64));
    kvr_umt5_close(&e);
}
END_TEST

/* A text of 150 tokens uses every bucket of relative positions. */
START_TEST(every_bucket)
{
    struct kvr_umt5 *e = encoder(devs[_i], FOLDER "umt5.safetensors");
    const struct kvr_umt5_text text = { ids_of("ids_long"), LONG };
    static float out[LONG * MOST];
    int64_t n;

    ck_assert_msg(kvr_umt5_encode(e, &text, 1, out) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(apart(out, floats("long.out", &n), LONG * 64) <= 1e-5, "%g",
                  apart(out, floats("long.out", &n), LONG * 64));
    kvr_umt5_close(&e);
}
END_TEST

/* Encoding other texts in the same call changes a text's result only by rounding. The number of
 * threads changes no byte. */
START_TEST(alone_and_in_company)
{
    struct kvr_umt5 *e = encoder(devs[_i], FOLDER "umt5.safetensors");
    struct kvr_umt5_text texts[2] = { { ids_of("ids") + LEN, 7 }, { ids_of("ids"), 1 } };
    float out[8 * MOST], alone[7 * MOST];

    ck_assert_int_eq(kvr_umt5_encode(e, texts, 1, alone), KVR_OK);
    ck_assert_int_eq(kvr_umt5_encode(e, texts, 2, out), KVR_OK);
    ck_assert(apart(out, alone, 7 * 64) <= 1e-6);
    set_threads(3);
    ck_assert_int_eq(kvr_umt5_encode(e, texts, 1, out), KVR_OK);
    omp_set_num_threads(1);
    ck_assert(memcmp(out, alone, sizeof alone) == 0);
    kvr_umt5_close(&e);
}
END_TEST

/* The predicted memory equals the allocator's, apart from oneDNN's padding of packed matrices. At
 * full size it is under 2 GiB for 2048 tokens. */
START_TEST(memory)
{
    const struct kvr_umt5_sizes xxl = { 256384, 4096, 4096, 10240, 64, 24, 32 };
    struct kvr_umt5 *e = encoder(devs[_i], FOLDER "models_t5_tiny-enc-bf16.pth");
    const int n = _i ? 31 : LONG; /* the emulated device is slow */
    const struct kvr_umt5_text text = { ids_of("ids_long"), n };
    static float out[LONG * MOST];
    struct kvr_dev *dev = devs[_i];
    struct kvr_mem_stats mem, host;
    size_t predicted;

    omp_set_num_threads(1);
    kvr_mem_reset_peak(dev);
    kvr_mem_reset_peak(kvr_dev_host(dev));
    ck_assert_int_eq(kvr_umt5_encode(e, &text, 1, out), KVR_OK);
    kvr_mem_stats(dev, &mem);
    kvr_mem_stats(kvr_dev_host(dev), &host);
    predicted = kvr_umt5_bytes(kvr_umt5_sizes(e), n, n, 1);
    ck_assert_msg(mem.peak_total <= predicted + 65536, "%zu, predicted %zu", mem.peak_total,
                  predicted);
    /* kvr_umt5_bytes() counts each matrix twice. On CUDA, only one of the two copies is in device
     * memory; the other is in host memory. */
    ck_assert_msg(mem.peak_total >= (_i ? predicted / 2 : predicted * 3 / 4), "%zu, predicted %zu",
                  mem.peak_total, predicted);
    ck_assert_msg(host.peak_total <= predicted + 65536, "%zu, predicted %zu", host.peak_total,
                  predicted);
    ck_assert_uint_le(kvr_umt5_bytes(&xxl, 2048, 512, 64), (size_t)2 << 30);
    kvr_umt5_close(&e);
    kvr_mem_stats(dev, &mem);
    kvr_mem_stats(kvr_dev_host(dev), &host);
    ck_assert_uint_eq(mem.live_total + host.live_total, 0);
}
END_TEST

START_TEST(refused)
{
    const int none[] = { 512 }, some[] = { 5, 1 };
    const struct kvr_umt5_text outside = { none, 1 }, empty = { some, 0 };
    struct kvr_umt5 *e = encoder(devs[_i], FOLDER "umt5.safetensors");
    float out[2 * MOST];

    ck_assert_int_eq(kvr_umt5_encode(e, &outside, 1, out), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "512"));
    ck_assert_int_eq(kvr_umt5_encode(e, &empty, 1, out), KVR_EINVAL);
    kvr_umt5_close(&e);
    ck_assert_int_eq(kvr_umt5_open(&e, devs[_i], "tests/fixtures/wan_tiny/dit.safetensors"),
                     KVR_EFORMAT);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "token_embedding.weight"));
    ck_assert_ptr_null(e);
}
END_TEST

/* 128 or more buckets per quarter leave no range of distances up to MAX_DISTANCE for the
 * logarithmic buckets. */
START_TEST(bucket_counts)
{
    static float zeros[600 * 2];
    static const struct {
        const char *name;
        int64_t shape[2];
    } weight[] = {
        { "token_embedding.weight", { 16, 8 } },
        { "norm.weight", { 8 } },
        { "blocks.0.norm1.weight", { 8 } },
        { "blocks.0.norm2.weight", { 8 } },
        { "blocks.0.attn.q.weight", { 8, 8 } },
        { "blocks.0.attn.k.weight", { 8, 8 } },
        { "blocks.0.attn.v.weight", { 8, 8 } },
        { "blocks.0.attn.o.weight", { 8, 8 } },
        { "blocks.0.ffn.gate.0.weight", { 4, 8 } },
        { "blocks.0.ffn.fc1.weight", { 4, 8 } },
        { "blocks.0.ffn.fc2.weight", { 8, 4 } },
        { "blocks.0.pos_embedding.embedding.weight", { 0, 2 } },
    };
    enum { N = sizeof weight / sizeof *weight };
    static const int n_buckets[] = { 508, 512, 516 };
    char path[] = "/tmp/test_umt5.XXXXXX";
    struct kvr_st_item item[N];
    struct kvr_umt5 *e = NULL;

    for (int i = 0; i < N; i++) {
        item[i] = (struct kvr_st_item){
            .name = weight[i].name,
            .t = { .dtype = KVR_F32, .n_dims = weight[i].shape[1] ? 2 : 1, .data = zeros }
        };
        memcpy(item[i].t.shape, weight[i].shape, sizeof weight[i].shape);
    }
    item[N - 1].t.shape[0] = n_buckets[_i];
    close(mkstemp(path));
    ck_assert_msg(kvr_st_write(path, item, N, NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_umt5_open(&e, devs[0], path), _i ? KVR_EFORMAT : KVR_OK);
    ck_assert_msg(_i == 0 || strstr(kvr_error(), "below 512"), "%s", kvr_error());
    kvr_umt5_close(&e);
    unlink(path);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("umt5");
    TCase *tc = tcase_create("umt5");

    tcase_set_timeout(tc, 0);
    tcase_add_unchecked_fixture(tc, open_all, close_all);
    tcase_add_test(tc, buckets);
    tcase_add_loop_test(tc, as_recorded, 0, KVR_N_BACKENDS);
    tcase_add_test(tc, bf16_weights);
    tcase_add_loop_test(tc, every_bucket, 0, KVR_N_BACKENDS);
    tcase_add_loop_test(tc, alone_and_in_company, 0, KVR_N_BACKENDS);
    tcase_add_loop_test(tc, memory, 0, KVR_N_BACKENDS);
    tcase_add_loop_test(tc, refused, 0, KVR_N_BACKENDS);
    tcase_add_loop_test(tc, bucket_counts, 0, 3);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
