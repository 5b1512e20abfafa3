/* bench_kernels.c - see bench_kernels.h. */
#include "harness/bench/bench_kernels.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/kernel_case.h"
#include "harness/bench/kernel_library.h"
#include "harness/core/onednn.h"

#if defined(__x86_64__)
#include <x86intrin.h>

/* The CPU's time stamp counter counts at the nominal frequency, regardless of the core clock, so
 * the unit is not core cycles. */
static const char unit[] = "nominal cycles/element";

static uint64_t ticks(void)
{
    return __rdtsc();
}
#else
#include "harness/core/clock.h"

static const char unit[] = "ns/element";

static uint64_t ticks(void)
{
    return (uint64_t)kvr_now_ns();
}
#endif

enum { MEMCPY = KVR_N_ISA, LIBRARY, COMPARED, N_RUNNERS };

/* Benchmark of one kernel. Each round times every runner once. The runners are the kernel's
 * variants, a memcpy, an equivalent oneDNN primitive (LIBRARY) and the kernel `compared_to`
 * (COMPARED). */
struct trial {
    const struct kvr_kernel_case *c;
    struct kvr_case_kit kit;
    struct kvr_kernel_library *library;
    const struct kvr_kernel_case *compared_to; /* another kernel to compare with; NULL: none */
    struct kvr_case_kit other;                 /* arguments of `compared_to` */
    char *from, *to;
    size_t copied; /* number of bytes that the memcpy copies */
    bool has[N_RUNNERS];
    int rounds, n; /* maximum number of rounds; number of rounds so far */
    /* [N_RUNNERS, rounds], time per element of each runner in each round; then scratch [2,
     * rounds] */
    double *took;
    double cold[KVR_N_ISA][KVR_BENCH_CACHE_ROUNDS];
};

static enum kvr_status run_once(const struct trial *t, int who)
{
    if (who == LIBRARY)
        return kvr_kernel_library_run(t->library);
    if (who == MEMCPY)
        memcpy(t->to, t->from, t->copied);
    else if (who == COMPARED)
        t->compared_to->run(&t->other);
    else
        t->c->run(&t->kit);
    return KVR_OK;
}

static void restore(const struct trial *t, int who)
{
    kvr_case_restore(who == COMPARED ? &t->other : &t->kit);
}

static enum kvr_status time_it(const struct trial *t, int who, double *took)
{
    uint64_t t0 = ticks();

    KVR_TRY(run_once(t, who));
    t0 = ticks() - t0;
    *took = (double)(t0 ? t0 : 1) / (double)t->kit.arg[0].n;
    return KVR_OK;
}

/* Measures the time per element of one runner. An untimed run first loads the data into the CPU
 * caches, as far as it fits. */
static enum kvr_status time_once(const struct trial *t, int who, double *took)
{
    if (who < KVR_N_ISA)
        KVR_TRY(kvr_isa_force(kvr_isa_name((enum kvr_isa)who)));
    restore(t, who);
    KVR_TRY(run_once(t, who));
    restore(t, who);
    return time_it(t, who, took);
}

/* Measures the time per element of the selected variant after its arguments were evicted from the
 * CPU caches. */
static enum kvr_status time_cold(const struct trial *t, int who, double *took)
{
    bool evicted = true;

    restore(t, who);
    for (int i = 0; i < t->kit.n_args; i++)
        evicted = kvr_bench_evict(t->kit.arg[i].p,
                                  t->kit.arg[i].n * kvr_dtype_size(t->kit.arg[i].type)) &&
                  evicted;
    KVR_TRY(time_it(t, who, took));
    *took = evicted ? *took : NAN;
    return KVR_OK;
}

/* Returns whether the next round of the trial is the last: the ratio of the memcpy's time to every
 * runner's time is steady, or the maximum number of rounds is reached. */
static bool is_last(const struct trial *t)
{
    double ratio[KVR_BENCH_MAX_ROUNDS];

    for (int who = 0; who < N_RUNNERS; who++) {
        for (int r = 0; r < t->n; r++)
            ratio[r] = t->took[MEMCPY * t->rounds + r] / t->took[who * t->rounds + r];
        if (t->has[who] && !kvr_bench_last(ratio, t->n, t->rounds))
            return false;
    }
    return true;
}

static enum kvr_status one_round(struct trial *t, bool last)
{
    for (int who = 0; who < N_RUNNERS; who++) {
        if (!t->has[who])
            continue;
        KVR_TRY(time_once(t, who, &t->took[who * t->rounds + t->n]));
        /* The result of the last timed run of each variant is checked. */
        if (last && who < KVR_N_ISA)
            KVR_TRY(kvr_case_check(t->c, (enum kvr_isa)who, &t->kit));
        if (who < KVR_N_ISA && t->n < kvr_bench_cache_rounds(t->rounds))
            KVR_TRY(time_cold(t, who, &t->cold[who][t->n]));
    }
    return KVR_OK;
}

/* Runs all rounds. Each round runs `compared_to` last. It then uses the widest instruction set of
 * the kernel's variants, because that was selected last. */
static enum kvr_status take_turns(struct trial *t)
{
    for (bool last = false; !last; t->n++) {
        last = is_last(t);
        KVR_TRY(one_round(t, last));
    }
    return KVR_OK;
}

