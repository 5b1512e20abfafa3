/* test_disturbance.c - the GPU's state and other programs during a cell, and which of them make its
 * time not count. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/core/hostmem.h"
#include "harness/run/disturbance.h"
#include "tests/built.h"
#include "tests/suite.h"

static struct kvr_machine machine;

static void set_up(void)
{
    char path[4096];

    setenv("KVREEL_NVML", built_file("tests/plugins/fake_nvml.so", path, sizeof path), 1);
    setenv("KVR_TEST_GPU", "1980 40 0 0 0", 1);
    ck_assert_int_eq(kvr_machine_open(&machine, 2, 1, true), KVR_OK);
    ck_assert_msg(machine.gpus != NULL, "%s", machine.nvml);
}

static void tear_down(void)
{
    kvr_machine_close(&machine);
    unsetenv("KVR_TEST_GPU");
    unsetenv("KVREEL_NVML");
}

/* Samples the state of GPU `uuid` three times: before the cell's worker starts, while it computes,
 * and after it. */
static struct kvr_disturbance cell_on(const char *uuid, const char *before, const char *during,
                                      const char *after)
{
    struct kvr_disturbance b;

    setenv("KVR_TEST_GPU", before, 1);
    kvr_disturbance_begin(&b, &machine, uuid);
    setenv("KVR_TEST_GPU", during, 1);
    kvr_disturbance_sample(&b, &machine, b.start_ns + 1000000000);
    setenv("KVR_TEST_GPU", after, 1);
    kvr_disturbance_end(&b, &machine, 0);
    return b;
}

static struct kvr_disturbance cell(const char *before, const char *during, const char *after)
{
    return cell_on("emulated-0", before, during, after);
}

static bool has(const struct kvr_disturbance *b, const char *code)
{
    return strstr(b->codes, code) != NULL;
}

static double watched(const struct kvr_disturbance *b, const char *name)
{
    for (int i = 0; i < b->n_watch; i++)
        if (strcmp(b->watch[i].name, name) == 0)
            return b->watch[i].value;
    ck_abort_msg("%s is not watched", name);
    return 0;
}

START_TEST(a_quiet_gpu)
{
    const struct kvr_disturbance b = cell("210 35 0 0 0", "1980 60 4 90 1", "1980 55 0 50 0");

    ck_assert_msg(!has(&b, "GPU"), "%s", b.codes); /* reaching its own power limit is normal */
    ck_assert(watched(&b, "gpu_mhz") == 1980 && watched(&b, "gpu_celsius") == 60);
    ck_assert(watched(&b, "gpu_slowed_by") == 4 && watched(&b, "gpu_others") == 0);
    ck_assert(watched(&b, "gpu_busy_before") == 0 && watched(&b, "gpu_watts") == 123.456);
    ck_assert_int_eq(b.n_watch, KVR_N_WATCH);
}
END_TEST

START_TEST(somebody_else_on_it)
{
    struct kvr_disturbance b = cell("1980 40 0 80 1", "1980 40 0 90 2", "1980 40 0 0 0");

    /* another process used the GPU before the cell */
    ck_assert_msg(has(&b, "GPU_SHARED"), "%s", b.codes);
    ck_assert(watched(&b, "gpu_busy_before") == 0.8);
    b = cell("1980 40 0 0 0", "1980 40 0 90 2", "1980 40 0 0 0");
    /* another process came and went during the cell */
    ck_assert_msg(has(&b, "GPU_SHARED"), "%s", b.codes);
    ck_assert(watched(&b, "gpu_others") == 1);
}
END_TEST

/* GPU_SLOWED: the GPU throttled because of heat at one sample. GPU_CLOCK: its clock was over 5 %
 * below the fastest seen (1980 MHz) during the whole cell. */
START_TEST(a_slow_one)
{
    struct kvr_disturbance b = cell("1980 40 0 0 0", "1900 90 40 90 1", "1980 80 0 0 0");

    ck_assert_msg(has(&b, "GPU_SLOWED") && !has(&b, "GPU_CLOCK"), "%s", b.codes);
    b = cell("1800 40 0 0 0", "1800 50 0 90 1", "1800 50 0 0 0");
    ck_assert_msg(has(&b, "GPU_CLOCK") && !has(&b, "GPU_SLOWED"), "%s", b.codes);
    b = cell("1900 40 0 0 0", "1900 50 0 90 1", "1900 50 0 0 0");
    ck_assert_msg(!has(&b, "GPU_CLOCK"), "%s", b.codes);
}
END_TEST

