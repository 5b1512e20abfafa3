/* test_kernels.c - every CUDA kernel against the CPU reference, on a device or emulated.
 *
 * long: runs every kernel on the emulated device. */
#include <ctype.h>
#include <glob.h>
#include <omp.h>

#include "harness/cache/attend_bytes.h"
#include "harness/cache/attend_wgmma.h"
#include "harness/engine/product_cuda.h"
#include "tests/cuda/both.h"

/* Kernels that cannot be emulated, each with the reason. */
static const char *const need_device[][2] = {
#define NEEDS_DEVICE(name, why) { #name, why },
#define LIBRARY(name, what)
#include "harness/device/kernels.def"
#undef NEEDS_DEVICE
#undef LIBRARY
    { NULL, NULL }
};

/* Operations that library kernels perform, for the summary that say() prints. */
static const char *const libraries =
#define NEEDS_DEVICE(name, why)
#define LIBRARY(name, what) " " #name " (" what ");"
#include "harness/device/kernels.def"
#undef NEEDS_DEVICE
#undef LIBRARY
    ;

/* Kernels defined in the sources. */
enum { MAX_KERNELS = 512 };
static char kernels[MAX_KERNELS][128];
static int n_kernels;

/* Returns whether this device lacks the instructions that a kernel needs. */
static bool of_other_devices(const char *name)
{
    if (kvr_stream_emulated())
        return false;
    return (!strcmp(name, "attend_list") && !kvr_attend_list_supported(both_stream)) ||
           (!strcmp(name, "attend_bytes") && !kvr_attend_bytes_supported(both_stream)) ||
           (!strcmp(name, "linear_wgmma") && !kvr_product_supported(both_stream));
}

static bool needs_device(const char *name)
{
    for (int i = 0; need_device[i][0]; i++)
        if (!strcmp(need_device[i][0], name))
            return true;
    return false;
}

/* Writes the name of the kernel whose definition begins at `at`, or "" if there is none. */
static void kernel_name(const char *at, char *name, size_t size)
{
    const char *end = strchr(at, '('), *p;
    size_t n = 0;

    *name = 0;
    /* __launch_bounds__(...) comes before the name. */
    if (end && end - at >= 17 && !strncmp(end - 17, "__launch_bounds__", 17)) {
        at = strchr(end, ')');
        end = at ? strchr(at, '(') : NULL;
    }
    if (!end)
        return;
    for (p = end; p > at && (isalnum((unsigned char)p[-1]) || p[-1] == '_'); p--)
        n++;
    if (n < size) {
        memcpy(name, p, n);
        name[n] = 0;
    }
}

static void find_in(const char *path)
{
    static char text[1 << 18];
    FILE *f = fopen(path, "r");
    size_t size;

    if (!f)
        return;
    size = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[size] = 0;
    for (char *at = text; (at = strstr(at, "__global__")) != NULL && n_kernels < MAX_KERNELS; at++)
        kernel_name(at, kernels[n_kernels++], sizeof kernels[0]);
}

static void find_kernels(void)
{
    static const char *const where[] = { "harness/*/*.cu", "harness/*/*/*.cu", "methods/*/*.cu",
                                         "methods/*/*/*.cu" };

    for (int w = 0; w < 4; w++) {
        glob_t files;

        if (glob(where[w], 0, NULL, &files))
            continue;
        for (size_t i = 0; i < files.gl_pathc; i++)
            find_in(files.gl_pathv[i]);
        globfree(&files);
    }
}

/* find_kernels() must find at least 50 kernels with unique names, including every NEEDS_DEVICE
 * kernel of kernels.def. */
