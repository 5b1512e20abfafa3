/* test_kernel_cases.c - compares every kernel variant that this CPU supports with portable C on
 * adversarial inputs, and checks that the comparison detects errors. */
#include "harness/bench/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite.h"

/* Loop: variants. */
START_TEST(variants_agree)
{
    const enum kvr_isa isa = (enum kvr_isa)_i;
    int n = 0;

    for (int l = 0; kvr_kernel_lists[l]; l++)
        for (const struct kvr_kernel_case *c = kvr_kernel_lists[l]; c->name; c++) {
            if (!kvr_case_has(c, isa))
                continue;
            ck_assert_msg(kvr_kernel_check(c, isa) == KVR_OK, "%s", kvr_error());
            n++;
        }
    printf("%s: %d kernels match portable C\n", kvr_isa_name(isa), n);
    ck_assert(n > 0 || isa != KVR_ISA_OF_PORTABLE);
}
END_TEST

/* ---- a kernel whose non-portable variant can be made wrong --------------------------------- */

static enum { RIGHT, LAST_BIT, NAN_LOST, NAN_MADE, ZERO_KEPT, BEHIND, BEFORE, INPUT } fault;

static enum kvr_status twice_args(struct kvr_case_kit *k)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[0], 8));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, (size_t)k->shape[0], 8);
}

static void twice(const struct kvr_case_kit *k)
{
    float *x = k->arg[0].p, *y = k->arg[1].p;
    const int n = k->shape[0], last = n - 1;

    for (int i = 0; i < n; i++)
        y[i] = 2 * x[i];
    if (kvr_isa() == KVR_ISA_OF_PORTABLE)
        return;
    switch (fault) {
    case RIGHT:
        break;
    case LAST_BIT:
        y[last] = nextafterf(y[last], 1e30f);
        break;
    case NAN_LOST:
        for (int i = 0; i < n; i++)
            y[i] = isnan(y[i]) ? 0 : y[i];
        break;
    case NAN_MADE:
        y[last] = NAN;
        break;
    case ZERO_KEPT:
        y[last] = 0;
        break;
    case BEHIND:
        y[n] = 1;
        break;
    case BEFORE:
        y[-1] = 1;
        break;
    case INPUT:
        x[last] = 1;
        break;
    }
}

static int a_table;

/* The portable variant has one table, all other variants share another. */
static const void *tables(void)
{
    return (const char *)&a_table + (kvr_isa() == KVR_ISA_OF_PORTABLE);
}

static const int shapes[][KVR_CASE_DIMS] = { { 5 }, { 64 } };
static const struct kvr_kernel_case exact = { .name = "twice",
                                              .table = tables,
                                              .prepare = twice_args,
                                              .run = twice,
                                              .shapes = shapes,
                                              .n_shapes = 2 };

static enum kvr_isa another(void)
{
    for (int i = 1; i < KVR_N_ISA; i++)
        if (kvr_isa_usable((enum kvr_isa)i))
            return (enum kvr_isa)i;
    return KVR_ISA_OF_PORTABLE;
}

START_TEST(faults_are_seen)
{
    static const struct {
        int fault;
        double tol;
        enum kvr_status want;
        const char *says;
    } cases[] = {
        { RIGHT, 0, KVR_OK, NULL },
        { RIGHT, 1e-7, KVR_OK, NULL },
        { LAST_BIT, 0, KVR_ETOLERANCE, "byte" },
        { LAST_BIT, 2e-7, KVR_OK, NULL },
        { LAST_BIT, 1e-9, KVR_ETOLERANCE, "the error is" },
        { NAN_LOST, 0, KVR_ETOLERANCE, "fill nan" },
        { NAN_LOST, 1e9, KVR_ETOLERANCE, "fill nan" },
        { NAN_MADE, 1e9, KVR_ETOLERANCE, "fill plain" },
        { ZERO_KEPT, 1e-3, KVR_ETOLERANCE, "element 4 of argument 1 is 0" },
        { BEHIND, 1e9, KVR_EINTERNAL, "outside of argument 1" },
        { BEFORE, 1e9, KVR_EINTERNAL, "outside of argument 1" },
        { INPUT, 1e9, KVR_ETOLERANCE, "argument 0" },
    };
    const enum kvr_isa isa = another();
    struct kvr_kernel_case c = exact;

    if (isa == KVR_ISA_OF_PORTABLE)
        return; /* this CPU has no variant other than portable C */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum kvr_status st;

        fault = cases[i].fault;
        c.tol = cases[i].tol;
        st = kvr_kernel_check(&c, isa);
        ck_assert_msg(st == cases[i].want, "case %zu: %d, %s", i, (int)st,
                      st == KVR_OK ? "" : kvr_error());
        ck_assert_msg(!cases[i].says || strstr(kvr_error(), cases[i].says), "case %zu: %s", i,
                      kvr_error());
    }
    ck_assert(kvr_case_has(&c, isa));
    ck_assert(kvr_case_has(&c, KVR_ISA_OF_PORTABLE));
    fault = RIGHT;
}
END_TEST

