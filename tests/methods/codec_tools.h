/* codec_tools.h - shared by codec tests: blocks with extreme values, and output buffers between
 * guard bytes. */
#ifndef KVR_TESTS_CODEC_TOOLS_H
#define KVR_TESTS_CODEC_TOOLS_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "methods/codec.h"
#include "tests/normals.h"

enum fill {
    FILL_NORMAL,
    FILL_ZERO,
    FILL_CONSTANT,
    FILL_OUTLIER_CHANNEL,
    FILL_OFFSET,
    FILL_TINY,
    FILL_HUGE,
    FILL_BEYOND_FP16,
    N_FINITE_FILLS,
    FILL_NAN = N_FINITE_FILLS,
    FILL_INF,
    N_FILLS
};

static const char *const fill_names[N_FILLS] = { "normal", "zero",    "constant", "outlier channel",
                                                 "offset", "tiny",    "huge",     "beyond FP16",
                                                 "NaN",    "infinity" };

static inline size_t elements(const struct kvr_block_shape *s)
{
    return (size_t)s->n_tok * (size_t)s->n_heads * (size_t)s->head_dim;
}

/* Index of the element that FILL_NAN and FILL_INF replace by NaN or infinity. */
static inline size_t spoiled(const struct kvr_block_shape *s)
{
    return elements(s) / 2;
}

/* Fills a block with values that BF16 represents exactly. */
static inline void fill_block(float *x, const struct kvr_block_shape *s, enum fill how,
                              uint32_t seed)
{
    const size_t n = elements(s);

    drawn_normals(x, n, 11, seed, (uint32_t)how);
    for (size_t i = 0; i < n; i++) {
        const size_t d = i % (size_t)s->head_dim;

        if (how == FILL_ZERO)
            x[i] = 0;
        if (how == FILL_CONSTANT)
            x[i] = -3.25f;
        if (how == FILL_OUTLIER_CHANNEL && d == 3)
            x[i] = 40 + 10 * x[i];
        if (how == FILL_OFFSET)
            x[i] = 10 + 0.5f * x[i];
        if (how == FILL_TINY)
            x[i] *= 1e-9f;
        if (how == FILL_HUGE)
            x[i] *= 2e4f;
        if (how == FILL_BEYOND_FP16)
            x[i] *= 1e9f;
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
    }
    if (how == FILL_NAN)
        x[spoiled(s)] = NAN;
    if (how == FILL_INF)
        x[spoiled(s)] = -INFINITY;
}

enum { GUARD = 64 };

/* Allocates n bytes between two guards. Free them with guarded_free(). */
static inline void *guarded(size_t n)
{
    unsigned char *p = malloc(n + 2 * GUARD);

    if (!p)
        ck_abort_msg("no memory");
    memset(p, 0xa5, n + 2 * GUARD);
    return p + GUARD;
}

static inline void check_guards(const void *at, size_t n)
{
    const unsigned char *p = at;

    for (int i = 0; i < GUARD; i++) {
        if (p[-1 - i] != 0xa5)
            ck_abort_msg("byte %d before the output was written", i + 1);
        if (p[n + (size_t)i] != 0xa5)
            ck_abort_msg("byte %d after the output was written", i);
    }
}

static inline void guarded_free(void *at)
{
    free((unsigned char *)at - GUARD);
}

/* Returns whether a and b are equal or both NaN. 0 and -0 are equal. */
static inline bool same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Returns whether the element at p is NaN: FP32 for a size of 4 bytes, BF16 or FP16 for 2, E4M3
 * for 1. */
static inline bool holds_nan(const unsigned char *p, size_t size)
{
    uint32_t u = 0;

    memcpy(&u, p, size);
    if (size == 4)
        return (u & 0x7fffffff) > 0x7f800000;
    if (size == 2)
        return (u & 0x7fff) > 0x7f80 || (u & 0x7fff) > 0x7c00;
    return (u & 0x7f) == 0x7f;
}

/* Returns whether n bytes of codes or side information are equal. IEEE 754 leaves the sign and
 * payload of a computed NaN to the machine: a GPU gives 0x7fffffff, x86 0xffc00000. With
 * nan_may_differ, bytes may also differ in an aligned element of 1, 2 or 4 bytes that is NaN in
 * both buffers. Set nan_may_differ for non-finite blocks encoded on a GPU. */
static inline bool same_coded(const void *want, const void *got, size_t n, bool nan_may_differ)
{
    const unsigned char *a = want, *b = got;

    for (size_t i = 0; i < n; i++) {
        bool same_element = a[i] == b[i];

        for (size_t size = 1; size <= 4 && nan_may_differ && !same_element; size *= 2) {
            const size_t at = i / size * size;

            same_element = at + size <= n && holds_nan(a + at, size) && holds_nan(b + at, size);
        }
        if (!same_element)
            return false;
    }
    return true;
}

