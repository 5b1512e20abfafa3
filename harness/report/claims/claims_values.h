/* claims_values.h - reads the samples of a metric for all methods, from which claims are tested.
 *
 *     struct kvr_claim_values *v = NULL;
 *     const struct kvr_claim_value *row;
 *     KVR_TRY(kvr_claim_values_read(&v, db, &(struct kvr_claim_choice){ "psnr", "bench", "none", "nano" }, &row, &n));
 *     kvr_claim_values_free(&v);
 *
 * The function kvr_claim_values_read queries the cells of the database once, and the values of each
 * metric once. Later calls with another `choice` select from the values in memory. */
#ifndef KVR_CLAIMS_CLAIMS_VALUES_H
#define KVR_CLAIMS_CLAIMS_VALUES_H

#include "harness/core/status.h"

struct kvr_claim_choice {
    const char *metric, *kind, *forcing, *model; /* model "": any model */
};

/* One sample of a method. `value` is the metric's mean over the draws (reruns with slightly
 * perturbed noise) and repeats of one prompt, seed, settings and machine. For metrics relative to
 * the BF16 rollout, prompts for which a BF16 rerun gives a clearly different video (chaos.h) are
 * omitted. Strings are borrowed. */
struct kvr_claim_value {
    const char *method, *suite;
    int place, pair, sample; /* `place` numbers the prompts, `pair` the combinations of prompt, seed
                              * and settings, and `sample` the combinations of prompt, seed,
                              * settings and machine */
    int age;                 /* rank of the sample's newest cell among all cells that claims may
                              * use, in the order in which the cells finished; the first cell has
                              * rank 1 */
    double value;
};

struct kvr_claim_values;

/* Returns the samples that `choice` selects, sorted by method and sample. The array *rows of *n
 * samples belongs to *all, which must be NULL in the first call. */
enum kvr_status kvr_claim_values_read(struct kvr_claim_values **all, const char *db,
                                      const struct kvr_claim_choice *choice,
                                      const struct kvr_claim_value **rows, int *n);
void kvr_claim_values_free(struct kvr_claim_values **all);

#endif
