/* test_threads.c - 1, 2 and 3 threads give the same bytes in every operation, in the linear layer
 * and in a whole rollout. Sizes are large enough to be divided among threads. */
#include <check.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/engine/gemm.h"
#include "harness/engine/ops.h"
#include "harness/engine/sampler.h"
#include "tests/tiny_model.h"
#include "tests/suite.h"
#include "tests/threads.h"

enum { MAX_TEAM = 3 };

/* Numbers of rows and columns that neither the vector width nor the number of threads divides. The
 * operations are large enough to use several threads. */
static const struct kvr_rows rows = { 409, 203, 100 };
enum { N = 409 * 203, HEADS = 7, HEAD_DIM = 29, KEYS = 21 };

static float *fresh(int64_t n, uint32_t stream)
{
    float *x = malloc((size_t)n * sizeof *x);

    ck_assert_ptr_nonnull(x);
    kvr_normal(x, (size_t)n, 9, KVR_RNG_TEST, stream, 0, 0);
    return x;
}

static const float *vectors; /* modulation vectors [6 * 5 frames, d] */
static struct kvr_cross cross;
static double angles[2][N];

static void op_modulate(float *x)
{
    kvr_ops_cpu()->norm_modulate(NULL, &rows, x, vectors, vectors + rows.d, 6 * rows.d, 1e-6, x);
}

static void op_affine(float *x)
{
    kvr_ops_cpu()->norm_affine(NULL, &rows, x, vectors, vectors + rows.d, 1e-6, x);
}

static void op_rms(float *x)
{
    kvr_ops_cpu()->rms_norm(NULL, &rows, vectors, 1e-6, x);
}

static void op_rope(float *x)
{
    const struct kvr_rows even = { rows.n, 202, 1 };

    kvr_ops_cpu()->rope(NULL, &even, 202, angles[0], angles[1], x);
}

static void op_add(float *x)
{
    kvr_ops_cpu()->add(NULL, &rows, x, vectors, 6 * rows.d, x);
}

static void op_gelu(float *x)
{
    kvr_ops_cpu()->gelu(NULL, N, x);
}

static void op_silu(float *x)
{
    kvr_ops_cpu()->silu(NULL, N, x, x);
}

static void op_cross(float *x)
{
    float *q = fresh(N, 1);

    kvr_ops_cpu()->cross_attend(NULL, &rows, &cross, NULL, q, x);
    free(q);
}

static const struct {
    const char *name;
    void (*run)(float *x);
} table[] = { { "norm_modulate", op_modulate },
              { "norm_affine", op_affine },
              { "rms_norm", op_rms },
              { "rope", op_rope },
              { "add", op_add },
              { "gelu", op_gelu },
              { "silu", op_silu },
              { "cross_attend", op_cross } };
enum { N_OPS = sizeof table / sizeof *table };

START_TEST(operations)
{
    const int before = omp_get_max_threads();
    float *vec = fresh(6 * 5 * rows.d, 2), *first = NULL;
    float *k = fresh((int64_t)KEYS * rows.d, 3), *v = fresh((int64_t)KEYS * rows.d, 4);

    vectors = vec;
    for (int i = 0; i < N; i++) {
        angles[0][i] = 0.6;
        angles[1][i] = 0.8;
    }
    cross = (struct kvr_cross){ KEYS, HEADS, HEAD_DIM, NULL, NULL, KVR_F32 };
    cross.k = fresh(kvr_cross_k_floats(KEYS, HEADS, HEAD_DIM), 5);
    cross.v = fresh(kvr_cross_v_floats(KEYS, HEADS, HEAD_DIM), 6);
    kvr_ops_cpu()->cross_pack(NULL, &cross, k, v);
    for (int team = 1; team <= MAX_TEAM; team++) {
        float *x = fresh(N, 1);

        set_threads(team);
        table[_i].run(x);
        if (team == 1) {
            first = x;
            continue;
        }
        ck_assert_msg(memcmp(first, x, N * sizeof *x) == 0, "%s with %d threads", table[_i].name,
                      team);
        free(x);
    }
    omp_set_num_threads(before);
    free(first);
    free(vec);
    free(k);
    free(v);
    free(cross.k);
    free(cross.v);
}
END_TEST

struct linear_case {
    int64_t m;
    int n, k;
};
static const struct linear_case linear_cases[] = {
    { 1, 700, 40 }, { 108, 192, 192 }, { 205, 401, 77 }, { 130, 768, 192 }
};
enum { N_LINEAR = sizeof linear_cases / sizeof *linear_cases };

