/* test_isa.c - tests the choice of an ISA variant of the kernels, and that code compiled for one
 * instruction set stays in the objects of its variant.
 *
 * The program must start on every x86-64-v2 machine, so functions of harness/core and of the
 * portable kernels must not contain newer instructions. A variant exports only its table: if it
 * exported a helper, the linker could use that copy of the helper for all variants. */
#include "harness/core/isa.h"

#include <check.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "harness/core/version.h"
#include "harness/engine/ops.h"
#include "tests/suite.h"

static enum kvr_isa best(void)
{
    unsetenv("KVREEL_CPU");
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
    ck_assert(!kvr_isa_forced());
    return kvr_isa();
}

START_TEST(every_usable_name_is_taken)
{
    const enum kvr_isa isa = (enum kvr_isa)_i;
    const char *name = kvr_isa_name(isa);
    const enum kvr_isa before = best();

    ck_assert(kvr_isa_usable(before));
    if (kvr_isa_usable(isa)) {
        ck_assert(kvr_isa_compiled(isa));
        ck_assert_int_eq(kvr_isa_force(name), KVR_OK);
        ck_assert_int_eq(kvr_isa(), isa);
        ck_assert(kvr_isa_forced());
        ck_assert_ptr_nonnull(kvr_ops_cpu());
        return;
    }
    ck_assert_int_eq(kvr_isa_force(name), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), name));
    ck_assert_ptr_nonnull(strstr(kvr_error(), ": portable"));
    ck_assert_int_eq(kvr_isa(), before); /* a refused name does not change the choice */
}
END_TEST

START_TEST(unknown_names_are_refused)
{
    static const char *const wrong[] = { "avx9", "AVX2", " avx2", "avx2,portable", "?" };
    const enum kvr_isa before = best();

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(kvr_isa_force(wrong[i]), KVR_EINVAL);
        ck_assert_ptr_nonnull(strstr(kvr_error(), "--cpu"));
        ck_assert_ptr_nonnull(strstr(kvr_error(), wrong[i]));
        ck_assert_int_eq(kvr_isa(), before);
    }
    ck_assert_int_eq(kvr_isa_force(""), KVR_OK); /* an empty name is like NULL */
    ck_assert_int_eq(kvr_isa(), before);
}
END_TEST

START_TEST(environment)
{
    const enum kvr_isa before = best();

    setenv("KVREEL_CPU", "portable", 1);
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
    ck_assert_int_eq(kvr_isa(), KVR_ISA_OF_PORTABLE);
    ck_assert(kvr_isa_forced());
    /* A name that is passed takes precedence over the environment. */
    ck_assert_int_eq(kvr_isa_force(kvr_isa_name(before)), KVR_OK);
    ck_assert_int_eq(kvr_isa(), before);
    setenv("KVREEL_CPU", "avx9", 1);
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "KVREEL_CPU: 'avx9'"));
    setenv("KVREEL_CPU", "", 1);
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
    ck_assert(!kvr_isa_forced());
}
END_TEST

/* Without kvr_isa_force, the first call of kvr_isa() makes the choice. Each test runs in a process
 * of its own, so this is the first call. */
START_TEST(environment_without_force)
{
    setenv("KVREEL_CPU", "portable", 1);
    ck_assert_int_eq(kvr_isa(), KVR_ISA_OF_PORTABLE);
    ck_assert(kvr_isa_forced());
}
END_TEST

START_TEST(bad_environment_without_force)
{
    setenv("KVREEL_CPU", "avx9", 1);
    ck_assert(kvr_isa_usable(kvr_isa()));
    ck_assert(!kvr_isa_forced());
}
END_TEST

START_TEST(lists)
{
    char text[128], small[6];

    ck_assert_ptr_eq(strstr(kvr_isa_names(text, sizeof text, kvr_isa_usable), "portable"), text);
    for (int i = 0; i < KVR_N_ISA; i++)
        ck_assert(!kvr_isa_usable((enum kvr_isa)i) || strstr(text, kvr_isa_name((enum kvr_isa)i)));
    ck_assert_str_eq(kvr_isa_names(small, sizeof small, kvr_isa_compiled), "...");
    ck_assert(!kvr_isa_usable((enum kvr_isa) - 1) && !kvr_isa_usable(KVR_N_ISA));
    ck_assert_str_eq(kvr_isa_name(KVR_N_ISA), "?");
}
END_TEST

/* ---- the compiled objects --------------------------------------------------------------- */

