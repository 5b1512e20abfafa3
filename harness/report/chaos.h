/* chaos.h - the effect of chaos (amplified rounding) on a metric, for tables and fronts.
 *
 * The floor is the distance of BF16 rollouts with perturbed noise from the unperturbed BF16 rollout
 * (view `floor`). The jitter is the standard deviation of a method's metric over the same draws
 * (view `jitter`). */
#ifndef KVR_REPORT_CHAOS_H
#define KVR_REPORT_CHAOS_H

#include "harness/report/table.h"

/* A prompt has two possible videos if a BF16 draw with imperceptibly perturbed noise is this many decibels or
 * less from the unperturbed rollout: a mean error of 4.5 levels of 255. */
#define KVR_TWO_VIDEOS_DB "35"

/* Bound on the difference between two methods' means that chaos alone causes in 95 % of cases:
 *
 *     1.96 sqrt(2) s / sqrt(n)
 *
 * s: standard deviation of a cell over its draws, pooled over methods with draws; without such
 * methods, that of the BF16 control. n: cells per mean. `metric`: a name in table metric. NaN: no
 * draws. */
enum kvr_status kvr_chaos_margin(double *out, const char *db_path, const char *metric);

/* "mn006 (17.1 dB), ...": prompts with two possible videos and their lowest draw; "" if none is
 * known. */
enum kvr_status kvr_chaos_two_videos(char *out, size_t n, const char *db_path);

/* Adds a note to a table of means: the floor, its number of draws, and prompts with two possible
 * videos. Without draws the note says how to add some. */
enum kvr_status kvr_chaos_note(struct kvr_table *t, const char *db_path);

#endif
