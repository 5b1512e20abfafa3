/* rounds_cuda.h - times work on a CUDA device against a reference, with events in the stream.
 *
 *     const struct kvr_rounds t = { .dev = dev, .ctx = &kit, .run = encode, .reference = copy,
 *                                  .rounds = 15, .times = 8 };
 *     KVR_TRY(kvr_rounds_run(&t, &times));
 *     ... times.ns[i], times.reference_ns[i] of times.n rounds ...
 *
 * Filler work precedes each timed stretch, so that the host has queued the whole stretch before the
 * device starts it. Launch overhead is thus not measured. */
#ifndef KVR_BENCH_ROUNDS_CUDA_H
#define KVR_BENCH_ROUNDS_CUDA_H

#include <stdbool.h>

#include "harness/bench/bench.h"

typedef enum kvr_status kvr_round_fn(void *ctx, int iter);

struct kvr_rounds {
    struct kvr_dev *dev; /* CUDA */
    void *ctx;
    /* Queues the work once. `iter` increases by one each time and selects the buffer. */
    kvr_round_fn *run, *reference;
    int rounds, times;          /* maximum number of rounds; runs of the work, and of the reference,
                                 * in each round */
    const struct kvr_buf *busy; /* memory that the filler work overwrites; NULL: no filler work */
};

/* Nanoseconds per iteration. `warm`: the first rounds repeated on one buffer, which stays in L2 as far
 * as it fits. Ordinary turns cycle through more memory than L2 (kvr_rounds_buffers), so only data
 * that all turns read, such as a layer's weights, is warm. */
struct kvr_round_times {
    double ns[KVR_BENCH_MAX_ROUNDS], reference_ns[KVR_BENCH_MAX_ROUNDS];
    double warm_ns[KVR_BENCH_CACHE_ROUNDS];
    int n, n_warm;
    double mhz, watts; /* medians of the GPU's clock and power, sampled once per round while it
                        * works (gpu_state.h); 0: unknown */
};

/* The first rounds, which include module loading, are discarded. */
enum kvr_status kvr_rounds_run(const struct kvr_rounds *t, struct kvr_round_times *out);

/* Row for these times: `work` (bytes, operations) over nanoseconds, ratio, clock and power. */
void kvr_rounds_fill(struct kvr_bench_row *row, const struct kvr_round_times *times, double work);

/* Number of buffers of n_bytes, 1 to `most`, such that a buffer has left L2 before it is used
 * again. */
enum kvr_status kvr_rounds_buffers(struct kvr_dev *dev, size_t n_bytes, int most, int *n);

/* n random values, exact in BF16, malloc'ed; `which` selects the random stream. */
enum kvr_status kvr_rounds_draw_bf16(float **x, size_t n, uint32_t which);

/* For an emulated device, replaces the ratio by a reason; otherwise does nothing. */
void kvr_rounds_judge(const struct kvr_dev *dev, struct kvr_bench_row *row);

#endif
