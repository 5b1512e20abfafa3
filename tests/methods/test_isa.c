/* test_isa.c - compares every instruction set with portable C: codes and decoded values of
 * adversarial blocks must be identical. test_grid, test_pack, test_hadamard, test_outliers and
 * test_dtype test portable C. */
#include <malloc.h>
#include <omp.h>

#include "harness/core/isa.h"
#include "methods/corrections/correction.h"
#include "methods/codecs/hadamard/fwht.h"
#include "methods/codecs/grid/grid.h"
#include "methods/kernels/pack.h"
#include "methods/kernels/saliency.h"
#include "tests/methods/codec_tools.h"
#include "tests/suite.h"

/* Shapes with incomplete groups of tokens, with incomplete vectors of channels, and with
 * neither. */
static const struct kvr_block_shape shapes[] = {
    { 37, 3, 32 }, { 5, 1, 8 }, { 48, 1, 128 }, { 33, 5, 24 }, { 16, 4, 72 },
};
enum {
    N_SHAPES = sizeof shapes / sizeof *shapes,
    MORE_FILLS = 12,
    ALL_FILLS = N_FILLS + MORE_FILLS
};

/* Fills a block with values that BF16 does not represent, or that are difficult to round or to
 * compare. */
static void fill_hard(float *x, const struct kvr_block_shape *s, int how)
{
    const size_t n = elements(s);

    if (how < N_FILLS) {
        fill_block(x, s, (enum fill)how, 7);
        return;
    }
    kvr_normal(x, n, 3, KVR_RNG_TEST, 5, (uint32_t)how, 1);
    for (size_t i = 0; i < n; i++)
        switch (how - N_FILLS) {
        case 0: /* ties when rounding */
            x[i] = 0.5f * (float)(int)(8 * x[i]);
            break;
        case 1: /* zeros of both signs */
            x[i] = i % 3 ? 0.0f : -0.0f;
            break;
        case 2: /* subnormal numbers */
            x[i] *= 1e-42f;
            break;
        case 3: /* numbers near the largest float */
            x[i] *= 1e38f;
            break;
        case 4:
            x[i] = i % 97 ? x[i] : i % 2 ? NAN : -NAN;
            break;
        case 5:
            x[i] = i % 131 ? x[i] : i % 2 ? INFINITY : -INFINITY;
            break;
        case 6:
            x[i] = fabsf(x[i]);
            break;
        case 7: /* negative numbers beyond FP16's lowest */
            x[i] = -1e5f * fabsf(x[i]);
            break;
        case 8: /* ranges whose scales are near FP16's largest number */
            x[i] *= 2e5f;
            break;
        case 9: /* large values first, so that no later value exceeds the outlier threshold */
            x[i] *= i < 1100 ? 1e3f : 1;
            break;
        case 10: /* 1024 consecutive elements that all have magnitude 100 */
            x[i] = i / 1024 == 2 ? copysignf(100, x[i]) : x[i];
            break;
        default: /* numbers near FP16's smallest */
            x[i] *= 6e-8f;
            break;
        }
}

/* Writes the names of the instruction-set variants, other than portable C, that this CPU supports.
 * Variants that differ only in dot products (such as AVX-VNNI) are omitted, because they use the
 * codec kernels of AVX2 or AVX-512. */
static int variants(const char *out[KVR_N_ISA])
{
    static const enum kvr_isa all[] = { KVR_ISA_OF_AVX2, KVR_ISA_OF_AVX512, KVR_ISA_OF_NEON };
    int n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (kvr_isa_usable(all[i]))
            out[n++] = kvr_isa_name(all[i]);
    return n;
}

static void use(const char *name)
{
    if (kvr_isa_force(name) != KVR_OK)
        ck_abort_msg("%s", kvr_error());
}

