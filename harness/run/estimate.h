/* estimate.h - what a plan will take, by arithmetic, where no earlier cell says it. */
#ifndef KVR_RUN_ESTIMATE_H
#define KVR_RUN_ESTIMATE_H

#include "harness/run/choose.h"

/* Of the waiting jobs: the operations of all their networks (harness/plan/effort.h), the memory of
 * the largest (harness/cache/predict.h), both phase by phase, the raw frames that are kept, and the
 * operations a second that a linear layer of Wan's width reaches on the CPU with the plan's
 * threads: the best that this machine has shown (core/remember.h), a tenth of a second of work now
 * among it. Beside other programs it is less, so that a time by it is what an idle machine needs
 * if all of the network runs as fast. 0: not known. */
enum kvr_status kvr_estimate(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                             struct kvr_run_summary *out);

#endif