/* A GPU's clock is compared with the fastest clock of the same GPU. If a container hides kvreel's
 * worker, the number of other processes is 0, not negative. */
START_TEST(another_one)
{
    const char *slow = "1200 40 0 0 0";
    struct kvr_disturbance b = cell("1980 40 0 0 0", "1980 40 0 90 1", "1980 40 0 0 0");

    b = cell_on("emulated-1", slow, slow, slow);
    ck_assert_msg(!has(&b, "GPU_CLOCK"), "%s", b.codes);
    ck_assert(watched(&b, "gpu_others") == 0);
    b = cell_on("emulated-1", "1100 40 0 0 0", "1100 40 0 0 0", "1100 40 0 0 0");
    ck_assert_msg(has(&b, "GPU_CLOCK"), "%s", b.codes);
}
END_TEST

/* Simulates a cell during which this program keeps a processor busy for 0.2 s. ours_ns is the CPU
 * time of the cell's own worker; the rest counts as other programs'. */
static struct kvr_disturbance busy_cell(int64_t ours_ns)
{
    struct kvr_disturbance b;
    const int64_t from_ns = kvr_now_ns();

    kvr_disturbance_begin(&b, &machine, "");
    while (kvr_now_ns() - from_ns < 200000000)
        ;
    kvr_disturbance_end(&b, &machine, ours_ns);
    return b;
}

/* LOAD: other programs, without the cell's own worker, used the CPU. CLOCK: the CPU's clock was
 * below the fastest of the session. JOBS: kvreel ran several cells at once. */
START_TEST(a_busy_host)
{
    struct kvr_disturbance b = busy_cell(0);

    /* LOAD needs /proc/stat. */
    ck_assert_msg(has(&b, "LOAD") == (kvr_host_busy_ns() > 0), "%s", b.codes);
    ck_assert(kvr_host_busy_ns() > 0 ? watched(&b, "others_share") > 0.1
                                     : isnan(watched(&b, "others_share")));
    b = busy_cell((int64_t)1e12);
    ck_assert_msg(!has(&b, "LOAD") && !has(&b, "JOBS"), "%s", b.codes);
    machine.jobs = 2;
    machine.mhz = 1e6;
    b = busy_cell((int64_t)1e12);
    ck_assert_msg(has(&b, "JOBS"), "%s", b.codes);
    ck_assert_msg(has(&b, "CLOCK") == !isnan(watched(&b, "mhz")), "%s", b.codes);
}
END_TEST

/* Without NVML or without a GPU, only the host's values are recorded. */
START_TEST(nobody_to_ask)
{
    struct kvr_machine none;
    struct kvr_disturbance b;

    kvr_disturbance_begin(&b, &machine, "");
    kvr_disturbance_end(&b, &machine, 0);
    ck_assert_int_eq(b.n_watch, 4);
    setenv("KVREEL_NVML", "/nowhere/x.so", 1);
    ck_assert_int_eq(kvr_machine_open(&none, 2, 1, true), KVR_OK);
    ck_assert_msg(strstr(none.nvml, "no NVML: ") == none.nvml, "%s", none.nvml);
    kvr_disturbance_begin(&b, &none, "emulated-0");
    kvr_disturbance_sample(&b, &none, b.start_ns + 1000000000);
    kvr_disturbance_end(&b, &none, 0);
    ck_assert_int_eq(b.n_watch, 4);
    ck_assert_msg(!has(&b, "GPU"), "%s", b.codes);
    ck_assert_int_eq(kvr_machine_open(&none, 2, 1, false), KVR_OK);
    ck_assert_str_eq(none.nvml, "");
    kvr_machine_close(&none);
}
END_TEST

START_TEST(what_they_are_set_to)
{
    static const char uuids[][KVR_UUID_LEN] = { "emulated-0", "not there" };
    char *text = kvr_machine_gpus(&machine, uuids, 2);

    ck_assert_ptr_nonnull(text);
    ck_assert_str_eq(text, "emulated-0: memory 3201 MHz, ECC on");
    free(text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("beside");
    TCase *tc = tcase_create("beside");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_quiet_gpu);
    tcase_add_test(tc, somebody_else_on_it);
    tcase_add_test(tc, a_slow_one);
    tcase_add_test(tc, another_one);
    tcase_add_test(tc, a_busy_host);
    tcase_add_test(tc, nobody_to_ask);
    tcase_add_test(tc, what_they_are_set_to);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
