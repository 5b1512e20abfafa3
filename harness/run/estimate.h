/* estimate.h - what a plan will take at least, by arithmetic, where no earlier cell says it. */
#ifndef KVR_RUN_ESTIMATE_H
#define KVR_RUN_ESTIMATE_H

#include "harness/run/choose.h"

/* Of the waiting jobs: the operations of all their networks (harness/plan/effort.h), the memory of
 * the largest (harness/cache/predict.h), and the operations a second that a linear layer of Wan's
 * width reaches on the CPU here and now with the plan's threads: a tenth of a second of work. 0:
 * not known. */
enum kvr_status kvr_estimate(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                            struct kvr_run_summary *out);

#endif