static enum kvr_status trial_open(struct trial *t, const struct kvr_kernel_case *c, int rounds)
{
    memset(t, 0, sizeof *t);
    t->c = c;
    t->rounds = rounds;
    for (int i = 0; i < KVR_N_ISA; i++)
        t->has[i] = kvr_case_has(c, (enum kvr_isa)i);
    KVR_TRY(kvr_case_open(&t->kit, c, c->timed, KVR_FILL_PLAIN));
    KVR_TRY(kvr_kernel_library_open(&t->library, c, &t->kit));
    if (c->compared_to) {
        t->compared_to = kvr_case_find(c->compared_to);
        if (!t->compared_to)
            return kvr_fail(KVR_EINTERNAL,
                            "bench: %s: the kernel case to compare with, %s, does not exist",
                            c->name, c->compared_to);
        KVR_TRY(kvr_case_open(&t->other, t->compared_to, c->timed, KVR_FILL_PLAIN));
    }
    t->has[MEMCPY] = true;
    t->has[COMPARED] = t->compared_to != NULL;
    t->has[LIBRARY] = t->library != NULL;
    /* A memcpy reads and writes every byte, so it copies half as many bytes as the kernel reads and
     * writes. */
    t->copied = kvr_case_traffic(&t->kit) / 2;
    t->from = malloc(t->copied + 1);
    t->to = malloc(t->copied + 1);
    t->took = calloc((size_t)(N_RUNNERS + 2) * (size_t)rounds, sizeof *t->took);
    if (!t->from || !t->to || !t->took)
        return kvr_fail(KVR_ENOMEM,
                        "bench: out of memory while allocating the buffers of kernel %s", c->name);
    /* Unwritten pages would all map to the same physical page of zeros. */
    memset(t->from, 1, t->copied + 1);
    return KVR_OK;
}

static void trial_close(struct trial *t)
{
    kvr_kernel_library_close(&t->library);
    kvr_case_close(&t->kit);
    kvr_case_close(&t->other);
    free(t->from);
    free(t->to);
    free(t->took);
}

static enum kvr_status write_row(const struct trial *t, int who, int reference, const char *called,
                                 struct kvr_bench_row *rows, int *n_rows)
{
    const int few = kvr_bench_cache_rounds(t->rounds);
    double *v = t->took + N_RUNNERS * t->rounds, *ratio = v + t->rounds;
    struct kvr_bench_row *row = &rows[*n_rows];
    double cold[KVR_BENCH_CACHE_ROUNDS], warm[KVR_BENCH_CACHE_ROUNDS];

    if (*n_rows == KVR_BENCH_KERNELS_ROWS)
        return kvr_fail(KVR_EINTERNAL,
                        "bench: the kernel variants need more than the limit of %d result rows",
                        KVR_BENCH_KERNELS_ROWS);
    for (int r = 0; r < t->n; r++) {
        v[r] = t->took[who * t->rounds + r];
        ratio[r] = t->took[reference * t->rounds + r] / v[r];
    }
    *row = (struct kvr_bench_row){ .device = "cpu",
                                   .unit = unit,
                                   .reference = called,
                                   .variant = kvr_isa_name((enum kvr_isa)who) };
    snprintf(row->name, sizeof row->name, "%s", t->c->name);
    kvr_bench_fill(row, v, ratio, t->n);
    memcpy(cold, t->cold[who], sizeof cold);
    for (int r = 0; r < few; r++)
        warm[r] = row->median; /* in every round, an untimed run warms the CPU caches */
    kvr_bench_fill_caches(row, cold, warm, few);
    ++*n_rows;
    return KVR_OK;
}

static enum kvr_status write_rows(const struct trial *t, struct kvr_bench_row *rows, int *n_rows)
{
    for (int who = 0; who < KVR_N_ISA; who++) {
        if (!t->has[who])
            continue;
        if (who != KVR_ISA_OF_PORTABLE)
            KVR_TRY(write_row(t, who, KVR_ISA_OF_PORTABLE, "portable", rows, n_rows));
        KVR_TRY(write_row(t, who, MEMCPY, "memcpy", rows, n_rows));
        if (t->library)
            KVR_TRY(write_row(t, who, LIBRARY, kvr_kernel_library_name(t->library), rows, n_rows));
        if (t->compared_to)
            KVR_TRY(write_row(t, who, COMPARED, t->compared_to->name, rows, n_rows));
    }
    return KVR_OK;
}

static enum kvr_status time_case(const struct kvr_kernel_case *c, int rounds,
                                 struct kvr_bench_row *rows, int *n_rows)
{
    struct trial t;
    enum kvr_status st = trial_open(&t, c, rounds);

    for (int i = 0; st == KVR_OK && i < KVR_N_ISA; i++)
        if (t.has[i] && i != KVR_ISA_OF_PORTABLE)
            st = kvr_kernel_check(c, (enum kvr_isa)i);
    if (st == KVR_OK)
        st = take_turns(&t);
    if (st == KVR_OK)
        st = write_rows(&t, rows, n_rows);
    trial_close(&t);
    return st;
}

enum kvr_status kvr_bench_kernels(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                  int *n_rows)
{
    const int threads = omp_get_max_threads();
    enum kvr_status st = KVR_OK, back;

    (void)dev; /* only the CPU has kernel variants */
    *n_rows = 0;
    if (rounds < 3 || rounds > KVR_BENCH_MAX_ROUNDS)
        return kvr_fail(KVR_EINVAL, "bench: %d rounds requested, need 3..%d", rounds,
                        KVR_BENCH_MAX_ROUNDS);
    /* The first call limits oneDNN to the instruction set that is selected now, which must be the
     * user's choice, not a variant that the benchmark selects. */
    kvr_onednn_limit();
    omp_set_num_threads(1);
    for (int l = 0; st == KVR_OK && kvr_kernel_lists[l]; l++)
        for (const struct kvr_kernel_case *c = kvr_kernel_lists[l]; st == KVR_OK && c->name; c++)
            st = time_case(c, rounds, rows, n_rows);
    omp_set_num_threads(threads);
    back = kvr_isa_force(NULL);
    return st != KVR_OK ? st : back;
}
