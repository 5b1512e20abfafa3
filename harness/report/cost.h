/* cost.h - what each method costs, beside what arithmetic predicts and what was published. */
#ifndef KVR_REPORT_COST_H
#define KVR_REPORT_COST_H

#include "harness/report/table.h"

/* Per method and settings, of the cell with the median runtime: compression; peak memory and
 * each tag's bytes at the peak; the prediction for the same sizes and its difference from measured KV,
 * META, SCRATCH and WEIGHTS; runtime, its ratio to BF16 at the same settings, and its phases.
 * Times of NOISY cells do not count. Columns named published_* hold what results/published has of
 * the method as the 33-method study ran it. What is not known is NULL: a prediction where the model
 * is not on this machine or tokens were evicted, a published figure of a method with options or a
 * correction. */
enum kvr_status kvr_report_cost(struct kvr_table **out, const char *db_path);

#endif
