/* kernel_case.c - allocates the arguments of kernels with guard bytes, fills them with adversarial
 * values, and compares results. */
#include "harness/bench/kernel_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/attend_kernels.h"
#include "harness/core/rng.h"

#define KERNELS(table) extern const struct kvr_kernel_case kvr_kernels_##table[];
#include "harness/bench/kernels.def"
#undef KERNELS

#define KERNELS(table) kvr_kernels_##table,
const struct kvr_kernel_case *const kvr_kernel_lists[] = {
#include "harness/bench/kernels.def"
    NULL
};
#undef KERNELS

const char *kvr_fill_name(enum kvr_case_fill fill)
{
    static const char *const names[KVR_N_FILLS] = { "plain", "zero", "constant", "outlier",
                                                    "tiny",  "huge", "nan",      "inf" };

    return (unsigned)fill < KVR_N_FILLS ? names[fill] : "?";
}

/* ---- memory ----------------------------------------------------------------------------- */

enum { ALIGN = 64, GUARD = 64, GUARD_BYTE = 0xa5 };

static size_t arg_bytes(const struct kvr_case_arg *a)
{
    return a->n * kvr_dtype_size(a->type);
}

/* Returns the size of an argument with its guard bytes. The allocation of an argument contains
 * guard bytes, the argument `p`, guard bytes, and then the arrays `before` (a copy of the initial
 * content) and `want` (the expected result). */
