/* runner_record.c - stores the session (this run), its plan and each attempt at a cell in the
 * database; see runner_impl.h. */
#include "harness/run/runner_impl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/core/clock.h"
#include "harness/core/memtext.h"
#include "harness/core/path.h"
#include "harness/run/answer.h"
#include "harness/run/choose.h"
#include "harness/run/disturbance.h"
#include "harness/run/gpus.h"
#include "harness/run/progress.h"
#include "harness/run/run.h"
#include "harness/store/plan.h"

enum kvr_status kvr_runner_store_attempt(struct runner *r, struct kvr_job *j,
                                         const struct kvr_attempt *tried, struct kvr_verdict *v)
{
    struct kvr_attempt a = *tried; /* a copy, because it will point to the local array `now` */
    char now[KVR_UTC_BYTES];

    kvr_utc_now(now);
    a.cell = j->cell;
    a.baseline_key = r->sweep.cell[j->cell->baseline].key;
    a.session = r->session.id;
    a.finished = now;
    if (!a.started)
        a.started = now;
    return kvr_attempt_store(r->store, &a, v);
}

enum kvr_status kvr_runner_store_untried(struct runner *r, struct kvr_job *j, enum kvr_outcome o,
                                         const char *reason, struct kvr_verdict *v)
{
    const struct kvr_attempt a = { .outcome = o, .reason = reason, .log_tail = "" };

    return kvr_runner_store_attempt(r, j, &a, v);
}

enum kvr_status kvr_runner_store_unsupported(struct runner *r)
{
    for (int i = 0; i < r->sweep.n_cells; i++) {
        struct kvr_job *j = &r->jobs[i];
        const enum kvr_outcome o = j->cell->excluded ? KVR_OUT_EXCLUDED : KVR_OUT_UNSUPPORTED;
        struct kvr_known known;
        struct kvr_verdict v;

        if (!j->cell->selected || j->cell->possible)
            continue;
        KVR_TRY(kvr_store_known(r->store, j->cell->key, &known));
        if (known.found && known.outcome == o && strcmp(known.reason, j->reason) == 0)
            continue;
        if (known.found && known.outcome == KVR_OUT_OK)
            continue; /* an OK result from before the exclusion is kept */
        KVR_TRY(kvr_runner_store_untried(r, j, o, j->reason, &v));
        kvr_progress_say(&r->progress, "%s %s: %s: %s", j->cell->prompt->id, j->cell->label,
                         kvr_outcome_name(o), j->reason);
    }
    return KVR_OK;
}

enum kvr_status kvr_runner_settle(struct runner *r, struct kvr_job *j, const struct kvr_verdict *v)
{
    if (v->disk_full)
        return kvr_fail(KVR_EFULL, "%s; earlier results are in %s", v->reason, r->summary->db_path);
    j->state = v->outcome == KVR_OUT_OK ? KVR_DONE : KVR_FAILED;
    snprintf(j->reason, sizeof j->reason, "%s", v->reason);
    snprintf(j->frames_path, sizeof j->frames_path, "%s", v->frames_path);
    snprintf(j->frames_sha256, sizeof j->frames_sha256, "%s", v->frames_sha256);
    r->summary->noisy += v->outcome == KVR_OUT_OK && v->noisy;
    if (v->outcome == KVR_OUT_OK)
        r->summary->ok++;
    else if (v->outcome == KVR_OUT_UNSUPPORTED) {
        r->summary->unsupported++;
        r->summary->skipped++;
    } else if (v->outcome != KVR_OUT_INTERRUPTED) {
        r->summary->failed++;
    }
    kvr_progress_cell(&r->progress, j->cell, v);
    return KVR_OK;
}

/* The out folder relative to the database's folder, so that both can be moved together; NULL if it
 * does not exist. */
static enum kvr_status out_from_db(const struct kvr_run_summary *s, char **out)
{
    char from[PATH_MAX], to[PATH_MAX], *dir = kvr_path_dir(s->db_path);
    bool there;

    *out = NULL;
    if (!dir)
        return kvr_fail(KVR_ENOMEM, "run: out of memory");
    there = realpath(dir, from) && realpath(s->out_dir, to);
    free(dir);
    if (there)
        *out = kvr_path_relative(from, to);
    return *out || !there ? KVR_OK : kvr_fail(KVR_ENOMEM, "run: out of memory");
}

/* Writes the config path and the command-line overrides as one text, the description of the sweep.
 */
static enum kvr_status name_config(const struct runner *r, char **out)
{
    size_t size;
    FILE *to = kvr_text_open(out, &size);

    if (to)
        fputs(r->session.config_path, to);
    for (const char *const *o = r->opts->sweep.overrides; to && o && *o; o++)
        fprintf(to, " %s", *o);
    if (kvr_text_close(to, out))
        return KVR_OK;
    return kvr_fail(KVR_ENOMEM, "run: out of memory");
}

enum kvr_status kvr_runner_record_session(struct runner *r)
{
    const struct kvr_run_options *o = r->opts;
    struct kvr_session *s = &r->session;
    struct timespec now;
    char text[64], *out;
    enum kvr_status st = out_from_db(r->summary, &out);

