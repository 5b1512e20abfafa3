/* bench.h - rows of the micro-benchmarks (`kvreel bench`).
 *
 * A row compares the speed of an operation (the work) with that of a reference operation. The work
 * and the reference run alternately in the same process, so that load and clock changes affect
 * both. The rounds end when the ratio of the two measurements is steady (KVR_BENCH_STEADY), or
 * after a maximum number of rounds:
 *
 *     for (n = 0, last = false; !last; n++) {
 *         last = kvr_bench_last(ratio, n, rounds);
 *         ... one round of each; results are checked if it is the last ...
 *     }
 *
 * A round starts with the CPU caches as the previous round left them. Each of the first
 * kvr_bench_cache_rounds() rounds includes two further runs of the work. Before the first of these
 * runs, the data that the work reads or writes is evicted from all CPU caches (`cold`). The second
 * run follows immediately (`warm`). */
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
    double ratio;              /* median over rounds of work speed / reference speed (NaN: `missing`
                                * gives the reason) */
    double ratio_q1, ratio_q3; /* first and third quartile of the ratio over rounds */
    double cold, warm;         /* median speed or time (in `unit`) with cold and with warm CPU
                                * caches (NaN: not measured) */
    double error;              /* L2 norm of the result's error / L2 norm of the exact result (NaN:
                                * not measured) */
    const char *reference;     /* name of the reference operation, such as "memcpy" */
    char missing[512];         /* why the row has no ratio ("": the row has a ratio) */
    int n;                     /* number of rounds */
    bool steady;               /* whether the ratios were steady (kvr_bench_steady) when the last
                                * round began */
    bool out_of_time;          /* whether the time limit ended the rounds before the ratios were
                                * steady */
    double mhz, watts;         /* medians of the GPU's clock in MHz and power in watts during the
                                * work (0: unknown) */
    int blocks;                /* resident CTAs per SM of the timed CUDA kernel (0: unknown) */
};

/* Callbacks by which the caller of a benchmark selects rows and receives them. The benchmark calls
 * `row` as soon as a row is complete and checked, so that rows survive a failure of later rows. */
struct kvr_bench_sink {
    void (*row)(void *ctx, const struct kvr_bench_row *row);
    bool (*wanted)(void *ctx, const char *name); /* returns whether to measure the row `name` (NULL:
                                                  * all rows are measured) */
    void *ctx;
};
/* Calls sink->row with the row. Does nothing if `sink` is NULL. */
void kvr_bench_emit(const struct kvr_bench_sink *sink, const struct kvr_bench_row *row);
/* Returns sink->wanted for the row `name`, or true if `sink` or `wanted` is NULL. */
bool kvr_bench_wanted(const struct kvr_bench_sink *sink, const char *name);

enum { KVR_BENCH_MAX_ROUNDS = 1000, KVR_BENCH_LEAST_ROUNDS = 15, KVR_BENCH_CACHE_ROUNDS = 5 };

/* Ratios are steady if more rounds hardly change their statistics. The median and both quartiles
 * are computed for the first half of the rounds and for all rounds. Each of the three may change by
 * at most this fraction of the median. */
#define KVR_BENCH_STEADY 0.02

/* Returns whether ratio [n], the ratios of n rounds, is steady as KVR_BENCH_STEADY defines. Returns
 * false if n < KVR_BENCH_LEAST_ROUNDS. */
bool kvr_bench_steady(const double *ratio, int n);
/* Returns whether round n, counted from 0, must be the last round. This is so if the ratios of the
 * n earlier rounds are steady, or if round n is the last of at most `most` rounds. */
bool kvr_bench_last(const double *ratio, int n, int most);

/* Returns the number of first rounds that additionally time the work with cold and with warm CPU
 * caches. The result is 1 if the maximum number of rounds, `most`, is small, so that short
 * benchmarks stay short. */
static inline int kvr_bench_cache_rounds(int most)
{
    return most < KVR_BENCH_LEAST_ROUNDS ? 1 : KVR_BENCH_CACHE_ROUNDS;
}

/* Computes a row's statistics from n rounds. The array v [n] has the measured quantity of each
 * round in row->unit, and ratio [n] has the ratio of each round. Sorts both arrays. The caller sets
 * `name`, `device` and `unit`. `cold` and `warm` become NaN. */
void kvr_bench_fill(struct kvr_bench_row *row, double *v, double *ratio, int n);
/* Sets row->cold and row->warm to the medians of cold [n] and warm [n], measurements with cold and
 * with warm CPU caches. Sorts both arrays. */
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
