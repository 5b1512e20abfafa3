/* priority.h - partial runs: orders cells by information, and finds cells that are not needed. */
#ifndef KVR_RUN_PRIORITY_H
#define KVR_RUN_PRIORITY_H

#include "harness/run/choose.h"

/* Moves the cells with the most information per cost to the front; otherwise keeps the order. One
 * more prompt reduces the variance of a method's mean over n prompts by s^2 (1/n - 1/(n + 1)), so
 * every method gets its first prompt before any gets a second. In timed sweeps repeats are treated
 * like prompts; in other sweeps they come last. Timed cells whose costs are within a factor of two
 * keep the sweep's order. A baseline precedes the first cell that needs it. */
enum kvr_status kvr_most_telling_first(int *order, const struct kvr_sweep *sweep,
                                       const struct kvr_job *jobs);

/* Whether the rollout's time is known precisely enough without this cell. The cell must be the
 * seventh repeat or a later one, and at least six others must count (kvr_store_times). The
 * confidence interval of their median must be within `until` of it. */
enum kvr_status kvr_time_is_known(struct kvr_store *s, const struct kvr_session *session,
                                  const struct kvr_cell *cell, double until, kvr_width_fn *width,
                                  bool *yes);

/* Whether the config's stop rule makes cell `at` unnecessary, and for a baseline also all cells
 * that wait for it. *yes is false without a rule, a width or a store. */
enum kvr_status kvr_is_enough(struct kvr_store *s, const struct kvr_session *session,
                              const struct kvr_sweep *sweep, const struct kvr_job *jobs, int at,
                              kvr_width_fn *width, bool *yes);

#endif