/* Fails unless all elements have equal bits or are both NaN. */
static void check_same(const float *want, const float *got, size_t n, const char *isa,
                       const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (kvr_f32_bits(want[i]) != kvr_f32_bits(got[i]) && !(isnan(want[i]) && isnan(got[i])))
            ck_abort_msg("%s: %s: element %zu: %a, portable %a", isa, what, i, (double)got[i],
                         (double)want[i]);
}

/* One block that the chosen ISA variant has encoded and decoded. */
struct coded {
    struct kvr_stage_bytes bytes;
    struct kvr_stage_data data;
    /* out[0]: the decoded block; out[1]: the block x minus the decoded block; out[2]: the last head
     * plus the first head, decoded from an odd token on */
    float *out[3];
    size_t n[3];
};

static void code(struct coded *c, const struct kvr_grid *g, const struct kvr_stage_job *job,
                 const float *x)
{
    const struct kvr_block_shape *s = &job->shape;
    const int64_t t0 = s->n_tok > 3 ? 3 : 0;

    struct kvr_layout layout;

    kvr_grid_layout(g, job, &layout);
    c->bytes = layout.bytes;
    c->data.codes.p = guarded(c->bytes.codes);
    c->data.meta.p = guarded(c->bytes.meta);
    kvr_grid_encode(g, job, x, &c->data);
    check_guards(c->data.codes.p, c->bytes.codes);
    check_guards(c->data.meta.p, c->bytes.meta);
    c->n[0] = c->n[1] = elements(s);
    c->n[2] = (size_t)((s->n_tok - t0) * s->head_dim);
    for (int i = 0; i < 3; i++)
        c->out[i] = guarded(c->n[i] * sizeof(float));
    memcpy(c->out[1], x, c->n[1] * sizeof *x);
    kvr_grid_decode(g, job, &c->data, 0, s->n_tok, 0, s->n_heads, KVR_DECODE_SET, c->out[0]);
    kvr_grid_decode(g, job, &c->data, 0, s->n_tok, 0, s->n_heads, KVR_DECODE_SUB, c->out[1]);
    kvr_grid_decode(g, job, &c->data, t0, s->n_tok - t0, s->n_heads - 1, 1, KVR_DECODE_SET,
                    c->out[2]);
    kvr_grid_decode(g, job, &c->data, t0, s->n_tok - t0, 0, 1, KVR_DECODE_ADD, c->out[2]);
    for (int i = 0; i < 3; i++)
        check_guards(c->out[i], c->n[i] * sizeof(float));
}

static void coded_free(struct coded *c)
{
    guarded_free(c->data.codes.p);
    guarded_free(c->data.meta.p);
    for (int i = 0; i < 3; i++)
        guarded_free(c->out[i]);
}

static void compare_grid(const struct kvr_grid *g, const struct kvr_stage_job *job, const float *x,
                         const char *fill)
{
    const char *isa[KVR_N_ISA];
    const int n = variants(isa);
    struct coded want, got;
    char what[160];

    snprintf(what, sizeof what, "%s, %d bits, %s, group %d, %s, %s, [%d,%d,%d], fill %s",
             g->asym ? "asym" : "sym", g->bits, kvr_axis_names[g->axis], g->group,
             job->study ? "study" : "intended", job->compute == KVR_COMPUTE_BF16 ? "bf16" : "f32",
             (int)job->shape.n_tok, job->shape.n_heads, job->shape.head_dim, fill);
    use("portable");
    code(&want, g, job, x);
    for (int i = 0; i < n; i++) {
        use(isa[i]);
        code(&got, g, job, x);
        if (memcmp(want.data.codes.p, got.data.codes.p, want.bytes.codes))
            ck_abort_msg("%s: %s: other codes", isa[i], what);
        if (memcmp(want.data.meta.p, got.data.meta.p, want.bytes.meta))
            ck_abort_msg("%s: %s: other steps", isa[i], what);
        for (int k = 0; k < 3; k++)
            check_same(want.out[k], got.out[k], want.n[k], isa[i], what);
        coded_free(&got);
    }
    coded_free(&want);
}