/* Path of BUILD/libkvreel.a, where this program is BUILD/tests/core/test_isa. */
static const char *library(void)
{
    static char path[512];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    char *up;

    ck_assert(n > 0);
    path[n] = 0;
    up = strstr(path, "/tests/core/");
    ck_assert_msg(up != NULL, "%s is not BUILD/tests/core/test_isa", path);
    snprintf(up, sizeof path - (size_t)(up - path), "/libkvreel.a");
    return path;
}

/* Returns the number of lines that a command prints. `first` [512] receives the first line. */
static int lines_of(const char *command, char *first)
{
    FILE *f = popen(command, "r");
    char line[512];
    int n = 0;

    ck_assert_ptr_nonnull(f);
    first[0] = 0;
    while (fgets(line, sizeof line, f))
        if (n++ == 0)
            snprintf(first, sizeof line, "%s", line);
    pclose(f);
    return n;
}

/* nm prints lines like "libkvreel.a:ops_isa.avx2.o:0000 R kvr_ops_cpu_avx2". Sanitizers add symbols
 * of their own (__odr_asan), which the pipeline ignores. */
START_TEST(variants_export_their_tables_alone)
{
    char command[1024], first[512];
    int n;

    snprintf(command, sizeof command,
             "nm -A -g --defined-only '%s' | grep -E '_(isa|dot|tile)[.][a-z0-9_]+[.]o:' | "
             "grep -v __odr_asan",
             library());
    n = lines_of(command, first);
    ck_assert_msg(n >= 1, "no variant in %s", library());
    strcat(command, " | grep -vE '[.]([a-z0-9_]+)[.]o:[0-9a-f]* [RD] kvr_[a-z0-9_]+_\\1$'");
    n = lines_of(command, first);
    ck_assert_msg(n == 0, "%d names besides the tables, such as %s", n, first);
}
END_TEST

#if defined(__x86_64__)
/* If arch_prctl fails, the AMX variants are refused with a reason. */
START_TEST(refused_tiles)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
    unsigned a, b, c, d;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1))
        return; /* the CPU has no AMX-TILE */
    unsetenv("KVREEL_CPU");
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    ck_assert(!kvr_isa_has_tiles());
    ck_assert(!kvr_isa_usable(KVR_ISA_OF_AMX_BF16) && !kvr_isa_usable(KVR_ISA_OF_AMX_INT8));
    ck_assert_ptr_nonnull(kvr_isa_refused());
    ck_assert_int_eq(kvr_isa_force("amx_bf16"), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "'amx_bf16' is refused: "));
    ck_assert_ptr_nonnull(strstr(kvr_error(), kvr_isa_refused()));
}
END_TEST

/* Counts instructions that use AVX registers or the AVX encoding, in objects whose name matches
 * `which`. `first` receives the first of them. */
static int newer_instructions(const char *which, char *first)
{
    char command[1024];

    snprintf(command, sizeof command,
             "objdump -d '%s' | awk '/file format/ { name = $1; wanted = name ~ /%s/ } "
             "wanted && /%%([yz]|t)mm|\tv[a-z0-9]+ .*%%xmm/ { print name, $0 }'",
             library(), which);
    return lines_of(command, first);
}

/* A single newer instruction would stop the program on an older machine. */
START_TEST(only_variants_need_avx)
{
    char first[512];
    int n;

    ck_assert_int_gt(newer_instructions("[.]avx2[.]o:$", first), 0);
    /* With another -march (such as ARCH=native) all objects may contain newer instructions. */
    if (!strstr(kvr_cflags(), "-march=x86-64-v2"))
        return;
    n = newer_instructions("^[^.]*([.]portable)?[.]o:$", first);
    ck_assert_msg(n == 0, "%d instructions, such as %s", n, first);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("isa");
    TCase *tc = tcase_create("choice"), *objects = tcase_create("objects");

    tcase_add_loop_test(tc, every_usable_name_is_taken, 0, KVR_N_ISA);
    tcase_add_test(tc, unknown_names_are_refused);
    tcase_add_test(tc, environment);
    tcase_add_test(tc, environment_without_force);
    tcase_add_test(tc, bad_environment_without_force);
    tcase_add_test(tc, lists);
    suite_add_tcase(s, tc);
    tcase_set_timeout(objects, 0);
    tcase_add_test(objects, variants_export_their_tables_alone);
#if defined(__x86_64__)
    tcase_add_test(objects, only_variants_need_avx);
    tcase_add_test(tc, refused_tiles);
#endif
    suite_add_tcase(s, objects);
    return run_suite_forked(s);
}
