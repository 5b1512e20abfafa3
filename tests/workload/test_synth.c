/* test_synth.c - synthetic traces have the requested statistics. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/workload/synth.h"
#include "tests/suite.h"

enum { L = 2, H = 4, KV = 2, D = 16, S = 120, F = 3, FRAMES = 30, PASSES = 3 };

static char folder[64];

static struct kvr_trace_info about(uint64_t seed)
{
    return (struct kvr_trace_info){
        .model = "drawn", .licence = "none", .seed = seed, .layout = { L, H, KV, D, S, F, false }
    };
}

static struct kvr_trace *written(const struct kvr_synth *s, const char *name, uint64_t seed)
{
    const struct kvr_trace_info info = about(seed);
    struct kvr_trace *t;
    char path[128];
    int64_t bytes;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_msg(kvr_synth_write(s, &info, FRAMES, PASSES, path, NULL, NULL, &bytes) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_msg(kvr_trace_open(&t, path) == KVR_OK, "%s", kvr_error());
    return t;
}

/* At rho = 0.9 the effective sample size of the FRAMES x S = 3600 correlated tokens is 3600 (1 -
 * rho) / (1 + rho) = 190. A channel's mean is within 4 / sqrt(190) = 0.29 standard deviations. Its
 * standard deviation is within 4 / sqrt(2 * 190) = 21 %. These are four standard errors, so that no
 * channel of the test exceeds them by chance. Correlations are averaged over all channels and are
 * within 0.05. */
START_TEST(gives_what_was_asked)
{
    struct kvr_synth asked, got;
    struct kvr_trace_report r;
    struct kvr_trace *t;

    ck_assert_int_eq(kvr_synth_outliers(&asked, D, 2, 8, 0.9, 0.3), KVR_OK);
    t = written(&asked, "asked", 5);
    ck_assert_int_eq(kvr_trace_info(t)->n_frames, FRAMES);
    ck_assert_int_eq(kvr_trace_info(t)->most_passes, PASSES);
    ck_assert_msg(kvr_trace_check(t, NULL, NULL, &r) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_synth_measure(&got, t, NULL, NULL), KVR_OK);
    for (int l = 0; l < L; l++)
        for (int side = 0; side < KVR_SYNTH_SIDES; side++)
            for (int h = 0; h < H; h++) {
                const int row = (l * KVR_SYNTH_SIDES + side) * H + h;

                ck_assert_msg(fabsf(got.rho[row] - 0.9f) <= 0.05f, "rho %g", (double)got.rho[row]);
                for (int c = 0; c < D; c++) {
                    const float mean = asked.mean[side * D + c], dev = asked.dev[side * D + c];

                    ck_assert(fabsf(got.mean[row * D + c] - mean) <= 0.29f * dev);
                    ck_assert(fabsf(got.dev[row * D + c] / dev - 1) <= 0.21f);
                }
            }
    ck_assert(asked.mean[4] == 8 && asked.mean[12] == -8 && asked.dev[4] == 2);
    for (int i = 0; i < L * H; i++) /* larger tolerance: outlier channels dominate */
        ck_assert_msg(fabsf(got.toward[i] - 0.3f) <= 0.1f, "toward %g", (double)got.toward[i]);
    for (int i = 0; i < PASSES; i++)
        ck_assert(got.agreement[i] > 0.999f);
    kvr_synth_free(&asked);
    kvr_synth_free(&got);
    kvr_trace_close(&t);
}
END_TEST

/* Measured statistics equal those from which a trace was generated, even if mean and standard
 * deviation differ in every channel. */
START_TEST(gives_on_what_was_measured)
{
    struct kvr_synth first, second;
    struct kvr_trace *t, *u, *v;

    ck_assert_int_eq(kvr_synth_outliers(&first, D, 0, 0, 0.5, 0), KVR_OK);
    t = written(&first, "first", 1);
    kvr_synth_free(&first);
    ck_assert_int_eq(kvr_synth_measure(&first, t, NULL, NULL), KVR_OK);
    ck_assert_int_eq(first.n_passes, PASSES);
    for (int i = 0; i < L * KVR_SYNTH_SIDES * H * D; i++) {
        first.mean[i] += (float)(i % 7) - 3;
        first.dev[i] *= 1 + (float)(i % 5);
    }
    /* query heads that share a KV head have its statistics: use those of the first */
    for (int l = 0; l < L; l++)
        for (int side = 0; side < KVR_SYNTH_Q; side++)
            for (int h = 0; h < H; h++) {
                const int row = (l * KVR_SYNTH_SIDES + side) * H;

                memcpy(first.mean + (row + h) * D, first.mean + (row + h / (H / KV) * (H / KV)) * D,
                       D * sizeof(float));
                memcpy(first.dev + (row + h) * D, first.dev + (row + h / (H / KV) * (H / KV)) * D,
                       D * sizeof(float));
            }
    first.agreement[0] = 0.3f;
    first.agreement[1] = 0.8f;
    u = written(&first, "second", 2);
    ck_assert_int_eq(kvr_synth_measure(&second, u, NULL, NULL), KVR_OK);
    ck_assert(fabsf(second.agreement[0] - 0.3f) <= 0.05f);
    ck_assert(fabsf(second.agreement[1] - 0.8f) <= 0.05f);
    /* at rho = 0.5 the effective sample size is 1200 */
    for (int i = 0; i < L * KVR_SYNTH_SIDES * H * D; i++) {
        ck_assert(fabsf(second.mean[i] - first.mean[i]) <= 0.13f * first.dev[i]);
        ck_assert(fabsf(second.dev[i] / first.dev[i] - 1) <= 0.1f);
    }
    v = written(&first, "again", 2);
    /* the same seed gives the same bytes */
    ck_assert_str_eq(kvr_trace_sha256(u), kvr_trace_sha256(v));
    kvr_synth_free(&first);
    kvr_synth_free(&second);
    kvr_trace_close(&t);
    kvr_trace_close(&u);
    kvr_trace_close(&v);
}
END_TEST

START_TEST(refuses)
{
    const struct kvr_trace_info info = about(1);
    struct kvr_synth s;

    ck_assert_int_eq(kvr_synth_outliers(&s, D, D + 1, 8, 0.9, 0.3), KVR_EINVAL);
    ck_assert_int_eq(kvr_synth_outliers(&s, D, 2, NAN, 0.9, 0.3), KVR_EINVAL);
    ck_assert_int_eq(kvr_synth_outliers(&s, D, 2, 8, 1.5, 0.3), KVR_EINVAL);
    ck_assert_int_eq(kvr_synth_outliers(&s, D, 2, 8, 0.9, 0.3), KVR_OK);
    ck_assert_int_eq(kvr_synth_write(&s, &info, 0, 1, folder, NULL, NULL, NULL), KVR_EINVAL);
    ck_assert_int_eq(kvr_synth_write(&s, &info, 3, 66, folder, NULL, NULL, NULL), KVR_EINVAL);
    kvr_synth_free(&s);
}
END_TEST

static void make_folder(void)
{
    strcpy(folder, "/tmp/kvr_synth_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    char cmd[128];

    snprintf(cmd, sizeof cmd, "rm -rf %s", folder);
    ck_assert_int_eq(system(cmd), 0);
}

int main(void)
{
    Suite *s = suite_create("synth");
    TCase *tc = tcase_create("synth");

    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, gives_what_was_asked);
    tcase_add_test(tc, gives_on_what_was_measured);
    tcase_add_test(tc, refuses);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