    if (st == KVR_OK && out)
        st = kvr_session_set_fact(s, "out", out);
    free(out);
    KVR_TRY(st);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, sizeof text, "%019lld", now.tv_sec * 1000000000LL + now.tv_nsec);
    KVR_TRY(kvr_session_set_fact(s, "began_ns", text));
    KVR_TRY(kvr_session_set_fact(s, "state", "running"));
    KVR_TRY(kvr_session_set_fact(s, "sweep", r->plan_id));
    if (o->filter)
        KVR_TRY(kvr_session_set_fact(s, "filter", o->filter));
    snprintf(text, sizeof text, "%d", o->limit);
    if (o->limit > 0)
        KVR_TRY(kvr_session_set_fact(s, "limit", text));
    snprintf(text, sizeof text, "%d s", o->budget_s);
    if (o->budget_s > 0)
        KVR_TRY(kvr_session_set_fact(s, "budget", text));
    snprintf(text, sizeof text, "%d/%d", o->shard, o->n_shards);
    if (o->n_shards > 1)
        KVR_TRY(kvr_session_set_fact(s, "shard", text));
    return kvr_session_identify(s);
}

enum kvr_status kvr_runner_record_gpus(struct runner *r)
{
    char text[KVR_MAX_DEVICES * KVR_UUID_LEN] = "";
    size_t n = 0;

    for (int i = 0; i < r->gpus.n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "",
                              kvr_gpus_uuid(&r->gpus, i));
    return r->gpus.n ? kvr_session_set_fact(&r->session, "device_uuids", text) : KVR_OK;
}

enum kvr_status kvr_runner_record_gpu_states(struct runner *r)
{
    char uuid[KVR_MAX_DEVICES][KVR_UUID_LEN], *text;
    enum kvr_status st = KVR_OK;

    if (!r->gpus.n)
        return KVR_OK;
    for (int i = 0; i < r->gpus.n; i++)
        snprintf(uuid[i], sizeof uuid[i], "%s", kvr_gpus_uuid(&r->gpus, i));
    text = kvr_machine_gpus(&r->machine, (const char(*)[KVR_UUID_LEN])uuid, r->gpus.n);
    if (!text)
        return kvr_fail(KVR_ENOMEM, "run: out of memory");
    if (text[0])
        st = kvr_session_set_fact(&r->session, "gpus", text);
    free(text);
    KVR_TRY(st);
    return kvr_session_set_fact(&r->session, "nvml", r->machine.nvml);
}

enum kvr_status kvr_runner_identify_plan(struct runner *r)
{
    const size_t len = KVR_KEY_LEN - 1;
    char *keys = malloc((size_t)r->sweep.n_cells * len + 1);
    enum kvr_status st;

    if (!keys)
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating a plan");
    for (int i = 0; i < r->sweep.n_cells; i++)
        memcpy(keys + (size_t)i * len, r->sweep.cell[i].key, len);
    keys[(size_t)r->sweep.n_cells * len] = 0;
    st = kvr_cell_hash(keys, r->plan_id);
    free(keys);
    return st;
}

enum kvr_status kvr_runner_store_plan(struct runner *r)
{
    struct kvr_planned *planned = calloc((size_t)r->sweep.n_cells + 1, sizeof *planned);
    struct kvr_plan plan = {
        .id = r->plan_id, .name = r->config.name, .n = r->sweep.n_cells, .cell = planned
    };
    char *config = NULL;
    enum kvr_status st;

    if (!planned)
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating a plan");
    for (int i = 0; i < r->sweep.n_cells; i++) {
        const struct kvr_cell *c = &r->sweep.cell[i];

        planned[i] = (struct kvr_planned){ .cell = c->key,
                                           .method = c->label,
                                           .model = c->model_label,
                                           .suite = c->suite->name,
                                           .prompt_id = c->prompt->id,
                                           .run_kind = c->set.kind,
                                           .cost = c->cost,
                                           .state = c->excluded         ? "excluded"
                                                    : !c->possible      ? "unsupported"
                                                    : r->jobs[i].enough ? "enough"
                                                                        : "planned" };
    }
    st = name_config(r, &config);
    plan.config = config;
    if (st == KVR_OK)
        st = kvr_store_plan(r->store, &plan);
    free(config);
    free(planned);
    return st;
}

enum kvr_status kvr_runner_end_session(struct runner *r, enum kvr_status ended)
{
    const bool stopped = ended == KVR_EINTERRUPTED || r->summary->interrupted;
    char why[1024];
    enum kvr_status st;

    snprintf(why, sizeof why, "%s", kvr_error());
    st = kvr_store_about(r->store, r->session.id, "state",
                         stopped           ? "interrupted"
                         : ended == KVR_OK ? "done"
                                           : "failed");
    if (st == KVR_OK && ended != KVR_OK)
        st = kvr_store_about(r->store, r->session.id, "error", why);
    return ended == KVR_OK ? st : kvr_fail(ended, "%s", why);
}
