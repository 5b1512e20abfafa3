/* runner_jobs.c - chooses the job that starts next, and handles the end of its worker; see
 * runner_impl.h. */
#include "harness/run/runner_impl.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/core/hostmem.h"
#include "harness/run/answer.h"
#include "harness/run/by_name.h"
#include "harness/run/choose.h"
#include "harness/run/disturbance.h"
#include "harness/run/gpus.h"
#include "harness/run/priority.h"
#include "harness/run/progress.h"
#include "harness/run/spawn.h"
#include "harness/store/history.h"
#include "harness/store/plan.h"

/* Creates links with readable names to a cell's files. The links are optional: if the folder does
 * not support links, this is reported once. Probes get no links, because they repeat rollouts of
 * cells of kind `bench`. */
static void link_by_name(struct runner *r, const struct kvr_job *j)
{
    const struct kvr_cell *c = j->cell;
    char video[320];
    enum kvr_status st = KVR_OK;

    if (r->no_links || j->state != KVR_DONE || strcmp(c->set.kind, "bench") != 0)
        return;
    snprintf(video, sizeof video, "videos/%s-%.8s.mp4", c->video, r->build);
    if (kvr_runner_wants_video(r, c))
        st = kvr_link_by_name(r->summary->out_dir, c->prompt->id, c->label, c->key, video);
    if (st == KVR_OK && j->frames_path[0])
        st = kvr_link_by_name(r->summary->out_dir, c->prompt->id, c->label, c->key, j->frames_path);
    r->no_links = st != KVR_OK;
    if (r->no_links)
        kvr_progress_say(&r->progress, "no more symbolic links are created in by-name/: %s",
                         kvr_error());
}

static enum kvr_status start(struct runner *r, struct worker *w, struct kvr_job *j, bool drift,
                             int gpu)
{
    char *request = kvr_runner_request(r, j, drift);
    enum kvr_status st;

    if (!request)
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating a worker's request");
    memset(w, 0, sizeof *w);
    w->gpu = gpu;
    kvr_disturbance_begin(&w->disturbance, &r->machine, kvr_gpus_uuid(&r->gpus, gpu));
    st = kvr_child_start(&w->child, request, strlen(request), j->cell->set.threads,
                         r->gpus.n > 1 ? kvr_gpus_uuid(&r->gpus, gpu) : "");
    free(request);
    if (st != KVR_OK)
        return st;
    kvr_utc_now(w->started);
    w->start_ns = kvr_now_ns();
    w->deadline_ns = w->start_ns + (int64_t)r->timeout_s * 1000000000;
    w->job = j;
    w->drift = drift;
    w->oom_kills = kvr_host_oom_kills();
    r->n_running++;
    if (drift)
        return KVR_OK;
    j->state = KVR_RUNNING;
    r->n_started += j->tries == 0;
    return kvr_store_started(r->store, j->cell->key, r->session.id, w->started,
                             kvr_gpus_uuid(&r->gpus, gpu));
}

static enum kvr_status skip_without_baseline(struct runner *r, struct kvr_job *j,
                                             const struct kvr_job *baseline)
{
    struct kvr_verdict v;
    char why[640];

    snprintf(why, sizeof why, "the BF16 baseline of this cell failed: %s", baseline->reason);
    KVR_TRY(kvr_runner_store_untried(r, j, KVR_OUT_SKIPPED, why, &v));
    return kvr_runner_settle(r, j, &v);
}

static enum kvr_status leave_out(struct runner *r, struct kvr_job *j)
{
    j->state = KVR_LEFT_OUT;
    r->summary->enough++;
    r->progress.total--;
    return kvr_store_enough(r->store, r->plan_id, j->cell->key, true);
}

static enum kvr_status is_enough(struct runner *r, const struct kvr_job *j, bool *yes)
{
    return kvr_is_enough(r->store, &r->session, &r->sweep, r->jobs, (int)(j - r->jobs),
                         r->opts->width, yes);
}

enum kvr_status kvr_runner_find_enough(struct runner *r)
{
    for (int i = r->sweep.n_cells - 1; i >= 0; i--) { /* candidates before baselines */
        bool yes = false;

        if (r->jobs[i].state == KVR_WAITING)
            KVR_TRY(is_enough(r, &r->jobs[i], &yes));
        if (yes) {
            r->jobs[i].state = KVR_LEFT_OUT;
            r->jobs[i].enough = true;
            r->summary->to_run--;
            r->summary->enough++;
        }
    }
    return KVR_OK;
}

/* Whether the job and the remaining drift measurements (repeats of a baseline, runner_drift.c)
 * would finish within the time budget. Their time is their cost (FLOP) times the mean time per FLOP
 * of the finished cells, or 0 if no cell has finished. */
static bool is_in_time(const struct runner *r, const struct kvr_job *j)
{
    const double pace = r->cost_done > 0 ? (double)r->ns_done / r->cost_done : 0;
    const double again = r->drift_job ? (N_DRIFT - r->n_drift) * r->drift_job->cell->cost : 0;
    const double end = (double)kvr_now_ns() + pace * (j->cell->cost + again);

    return r->opts->budget_s <= 0 || end < (double)r->t0_ns + 1e9 * (double)r->opts->budget_s;
}

/* Finds the first waiting job whose baseline has finished, or whose cell generates no frames and so
 * needs no baseline. If there is none, *out is NULL. On the way it skips cells whose baseline
 * failed, and leaves out cells whose baseline was left out. */