/* The loop index _i encodes the axis of groups, sym or asym, the intended or the study's version,
 * and F32 or BF16 arithmetic. */
START_TEST(grids_are_the_same)
{
    static const int groups[] = { 8, 16, 64 };
    const bool asym = _i / 3 % 2, study = _i / 6 % 2, bf16 = _i / 12;

    for (int s = 0; s < N_SHAPES; s++) {
        const struct kvr_stage_job job = { .study = study,
                                           .compute = bf16 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32,
                                           .shape = shapes[s] };
        float *x = floats(elements(&shapes[s]));

        for (int f = 0; f < ALL_FILLS; f++) {
            char fill[16];

            fill_hard(x, &shapes[s], f);
            snprintf(fill, sizeof fill, "%d", f);
            for (int k = 0; k < 3; k++)
                for (int bits = asym ? 1 : 2; bits <= 8; bits++) {
                    const struct kvr_grid g = { bits, (enum kvr_group_axis)(_i % 3), groups[k],
                                                asym };

                    if (kvr_grid_check(&g, shapes[s].head_dim) == KVR_OK)
                        compare_grid(&g, &job, x, fill);
                }
        }
        free(x);
    }
}
END_TEST

START_TEST(transforms_are_the_same)
{
    enum { N = 4 * KVR_FWHT_MAX };
    const struct kvr_block_shape shape = { N / 64, 1, 64 };
    float *x = floats(N), *want = floats(N), *got = floats(N);
    const char *isa[KVR_N_ISA];
    const int n = variants(isa);

    for (int f = 0; f < ALL_FILLS; f++)
        for (int d = 2; d <= KVR_FWHT_MAX; d *= 2)
            for (int bf16 = 0; bf16 < 2; bf16++) {
                char what[64];

                snprintf(what, sizeof what, "width %d, bf16 %d, fill %d", d, bf16, f);
                fill_hard(x, &shape, f);
                memcpy(want, x, N * sizeof *x);
                use("portable");
                kvr_fwht(want, N / d, d, bf16 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);
                for (int i = 0; i < n; i++) {
                    memcpy(got, x, N * sizeof *x);
                    use(isa[i]);
                    kvr_fwht(got, N / d, d, bf16 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);
                    check_same(want, got, N, isa[i], what);
                }
            }
    free(x);
    free(want);
    free(got);
}
END_TEST

/* If only the first element v of a row is nonzero, every element of the transform is v / sqrt(D).
 * The test compares this quotient with a division for all floats v in [1, 2). One width is enough,
 * because sqrt(D) has the same mantissa for every D that is an odd power of two. */
START_TEST(every_quotient_of_a_transform_is_rounded)
{
    enum { D = 32, ROWS = 256 };
    static float x[ROWS * D];
    const uint32_t first = kvr_f32_bits(1), end = kvr_f32_bits(2);
    const float root = sqrtf(D);
    const char *isa[KVR_N_ISA];
    int n = variants(isa);

    isa[n++] = "portable";
    for (int i = 0; i < n; i++) {
        use(isa[i]);
        for (uint32_t u = first; u < end; u += ROWS) {
            memset(x, 0, sizeof x);
            for (uint32_t r = 0; r < ROWS; r++)
                x[r * D] = kvr_bits_f32(u + r);
            kvr_fwht(x, ROWS, D, KVR_COMPUTE_F32);
            for (uint32_t r = 0; r < ROWS; r++)
                if (!(x[r * D + r % D] == kvr_bits_f32(u + r) / root))
                    ck_abort_msg("%s: %a", isa[i], (double)kvr_bits_f32(u + r));
        }
    }
}
END_TEST

