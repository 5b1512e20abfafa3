/* functions.h - SQL functions: medians, geometric means, and confidence intervals of means, medians
 * and geometric means.
 *
 *     SELECT method, avg(ssim), mean_lo(ssim), mean_hi(ssim) FROM one_row_per_prompt GROUP BY method
 *
 * The functions are available in `kvreel query` and in every SQL statement that the functions of
 * table.h run. The confidence level is 95 % (stats.h). The input values must be independent, so the
 * values of a prompt (repeats and seeds) must be averaged first. The interval of one value is NULL.
 * The interval of the median of two to five values is their minimum and maximum. */
#ifndef KVR_TABLE_FUNCTIONS_H
#define KVR_TABLE_FUNCTIONS_H

#include "harness/store/store.h"

/* The array ends with an entry whose name is NULL. */
extern const struct kvr_query_function kvr_report_functions[];

#endif
