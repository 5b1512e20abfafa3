/* kernel_case.h - the kernels that exist once per instruction set, each with what it takes to prove
 * a variant against portable C and to time it.
 *
 *     for (int i = 0; kvr_kernel_lists[i]; i++)
 *         for (const struct kvr_kernel_case *c = kvr_kernel_lists[i]; c->name; c++)
 *             KVR_TRY(kvr_kernel_check(c, KVR_ISA_OF_AVX2));
 *
 * The cases of one table stand in harness/bench/kernels_TABLE.c, and the table in kernels.def. A
 * case says its arguments and calls the kernel through the table's accessor, which hands out
 * whichever variant is in force:
 *
 *     static enum kvr_status gelu_args(struct kvr_case_kit *k)
 *     {
 *         return kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, (size_t)k->shape[0], 1);
 *     }
 *     static void gelu(const struct kvr_case_kit *k)
 *     {
 *         kvr_ops_cpu()->gelu(NULL, k->shape[0], k->arg[0].p);
 *     }
 *
 * Memory of arguments has guards before and behind; what a kernel only reads must be unchanged. */
#ifndef KVR_BENCH_KERNEL_CASE_H
#define KVR_BENCH_KERNEL_CASE_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/dtype.h"
#include "harness/core/isa.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_CASE_DIMS = 4, KVR_CASE_ARGS = 8 };

enum kvr_case_role { KVR_CASE_IN, KVR_CASE_OUT, KVR_CASE_INOUT };

/* What IN and INOUT hold; `prepare` may write something else over it. */
enum kvr_case_fill {
    KVR_FILL_PLAIN,    /* uniform in [-2, 2) */
    KVR_FILL_ZERO,     /* 0 and -0 */
    KVR_FILL_CONSTANT, /* the same value everywhere, one that is no sum of a few powers of two */
    KVR_FILL_OUTLIER,  /* plain, one channel of a row a thousand times as large */
    KVR_FILL_TINY,     /* where floats lose their precision: 1e-38 */
    KVR_FILL_HUGE,     /* 1e15: squares and their sums are still finite */
    KVR_FILL_NAN,      /* plain, one NaN in the first argument that is filled */
    KVR_FILL_INF,      /* the same with an infinity */
    KVR_N_FILLS
};
const char *kvr_fill_name(enum kvr_case_fill fill);

struct kvr_case_arg {
    enum kvr_case_role role;
    enum kvr_dtype type;
    size_t n;     /* elements */
    size_t row;   /* of so many elements, which are compared on one scale */
    void *p;      /* what the kernel gets */
    void *before; /* what is there before it runs */
    void *want;   /* what portable C left there; while a variant is compared */
    void *block;  /* the memory of all of them; ours */
};

struct kvr_case_kit {
    int shape[KVR_CASE_DIMS];
    enum kvr_case_fill fill;
    bool aligned;    /* arguments begin at 64 bytes, else one element behind */
    bool has_values; /* an argument has been filled */
    int n_args;
    struct kvr_case_arg arg[KVR_CASE_ARGS]; /* in the order of the calls of kvr_case_arg */
};

struct kvr_kernel_case {
    const char *name;           /* "ops.gelu": table and function */
    const void *(*table)(void); /* the chosen one: variants that share a table are one */
    enum kvr_status (*prepare)(struct kvr_case_kit *k);
    void (*run)(const struct kvr_case_kit *k);
    /* NULL: portable C is right. Else what writes the results plainly, as the variant in force has
     * to: for kernels of which variants differ on purpose. Portable C is then compared, too. */
    void (*reference)(const struct kvr_case_kit *k);
    const char *beside; /* NULL, or a case of the same shapes that is timed beside this one */
    bool aligned;       /* memory begins at 64 bytes, always */
    const int (*shapes)[KVR_CASE_DIMS]; /* n_shapes of them; what they mean is the case's own */
    int n_shapes;
    int timed[KVR_CASE_DIMS];
    /* 0: the same bytes. Else |have - want| <= tol * size, of floats and of integers of 8 bits;
     * what is not finite has to be the same. size NULL: the largest finite |want| of the row. */
    double tol;
    double (*size)(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t row);
};

/* Those of each table, the last one without a name; the list of lists ends with NULL. */
extern const struct kvr_kernel_case *const kvr_kernel_lists[];

/* Add an argument of n elements and fill it. KVR_ENOMEM. Cycles and nanoseconds are told per
 * element of argument 0. */
enum kvr_status kvr_case_arg(struct kvr_case_kit *k, enum kvr_case_role role, enum kvr_dtype type,
                             size_t n, size_t row);

/* Prepare a case; closing copes with a half-built kit. */
enum kvr_status kvr_case_open(struct kvr_case_kit *k, const struct kvr_kernel_case *c,
                              const int shape[KVR_CASE_DIMS], enum kvr_case_fill fill);
void kvr_case_close(struct kvr_case_kit *k);

/* Arguments as they were before the kernel ran. */
void kvr_case_restore(const struct kvr_case_kit *k);

/* Bytes that the kernel reads and writes. */
size_t kvr_case_traffic(const struct kvr_case_kit *k);

/* Can this CPU run the variant, and has the case a copy of its own for it? Changes the choice in
 * force, as kvr_kernel_check does: kvr_isa_force(NULL) afterwards. */
bool kvr_case_has(const struct kvr_kernel_case *c, enum kvr_isa isa);

/* The case of this name, or NULL. */
const struct kvr_kernel_case *kvr_case_find(const char *name);

/* What the variant left in the arguments when it was run, held against portable C (or the
 * reference) on what was there before. */
enum kvr_status kvr_case_check(const struct kvr_kernel_case *c, enum kvr_isa isa,
                               const struct kvr_case_kit *k);

/* Every shape with every fill. KVR_ETOLERANCE says where a variant differs from portable C, and by
 * how much; KVR_EINTERNAL that it wrote where it may not. */
enum kvr_status kvr_kernel_check(const struct kvr_kernel_case *c, enum kvr_isa isa);

#ifdef __cplusplus
}
#endif
#endif