START_TEST(packing_is_the_same)
{
    enum { T = 29, C = 83 };
    uint8_t codes[T * C], back[C], again[C];
    const char *isa[KVR_N_ISA];
    const int n = variants(isa);
    uint32_t seed = 1;

    for (int bits = 1; bits <= 8; bits++) {
        const size_t bytes = kvr_pack_bytes(T, C, bits);
        uint8_t *want = guarded(bytes), *got = guarded(bytes);

        for (size_t i = 0; i < sizeof codes; i++)
            codes[i] =
                (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24 & ((1u << bits) - 1u));
        use("portable");
        kvr_pack(want, T, C, bits, 0, T, 0, C, codes);
        for (int i = 0; i < n; i++) {
            use(isa[i]);
            kvr_pack(got, T, C, bits, 0, T, 0, C, codes);
            check_guards(got, bytes);
            ck_assert_msg(!memcmp(want, got, bytes), "%s: %d bits", isa[i], bits);
            for (int t = 0; t < T; t++) {
                use("portable");
                kvr_unpack_token(want, T, C, bits, t, 1, C - 1, back);
                use(isa[i]);
                kvr_unpack_token(want, T, C, bits, t, 1, C - 1, again);
                if (memcmp(back, again, C - 1))
                    ck_abort_msg("%s: %d bits", isa[i], bits);
            }
        }
        guarded_free(want);
        guarded_free(got);
    }
}
END_TEST

/* Converts every 16-bit and every 8-bit number, and floats from the whole range. */
START_TEST(conversions_are_the_same)
{
    static const enum kvr_dtype types[] = { KVR_F16, KVR_BF16, KVR_F8_E4M3, KVR_F8_E5M2, KVR_F64 };
    enum { N = 65536 + 13, N_TYPES = sizeof types / sizeof *types };
    uint8_t *raw = guarded(8 * N), *narrow = guarded(8 * N), *again = guarded(8 * N);
    float *want = floats(N), *got = floats(N);
    const char *isa[KVR_N_ISA];
    const int n = variants(isa);

    for (int k = 0; k < N_TYPES; k++) {
        const size_t size = kvr_dtype_size(types[k]);

        for (size_t e = 0; e < N; e++) {
            const double d = (double)e * 1.7e30 - 3e34;

            memcpy(raw + size * e, size == 8 ? (const void *)&d : (const void *)&e, size);
        }
        use("portable");
        kvr_to_f32(want, raw, types[k], N);
        for (int i = 0; i < n; i++) {
            use(isa[i]);
            kvr_to_f32(got, raw, types[k], N);
            ck_assert_msg(!memcmp(want, got, N * sizeof *want), "%s: %s to F32", isa[i],
                          kvr_dtype_name(types[k]));
        }
        /* Numbers halfway between FP16 numbers, their neighbours, and numbers from the whole
         * range. */
        for (uint32_t e = 0; e < N; e++)
            want[e] =
                e % 4 == 0
                    ? kvr_bits_f32(e * 65521u * 7u)
                    : kvr_bits_f32(kvr_f32_bits(kvr_f16_to_f32((kvr_f16)e)) + 0x1000u + e % 4 - 2);
        use("portable");
        kvr_from_f32(narrow, types[k], want, N);
        for (int i = 0; i < n; i++) {
            use(isa[i]);
            kvr_from_f32(again, types[k], want, N);
            check_guards(again, 8 * N);
            ck_assert_msg(!memcmp(narrow, again, N * size), "%s: F32 to %s", isa[i],
                          kvr_dtype_name(types[k]));
        }
    }
    guarded_free(raw);
    guarded_free(narrow);
    guarded_free(again);
    free(want);
    free(got);
}
END_TEST

/* Results of encoding a block: the packed block, the moments that corrections store,
 * kvr_frame_summary() over the block, and the decoded values. */
struct stored {
    struct kvr_packed p;
    kvr_f16 moments[3][512];
    float summary[8];
    float *back;
};

