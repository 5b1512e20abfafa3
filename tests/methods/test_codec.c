/* test_codec.c - codec pipelines: canonical text, stored bytes, and properties that every pipeline
 * must have. */
#include "tests/methods/codec_tools.h"

#include <omp.h>

#include "methods/kernels/pack.h"
#include "tests/threads.h"

static const char *const pipelines[] = {
    "raw",
    "raw(type=f32)",
    "sym(bits=4)",
    "sym(bits=2)",
    "sym(bits=3)",
    "sym(bits=8,axis=channels,group=16)",
    "sym(bits=5,axis=token)",
    "asym(bits=4)",
    "asym(bits=2,axis=channels,group=32)",
    "asym(bits=4,axis=token)",
    "asym(bits=7,group=64)",
    "hadamard | sym(bits=4)",
    "hadamard | asym(bits=2,axis=channels,group=16)",
    "sym(bits=2) + sym(bits=4)",
    "hadamard | sym(bits=2) + asym(bits=3)",
    "outliers(sigma=2) | asym(bits=4)",
    "outliers(sigma=2,left=keep,max_ratio=0.001) | sym(bits=2) + sym(bits=2)",
    "outliers(sigma=2,left=clamp) | asym(bits=2,axis=token)",
    "hadamard | outliers(sigma=2) | sym(bits=4)",
    "outliers(sigma=2) | hadamard | sym(bits=4)",
};
enum { N_CHOSEN = sizeof pipelines / sizeof *pipelines };

/* The pipelines above, plus the valid pipelines of every registered stage. */
static int n_pipelines;

/* Opens the codec of loop index i: pipeline i % n_pipelines, in the intended or the study's
 * version, with F32 or BF16 arithmetic. */
static struct kvr_codec *codec_of(int i)
{
    const int which = i % n_pipelines, reading = i / n_pipelines;
    char made[128];
    struct kvr_codec *c;

    if (which >= N_CHOSEN)
        ck_assert(stage_pipeline(which - N_CHOSEN, made, sizeof made));
    c = open_codec(which < N_CHOSEN ? pipelines[which] : made, KVR_K, reading & 1,
                   reading & 2 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);
    fit_groups(c);
    return c;
}

START_TEST(errors_name_the_thing)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        { "syn(bits=4)", "sym" },        /* the message names the nearest stage */
        { "sym(bit=4)", "bits" },        /* the message names the nearest option */
        { "outlier | sym", "outliers" }, /* the message names the nearest stage */
        { "sym(bits=1)", "1" },          /* the message repeats the value */
        { "sym(bits=9)", "8" },          /* the message states the limit */
        { "sym(axis=chanels)", "channels" },
        { "outliers(sigma=0)|sym", "0" },
        { "", "''" },
        { "sym(bits=4", "sym" },
        { "sym | hadamard", "hadamard" },
        { "sym | sym", "+" },
        { "hadamard", "grid" },
        { "hadamard + sym", "+" },
        { "raw + sym", "raw" },
        { "sym + raw", "raw" },
        { "outliers | outliers | sym", "outliers" },
        { "sym + sym + sym + sym + sym", "4" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kvr_codec *c = NULL;

        ck_assert_msg(kvr_codec_open(&c, bad[i].text, KVR_K, false) == KVR_EINVAL, "'%s' was taken",
                      bad[i].text);
        ck_assert_msg(strstr(kvr_error(), bad[i].word) != NULL, "'%s': '%s' lacks '%s'",
                      bad[i].text, kvr_error(), bad[i].word);
    }
}
END_TEST

START_TEST(text_is_canonical)
{
    struct kvr_codec *a = codec_of(_i), *b = open_codec(a->text, KVR_K, false, KVR_COMPUTE_F32);

    ck_assert_str_eq(a->text, b->text);
    ck_assert_int_eq(a->n_stages, b->n_stages);
    for (int i = 0; i < a->n_stages; i++) {
        ck_assert_ptr_eq(a->stage[i].stage, b->stage[i].stage);
        /* memcmp(NULL, NULL, 0) would be undefined behaviour. */
        ck_assert(a->stage[i].stage->opts_size == 0 ||
                  memcmp(a->stage[i].opts, b->stage[i].opts, a->stage[i].stage->opts_size) == 0);
    }
    kvr_codec_close(&a);
    kvr_codec_close(&b);
}
END_TEST

