/* turns_cuda.h - work on a CUDA device beside a reference, timed by marks in the stream.
 *
 *     const struct kvr_turns t = { .dev = dev, .ctx = &kit, .run = encode, .reference = copy,
 *                                  .rounds = 15, .times = 8 };
 *     KVR_TRY(kvr_turns_run(&t, ns, reference_ns));
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
    int rounds, times;          /* each of the two is queued so many times a round */
    const struct kvr_buf *busy; /* memory to fill meanwhile; NULL: none */
};

/* ns, reference_ns [rounds]: of one turn. The first rounds, which load code, are not counted. */
enum kvr_status kvr_turns_run(const struct kvr_turns *t, double *ns, double *reference_ns);

/* So many buffers of n_bytes in turn that none is still in the device's cache when its turn comes
 * again; at least 1, at most `most`. */
enum kvr_status kvr_turns_buffers(struct kvr_dev *dev, size_t n_bytes, int most, int *n);

/* What an emulated device's row says instead of a ratio; does nothing to others. */
void kvr_turns_judge(const struct kvr_dev *dev, struct kvr_bench_row *row);

#endif
