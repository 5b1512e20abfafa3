/* nested.h - n is the number of independent things.
 *
 * Repeats and draws lie in a seed, seeds in a prompt. Cells become one value per prompt by means,
 * from the inside out, before anything is counted:
 *
 *     n = kvr_nest(s, n, KVR_PER_SEED);                    repeats and draws are gone
 *     n = kvr_nest_pairs(a, n_a, b, n_b, d);               differences, seed by seed
 *     n = kvr_nest(d, n, KVR_PER_PROMPT);                  seeds are gone
 *     kvr_nest_values(d, n, x);                            x [n]: what stats.h and pairs.h want */
#ifndef KVR_REPORT_NESTED_H
#define KVR_REPORT_NESTED_H

struct kvr_sample {
    int prompt, seed; /* any numbers that tell prompts, and a prompt's seeds, apart */
    double x;         /* NaN: not measured, left out */
};

/* What counts as one: the prompt, or the seed where one asks about a single prompt. */
enum kvr_nesting { KVR_PER_PROMPT, KVR_PER_SEED };

/* Takes s [n] in any order; leaves one sample per unit, ascending by prompt and seed, and returns
 * how many. Per prompt: the mean over its seeds of the mean over a seed's samples; seed is 0. */
int kvr_nest(struct kvr_sample *s, int n, enum kvr_nesting unit);

/* d = a - b where both have prompt and seed; a and b as kvr_nest leaves them. d has room for the
 * smaller; returns how many. */
int kvr_nest_pairs(const struct kvr_sample *a, int n_a, const struct kvr_sample *b, int n_b,
                   struct kvr_sample *d);

/* Standard deviation within a prompt and seed, over repeats and draws, pooled: what one cell strays
 * by. s [n] in any order, sorted by the call; NaN when no prompt and seed has two. */
double kvr_nest_within(struct kvr_sample *s, int n);

void kvr_nest_values(const struct kvr_sample *s, int n, double *x);

#endif
