/* kernel_case.h - CPU kernels with several variants: everything needed to test a variant against
 * portable C and to time it.
 *
 *     for (int i = 0; kvr_kernel_lists[i]; i++)
 *         for (const struct kvr_kernel_case *c = kvr_kernel_lists[i]; c->name; c++)
 *             KVR_TRY(kvr_kernel_check(c, KVR_ISA_OF_AVX2));
 *
 * The cases of one table are in harness/bench/kernels_TABLE.c, and the table is listed in
 * kernels.def. A case declares its arguments and calls the kernel through the table's accessor,
 * which returns the selected variant:
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
 * Arguments have guard bytes before and after; read-only arguments must be unchanged. */
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

/* Initial content of IN and INOUT; `prepare` may overwrite it. */
enum kvr_case_fill {
    KVR_FILL_PLAIN,    /* uniform in [-2, 2) */
    KVR_FILL_ZERO,     /* 0 and -0 */
    KVR_FILL_CONSTANT, /* one value, not the sum of a few powers of two */
    KVR_FILL_OUTLIER,  /* PLAIN; one channel of a row is 1000 times as large */
    KVR_FILL_TINY,     /* 1e-38: denormal range */
    KVR_FILL_HUGE,     /* 1e15: squares and their sums stay finite */
    KVR_FILL_NAN,      /* PLAIN; one NaN in the first filled argument */
    KVR_FILL_INF,      /* PLAIN; one infinity in the first filled argument */
    KVR_N_FILLS
};
const char *kvr_fill_name(enum kvr_case_fill fill);

struct kvr_case_arg {
    enum kvr_case_role role;
    enum kvr_dtype type;
    size_t n;     /* elements */
    size_t row;   /* elements per row: differences are relative to the row */
    void *p;      /* pointer passed to the kernel */
    void *before; /* content before the kernel ran */
    void *want;   /* portable C's result, while comparing a variant */
    void *block;  /* allocation that contains p, before and want */
};

struct kvr_case_kit {
    int shape[KVR_CASE_DIMS];
    enum kvr_case_fill fill;
    bool aligned;    /* 64-byte aligned, else offset by one element */
    bool has_values; /* an argument has been filled */
    int n_args;
    struct kvr_case_arg arg[KVR_CASE_ARGS]; /* in the order of the kvr_case_arg calls */
};

struct kvr_kernel_case {
    const char *name;           /* "ops.gelu": table and function */
    const void *(*table)(void); /* the selected table; variants with the same table count as one
                                 * variant */
    enum kvr_status (*prepare)(struct kvr_case_kit *k);
    void (*run)(const struct kvr_case_kit *k);
    /* NULL: portable C is the reference. Otherwise computes the expected result of the selected
     * variant in plain C, for kernels whose variants differ by design; portable C is then tested
     * too. */
    void (*reference)(const struct kvr_case_kit *k);
    const char *compared_to; /* NULL, or a case of the same shapes timed for comparison */
    bool aligned;            /* always 64-byte aligned */
    const int (*shapes)[KVR_CASE_DIMS]; /* n_shapes entries; their meaning is defined by the case */
    int n_shapes;
    int timed[KVR_CASE_DIMS];
    /* 0: identical bytes. Else |have - want| <= tol * size for floats and 8-bit integers;
     * non-finite values must match. size NULL: the largest finite |want| of the row. */
    double tol;
    double (*size)(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t row);
};

/* One list of cases per kernel table, terminated by a case without a name; ends with NULL. */
extern const struct kvr_kernel_case *const kvr_kernel_lists[];

/* Adds an argument of n elements and fills it. KVR_ENOMEM. Cycles and nanoseconds are reported per
 * element of argument 0. */
enum kvr_status kvr_case_arg(struct kvr_case_kit *k, enum kvr_case_role role, enum kvr_dtype type,
                             size_t n, size_t row);

/* Adds the arguments of an attention product C = A B: c [m,cols] F32, a [m,inner], b [inner,cols]
 * in panels of KVR_ATTEND_PAD columns; a and b are of `type`. */
enum kvr_status kvr_case_product_args(struct kvr_case_kit *k, enum kvr_case_role c,
                                      enum kvr_dtype type, int m, int inner, int cols);

/* Allocates and fills the arguments of a case; close accepts a partially built kit. */
enum kvr_status kvr_case_open(struct kvr_case_kit *k, const struct kvr_kernel_case *c,
                              const int shape[KVR_CASE_DIMS], enum kvr_case_fill fill);
void kvr_case_close(struct kvr_case_kit *k);

/* Restores the arguments' initial content. */
void kvr_case_restore(const struct kvr_case_kit *k);

/* Bytes read plus bytes written by the kernel. */
size_t kvr_case_traffic(const struct kvr_case_kit *k);

/* Whether this CPU can run the variant and the case has its own code for it. Changes the selected
 * variant, as kvr_kernel_check does: call kvr_isa_force(NULL) afterwards. */
bool kvr_case_has(const struct kvr_kernel_case *c, enum kvr_isa isa);

/* The case of this name, or NULL. */
const struct kvr_kernel_case *kvr_case_find(const char *name);

/* Compares the variant's result in the arguments with portable C (or the reference) on the initial
 * content. */
enum kvr_status kvr_case_check(const struct kvr_kernel_case *c, enum kvr_isa isa,
                               const struct kvr_case_kit *k);

/* Checks all shapes with all fills. KVR_ETOLERANCE: location and size of a difference from portable
 * C. KVR_EINTERNAL: a write out of bounds. */
enum kvr_status kvr_kernel_check(const struct kvr_kernel_case *c, enum kvr_isa isa);

#ifdef __cplusplus
}
#endif
#endif
