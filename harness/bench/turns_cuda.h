/* turns_cuda.h - work on a CUDA device beside a reference, timed by marks in the stream.
 *
 *     const struct kvr_turns t = { .dev = dev, .ctx = &kit, .run = encode, .reference = copy,
 *                                  .rounds = 15, .times = 8 };
 *     KVR_TRY(kvr_turns_run(&t, &times));
 *     ... times.ns[i], times.reference_ns[i] of times.n rounds ...
 *
 * Before each stretch that is timed the device is given something else to do, so that the host has
 * queued the stretch before it begins: what is timed is the device, not the queueing. */
#ifndef KVR_BENCH_TURNS_CUDA_H
#define KVR_BENCH_TURNS_CUDA_H

#include <stdbool.h>

#include "harness/bench/bench.h"

typedef enum kvr_status kvr_turn_fn(void *ctx, int turn);

struct kvr_turns {
    struct kvr_dev *dev; /* of backend CUDA */
    void *ctx;
    /* Queue the work once; `turn` counts up, to take another buffer each time. */
    kvr_turn_fn *run, *reference;
    int rounds, times;          /* at most; each of the two is queued so many times a round */
    const struct kvr_buf *busy; /* memory to fill meanwhile; NULL: none */
};

/* Of one turn each, in nanoseconds. `warm`: of the first rounds once more, every turn on the same
 * buffer, which is then in the device's cache as far as it fits; the turns themselves go through
 * more memory than that cache has (kvr_turns_buffers), and are cold, but for what all of them read,
 * as the weights of a layer. */
struct kvr_turn_times {
    double ns[KVR_BENCH_MAX_ROUNDS], reference_ns[KVR_BENCH_MAX_ROUNDS];
    double warm_ns[KVR_BENCH_CACHE_ROUNDS];
    int n, n_warm;
    double mhz, watts; /* medians of a GPU's clock and power, looked at once a round while it works
                        * (gpu_state.h); 0: nobody tells */
};

/* The first rounds, which load code, are not counted. */
enum kvr_status kvr_turns_run(const struct kvr_turns *t, struct kvr_turn_times *out);

/* The row of these times: `work` (bytes, operations) by nanoseconds, the ratio, clock and power. */
void kvr_turns_fill(struct kvr_bench_row *row, const struct kvr_turn_times *times, double work);

/* So many buffers of n_bytes in turn that none is still in the device's cache when its turn comes
 * again; at least 1, at most `most`. */
enum kvr_status kvr_turns_buffers(struct kvr_dev *dev, size_t n_bytes, int most, int *n);

/* What an emulated device's row says instead of a ratio; does nothing to others. */
void kvr_turns_judge(const struct kvr_dev *dev, struct kvr_bench_row *row);

#endif
