/* functions.h - SQL functions: medians, and confidence intervals of means and medians.
 *
 *     SELECT method, avg(ssim), mean_lo(ssim), mean_hi(ssim) FROM one_row_per_prompt GROUP BY method
 *
 * All statements of table.h and of `kvreel query` may call them. The level is 95 % (stats.h).
 * Values must be independent: average repeats and seeds of a prompt first. The mean of one value
 * has no interval; the interval of a median of fewer than six values is their minimum and
 * maximum. */
#ifndef KVR_REPORT_FUNCTIONS_H
#define KVR_REPORT_FUNCTIONS_H

#include "harness/store/store.h"

extern const struct kvr_query_function kvr_report_functions[]; /* ends with name NULL */

#endif
