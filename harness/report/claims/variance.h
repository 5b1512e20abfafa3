/* variance.h - computes how many prompts variance-reduction techniques save in testing a claim.
 *
 * The number of prompts needed for a verdict is proportional to the variance, over prompts, of the
 * difference between two methods A and B. A technique that reduces the variance from v to w saves
 * the fraction 1 - w / v of the prompts. The techniques are:
 *
 *     pairing     common random numbers: Var(A - B) against Var(A) + Var(B)
 *     two_videos  excluding prompts with two possible videos (chaos.h)
 *     motion      strata by the first motion of the object; only for prompts in nano's grammar
 *     colour      strata by the object's colour; only for prompts in nano's grammar
 *     teacher     a control variate: the same difference with teacher forcing; w / v = 1 - r^2
 *     floor       a control variate: the chaos floor of the prompt
 *
 * The tests of claims (claims.h) already use `pairing`, since they test differences over the same
 * prompts, and `two_videos`. The latter excludes prompts for which a BF16 rerun with slightly
 * perturbed noise gives a clearly different video. Suites are drawn by stratified sampling
 * (tools/fixtures/draw-suites.py), but the intervals do not use the strata. */
#ifndef KVR_CLAIMS_VARIANCE_H
#define KVR_CLAIMS_VARIANCE_H

#include "harness/report/table/table.h"

/* Builds a table of the fractions that the techniques save. It has a row per claim of the installed
 * ledger (results/claims.yaml) that is measured on at least 12 prompts, and a last row with
 * medians. */
enum kvr_status kvr_report_variance(struct kvr_table **out, const char *db_path);

/* Returns 1 - w / v. Here v is the variance of x [n], and w the pooled variance within the k strata
 * of x, with n - k degrees of freedom. `stratum` [n] gives the stratum of each value as an
 * arbitrary integer. The result is NaN if n - k < 6. */
double kvr_saved_by_strata(const double *x, const int *stratum, int n);
/* Returns the fraction of prompts that y [n] saves as a control variate for x [n]. This is the
 * squared correlation r^2 of x and y minus its bias (1 - r^2) / (n - 2), but at least 0. Pairs with
 * a NaN are ignored. The result is NaN if n < 8, or if x or y is constant. */
double kvr_saved_by_control(const double *x, const double *y, int n);

#endif