/* `raw` was formerly named `exact`. Specs may use either name. kvr_codec_first_text() writes the
 * former name, because the hashes that identify stored results include it. */
START_TEST(a_former_name_is_the_same_stage)
{
    static const struct {
        const char *written, *now, *first;
    } some[] = {
        { "exact", "raw(type=bf16)", "exact(type=bf16)" },
        { "raw", "raw(type=bf16)", "exact(type=bf16)" },
        { "exact(type=f32)", "raw(type=f32)", "exact(type=f32)" },
        { "hadamard|exact", "hadamard | raw(type=bf16)", "hadamard | exact(type=bf16)" },
    };
    const struct kvr_block_shape shape = { 5, 2, 16 };
    char first[256];

    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        struct kvr_codec *c = open_codec(some[i].written, KVR_K, false, KVR_COMPUTE_F32);

        ck_assert_str_eq(c->text, some[i].now);
        kvr_codec_first_text(c->text, first, sizeof first);
        ck_assert_str_eq(first, some[i].first);
        ck_assert_uint_eq(kvr_codec_bytes(c, &shape), strstr(first, "f32") ? 640 : 320);
        kvr_codec_close(&c);
    }
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        struct kvr_codec *c = open_codec(pipelines[i], KVR_K, false, KVR_COMPUTE_F32);

        kvr_codec_first_text(c->text, first, sizeof first);
        if (!strstr(pipelines[i], "raw"))
            ck_assert_str_eq(first, c->text);
        kvr_codec_close(&c);
    }
    kvr_codec_first_text("raw(type=bf16) | raw", first, 5);
    ck_assert_str_eq(first, "exac"); /* Text beyond the buffer is cut off. */
}
END_TEST

START_TEST(options_can_be_set_later)
{
    struct kvr_codec *c =
        open_codec("hadamard | sym(bits=2) + sym(bits=4)", KVR_K, false, KVR_COMPUTE_F32);
    int n = -1;

    ck_assert_int_eq(kvr_codec_set(c, 0, "group", "32", &n), KVR_OK);
    ck_assert_int_eq(n, 2);
    ck_assert_str_eq(c->text, "hadamard | sym(bits=2,axis=tokens,group=32) + "
                              "sym(bits=4,axis=tokens,group=32)");
    ck_assert_int_eq(kvr_codec_unit_tokens(c), 32);
    ck_assert_int_eq(kvr_codec_set(c, 0, "sigma", "3", &n), KVR_OK);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(kvr_codec_set(c, 0, "bits", "77", &n), KVR_EINVAL);
    kvr_codec_close(&c);
}
END_TEST

