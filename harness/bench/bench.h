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
    double ratio_q1, ratio_q3; /* quartiles of the ratio */
    double cold, warm;         /* median speed or time (in `unit`) with cold and with warm CPU
                                * caches (NaN: not measured) */
    double error;              /* L2 norm of the result's error / L2 norm of the exact result (NaN:
                                * not measured) */
    const char *reference;     /* name of the reference operation, such as "memcpy" */
    char missing[512];         /* why the row has no ratio ("": the row has a ratio) */
    int n;                     /* number of rounds */
    bool steady;               /* whether the ratios of all rounds but the last satisfy
                                * kvr_bench_steady */
    bool out_of_time;          /* whether the time limit ended the rounds before the ratios were
                                * steady */
    double mhz, watts;         /* medians of the GPU's clock in MHz and power in watts during the
                                * work (0: unknown) */
    int blocks;                /* number of resident CTAs per SM (0: unknown) */
};

/* Callbacks of a benchmark's caller. `row` receives each row as soon as it is complete and checked,
 * so that rows survive a failure of later rows. */
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

/* Ratios are steady if their median and both quartiles over the first half of the rounds differ
 * from those over all rounds by at most this fraction of the median. */
#define KVR_BENCH_STEADY 0.02

/* Returns whether the ratios of n rounds are steady (KVR_BENCH_STEADY). Returns false if n <
 * KVR_BENCH_LEAST_ROUNDS. */
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

/* Computes a row's statistics from n rounds: v [n] has each round's measured quantity (in
 * row->unit), ratio [n] its ratio. Sorts both arrays. The caller sets name, device and unit. The
 * fields `cold` and `warm` are not set. */
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
