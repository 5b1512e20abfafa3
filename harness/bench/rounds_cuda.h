/* rounds_cuda.h - times an operation (the work) and a reference operation with CUDA events.
 *
 *     const struct kvr_rounds t = { .dev = dev, .ctx = &kit, .run = encode, .reference = copy,
 *                                  .rounds = 15, .times = 8 };
 *     KVR_TRY(kvr_rounds_run(&t, &times));
 *     ... times.ns[i], times.reference_ns[i] of times.n rounds ...
 *
 * Filler work precedes every timed sequence of launches, so that the host has queued the whole
 * sequence before the device starts it. The measured time thus excludes launch overhead. */
#ifndef KVR_BENCH_ROUNDS_CUDA_H
#define KVR_BENCH_ROUNDS_CUDA_H

#include <stdbool.h>

#include "harness/bench/bench.h"

typedef enum kvr_status kvr_round_fn(void *ctx, int iter);

struct kvr_rounds {
    struct kvr_dev *dev; /* CUDA */
    void *ctx;
    /* `run` launches the work once on the stream, and `reference` launches the reference operation.
     * The argument `iter` increases by one per call and selects the buffer that the call uses. */
    kvr_round_fn *run, *reference;
    /* `rounds` is the maximum number of rounds. A round runs the reference `times` times and then
     * the work `times` times. */
    int rounds, times;
    /* memory that the filler work overwrites, or NULL for no filler work */
    const struct kvr_buf *busy;
};

/* Nanoseconds per run. Ordinary rounds cycle through buffers whose total size exceeds L2
 * (kvr_rounds_buffers). Therefore only data that all runs read, such as a layer's weights, stays in
 * L2. The times `warm_ns` are from extra rounds in which every run uses the same buffer, which
 * stays in L2 as far as it fits. */
struct kvr_round_times {
    double ns[KVR_BENCH_MAX_ROUNDS], reference_ns[KVR_BENCH_MAX_ROUNDS];
    double warm_ns[KVR_BENCH_CACHE_ROUNDS];
    int n, n_warm;
    /* medians of the GPU's clock frequency and power, sampled once per round while the GPU works
     * (gpu_state.h), or 0 if unknown */
    double mhz, watts;
};

/* Measures the work and the reference in at most t->rounds rounds. Earlier warm-up rounds, in which
 * the CUDA driver loads the kernels' modules, are not counted, and their times are discarded. */
enum kvr_status kvr_rounds_run(const struct kvr_rounds *t, struct kvr_round_times *out);

/* Sets the rates, the ratio to the reference, the clock frequency and the power of a result row. A
 * rate is `work`, the number of bytes or operations per run, divided by the nanoseconds of a
 * run. */
void kvr_rounds_fill(struct kvr_bench_row *row, const struct kvr_round_times *times, double work);

/* Sets *n to the number of buffers that rounds should cycle through, so that L2 evicts a buffer
 * before its next use. Each buffer has n_bytes bytes. *n is at most `most`, even if L2 then holds
 * all buffers. */
enum kvr_status kvr_rounds_buffers(struct kvr_dev *dev, size_t n_bytes, int most, int *n);

/* Allocates *x by malloc() and fills it with n random values that are exact in BF16. `which`
 * selects the random stream. */
enum kvr_status kvr_rounds_draw_bf16(float **x, size_t n, uint32_t which);

/* Sets the device name of a result row. On an emulated device, whose times do not apply to a GPU,
 * the function also sets the ratio and the cold and warm rates to NaN, and stores the reason. */
void kvr_rounds_judge(const struct kvr_dev *dev, struct kvr_bench_row *row);

#endif
