/* cost.h - each method's cost: measured, predicted and published. */
#ifndef KVR_REPORT_COST_H
#define KVR_REPORT_COST_H

#include "harness/report/table.h"

/* A row per method and settings, from the cell with the median runtime. Columns of memory are
 * compression, the peak, and each tag's bytes at the peak. Columns of the prediction are bytes for
 * the same sizes, and their difference from measured KV, META, SCRATCH and WEIGHTS. Columns of time
 * are the runtime, its ratio to BF16 at the same settings, and its phases; times of NOISY cells are
 * left out. Columns published_* are the 33-method study's figures (results/published). A prediction
 * is NULL if the model is not on this machine or tokens were evicted; a published figure is NULL
 * for methods with options or a correction. */
enum kvr_status kvr_report_cost(struct kvr_table **out, const char *db_path);

/* Rollouts in results/measured/GPU, one row per method and path (the newest valid one), with the
 * study's figures. `gpu` is a name or a folder (measured.h). The time of a NOISY rollout is in
 * runtime_seen_s, with runtime_s NULL; seen_ratio divides by BF16 of the same session and path.
 * Sessions with patched code are left out. Column `mark` is empty for the newest session, else the
 * letter of an older one. */
enum kvr_status kvr_report_cost_card(struct kvr_table **out, const char *gpu);
extern const char *const kvr_cost_card_fold[]; /* columns for kvr_table_fold() */

#endif