static void store(struct stored *s, const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                  const struct kvr_block_shape *shape, float *work)
{
    const int64_t t = shape->n_tok;

    memset(s->moments, 0, sizeof s->moments);
    ck_assert_msg(kvr_codec_encode(c, dev, x, shape, work, &s->p) == KVR_OK, "%s", kvr_error());
    s->back = floats(elements(shape));
    kvr_codec_decode(&s->p, 0, t, 0, shape->n_heads, s->back);
    for (int k = 0, at = 0; kvr_corrections[k]; k++)
        if (kvr_corrections[k]->prepare)
            kvr_corrections[k]->prepare(&s->p, x, s->moments[at++]);
    kvr_frame_summary(x, x, 0, t, shape->n_heads, shape->head_dim, s->summary);
}

static void same_bytes(const struct kvr_packed *a, const struct kvr_packed *b, const char *isa,
                       const char *what)
{
    for (int i = 0; i < KVR_MAX_STAGES; i++) {
        const struct kvr_stage_data *p = &a->stage[i], *q = &b->stage[i];

        ck_assert_msg(p->codes.n_bytes == q->codes.n_bytes && p->meta.n_bytes == q->meta.n_bytes &&
                          p->n_entries == q->n_entries,
                      "%s: %s: stage %d: other sizes", isa, what, i);
        ck_assert_msg(!p->codes.p || !memcmp(p->codes.p, q->codes.p, p->codes.n_bytes),
                      "%s: %s: stage %d: other codes", isa, what, i);
        ck_assert_msg(!p->meta.p || !memcmp(p->meta.p, q->meta.p, p->meta.n_bytes),
                      "%s: %s: stage %d: other meta", isa, what, i);
    }
}

static void compare_stored(const struct stored *want, const struct stored *got,
                           const struct kvr_block_shape *shape, const char *isa, const char *what)
{
    same_bytes(&want->p, &got->p, isa, what);
    check_same(want->back, got->back, elements(shape), isa, what);
    check_same(want->summary, got->summary, (size_t)shape->n_heads, isa, "summary");
    ck_assert_msg(!memcmp(want->moments, got->moments, sizeof want->moments),
                  "%s: %s: other moments", isa, what);
}

static const char *const pipelines[] = {
    "hadamard | sym(bits=4)",
    "hadamard | sym(bits=2,axis=channels,group=8)",
    "sym(bits=2) + sym(bits=4)",
    "sym(bits=3) + asym(bits=4,group=32)",
    "sym(bits=2,axis=token) + sym(bits=4)",
    "outliers(sigma=2) | asym(bits=4)",
    "outliers(sigma=1,max_ratio=0.01) | asym(bits=4)",
    "outliers(sigma=2,left=clamp) | asym(bits=3)",
    "outliers(sigma=1) | hadamard | sym(bits=4)",
    "hadamard | outliers(sigma=2) | sym(bits=4)",
};

static const char *const tiled[] = {
    "sym(bits=4)",
    "asym(bits=2)",
    "sym(bits=3,group=24)",
    "asym(bits=4,axis=token)",
    "asym(bits=8,axis=channels,group=16)",
    "hadamard | sym(bits=4)",
    "hadamard | asym(bits=2,axis=token)",
    "sym(bits=2) + sym(bits=4)",
    "asym(bits=4,group=32) + sym(bits=8)",
    "sym(bits=2,axis=token) + asym(bits=4)",
    "outliers(sigma=2) | asym(bits=4)",
    "outliers(sigma=2) | asym(bits=4,axis=token)",
    "outliers(sigma=1,max_ratio=0.01) | asym(bits=4)",
    "outliers(sigma=2,left=clamp) | asym(bits=2)",
    "outliers(sigma=2,left=keep) | sym(bits=4)",
    "outliers(sigma=1) | hadamard | sym(bits=4)",
    "sym(bits=2)",
    "sym(bits=8)",
    "asym(bits=8)",
    "sym(bits=4,axis=token)",
    "sym(bits=8,axis=token)",
    "hadamard | asym(bits=8)",
    "sym(bits=4) + sym(bits=4)",
    "sym(bits=4) + sym(bits=2)",
    "sym(bits=2) + sym(bits=2)",
    "raw",
};

