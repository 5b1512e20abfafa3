/* plan.h - stores the plan of a sweep: its cells and their states.
 *
 *     KVR_TRY(kvr_store_plan(store, &plan));               all cells, once per config
 *     KVR_TRY(kvr_store_session(store, &session));
 *     KVR_TRY(kvr_store_about(store, session.id, "state", "running"));
 *     KVR_TRY(kvr_store_started(store, key, session.id, now, ""));     until kvr_store_put()
 *
 * The plan contains all cells of the config, even if a run measures only some of them. The views
 * `sweeps` and `coverage` compare the plan with the measured cells, and count planned cells without
 * a measurement as open. */
#ifndef KVR_STORE_PLAN_H
#define KVR_STORE_PLAN_H

#include "harness/store/store.h"

/* One cell of a plan. kvr_store_plan() does not keep the pointers after it returns. */
struct kvr_planned {
    const char *cell, *method, *model, *suite, *prompt_id, *run_kind;
    double cost;       /* predicted cost of the cell in FLOPs, or in another unit that all cells of
                        * the plan share */
    const char *state; /* "planned", "excluded", "unsupported" */
};

struct kvr_plan {
    const char *id; /* hash of the keys of all cells */
    const char *name, *config;
    int n;
    const struct kvr_planned *cell;
};

/* Stores a plan in one transaction. If the database already has the plan, the function changes only
 * the column `state` of its cells. */
enum kvr_status kvr_store_plan(struct kvr_store *s, const struct kvr_plan *plan);

/* If `yes` is true, marks a planned cell as no longer needed, because the stop rule `until:
 * decided` ended the sweep. If `yes` is false, removes the mark. */
enum kvr_status kvr_store_enough(struct kvr_store *s, const char *sweep, const char *cell,
                                 bool yes);

/* Stores a property of a session as name and value, replacing an earlier value. */
enum kvr_status kvr_store_about(struct kvr_store *s, const char *session, const char *name,
                                const char *value);

/* Records that a cell is running on `device` ("" if the machine has only one device). The record is
 * removed by kvr_store_put(). */
enum kvr_status kvr_store_started(struct kvr_store *s, const char *cell, const char *session,
                                  const char *started, const char *device);
/* Removes the record of a running cell that ended without a result to store. */
enum kvr_status kvr_store_stopped(struct kvr_store *s, const char *cell);
/* Removes all records of running cells. The caller must hold the database's lock, which ensures
 * that no cell is running and that the records are from killed sessions. */
enum kvr_status kvr_store_none_running(struct kvr_store *s);

#endif
