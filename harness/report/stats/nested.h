/* nested.h - averages nested samples to one value per independent unit.
 *
 * A prompt has several seeds, and a seed has several repeats and draws (reruns with slightly
 * perturbed noise). Repeats and draws are averaged per seed, and then seeds per prompt, as in this
 * example for two methods a and b:
 *
 *     n = kvr_nest(s, n, KVR_PER_SEED);                    averages repeats and draws
 *     n = kvr_nest_pairs(a, n_a, b, n_b, d);               differences, seed by seed
 *     n = kvr_nest(d, n, KVR_PER_PROMPT);                  averages seeds
 *     kvr_nest_values(d, n, x);                            x [n]: input of stats.h and pairs.h */
#ifndef KVR_STATS_NESTED_H
#define KVR_STATS_NESTED_H

struct kvr_sample {
    int prompt, seed; /* index of the prompt; index of the seed among the prompt's seeds */
    double x;         /* value of the sample (NaN: the value was not measured and is ignored) */
};

/* The independent unit is the prompt, or in an analysis of a single prompt, the seed. */
enum kvr_nesting { KVR_PER_PROMPT, KVR_PER_SEED };

/* Replaces the samples s [n] by one mean per unit (prompt or seed), sorted by prompt and seed.
 * Returns the number of units. With KVR_PER_PROMPT, a prompt's value is the mean of the means of
 * its seeds, and the field `seed` is 0. */
int kvr_nest(struct kvr_sample *s, int n, enum kvr_nesting unit);

/* Writes the paired differences a - b over shared prompts and seeds to d, and returns the number of
 * differences. The arrays a and b are results of kvr_nest. The array d needs room for min(n_a, n_b)
 * samples. */
int kvr_nest_pairs(const struct kvr_sample *a, int n_a, const struct kvr_sample *b, int n_b,
                   struct kvr_sample *d);

/* Returns the standard deviation over the repeats and draws of the same prompt and seed, pooled
 * over prompts and seeds. The result is NaN if no seed has two samples. The function sorts the
 * samples s [n] in place. */
double kvr_nest_within(struct kvr_sample *s, int n);

/* Copies the values of the samples s [n] to x [n], in the same order. */
void kvr_nest_values(const struct kvr_sample *s, int n, double *x);

#endif
