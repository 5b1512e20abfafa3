/* test_salience_head.c - the network that predicts token importance: its output, its weight
 * file, and random weights. */
#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/rng.h"
#include "harness/core/safetensors.h"
#include "methods/kernels/salience_head.h"
#include "methods/policy.h"
#include "tests/suite.h"

/* Three query heads share one KV head. */
enum { HQ = 3, H = 1, D = 4, IN = HQ * D + 2 * H * D, HIDDEN = 5, OUT = 2, N = 7 };

static float w1[HIDDEN * IN], b1[HIDDEN], w2[OUT * HIDDEN], b2[OUT];
static float q[N * HQ * D], k[N * H * D], v[N * H * D];
static char path[32];

static struct kvr_st_item item(const char *name, float *x, int64_t rows, int64_t columns)
{
    struct kvr_st_item i = { .name = name, .t = { .dtype = KVR_F32, .data = x } };

    i.t.n_dims = columns ? 2 : 1;
    i.t.shape[0] = rows;
    if (columns)
        i.t.shape[1] = columns;
    return i;
}

static void make_file(int64_t inputs, int64_t bias)
{
    const struct kvr_st_item items[] = {
        item("fc1.weight", w1, HIDDEN, inputs),
        item("fc1.bias", b1, bias, 0),
        item("fc2.weight", w2, OUT, HIDDEN),
        item("fc2.bias", b2, OUT, 0),
    };

    ck_assert_msg(kvr_st_write(path, items, 4, NULL) == KVR_OK, "%s", kvr_error());
}

