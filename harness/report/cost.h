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

/* Rollouts that results/measured/GPU has, one row a method and path: the newest that counts, beside the
 * study's figures. `gpu` is a name or a folder (measured.h). A time of a NOISY rollout is runtime_seen_s,
 * and runtime_s is NULL; seen_ratio divides by BF16 of the same session and path. Sessions whose code was
 * patched do not count. Column `mark` is empty in the newest session, else a letter of an older one. */
enum kvr_status kvr_report_cost_card(struct kvr_table **out, const char *gpu);
extern const char *const kvr_cost_card_fold[]; /* columns for kvr_table_fold() */

#endif
