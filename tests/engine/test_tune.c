/* test_tune.c - the file of measured kernel choices, and the tuning of matrix products with a
 * stand-in for cuBLASLt. */
#include "harness/engine/tune.h"

#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/rng.h"
#include "harness/engine/gemm.h"
#include "tests/built.h"
#include "tests/suite.h"

static char dir[64], path[128], fake[4096];

static void set_up(void)
{
    snprintf(dir, sizeof dir, "/tmp/kvreel-tune-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/below/file.txt", dir);
    setenv("XDG_CACHE_HOME", dir, 1);
    setenv("KVREEL_CUBLASLT", built_file("tests/plugins/fake_blaslt.so", fake, sizeof fake), 1);
    unsetenv("KVR_TEST_BLASLT");
}

static void tear_down(void)
{
    char command[160];

    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static struct kvr_tune *opened(const char *machine)
{
    struct kvr_tune *t;

    ck_assert_msg(kvr_tune_open(&t, path, machine) == KVR_OK, "%s", kvr_error());
    return t;
}

static void fill_file(void)
{
    struct kvr_tune *t = opened("a card; driver 1; library 2");

    ck_assert_int_eq(kvr_tune_keep(t, "4x5x6 bf16", 3, 1.5), KVR_OK);
    ck_assert_int_eq(kvr_tune_keep(t, "7x8x9 bf16", KVR_TUNE_OWN, 0), KVR_OK);
    /* A later line for the same product, as another process may append it, replaces the first
     * choice. */
    ck_assert_int_eq(kvr_tune_keep(t, "4x5x6 bf16", 2, 1.25), KVR_OK);
    kvr_tune_close(&t);
}

START_TEST(kept)
{
    struct kvr_tune *t;
    int choice;

    fill_file();
    t = opened("a card; driver 1; library 2");
    ck_assert(kvr_tune_find(t, "4x5x6 bf16", &choice) && choice == 2);
    ck_assert(kvr_tune_find(t, "7x8x9 bf16", &choice) && choice == KVR_TUNE_OWN);
    ck_assert(!kvr_tune_find(t, "7x8x9", &choice));
    ck_assert_ptr_nonnull(
        strstr(kvr_tune_words(t), "below/file.txt: 3 matrix products known, 0 measured"));
    ck_assert_ptr_null(strstr(kvr_tune_words(t), "again"));
    kvr_tune_close(&t);
}
END_TEST

/* Texts of damaged files, and text that kvr_tune_words() must then contain. */
static const struct {
    const char *text;
    bool whole; /* true: the text is the whole file; false: it is appended to a valid file */
    const char *message;
} damaged[] = {
    { "4x5x6 bf16 = 3\n", false, "line 5 of the file is damaged: measured again" },
    { "4x5x6 bf16 = x 1.0\n", false, "line 5 of the file is damaged" },
    { "4x5x6 bf16 = 64 1.0\n", false, "line 5 of the file is damaged" },
    { "4x5x6 bf16 = -2 1.0\n", false, "line 5 of the file is damaged" },
    { "4x5x6 bf16 = 3 nan\n", false, "line 5 of the file is damaged" },
    { "4x5x6 bf16 = 3 1.0 1\n", false, "line 5 of the file is damaged" },
    { " = 3 1.0\n", false, "line 5 of the file is damaged" },
    /* the line lacks its newline */
    { "4x5x6 bf16 = 3 1.0", false, "line 5 of the file is damaged" },
    { "\n", false, "line 5 of the file is damaged" },
    { "", true, "line 1 of the file names another GPU" },
    { "kvreel autotune 1; a card\n", true, "line 1 of the file names another GPU" },
};

START_TEST(measured_again)
{
    struct kvr_tune *t;
    int choice;
    FILE *f;

    fill_file();
    f = fopen(path, damaged[_i].whole ? "w" : "a");
    fputs(damaged[_i].text, f);
    fclose(f);
    t = opened("a card; driver 1; library 2");
    ck_assert_msg(strstr(kvr_tune_words(t), damaged[_i].message) != NULL, "%s", kvr_tune_words(t));
    ck_assert(!kvr_tune_find(t, "7x8x9 bf16", &choice));
    ck_assert_int_eq(kvr_tune_keep(t, "7x8x9 bf16", 1, 2), KVR_OK);
    kvr_tune_close(&t);
    t = opened("a card; driver 1; library 2"); /* the new choice has replaced the whole file */
    ck_assert(kvr_tune_find(t, "7x8x9 bf16", &choice) && choice == 1);
    ck_assert(!kvr_tune_find(t, "4x5x6 bf16", &choice));
    ck_assert_ptr_nonnull(strstr(kvr_tune_words(t), ": 1 matrix products known, 0 measured"));
    kvr_tune_close(&t);
}
END_TEST

/* A file of another GPU, driver or library is not used. */
START_TEST(foreign)
{
    struct kvr_tune *t;
    int choice;

    fill_file();
    t = opened("a card; driver 1; library 3");
    ck_assert(!kvr_tune_find(t, "7x8x9 bf16", &choice));
    ck_assert_ptr_nonnull(
        strstr(kvr_tune_words(t), "line 1 of the file names another GPU, driver, cuBLASLt"));
    kvr_tune_close(&t);
}
END_TEST

/* If the cache folder cannot be created, that is no error: choices are kept in memory only. */
START_TEST(nowhere)
{
    struct kvr_tune *t;
    int choice;

    ck_assert_int_eq(kvr_tune_open(&t, "/dev/null/file.txt", "a card"), KVR_OK);
    ck_assert_int_eq(kvr_tune_keep(t, "4x5x6 bf16", 3, 1.5), KVR_OK);
    ck_assert(kvr_tune_find(t, "4x5x6 bf16", &choice) && choice == 3);
    kvr_tune_close(&t);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    ck_assert_int_eq(kvr_tune_open(&t, NULL, "a card"), KVR_OK);
    ck_assert_int_eq(kvr_tune_keep(t, "4x5x6 bf16", 3, 1.5), KVR_OK);
    ck_assert_str_eq(kvr_tune_words(t), "no cache folder: 0 matrix products known, 1 measured");
    kvr_tune_close(&t);
}
END_TEST

/* ---- products ------------------------------------------------------------------------------- */

enum { M = 6, N = 16, K = 32 };

/* Returns how often the stand-in has run each of the three algorithms that it proposes. */
static const long *counts(void)
{
    void *library = dlopen(fake, RTLD_NOW);

    return dlsym(library, "kvr_test_products");
}

struct rig {
    struct kvr_dev *dev;
    struct kvr_gemm *g;
    struct kvr_linear *l;
    struct kvr_buf x, y;
    float w[N * K], b[N];
    kvr_bf16 in[M * K];
};

static void rig_open(struct rig *r, bool tuned)
{
    float x[M * K];

    *r = (struct rig){ 0 };
    kvr_uniform(r->w, N * K, 1, KVR_RNG_SYNTHETIC, 1, 0, 0);
    kvr_uniform(r->b, N, 1, KVR_RNG_SYNTHETIC, 2, 0, 0);
    kvr_uniform(x, M * K, 1, KVR_RNG_SYNTHETIC, 3, 0, 0);
    kvr_from_f32(r->in, KVR_BF16, x, M * K);
    ck_assert_int_eq(kvr_dev_open(&r->dev, KVR_CUDA), KVR_OK);
    ck_assert_int_eq(kvr_gemm_open_as(&r->g, r->dev, KVR_BF16), KVR_OK);
    ck_assert_str_eq(kvr_gemm_library(r->g), "cuBLASLt stand-in");
    if (tuned)
        ck_assert_msg(kvr_gemm_tune(r->g) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_linear_open(&r->l, r->g, N, K, r->w, r->b), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&r->x, r->dev, KVR_MEM_ACT, sizeof r->in), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(r->dev, r->x.p, r->in, sizeof r->in), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&r->y, r->dev, KVR_MEM_ACT, M * N * sizeof(kvr_bf16)), KVR_OK);
}

