/* bench.h - rows of the micro-benchmarks (`kvreel bench`).
 *
 * A row is measured against a reference in the same process, the two taking turns, so that a
 * busy or a slow machine moves both. Turns end when they have become steady, or at so many:
 *
 *     for (n = 0, last = false; !last; n++) {
 *         last = kvr_bench_last(ratio, n, rounds);
 *         ... one turn, whose results are looked at when it is the last ...
 *     }
 *
 * The turns' own times find in the caches what the turn before them left there. Of the first
 * kvr_bench_cache_rounds() turns the same work is timed twice more: once when none of its memory is
 * in any cache (`cold`), and at once again (`warm`), when all of it is that fits. */
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
    const char *variant;       /* of the CPU's kernels; NULL: the one in force */
    const char *unit;          /* of median and min: "GB/s" */
    double median, min;        /* over the rounds */
    double ratio;              /* median of (this / reference) round by round; NaN: see missing */
    double ratio_q1, ratio_q3; /* its quartiles */
    double cold, warm;         /* medians as `median`; NaN: not told */
    double error;              /* of the result, relative L2; NaN: not told */
    const char *reference;     /* what it is compared with: "memcpy" */
    char missing[128];         /* why there is no ratio; "": there is one */
    int n;                     /* rounds */
    bool steady;               /* kvr_bench_steady(), which is why the last of them was */
    bool out_of_time;          /* the last of them was because no time was left */
    double mhz, watts;         /* a GPU's while it worked, in the median; 0: nobody tells */
    int blocks;                /* of its kernel that a multiprocessor takes at once; 0: not told */
};

/* Whoever wants rows as they come, so that what is measured outlives what comes after it: a row that is
 * told is whole, and was right after it was timed. */
struct kvr_bench_sink {
    void (*row)(void *ctx, const struct kvr_bench_row *row);
    void *ctx;
};
void kvr_bench_tell(const struct kvr_bench_sink *sink,
                    const struct kvr_bench_row *row); /* or NULL */

enum { KVR_BENCH_MAX_ROUNDS = 1000, KVR_BENCH_LEAST_ROUNDS = 15, KVR_BENCH_CACHE_ROUNDS = 5 };

/* How far the median and the quartiles of a row's ratio may lie from those of the first half of its
 * rounds, as a part of the median. */
#define KVR_BENCH_STEADY 0.02

/* Have n rounds become steady? Not before KVR_BENCH_LEAST_ROUNDS of them. */
bool kvr_bench_steady(const double *ratio, int n);
/* Is the round after n others the last one? Of `most` at the most. */
bool kvr_bench_last(const double *ratio, int n, int most);

/* Of how many of the first rounds cold and warm are told, where there are `most` at the most: one of
 * few, so that a quick look stays quick. */
static inline int kvr_bench_cache_rounds(int most)
{
    return most < KVR_BENCH_LEAST_ROUNDS ? 1 : KVR_BENCH_CACHE_ROUNDS;
}

/* Fill a row from n rounds; v and ratio are sorted. Name, device and unit are the caller's; cold and
 * warm are not told. */
void kvr_bench_fill(struct kvr_bench_row *row, double *v, double *ratio, int n);
/* cold, warm [n] of the first rounds; they are sorted. */
void kvr_bench_fill_caches(struct kvr_bench_row *row, double *cold, double *warm, int n);

/* Afterwards no byte of p [n_bytes] is in a cache of this CPU. Code and address translation stay
 * where they are. false: there is no instruction for that here. */
bool kvr_bench_evict(const void *p, size_t n_bytes);
/* The same of whatever there is, by writing twice as many bytes as the last cache has; some may be
 * left where others share it. KVR_ENOMEM. */
enum kvr_status kvr_bench_evict_all(void);

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
