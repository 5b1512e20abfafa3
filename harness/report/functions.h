/* functions.h - what SQL lacks for results: medians, and intervals of means and medians.
 *
 *     SELECT method, avg(ssim), mean_lo(ssim), mean_hi(ssim) FROM one_row_per_prompt GROUP BY method
 *
 * Every statement of table.h may call them, and so those of `kvreel query`. 95 %, by stats.h: what is
 * not independent (repeats, seeds of a prompt) is to be a mean before it comes here. Of one number a
 * mean has no interval; of fewer than six a median has the smallest and the largest. */
#ifndef KVR_REPORT_FUNCTIONS_H
#define KVR_REPORT_FUNCTIONS_H

#include "harness/store/store.h"

extern const struct kvr_query_function kvr_report_functions[]; /* ends with name NULL */

#endif