static void rig_close(struct rig *r)
{
    kvr_linear_close(&r->l);
    kvr_gemm_close(&r->g);
    kvr_buf_free(&r->x);
    kvr_buf_free(&r->y);
    kvr_dev_close(&r->dev);
}

/* Runs the layer and checks its result: a sum of 32 products in F32, rounded to BF16 once. */
static void run_once(struct rig *r)
{
    const struct kvr_linear *l = r->l;
    kvr_bf16 *const y = r->y.p;
    kvr_bf16 got[M * N];

    ck_assert_msg(kvr_linear_run_narrow(r->g, M, (struct kvr_linear_in){ r->x.p, K }, 1, &l,
                                        KVR_LINEAR_ROUNDED, &y) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_sync(r->dev), KVR_OK);
    ck_assert_int_eq(kvr_dev_get(r->dev, got, r->y.p, sizeof got), KVR_OK);
    for (int i = 0; i < M * N; i++) {
        double want = (double)kvr_bf16_to_f32(kvr_f32_to_bf16(r->b[i % N])), is;

        for (int k = 0; k < K; k++)
            want += (double)kvr_bf16_to_f32(r->in[i / N * K + k]) *
                    (double)kvr_bf16_to_f32(kvr_f32_to_bf16(r->w[i % N * K + k]));
        is = (double)kvr_bf16_to_f32(got[i]);
        ck_assert_msg(fabs(want - is) <= 0x1p-8 * fabs(want) + 1e-5, "[%d] %g, want %g", i, is,
                      want);
    }
}

