/* plan_by_method.h - summarizes a plan by method: the numbers of cells to run, measured earlier and
 * unsupported, and the reason why cells do not run. */
#ifndef KVR_RUN_PLAN_BY_METHOD_H
#define KVR_RUN_PLAN_BY_METHOD_H

#include "harness/run/choose.h"

/* Calls `fn` once per method with its cell counts, in the order of the sweep. */
enum kvr_status kvr_plan_lines(const struct kvr_job *jobs, const struct kvr_sweep *sweep,
                               kvr_plan_line_fn *fn, void *ctx);

#endif
