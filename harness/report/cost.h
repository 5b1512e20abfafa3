/* cost.h - tables of each method's memory and runtime: measured, predicted and published. */
#ifndef KVR_REPORT_COST_H
#define KVR_REPORT_COST_H

#include "harness/report/table/table.h"

/* The table has a row per method and settings, taken from the cell with the median runtime. Memory
 * columns are the compression, the peak bytes, and the bytes of each allocation tag at the peak.
 * Prediction columns are the predicted bytes, and their difference from the bytes measured with the
 * allocation tags KV, META, SCRATCH and WEIGHTS. Predictions are NULL if the model's folder is
 * missing or tokens were evicted. Time columns are the runtime, its ratio to BF16 with equal
 * settings, and the time of each phase, such as encoding, decoding and attention. Times of
 * disturbed (NOISY) cells are NULL. Columns published_* have the values that the 33-method study
 * published (results/published). Published values are NULL for methods with options or a
 * correction. */
enum kvr_status kvr_report_cost(struct kvr_table **out, const char *db_path);

/* Makes a table of the rollouts in results/measured/GPU, with one row per method, attention path,
 * number of frames and window, from the newest valid rollout. Columns published_* have the values
 * that the 33-method study published. `gpu` is the name of a folder below results/measured, or a
 * path. The time of a disturbed (NOISY) rollout is in column runtime_seen_s, and its runtime_s is
 * NULL. Column seen_ratio is a rollout's time, disturbed or not, divided by BF16's time in the same
 * session with the same attention path (staged, fused, dense or decoded), frames and window.
 * Measurement sessions that ran modified code, not exactly their recorded commit, are omitted.
 * Column `mark` is empty for results of the newest session, and a letter for results of older
 * sessions. */
enum kvr_status kvr_report_cost_card(struct kvr_table **out, const char *gpu);
extern const char *const kvr_cost_card_fold[]; /* columns for kvr_table_fold() */

#endif