static void as_it_should(const struct kvr_case_kit *k)
{
    const float *x = k->arg[0].p;
    float *y = k->arg[1].p;

    for (int i = 0; i < k->shape[0]; i++)
        y[i] = 2 * x[i];
}

static void otherwise(const struct kvr_case_kit *k)
{
    as_it_should(k);
    ((float *)k->arg[1].p)[2] += 1;
}

/* If a case has a reference function, every variant is compared with it, portable C included. */
START_TEST(a_reference_decides)
{
    struct kvr_kernel_case c = exact;

    fault = RIGHT;
    c.reference = as_it_should;
    for (int i = 0; i < KVR_N_ISA; i++)
        if (kvr_isa_usable((enum kvr_isa)i))
            ck_assert_msg(kvr_kernel_check(&c, (enum kvr_isa)i) == KVR_OK, "%s", kvr_error());
    c.reference = otherwise;
    ck_assert_int_eq(kvr_kernel_check(&c, KVR_ISA_OF_PORTABLE), KVR_ETOLERANCE);
    ck_assert_msg(strstr(kvr_error(), "but the reference computes"), "%s", kvr_error());
}
END_TEST

/* ---- 8-bit integers: an error of 1 passes, an error of 2 fails ----------------------------- */

static enum kvr_status codes_args(struct kvr_case_kit *k)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_I8, (size_t)k->shape[0], 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_U8, (size_t)k->shape[0], 1);
}

static int off;

static void codes(const struct kvr_case_kit *k)
{
    const int by = kvr_isa() == KVR_ISA_OF_PORTABLE ? 0 : off;

    memset(k->arg[0].p, -1 + by, k->arg[0].n);
    memset(k->arg[1].p, 200, k->arg[1].n);
}

static double one(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t row)
{
    (void)k;
    (void)a;
    (void)row;
    return 1;
}

START_TEST(codes_have_a_tolerance)
{
    struct kvr_kernel_case c = exact;

    c.prepare = codes_args;
    c.run = codes;
    c.size = one;
    c.tol = 1;
    for (off = -2; off <= 2 && another() != KVR_ISA_OF_PORTABLE; off++)
        ck_assert_int_eq(kvr_kernel_check(&c, another()), abs(off) < 2 ? KVR_OK : KVR_ETOLERANCE);
}
END_TEST

/* If several ISA variants share one kernel table, as AVX2 and AVX-512 may, the table is tested only
 * once. */
START_TEST(shared_tables_are_tested_once)
{
    int n[KVR_N_ISA] = { 0 }, usable = 0;

    for (int i = 0; i < KVR_N_ISA; i++) {
        usable += kvr_isa_usable((enum kvr_isa)i);
        n[i] = kvr_case_has(&exact, (enum kvr_isa)i);
    }
    ck_assert_int_eq(n[KVR_ISA_OF_PORTABLE], 1);
    for (int i = 1; i < KVR_N_ISA; i++)
        n[0] += n[i];
    ck_assert_int_eq(n[0], usable > 1 ? 2 : 1);
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kernel cases");
    TCase *tc = tcase_create("variants");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, variants_agree, 0, KVR_N_ISA);
    tcase_add_test(tc, faults_are_seen);
    tcase_add_test(tc, a_reference_decides);
    tcase_add_test(tc, codes_have_a_tolerance);
    tcase_add_test(tc, shared_tables_are_tested_once);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
