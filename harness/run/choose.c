/* choose.c - decides which cells a resumed sweep runs. OK and UNSUPPORTED cells are kept (with
 * --stale, only those of this build). Failed cells are kept unless a retry is requested. Skipped
 * and interrupted cells run again. For a cell that lacks requested metrics, the metrics are
 * computed from its stored frames. */
#include "harness/run/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/core/sha256.h"
#include "harness/run/scored.h"

struct retry {
    bool any, only[KVR_N_OUTCOMES]; /* any: at least one outcome is retried */
};

/* "failed" or "failed:TIMEOUT,SIGNAL". */
static enum kvr_status parse_retry(struct retry *r, const char *text)
{
    char copy[256], *save = NULL;

    memset(r, 0, sizeof *r);
    if (!text)
        return KVR_OK;
    r->any = true;
    if (strcmp(text, "failed") == 0) {
        for (int o = 0; o < KVR_N_OUTCOMES; o++)
            r->only[o] = kvr_outcome_is_failure((enum kvr_outcome)o);
        return KVR_OK;
    }
    if (strncmp(text, "failed:", 7) == 0 && strlen(text) < sizeof copy)
        snprintf(copy, sizeof copy, "%s", text + 7);
    else
        copy[0] = '\0';
    if (copy[strspn(copy, ",")] == '\0')
        return kvr_fail(
            KVR_EINVAL,
            "retry '%s': need failed, or failed:TYPE,... with types such as TIMEOUT or ERROR",
            text);
    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        enum kvr_outcome o;

        if (!kvr_outcome_parse(w, &o) || !kvr_outcome_is_failure(o))
            return kvr_fail(KVR_EINVAL,
                            "retry '%s': '%s' is not one of OOM_HOST, OOM_DEVICE, TIMEOUT, SIGNAL, "
                            "NAN, DIVERGED, INVALID, ERROR",
                            text, w);
        r->only[o] = true;
    }
    return KVR_OK;
}

/* Whether a failure may depend on the state of the machine, so that a retry may succeed. */
static bool may_pass(enum kvr_outcome o)
{
    return o == KVR_OUT_OOM_HOST || o == KVR_OUT_OOM_DEVICE || o == KVR_OUT_TIMEOUT ||
           o == KVR_OUT_SIGNAL || o == KVR_OUT_ERROR;
}

enum kvr_status kvr_retries_parse(struct kvr_retries *r, const char *text)
{
    char copy[256], *save = NULL;

    memset(r, 0, sizeof *r);
    if (!text)
        return KVR_OK;
    if (strlen(text) >= sizeof copy)
        return kvr_fail(
            KVR_EINVAL,
            "retries: the list of TYPE:N entries has %zu characters, at most %zu are allowed",
            strlen(text), sizeof copy - 1);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        char *colon = strchr(w, ':'), *end = NULL;
        const long n = colon ? strtol(colon + 1, &end, 10) : 0;
        enum kvr_outcome o;

        if (!colon || end == colon + 1 || *end || n < 1 || n > 100)
            return kvr_fail(KVR_EINVAL,
                            "retries '%s': '%s' must have the form TYPE:N with N from 1 to 100",
                            text, w);
        *colon = 0;
        if (!kvr_outcome_parse(w, &o) || !may_pass(o))
            return kvr_fail(
                KVR_EINVAL,
                "retries '%s': '%s' is not one of OOM_HOST, OOM_DEVICE, TIMEOUT, SIGNAL, ERROR",
                text, w);
        r->most[o] = (int)n;
    }
    return KVR_OK;
}

/* Sets *yes to whether the frames file exists and has the hash that the database has. */
static enum kvr_status frames_exist(const char *out_dir, const char *name, const char *sha256,
                                    bool *yes)
{
    char hex[KVR_SHA256_HEX], *path;
    enum kvr_status st;

    *yes = false;
    if (!name || !name[0] || !sha256)
        return KVR_OK;
    path = kvr_path_join(out_dir, name);
    st = path ? kvr_sha256_file(path, hex) : kvr_fail(KVR_ENOMEM, "run: out of memory");
    *yes = st == KVR_OK && strcmp(hex, sha256) == 0;
    free(path);
    return st == KVR_ENOMEM ? st : KVR_OK;
}

static void keep_known(struct kvr_job *j, const struct kvr_known *known, const char *build,
                       struct kvr_run_summary *s)
{
    s->done_before++;
    if (known->outcome == KVR_OUT_OK) {
        j->other_build = strcmp(known->build, build) != 0;
        s->n_stale += j->other_build;
        j->state = KVR_DONE;
        snprintf(j->frames_path, sizeof j->frames_path, "%s", known->frames_path);
        snprintf(j->frames_sha256, sizeof j->frames_sha256, "%s", known->frames_sha256);
        return;
    }
    j->state = KVR_FAILED;
    snprintf(j->reason, sizeof j->reason, "%s", known->reason);
    s->failed_before += kvr_outcome_is_failure(known->outcome);
}

static void choose_one(struct kvr_job *j, const struct kvr_known *known,
                       const struct kvr_run_options *opts, const struct retry *retry,
                       const char *build, struct kvr_run_summary *s)
{
    bool stale = opts->stale && known->found && known->outcome == KVR_OUT_OK &&
                 strcmp(known->build, build) != 0;
    /* a cell stored as excluded runs if the config no longer excludes it */
    bool finished =
        known->found && !kvr_outcome_is_open(known->outcome) && known->outcome != KVR_OUT_EXCLUDED;

    if (!j->cell->possible) {
        j->state = KVR_FAILED;
        snprintf(j->reason, sizeof j->reason, "%s", j->cell->reason);
        s->unsupported += !j->cell->excluded;
        s->excluded += j->cell->excluded;
    } else if (finished && !opts->force && !stale && !retry->only[known->outcome]) {
        keep_known(j, known, build, s);
    } else {
        j->state = KVR_WAITING;
        s->to_run++;
    }
}

