/* intervals.h - the summary with how sure it is, and who cannot be told apart. */
#ifndef KVR_REPORT_INTERVALS_H
#define KVR_REPORT_INTERVALS_H

#include "harness/report/table.h"

/* Per method and settings: compression; mean SSIM and PSNR with 95 % intervals over prompts (seeds,
 * repeats and draws are averaged per prompt); the median runtime with its order-statistic interval;
 * the tie group by SSIM; n ok / n attempted cells. Two methods tie unless the test of
 * pairs.h tells them apart, all pairs of the settings being compared; a group is named by the
 * letter of its best, so that "ab" ties with both. */
enum kvr_status kvr_report_intervals(struct kvr_table **out, const char *db_path);

/* Fills the columns NAME_lo and NAME_hi of psnr, ssim and runtime of the table `summary` from the table above;
 * drops columns without any interval. */
enum kvr_status kvr_report_add_intervals(struct kvr_table *t, const char *db_path);

/* The same per budget, for cells with an option solved for bits per element (harness/plan/fit.h). Letters
 * mark ties within a budget. What has no budget, the BF16 cache and
 * plain baselines among it, comes last. */
enum kvr_status kvr_report_equal_bytes(struct kvr_table **out, const char *db_path);

#endif
