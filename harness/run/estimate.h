/* estimate.h - predicts the cost of a plan if the database has no measured cells to estimate
 * from. */
#ifndef KVR_RUN_ESTIMATE_H
#define KVR_RUN_ESTIMATE_H

#include "harness/run/choose.h"

/* Predicts the cost of the waiting jobs. The prediction for each phase is the total FLOPs
 * (harness/plan/flops.h) and the memory of the largest cell (harness/cache/predict.h). The total
 * size of the raw frames is also predicted. The member flop_per_s is the measured rate of a linear
 * layer of Wan's width on the CPU with the plan's threads. The rate is the maximum of all
 * measurements on this machine (core/remember.h), including a measurement of 0.1 s during this
 * call. A time derived from this rate assumes an idle machine and the same rate in the whole
 * network. Unknown values are 0. */
enum kvr_status kvr_estimate(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                             struct kvr_run_summary *out);

#endif