/* A block has the same bytes whether it is encoded from BF16, from F32, or in place. In place, the
 * stages run one after the other instead of tile by tile. M_PERTURB fills newly allocated memory
 * with nonzero bytes, so that reads of uninitialized memory change results. */
START_TEST(tiles_and_types_are_the_same)
{
    static const struct kvr_block_shape shape[] = { { 331, 3, 64 }, { 208, 2, 128 } };
    const bool study = _i % 2, bf16 = _i / 2 % 2;
    struct kvr_codec *c =
        open_codec(tiled[_i / 4], KVR_K, study, bf16 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    const char *isa[KVR_N_ISA];
    const int n = variants(isa);

    mallopt(M_PERTURB, 0x5a);
    for (int k = 0; k < 2 * ALL_FILLS; k++) {
        const struct kvr_block_shape *s = &shape[k % 2];
        const size_t size = elements(s);
        float *x = floats(size), *work = floats(size);
        kvr_bf16 *narrow = malloc(size * sizeof *narrow);

        ck_assert_ptr_nonnull(narrow);
        fill_hard(x, s, k / 2);
        kvr_from_f32(narrow, KVR_BF16, x, size);
        kvr_to_f32(x, narrow, KVR_BF16, size);
        for (int i = 0; i < n; i++) {
            struct kvr_packed wide, given, steps;

            use(isa[i]);
            ck_assert_int_eq(kvr_codec_encode(c, dev, x, s, work, &wide), KVR_OK);
            ck_assert_int_eq(kvr_codec_encode_bf16(c, dev, narrow, s, work, &given), KVR_OK);
            memcpy(work, x, size * sizeof *x);
            ck_assert_int_eq(kvr_codec_encode(c, dev, work, s, work, &steps), KVR_OK);
            same_bytes(&steps, &wide, isa[i], c->text);
            same_bytes(&steps, &given, isa[i], c->text);
            kvr_packed_free(&wide);
            kvr_packed_free(&given);
            kvr_packed_free(&steps);
        }
        free(x);
        free(work);
        free(narrow);
    }
    mallopt(M_PERTURB, 0);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
}
END_TEST

START_TEST(pipelines_are_the_same)
{
    const bool study = _i % 2, bf16 = _i / 2 % 2;
    struct kvr_codec *c =
        open_codec(pipelines[_i / 4], KVR_K, study, bf16 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    const char *isa[KVR_N_ISA];
    const int n = variants(isa);

    for (int s = 0; s < N_SHAPES; s++) {
        const struct kvr_block_shape *shape = &shapes[s];
        float *x = floats(elements(shape)), *work = floats(elements(shape));

        for (int f = 0; f < ALL_FILLS; f++) {
            struct stored want, got;

            if (kvr_codec_check(c, shape->n_heads, shape->head_dim) != KVR_OK)
                continue;
            fill_hard(x, shape, f);
            use("portable");
            store(&want, c, dev, x, shape, work);
            for (int i = 0; i < n; i++) {
                use(isa[i]);
                store(&got, c, dev, x, shape, work);
                compare_stored(&want, &got, shape, isa[i], c->text);
                kvr_packed_free(&got.p);
                free(got.back);
            }
            kvr_packed_free(&want.p);
            free(want.back);
        }
        free(x);
        free(work);
    }
    kvr_dev_close(&dev);
    kvr_codec_close(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("isa");
    TCase *tc = tcase_create("isa");

    omp_set_num_threads(1);
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, grids_are_the_same, 0, 24);
    tcase_add_test(tc, transforms_are_the_same);
    tcase_add_test(tc, every_quotient_of_a_transform_is_rounded);
    tcase_add_test(tc, packing_is_the_same);
    tcase_add_test(tc, conversions_are_the_same);
    tcase_add_loop_test(tc, tiles_and_types_are_the_same, 0,
                        4 * (int)(sizeof tiled / sizeof *tiled));
    tcase_add_loop_test(tc, pipelines_are_the_same, 0,
                        4 * (int)(sizeof pipelines / sizeof *pipelines));
    return run_suite(s);
}