static enum kvr_status next_job(struct runner *r, struct kvr_job **out)
{
    bool enough;

    *out = NULL;
    while (r->next < r->sweep.n_cells && r->jobs[r->order[r->next]].state != KVR_WAITING)
        r->next++;
    for (int i = r->next; i < r->sweep.n_cells; i++) {
        struct kvr_job *j = &r->jobs[r->order[i]], *b = &r->jobs[j->cell->baseline];

        if (j->state != KVR_WAITING || !is_in_time(r, j))
            continue;
        if (b == j || b->state == KVR_DONE || j->cell->no_frames) {
            KVR_TRY(is_enough(r, j, &enough));
            if (enough) {
                KVR_TRY(leave_out(r, j));
                continue;
            }
            *out = j;
            return KVR_OK;
        }
        if (b->state == KVR_FAILED)
            KVR_TRY(skip_without_baseline(r, j, b));
        /* the stop rule holds for the baseline and all cells that need it */
        if (b->state == KVR_LEFT_OUT)
            KVR_TRY(leave_out(r, j));
    }
    return KVR_OK;
}

/* Called when no GPU is free: reports the wait once; the next pass of the loop tries again. */
static void wait_for_gpu(struct runner *r)
{
    r->waits_for_gpu = r->n_running == 0;
    if (r->waits_for_gpu && !r->said_so)
        kvr_progress_say(
            &r->progress,
            "waiting for a free GPU: other kvreel runs occupy %s that this run may use",
            r->gpus.n == 1 ? "the only GPU" : "all GPUs");
    r->said_so = r->said_so || r->waits_for_gpu;
}

enum kvr_status kvr_runner_fill_workers(struct runner *r)
{
    r->waits_for_gpu = false;
    for (int i = 0; i < r->n_workers && !r->signals; i++) {
        struct kvr_job *j, *drift;
        bool taken;
        int gpu;

        if (r->workers[i].job)
            continue;
        KVR_TRY(next_job(r, &j));
        drift = kvr_runner_drift_due(r, j != NULL);
        if (!drift && !j)
            return KVR_OK;
        KVR_TRY(kvr_gpu_acquire(&r->gpus, &gpu, &taken));
        if (!taken) {
            wait_for_gpu(r);
            return KVR_OK;
        }
        r->n_drift += drift != NULL;
        KVR_TRY(start(r, &r->workers[i], drift ? drift : j, drift != NULL, gpu));
    }
    return KVR_OK;
}

/* Whether a failed cell is tried again, because the failure may be temporary. The cell keeps its
 * position in the order. */
static bool tries_again(struct runner *r, struct kvr_job *j, const struct kvr_verdict *v)
{
    if (r->signals || v->disk_full || j->tries >= r->retries.most[v->outcome])
        return false;
    j->tries++;
    j->state = KVR_WAITING;
    r->next = 0;
    r->summary->retried++;
    kvr_progress_say(&r->progress, "%s %s: %s: %s: retry %d of %d", j->cell->prompt->id,
                     j->cell->label, kvr_outcome_name(v->outcome), v->reason, j->tries,
                     r->retries.most[v->outcome]);
    return true;
}

enum kvr_status kvr_runner_finish(struct runner *r, struct worker *w, int wait_status)
{
    struct kvr_job *j = w->job;
    struct kvr_disturbance *disturbance = &w->disturbance;
    struct kvr_attempt a = {
        .started = w->started,
        .answer = w->child.answer ? w->child.answer : "",
        .log_tail = w->child.tail,
        .wait_status = wait_status,
        .cell_ns = kvr_now_ns() - w->start_ns,
        .timed_out = w->timed_out,
        .stopped = w->stopped,
        .timeout_s = r->timeout_s,
        .expected_frames = j->expect_same_frames ? j->frames_sha256 : "",
        .answer_lost = w->child.no_room,
        .answer_too_long = w->child.too_long,
        .oom_killed = kvr_host_oom_kills() != w->oom_kills,
        .disturbed = disturbance->codes,
        .watch = disturbance->watch,
    };
    char same_frames[65];
    struct kvr_verdict v;
    enum kvr_status st = KVR_OK;

    kvr_disturbance_end(disturbance, &r->machine, w->child.cpu_ns);
    a.n_watch = disturbance->n_watch;
    if (w->drift) {
        st = kvr_runner_finish_drift(r, w);
    } else {
        r->cost_done += j->cell->cost;
        r->ns_done += a.cell_ns;
        if (!a.expected_frames[0]) { /* the frames must equal those of an earlier repeat */
            st = kvr_store_same_frames(r->store, j->cell->rollout, j->cell->key, &r->session,
                                       same_frames);
            a.expected_frames = same_frames;
        }
        if (st == KVR_OK)
            st = kvr_runner_store_attempt(r, j, &a, &v);
        if (st == KVR_OK && !tries_again(r, j, &v))
            st = kvr_runner_settle(r, j, &v);
        if (st == KVR_OK)
            link_by_name(r, j);
        if (st == KVR_OK && j->cell->set.timing && j->state == KVR_DONE && !r->drift_job &&
            j->cell->baseline == (int)(j - r->jobs))
            r->drift_job = j;
    }
    kvr_child_free(&w->child);
    kvr_gpu_release(&r->gpus, w->gpu);
    w->job = NULL;
    r->n_running--;
    return st;
}