static void setup(void)
{
    int fd;

    strcpy(path, "/tmp/kvr_salience_XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    kvr_normal(w1, HIDDEN * IN, 1, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(b1, HIDDEN, 1, KVR_RNG_TEST, 2, 0, 0);
    kvr_normal(w2, OUT * HIDDEN, 1, KVR_RNG_TEST, 3, 0, 0);
    kvr_normal(b2, OUT, 1, KVR_RNG_TEST, 4, 0, 0);
    kvr_normal(q, N * HQ * D, 1, KVR_RNG_TEST, 5, 0, 0);
    kvr_normal(k, N * H * D, 1, KVR_RNG_TEST, 6, 0, 0);
    kvr_normal(v, N * H * D, 1, KVR_RNG_TEST, 7, 0, 0);
}

static void teardown(void)
{
    unlink(path);
}

static double slow(int t)
{
    double x[IN], z[HIDDEN], sum = 0;

    for (int i = 0; i < HQ * D; i++)
        x[i] = q[t * HQ * D + i];
    for (int i = 0; i < D; i++) {
        x[HQ * D + i] = k[t * D + i];
        x[HQ * D + D + i] = v[t * D + i];
    }
    for (int j = 0; j < HIDDEN; j++) {
        z[j] = b1[j];
        for (int i = 0; i < IN; i++)
            z[j] += (double)w1[j * IN + i] * x[i];
        z[j] *= 1 / (1 + exp(-z[j]));
    }
    for (int o = 0; o < OUT; o++) {
        sum += b2[o];
        for (int j = 0; j < HIDDEN; j++)
            sum += (double)w2[o * HIDDEN + j] * z[j];
    }
    return sum / OUT;
}

/* A hidden unit is an F32 sum of 20 terms of about 1. If partial sums reach 5, the rounding error
 * is at most 20 * 2^-24 * 5 = 6e-6. An output adds 5 hidden units, so the limit is 3e-5. */
START_TEST(it_is_its_formula)
{
    struct kvr_salience_head *head;
    float got[N], alone[N];

    make_file(IN, HIDDEN);
    ck_assert_msg(kvr_salience_head_open(&head, path, HQ, H, D, 0) == KVR_OK, "%s", kvr_error());
    kvr_salience_head_score(head, q, k, v, N, got);
    for (int t = 0; t < N; t++)
        ck_assert_msg(fabs(got[t] - slow(t)) <= 3e-5, "%d: %g, %g", t, (double)got[t], slow(t));
    ck_assert(!(fabs(got[0] - slow(1)) <= 3e-5));
    kvr_salience_head_close(&head);
    omp_set_num_threads(1);
    ck_assert_int_eq(kvr_salience_head_open(&head, path, HQ, H, D, 0), KVR_OK);
    kvr_salience_head_score(head, q, k, v, N, alone);
    ck_assert(!memcmp(got, alone, sizeof got));
    kvr_salience_head_close(&head);
}
END_TEST

START_TEST(other_files_are_refused)
{
    struct kvr_salience_head *head = NULL;
    FILE *f;

    ck_assert_int_eq(kvr_salience_head_open(&head, "/nowhere/head.safetensors", HQ, H, D, 0),
                     KVR_ENOTFOUND);
    ck_assert(strstr(kvr_error(), "/nowhere/head.safetensors"));
    make_file(IN, HIDDEN);
    ck_assert(kvr_salience_head_open(&head, path, HQ, H, D + 1, 0) != KVR_OK);
    ck_assert_msg(strstr(kvr_error(), "fc1.weight") && strstr(kvr_error(), "20"), "%s",
                  kvr_error());
    make_file(IN, HIDDEN - 1);
    ck_assert(kvr_salience_head_open(&head, path, HQ, H, D, 0) != KVR_OK);
    ck_assert(strstr(kvr_error(), "fc1.bias"));
    w1[3] = NAN;
    make_file(IN, HIDDEN);
    ck_assert_int_eq(kvr_salience_head_open(&head, path, HQ, H, D, 0), KVR_ENAN);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("no tensors", f);
    fclose(f);
    ck_assert(kvr_salience_head_open(&head, path, HQ, H, D, 0) != KVR_OK);
    ck_assert_ptr_null(head);
}
END_TEST

/* With "auto", the bundled model's shape uses weights that are built into the program. Other
 * shapes use weights drawn from the seed. */
START_TEST(whose_weights)
{
    static float big[2 * 3 * 64], a[2], b[2];
    struct kvr_salience_head *head;

    ck_assert(!kvr_salience_head_drawn("auto", 3, 3, 64) &&
              kvr_salience_head_drawn("auto", 9, 3, 64));
    ck_assert(kvr_salience_head_drawn("drawn", 3, 3, 64) &&
              !kvr_salience_head_drawn(path, 12, 12, 128));
    kvr_normal(big, 2 * 3 * 64, 1, KVR_RNG_TEST, 8, 0, 0);
    for (int seed = 0; seed < 2; seed++) {
        ck_assert_msg(kvr_salience_head_open(&head, "auto", 3, 3, 64, seed) == KVR_OK, "%s",
                      kvr_error());
        kvr_salience_head_score(head, big, big, big, 2, seed ? b : a);
        kvr_salience_head_close(&head);
    }
    ck_assert(a[0] != a[1] && !memcmp(a, b, sizeof a));
    for (int seed = 0; seed < 2; seed++) {
        ck_assert_int_eq(kvr_salience_head_open(&head, "auto", 2, 2, 16, seed), KVR_OK);
        kvr_salience_head_score(head, big, big, big, 2, seed ? b : a);
        kvr_salience_head_close(&head);
    }
    ck_assert(isfinite(a[0]) && a[0] != a[1] && a[0] != b[0]);
}
END_TEST

/* A warning says that weights are random, or that a score is not causal. */
START_TEST(it_is_said)
{
    struct kvr_retention_use u;

    ck_assert_int_eq(kvr_retention_open(&u, "keep(score=salience)"), KVR_OK);
    ck_assert_ptr_null(kvr_retention_warning(&u, 3, 3, 64));
    ck_assert(strstr(kvr_retention_warning(&u, 12, 12, 128), "by chance"));
    kvr_retention_close(&u);
    ck_assert_int_eq(kvr_retention_open(&u, "keep(score=foretold)"), KVR_OK);
    ck_assert(strstr(kvr_retention_warning(&u, 3, 3, 64), "not causal"));
    kvr_retention_close(&u);
    ck_assert_int_eq(kvr_retention_open(&u, "keep"), KVR_OK);
    ck_assert_ptr_null(kvr_retention_warning(&u, 12, 12, 128));
    kvr_retention_close(&u);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("salience head");
    TCase *tc = tcase_create("salience head");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, it_is_its_formula);
    tcase_add_test(tc, other_files_are_refused);
    tcase_add_test(tc, whose_weights);
    tcase_add_test(tc, it_is_said);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
