/* test_merge.c - near-duplicate tokens merged into one with a multiplicity give the same
 * attention as all of them. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"
#include "harness/core/rng.h"
#include "methods/kernels/rope.h"
#include "tests/cache/compare.h"
#include "tests/suite.h"

enum { S = 6, F = 3, H = 2, D = 32, CHUNK = S * F, W = H * D, CHUNKS = 4, N = CHUNK * W };
enum { FRAMES = CHUNKS * F, TOKENS = FRAMES * S, TIME = D / 2 - 2 * (D / 6) };

static float keys[CHUNKS * N], values[CHUNKS * N], queries[CHUNKS * N];

/* Draws keys that are equal for `each` frames in a row, and values that differ in every frame.
 * The channel pairs that RoPE rotates by time are 0, so keys of equal frames stay equal. */
static void draw(int each)
{
    float still[S * W];

    kvr_normal(values, CHUNKS * N, 5, KVR_RNG_TEST, 2, 0, 0);
    kvr_normal(queries, CHUNKS * N, 5, KVR_RNG_TEST, 3, 0, 0);
    for (int f = 0; f < FRAMES; f++) {
        if (f % each == 0)
            kvr_normal(still, S * W, 5, KVR_RNG_TEST, 1, (uint32_t)f, 0);
        for (int i = 0; i < S * W; i++)
            keys[f * S * W + i] = i % D < 2 * TIME ? 0 : still[i];
    }
}

/* Per head: the number of stored tokens, and the sum of their multiplicities. */
struct count {
    int64_t stored[H], meant[H];
};

static enum kvr_status count(void *ctx, const struct kvr_cache_view *view)
{
    struct count *n = ctx;

    memset(n, 0, sizeof *n);
    for (int i = 0; i < view->past->n; i++)
        for (int h = 0; h < H; h++) {
            const struct kvr_segment *s = &view->past->seg[i];

            if (kvr_segment_has_head(s, h)) {
                n->stored[h] += s->n_tok;
                n->meant[h] += s->n_tok * (s->weight ? s->weight : 1);
            }
        }
    return KVR_OK;
}

/* The fused path on a device multiplies in BF16. All other paths multiply in F32. */
static bool in_bf16(enum kvr_path path, enum kvr_backend backend)
{
    return path == KVR_PATH_FUSED && backend == KVR_CUDA;
}

static void rollout(const char *spec, const char *near, const char *radius, enum kvr_path path,
                    enum kvr_backend backend, enum kvr_attend_as as, float *out, struct count *n)
{
    const bool bf16 = in_bf16(path, backend);
    const struct kvr_setting set[] = { { "near", near },
                                       { "radius", radius },
                                       { "type", bf16 ? "bf16" : "f32" } };
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = F,
                                           .capacity_frames = FRAMES,
                                           .exact = bf16 ? KVR_BF16 : KVR_F32,
                                           .attend = as };
    struct kvr_buf buf = { 0 };
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_dev *dev;
    float *x;

    ck_assert_int_eq(kvr_dev_open(&dev, backend), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&scheme, spec, set, near ? 3 : 0) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, path) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_buf_alloc(&buf, dev, KVR_MEM_ACT, 4 * N * sizeof *x), KVR_OK);
    x = buf.p;
    if (n)
        kvr_cache_observe(cache, count, n);
    for (int c = 0; c < CHUNKS; c++) {
        const struct kvr_pass pass = {
            .chunk = c, .frame0 = c * F, .n_frames = F, .index = 0, .clean = true
        };

        ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, x, keys + c * N, N * sizeof *x), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, x + N, values + c * N, N * sizeof *x), KVR_OK);
        ck_assert_int_eq(kvr_dev_put(dev, x + 2 * N, queries + c * N, N * sizeof *x), KVR_OK);
        ck_assert_int_eq(kvr_cache_append(cache, 0, x, x + N), KVR_OK);
        ck_assert_msg(kvr_cache_attend(cache, 0, x + 2 * N, x + 3 * N) == KVR_OK, "%s",
                      kvr_error());
        ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
        ck_assert_int_eq(kvr_dev_sync(dev), KVR_OK);
        ck_assert_int_eq(kvr_dev_get(dev, out + c * N, x + 3 * N, N * sizeof *x), KVR_OK);
    }
    kvr_buf_free(&buf);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dev_close(&dev);
}

static float want[CHUNKS * N], got[CHUNKS * N];

