/* chaos.h - the effect of chaos (amplified rounding) on a metric, for tables and Pareto fronts.
 *
 * A rerun (in code, draw) repeats a rollout with slightly perturbed noise. The chaos floor is the
 * distance of BF16 reruns from the unperturbed BF16 rollout (view `floor`). The jitter is the
 * standard deviation of a method's metric over the method's reruns (view `jitter`). */
#ifndef KVR_TABLE_CHAOS_H
#define KVR_TABLE_CHAOS_H

#include "harness/report/table/table.h"

/* KVR_TWO_VIDEOS_DB is a threshold in decibels. A prompt has two possible videos if the PSNR
 * between the BF16 rollout and one of its reruns is below this threshold. The threshold, 35 dB,
 * corresponds to an RMS error of 4.5 levels of an 8-bit pixel value. */
#define KVR_TWO_VIDEOS_DB "35"

/* Computes the half-width of the 95 % interval of the difference that chaos alone causes between
 * two methods' means:
 *
 *     1.96 sqrt(2) s / sqrt(n)
 *
 * Here n is the number of cells (rollouts) per mean. The standard deviation s of a cell's metric
 * over its reruns is pooled over the methods that have reruns. If only BF16 has reruns, s is the
 * standard deviation of the BF16 reruns. `metric` is the name of a metric in the database. *out is
 * NaN if the database has no reruns. */
enum kvr_status kvr_chaos_margin(double *out, const char *db_path, const char *metric);

/* Writes to `out` a list of the prompts with two possible videos, each with the lowest PSNR of its
 * reruns, such as "mn006 (17.1 dB)". Writes "" if no such prompt is known. */
enum kvr_status kvr_chaos_two_videos(char *out, size_t n, const char *db_path);

/* Adds to a table's note the chaos floor, the number of BF16 reruns, and the prompts with two
 * possible videos (KVR_TWO_VIDEOS_DB). If the database has fidelity metrics but no BF16 reruns, the
 * note says which sweep option adds reruns. */
enum kvr_status kvr_chaos_note(struct kvr_table *t, const char *db_path);

#endif
