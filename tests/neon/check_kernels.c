/* check_kernels.c - the kernel checks of tests/bench/test_kernel_cases.c without a test framework
 * or other libraries, so that a static build for another CPU architecture can run in an emulator.
 *
 *     qemu-aarch64 -cpu max build-neon/check_kernels neon
 *
 * If the argument names a variant, only that variant is checked. The program fails if the CPU does
 * not support it. */
#include <stdio.h>
#include <string.h>

#include "harness/bench/kernel_case.h"

static bool check_all(enum kvr_isa isa, int *n)
{
    for (int l = 0; kvr_kernel_lists[l]; l++)
        for (const struct kvr_kernel_case *c = kvr_kernel_lists[l]; c->name; c++) {
            if (!kvr_case_has(c, isa))
                continue;
            if (kvr_kernel_check(c, isa) != KVR_OK) {
                printf("FAIL  %s\n", kvr_error());
                return false;
            }
            ++*n;
        }
    return true;
}

int main(int argc, char **argv)
{
    bool there = false, ok = true;

    for (int i = 0; i < KVR_N_ISA; i++) {
        const char *name = kvr_isa_name((enum kvr_isa)i);
        int n = 0;

        if (argc > 1 && strcmp(name, argv[1]) != 0)
            continue;
        ok = check_all((enum kvr_isa)i, &n) && ok;
        if (n)
            printf("ok    %s: %d kernels match portable C\n", name, n);
        there = there || n;
    }
    if (!there)
        printf("FAIL  %s: not on this CPU\n", argc > 1 ? argv[1] : "any variant");
    return ok && there ? 0 : 1;
}
