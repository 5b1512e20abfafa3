/* bench.c - computes the statistics of a row over its rounds, and evicts CPU caches. */
#include "harness/bench/bench.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

void kvr_bench_fill(struct kvr_bench_row *row, double *v, double *ratio, int n)
{
    /* kvr_bench_steady() needs the rounds in their order; median() sorts them. */
    row->steady = kvr_bench_steady(ratio, n - 1);
    row->median = median(v, n);
    row->min = v[0];
    row->ratio = median(ratio, n);
    row->ratio_q1 = ratio[n / 4];
    row->ratio_q3 = ratio[n - 1 - n / 4];
    row->cold = row->warm = NAN;
    row->missing[0] = 0;
    row->n = n;
}

void kvr_bench_fill_caches(struct kvr_bench_row *row, double *cold, double *warm, int n)
{
    row->cold = median(cold, n);
    row->warm = median(warm, n);
}

/* Computes the first quartile, the median and the third quartile of the ratios. */
static void quartiles(const double *ratio, int n, double out[3])
{
    double sorted[KVR_BENCH_MAX_ROUNDS];

    memcpy(sorted, ratio, (size_t)n * sizeof *sorted);
    out[1] = median(sorted, n);
    out[0] = sorted[n / 4];
    out[2] = sorted[n - 1 - n / 4];
}

bool kvr_bench_steady(const double *ratio, int n)
{
    double before[3], now[3];

    if (n < KVR_BENCH_LEAST_ROUNDS)
        return false;
    quartiles(ratio, n / 2, before);
    quartiles(ratio, n, now);
    for (int i = 0; i < 3; i++)
        if (!(fabs(now[i] - before[i]) <= KVR_BENCH_STEADY * now[1]))
            return false;
    return true;
}

bool kvr_bench_last(const double *ratio, int n, int most)
{
    return n + 1 >= most || kvr_bench_steady(ratio, n);
}

/* ---- caches ------------------------------------------------------------------------------- */

/* LARGEST_CACHE limits the assumed size of the L3 cache in bytes. A virtual machine may report the
 * L3 cache of the whole socket (480 MiB on a Xeon). */
enum { LINE = 64, LAST_CACHE = 32 << 20, LARGEST_CACHE = 64 << 20 };

#if defined(__x86_64__)
bool kvr_bench_evict(const void *p, size_t n_bytes)
{
    const char *at = p, *end = at + n_bytes;

    for (at -= (uintptr_t)at % LINE; at < end; at += LINE)
        _mm_clflush(at);
    _mm_mfence();
    return true;
}
#elif defined(__aarch64__)
bool kvr_bench_evict(const void *p, size_t n_bytes)
{
    const char *at = p, *end = at + n_bytes;

    for (at -= (uintptr_t)at % LINE; at < end; at += LINE)
        __asm__ volatile("dc civac, %0" : : "r"(at) : "memory");
    __asm__ volatile("dsb sy" : : : "memory");
    return true;
}
#else
bool kvr_bench_evict(const void *p, size_t n_bytes)
{
    (void)p, (void)n_bytes;
    return false;
}
#endif

enum kvr_status kvr_bench_evict_all(void)
{
    const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const size_t last = l3 > 0 ? (size_t)l3 : l2 > 0 ? (size_t)l2 : LAST_CACHE;
    const size_t n = 2 * (last < LARGEST_CACHE ? last : LARGEST_CACHE);
    /* The buffer `kept` is never freed, because mapping new pages takes longer than the
     * eviction. */
    static volatile char *kept;

    if (!kept && !(kept = malloc(n)))
        return kvr_fail(
            KVR_ENOMEM,
            "bench: out of memory while allocating %zu bytes for evicting the CPU caches", n);
    for (size_t i = 0; i < n; i += LINE)
        kept[i] = (char)i;
    return KVR_OK;
}

/* Moves row 0 behind the last row, through a buffer of 4096 bytes on the stack. */
void kvr_bench_rotate_rows(void *x, size_t n_bytes, size_t row_bytes)
{
    char *p = x, piece[4096];

    for (size_t at = 0; at < row_bytes; at += sizeof piece) {
        const size_t n = row_bytes - at < sizeof piece ? row_bytes - at : sizeof piece;

        memcpy(piece, p, n);
        memmove(p, p + n, n_bytes - n);
        memcpy(p + n_bytes - n, piece, n);
    }
}

void kvr_bench_without(struct kvr_bench_row *row, const char *why)
{
    row->ratio = row->ratio_q1 = row->ratio_q3 = NAN;
    snprintf(row->missing, sizeof row->missing, "%s", why);
}

void kvr_bench_emit(const struct kvr_bench_sink *sink, const struct kvr_bench_row *row)
{
    if (sink)
        sink->row(sink->ctx, row);
}

bool kvr_bench_wanted(const struct kvr_bench_sink *sink, const char *name)
{
    return !sink || !sink->wanted || sink->wanted(sink->ctx, name);
}
