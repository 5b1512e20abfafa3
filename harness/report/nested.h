/* nested.h - averages nested samples, so that n counts independent ones.
 *
 * Repeats and draws are nested in seeds, seeds in prompts. Cells are averaged to one value per
 * prompt, innermost level first, before samples are counted:
 *
 *     n = kvr_nest(s, n, KVR_PER_SEED);                    averages repeats and draws
 *     n = kvr_nest_pairs(a, n_a, b, n_b, d);               differences, seed by seed
 *     n = kvr_nest(d, n, KVR_PER_PROMPT);                  averages seeds
 *     kvr_nest_values(d, n, x);                            x [n]: input of stats.h and pairs.h */
#ifndef KVR_REPORT_NESTED_H
#define KVR_REPORT_NESTED_H

struct kvr_sample {
    int prompt, seed; /* ids of prompts, and of seeds within a prompt */
    double x;         /* NaN: not measured, ignored */
};

/* The unit of n: the prompt, or the seed for questions about a single prompt. */
enum kvr_nesting { KVR_PER_PROMPT, KVR_PER_SEED };

/* Replaces s [n], in any order, by one sample per unit, ascending by prompt and seed, and returns
 * the number of these. A prompt's sample is the mean over its seeds of the mean of each seed's
 * samples, and its `seed` is 0. */
int kvr_nest(struct kvr_sample *s, int n, enum kvr_nesting unit);

/* d = a - b for shared prompts and seeds; a and b are results of kvr_nest. d has room for as many
 * samples as the shorter of a and b; returns the number of differences. */
int kvr_nest_pairs(const struct kvr_sample *a, int n_a, const struct kvr_sample *b, int n_b,
                   struct kvr_sample *d);

/* Pooled standard deviation within prompt and seed, over repeats and draws: the noise of one cell.
 * The call sorts s [n]. NaN if no prompt and seed has two samples. */
double kvr_nest_within(struct kvr_sample *s, int n);

/* Copies the values of the samples s [n] to x [n], in the same order. */
void kvr_nest_values(const struct kvr_sample *s, int n, double *x);

#endif
