/* spare.h - when not all of a plan is to be run: what comes first, and what need not be run at all.
 */
#ifndef KVR_RUN_SPARE_H
#define KVR_RUN_SPARE_H

#include "harness/run/choose.h"

/* Puts cells that tell most for their cost first; the order is otherwise kept. The mean of a
 * method's n prompts gains s^2 (1/n - 1/(n + 1)) of certainty by one more, so every method has its
 * first prompt before any has its second; in timed sweeps repeats count as prompts, in others they
 * come last. A baseline stands before the first cell that needs it. */
enum kvr_status kvr_most_telling_first(int *order, const struct kvr_sweep *sweep,
                                       const struct kvr_job *jobs);

/* Is the time of this cell's rollout known well enough without it? It is when this is the seventh
 * repeat or a later one, six others at least count (kvr_store_times), and the interval of their
 * median is no wider than `until` of it. */
enum kvr_status kvr_time_is_known(struct kvr_store *s, const struct kvr_session *session,
                                  const struct kvr_cell *cell, double until, kvr_width_fn *width,
                                  bool *yes);

/* The stop rule of the config for cell `at`: as above, and of a baseline for all that waits for it,
 * too. No: without a rule, a width or a store. */
enum kvr_status kvr_is_enough(struct kvr_store *s, const struct kvr_session *session,
                              const struct kvr_sweep *sweep, const struct kvr_job *jobs, int at,
                              kvr_width_fn *width, bool *yes);

#endif