/* does: fault of the stand-in. untuned, tuned: index of the stand-in's proposal that must run
 * without and with tuning; -1: kvreel's kernel must run. */
static const struct {
    const char *does;
    int untuned, tuned;
} cards[] = { { NULL, 0, 1 }, { "slow", 0, -1 }, { "fails", 0, 2 }, { "refuses", -1, -1 } };

START_TEST(the_fastest)
{
    const bool fails = cards[_i].does && strcmp(cards[_i].does, "fails") == 0;
    long before[3];
    struct rig r;

    if (cards[_i].does)
        setenv("KVR_TEST_BLASLT", cards[_i].does, 1);
    /* kvreel's emulated kernel takes about 5 ms, or 30 ms with sanitizers. That is longer than the
     * second proposal, but shorter than the 200 ms of a slow stand-in. If the first two proposals
     * fail, tuning may choose the third or kvreel's kernel. */
    for (int tuned = 0; tuned < 2; tuned++) {
        const int by = tuned ? cards[_i].tuned : cards[_i].untuned;
        const long *now = counts();

        rig_open(&r, tuned);
        ck_assert_msg(kvr_linear_prepare_end(r.l, M, KVR_LINEAR_ROUNDED) == KVR_OK, "%s",
                      kvr_error());
        memcpy(before, now, sizeof before);
        if (fails && !tuned) {
            rig_close(&r);
            continue; /* without tuning, the first proposal would run and fail */
        }
        run_once(&r);
        for (int i = 0; i < 3; i++)
            if (fails)
                ck_assert_int_eq(i < 2 ? now[i] - before[i] : 0, 0);
            else
                ck_assert_msg(now[i] - before[i] == (i == by), "%s: proposal %d ran %ld times",
                              tuned ? "tuned" : "untuned", i, now[i] - before[i]);
        rig_close(&r);
    }
}
END_TEST

/* A second process measures nothing and uses the first one's choices. */
START_TEST(known_from_the_file)
{
    const long *now = counts();
    long before[3];
    struct rig r;

    rig_open(&r, true);
    ck_assert_int_eq(kvr_linear_prepare_end(r.l, M, KVR_LINEAR_ROUNDED), KVR_OK);
    ck_assert_ptr_nonnull(strstr(kvr_gemm_tuned(r.g), ": 0 matrix products known, 1 measured"));
    rig_close(&r);
    memcpy(before, now, sizeof before);
    rig_open(&r, true);
    ck_assert_int_eq(kvr_linear_prepare_end(r.l, M, KVR_LINEAR_ROUNDED), KVR_OK);
    ck_assert_ptr_nonnull(strstr(kvr_gemm_tuned(r.g), ": 1 matrix products known, 0 measured"));
    ck_assert(memcmp(before, now, sizeof before) == 0);
    run_once(&r);
    ck_assert_int_eq(now[1] - before[1], 1);
    rig_close(&r);
}
END_TEST

