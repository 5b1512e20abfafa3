/* plan.h - the plan of a sweep in the database: its cells and their state.
 *
 *     KVR_TRY(kvr_store_plan(store, &plan));               all cells, once per config
 *     KVR_TRY(kvr_store_session(store, &session));
 *     KVR_TRY(kvr_store_about(store, session.id, "state", "running"));
 *     KVR_TRY(kvr_store_started(store, key, session.id, now, ""));     a cell; its row ends that
 *
 * The plan covers the whole config even if a run is restricted to a part, so unmeasured cells show
 * as open. The views `sweeps` and `coverage` compare it with the cells. */
#ifndef KVR_STORE_PLAN_H
#define KVR_STORE_PLAN_H

#include "harness/store/store.h"

/* Borrowed for the call. */
struct kvr_planned {
    const char *cell, *method, *model, *suite, *prompt_id, *run_kind;
    double cost;       /* operations, or another unit common to the plan */
    const char *state; /* "planned", "excluded", "unsupported" */
};

struct kvr_plan {
    const char *id; /* hash of the keys */
    const char *name, *config;
    int n;
    const struct kvr_planned *cell;
};

/* One transaction; an existing plan is kept except for the states of its cells. */
enum kvr_status kvr_store_plan(struct kvr_store *s, const struct kvr_plan *plan);

/* Marks a cell as left out by the stop rule, or (yes: false) includes it again. */
enum kvr_status kvr_store_enough(struct kvr_store *s, const char *sweep, const char *cell,
                                 bool yes);

/* Sets a fact of a session, replacing an earlier value. */
enum kvr_status kvr_store_about(struct kvr_store *s, const char *session, const char *name,
                                const char *value);

/* Records that a cell is being measured, on `device` ("": there is only one). Ended by
 * kvr_store_put(), or by kvr_store_stopped() if there is no row. */
enum kvr_status kvr_store_started(struct kvr_store *s, const char *cell, const char *session,
                                  const char *started, const char *device);
enum kvr_status kvr_store_stopped(struct kvr_store *s, const char *cell);
/* Clears the running state of cells of dead sessions. Requires the database's lock. */
enum kvr_status kvr_store_none_running(struct kvr_store *s);

#endif