/* The number of threads may differ between opening a layer and running it. A layer packed by any
 * number of threads gives the same result. */
START_TEST(linear_layers)
{
    const struct linear_case *c = &linear_cases[_i];
    const int before = omp_get_max_threads();
    const size_t bytes = (size_t)(c->m * c->n) * sizeof(float);
    float *x = fresh(c->m * c->k, 1), *w = fresh((int64_t)c->n * c->k, 2), *b = fresh(c->n, 3);
    float *first = fresh(c->m * c->n, 4), *y = fresh(c->m * c->n, 5), *z = fresh(c->m * c->n, 6);
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    for (int packed = 1; packed <= MAX_TEAM; packed++) {
        struct kvr_gemm *g;
        struct kvr_linear *l;

        set_threads(packed);
        ck_assert_int_eq(kvr_gemm_open(&g, dev), KVR_OK);
        ck_assert_int_eq(kvr_linear_open(&l, g, c->n, c->k, w, b), KVR_OK);
        for (int team = 1; team <= MAX_TEAM; team++) {
            const struct kvr_linear *const two[2] = { l, l };
            float *const to[2] = { y, z };

            set_threads(team);
            ck_assert_int_eq(kvr_linear_run(g, c->m, x, 2, two, to), KVR_OK);
            ck_assert_int_eq(omp_get_max_threads(), team); /* unchanged */
            ck_assert(memcmp(y, z, bytes) == 0);
            if (packed == 1 && team == 1)
                memcpy(first, y, bytes);
            ck_assert_msg(memcmp(first, y, bytes) == 0, "%d threads, packed with %d", team, packed);
        }
        kvr_linear_close(&l);
        kvr_gemm_close(&g);
    }
    kvr_dev_close(&dev);
    omp_set_num_threads(before);
    free(x);
    free(w);
    free(b);
    free(first);
    free(y);
    free(z);
}
END_TEST

/* 90 tokens of width 800 per chunk are enough for every operation to use several threads. */
static const struct tiny_size size = { .dim = 800,
                                       .ffn = 500,
                                       .freq = 32,
                                       .text_dim = 10,
                                       .text_len = 5,
                                       .channels = 3,
                                       .heads = 10,
                                       .layers = 1,
                                       .patch_h = 2,
                                       .patch_w = 2,
                                       .height = 12,
                                       .width = 10,
                                       .frames = 3 };
enum { FRAMES = 6, LATENTS = FRAMES * 3 * 12 * 10 };

static void rollout(const char *dir, const char *method, int team, float latents[LATENTS])
{
    struct kvr_cache_shape shape = { .n_layers = 1,
                                     .n_heads = 10,
                                     .head_dim = 80,
                                     .tokens_per_frame = 30,
                                     .frames_per_chunk = 3,
                                     .capacity_frames = FRAMES,
                                     .exact = KVR_BF16 };
    float P[5 * 10];
    uint64_t seed = 4;
    struct kvr_dev *dev;
    struct kvr_model *m;
    struct kvr_dit *d;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;

    set_threads(team);
    kvr_normal(P, 5 * 10, 3, KVR_RNG_TEST, 0, 0, 0);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_model_open(&m, dev, dir) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_dit_open(&d, dev, m) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_scheme_open(&scheme, method, NULL, 0) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_msg(kvr_dit_set_prompt(d, P) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_sample(d, cache, FRAMES, kvr_noise_philox, &seed, NULL, latents) == KVR_OK,
                  "%s", kvr_error());
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_dit_close(&d);
    kvr_model_close(&m);
    kvr_dev_close(&dev);
}

static const char *const methods[] = { "BF16", "RTN_INT4" };

START_TEST(rollouts)
{
    static float first[LATENTS], x[LATENTS];
    const int before = omp_get_max_threads();
    char dir[64];

    tiny_model_make(dir, &size, NULL);
    rollout(dir, methods[_i], 1, first);
    for (int team = 2; team <= MAX_TEAM; team++) {
        rollout(dir, methods[_i], team, x);
        ck_assert_msg(memcmp(first, x, sizeof x) == 0, "%s with %d threads", methods[_i], team);
    }
    omp_set_num_threads(before);
    tiny_model_remove(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("threads");
    TCase *tc = tcase_create("same bytes");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, operations, 0, N_OPS);
    tcase_add_loop_test(tc, linear_layers, 0, N_LINEAR);
    tcase_add_loop_test(tc, rollouts, 0, sizeof methods / sizeof *methods);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