static size_t guarded_bytes(const struct kvr_case_arg *a)
{
    return (2 * GUARD + ALIGN + arg_bytes(a) + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t copy_bytes(const struct kvr_case_arg *a)
{
    return (arg_bytes(a) + ALIGN - 1) / ALIGN * ALIGN;
}

static enum kvr_status take_memory(struct kvr_case_arg *a, bool aligned)
{
    const size_t guarded = guarded_bytes(a), copy = copy_bytes(a);
    char *block = aligned_alloc(ALIGN, guarded + 2 * copy);

    if (!block)
        return kvr_fail(KVR_ENOMEM,
                        "kernels: out of memory while allocating an argument of %zu bytes",
                        arg_bytes(a));
    memset(block, GUARD_BYTE, guarded + 2 * copy);
    a->block = block;
    a->p = block + GUARD + (aligned ? 0 : kvr_dtype_size(a->type));
    a->before = block + guarded;
    a->want = block + guarded + copy;
    return KVR_OK;
}

static bool guards_hold(const struct kvr_case_arg *a)
{
    const unsigned char *block = a->block, *p = a->p;
    const size_t guarded = guarded_bytes(a);
    bool hold = true;

    for (const unsigned char *g = block; g < p; g++)
        hold = hold && *g == GUARD_BYTE;
    for (const unsigned char *g = p + arg_bytes(a); g < block + guarded; g++)
        hold = hold && *g == GUARD_BYTE;
    return hold;
}

/* ---- fills ------------------------------------------------------------------------------ */

/* Returns element i of an argument with the fill `fill`. `x` is a random number in [-2, 2). `row`
 * is the number of elements per row. */
static float hostile_value(enum kvr_case_fill fill, float x, size_t i, size_t row)
{
    switch (fill) {
    case KVR_FILL_ZERO:
        return x < 0 ? -0.0f : 0.0f;
    case KVR_FILL_CONSTANT:
        return 3.7f;
    case KVR_FILL_OUTLIER:
        return i % row == row / 3 ? 1000 * x : x;
    case KVR_FILL_TINY:
        return 1e-38f * x;
    case KVR_FILL_HUGE:
        return 1e15f * x;
    default:
        return x;
    }
}

static enum kvr_status fill_floats(struct kvr_case_kit *k, const struct kvr_case_arg *a)
{
    float *x = malloc((a->n ? a->n : 1) * sizeof *x);

    if (!x)
        return kvr_fail(KVR_ENOMEM, "kernels: out of memory while allocating %zu values", a->n);
    kvr_uniform(x, a->n, 11, KVR_RNG_TEST, (uint32_t)k->n_args, 0, 0);
    for (size_t i = 0; i < a->n; i++)
        x[i] = hostile_value(k->fill, 4 * x[i] - 2, i, a->row);
    if (!k->has_values && a->n && (k->fill == KVR_FILL_NAN || k->fill == KVR_FILL_INF))
        x[a->n / 3] = k->fill == KVR_FILL_NAN ? NAN : -INFINITY;
    k->has_values = true;
    kvr_from_f32(a->p, a->type, x, a->n);
    free(x);
    return KVR_OK;
}

static void fill_bytes(const struct kvr_case_kit *k, const struct kvr_case_arg *a)
{
    unsigned char *p = a->p;
    const size_t n = arg_bytes(a);

    for (size_t i = 0; i < n; i += 16) {
        const uint32_t counter[4] = { (uint32_t)(i / 16), KVR_RNG_TEST << 24, (uint32_t)k->n_args },
                       key[2] = { 11, 0 };
        uint32_t out[4];

        kvr_philox(counter, key, out);
        memcpy(p + i, out, n - i < sizeof out ? n - i : sizeof out);
    }
}

static bool is_float(enum kvr_dtype t)
{
    return t <= KVR_F8_E5M2;
}

static bool has_tolerance(enum kvr_dtype t)
{
    return is_float(t) || t == KVR_U8 || t == KVR_I8;
}

enum kvr_status kvr_case_arg(struct kvr_case_kit *k, enum kvr_case_role role, enum kvr_dtype type,
                             size_t n, size_t row)
{
    struct kvr_case_arg *a = &k->arg[k->n_args];

    if (k->n_args == KVR_CASE_ARGS)
        return kvr_fail(KVR_EINTERNAL,
                        "kernels: a kernel case has more than the limit of %d arguments",
                        KVR_CASE_ARGS);
    *a = (struct kvr_case_arg){ .role = role, .type = type, .n = n, .row = row ? row : 1 };
    KVR_TRY(take_memory(a, k->aligned));
    if (role != KVR_CASE_OUT && is_float(type))
        KVR_TRY(fill_floats(k, a));
    else if (role != KVR_CASE_OUT)
        fill_bytes(k, a);
    k->n_args++;
    return KVR_OK;
}

enum kvr_status kvr_case_product_args(struct kvr_case_kit *k, enum kvr_case_role c,
                                      enum kvr_dtype type, int m, int inner, int cols)
{
    const size_t rows = (size_t)m, depth = (size_t)inner, wide = (size_t)cols;

    KVR_TRY(kvr_case_arg(k, c, KVR_F32, rows * wide, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, type, rows * depth, depth));
    return kvr_case_arg(k, KVR_CASE_IN, type, depth * wide, KVR_ATTEND_PAD);
}

enum kvr_status kvr_case_open(struct kvr_case_kit *k, const struct kvr_kernel_case *c,
                              const int shape[KVR_CASE_DIMS], enum kvr_case_fill fill)
{
    memset(k, 0, sizeof *k);
    memcpy(k->shape, shape, sizeof k->shape);
    k->fill = fill;
    /* Fills with an odd number in enum kvr_case_fill have unaligned arguments, unless the kernel
     * requires alignment. */
    k->aligned = c->aligned || fill % 2 == 0;
    KVR_TRY(c->prepare(k));
    for (int i = 0; i < k->n_args; i++)
        memcpy(k->arg[i].before, k->arg[i].p, arg_bytes(&k->arg[i]));
    return KVR_OK;
}

void kvr_case_close(struct kvr_case_kit *k)
{
    for (int i = 0; i < KVR_CASE_ARGS; i++)
        free(k->arg[i].block);
    memset(k, 0, sizeof *k);
}

void kvr_case_restore(const struct kvr_case_kit *k)
{
    for (int i = 0; i < k->n_args; i++)
        if (k->arg[i].role != KVR_CASE_IN)
            memcpy(k->arg[i].p, k->arg[i].before, arg_bytes(&k->arg[i]));
}

size_t kvr_case_traffic(const struct kvr_case_kit *k)
{
    size_t n = 0;

    for (int i = 0; i < k->n_args; i++)
        n += arg_bytes(&k->arg[i]) * (k->arg[i].role == KVR_CASE_INOUT ? 2 : 1);
    return n;
}

const struct kvr_kernel_case *kvr_case_find(const char *name)
{
    for (int l = 0; kvr_kernel_lists[l]; l++)
        for (const struct kvr_kernel_case *c = kvr_kernel_lists[l]; c->name; c++)
            if (strcmp(c->name, name) == 0)
                return c;
    return NULL;
}

bool kvr_case_has(const struct kvr_kernel_case *c, enum kvr_isa isa)
{
    const void *table;

    if (!kvr_isa_usable(isa) || kvr_isa_force(kvr_isa_name(isa)) != KVR_OK)
        return false;
    table = c->table();
    for (int i = 0; i < (int)isa; i++)
        if (kvr_isa_usable((enum kvr_isa)i) &&
            kvr_isa_force(kvr_isa_name((enum kvr_isa)i)) == KVR_OK && c->table() == table)
            return false;
    return kvr_isa_force(kvr_isa_name(isa)) == KVR_OK;
}

/* ---- comparison ------------------------------------------------------------------------- */

static double value(const void *p, enum kvr_dtype t, size_t i)
{
    float x;

    if (t == KVR_F64)
        return ((const double *)p)[i];
    if (t == KVR_U8)
        return ((const uint8_t *)p)[i];
    if (t == KVR_I8)
        return ((const int8_t *)p)[i];
    kvr_to_f32(&x, (const char *)p + i * kvr_dtype_size(t), t, 1);
    return (double)x;
}

static double largest(const struct kvr_case_arg *a, size_t row)
{
    const size_t end = (row + 1) * a->row < a->n ? (row + 1) * a->row : a->n;
    double most = 0;

    for (size_t i = row * a->row; i < end; i++) {
        const double x = fabs(value(a->want, a->type, i));

        if (x > most && isfinite(x))
            most = x;
    }
    return most;
}

/* Returns |have - want| / size, where `size` is the magnitude to which the tolerance is relative.
 * Differences of up to twice the smallest denormal number count as 0. */
static double error_of(double have, double want, double size)
{
    const double floor = 2 * 0x1p-149, off = fabs(have - want);

    if (isnan(want) || isnan(have))
        return isnan(want) && isnan(have) ? 0 : INFINITY;
    if (have == want || off <= floor)
        return 0;
    return size > 0 && isfinite(want) ? (off - floor) / size : INFINITY;
}

static const char *describe_buffer(const struct kvr_case_kit *k, char buf[96])
{
    const int *s = k->shape;

    snprintf(buf, 96, "shape %d,%d,%d,%d, fill %s", s[0], s[1], s[2], s[3], kvr_fill_name(k->fill));
    return buf;
}

static const char *right_by(const struct kvr_kernel_case *c)
{
    return c->reference ? "the reference computes" : "portable C computes";
}

static enum kvr_status compare_numbers(const struct kvr_kernel_case *c, enum kvr_isa isa,
                                       const struct kvr_case_kit *k, int which)
{
    const struct kvr_case_arg *a = &k->arg[which];
    double size = 0;
    char at[96];

    for (size_t i = 0; i < a->n; i++) {
        const double have = value(a->p, a->type, i), want = value(a->want, a->type, i);
        double err;

        if (i % a->row == 0)
            size = c->size ? c->size(k, a, i / a->row) : largest(a, i / a->row);
        err = error_of(have, want, size);
        if (!(err <= c->tol))
            return kvr_fail(
                KVR_ETOLERANCE,
                "%s, %s: %s: element %zu of argument %d is %.9g, but %s %.9g: the error is %.3g "
                "times the row's magnitude of %.3g; the limit is %.3g times",
                c->name, kvr_isa_name(isa), describe_buffer(k, at), i, which, have, right_by(c),
                want, err, size, c->tol);
    }
    return KVR_OK;
}

static enum kvr_status compare_bytes(const struct kvr_kernel_case *c, enum kvr_isa isa,
                                     const struct kvr_case_kit *k, int which, const void *want,
                                     const char *by)
{
    const struct kvr_case_arg *a = &k->arg[which];
    const unsigned char *have = a->p, *other = want;
    char at[96];

    for (size_t i = 0; i < arg_bytes(a); i++)
        if (have[i] != other[i])
            return kvr_fail(KVR_ETOLERANCE,
                            "%s, %s: %s: byte %zu of argument %d is 0x%02x, but %s 0x%02x", c->name,
                            kvr_isa_name(isa), describe_buffer(k, at), i, which, have[i], by,
                            other[i]);
    return KVR_OK;
}

static enum kvr_status compare(const struct kvr_kernel_case *c, enum kvr_isa isa,
                               const struct kvr_case_kit *k)
{
    char at[96];

    for (int i = 0; i < k->n_args; i++) {
        const struct kvr_case_arg *a = &k->arg[i];

        if (!guards_hold(a))
            return kvr_fail(KVR_EINTERNAL, "%s, %s: %s: the kernel wrote outside of argument %d",
                            c->name, kvr_isa_name(isa), describe_buffer(k, at), i);
        if (a->role == KVR_CASE_IN)
            KVR_TRY(compare_bytes(c, isa, k, i, a->before, "the kernel must leave this input at"));
        else if (c->tol > 0 && has_tolerance(a->type))
            KVR_TRY(compare_numbers(c, isa, k, i));
        else
            KVR_TRY(compare_bytes(c, isa, k, i, a->want, right_by(c)));
    }
    return KVR_OK;
}

static enum kvr_status run_as(const struct kvr_case_kit *k, enum kvr_isa isa,
                              void (*run)(const struct kvr_case_kit *k))
{
    KVR_TRY(kvr_isa_force(kvr_isa_name(isa)));
    kvr_case_restore(k);
    run(k);
    return KVR_OK;
}

static enum kvr_status run_right(const struct kvr_kernel_case *c, enum kvr_isa isa,
                                 const struct kvr_case_kit *k)
{
    return c->reference ? run_as(k, isa, c->reference) : run_as(k, KVR_ISA_OF_PORTABLE, c->run);
}

static enum kvr_status check_one(const struct kvr_kernel_case *c, enum kvr_isa isa,
                                 const struct kvr_case_kit *k)
{
    KVR_TRY(run_right(c, isa, k));
    for (int i = 0; i < k->n_args; i++)
        memcpy(k->arg[i].want, k->arg[i].p, arg_bytes(&k->arg[i]));
    KVR_TRY(run_as(k, isa, c->run));
    return compare(c, isa, k);
}

static void swap(const struct kvr_case_arg *a)
{
    unsigned char *x = a->p, *y = a->want;

    for (size_t i = 0; i < arg_bytes(a); i++) {
        const unsigned char t = x[i];

        x[i] = y[i];
        y[i] = t;
    }
}

enum kvr_status kvr_case_check(const struct kvr_kernel_case *c, enum kvr_isa isa,
                               const struct kvr_case_kit *k)
{
    for (int i = 0; i < k->n_args; i++)
        memcpy(k->arg[i].want, k->arg[i].p, arg_bytes(&k->arg[i]));
    KVR_TRY(run_right(c, isa, k));
    KVR_TRY(kvr_isa_force(kvr_isa_name(isa))); /* restore the selection */
    for (int i = 0; i < k->n_args; i++)
        swap(&k->arg[i]);
    return compare(c, isa, k);
}

enum kvr_status kvr_kernel_check(const struct kvr_kernel_case *c, enum kvr_isa isa)
{
    enum kvr_status st = KVR_OK;

    for (int s = 0; s < c->n_shapes; s++)
        for (int fill = 0; st == KVR_OK && fill < KVR_N_FILLS; fill++) {
            struct kvr_case_kit k;

            st = kvr_case_open(&k, c, c->shapes[s], (enum kvr_case_fill)fill);
            if (st == KVR_OK)
                st = check_one(c, isa, &k);
            kvr_case_close(&k);
        }
    return st;
}
