/* estimate.h - predicts the cost of a sweep if the database has no measured cells from which to
 * estimate it. */
#ifndef KVR_RUN_ESTIMATE_H
#define KVR_RUN_ESTIMATE_H

#include "harness/run/choose.h"

/* Predicts the cost of the cells that have not run yet. For text encoding, rollout and decoding
 * separately, the prediction gives the total FLOPs (harness/plan/flops.h) and the peak memory over
 * all cells (harness/cache/predict.h). The total size of the raw frames is also predicted. The
 * field flop_per_s is the measured FLOP/s of a linear layer of Wan's width on the CPU, with the
 * sweep's number of threads. This value is the maximum of all measurements on this machine
 * (core/result_cache.h), including a measurement of 0.1 s during this call. A time derived from
 * this value assumes an idle machine and the same FLOP/s in all layers of the network. Unknown
 * values are 0. */
enum kvr_status kvr_estimate(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                             struct kvr_run_summary *out);

#endif
