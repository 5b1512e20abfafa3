/* bench_metrics.h - frames per second of every metric.
 *
 * Six frames of 480x832 in two chunks: a moving gradient, compared with a noisy copy. The reference
 * reads both videos once (memcmp). LPIPS is included if its weights are present, ST-LPIPS never. */
#ifndef KVR_BENCH_BENCH_METRICS_H
#define KVR_BENCH_BENCH_METRICS_H

#include "harness/bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_BENCH_METRICS_ROWS = 32 };

/* rounds >= 3. Writes *n_rows <= KVR_BENCH_METRICS_ROWS rows. */
enum kvr_status kvr_bench_metrics(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                  int *n_rows);

#ifdef __cplusplus
}
#endif
#endif
