/* bench.h - rows of the micro-benchmarks (`kvreel bench`).
 *
 * A row is measured against a reference in the same process in alternating rounds, so that load and
 * clock changes affect both. Rounds end when the ratio is steady, or after a maximum number of
 * rounds:
 *
 *     for (n = 0, last = false; !last; n++) {
 *         last = kvr_bench_last(ratio, n, rounds);
 *         ... one round of each; results are checked if it is the last ...
 *     }
 *
 * A round runs with the cache content that the previous round left. The first
 * kvr_bench_cache_rounds() rounds time the same work twice more: with all its memory evicted
 * (`cold`), and immediately again (`warm`). */
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
    const char *variant;       /* kernel variant of the CPU; NULL: the selected one */
    const char *unit;          /* unit of median and min: "GB/s" */
    double median, min;        /* of the measured quantity over rounds */
    double ratio;              /* median over rounds of (this / reference); NaN: see missing */
    double ratio_q1, ratio_q3; /* quartiles of the ratio */
    double cold, warm;         /* medians like `median`; NaN: not measured */
    double error;              /* relative L2 error of the result; NaN: not measured */
    const char *reference;     /* name of the reference: "memcpy" */
    char missing[512];         /* why there is no ratio; "" if there is one */
    int n;                     /* number of rounds */
    bool steady;               /* kvr_bench_steady() ended the rounds */
    bool out_of_time;          /* the time limit ended the rounds */
    double mhz, watts;         /* median clock and power of the GPU while working; 0: unknown */
    int blocks;                /* resident blocks (CTAs) per SM; 0: unknown */
};

/* Receives each row once it is complete and checked, so that it survives a later failure. */
struct kvr_bench_sink {
    void (*row)(void *ctx, const struct kvr_bench_row *row);
    bool (*wanted)(void *ctx, const char *name); /* called before a row is measured; NULL: all */
    void *ctx;
};
/* sink may be NULL. */
void kvr_bench_emit(const struct kvr_bench_sink *sink, const struct kvr_bench_row *row);
bool kvr_bench_wanted(const struct kvr_bench_sink *sink, const char *name);

enum { KVR_BENCH_MAX_ROUNDS = 1000, KVR_BENCH_LEAST_ROUNDS = 15, KVR_BENCH_CACHE_ROUNDS = 5 };

/* Steady: median and quartiles of the ratio over all rounds differ from those over the first half
 * by at most this share of the median. */
#define KVR_BENCH_STEADY 0.02

/* Whether n rounds are steady; false below KVR_BENCH_LEAST_ROUNDS. */
bool kvr_bench_steady(const double *ratio, int n);
/* Whether round n (from 0) is the last: the previous n are steady, or n + 1 is `most`. */
bool kvr_bench_last(const double *ratio, int n, int most);

/* Number of initial rounds with cold and warm timings. It is 1 if `most`, the maximum number of
 * rounds, is small, so that quick runs stay quick. */
static inline int kvr_bench_cache_rounds(int most)
{
    return most < KVR_BENCH_LEAST_ROUNDS ? 1 : KVR_BENCH_CACHE_ROUNDS;
}

/* Fills a row from n rounds; sorts v and ratio. The caller sets name, device and unit; cold and
 * warm stay unset. */
void kvr_bench_fill(struct kvr_bench_row *row, double *v, double *ratio, int n);
/* Sets the row's cold and warm to the medians of cold, warm [n], the times of the first rounds.
 * Sorts both arrays in place. */
void kvr_bench_fill_caches(struct kvr_bench_row *row, double *cold, double *warm, int n);

/* Evicts p [n_bytes] from this CPU's caches, but not code or TLB entries. false: the CPU has no
 * such instruction. */
bool kvr_bench_evict(const void *p, size_t n_bytes);
/* Evicts this CPU's caches by writing twice the last-level cache's size, at most 128 MiB, to a
 * buffer kept until exit; one thread at a time. Data in a larger L3 or in caches shared with other
 * cores may remain. KVR_ENOMEM. */
enum kvr_status kvr_bench_evict_all(void);

/* Rotates the input's rows by one, so that the next round has a different input with the same
 * values. A kernel that reuses results of an earlier round then fails the check after timing. */
void kvr_bench_rotate_rows(void *x, size_t n_bytes, size_t row_bytes);

/* Sets the ratio to NaN and row->missing to the reason `why`. */
void kvr_bench_without(struct kvr_bench_row *row, const char *why);

#ifdef __cplusplus
}
#endif
#endif
