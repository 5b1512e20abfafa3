/* bench.h - rows of the micro-benchmarks (`kvreel bench`).
 *
 * A row compares the speed of an operation (the work) with that of a reference operation. The work
 * and the reference run alternately in the same process, so that load and clock changes affect
 * both. The rounds end when the ratio of the two measurements is steady, or after a maximum number
 * of rounds:
 *
 *     for (n = 0, last = false; !last; n++) {
 *         last = kvr_bench_last(ratio, n, rounds);
 *         ... one round of each; results are checked if it is the last ...
 *     }
 *
 * A round starts with the CPU caches as the previous round left them. Each of the first
 * kvr_bench_cache_rounds() rounds includes two further runs of the work. Before the first of these
 * runs, the memory of the work is evicted from all caches (`cold`). The second run follows
 * immediately (`warm`). */
#ifndef KVR_BENCH_BENCH_H
#define KVR_BENCH_BENCH_H

#include <stdbool.h>

#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_bench_row {
    char name[96];             /* "quantise.RTN_INT4.k" */
    const char *device;        /* "cpu", "cuda", "emulated" */
    const char *variant;       /* kernel variant of the CPU (NULL: the selected variant) */
    const char *unit;          /* unit of `median` and `min`, such as "GB/s" */
    double median, min;        /* median and minimum of the measured quantity over rounds */
    double ratio;              /* speed of the work divided by the speed of the reference, median
                                * over rounds (NaN: see `missing`) */
    double ratio_q1, ratio_q3; /* quartiles of the ratio */
    double cold, warm;         /* like `median`, but measured with cold or warm CPU caches (NaN: not
                                * measured) */
    double error;              /* relative L2 error of the work's result (NaN: not measured) */
    const char *reference;     /* name of the reference operation, such as "memcpy" */
    char missing[512];         /* why the row has no ratio ("": the row has a ratio) */
    int n;                     /* number of rounds */
    bool steady;               /* whether the ratios before the last round were steady */
    bool out_of_time;          /* the time limit ended the rounds early */
    double mhz, watts;         /* medians of the GPU's clock in MHz and power in watts during the
                                * work (0: unknown) */
    int blocks;                /* number of resident CTAs per SM (0: unknown) */
};

/* Callbacks for rows. `row` receives each row as soon as it is complete and checked, so that rows
 * survive a failure of later rows. */
struct kvr_bench_sink {
    void (*row)(void *ctx, const struct kvr_bench_row *row);
    bool (*wanted)(void *ctx, const char *name); /* returns whether to measure the row `name` (NULL:
                                                  * all rows are measured) */
    void *ctx;
};
/* Passes a row to the sink, which may be NULL. */
void kvr_bench_emit(const struct kvr_bench_sink *sink, const struct kvr_bench_row *row);
/* Returns whether the sink wants this row; true if `sink` is NULL. */
bool kvr_bench_wanted(const struct kvr_bench_sink *sink, const char *name);

enum { KVR_BENCH_MAX_ROUNDS = 1000, KVR_BENCH_LEAST_ROUNDS = 15, KVR_BENCH_CACHE_ROUNDS = 5 };

/* Limit for steady ratios. Ratios are steady if their median and quartiles are nearly the same over
 * all rounds as over the first half of the rounds. The tolerance is this fraction of the median. */
#define KVR_BENCH_STEADY 0.02

/* Returns whether the ratios of n rounds are steady; false if n < KVR_BENCH_LEAST_ROUNDS. */
bool kvr_bench_steady(const double *ratio, int n);
/* Returns whether round n (from 0) is the last round: the ratios of rounds 0 to n - 1 are steady,
 * or n + 1 is the maximum `most`. */
bool kvr_bench_last(const double *ratio, int n, int most);

/* Returns the number of first rounds that additionally time the work with cold and with warm CPU
 * caches. The result is 1 if the maximum number of rounds, `most`, is small, so that short
 * benchmarks stay short. */
static inline int kvr_bench_cache_rounds(int most)
{
    return most < KVR_BENCH_LEAST_ROUNDS ? 1 : KVR_BENCH_CACHE_ROUNDS;
}

/* Computes a row's statistics from the values v [n] and ratios [n] of n rounds, and sorts both
 * arrays. The caller sets name, device and unit. The fields `cold` and `warm` are not set. */
void kvr_bench_fill(struct kvr_bench_row *row, double *v, double *ratio, int n);
/* Sets row->cold and row->warm to the medians of cold [n] and warm [n], which were measured in the
 * first n rounds. Sorts both arrays. */
void kvr_bench_fill_caches(struct kvr_bench_row *row, double *cold, double *warm, int n);

/* Evicts the memory p [n_bytes] from this CPU's caches; code and TLB entries stay. Returns false if
 * the CPU has no cache flush instruction. */
bool kvr_bench_evict(const void *p, size_t n_bytes);
/* Evicts data from this CPU's caches by writing a buffer of twice the last-level cache's size, at
 * most 128 MiB. The buffer is kept until the process exits. Data may remain in a larger L3 and in
 * caches of other cores. Only one thread at a time may call the function. KVR_ENOMEM. */
enum kvr_status kvr_bench_evict_all(void);

/* Rotates the rows of an input by one, so that the next round's input has the same rows in another
 * order. A kernel that reuses results of an earlier round then fails the check after timing. */
void kvr_bench_rotate_rows(void *x, size_t n_bytes, size_t row_bytes);

/* Sets the row's ratio to NaN, and row->missing to the reason `why`. */
void kvr_bench_without(struct kvr_bench_row *row, const char *why);

#ifdef __cplusplus
}
#endif
#endif
