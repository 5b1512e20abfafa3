/* kernel_case.h - test cases of CPU kernels: arguments and shapes with which each variant (AVX2,
 * AVX-512, ...) is timed and compared with portable C.
 *
 *     for (int i = 0; kvr_kernel_lists[i]; i++)
 *         for (const struct kvr_kernel_case *c = kvr_kernel_lists[i]; c->name; c++)
 *             KVR_TRY(kvr_kernel_check(c, KVR_ISA_OF_AVX2));
 *
 * The cases of a kernel table are in harness/bench/kernels_TABLE.c, and kernels.def lists the
 * tables. The function `prepare` of a case declares the kernel's arguments, and the function `run`
 * calls the kernel of the selected variant through the kernel table:
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
 * Each argument has guard bytes before and after it. The check fails if the kernel changes guard
 * bytes or read-only arguments. */
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

/* Whether the kernel reads an argument (IN), writes it (OUT) or does both (INOUT). */
enum kvr_case_role { KVR_CASE_IN, KVR_CASE_OUT, KVR_CASE_INOUT };

/* Initial values of floating-point arguments that the kernel reads (IN and INOUT). The function
 * kvr_kernel_case.prepare may overwrite them. Integer arguments get random bytes. */
enum kvr_case_fill {
    KVR_FILL_PLAIN,    /* uniform in [-2, 2) */
    KVR_FILL_ZERO,     /* 0 and -0 */
    KVR_FILL_CONSTANT, /* one value in all elements, with many bits set in its significand */
    KVR_FILL_OUTLIER,  /* values as for PLAIN, but one channel of each row is multiplied by 1000 */
    KVR_FILL_TINY,     /* values as for PLAIN times 1e-38, so that many are denormal in F32 */
    KVR_FILL_HUGE,     /* values as for PLAIN times 1e15; sums of squares stay finite in F32 */
    KVR_FILL_NAN,      /* values as for PLAIN, but the first of these arguments has one NaN */
    KVR_FILL_INF,      /* values as for PLAIN, but the first of these arguments has one -infinity */
    KVR_N_FILLS
};
const char *kvr_fill_name(enum kvr_case_fill fill);

struct kvr_case_arg {
    enum kvr_case_role role;
    enum kvr_dtype type;
    size_t n;     /* elements */
    size_t row;   /* number of elements per row; tolerances are relative to the magnitude of a row
                   * (kvr_kernel_case.tol) */
    void *p;      /* the pointer that is passed to the kernel */
    void *before; /* copy of the argument's content before the kernel ran */
    void *want;   /* expected result, from portable C or from kvr_kernel_case.reference */
    void *block;  /* allocation that contains the arrays `p`, `before` and `want` */
};

struct kvr_case_kit {
    int shape[KVR_CASE_DIMS];
    enum kvr_case_fill fill;
    bool aligned;    /* true: arguments are 64-byte aligned; false: arguments start one element
                      * after a 64-byte boundary */
    bool has_values; /* whether kvr_case_arg has filled a floating-point argument of this kit; if
                      * so, later arguments get no NaN or infinity from KVR_FILL_NAN or
                      * KVR_FILL_INF */
    int n_args;
    struct kvr_case_arg arg[KVR_CASE_ARGS]; /* arguments in the order of the kvr_case_arg calls that
                                             * added them */
};

struct kvr_kernel_case {
    const char *name;           /* kernel table and function, such as "ops.gelu" */
    const void *(*table)(void); /* returns the kernel table (struct of function pointers) of the
                                 * selected variant; variants with the same table are tested once */
    enum kvr_status (*prepare)(struct kvr_case_kit *k);
    void (*run)(const struct kvr_case_kit *k);
    /* Plain C function that computes the expected result of the selected variant, for kernels whose
     * variants differ by design. Portable C is then tested like the other variants. If `reference`
     * is NULL, the expected result is computed by portable C. */
    void (*reference)(const struct kvr_case_kit *k);
    const char *compared_to; /* name of another case with the same shapes, whose kernel is a
                              * reference of the benchmark of this kernel; may be NULL */
    bool aligned;            /* the kernel requires 64-byte alignment */
    const int (*shapes)[KVR_CASE_DIMS]; /* shapes [n_shapes]; the case defines the meaning of their
                                         * dimensions */
    int n_shapes;
    int timed[KVR_CASE_DIMS];
    /* Tolerance. If `tol` is 0, all bytes of a result must equal the expected bytes. Otherwise
     * floats and 8-bit integers must satisfy |result - expected| <= tol * magnitude, and non-finite
     * values must be equal. `size` computes the magnitude for a row of an argument. If `size` is
     * NULL, the magnitude is the largest finite |expected| of the row. */
    double tol;
    double (*size)(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t row);
};

/* The array has one list of cases for each kernel table, and ends with NULL. Each list ends with a
 * case whose name is NULL. */
extern const struct kvr_kernel_case *const kvr_kernel_lists[];

/* Adds an argument of n elements in rows of `row` elements. Fills it if the kernel reads it.
 * Benchmarks report the time per element of argument 0. KVR_ENOMEM. */
enum kvr_status kvr_case_arg(struct kvr_case_kit *k, enum kvr_case_role role, enum kvr_dtype type,
                             size_t n, size_t row);

/* Adds the three arguments of a kernel that computes C = A B, such as attention scores Q K^T. The
 * first argument is C [m,cols] in F32, with role `c`. A [m,inner] and B [inner,cols] follow, in
 * type `type`. B is stored as panels of KVR_ATTEND_PAD columns. */
enum kvr_status kvr_case_product_args(struct kvr_case_kit *k, enum kvr_case_role c,
                                      enum kvr_dtype type, int m, int inner, int cols);

/* Allocates and fills the arguments of a case. kvr_case_close frees them, also after kvr_case_open
 * has failed. */
enum kvr_status kvr_case_open(struct kvr_case_kit *k, const struct kvr_kernel_case *c,
                              const int shape[KVR_CASE_DIMS], enum kvr_case_fill fill);
void kvr_case_close(struct kvr_case_kit *k);

/* Restores the initial content of all arguments. */
void kvr_case_restore(const struct kvr_case_kit *k);

/* Returns the number of bytes that the kernel reads plus the number that it writes. */
size_t kvr_case_traffic(const struct kvr_case_kit *k);

/* Returns whether the kernel has code for the variant `isa` that this CPU can run. Returns false if
 * the variant uses the kernel table of a lesser variant. Like kvr_kernel_check, the function
 * changes the selected variant, so the caller must then call kvr_isa_force(NULL). */
bool kvr_case_has(const struct kvr_kernel_case *c, enum kvr_isa isa);

/* Returns the case with the name `name`, or NULL if no case has this name. */
const struct kvr_kernel_case *kvr_case_find(const char *name);

/* Checks the results that the variant wrote to the arguments of `k`. Computes the expected results
 * from the initial content of the arguments, which kvr_case_open saved in `before`. */
enum kvr_status kvr_case_check(const struct kvr_kernel_case *c, enum kvr_isa isa,
                               const struct kvr_case_kit *k);

/* Checks a variant of a kernel with all shapes of the case and all kinds of input data (enum
 * kvr_case_fill). KVR_ETOLERANCE: a result differs from the expected result (the message gives
 * position and size of the difference). KVR_EINTERNAL: the kernel wrote out of bounds. */
enum kvr_status kvr_kernel_check(const struct kvr_kernel_case *c, enum kvr_isa isa);

#ifdef __cplusplus
}
#endif
#endif