static const struct kvr_block_shape shapes[] = {
    { 1, 1, 32 }, { 15, 2, 32 }, { 16, 1, 64 }, { 33, 3, 32 }, { 130, 2, 64 },
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void encode(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                   const struct kvr_block_shape *s, struct kvr_packed *p)
{
    float *work = floats(elements(s));

    ck_assert_msg(kvr_codec_encode(c, dev, x, s, work, p) == KVR_OK, "%s: %s", c->text,
                  kvr_error());
    free(work);
}

START_TEST(bytes_are_what_is_held)
{
    for (int i = 0; i < N_SHAPES; i++) {
        const struct kvr_block_shape *s = &shapes[i];
        struct kvr_dev *dev = open_dev();
        struct kvr_codec *c = codec_of(_i);
        float *x = floats(elements(s)), *before = floats(elements(s));
        struct kvr_mem_stats stats;
        struct kvr_packed p;

        ck_assert_int_eq(kvr_codec_check(c, s->n_heads, s->head_dim), KVR_OK);
        fill_block(x, s, FILL_OUTLIER_CHANNEL, 1);
        memcpy(before, x, elements(s) * sizeof *x);
        encode(c, dev, x, s, &p);
        ck_assert(memcmp(before, x, elements(s) * sizeof *x) == 0);
        kvr_mem_stats(dev, &stats);
        const struct kvr_stage_bytes nominal = kvr_packed_nominal(&p);

        ck_assert_uint_eq(kvr_packed_bytes(&p), nominal.codes + nominal.meta);
        ck_assert_uint_eq(kvr_packed_bytes(&p), stats.live_total);
        ck_assert_uint_eq(stats.live_total, stats.live[KVR_MEM_KV] + stats.live[KVR_MEM_META]);
        kvr_packed_free(&p);
        kvr_mem_stats(dev, &stats);
        ck_assert_uint_eq(stats.live_total, 0);
        kvr_codec_close(&c);
        kvr_dev_close(&dev);
        free(x);
        free(before);
    }
}
END_TEST

START_TEST(failed_allocation_leaves_nothing)
{
    const struct kvr_block_shape *s = &shapes[3];
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = codec_of(_i);
    float *x = floats(elements(s)), *work = floats(elements(s));
    enum kvr_status st = KVR_ENOMEM;
    struct kvr_packed p;
    int n = 1;

    fill_block(x, s, FILL_OUTLIER_CHANNEL, 1);
    for (; st == KVR_ENOMEM && n < 20; n++) {
        struct kvr_mem_stats stats;

        kvr_mem_fail_after(dev, (uint64_t)n);
        st = kvr_codec_encode(c, dev, x, s, work, &p);
        kvr_mem_stats(dev, &stats);
        if (st != KVR_OK)
            ck_assert_uint_eq(stats.live_total, 0);
    }
    ck_assert_int_eq(st, KVR_OK);
    ck_assert_int_gt(n, 2); /* At least one allocation has failed. */
    kvr_mem_fail_after(dev, 0);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
}
END_TEST

START_TEST(any_part_is_part_of_the_whole)
{
    const struct kvr_block_shape *s = &shapes[4];
    const int d = s->head_dim, heads = s->n_heads;
    const int64_t runs[][2] = { { 0, 1 },   { 15, 2 },  { 16, 16 }, { 3, 64 },
                                { 64, 64 }, { 129, 1 }, { 0, 130 } };
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = codec_of(_i);
    float *x = floats(elements(s)), *all = floats(elements(s));
    struct kvr_packed p;

    fill_block(x, s, FILL_OUTLIER_CHANNEL, 2);
    encode(c, dev, x, s, &p);
    kvr_codec_decode(&p, 0, s->n_tok, 0, heads, all);
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++)
        for (int h0 = 0; h0 < heads; h0++)
            for (int nh = 1; nh <= heads - h0; nh++) {
                const int64_t t0 = runs[r][0], n = runs[r][1];
                const size_t row = (size_t)(nh * d) * sizeof(float);
                float *part = guarded((size_t)n * row);

                kvr_codec_decode(&p, t0, n, h0, nh, part);
                check_guards(part, (size_t)n * row);
                for (int64_t t = 0; t < n; t++)
                    if (memcmp(part + t * nh * d, all + ((t0 + t) * heads + h0) * d, row))
                        ck_abort_msg("%s: tokens %d + %d, heads %d + %d: token %d", c->text,
                                     (int)t0, (int)n, h0, nh, (int)t);
                guarded_free(part);
            }
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(all);
}
END_TEST

static bool same_bytes(const struct kvr_buf *a, const struct kvr_buf *b)
{
    return a->n_bytes == b->n_bytes && (!a->n_bytes || memcmp(a->p, b->p, a->n_bytes) == 0);
}

/* The block is large enough for several threads to encode and decode parts of it. */
START_TEST(threads_change_nothing)
{
    const struct kvr_block_shape s = { 1100, 4, 64 };
    const size_t n = elements(&s);
    const int before = omp_get_max_threads();
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = codec_of(_i);
    float *x = floats(n), *y[2] = { floats(n), floats(n) };
    struct kvr_packed p[2];

    fill_block(x, &s, FILL_OUTLIER_CHANNEL, 3);
    for (int i = 0; i < 2; i++) {
        set_threads(i ? 3 : 1);
        encode(c, dev, x, &s, &p[i]);
        kvr_codec_decode(&p[i], 0, s.n_tok, 0, s.n_heads, y[i]);
    }
    omp_set_num_threads(before);
    for (int k = 0; k < c->n_stages; k++) {
        ck_assert(same_bytes(&p[0].stage[k].codes, &p[1].stage[k].codes));
        ck_assert(same_bytes(&p[0].stage[k].meta, &p[1].stage[k].meta));
    }
    ck_assert(memcmp(y[0], y[1], n * sizeof *x) == 0);
    for (int i = 0; i < 2; i++) {
        kvr_packed_free(&p[i]);
        free(y[i]);
    }
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
}
END_TEST

