/* variance.h - what makes a claim need fewer prompts, and by how much.
 *
 * The number of prompts that a verdict needs is proportional to the variance of the difference over
 * prompts. Per claim, the share of prompts that each of these saves, 1 - variance with / variance
 * without:
 *
 *     pairing     both methods from the same noise: Var(A - B) against Var(A) + Var(B)
 *     two_videos  prompts with two possible videos left out (chaos.h)
 *     motion      strata of the prompt's first motion, colour: of the object's colour (the variance
 *                 within strata, n - k degrees of freedom), of prompts in nano's grammar
 *     teacher     a control variate: the same difference under a teacher, 1 - r^2
 *     floor       the same with the chaos floor of the prompt
 *
 * Pairing and two_videos are in use (claims_values.sql); the suites are drawn in strata
 * (tools/fixtures/draw-suites.py), which the intervals take no credit for. */
#ifndef KVR_REPORT_VARIANCE_H
#define KVR_REPORT_VARIANCE_H

#include "harness/report/table.h"

/* A row per claim of the installed ledger with at least 12 prompts, and the median of each column. */
enum kvr_status kvr_report_variance(struct kvr_table **out, const char *db_path);

/* 1 - the variance of x [n] within the strata of `stratum` [n] (any numbers), n - k degrees of freedom,
 * over its variance; NaN where a stratum's number or n leaves fewer than 6 degrees. */
double kvr_saved_by_strata(const double *x, const int *stratum, int n);
/* r^2 of x and y [n] less what chance gives one regressor, (1 - r^2) / (n - 2), not below 0; NaN where
 * n < 8 or one of them is constant. Pairs with a NaN are left out. */
double kvr_saved_by_control(const double *x, const double *y, int n);

#endif
