/* intervals.h - tables of means and medians with confidence intervals and tie groups. */
#ifndef KVR_REPORT_INTERVALS_H
#define KVR_REPORT_INTERVALS_H

#include "harness/report/table/table.h"

/* Builds a table with a row per method and settings. The columns are compression, mean SSIM and
 * PSNR, median runtime, tie group by SSIM, and the numbers of OK and of attempted cells. A prompt's
 * SSIM and PSNR are averages over its seeds, repeats and reruns with slightly perturbed noise.
 * Their means over prompts have 95 % confidence intervals. The median runtime has an
 * order-statistic interval. Two methods with equal settings tie in SSIM unless their difference is
 * significant (kvr_separable), with a Bonferroni correction for all pairs of methods. Tie groups
 * are named by letters, the best group first; a method with "ab" belongs to groups a and b. */
enum kvr_status kvr_report_intervals(struct kvr_table **out, const char *db_path);

/* Fills the interval columns NAME_lo and NAME_hi of psnr, ssim and runtime in the table `summary`,
 * with the intervals of kvr_report_intervals(). Drops interval columns without values. */
enum kvr_status kvr_report_add_intervals(struct kvr_table *t, const char *db_path);

/* Like kvr_report_intervals, but grouped by memory budget in bits per element (`fit B`,
 * harness/plan/fit.h). Only methods with equal settings and equal memory budgets can tie. Methods
 * without a budget, such as BF16 and the default 8-bit baselines (baselines.h), come last. */
enum kvr_status kvr_report_equal_bytes(struct kvr_table **out, const char *db_path);

#endif