/* Every four consecutive frames have equal keys. The cache merges equal keys into one token with a
 * multiplicity, and its outputs equal those of a cache of all tokens. Cases: staged and fused path,
 * CPU and device, and INT8 attention, which reads unquantized keys as floats. */
START_TEST(equal_keys_are_merged)
{
    static const struct {
        enum kvr_path path;
        enum kvr_backend backend;
        enum kvr_attend_as as;
    } how[] = { { KVR_PATH_STAGED, KVR_CPU, KVR_ATTEND_FLOAT },
                { KVR_PATH_FUSED, KVR_CPU, KVR_ATTEND_FLOAT },
                { KVR_PATH_FUSED, KVR_CPU, KVR_ATTEND_INT8 },
                { KVR_PATH_STAGED, KVR_CUDA, KVR_ATTEND_FLOAT },
                { KVR_PATH_FUSED, KVR_CUDA, KVR_ATTEND_FLOAT } };
    const bool bf16 = in_bf16(how[_i].path, how[_i].backend);
    /* F32 sums in another order differ by 1e-5 for values of a few units. A mean value rounded
     * to BF16 has a relative error of up to 2^-8. */
    const double allowed = bf16 ? 0.03 : 1e-5;
    struct count n;

    draw(4);
    rollout(bf16 ? "BF16" : "F32", NULL, NULL, how[_i].path, how[_i].backend, how[_i].as, want,
            NULL);
    rollout("TEMPCACHE_LIKE", "0.99", "0", how[_i].path, how[_i].backend, how[_i].as, got, &n);
    /* Before the last chunk, 9 frames with 3 distinct sets of keys are stored. */
    for (int h = 0; h < H; h++) {
        ck_assert_int_eq(n.stored[h], 3 * S);
        ck_assert_int_eq(n.meant[h], 9 * S);
    }
    ck_assert_msg(worst(got, want, CHUNKS * N) <= allowed, "off by %g",
                  worst(got, want, CHUNKS * N));
}
END_TEST

/* With near=1.5 no two tokens are similar enough. All tokens stay, and the outputs are
 * bit-identical. */
START_TEST(a_high_threshold_merges_nothing)
{
    struct count n;

    draw(1);
    rollout("F32", NULL, NULL, KVR_PATH_STAGED, KVR_CPU, KVR_ATTEND_FLOAT, want, NULL);
    rollout("TEMPCACHE_LIKE", "1.5", "1", KVR_PATH_STAGED, KVR_CPU, KVR_ATTEND_FLOAT, got, &n);
    ck_assert(!memcmp(got, want, sizeof got));
    ck_assert_int_eq(n.stored[0], 9 * S);
}
END_TEST

/* Keys of a repeated frame are merged although RoPE rotated them to another time. If the content
 * moves by one column per frame, keys are merged only with radius 1. */
START_TEST(rotated_positions)
{
    for (int moves = 0; moves < 2; moves++) {
        struct count n;

        draw(1);
        for (int f = 0; f < FRAMES; f++)
            for (int s = 0; s < S; s++)
                for (int h = 0; h < H; h++) {
                    const int row = s / 3, col = s % 3;
                    const int from = moves ? row * 3 + (col + 3 * FRAMES - f) % 3 : s;
                    double co[D / 2], si[D / 2];
                    float raw[D];

                    kvr_normal(raw, D, 5, KVR_RNG_TEST, 7, (uint32_t)(from * H + h), 0);
                    kvr_rope_angles(D, f, row, col, co, si);
                    kvr_rope_rotate(raw, D, co, si, false, keys + (f * S + s) * W + h * D);
                }
        rollout("TEMPCACHE_LIKE", "0.999", "0", KVR_PATH_STAGED, KVR_CPU, KVR_ATTEND_FLOAT, got,
                &n);
        ck_assert_int_eq(n.stored[0], moves ? 9 * S : S);
        rollout("TEMPCACHE_LIKE", "0.999", "1", KVR_PATH_STAGED, KVR_CPU, KVR_ATTEND_FLOAT, got,
                &n);
        ck_assert_int_eq(n.meant[0], 9 * S);
        /* With moving content, each of the 8 later frames has one new column, of 2 tokens. */
        ck_assert_int_eq(n.stored[0], moves ? S + 8 * 2 : S);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("merge");
    TCase *tc = tcase_create("merge");

    suite_add_tcase(s, tc);
    tcase_add_loop_test(tc, equal_keys_are_merged, 0, 5);
    tcase_add_test(tc, a_high_threshold_merges_nothing);
    tcase_add_test(tc, rotated_positions);
    return run_suite(s);
}