/* Marks a finished baseline to run again if a cell that will run needs the baseline's frames, but
 * these are missing, damaged or of another build. */
static enum kvr_status need_frames(struct kvr_job *jobs, const struct kvr_sweep *sweep,
                                   const char *out_dir, struct kvr_run_summary *s)
{
    /* from last to first: a baseline marked here may itself need a baseline, which precedes it */
    for (int i = sweep->n_cells - 1; i >= 0; i--) {
        struct kvr_job *b = &jobs[sweep->cell[i].baseline];
        bool there = false;

        if (jobs[i].state != KVR_WAITING || b->state != KVR_DONE || b->cell->no_frames)
            continue;
        if (!b->other_build)
            KVR_TRY(frames_exist(out_dir, b->frames_path, b->frames_sha256, &there));
        if (there)
            continue;
        b->state = KVR_WAITING;
        s->to_score -= b->to_score; /* the baseline's new run computes all its metrics */
        b->to_score = false;
        b->expect_same_frames = !b->other_build;
        s->n_stale -= b->other_build;
        s->done_before--;
        s->to_run++;
    }
    return KVR_OK;
}

/* Uses the stored cell `a`, whose rollout is the same, in place of the job's cell. The spec then
 * lists the metrics of both cells. The metrics that `a` lacks are computed from the frames of `a`
 * and its baseline; if these frames are missing, the job's cell runs. */
static enum kvr_status take_alike(struct kvr_job *j, struct kvr_store *store,
                                  const struct kvr_alike *a, const char *out_dir,
                                  struct kvr_known *known)
{
    struct kvr_cell *c = j->cell;
    char *spec = NULL;
    bool lacks;

    KVR_TRY(kvr_scored_lacks(a->spec, c->spec, &lacks));
    lacks = lacks && strcmp(c->set.kind, "bench") == 0 && !c->no_frames;
    for (int i = 0; lacks && i < 2; i++) {
        bool there;

        KVR_TRY(frames_exist(out_dir, a->frames[i], a->sha256[i], &there));
        if (!there)
            return KVR_OK; /* the job's cell has to run */
    }
    KVR_TRY(kvr_scored_with_all(a->spec, c->spec, &spec));
    free(c->spec);
    c->spec = spec;
    snprintf(c->key, sizeof c->key, "%.32s", a->key);
    j->to_score = lacks;
    return kvr_store_known(store, c->key, known);
}

static enum kvr_status find_known_cell(struct kvr_job *j, struct kvr_store *store,
                                       const struct kvr_run_options *opts, const char *build,
                                       const char *out_dir, struct kvr_known *known)
{
    struct kvr_alike alike;
    struct kvr_known known_alike;
    enum kvr_status st;

    KVR_TRY(kvr_store_known(store, j->cell->key, known));
    if (known->found || opts->force || !j->cell->possible)
        return KVR_OK;
    KVR_TRY(kvr_store_alike(store, j->cell->rollout, j->cell->spec, &alike));
    st = alike.key[0] ? kvr_store_known(store, alike.key, &known_alike) : KVR_OK;
    if (st == KVR_OK && alike.key[0] && !(opts->stale && strcmp(known_alike.build, build) != 0))
        st = take_alike(j, store, &alike, out_dir, known);
    kvr_alike_free(&alike);
    return st;
}

/* Looks a cell up in the database by its key, then by the keys that earlier versions gave it. If a
 * result is found under an earlier key, the cell gets that key. */
static enum kvr_status look_up(struct kvr_job *j, struct kvr_store *store,
                               const struct kvr_run_options *opts, const char *build,
                               const char *out_dir, struct kvr_known *known)
{
    KVR_TRY(find_known_cell(j, store, opts, build, out_dir, known));
    if (known->found || !j->cell->former)
        return KVR_OK;
    kvr_cell_swap_former(j->cell);
    KVR_TRY(find_known_cell(j, store, opts, build, out_dir, known));
    if (!known->found)
        kvr_cell_swap_former(j->cell);
    return KVR_OK;
}

enum kvr_status kvr_choose(struct kvr_job **out, struct kvr_store *store, struct kvr_sweep *sweep,
                           const struct kvr_run_options *opts, const char *build,
                           const char *out_dir, struct kvr_run_summary *summary)
{
    struct kvr_job *jobs = calloc((size_t)sweep->n_cells + 1, sizeof *jobs);
    struct retry retry;
    enum kvr_status st = parse_retry(&retry, opts->retry);

    if (st == KVR_OK && !jobs)
        st = kvr_fail(KVR_ENOMEM, "run: out of memory while allocating %d cells", sweep->n_cells);
    for (int i = 0; st == KVR_OK && i < sweep->n_cells; i++) {
        struct kvr_known known = { 0 };

        jobs[i].cell = &sweep->cell[i];
        if (!sweep->cell[i].selected)
            continue;
        summary->cells++;
        if (store)
            st = look_up(&jobs[i], store, opts, build, out_dir, &known);
        if (st == KVR_OK)
            choose_one(&jobs[i], &known, opts, &retry, build, summary);
        summary->to_score += jobs[i].to_score;
    }
    if (st == KVR_OK)
        st = need_frames(jobs, sweep, out_dir, summary);
    summary->skipped = summary->done_before + summary->unsupported + summary->excluded;
    if (st != KVR_OK) {
        free(jobs);
        return st;
    }
    *out = jobs;
    return KVR_OK;
}
