/* test_kernels.c - every CUDA kernel against the CPU's definition, on a device or emulated. */
#include <ctype.h>
#include <glob.h>
#include <omp.h>

#include "tests/cuda/both.h"

static const char *const kernels[] = {
#define KERNEL(name) #name,
#define NEEDS_DEVICE(name, why)
#define LIBRARY(name, what)
#include "harness/device/kernels.def"
#undef KERNEL
#undef NEEDS_DEVICE
#undef LIBRARY
    NULL
};

/* Kernels that cannot be emulated, each with why. */
static const char *const need_device[][2] = {
#define KERNEL(name)
#define NEEDS_DEVICE(name, why) { #name, why },
#define LIBRARY(name, what)
#include "harness/device/kernels.def"
#undef KERNEL
#undef NEEDS_DEVICE
#undef LIBRARY
    { NULL, NULL }
};

/* What others' kernels do for us. */
static const char *const libraries =
#define KERNEL(name)
#define NEEDS_DEVICE(name, why)
#define LIBRARY(name, what) " " #name " (" what ");"
#include "harness/device/kernels.def"
#undef KERNEL
#undef NEEDS_DEVICE
#undef LIBRARY
    ;

static bool listed(const char *name)
{
    for (int i = 0; kernels[i]; i++)
        if (!strcmp(kernels[i], name))
            return true;
    for (int i = 0; need_device[i][0]; i++)
        if (!strcmp(need_device[i][0], name))
            return true;
    return false;
}

/* The name of the kernel whose definition begins at `at`, "" when it is none. */
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

/* kernels.def names what the sources define, so that "all of them" means all of them. */
START_TEST(list_is_complete)
{
    static const char *const where[] = { "harness/*/*.cu", "methods/*/*.cu" };
    int n = 0, n_listed = 0;

    for (int w = 0; w < 2; w++) {
        glob_t files;

        if (glob(where[w], 0, NULL, &files))
            continue;
        for (size_t i = 0; i < files.gl_pathc; i++) {
            FILE *f = fopen(files.gl_pathv[i], "r");
            static char text[1 << 18];
            size_t size;

            ck_assert_ptr_nonnull(f);
            size = fread(text, 1, sizeof text - 1, f);
            fclose(f);
            ck_assert_uint_lt(size, sizeof text - 1);
            text[size] = 0;
            for (char *at = text; (at = strstr(at, "__global__")) != NULL; at++) {
                char name[128];

                kernel_name(at, name, sizeof name);
                ck_assert_msg(listed(name), "%s: kernel '%s' is not in kernels.def",
                              files.gl_pathv[i], name);
                n++;
            }
        }
        globfree(&files);
    }
    for (int i = 0; kernels[i]; i++)
        n_listed++;
    for (int i = 0; need_device[i][0]; i++)
        n_listed++;
    ck_assert_int_eq(n, n_listed);
}
END_TEST

/* The last test: nothing that can be executed here was left out. */
START_TEST(every_kernel_was_executed)
{
    for (int i = 0; kernels[i]; i++)
        ck_assert_msg(kvr_stream_launches(both_stream, kernels[i]) > 0, "%s was not executed",
                      kernels[i]);
}
END_TEST

static void say(void)
{
    int n = 0, done = 0;

    for (int i = 0; kernels[i]; i++, n++)
        done += kvr_stream_launches(both_stream, kernels[i]) > 0;
    printf("CUDA: needs a device:");
    for (int i = 0; need_device[i][0]; i++, n++) {
        done += kvr_stream_launches(both_stream, need_device[i][0]) > 0;
        printf(" %s (%s);", need_device[i][0], need_device[i][1]);
    }
    puts(libraries);
    printf("CUDA: %d of %d kernels executed (%s)\n", done, n,
           kvr_stream_emulated() ? "emulated" : "device");
}

int main(void)
{
    Suite *s = suite_create("CUDA kernels");
    TCase *tc = tcase_create("list"), *last = tcase_create("all");
    SRunner *sr = srunner_create(s);
    int failed;

    if (kvr_stream_open(&both_stream) != KVR_OK) {
        fprintf(stderr, "%s\n", kvr_error());
        return EXIT_FAILURE;
    }
    kvr_stream_seed(both_stream, 7);
    omp_set_num_threads(1); /* the cases are small: waking threads would take most of the time */
    tcase_add_test(tc, list_is_complete);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, cases_codec());
    suite_add_tcase(s, cases_outliers());
    suite_add_tcase(s, cases_gemm());
    suite_add_tcase(s, cases_policy());
    suite_add_tcase(s, cases_rows());
    suite_add_tcase(s, cases_stream());
    suite_add_tcase(s, cases_ops());
    suite_add_tcase(s, cases_attend());
    suite_add_tcase(s, cases_mma());
    suite_add_tcase(s, cases_corrections());
    tcase_add_test(last, every_kernel_was_executed);
    suite_add_tcase(s, last);
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    say();
    srunner_free(sr);
    kvr_stream_close(&both_stream);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
