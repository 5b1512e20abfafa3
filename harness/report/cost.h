/* cost.h - tables of each method's memory and runtime: measured, predicted and published. */
#ifndef KVR_REPORT_COST_H
#define KVR_REPORT_COST_H

#include "harness/report/table/table.h"

/* The table has a row per method and settings, taken from the cell with the median runtime. Memory
 * columns are the compression, the peak bytes, and the bytes of each allocation tag (class of
 * memory, such as KV or WEIGHTS) at the peak. Prediction columns are the predicted sum of the bytes
 * with the tags KV, META, SCRATCH and WEIGHTS, and the measured sum minus the predicted sum.
 * Predictions are NULL if the model's folder is missing or tokens were evicted. Time columns are
 * the runtime, its ratio to BF16 with equal settings, and the time of each phase, such as encoding,
 * decoding and attention. Times of disturbed (NOISY) cells are NULL. Columns published_* have the
 * values that the 33-method study published (results/published). The study has no methods with
 * options or a bias correction, so published values of such methods are NULL. */
enum kvr_status kvr_report_cost(struct kvr_table **out, const char *db_path);

/* Makes a table of the rollouts in results/measured/GPU, with one row per method, attention path,
 * number of frames and window. If there are several such rollouts, the row has the newest. Columns
 * published_* have the values that the 33-method study published. `gpu` is the name of a folder
 * below results/measured, or a path. The time of a disturbed (NOISY) rollout is in column
 * runtime_seen_s, and its runtime_s is NULL. Column seen_ratio is a rollout's time, disturbed or
 * not, divided by BF16's time in the same session with the same attention path (staged, fused,
 * dense or decoded), frames and window. Measurement sessions that ran modified code, not exactly
 * their recorded commit, are omitted. Column `mark` distinguishes the sessions: it is empty for the
 * newest session, "b" for the second newest, "c" for the third newest, and so on. */
enum kvr_status kvr_report_cost_card(struct kvr_table **out, const char *gpu);
extern const char *const kvr_cost_card_fold[]; /* columns for kvr_table_fold() */

#endif
