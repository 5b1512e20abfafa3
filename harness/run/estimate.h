/* estimate.h - predicted cost of a plan, where the database has no history. */
#ifndef KVR_RUN_ESTIMATE_H
#define KVR_RUN_ESTIMATE_H

#include "harness/run/choose.h"

/* Predicts for the waiting jobs the FLOPs of all networks (harness/plan/flops.h) and the memory of
 * the largest cell (harness/cache/predict.h), both by phase, and the size of the stored raw frames.
 * The rate is the FLOP/s of a linear layer of Wan's width on the CPU with the plan's threads: the
 * maximum on this machine so far (core/remember.h), including a measurement of 0.1 s now. A time
 * derived from it assumes an idle machine and this rate for the whole network. 0: unknown. */
enum kvr_status kvr_estimate(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                             struct kvr_run_summary *out);

#endif
