/* bench.h - rows of the micro-benchmarks (`kvreel bench`).
 *
 * A row is measured against a reference in the same process, the two taking turns, so that a
 * busy or a slow machine moves both. */
#ifndef KVR_BENCH_BENCH_H
#define KVR_BENCH_BENCH_H

#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_bench_row {
    char name[96];             /* "quantise.RTN_INT4.k" */
    const char *device;        /* "cpu", "cuda", "emulated" */
    const char *variant;       /* of the CPU's kernels; NULL: the one in force */
    const char *unit;          /* of median and min: "GB/s" */
    double median, min;        /* over the rounds */
    double ratio;              /* median of (this / reference) round by round; NaN: see missing */
    double ratio_q1, ratio_q3; /* its quartiles */
    double error;              /* of the result, relative L2; NaN: not told */
    const char *reference;     /* what it is compared with: "memcpy" */
    char missing[128];         /* why there is no ratio; "": there is one */
    int n;                     /* rounds */
};

enum { KVR_BENCH_MAX_ROUNDS = 1000 };

/* Fill a row from n rounds; v and ratio are sorted. Name, device and unit are the caller's. */
void kvr_bench_fill(struct kvr_bench_row *row, double *v, double *ratio, int n);

/* Other input for the next round, of the same numbers: the first row of n_bytes goes to the end.
 * What a kernel has kept of an earlier round is then wrong, and found when results are checked
 * after they were timed. */
void kvr_bench_turn(void *x, size_t n_bytes, size_t row_bytes);

/* Take the ratio away. */
void kvr_bench_without(struct kvr_bench_row *row, const char *why);

#ifdef __cplusplus
}
#endif
#endif
