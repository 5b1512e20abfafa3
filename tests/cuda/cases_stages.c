/* cases_stages.c - every registered stage in every pipeline that may contain it. Bytes and
 * values equal the CPU's, except for NaN signs and payloads (same_coded). */
#include <stdarg.h>

#include "methods/corrections/correction.h"
#include "methods/method.h"
#include "tests/cuda/both.h"
#include "tests/suite.h"

/* 41 and 19 tokens are not multiples of 8 or 16. One block has a single token, and one has heads of
 * 64 channels. */
static const struct kvr_block_shape shapes[] = { { 41, 3, 32 }, { 1, 1, 32 }, { 19, 2, 64 } };
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* The first difference found, reported after all memory has been freed. */
static char wrong[480];

__attribute__((format(printf, 1, 2))) static void differs(const char *fmt, ...)
{
    va_list args;

    if (wrong[0])
        return;
    va_start(args, fmt);
    vsnprintf(wrong, sizeof wrong, fmt, args);
    va_end(args);
}

static void report_difference(void)
{
    char first[sizeof wrong];

    memcpy(first, wrong, sizeof first);
    wrong[0] = 0;
    ck_assert_msg(!first[0], "%s", first);
}

static void same_values(const float *want, const float *got, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!same(want[i], got[i]))
            differs("%s: element %zu: %a on the CPU, %a on CUDA", what, i, (double)want[i],
                    (double)got[i]);
}

static void same_buf(const struct kvr_buf *want, const struct kvr_buf *got, enum fill fill,
                     const char *what)
{
    const bool nan_may_differ = !kvr_stream_emulated() && fill >= FILL_NAN;
    void *host = malloc(want->n_bytes ? want->n_bytes : 1);

    if (want->n_bytes != got->n_bytes)
        differs("%s: other sizes", what);
    else if (want->n_bytes && kvr_dev_get(both_dev, host, got->p, got->n_bytes) != KVR_OK)
        differs("%s: %s", what, kvr_error());
    else if (want->n_bytes && !same_coded(want->p, host, want->n_bytes, nan_may_differ))
        differs("%s: other bytes", what);
    free(host);
}

static void same_packed(const struct kvr_packed *want, const struct kvr_packed *got, enum fill fill,
                        const char *what)
{
    for (int i = 0; i < KVR_MAX_STAGES; i++) {
        same_buf(&want->stage[i].codes, &got->stage[i].codes, fill, what);
        same_buf(&want->stage[i].meta, &got->stage[i].meta, fill, what);
    }
}

/* Compares both backends on a block whose tokens have the positions `place`. place->list is host
 * memory or NULL. */