/* Encoding BF16 values with three threads gives the same bytes as encoding the same values in F32
 * with one thread. Pipelines of one grid must agree, too, although they encode tile by tile. */
START_TEST(bf16_and_threads_change_nothing)
{
    const struct kvr_block_shape s = { 1100, 4, 64 };
    const size_t n = elements(&s);
    const int before = omp_get_max_threads();
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = open_codec(pipelines[_i / 2], KVR_K, _i % 2, KVR_COMPUTE_F32);
    float *x = floats(n), *work = floats(n);
    kvr_bf16 *narrow = malloc(n * sizeof *narrow);
    struct kvr_packed a, b;

    ck_assert_ptr_nonnull(narrow);
    fit_groups(c);
    fill_block(x, &s, FILL_OUTLIER_CHANNEL, 3);
    kvr_from_f32(narrow, KVR_BF16, x, n);
    set_threads(1);
    encode(c, dev, x, &s, &a);
    set_threads(3);
    ck_assert_int_eq(kvr_codec_encode_bf16(c, dev, narrow, &s, work, &b), KVR_OK);
    omp_set_num_threads(before);
    for (int k = 0; k < c->n_stages; k++) {
        ck_assert_msg(same_bytes(&a.stage[k].codes, &b.stage[k].codes), "%s", c->text);
        ck_assert_msg(same_bytes(&a.stage[k].meta, &b.stage[k].meta), "%s", c->text);
    }
    kvr_packed_free(&a);
    kvr_packed_free(&b);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(narrow);
    free(work);
    free(x);
}
END_TEST

/* Encodes and decodes a block five times. If a codec declares itself idempotent, the values must
 * not change after the first time. sym(bits=4) with F32 arithmetic must declare itself
 * idempotent. */
START_TEST(idempotent_as_declared)
{
    /* FILL_HUGE is omitted, because the study's 2-bit scale is infinite in FP16 for such large
     * values. */
    const enum fill fills[] = { FILL_NORMAL, FILL_OUTLIER_CHANNEL, FILL_OFFSET, FILL_ZERO,
                                FILL_CONSTANT };
    const struct kvr_block_shape *s = &shapes[4];
    const size_t n = elements(s);
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = codec_of(_i);
    float *x = floats(n), *y = floats(n);
    bool moved = false;

    for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
        fill_block(x, s, fills[f], 4);
        for (int round = 0; round < 5; round++) {
            struct kvr_packed p;

            encode(c, dev, x, s, &p);
            kvr_codec_decode(&p, 0, s->n_tok, 0, s->n_heads, y);
            for (size_t i = 0; i < n; i++)
                moved = moved || (round > 0 && !same(x[i], y[i]));
            kvr_packed_free(&p);
            memcpy(x, y, n * sizeof *x);
        }
    }
    ck_assert_msg(!(moved && kvr_codec_idempotent(c)), "%s moves", c->text);
    if (!strcmp(pipelines[2], "sym(bits=4)") && _i % n_pipelines == 2 &&
        c->compute == KVR_COMPUTE_F32)
        ck_assert(kvr_codec_idempotent(c));
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

