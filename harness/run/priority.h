/* priority.h - orders the cells (single runs) of a sweep by information per cost, for runs that end
 * early, and finds unnecessary cells. */
#ifndef KVR_RUN_PRIORITY_H
#define KVR_RUN_PRIORITY_H

#include "harness/run/choose.h"

/* Sorts `order`, the indices of all cells, by descending information per cost. Tied cells keep
 * their relative order in `order`, except that timed cells are put in the sweep's order. The
 * information of one more prompt is the decrease of the variance of a method's mean over n
 * prompts, s^2 (1/n - 1/(n + 1)). The standard deviation s over prompts is assumed to be equal for
 * all methods. If costs are equal, every method therefore gets its first prompt before any method
 * gets a second. A repeat is one more cell with the same method, prompt and seed. In timed sweeps
 * it has the same information as a new prompt; in untimed sweeps repeats come last. Costs of timed
 * cells are rounded to powers of two, so that cells with similar costs tie. A baseline precedes
 * the first cell that needs it. */
enum kvr_status kvr_most_telling_first(int *order, const struct kvr_sweep *sweep,
                                       const struct kvr_job *jobs);

/* Sets *yes to true if earlier repeats already give the rollout's time precisely enough, so that
 * the timed cell `cell` is unnecessary. The cell must be the seventh or a later repeat, and at
 * least six repeats must have valid times (kvr_store_times). The confidence interval of the median
 * of these times, divided by the median, must have a width of at most `until`. The callback `width`
 * computes this relative width. */
enum kvr_status kvr_time_is_known(struct kvr_store *s, const struct kvr_session *session,
                                  const struct kvr_cell *cell, double until, kvr_width_fn *width,
                                  bool *yes);

/* Sets *yes to true if the config's stop rule makes cell `at` unnecessary. The rule calls
 * kvr_time_is_known with the config's maximum relative width `until`. If the cell is a baseline,
 * all waiting cells that need it must also be unnecessary. *yes is false if the config has no stop
 * rule, `width` is NULL, or there is no database (`s` is NULL). */
enum kvr_status kvr_is_enough(struct kvr_store *s, const struct kvr_session *session,
                              const struct kvr_sweep *sweep, const struct kvr_job *jobs, int at,
                              kvr_width_fn *width, bool *yes);

#endif