static void compare_at(const struct kvr_codec *c, const struct kvr_place *place,
                       const struct kvr_block_shape *shape, enum fill fill)
{
    const size_t n = elements(shape);
    const int64_t t0 = shape->n_tok / 3, part = shape->n_tok - t0;
    struct kvr_dev *dev = open_dev();
    float *x = floats(n), *work = floats(n), *want = floats(n), *got = floats(n);
    struct kvr_buf on = { 0 }, list = { 0 };
    struct kvr_place there = *place;
    struct kvr_packed a, b;
    char what[400];

    snprintf(what, sizeof what, "%s%s, %s", c->text, c->compute == KVR_COMPUTE_BF16 ? ", bf16" : "",
             fill_names[fill]);
    fill_block(x, shape, fill, 3);
    ck_assert_int_eq(kvr_buf_alloc(&on, both_dev, KVR_MEM_SCRATCH, 3 * n * sizeof *x), KVR_OK);

    float *d_x = on.p, *d_work = d_x + n, *d_out = d_work + n;

    ck_assert_int_eq(kvr_dev_put(both_dev, d_x, x, n * sizeof *x), KVR_OK);
    if (place->list) {
        const size_t bytes = (size_t)shape->n_tok * sizeof *place->list;

        ck_assert_int_eq(kvr_buf_alloc(&list, both_dev, KVR_MEM_META, bytes), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(both_dev, list.p, place->list, bytes), KVR_OK);
        there.list = list.p;
    }
    ck_assert_int_eq(kvr_codec_encode_at(c, dev, x, shape, place, work, &a), KVR_OK);
    ck_assert_msg(kvr_codec_encode_at(c, both_dev, d_x, shape, &there, d_work, &b) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_msg(kvr_dev_sync(both_dev) == KVR_OK, "%s: %s", what, kvr_error());
    same_packed(&a, &b, fill, what);
    /* Decodes the whole block, and then only the last two thirds of the tokens of the last head. */
    for (int h = 0; h < 2; h++) {
        const int h0 = h ? shape->n_heads - 1 : 0, nh = shape->n_heads - h0;
        const int64_t from = h ? t0 : 0, run = h ? part : shape->n_tok;
        const size_t some = (size_t)(run * nh * shape->head_dim);

        kvr_codec_decode(&a, from, run, h0, nh, want);
        kvr_codec_decode(&b, from, run, h0, nh, d_out);
        ck_assert_msg(kvr_dev_sync(both_dev) == KVR_OK, "%s: %s", what, kvr_error());
        ck_assert_int_eq(kvr_dev_get(both_dev, got, d_out, some * sizeof *got), KVR_OK);
        same_values(want, got, some, what);
    }
    kvr_squared_scales_cuda(kvr_dev_stream(both_dev), &b, 0, shape->n_tok, d_out);
    ck_assert_int_eq(kvr_dev_sync(both_dev), KVR_OK);
    ck_assert_int_eq(kvr_dev_get(both_dev, got, d_out, n * sizeof *got), KVR_OK);
    for (int64_t t = 0; t < shape->n_tok; t++)
        for (int h = 0; h < shape->n_heads; h++) {
            const int64_t at = (t * shape->n_heads + h) * shape->head_dim;

            kvr_squared_scales(&a, h, t, 1, want);
            same_values(want, got + at, (size_t)shape->head_dim, what);
        }
    kvr_packed_free(&a);
    kvr_packed_free(&b);
    kvr_buf_free(&on);
    kvr_buf_free(&list);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(want);
    free(got);
    report_difference();
}

static void compare(const struct kvr_codec *c, const struct kvr_block_shape *shape, enum fill fill)
{
    compare_at(c, &(struct kvr_place){ 0 }, shape, fill);
}

/* Returns whether a sanitizer build skips a fill. It runs FILL_OUTLIER_CHANNEL, which launches all
 * kernels of a codec. On the first shape, it also runs zeros, values beyond FP16, and non-finite
 * values. */
static bool left_out_of_fills(int shape, enum fill f)
{
    return sanitized() && f != FILL_OUTLIER_CHANNEL &&
           (shape > 0 || (f != FILL_ZERO && f != FILL_BEYOND_FP16 && f < FILL_NAN));
}

START_TEST(every_stage)
{
    char text[128];

    ck_assert(stage_pipeline(_i / 2, text, sizeof text));

    struct kvr_codec *c =
        open_codec(text, KVR_K, false, _i % 2 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);

    fit_groups(c);
    for (int s = 0; s < N_SHAPES; s++)
        for (int f = 0; f < N_FILLS; f++)
            if (!left_out_of_fills(s, (enum fill)f))
                compare(c, &shapes[s], (enum fill)f);
    kvr_codec_close(&c);
}
END_TEST

/* Encodes tokens at given positions: consecutive tokens whose last frame is partial, scattered
 * tokens, and complete frames. */
START_TEST(every_stage_with_a_place)
{
    const struct kvr_block_shape *shape = &shapes[0];
    static const struct kvr_block_shape frames = { 48, 2, 32 };
    struct kvr_place place = { .frame_tokens = 12, .tok0 = 12, .layer = 1, .n_layers = 2 };
    char text[128];

    ck_assert(stage_pipeline(_i, text, sizeof text));

    struct kvr_codec *c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    int32_t *list = malloc((size_t)shape->n_tok * sizeof *list);

    ck_assert_ptr_nonnull(list);
    for (int64_t t = 0; t < shape->n_tok; t++)
        list[t] = (int32_t)(5 * t + t % 3);
    fit_groups(c);
    compare_at(c, &place, shape, FILL_NORMAL);
    compare_at(c, &place, shape, FILL_NAN);
    place.list = list;
    compare_at(c, &place, shape, FILL_NORMAL);
    place.list = NULL;
    place.whole = true;
    compare_at(c, &place, &frames, FILL_OFFSET);
    free(list);
    kvr_codec_close(&c);
}
END_TEST

static void relative(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                     struct kvr_coding_noise *out)
{
    (void)job, (void)in;
    out->kind = KVR_NOISE_RELATIVE;
    out->relative = 0.0625f;
}

/* If the error model of a grid is KVR_NOISE_RELATIVE, kvr_squared_scales() computes scales from
 * decoded values. */
START_TEST(relative_steps)
{
    struct kvr_codec *c = open_codec("hadamard | sym(bits=8)", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_stage stage = *c->stage[1].stage;

    stage.noise = relative;
    c->stage[1].stage = &stage;
    for (int f = 0; f < N_FILLS; f++)
        compare(c, &shapes[2], (enum fill)f);
    kvr_codec_close(&c);
}
END_TEST

/* Runs each distinct codec pipeline of all versions of all methods once. */
START_TEST(every_method)
{
    static const struct kvr_block_shape shape = { 21, 2, 64 };
    char spec[128], *seen[512];
    int n = 0;

    for (int i = 0; kvr_methods[i]; i++)
        for (int r = 0; kvr_method_spec(kvr_methods[i], r, spec, sizeof spec); r++) {
            struct kvr_scheme *p;

            ck_assert_msg(kvr_scheme_open(&p, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
            for (int t = 0; t < 2 * p->n_tiers; t++) {
                const struct kvr_codec *c = t % 2 ? p->v[t / 2] : p->k[t / 2];
                bool again = kvr_codec_check(c, shape.n_heads, shape.head_dim) != KVR_OK;

                for (int s = 0; s < n; s++)
                    again = again || !strcmp(seen[s], c->text);
                if (again)
                    continue;
                ck_assert_int_lt(n, 512);
                seen[n++] = strdup(c->text);
                for (int f = 0; f < N_FILLS; f++)
                    if (!left_out_of_fills(1, (enum fill)f))
                        compare(c, &shape, (enum fill)f);
            }
            kvr_scheme_close(&p);
        }
    ck_assert_int_ge(n, 30);
    while (n)
        free(seen[--n]);
}
END_TEST

/* kvr_codec_encode_bf16() gives the CPU's bytes. Some kernels read BF16 values, others read them
 * after conversion to F32. */
START_TEST(of_bf16)
{
    static const char *const texts[] = { "sym(bits=4)",
                                         "asym(bits=2)",
                                         "asym(bits=4,axis=token)",
                                         "sym(bits=4,axis=channels,group=32)",
                                         "hadamard | sym(bits=4)",
                                         "hadamard | asym(bits=3)",
                                         "sym(bits=2) + sym(bits=4)",
                                         "outliers(sigma=3) | sym(bits=4)" };
    static const struct kvr_block_shape odd = { 19, 3, 2 }, wide = { 33, 1, 128 },
                                        heads = { 21, 6, 128 };
    const struct kvr_block_shape *const all[] = { &shapes[0], &shapes[2], &odd, &wide, &heads };

    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        struct kvr_codec *c =
            open_codec(texts[t], KVR_K, false, _i ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);
        struct kvr_dev *dev = open_dev();

        for (int f = 0; f < 5 * N_FILLS; f++) {
            const struct kvr_block_shape *shape = all[f / N_FILLS];
            const size_t n = elements(shape);
            float *x = floats(n), *work = floats(n);
            kvr_bf16 *narrow = malloc(n * sizeof *narrow);
            struct kvr_packed a, b;

            ck_assert_ptr_nonnull(narrow);
            fill_block(x, shape, (enum fill)(f % N_FILLS), 3);
            for (size_t i = 0; i < n; i++)
                narrow[i] = kvr_f32_to_bf16(x[i]);
            if (kvr_codec_check(c, shape->n_heads, shape->head_dim) == KVR_OK &&
                !left_out_of_fills(f / N_FILLS, (enum fill)(f % N_FILLS))) {
                ck_assert_int_eq(kvr_codec_encode_bf16(c, dev, narrow, shape, work, &a), KVR_OK);
                ck_assert_msg(kvr_codec_encode_bf16(c, both_dev, both_in(narrow, 2 * n), shape,
                                                    both_out(n * sizeof *work), &b) == KVR_OK,
                              "%s", kvr_error());
                ck_assert_msg(kvr_dev_sync(both_dev) == KVR_OK, "%s", kvr_error());
                same_packed(&a, &b, (enum fill)(f % N_FILLS), texts[t]);
                kvr_packed_free(&a);
                kvr_packed_free(&b);
            }
            both_free();
            free(x);
            free(work);
            free(narrow);
            report_difference();
        }
        kvr_dev_close(&dev);
        kvr_codec_close(&c);
    }
}
END_TEST

TCase *cases_stages(void)
{
    TCase *tc = tcase_create("stages");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, every_stage, 0, 2 * n_stage_pipelines());
    tcase_add_loop_test(tc, every_stage_with_a_place, 0, n_stage_pipelines());
    tcase_add_loop_test(tc, of_bf16, 0, 2);
    tcase_add_test(tc, relative_steps);
    tcase_add_test(tc, every_method);
    return tc;
}
