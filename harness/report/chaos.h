/* chaos.h - what chaos alone does to a metric, for tables and fronts.
 *
 * The floor: how far the BF16 rollout is from itself when its noise is moved (view `floor`). The
 * jitter: how far a method's own metric moves over the same draws (view `jitter`). */
#ifndef KVR_REPORT_CHAOS_H
#define KVR_REPORT_CHAOS_H

#include "harness/report/table.h"

/* A prompt has two possible videos if a BF16 draw with imperceptibly perturbed noise is this many decibels or
 * less from the unperturbed rollout: a mean error of 4.5 levels of 255. */
#define KVR_TWO_VIDEOS_DB "35"

/* Which of the differences between means of two methods come of chaos alone: 95 % of them are
 * smaller than
 *
 *     1.96 sqrt(2) s / sqrt(n)
 *
 * s the standard deviation of one cell over its draws, pooled over the methods that have any, else
 * of the control; n the cells that a mean has. `metric` by its name in the table metric. NaN:
 * nothing was drawn. */
enum kvr_status kvr_chaos_margin(double *out, const char *db_path, const char *metric);

/* "mn006 (17.1 dB), ...": prompts with two possible videos and their lowest draw; "" where none is known. */
enum kvr_status kvr_chaos_two_videos(char *out, size_t n, const char *db_path);

/* What a reader of means has to know: the floor and how many draws it comes from, prompts with two
 * possible videos; or that nothing was drawn, and how to. */
enum kvr_status kvr_chaos_note(struct kvr_table *t, const char *db_path);

#endif
