/* claims_values.h - a metric of all methods, sample by sample, for claims.
 *
 *     struct kvr_claim_values *v = NULL;
 *     const struct kvr_claim_value *row;
 *     KVR_TRY(kvr_claim_values_read(&v, db, &(struct kvr_claim_choice){ "psnr", "bench", "none", "nano" }, &row, &n));
 *     kvr_claim_values_free(&v);
 *
 * The database's cells are read once, and each metric once; a choice of rows is made in memory. */
#ifndef KVR_REPORT_CLAIMS_VALUES_H
#define KVR_REPORT_CLAIMS_VALUES_H

#include "harness/core/status.h"

struct kvr_claim_choice {
    const char *metric, *kind, *forcing, *model; /* model "": any */
};

/* Draws and repeats of one sample are means. Prompts with two possible videos are left out for a metric that
 * compares with the BF16 rollout. Texts are borrowed. */
struct kvr_claim_value {
    const char *method, *suite;
    int place, pair, sample; /* place: number of the prompt; pair: of prompt, seed and settings;
                              * sample: of these and the machine */
    int age;                 /* larger is newer */
    double value;
};

struct kvr_claim_values;

/* Rows by method, then sample. They belong to *all, which may start as NULL. */
enum kvr_status kvr_claim_values_read(struct kvr_claim_values **all, const char *db,
                                      const struct kvr_claim_choice *choice,
                                      const struct kvr_claim_value **rows, int *n);
void kvr_claim_values_free(struct kvr_claim_values **all);

#endif
