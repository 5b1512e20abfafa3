/* variance.h - variance reduction: the share of prompts that each technique saves for a claim.
 *
 * The number of prompts needed for a verdict is proportional to the variance of the difference over
 * prompts. Per claim, the share saved, 1 - variance with / variance without:
 *
 *     pairing     common random numbers: Var(A - B) against Var(A) + Var(B)
 *     two_videos  excluding prompts with two possible videos (chaos.h)
 *     motion      strata of the prompt's first motion, colour: of the object's colour (the variance
 *                 within strata, n - k degrees of freedom), of prompts in nano's grammar
 *     teacher     a control variate: the same difference under a teacher, 1 - r^2
 *     floor       a control variate: the chaos floor of the prompt
 *
 * Pairing and two_videos are in use (claims_cells.sql). The suites are drawn in strata
 * (tools/fixtures/draw-suites.py), which the intervals ignore. */
#ifndef KVR_REPORT_VARIANCE_H
#define KVR_REPORT_VARIANCE_H

#include "harness/report/table.h"

/* A row per claim of the installed ledger with at least 12 prompts, and the median of every
 * column. */
enum kvr_status kvr_report_variance(struct kvr_table **out, const char *db_path);

/* 1 - (variance of x [n] within the strata, with n - k degrees of freedom) / (variance of x).
 * `stratum` [n]: arbitrary numbers. NaN with fewer than 6 degrees of freedom. */
double kvr_saved_by_strata(const double *x, const int *stratum, int n);
/* r^2 of x and y [n] minus the value expected by chance, (1 - r^2) / (n - 2), at least 0. Pairs
 * with a NaN are ignored. NaN if n < 8, or if x or y is constant. */
double kvr_saved_by_control(const double *x, const double *y, int n);

#endif