static inline struct kvr_dev *open_dev(void)
{
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    return dev;
}

static inline struct kvr_codec *open_codec(const char *text, enum kvr_side side, bool study,
                                           enum kvr_compute compute)
{
    struct kvr_codec *c;

    ck_assert_msg(kvr_codec_open(&c, text, side, study) == KVR_OK, "%s", kvr_error());
    c->compute = compute;
    return c;
}

static inline float *floats(size_t n)
{
    float *p = calloc(n ? n : 1, sizeof *p);

    ck_assert_ptr_nonnull(p);
    return p;
}

/* An encoded block at a given position in the rollout (struct kvr_place), and its decoded
 * values. */
struct placed {
    struct kvr_codec *codec;
    struct kvr_dev *dev;
    struct kvr_packed packed;
    float *back; /* [n_tok,H,D] */
};

static inline void placed_open(struct placed *t, const char *text, const struct kvr_block_shape *s,
                               const struct kvr_place *place, const float *x)
{
    float *work = floats(elements(s));

    t->codec = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    t->dev = open_dev();
    t->back = floats(elements(s));
    ck_assert_msg(kvr_codec_encode_at(t->codec, t->dev, x, s, place, work, &t->packed) == KVR_OK,
                  "%s", kvr_error());
    kvr_codec_decode(&t->packed, 0, s->n_tok, 0, s->n_heads, t->back);
    free(work);
}

static inline void placed_close(struct placed *t)
{
    kvr_packed_free(&t->packed);
    kvr_codec_close(&t->codec);
    kvr_dev_close(&t->dev);
    free(t->back);
}

static inline double squared_error(const float *a, const float *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum;
}

/* Encodes x as keys with the codec that `text` describes, and decodes the result to y. Returns
 * kvr_stage_data.n_entries of the codec's first stage, for example the number of outliers. It is 0
 * if the size of the stage's output does not depend on the data. */
static inline int64_t there_and_back(const char *text, const struct kvr_block_shape *shape,
                                     const float *x, float *y)
{
    struct kvr_codec *c = open_codec(text, KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    float *work = floats(elements(shape));
    struct kvr_packed p;
    int64_t n;

    ck_assert_int_eq(kvr_codec_encode(c, dev, x, shape, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, shape->n_tok, 0, shape->n_heads, y);
    n = p.stage[0].n_entries;
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(work);
    return n;
}

/* Pipelines for testing a stage, whose name replaces %s. grid_pipelines test stages that quantize
 * (KVR_STAGE_GRID), and shift_pipelines test all others. */
static const char *const grid_pipelines[] = { "%s", "hadamard | %s", "sym(bits=2) + %s",
                                              "%s + asym(bits=4)", "outliers(sigma=2) | %s" };
static const char *const shift_pipelines[] = { "%s | sym(bits=4)", "%s | asym(bits=2,axis=token)" };

/* Writes the i-th valid pipeline of the registered stages to `text`. Returns false past the last
 * one. Combinations that kvr_codec_open rejects are skipped. */
static inline bool stage_pipeline(int i, char *text, size_t n)
{
    const struct kvr_stage *s;

    for (int at = 0; (s = kvr_stage_at(at)) != NULL; at++) {
        const bool grid = s->kind == KVR_STAGE_GRID;
        const char *const *forms = grid ? grid_pipelines : shift_pipelines;
        const int n_forms = grid ? 5 : 2;

        for (int f = 0; f < n_forms; f++) {
            struct kvr_codec *c;

            snprintf(text, n, forms[f], s->name);
            if (kvr_codec_open(&c, text, KVR_K, false) != KVR_OK)
                continue;
            kvr_codec_close(&c);
            if (i-- == 0)
                return true;
        }
    }
    return false;
}

static inline int n_stage_pipelines(void)
{
    char text[128];
    int n = 0;

    while (stage_pipeline(n, text, sizeof text))
        n++;
    return n;
}

/* If the codec rejects heads of 32 channels, sets its group size to 32. */
static inline void fit_groups(struct kvr_codec *c)
{
    int n;

    if (kvr_codec_check(c, 1, 32) != KVR_OK)
        ck_assert_msg(kvr_codec_set(c, 0, "group", "32", &n) == KVR_OK &&
                          kvr_codec_check(c, 1, 32) == KVR_OK,
                      "%s: %s", c->text, kvr_error());
}

#endif