START_TEST(kernels_are_found)
{
    ck_assert_int_ge(n_kernels, 50);
    ck_assert_int_lt(n_kernels, MAX_KERNELS);
    for (int i = 0; i < n_kernels; i++) {
        ck_assert_msg(*kernels[i], "kernel %d, after '%s', has no name", i,
                      i ? kernels[i - 1] : "");
        for (int j = 0; j < i; j++)
            ck_assert_msg(strcmp(kernels[i], kernels[j]) != 0, "two kernels '%s'", kernels[i]);
    }
    for (int k = 0; need_device[k][0]; k++) {
        bool found = false;

        for (int i = 0; i < n_kernels; i++)
            found = found || !strcmp(kernels[i], need_device[k][0]);
        ck_assert_msg(found, "'%s' of kernels.def is nowhere", need_device[k][0]);
    }
}
END_TEST

static bool executed(const char *name)
{
    return kvr_stream_launches(both_stream, name) > 0 ||
           kvr_stream_launches(kvr_dev_stream(both_dev), name) > 0;
}

/* Every kernel that can run on this device must have been executed. This test runs last, because it
 * reads the launch counts of all other tests. */
START_TEST(every_kernel_was_executed)
{
    static char missing[MAX_KERNELS * 130];

    for (int i = 0; i < n_kernels; i++)
        if (!needs_device(kernels[i]) && !of_other_devices(kernels[i]) && !executed(kernels[i])) {
            const size_t at = strlen(missing);

            snprintf(missing + at, sizeof missing - at, " %.127s", kernels[i]);
        }
    ck_assert_msg(!*missing, "not executed:%s", missing);
}
END_TEST

static void say(void)
{
    int done = 0;

    for (int i = 0; i < n_kernels; i++)
        done += executed(kernels[i]);
    printf("CUDA: needs a device:");
    for (int i = 0; need_device[i][0]; i++)
        printf(" %s (%s);", need_device[i][0], need_device[i][1]);
    puts(libraries);
    printf("CUDA: %d of %d kernels executed (%s)\n", done, n_kernels,
           kvr_stream_emulated() ? "emulated" : "device");
}

/* Prints the executed kernels, for a process that runs only some checks (tools/device/run.sh). */
static void say_executed(void)
{
    for (int i = 0; i < n_kernels && both_stream && both_dev; i++)
        if (executed(kernels[i]))
            printf("executed: %s\n", kernels[i]);
}

/* A failed check leaves its buffers allocated. */
static void add_case(Suite *s, TCase *tc)
{
    tcase_add_checked_fixture(tc, NULL, both_free);
    suite_add_tcase(s, tc);
}

int main(void)
{
    Suite *s = suite_create("CUDA kernels");
    TCase *tc = tcase_create("list"), *last = tcase_create("all");
    SRunner *sr = srunner_create(s);
    int failed;

    find_kernels();
    if (kvr_stream_open(&both_stream) != KVR_OK || kvr_dev_open(&both_dev, KVR_CUDA) != KVR_OK) {
        fprintf(stderr, "%s\n", kvr_error());
        return EXIT_FAILURE;
    }
    kvr_stream_seed(both_stream, 7);
    /* Cases are so small that waking OpenMP threads would take most of the time. */
    omp_set_num_threads(1);
    tcase_add_test(tc, kernels_are_found);
    suite_add_tcase(s, tc);
    add_case(s, cases_codec());
    add_case(s, cases_eager());
    add_case(s, cases_stages());
    add_case(s, cases_outliers());
    add_case(s, cases_gemm());
    add_case(s, cases_product());
    add_case(s, cases_policy());
    add_case(s, cases_rows());
    add_case(s, cases_stream());
    add_case(s, cases_ops());
    add_case(s, cases_attend());
    add_case(s, cases_mma());
    add_case(s, cases_bytes());
    add_case(s, cases_corrections());
    add_case(s, cases_wan());
    add_case(s, cases_conv());
    tcase_add_test(last, every_kernel_was_executed);
    suite_add_tcase(s, last);
    if (getenv("KVR_TEST_LIMIT_S"))
        atexit(say_executed);
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    say();
    if (getenv("KVR_TEST_LIMIT_S"))
        say_executed();
    srunner_free(sr);
    kvr_dev_close(&both_dev);
    kvr_stream_close(&both_stream);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
