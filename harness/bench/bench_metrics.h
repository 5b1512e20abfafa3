/* bench_metrics.h - benchmark of video quality metrics, in frames per second.
 *
 * Each metric compares two videos of six frames of 480x832 in two chunks: a moving gradient and a
 * noisy copy of it. The reference is a memcmp of two equal videos, which reads each byte once.
 * LPIPS is timed if its weights are present. ST-LPIPS is not timed, because it takes seconds per
 * frame. */
#ifndef KVR_BENCH_BENCH_METRICS_H
#define KVR_BENCH_BENCH_METRICS_H

#include "harness/bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_BENCH_METRICS_ROWS = 32 };

/* Writes *n_rows <= KVR_BENCH_METRICS_ROWS rows, one per metric. The argument `rounds` must be at
 * least 3. */
enum kvr_status kvr_bench_metrics(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                  int *n_rows);

#ifdef __cplusplus
}
#endif
#endif
