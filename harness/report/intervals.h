/* intervals.h - the summary with confidence intervals and tie groups. */
#ifndef KVR_REPORT_INTERVALS_H
#define KVR_REPORT_INTERVALS_H

#include "harness/report/table.h"

/* A row per method and settings: compression, mean SSIM and PSNR, median runtime, tie group by SSIM, n ok /
 * n attempted cells. Means have 95 % intervals over prompts; seeds, repeats and draws are averaged per prompt.
 * The median has its order-statistic interval. Two methods tie unless the test of pairs.h separates them, over
 * all pairs of the settings. A group is named by the letter of its best method; a method with "ab"
 * belongs to groups a and b. */
enum kvr_status kvr_report_intervals(struct kvr_table **out, const char *db_path);

/* Fills the columns NAME_lo and NAME_hi of psnr, ssim and runtime in the table `summary` from
 * kvr_report_intervals(); drops columns without any interval. */
enum kvr_status kvr_report_add_intervals(struct kvr_table *t, const char *db_path);

/* The table of kvr_report_intervals for each budget, over cells with an option solved for bits per
 * element (harness/plan/fit.h). Letters mark ties within a budget. Methods without a budget,
 * including BF16 and plain baselines, come last. */
enum kvr_status kvr_report_equal_bytes(struct kvr_table **out, const char *db_path);

#endif
