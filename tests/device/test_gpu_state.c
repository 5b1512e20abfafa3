/* test_gpu_state.c - a GPU's clocks, temperature and processes, with a substitute for NVML. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/device/gpu_state.h"
#include "tests/built.h"
#include "tests/suite.h"

static char why[256];

static struct kvr_gpu_states *open_library(const char *name)
{
    struct kvr_gpu_states *g;
    char path[4096];

    setenv("KVREEL_NVML", name[0] == '/' ? name : built_file(name, path, sizeof path), 1);
    ck_assert_msg(kvr_gpu_states_open(&g, why, sizeof why) == KVR_OK, "%s", kvr_error());
    return g;
}

START_TEST(what_the_library_says)
{
    struct kvr_gpu_states *g = open_library("tests/plugins/fake_nvml.so");
    struct kvr_gpu_state s;

    ck_assert_msg(g != NULL, "%s", why);
    ck_assert_str_eq(why, "NVML of driver 999.1");
    setenv("KVR_TEST_GPU", "1755 83 44 37 3", 1);
    ck_assert(kvr_gpu_sample(g, "emulated-0", &s));
    ck_assert(s.mhz == 1755 && s.memory_mhz == 3201 && s.celsius == 83 && s.watts == 123.456);
    ck_assert(s.busy == 0.37 && s.processes == 3 && s.ecc == 1);
    ck_assert_int_eq(s.reasons, KVR_GPU_POWER_CAP | KVR_GPU_HW_THERMAL);
    ck_assert_msg(s.reasons & KVR_GPU_SLOWED, "heat slows");
    ck_assert(!(KVR_GPU_POWER_CAP & KVR_GPU_SLOWED));
    /* If the library lacks the function that reads a value, the value is NaN, not 0. */
    ck_assert(isnan(s.most_mhz) && isnan(s.limit_watts));
    setenv("KVR_TEST_GPU", "1980 40 0 0 0", 1);
    ck_assert(kvr_gpu_sample(g, "emulated-0", &s));
    ck_assert(s.processes == 0 && s.reasons == 0 && s.mhz == 1980);
    ck_assert(!kvr_gpu_sample(g, "GPU-of-another-machine", &s));
    kvr_gpu_states_close(&g);
    ck_assert_ptr_null(g);
    kvr_gpu_states_close(&g);
    unsetenv("KVR_TEST_GPU");
}
END_TEST

/* If NVML cannot be used, the reason is stated. */
START_TEST(why_nothing_can_be_asked)
{
    struct kvr_gpu_state s;

    ck_assert_ptr_null(open_library("/nowhere/libnvidia-ml.so.1"));
    ck_assert_msg(strstr(why, "no NVML: ") == why && strstr(why, "/nowhere/"), "%s", why);
    ck_assert_ptr_null(open_library("tests/plugins/no_export.so"));
    ck_assert_msg(strstr(why, "has no function nvmlInit_v2"), "%s", why);
    setenv("KVR_TEST_GPU", "no driver", 1);
    ck_assert_ptr_null(open_library("tests/plugins/fake_nvml.so"));
    ck_assert_str_eq(why, "no NVML: nvmlInit_v2 failed: Driver Not Loaded (error 9)");
    unsetenv("KVR_TEST_GPU");
    ck_assert(!kvr_gpu_sample(NULL, "emulated-0", &s));
}
END_TEST

/* NVML lists GPU memory by process ID. If the ID is not listed but the GPU has only one process,
 * that process's memory is returned. Otherwise the reason is stated. */
START_TEST(memory_of_a_process)
{
    struct kvr_gpu_states *g = open_library("tests/plugins/fake_nvml.so");
    int64_t bytes;

    setenv("KVR_TEST_GPU_MEMORY", "100 300", 1);
    ck_assert(kvr_gpu_process_bytes(g, "emulated-0", getpid(), &bytes, why, sizeof why));
    ck_assert_int_eq(bytes, (int64_t)100 << 20);
    ck_assert(kvr_gpu_process_bytes(g, "emulated-0", getpid() + 1, &bytes, why, sizeof why));
    /* This ID is not listed, as in a PID namespace, but the GPU has only one process. */
    ck_assert_int_eq(bytes, (int64_t)300 << 20);
    setenv("KVR_TEST_GPU_MEMORY", "other 5 6", 1);
    ck_assert(!kvr_gpu_process_bytes(g, "emulated-0", 3, &bytes, why, sizeof why));
    ck_assert(bytes == 0 && strcmp(why, "NVML: process 3 is not among the GPU's 2 processes") == 0);
    ck_assert(kvr_gpu_process_bytes(g, "emulated-0", 2, &bytes, why, sizeof why));
    ck_assert_int_eq(bytes, (int64_t)6 << 20);
    setenv("KVR_TEST_GPU_MEMORY", "hidden", 1);
    ck_assert(!kvr_gpu_process_bytes(g, "emulated-0", getpid(), &bytes, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "does not report"));
    ck_assert(!kvr_gpu_process_bytes(g, "GPU-of-another-machine", 1, &bytes, why, sizeof why));
    ck_assert(!kvr_gpu_process_bytes(NULL, "emulated-0", 1, &bytes, why, sizeof why));
    unsetenv("KVR_TEST_GPU_MEMORY");
    kvr_gpu_states_close(&g);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gpu_state");
    TCase *tc = tcase_create("gpu_state");

    tcase_add_test(tc, what_the_library_says);
    tcase_add_test(tc, memory_of_a_process);
    tcase_add_test(tc, why_nothing_can_be_asked);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