START_TEST(what_is_not_finite_is_noticed)
{
    const struct kvr_block_shape *s = &shapes[3];
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = codec_of(_i);
    float *x = floats(elements(s)), *y = floats(elements(s));

    for (int how = FILL_NAN; how <= FILL_INF; how++) {
        struct kvr_packed p;

        fill_block(x, s, how, 5);
        encode(c, dev, x, s, &p);
        kvr_codec_decode(&p, 0, s->n_tok, 0, s->n_heads, y);
        ck_assert_msg(!isfinite(y[spoiled(s)]), "%s: %s became %g", c->text, fill_names[how],
                      (double)y[spoiled(s)]);
        kvr_packed_free(&p);
    }
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

static float step_of(const struct kvr_coding_noise *s, size_t e, size_t channels)
{
    if (s->kind != KVR_NOISE_UNIFORM)
        return 0;
    switch (s->axis) {
    case KVR_AXIS_TOKENS:
        return kvr_f16_to_f32(s->scale[e / channels / (size_t)s->group * channels + e % channels]);
    case KVR_AXIS_CHANNELS:
        return kvr_f16_to_f32(s->scale[e / (size_t)s->group]);
    case KVR_AXIS_TOKEN:
        break;
    }
    return kvr_f16_to_f32(s->scale[e / channels]);
}

/* In the intended version nothing is clipped. The error, in the codec's rotated space, is therefore
 * at most half a reported step plus four F32 roundings of the element. At least one error must
 * reach 0.4 steps, or the reported steps are too large. Outliers are stored in FP16, with a
 * relative error of at most 2^-11. */
START_TEST(steps_bound_the_error)
{
    const struct kvr_block_shape *s = &shapes[4];
    const size_t n = elements(s), channels = (size_t)(s->n_heads * s->head_dim);
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = codec_of(_i);
    const bool held_elsewhere =
        c->n_stages == 3 && !kvr_codec_rotated(c) && c->stage[1].stage->kind == KVR_STAGE_TRANSFORM;
    bool known;
    float *x = floats(n), *y = floats(n);
    double largest = 0;
    int64_t k = 0;
    struct kvr_packed p;
    struct kvr_coding_noise steps;

    fill_block(x, s, FILL_OUTLIER_CHANNEL, 6);
    encode(c, dev, x, s, &p);
    kvr_codec_noise(&p, &steps);
    bool rotated = false;
    for (int i = 0; i < c->n_stages; i++)
        rotated = rotated || c->stage[i].stage->kind == KVR_STAGE_TRANSFORM;
    ck_assert_int_eq(steps.rotated, rotated);
    kvr_codec_decode_rotated(&p, 0, s->n_tok, 0, s->n_heads, y);
    kvr_codec_transform(c, dev, KVR_TO_SPACE, x, s->n_tok, 0, s->n_heads, s->head_dim);
    known = !held_elsewhere && (steps.kind == KVR_NOISE_UNIFORM || steps.kind == KVR_NOISE_NONE);
    for (size_t i = 0; i < n && known; i++) {
        const bool exact = k < steps.n_exact && steps.exact[k] == (int32_t)i;
        const double step = fabs((double)step_of(&steps, i, channels));
        const double err = fabs((double)y[i] - (double)x[i]), size = fabs((double)x[i]);
        const double tol = exact                          ? size * 0x1p-11
                           : steps.kind == KVR_NOISE_NONE ? size * 0x1p-8
                                                          : 0.5 * step + size * 0x1p-22;

        k += exact;
        if (!(err <= tol))
            ck_abort_msg("%s: element %zu: off by %g > %g", c->text, i, err, tol);
        if (!exact && step > 0 && err / step > largest)
            largest = err / step;
    }
    if (held_elsewhere)
        ck_assert(steps.exact == NULL && steps.n_exact == 0);
    else if (known) {
        /* n_entries counts outliers only in stages of the kind EXACT; in an entropy coder it counts
         * bytes. */
        for (int i = 0; i < c->n_stages; i++)
            if (c->stage[i].stage->kind == KVR_STAGE_EXACT)
                k -= p.stage[i].n_entries;
        ck_assert_int_eq(k, 0);
    }
    if (steps.kind == KVR_NOISE_UNIFORM && !held_elsewhere)
        ck_assert(largest >= 0.4);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

static size_t group_of(const struct kvr_layout *l, size_t e, size_t channels)
{
    switch (l->axis) {
    case KVR_AXIS_TOKENS:
        return e / channels / (size_t)l->group * channels + e % channels;
    case KVR_AXIS_CHANNELS:
        return e / (size_t)l->group;
    case KVR_AXIS_TOKEN:
        break;
    }
    return e / channels;
}

/* Decodes one element from the layout's description alone. */
static float read_by_layout(const struct kvr_layout *l, const struct kvr_stage_data *in, size_t e,
                            size_t channels)
{
    const kvr_f16 *meta = in->meta.p;
    float value, s, second = 0;
    uint8_t q;

    if (l->form == KVR_FORM_RAW) {
        kvr_to_f32(&value, (const char *)in->codes.p + e * kvr_dtype_size(l->type), l->type, 1);
        return value;
    }
    kvr_unpack_token(in->codes.p, l->n_tok, (int64_t)channels, l->bits, (int64_t)(e / channels),
                     (int64_t)(e % channels), 1, &q);
    s = kvr_f16_to_f32(meta[group_of(l, e, channels)]);
    if (l->form == KVR_FORM_LEVELS)
        return l->level[q] * s;
    if (l->zero != KVR_ZERO_MIDDLE)
        second = kvr_f16_to_f32(meta[(size_t)l->n_groups + group_of(l, e, channels)]);
    if (l->zero == KVR_ZERO_MINIMUM)
        return (float)q * s + second;
    return ((float)q - (l->zero == KVR_ZERO_POINT ? second : (float)(1 << (l->bits - 1)))) * s;
}

/* Decoding by the layout's description alone gives the values of the stage's own decoder. */
START_TEST(layouts_say_how_to_read)
{
    const struct kvr_block_shape *s = &shapes[4];
    const size_t n = elements(s), channels = (size_t)(s->n_heads * s->head_dim);
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = codec_of(_i);
    float *x = floats(n), *y = floats(n);
    struct kvr_layout l;
    struct kvr_packed p;

    kvr_codec_layout(c, 0, s, &l);
    if (c->n_stages == 1 && l.form != KVR_FORM_OWN) {
        fill_block(x, s, FILL_OUTLIER_CHANNEL, 6);
        encode(c, dev, x, s, &p);
        ck_assert_uint_eq(p.stage[0].codes.n_bytes, l.bytes.codes);
        ck_assert_uint_eq(p.stage[0].meta.n_bytes, l.bytes.meta);
        kvr_codec_decode(&p, 0, s->n_tok, 0, s->n_heads, y);
        for (size_t i = 0; i < n; i++)
            if (read_by_layout(&l, &p.stage[0], i, channels) != y[i])
                ck_abort_msg("%s: element %zu is %a, by its layout %a", c->text, i, (double)y[i],
                             (double)read_by_layout(&l, &p.stage[0], i, channels));
        kvr_packed_free(&p);
    }
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(y);
}
END_TEST

START_TEST(only_the_ternary_grid_says_so)
{
    const struct kvr_block_shape *s = &shapes[2];
    struct kvr_dev *dev = open_dev();
    float *x = floats(elements(s));

    for (int study = 0; study < 2; study++)
        for (int bits = 2; bits < 4; bits++) {
            char text[32];
            struct kvr_codec *c;
            struct kvr_packed p;
            struct kvr_coding_noise noise;

            snprintf(text, sizeof text, "sym(bits=%d)", bits);
            c = open_codec(text, KVR_K, study, KVR_COMPUTE_F32);
            encode(c, dev, x, s, &p);
            kvr_codec_noise(&p, &noise);
            ck_assert_int_eq(noise.kind, KVR_NOISE_UNIFORM);
            ck_assert_int_eq(noise.dead_zone, study && bits == 2);
            kvr_packed_free(&p);
            kvr_codec_close(&c);
        }
    kvr_dev_close(&dev);
    free(x);
}
END_TEST

/* The study pads a block to a multiple of 16 tokens. Returns the study's size in bytes of m codes
 * of b bits: ceil(m b / 8). */
static size_t packed_bits(size_t m, int b)
{
    return (m * (size_t)b + 7) / 8;
}

static size_t bytes_of(const char *text, enum kvr_side side, int64_t tokens, int64_t n_exact)
{
    const struct kvr_block_shape wan = { tokens, 12, 128 };
    struct kvr_codec *c = open_codec(text, side, true, KVR_COMPUTE_F32);
    const struct kvr_packed block = { .codec = c, .shape = wan, .stage[0].n_entries = n_exact };
    const struct kvr_stage_bytes b = kvr_packed_nominal(&block);

    kvr_codec_close(&c);
    return b.codes + b.meta;
}

START_TEST(bytes_are_the_studys)
{
    const int64_t lengths[] = { 65520, 1560, 4680, 9828, 55692, 65519, 1 };
    const size_t ch = 1536;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t len = lengths[i];
        const size_t blocks = (size_t)(len + 15) / 16, pad = 16 * blocks;

        for (int b = 2; b <= 4; b += 2) {
            const size_t codes = packed_bits(pad * ch, b);
            char text[64];

            snprintf(text, sizeof text, "sym(bits=%d)", b);
            ck_assert_uint_eq(bytes_of(text, KVR_K, len, 0), codes + 2 * blocks * ch);
            snprintf(text, sizeof text, "hadamard | sym(bits=%d)", b);
            ck_assert_uint_eq(bytes_of(text, KVR_K, len, 0), codes + 2 * blocks * ch);
            snprintf(text, sizeof text, "asym(bits=%d)", b);
            ck_assert_uint_eq(bytes_of(text, KVR_K, len, 0), codes + 4 * blocks * ch);
            snprintf(text, sizeof text, "asym(bits=%d,axis=token)", b);
            ck_assert_uint_eq(bytes_of(text, KVR_V, len, 0), codes + 4 * pad);
            snprintf(text, sizeof text, "sym(bits=%d) + sym(bits=4)", b);
            ck_assert_uint_eq(bytes_of(text, KVR_K, len, 0),
                              codes + packed_bits(pad * ch, 4) + 4 * blocks * ch);
            snprintf(text, sizeof text, "outliers(left=clamp) | asym(bits=%d)", b);
            ck_assert_uint_eq(bytes_of(text, KVR_K, len, 1001), codes + 4 * blocks * ch + 6 * 1001);
        }
    }
    /* The study's published total bytes for the keys and values of 30 layers. */
    ck_assert_uint_eq(60 * bytes_of("sym(bits=4)", KVR_K, 65520, 0), 3773952000u);
    ck_assert_uint_eq(60 * bytes_of("sym(bits=2)", KVR_K, 65520, 0), 2264371200u);
    ck_assert_uint_eq(30 * (bytes_of("asym(bits=4)", KVR_K, 65520, 0) +
                            bytes_of("asym(bits=4,axis=token)", KVR_V, 65520, 0)),
                      3781814400u);
    ck_assert_uint_eq(30 * (bytes_of("asym(bits=2)", KVR_K, 65520, 0) +
                            bytes_of("asym(bits=2,axis=token)", KVR_V, 65520, 0)),
                      2272233600u);
    ck_assert_uint_eq(60 * bytes_of("sym(bits=2) + sym(bits=4)", KVR_K, 65520, 0), 6038323200u);
    ck_assert_uint_eq(60 * bytes_of("sym(bits=4) + sym(bits=4)", KVR_K, 65520, 0), 7547904000u);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("codec");
    TCase *tc = tcase_create("codec");
    SRunner *sr = srunner_create(s);
    int failed;

    n_pipelines = N_CHOSEN + n_stage_pipelines();
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, errors_name_the_thing);
    tcase_add_test(tc, a_former_name_is_the_same_stage);
    tcase_add_loop_test(tc, text_is_canonical, 0, n_pipelines);
    tcase_add_test(tc, options_can_be_set_later);
    tcase_add_loop_test(tc, bytes_are_what_is_held, 0, 2 * n_pipelines);
    tcase_add_loop_test(tc, failed_allocation_leaves_nothing, 0, 2 * n_pipelines);
    tcase_add_loop_test(tc, any_part_is_part_of_the_whole, 0, 4 * n_pipelines);
    tcase_add_loop_test(tc, threads_change_nothing, 0, 2 * n_pipelines);
    tcase_add_loop_test(tc, bf16_and_threads_change_nothing, 0, 2 * N_CHOSEN);
    tcase_add_loop_test(tc, idempotent_as_declared, 0, 4 * n_pipelines);
    tcase_add_loop_test(tc, what_is_not_finite_is_noticed, 0, 4 * n_pipelines);
    tcase_add_loop_test(tc, steps_bound_the_error, 0, n_pipelines);
    tcase_add_loop_test(tc, layouts_say_how_to_read, 0, 2 * n_pipelines);
    tcase_add_test(tc, only_the_ternary_grid_says_so);
    tcase_add_test(tc, bytes_are_the_studys);
    /* Run tests in this process, since OpenMP's threads do not survive fork(). */
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
