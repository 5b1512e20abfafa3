/* plan.h - what a sweep is to measure, and where it is: the plan in the database.
 *
 *     KVR_TRY(kvr_store_plan(store, &plan));               all cells, once for a config
 *     KVR_TRY(kvr_store_session(store, &session));
 *     KVR_TRY(kvr_store_about(store, session.id, "state", "running"));
 *     KVR_TRY(kvr_store_started(store, key, session.id, now, ""));     a cell; its row ends that
 *
 * The plan is the whole config's, whatever part of it a run was asked for: what nobody has measured
 * is open and seen to be. Views `sweeps` and `coverage` hold it against the cells. */
#ifndef KVR_STORE_PLAN_H
#define KVR_STORE_PLAN_H

#include "harness/store/store.h"

/* Borrowed for the call. */
struct kvr_planned {
    const char *cell, *method, *model, *suite, *prompt_id, *run_kind;
    double cost;       /* operations, or any other unit that is the same for the whole plan */
    const char *state; /* "planned", "excluded", "unsupported" */
};

struct kvr_plan {
    const char *id; /* hash of the keys */
    const char *name, *config;
    int n;
    const struct kvr_planned *cell;
};

/* All of it or nothing; a plan that is there stays, but for the states of its cells. */
enum kvr_status kvr_store_plan(struct kvr_store *s, const struct kvr_plan *plan);

/* The stop rule leaves this cell out of the plan, or (yes: false) takes it in again. */
enum kvr_status kvr_store_enough(struct kvr_store *s, const char *sweep, const char *cell,
                                 bool yes);

/* A fact about a session, written over an earlier one of that name. */
enum kvr_status kvr_store_about(struct kvr_store *s, const char *session, const char *name,
                                const char *value);

/* A cell is being measured on one of several devices ("": there is one). kvr_store_put() of it is
 * its end; kvr_store_stopped() where there is no row. */
enum kvr_status kvr_store_started(struct kvr_store *s, const char *cell, const char *session,
                                  const char *started, const char *device);
enum kvr_status kvr_store_stopped(struct kvr_store *s, const char *cell);
/* What died with an earlier session runs no more. Under the lock of the database. */
enum kvr_status kvr_store_none_running(struct kvr_store *s);

#endif
