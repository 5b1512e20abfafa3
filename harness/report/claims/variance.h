/* variance.h - variance reduction: the share of prompts that a technique saves in testing a claim.
 *
 * The number of prompts needed for a verdict is proportional to the variance of the difference over
 * prompts. A technique saves the share 1 - (variance with the technique) / (variance without the
 * technique). The techniques are:
 *
 *     pairing     common random numbers: Var(A - B) against Var(A) + Var(B)
 *     two_videos  excluding prompts with two possible videos (chaos.h)
 *     motion      strata of the prompt's first motion, colour: of the object's colour (the variance
 *                 within strata, n - k degrees of freedom), of prompts in nano's grammar
 *     teacher     a control variate: the same difference under a teacher, 1 - r^2
 *     floor       a control variate: the chaos floor of the prompt
 *
 * The tests of claims already use two of the techniques. The technique `pairing` tests differences
 * over the same prompts, and the technique `two_videos` excludes prompts for which a BF16 rerun
 * with slightly perturbed noise gives a clearly different video. Suites are drawn by stratified
 * sampling (tools/fixtures/draw-suites.py), but the intervals do not use the strata. */
#ifndef KVR_CLAIMS_VARIANCE_H
#define KVR_CLAIMS_VARIANCE_H

#include "harness/report/table/table.h"

/* The table has a row per claim of the installed ledger with at least 12 prompts, and a last row
 * with the median of every column. */
enum kvr_status kvr_report_variance(struct kvr_table **out, const char *db_path);

/* Returns 1 - (variance of x [n] within k strata, n - k degrees of freedom) / (variance of x).
 * `stratum` [n] gives the stratum of each value as an arbitrary integer. The result is NaN if n - k
 * < 6. */
double kvr_saved_by_strata(const double *x, const int *stratum, int n);
/* Returns the squared correlation r^2 of x [n] and y [n] minus its bias, (1 - r^2) / (n - 2), at
 * least 0. Pairs with a NaN are ignored. The result is NaN if n < 8, or if x or y is constant. */
double kvr_saved_by_control(const double *x, const double *y, int n);

#endif
