/* claims_values.h - reads the values of a metric for every method, with which claims are tested.
 *
 *     struct kvr_claim_values *v = NULL;
 *     const struct kvr_claim_value *row;
 *     KVR_TRY(kvr_claim_values_read(&v, db, &(struct kvr_claim_choice){ "psnr", "bench", "none", "nano" }, &row, &n));
 *     kvr_claim_values_free(&v);
 *
 * The first call of kvr_claim_values_read queries the database for all cells, and the first call
 * for each metric queries that metric's values. Later calls with another `choice` select from the
 * values in memory. */
#ifndef KVR_CLAIMS_CLAIMS_VALUES_H
#define KVR_CLAIMS_CLAIMS_VALUES_H

#include "harness/core/status.h"

struct kvr_claim_choice {
    const char *metric, *kind, *forcing, *model; /* model "": any model */
};

/* One sample of a method. `value` is the metric's mean over all rollouts with the same prompt,
 * seed, settings and machine, including reruns with slightly perturbed noise. For metrics relative
 * to the BF16 rollout, prompts for which a BF16 rerun gives a clearly different video (chaos.h) are
 * omitted. Strings are borrowed. */
struct kvr_claim_value {
    const char *method, *suite;
    int place, pair, sample; /* ids, counted from 1: equal `place` means equal prompts; equal
                              * `pair` means equal prompt, seed and settings; equal `sample`
                              * means equal `pair` and machine */
    int age;                 /* rank of the sample's newest cell among all cells that claims may
                              * use, in the order in which the cells finished; the first cell has
                              * rank 1 */
    double value;
};

struct kvr_claim_values;

/* Sets *rows to the *n samples that `choice` selects, sorted by method and sample. *all caches all
 * values and owns the samples; it must be NULL in the first call. */
enum kvr_status kvr_claim_values_read(struct kvr_claim_values **all, const char *db,
                                      const struct kvr_claim_choice *choice,
                                      const struct kvr_claim_value **rows, int *n);
void kvr_claim_values_free(struct kvr_claim_values **all);

#endif
