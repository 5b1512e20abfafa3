/* estimate.h - predicted cost of a plan, where the database has no history. */
#ifndef KVR_RUN_ESTIMATE_H
#define KVR_RUN_ESTIMATE_H

#include "harness/run/choose.h"

/* For the waiting jobs: operations of all networks (harness/plan/flops.h), memory of the largest
 * (harness/cache/predict.h), both by phase, and the size of the stored raw frames. The rate is
 * the FLOP/s of a linear layer of Wan's width on the CPU with the plan's threads: the best value that
 * this machine has reached (core/remember.h), including a measurement of 0.1 s now. A
 * time computed from it is that of an idle machine whose whole network runs at that rate. 0:
 * unknown. */
enum kvr_status kvr_estimate(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                             struct kvr_run_summary *out);

#endif