/* Products in F32, or without cuBLASLt, are not tuned: nothing is reported, and no file is
 * written. */
START_TEST(nothing_to_tune)
{
    struct kvr_dev *dev;
    struct kvr_gemm *g;

    for (int half = 0; half < 2; half++) {
        setenv("KVREEL_CUBLASLT", half ? "none" : fake, 1);
        ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
        ck_assert_int_eq(kvr_gemm_open_as(&g, dev, half ? KVR_BF16 : KVR_F32), KVR_OK);
        ck_assert_int_eq(kvr_gemm_tune(g), KVR_OK);
        ck_assert_str_eq(kvr_gemm_tuned(g), "");
        kvr_gemm_close(&g);
        kvr_dev_close(&dev);
    }
    snprintf(path, sizeof path, "%s/kvreel", dir);
    ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

/* On capability 9.0 tuning compares one fused launch with a matrix product and a separate pass. The
 * layer then follows the choice in the file. */
START_TEST(one_launch_or_two)
{
    const struct kvr_linear_gate gate = { .tokens_per_frame = 1 };
    const struct kvr_linear_fused how = { .in = { .columns = K },
                                          .end = KVR_LINEAR_ADDED,
                                          .gate = &gate };
    struct kvr_linear_fused with = how;
    char command[256];
    bool left, done;
    kvr_bf16 *sum;
    struct rig r;

    setenv("KVREEL_EMULATED_CAPABILITY", "9.0", 1);
    rig_open(&r, true);
    ck_assert(kvr_gemm_fuses(r.g));
    ck_assert_msg(kvr_linear_prepare_end(r.l, M, KVR_LINEAR_ADDED) == KVR_OK, "%s", kvr_error());
    ck_assert_ptr_nonnull(strstr(kvr_gemm_tuned(r.g), ": 0 matrix products known, 2 measured"));
    rig_close(&r);
    snprintf(command, sizeof command,
             "sed -i 's/ added apart = [01] / added apart = %d /' %s/kvreel/autotune-*.txt && "
             "grep -q ' added apart = %d ' %s/kvreel/autotune-*.txt",
             _i, dir, _i, dir);
    ck_assert_int_eq(system(command), 0);
    rig_open(&r, true);
    ck_assert_int_eq(kvr_linear_prepare_end(r.l, M, KVR_LINEAR_ADDED), KVR_OK);
    ck_assert_ptr_nonnull(strstr(kvr_gemm_tuned(r.g), ": 2 matrix products known, 0 measured"));
    with.in.x = r.x.p;
    sum = r.y.p;
    kvr_dev_zero(r.dev, sum, r.y.n_bytes);
    ck_assert_int_eq(kvr_linear_run_fused(r.g, M, &with, 1,
                                          (const struct kvr_linear *const[]){ r.l }, &sum, &done),
                     KVR_OK);
    ck_assert_int_eq(done, _i == 0);
    if (!done) /* one launch was not chosen: run the layer as two launches */
        ck_assert_int_eq(kvr_linear_run_added(r.g, M, with.in, r.l, &gate, sum, r.y.p, &left),
                         KVR_OK);
    ck_assert_int_eq(kvr_dev_sync(r.dev), KVR_OK);
    rig_close(&r);
    unsetenv("KVREEL_EMULATED_CAPABILITY");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tune");
    TCase *tc = tcase_create("tune");

    tcase_set_timeout(tc, 0);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, kept);
    tcase_add_loop_test(tc, measured_again, 0, sizeof damaged / sizeof *damaged);
    tcase_add_test(tc, foreign);
    tcase_add_test(tc, nowhere);
    tcase_add_loop_test(tc, the_fastest, 0, sizeof cards / sizeof *cards);
    tcase_add_test(tc, known_from_the_file);
    tcase_add_test(tc, nothing_to_tune);
    tcase_add_loop_test(tc, one_launch_or_two, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
