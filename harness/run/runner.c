/* runner.c - runs the jobs of a sweep with up to `jobs` workers, and stores the results.
 *
 * One loop polls a signal descriptor and every worker's pipes, so there are no signal handlers and
 * no global state. A candidate starts once its baseline's frames exist. */
#include "harness/files/media/ffmpeg.h"
#include "harness/run/encode.h"
#include "harness/run/run.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "harness/core/memtext.h"
#include "harness/core/clock.h"
#include "harness/core/hostmem.h"
#include "harness/core/json.h"
#include "harness/core/machine.h"
#include "harness/core/path.h"
#include "harness/core/utf8.h"
#include "harness/device/names.h"
#include "harness/plan/files.h"
#include "harness/run/answer.h"
#include "harness/run/disturbance.h"
#include "harness/run/by_name.h"
#include "harness/run/choose.h"
#include "harness/run/estimate.h"
#include "harness/run/gpus.h"
#include "harness/run/plan_by_method.h"
#include "harness/run/order.h"
#include "harness/run/progress.h"
#include "harness/run/rescore.h"
#include "harness/run/priority.h"
#include "harness/run/spawn.h"
#include "harness/workload/shots.h"
#include "harness/store/history.h"
#include "harness/store/lock.h"
#include "harness/store/plan.h"
#include "methods/plugin.h"

enum { MAX_WORKERS = 256, TICK_MS = 1000, N_DRIFT = 3 };

/* If a baseline's time changes by more than this between the beginning and the end of a timed
 * session, the session's times are noisy. */
static const double max_drift = 0.02;

struct worker {
    struct kvr_child child;
    struct kvr_job *job; /* NULL: idle */
    int64_t start_ns, deadline_ns;
    bool timed_out, stopped, drift; /* drift: a repeated baseline, not a cell */
    int64_t oom_kills;              /* the host's counter at the start */
    int gpu;                        /* -1: none */
    struct kvr_disturbance beside;
    char started[32];
};

struct runner {
    const struct kvr_run_options *opts;
    struct kvr_run_summary *summary;
    struct kvr_config config;
    struct kvr_sweep sweep;
    char **packs;       /* per model of the config: embeddings of its prompts (encode.h) */
    char (*stamps)[65]; /* per model of the config, taken with its hash */
    struct kvr_job *jobs;
    int *order;
    struct kvr_store *store;
    struct kvr_session session;
    struct kvr_retries retries;
    char build[65]; /* of the session */
    char plan_id[KVR_KEY_LEN];
    struct kvr_progress progress;
    struct worker *workers;
    int n_workers, n_running, next; /* next: index in the order; no earlier job is WAITING */
    int n_started, n_drift;         /* cells; started drift measurements */
    int64_t drift_ns[N_DRIFT];
    int64_t t0_ns, ns_done; /* start of the run; total time of finished cells */
    double cost_done;
    struct kvr_machine machine;
    struct kvr_job *drift_job; /* the baseline that is measured again */
    char driver[256];          /* the device's driver, for the session */
    struct kvr_gpus gpus;
    bool no_links;               /* the out folder does not support links */
    bool waits_for_gpu, said_so; /* all GPUs are taken by others; the user was told */
    int timeout_s, signals;      /* signals: stop requests by the user */
    int signal_fd, lock;
    sigset_t old_mask;
    struct sigaction old_pipe;
};

static void timestamp(char out[32])
{
    time_t now = time(NULL);
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* --- storing ---------------------------------------------------------------------------- */

static enum kvr_status store_attempt(struct runner *r, struct kvr_job *j, struct kvr_attempt *a,
                                     struct kvr_verdict *v)
{
    char now[32];

    timestamp(now);
    a->cell = j->cell;
    a->baseline_key = r->sweep.cell[j->cell->baseline].key;
    a->session = r->session.id;
    a->finished = now;
    if (!a->started)
        a->started = now;
    return kvr_attempt_store(r->store, a, v);
}

/* A row for a cell without a worker. */
static enum kvr_status store_untried(struct runner *r, struct kvr_job *j, enum kvr_outcome o,
                                     const char *reason, struct kvr_verdict *v)
{
    struct kvr_attempt a = { .outcome = o, .reason = reason, .log_tail = "" };

    return store_attempt(r, j, &a, v);
}

static enum kvr_status store_unsupported(struct runner *r)
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
            continue; /* measured before the rule existed: kept */
        KVR_TRY(store_untried(r, j, o, j->reason, &v));
        kvr_progress_say(&r->progress, "%s %s: %s: %s", j->cell->prompt->id, j->cell->label,
                         kvr_outcome_name(o), j->reason);
    }
    return KVR_OK;
}

static enum kvr_status settle(struct runner *r, struct kvr_job *j, const struct kvr_verdict *v)
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

/* --- starting --------------------------------------------------------------------------- */

static bool wants_video(const struct runner *r, const struct kvr_cell *c)
{
    return r->config.set.videos || strstr(c->spec, "{video}");
}

/* Fails early, instead of in each cell after its frames are done. */
static enum kvr_status can_make_videos(const struct runner *r)
{
    const struct kvr_ffmpeg *ff;
    enum kvr_status st;

    for (int i = 0; i < r->sweep.n_cells; i++) {
        if (r->jobs[i].state != KVR_WAITING || !wants_video(r, &r->sweep.cell[i]))
            continue;
        st = kvr_ffmpeg_open(&ff);
        return st == KVR_OK || st == KVR_ENOMEM
                   ? st
                   : kvr_fail(KVR_EINVAL,
                              "run: videos cannot be encoded: %s; install FFmpeg's libraries "
                              "(recommended by the package kvreel), or use --set videos=false: "
                              "raw frames are always kept",
                              kvr_error());
    }
    return KVR_OK;
}

/* Links with readable names are optional: a folder without link support is reported once. Probes
 * repeat rollouts that already have links. */
static void link_by_name(struct runner *r, const struct kvr_job *j)
{
    const struct kvr_cell *c = j->cell;
    char video[320];
    enum kvr_status st = KVR_OK;

    if (r->no_links || j->state != KVR_DONE || strcmp(c->set.kind, "bench") != 0)
        return;
    snprintf(video, sizeof video, "videos/%s-%.8s.mp4", c->video, r->build);
    if (wants_video(r, c))
        st = kvr_link_by_name(r->summary->out_dir, c->prompt->id, c->label, c->key, video);
    if (st == KVR_OK && j->frames_path[0])
        st = kvr_link_by_name(r->summary->out_dir, c->prompt->id, c->label, c->key, j->frames_path);
    r->no_links = st != KVR_OK;
    if (r->no_links)
        kvr_progress_say(&r->progress, "no links by name: %s", kvr_error());
}

/* Paths of a cell's plug-ins on this machine. NULL: no memory. */
static json_t *plugin_paths(const json_t *spec)
{
    json_t *named = json_object_get(spec, "plugins"), *paths = json_array();
    const struct kvr_loaded_plugin *l;

    for (int i = 0; paths && (l = kvr_plugin_at(i)) != NULL; i++)
        if (json_object_get(named, l->plugin->name))
            json_array_append_new(paths, json_string(l->path));
    return paths;
}

/* Null if the prompt has none. */
static json_t *truth_json(const struct kvr_prompt_truth *t)
{
    return t ? json_pack("{s:s, s:s}", "file", t->path, "tensor", t->tensor) : json_null();
}

static json_t *tokens_json(const struct kvr_prompt_tokens *t)
{
    return t ? json_pack("{s:s, s:s}", "file", t->path, "tensor", t->tensor) : json_null();
}

static json_t *place_json(const char *file, const char *tensor)
{
    return json_pack("{s:s, s:s}", "file", file, "tensor", tensor);
}

static json_t *pack_json(const char *pack, const char *text)
{
    char id[KVR_KEY_LEN];

    return kvr_cell_hash(text, id) == KVR_OK ? place_json(pack, id) : NULL;
}

/* The embedding read in place of the prompt's text: the suite's, or the encoder's; a list if the
 * prompt has several shots. NULL: no memory. */
static json_t *embedding_json(const struct runner *r, const struct kvr_cell *c)
{
    const struct kvr_prompt_embedding *e = c->prompt->embedding;
    const char *pack = c->encodes ? r->packs[c->model - r->config.model] : NULL;
    struct kvr_shot_line shots;
    json_t *list;

    if (e && !e->next)
        return place_json(e->path, e->tensor);
    if (e) {
        list = json_array();
        for (; e && list; e = e->next)
            json_array_append_new(list, place_json(e->path, e->tensor));
        return list;
    }
    if (!c->encodes)
        return json_null();
    if (kvr_shot_line_parse(c->prompt->text, 0, &shots) != KVR_OK)
        return NULL;
    list = shots.n > 1 ? json_array() : pack_json(pack, c->prompt->text);
    for (int i = 0; shots.n > 1 && list && i < shots.n; i++)
        if (json_array_append_new(list, pack_json(pack, shots.shot[i].text)) != 0) {
            json_decref(list);
            list = NULL;
        }
    kvr_shot_line_free(&shots);
    return list;
}

/* File names contain cell and build, so measured files are never overwritten by different ones. */
static char *request_text(const struct runner *r, const struct kvr_job *j, bool drift)
{
    const struct kvr_job *b = &r->jobs[j->cell->baseline];
    char *reference =
        b == j || b->cell->no_frames ? NULL : kvr_path_join(r->summary->out_dir, b->frames_path);
    json_t *spec = json_loads(j->cell->spec, 0, NULL), *memory = NULL, *device = NULL, *o;
    char *text;

    if (r->config.set.memory_mib && spec)
        memory = json_integer((json_int_t)r->config.set.memory_mib << 20);
    if (r->config.set.device_mib && spec)
        device = json_integer((json_int_t)r->config.set.device_mib << 20);
    o = json_pack("{s:o*, s:o*, s:o, s:o, s:s, s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o}",
                  "memory_bytes", memory, "device_bytes", device, "embedding",
                  embedding_json(r, j->cell), "tokens", tokens_json(j->cell->prompt->tokens),
                  "build", r->build, "truth", truth_json(j->cell->prompt->truth), "plugins",
                  plugin_paths(spec), "spec", spec, "model_dir", j->cell->model->dir, "model_stamp",
                  r->stamps[j->cell->model - r->config.model], "out_dir", r->summary->out_dir,
                  "frames",
                  drift ? json_sprintf("frames/drift-%.8s.safetensors", r->session.id)
                        : json_sprintf("frames/%s-%.8s.safetensors", j->cell->rollout, r->build),
                  "video",
                  drift || !wants_video(r, j->cell)
                      ? json_null()
                      : json_sprintf("videos/%s-%.8s.mp4", j->cell->video, r->build),
                  "reference", reference ? json_string(reference) : json_null(), "reference_sha256",
                  reference ? json_string(b->frames_sha256) : json_null());
    text = kvr_json_text(o, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(o);
    free(reference);
    return text;
}

static enum kvr_status start(struct runner *r, struct worker *w, struct kvr_job *j, bool drift,
                             int gpu)
{
    char *request = request_text(r, j, drift);
    enum kvr_status st;

    if (!request)
        return kvr_fail(KVR_ENOMEM, "run: no memory for a worker's request");
    memset(w, 0, sizeof *w);
    w->gpu = gpu;
    kvr_disturbance_begin(&w->beside, &r->machine, kvr_gpus_uuid(&r->gpus, gpu));
    st = kvr_child_start(&w->child, request, strlen(request), j->cell->set.threads,
                         r->gpus.n > 1 ? kvr_gpus_uuid(&r->gpus, gpu) : "");
    free(request);
    if (st != KVR_OK)
        return st;
    timestamp(w->started);
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

static enum kvr_status skip(struct runner *r, struct kvr_job *j, const struct kvr_job *baseline)
{
    struct kvr_verdict v;
    char why[640];

    snprintf(why, sizeof why, "its baseline failed: %s", baseline->reason);
    KVR_TRY(store_untried(r, j, KVR_OUT_SKIPPED, why, &v));
    return settle(r, j, &v);
}

/* --- what can be skipped ---------------------------------------------------------------- */

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

/* Leaves out repeats that earlier runs have made unnecessary. */
static enum kvr_status find_enough(struct runner *r)
{
    for (int i = r->sweep.n_cells - 1; i >= 0; i--) { /* baselines after the cells that need them */
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

/* Whether the job would finish within the budget, including a due drift measurement, at the pace so
 * far; unknown at the start. */
static bool is_in_time(const struct runner *r, const struct kvr_job *j)
{
    const double pace = r->cost_done > 0 ? (double)r->ns_done / r->cost_done : 0;
    const double again = r->drift_job ? (N_DRIFT - r->n_drift) * r->drift_job->cell->cost : 0;
    const double end = (double)kvr_now_ns() + pace * (j->cell->cost + again);

    return r->opts->budget_s <= 0 || end < (double)r->t0_ns + 1e9 * (double)r->opts->budget_s;
}

/* The first job that can start. Cells whose baseline failed are settled on the way; without frames
 * nothing waits. NULL: none now. */
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
            KVR_TRY(skip(r, j, b));
        if (b->state == KVR_LEFT_OUT) /* its time and those of its dependents are known precisely
                                       * enough */
            KVR_TRY(leave_out(r, j));
    }
    return KVR_OK;
}

/* In a timed session the first baseline is measured again: at once, after half of the cells, and
 * after the last. NULL: not now. */
static struct kvr_job *drift_due(const struct runner *r, bool cells_left)
{
    const int half = (r->summary->to_run + 1) / 2;

    if (!r->drift_job || r->n_running > 0 || r->n_drift == N_DRIFT)
        return NULL;
    if (r->n_drift == 0 || (r->n_drift == 1 && r->n_started >= half) || !cells_left)
        return r->drift_job;
    return NULL;
}

/* For a resumed session whose baselines were all measured before: picks one of those. */
static void choose_drift_job(struct runner *r)
{
    for (int i = 0; i < r->sweep.n_cells; i++) {
        struct kvr_job *j = &r->jobs[r->order[i]];

        if (!j->cell->set.timing || j->cell->baseline != r->order[i])
            continue;
        if (j->state == KVR_WAITING) {
            r->drift_job = NULL; /* it becomes that one once it is measured */
            return;
        }
        if (j->state == KVR_DONE && !r->drift_job)
            r->drift_job = j;
    }
}

/* All GPUs are taken; the next tick tries again. */
static void wait_for_gpu(struct runner *r)
{
    r->waits_for_gpu = r->n_running == 0;
    if (r->waits_for_gpu && !r->said_so)
        kvr_progress_say(&r->progress, "other runs use %s: waiting for it",
                         r->gpus.n == 1 ? "the GPU" : "all GPUs");
    r->said_so = r->said_so || r->waits_for_gpu;
}

static enum kvr_status fill_workers(struct runner *r)
{
    r->waits_for_gpu = false;
    for (int i = 0; i < r->n_workers && !r->signals; i++) {
        struct kvr_job *j, *drift;
        bool taken;
        int gpu;

        if (r->workers[i].job)
            continue;
        KVR_TRY(next_job(r, &j));
        drift = drift_due(r, j != NULL);
        if (!drift && !j)
            return KVR_OK;
        KVR_TRY(kvr_gpu_take(&r->gpus, &gpu, &taken));
        if (!taken) {
            wait_for_gpu(r);
            return KVR_OK;
        }
        r->n_drift += drift != NULL;
        KVR_TRY(start(r, &r->workers[i], drift ? drift : j, drift != NULL, gpu));
    }
    return KVR_OK;
}

/* --- finishing -------------------------------------------------------------------------- */

/* Keeps only the time of a drift measurement. A failed one leaves the session unchecked, which
 * counts as noisy. */
static enum kvr_status finish_drift(struct runner *r, struct worker *w)
{
    json_t *answer =
        w->child.answer ? json_loads(w->child.answer, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const int64_t ns = json_integer_value(json_object_get(answer, "wall_ns"));
    char name[64], *path;
    enum kvr_status st = KVR_OK;

    json_decref(answer);
    if (kvr_json_losses())
        return kvr_fail(KVR_ENOMEM, "run: no memory for a worker's answer");
    r->drift_ns[r->n_drift - 1] = ns;
    if (ns > 0)
        st = kvr_store_drift(r->store, r->session.id, r->n_drift - 1, w->job->cell->key, w->started,
                             ns);
    snprintf(name, sizeof name, "frames/drift-%.8s.safetensors", r->session.id);
    path = kvr_path_join(r->summary->out_dir, name);
    if (path)
        unlink(path);
    free(path);
    return st;
}

static enum kvr_status judge_drift(struct runner *r)
{
    int64_t lo = INT64_MAX, hi = 0;

    if (r->n_drift < 2)
        return kvr_store_untimed_drift(r->store, r->session.id, max_drift);
    for (int i = 0; i < r->n_drift; i++) {
        lo = r->drift_ns[i] < lo ? r->drift_ns[i] : lo;
        hi = r->drift_ns[i] > hi ? r->drift_ns[i] : hi;
    }
    if (lo > 0 && (double)(hi - lo) <= max_drift * (double)lo)
        return KVR_OK;
    kvr_progress_say(&r->progress,
                     "the baseline took from %.3f to %.3f s in this session: its times are NOISY",
                     (double)lo / 1e9, (double)hi / 1e9);
    r->summary->noisy = r->summary->ok;
    return kvr_store_noisy(r->store, r->session.id, "DRIFT");
}

/* Whether a failed cell is queued again, at its place in the order, because the failure may be
 * temporary. */
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

static enum kvr_status finish(struct runner *r, struct worker *w, int wait_status)
{
    struct kvr_job *j = w->job;
    struct kvr_disturbance *beside = &w->beside;
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
        .oom_killed = kvr_host_oom_kills() != w->oom_kills,
        .disturbed = beside->codes,
        .watch = beside->watch,
    };
    char same_frames[65];
    struct kvr_verdict v;
    enum kvr_status st = KVR_OK;

    kvr_disturbance_end(beside, &r->machine, w->child.cpu_ns);
    a.n_watch = beside->n_watch;
    if (w->drift) {
        st = finish_drift(r, w);
    } else {
        r->cost_done += j->cell->cost;
        r->ns_done += a.cell_ns;
        if (!a.expected_frames[0]) { /* a repeat must give the same frames */
            st = kvr_store_same_frames(r->store, j->cell->rollout, j->cell->key, &r->session,
                                       same_frames);
            a.expected_frames = same_frames;
        }
        if (st == KVR_OK)
            st = store_attempt(r, j, &a, &v);
        if (st == KVR_OK && !tries_again(r, j, &v))
            st = settle(r, j, &v);
        if (st == KVR_OK)
            link_by_name(r, j);
        if (st == KVR_OK && j->cell->set.timing && j->state == KVR_DONE && !r->drift_job &&
            j->cell->baseline == (int)(j - r->jobs))
            r->drift_job = j;
    }
    kvr_child_free(&w->child);
    kvr_gpu_give(&r->gpus, w->gpu);
    w->job = NULL;
    r->n_running--;
    return st;
}

static enum kvr_status reap(struct runner *r)
{
    for (int i = 0; i < r->n_workers; i++) {
        struct worker *w = &r->workers[i];
        int status;

        if (w->job && kvr_child_reap(&w->child, &status))
            KVR_TRY(finish(r, w, status));
    }
    return KVR_OK;
}

static void check_deadlines(struct runner *r)
{
    int64_t now = kvr_now_ns();

    for (int i = 0; i < r->n_workers; i++) {
        struct worker *w = &r->workers[i];

        if (w->job && !w->timed_out && !w->stopped && now >= w->deadline_ns) {
            w->timed_out = true;
            kvr_child_kill(&w->child);
        }
    }
}

/* --- waiting ---------------------------------------------------------------------------- */

static void on_stop_signal(struct runner *r)
{
    r->signals++;
    r->summary->interrupted = true;
    if (r->signals == 1) {
        kvr_progress_say(&r->progress,
                         "stopping: %d running cells finish first; a second Ctrl-C stops them now",
                         r->n_running);
        return;
    }
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job) {
            r->workers[i].stopped = true;
            kvr_child_kill(&r->workers[i].child);
        }
}

static void read_signals(struct runner *r)
{
    struct signalfd_siginfo info;

    while (read(r->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            on_stop_signal(r);
}

static int wait_ms(const struct runner *r)
{
    int64_t now = kvr_now_ns(), least = (int64_t)TICK_MS * 1000000;

    for (int i = 0; i < r->n_workers; i++) {
        const struct worker *w = &r->workers[i];

        if (w->job && !w->timed_out && w->deadline_ns - now < least)
            least = w->deadline_ns - now;
    }
    return least > 0 ? (int)(least / 1000000) + 1 : 0;
}

static void look_beside(struct runner *r)
{
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job)
            kvr_disturbance_look(&r->workers[i].beside, &r->machine, kvr_now_ns());
}

static enum kvr_status wait_for_something(struct runner *r)
{
    struct pollfd fds[2 * MAX_WORKERS + 1];
    nfds_t n = 0;

    fds[n++] = (struct pollfd){ .fd = r->signal_fd, .events = POLLIN };
    for (int i = 0; i < r->n_workers; i++) {
        const struct worker *w = &r->workers[i];

        if (w->job && w->child.out >= 0)
            fds[n++] = (struct pollfd){ .fd = w->child.out, .events = POLLIN };
        if (w->job && w->child.err >= 0)
            fds[n++] = (struct pollfd){ .fd = w->child.err, .events = POLLIN };
    }
    if (poll(fds, n, wait_ms(r)) < 0 && errno != EINTR)
        return kvr_fail(KVR_EIO, "run: poll: %s", strerror(errno));
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job)
            kvr_child_read(&r->workers[i].child);
    look_beside(r);
    read_signals(r);
    check_deadlines(r);
    kvr_progress_tick(&r->progress);
    return reap(r);
}

/* Counts the cells left by the budget. */
static void count_open(struct runner *r)
{
    for (int i = 0; r->opts->budget_s > 0 && i < r->sweep.n_cells; i++)
        r->summary->limited += r->jobs[i].state == KVR_WAITING;
}

static enum kvr_status loop(struct runner *r)
{
    KVR_TRY(store_unsupported(r));
    for (;;) {
        KVR_TRY(fill_workers(r));
        if (r->n_running == 0 && !r->waits_for_gpu) {
            count_open(r);
            return judge_drift(r);
        }
        KVR_TRY(wait_for_something(r));
    }
}

/* While another program locks the database, finished cells wait, and running ones continue with
 * their pipes read and without timeouts. A second stop request ends the wait. */
static bool wait_for_store(void *ctx, int64_t waited_ms)
{
    enum { SAY_AFTER_MS = 5000, STEP_MS = 50 };
    struct runner *r = ctx;

    if (waited_ms == SAY_AFTER_MS)
        kvr_progress_say(&r->progress, "another program is writing to %s: waiting for it",
                         r->summary->db_path);
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job) {
            kvr_child_read(&r->workers[i].child);
            r->workers[i].deadline_ns += (int64_t)STEP_MS * 1000000;
        }
    read_signals(r);
    return r->signals < 2;
}

static enum kvr_status catch_signals(struct runner *r)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGUSR1); /* a batch scheduler: time is nearly up */
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &r->old_mask);
    sigaction(SIGPIPE, &ignore, &r->old_pipe); /* a worker may die before it reads */
    r->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (r->signal_fd < 0)
        return kvr_fail(KVR_EIO, "run: signalfd: %s", strerror(errno));
    return KVR_OK;
}

/* A pending signal must not kill us once unblocked. */
static void release_signals(struct runner *r)
{
    struct signalfd_siginfo info;

    if (r->signal_fd < 0)
        return;
    while (read(r->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        r->summary->interrupted = r->summary->interrupted || info.ssi_signo != SIGCHLD;
    close(r->signal_fd);
    sigaction(SIGPIPE, &r->old_pipe, NULL);
    sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
}

static enum kvr_status run_jobs(struct runner *r)
{
    enum kvr_status st;

    r->workers = calloc((size_t)r->n_workers, sizeof *r->workers);
    if (!r->workers)
        return kvr_fail(KVR_ENOMEM, "run: no memory for %d workers", r->n_workers);
    kvr_progress_begin(&r->progress, r->opts->progress, r->summary->to_run, r->n_workers,
                       r->summary->estimate_ns);
    if (r->summary->to_run > 0)
        choose_drift_job(r);
    kvr_store_wait(r->store, wait_for_store, r);
    st = loop(r);
    kvr_store_wait(r->store, NULL, NULL);
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job)
            kvr_child_free(&r->workers[i].child);
    kvr_progress_end(&r->progress);
    free(r->workers);
    return st;
}

/* --- before the first cell -------------------------------------------------------------- */

/* Folder names are passed to workers in JSON. */
static enum kvr_status check_name(const char *what, const char *path)
{
    return kvr_utf8_is(path)
               ? KVR_OK
               : kvr_fail(KVR_EINVAL, "run: %s '%s': the name is not UTF-8, which workers need",
                          what, path);
}

/* The device's name is part of every key and of the session. A dry run may be for a device of
 * another machine. */
static enum kvr_status look_at_device(struct runner *r)
{
    struct kvr_device_words d;
    enum kvr_status st;

    if (strcmp(r->config.set.device, "cpu") == 0)
        return KVR_OK;
    st = kvr_device_ask(r->config.set.device, &d);
    if (st == KVR_EUNSUPPORTED && r->opts->dry_run) {
        snprintf(r->summary->no_device, sizeof r->summary->no_device, "%s", kvr_error());
        r->summary->unidentified = true;
        return KVR_OK;
    }
    KVR_TRY(st);
    kvr_gpus_open(&r->gpus, (const char(*)[KVR_UUID_LEN])d.uuid, d.n);
    snprintf(r->config.device_is, sizeof r->config.device_is, "%s", d.name);
    if (strcmp(d.driver, "none") == 0)
        snprintf(r->driver, sizeof r->driver, "%s device", d.name);
    else
        snprintf(r->driver, sizeof r->driver, "%s, driver %s", d.name, d.driver);
    return KVR_OK;
}

/* `text` holds the encoder's facts if the model has an encoder that a cell needs. */
static enum kvr_status look_at_model(struct runner *r, struct kvr_model *m, const char *name,
                                     const char *dir, char text[KVR_SHA256_HEX],
                                     struct kvr_model_facts *out)
{
    const struct kvr_model_config *c = kvr_model_config(m);
    const bool absent = kvr_model_absent(m); /* planned as if it were complete */
    bool there = false;

    *out = (struct kvr_model_facts){ .name = name,
                                     .sha256 = kvr_model_sha256(m),
                                     .config = c,
                                     .decodes = kvr_model_vae(m) || absent ||
                                                kvr_model_decoder(m) != KVR_DECODER_VAE };
    text[0] = 0;
    if (kvr_plan_encodes(&r->config, c))
        KVR_TRY(kvr_encoder_identify(dir, r->opts->dry_run, &there, text));
    out->text_sha256 = there || absent ? text : NULL;
    if (!out->sha256[0] || (out->text_sha256 && !text[0]))
        r->summary->unidentified = true;
    return KVR_OK;
}

static enum kvr_status make_sweep(struct runner *r)
{
    struct kvr_model_use use = { .n_layers = r->config.set.model_layers,
                                 .n_steps = r->config.set.model_steps,
                                 .look = true,
                                 .plan = r->opts->dry_run };
    const enum kvr_setting_id cut = use.n_layers ? KVR_SET_model_layers : KVR_SET_model_steps;
    int n = r->config.n_models;
    struct kvr_model_facts *facts = calloc((size_t)n, sizeof *facts);
    struct kvr_model **models = calloc((size_t)n, sizeof *models);
    char(*texts)[KVR_SHA256_HEX] = calloc((size_t)n, sizeof *texts);
    struct kvr_dev *dev = NULL;
    enum kvr_status st;

    r->stamps = calloc((size_t)n, sizeof *r->stamps);
    st = facts && models && texts && r->stamps ? kvr_dev_open(&dev, KVR_CPU)
                                               : kvr_fail(KVR_ENOMEM, "run: no memory");
    if (st == KVR_OK)
        st = kvr_decoder_parse(r->config.set.decoder, &use.decoder);

    for (int i = 0; st == KVR_OK && i < n; i++) {
        if (r->config.model[i].trace)
            continue;
        st = kvr_model_open_as(&models[i], dev, r->config.model[i].dir, &use);
        if (st == KVR_EINVAL && (use.n_layers || use.n_steps))
            st = kvr_yaml_fail(*r->config.values[cut].at, "%s", kvr_error());
        if (st != KVR_OK)
            break;
        st = look_at_model(r, models[i], r->config.model[i].name, r->config.model[i].dir, texts[i],
                           &facts[i]);
        if (st != KVR_OK)
            break;
        snprintf(r->stamps[i], sizeof r->stamps[i], "%s", kvr_model_stamp(models[i]));
    }
    if (st == KVR_OK)
        st = kvr_sweep_make(&r->sweep, &r->config, facts, r->config.model[0].trace ? 0 : n);
    for (int i = 0; models && i < n; i++)
        kvr_model_close(&models[i]);
    kvr_dev_close(&dev);
    free(models);
    free(texts);
    free(facts);
    return st;
}

static enum kvr_status set_paths(struct runner *r)
{
    struct kvr_run_summary *s = r->summary;
    const char *db = r->opts->db_path ? r->opts->db_path : r->config.db;
    const char *out = r->opts->out_dir ? r->opts->out_dir : r->config.out;

    if (strlen(db) >= sizeof s->db_path || strlen(out) >= sizeof s->out_dir)
        return kvr_fail(KVR_EINVAL,
                        "run: the path of the database or of the out folder has more "
                        "than %zu characters",
                        sizeof s->db_path - 1);
    strcpy(s->db_path, db);
    strcpy(s->out_dir, out);
    for (int i = 0; i < r->config.n_models; i++)
        KVR_TRY(check_name("the model's folder", r->config.model[i].dir));
    return check_name("the out folder", out);
}

static enum kvr_status make_folders(const struct kvr_run_summary *s)
{
    char *dirs[3] = { kvr_path_dir(s->db_path), kvr_path_join(s->out_dir, "frames"),
                      kvr_path_join(s->out_dir, "videos") };
    enum kvr_status st = KVR_OK;

    for (int i = 0; i < 3 && st == KVR_OK; i++)
        st = dirs[i] ? kvr_mkdirs(dirs[i]) : kvr_fail(KVR_ENOMEM, "run: no memory");
    for (int i = 1; i < 3 && st == KVR_OK; i++)
        if (access(dirs[i], W_OK | X_OK) != 0)
            st = kvr_fail(KVR_EIO, "run: %s: %s", dirs[i], strerror(errno));
    for (int i = 0; i < 3; i++)
        free(dirs[i]);
    return st;
}

static int count_workers(const struct runner *r)
{
    cpu_set_t set;
    int n = r->opts->jobs;

    if (n <= 0 && r->config.set.timing)
        n = 1; /* concurrent cells are slower */
    if (n <= 0) {
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        n /= r->config.set.threads;
    }
    n = n < 1 ? 1 : n;
    if (r->gpus.n)
        n = n < r->gpus.n ? n : r->gpus.n; /* one cell per GPU */
    return n > MAX_WORKERS ? MAX_WORKERS : n;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y);
}

/* From this database's history; unknown cells count as the average of known ones. Memory: the
 * concurrent workers with the largest remaining cells. */
static enum kvr_status estimate(struct runner *r)
{
    int64_t ns = 0, disk = 0, *host = calloc((size_t)r->sweep.n_cells + 1, sizeof *host);
    struct kvr_run_summary *s = r->summary;
    enum kvr_status st = host ? KVR_OK : kvr_fail(KVR_ENOMEM, "run: no memory for an estimate");
    int known = 0;

    for (int i = 0; st == KVR_OK && r->store && i < r->sweep.n_cells; i++) {
        const struct kvr_cell *c = &r->sweep.cell[i];
        const struct kvr_like like = { c->rollout,  c->model_label, c->name,      c->set.kind,
                                       c->set.path, c->set.frames,  c->set.window };
        struct kvr_expected e = { 0 };

        if (r->jobs[i].state == KVR_WAITING)
            st = kvr_store_expect(r->store, &like, &e);
        host[i] = e.host_bytes;
        ns += e.cell_ns;
        disk += e.disk_bytes;
        known += e.cell_ns > 0;
    }
    if (st == KVR_OK && known) {
        s->estimate_ns = ns / known * s->to_run / r->n_workers;
        s->disk_bytes = disk / known * s->to_run;
        qsort(host, (size_t)r->sweep.n_cells, sizeof *host, by_size);
        for (int i = 0; i < r->n_workers && i < s->to_run; i++)
            s->memory_bytes += host[i] ? host[i] : host[0];
    }
    free(host);
    return st;
}

/* The first `limit` cells that would run, in order; baselines precede their dependents. */
static void apply_limit(struct runner *r)
{
    int n = 0;

    for (int i = 0; r->opts->limit > 0 && i < r->sweep.n_cells; i++) {
        struct kvr_job *j = &r->jobs[r->order[i]];

        if (j->state == KVR_WAITING && ++n > r->opts->limit) {
            j->state = KVR_LEFT_OUT;
            r->summary->to_run--;
            r->summary->limited++;
        }
    }
}

static enum kvr_status open_store(struct runner *r)
{
    /* A dry run creates no file. */
    if (r->opts->dry_run && !kvr_path_exists(r->summary->db_path))
        return KVR_OK;
    if (r->opts->dry_run)
        return kvr_store_look(&r->store, r->summary->db_path);
    KVR_TRY(make_folders(r->summary));
    KVR_TRY(kvr_store_lock(&r->lock, r->summary->db_path));
    KVR_TRY(kvr_store_open(&r->store, r->summary->db_path));
    if (kvr_store_copy_of(r->store) && r->opts->progress)
        fprintf(r->opts->progress, "%s: migrated to schema %d; backup: %s\n", r->summary->db_path,
                KVR_STORE_VERSION, kvr_store_copy_of(r->store));
    return KVR_OK;
}

/* With `repeats: 1` a time is a single sample, whatever `timing` says. */
static void count_timed_once(struct runner *r)
{
    for (int i = 0; i < r->sweep.n_cells && r->config.set.repeats == 1; i++) {
        const struct kvr_settings *set = &r->sweep.cell[i].set;

        r->summary->timed_once += r->jobs[i].state == KVR_WAITING && set->timing &&
                                  strcmp(set->kind, "bench") == 0 && set->jitter == 0;
    }
}

static void say_plan(struct runner *r)
{
    const struct kvr_run_summary *s = r->summary;
    FILE *f = r->opts->progress;

    if (!f)
        return;
    fprintf(f, "%s: %d cells: %d to run, %d done before, %d unsupported, %d excluded; %d at a time",
            r->config.name, s->cells, s->to_run, s->done_before, s->unsupported, s->excluded,
            r->n_workers);
    if (s->to_score)
        fprintf(f, "; %d to score with new metrics", s->to_score);
    if (s->estimate_ns)
        fprintf(f, "; about %.0f s", (double)s->estimate_ns / 1e9);
    fprintf(f, "\n");
}

static void say_warning(void *ctx, const struct kvr_plan_line *line)
{
    if (line->warning[0] && line->cells > line->excluded + line->unsupported)
        fprintf(ctx, "warning: %s: %s\n", line->method, line->warning);
}

/* --- costs ------------------------------------------------------------------------------ */

/* Costs from that database: the time of similar cells, else operations at the pace of the known
 * ones. Depends on the file only, so every machine computes the same shards. */
static enum kvr_status weigh_by_history(struct runner *r)
{
    struct kvr_store *history;
    double *ns = calloc((size_t)r->sweep.n_cells + 1, sizeof *ns), sum_ns = 0, sum_flop = 0;
    enum kvr_status st;

    if (!ns)
        return kvr_fail(KVR_ENOMEM, "run: no memory for costs");
    st = kvr_store_look(&history, r->opts->costs);
    for (int i = 0; st == KVR_OK && i < r->sweep.n_cells; i++) {
        const struct kvr_cell *c = &r->sweep.cell[i];
        const struct kvr_like like = { c->rollout,  c->model_label, c->name,      c->set.kind,
                                       c->set.path, c->set.frames,  c->set.window };
        struct kvr_expected e = { 0 };

        kvr_store_expect(history, &like, &e);
        ns[i] = (double)e.cell_ns;
        sum_ns += ns[i];
        sum_flop += e.cell_ns > 0 ? c->cost : 0;
    }
    for (int i = 0; st == KVR_OK && sum_flop > 0 && i < r->sweep.n_cells; i++)
        r->sweep.cell[i].cost = ns[i] > 0 ? ns[i] : r->sweep.cell[i].cost * sum_ns / sum_flop;
    if (st == KVR_OK)
        kvr_store_close(&history);
    free(ns);
    return st;
}

/* --- the plan in the database ----------------------------------------------------------- */

/* The out folder relative to the database's folder, so that both can be moved together; NULL if it
 * does not exist. */
static enum kvr_status out_from_db(const struct kvr_run_summary *s, char **out)
{
    char from[PATH_MAX], to[PATH_MAX], *dir = kvr_path_dir(s->db_path);
    bool there;

    *out = NULL;
    if (!dir)
        return kvr_fail(KVR_ENOMEM, "run: no memory");
    there = realpath(dir, from) && realpath(s->out_dir, to);
    free(dir);
    if (there)
        *out = kvr_path_relative(from, to);
    return *out || !there ? KVR_OK : kvr_fail(KVR_ENOMEM, "run: no memory");
}

/* The config plus command-line overrides; the last run of a plan counts. */
static enum kvr_status name_config(const struct runner *r, char **out)
{
    size_t size;
    FILE *to = kvr_text_open(out, &size);

    if (to)
        fputs(r->session.config_path, to);
    for (const char *const *o = r->opts->overrides; to && o && *o; o++)
        fprintf(to, " %s", *o);
    if (kvr_text_close(to, out))
        return KVR_OK;
    return kvr_fail(KVR_ENOMEM, "run: no memory");
}

/* Facts that order runs of the same second, and restrictions of this run, so that tables can say
 * that they are partial. */
static enum kvr_status tell_session(struct runner *r)
{
    const struct kvr_run_options *o = r->opts;
    struct kvr_session *s = &r->session;
    struct timespec now;
    char text[64], *out;
    enum kvr_status st = out_from_db(r->summary, &out);

    if (st == KVR_OK && out)
        st = kvr_session_tell(s, "out", out);
    free(out);
    KVR_TRY(st);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, sizeof text, "%019lld", now.tv_sec * 1000000000LL + now.tv_nsec);
    KVR_TRY(kvr_session_tell(s, "began_ns", text));
    KVR_TRY(kvr_session_tell(s, "state", "running"));
    KVR_TRY(kvr_session_tell(s, "sweep", r->plan_id));
    if (o->filter)
        KVR_TRY(kvr_session_tell(s, "filter", o->filter));
    snprintf(text, sizeof text, "%d", o->limit);
    if (o->limit > 0)
        KVR_TRY(kvr_session_tell(s, "limit", text));
    snprintf(text, sizeof text, "%d s", o->budget_s);
    if (o->budget_s > 0)
        KVR_TRY(kvr_session_tell(s, "budget", text));
    snprintf(text, sizeof text, "%d/%d", o->shard, o->n_shards);
    if (o->n_shards > 1)
        KVR_TRY(kvr_session_tell(s, "shard", text));
    return kvr_session_identify(s);
}

/* UUIDs of the GPUs that cells may use: part of the machine's identity. */
static enum kvr_status tell_gpus(struct runner *r)
{
    char text[KVR_MAX_DEVICES * KVR_UUID_LEN] = "";
    size_t n = 0;

    for (int i = 0; i < r->gpus.n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "",
                              kvr_gpus_uuid(&r->gpus, i));
    return r->gpus.n ? kvr_session_tell(&r->session, "device_uuids", text) : KVR_OK;
}

/* NVML's version or why it is absent; clocks, power and ECC settings. */
static enum kvr_status tell_gpu_states(struct runner *r)
{
    char uuid[KVR_MAX_DEVICES][KVR_UUID_LEN], *text;
    enum kvr_status st = KVR_OK;

    if (!r->gpus.n)
        return KVR_OK;
    for (int i = 0; i < r->gpus.n; i++)
        snprintf(uuid[i], sizeof uuid[i], "%s", kvr_gpus_uuid(&r->gpus, i));
    text = kvr_machine_gpus(&r->machine, (const char(*)[KVR_UUID_LEN])uuid, r->gpus.n);
    if (!text)
        return kvr_fail(KVR_ENOMEM, "run: no memory");
    if (text[0])
        st = kvr_session_tell(&r->session, "gpus", text);
    free(text);
    KVR_TRY(st);
    return kvr_session_tell(&r->session, "nvml", r->machine.nvml);
}

/* Hash of all keys: identifies the plan on any machine. */
static enum kvr_status identify_plan(struct runner *r)
{
    const size_t len = KVR_KEY_LEN - 1;
    char *keys = malloc((size_t)r->sweep.n_cells * len + 1);
    enum kvr_status st;

    if (!keys)
        return kvr_fail(KVR_ENOMEM, "run: no memory for a plan");
    for (int i = 0; i < r->sweep.n_cells; i++)
        memcpy(keys + (size_t)i * len, r->sweep.cell[i].key, len);
    keys[(size_t)r->sweep.n_cells * len] = 0;
    st = kvr_cell_hash(keys, r->plan_id);
    free(keys);
    return st;
}

static enum kvr_status store_plan(struct runner *r)
{
    struct kvr_planned *planned = calloc((size_t)r->sweep.n_cells + 1, sizeof *planned);
    struct kvr_plan plan = {
        .id = r->plan_id, .name = r->config.name, .n = r->sweep.n_cells, .cell = planned
    };
    char *config = NULL;
    enum kvr_status st;

    if (!planned)
        return kvr_fail(KVR_ENOMEM, "run: no memory for a plan");
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

/* Signals stay blocked until the loop reads them. */
static bool asked_to_stop(void)
{
    sigset_t set;

    return sigpending(&set) == 0 &&
           (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM) || sigismember(&set, SIGUSR1));
}

static enum kvr_status go_on(void)
{
    return asked_to_stop()
               ? kvr_fail(KVR_EINTERRUPTED, "run: interrupted before the first cell was started")
               : KVR_OK;
}

/* A dry run does not need the lists. */
static enum kvr_status lists_are_there(const struct runner *r)
{
    for (int i = 0; i < r->config.n_suites && !r->opts->dry_run; i++)
        if (r->config.suite[i].absent)
            return kvr_fail(KVR_ENOTFOUND, "run: suite '%s': its prompts %s are missing",
                            r->config.suite[i].name, r->config.suite[i].list);
    return KVR_OK;
}

/* Records how the session ended, also on error: one that stays "running" was killed. Returns the
 * original error whether or not the database accepts the record. */
static enum kvr_status end_session(struct runner *r, enum kvr_status ended)
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

static enum kvr_status run(struct runner *r)
{
    const struct kvr_run_options *o = r->opts;
    enum kvr_status st;

    KVR_TRY(catch_signals(r));
    KVR_TRY(kvr_config_read_with(&r->config, o->config_path, o->preferences, o->overrides));
    KVR_TRY(kvr_config_load_plugins(&r->config));
    KVR_TRY(lists_are_there(r));
    r->config.stopped = asked_to_stop;
    KVR_TRY(set_paths(r));
    KVR_TRY(look_at_device(r));
    KVR_TRY(make_sweep(r));
    KVR_TRY(identify_plan(r));
    if (o->costs)
        KVR_TRY(weigh_by_history(r));
    KVR_TRY(kvr_sweep_select(&r->sweep, o->filter, o->shard, o->n_shards < 1 ? 1 : o->n_shards));
    KVR_TRY(go_on());
    KVR_TRY(open_store(r));
    KVR_TRY(kvr_session_gather(&r->session, o->argc, o->argv, o->config_path,
                               kvr_yaml_text_of_file(r->config.doc), 0));
    KVR_TRY(kvr_session_build(&r->session, r->build));
    KVR_TRY(kvr_retries_parse(&r->retries, o->retries));
    KVR_TRY(
        kvr_choose(&r->jobs, r->store, &r->sweep, o, r->build, r->summary->out_dir, r->summary));
    KVR_TRY(kvr_order(&r->order, &r->sweep, (uint64_t)r->config.set.order_seed));
    KVR_TRY(go_on());
    if (o->budget_s > 0)
        KVR_TRY(kvr_most_telling_first(r->order, &r->sweep, r->jobs));
    if (r->driver[0])
        r->session.driver = r->driver;
    KVR_TRY(tell_gpus(r));
    KVR_TRY(kvr_session_identify(&r->session));
    KVR_TRY(find_enough(r));
    apply_limit(r);
    count_timed_once(r);
    r->timeout_s = o->timeout_s > 0 ? o->timeout_s : r->config.set.timeout_s;
    r->n_workers = count_workers(r);
    KVR_TRY(estimate(r));
    if (o->dry_run && !r->summary->estimate_ns)
        KVR_TRY(kvr_estimate(&r->sweep, r->jobs, r->summary));
    say_plan(r);
    if (o->dry_run && o->plan_file)
        KVR_TRY(kvr_plan_files(&r->config, o->plan_file, o->plan_ctx));
    if (o->dry_run && o->plan_line)
        KVR_TRY(kvr_plan_lines(r->jobs, &r->sweep, o->plan_line, o->plan_ctx));
    else if (o->progress)
        KVR_TRY(kvr_plan_lines(r->jobs, &r->sweep, say_warning, o->progress));
    if (o->dry_run || r->summary->cells == 0)
        return KVR_OK;
    if (r->summary->to_run == 0 && r->summary->unsupported + r->summary->excluded == 0)
        return KVR_OK;
    KVR_TRY(can_make_videos(r));
    r->session.jobs = r->n_workers;
    r->session.order_seed = r->config.set.order_seed;
    KVR_TRY(kvr_machine_open(&r->machine, r->session.n_cpus, r->n_workers, r->gpus.n > 0));
    KVR_TRY(tell_gpu_states(r));
    KVR_TRY(tell_session(r));
    KVR_TRY(kvr_store_none_running(r->store));
    KVR_TRY(kvr_store_session(r->store, &r->session));
    KVR_TRY(store_plan(r));
    st = kvr_encode_waiting(&r->sweep, r->jobs, &r->gpus, r->summary->out_dir, o->progress,
                            &r->packs);
    if (st == KVR_OK)
        st = run_jobs(r);
    KVR_TRY(end_session(r, st));
    return kvr_store_in_place(r->store);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Computes the sweep's metrics for existing frames, with each cell's own list. */
static enum kvr_status rescore(struct runner *r, const char *const *keys, int n)
{
    json_t *metrics = kvr_config_metrics_json(&r->config);
    json_t *commands = kvr_config_commands_json(r->config.command, r->config.n_commands);
    struct kvr_rescore_summary s;
    enum kvr_status st =
        metrics && commands
            ? kvr_rescore(&(struct kvr_rescore_options){ .db_path = r->summary->db_path,
                                                         .out_dir = r->summary->out_dir,
                                                         .metrics = metrics,
                                                         .commands = commands,
                                                         .only = keys,
                                                         .n_only = n,
                                                         .stopped = asked_to_stop,
                                                         .progress = r->opts->progress },
                          &s)
            : kvr_fail(KVR_ENOMEM, "run: no memory");

    json_decref(metrics);
    json_decref(commands);
    KVR_TRY(st);
    r->summary->scored = s.scored;
    r->summary->not_scored = s.failed;
    r->summary->interrupted = r->summary->interrupted || s.stopped;
    return KVR_OK;
}

/* After all cells, with the database closed: it is opened again for writing. */
static enum kvr_status score_new_metrics(struct runner *r)
{
    const char **keys;
    enum kvr_status st;
    int n = 0;

    if (r->summary->to_score == 0 || r->summary->interrupted || r->opts->dry_run)
        return KVR_OK;
    kvr_store_close(&r->store);
    keys = calloc((size_t)r->summary->to_score, sizeof *keys);
    for (int i = 0; keys && i < r->sweep.n_cells; i++)
        if (r->jobs[i].to_score)
            keys[n++] = r->sweep.cell[i].key;
    if (keys)
        qsort(keys, (size_t)n, sizeof *keys, by_name);
    st = keys ? rescore(r, keys, n) : kvr_fail(KVR_ENOMEM, "run: no memory");
    free(keys);
    return st;
}

enum kvr_status kvr_run(const struct kvr_run_options *opts, struct kvr_run_summary *out)
{
    struct runner r = {
        .opts = opts, .summary = out, .lock = -1, .signal_fd = -1, .t0_ns = kvr_now_ns()
    };
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    st = run(&r);
    if (st == KVR_OK)
        st = score_new_metrics(&r);
    release_signals(&r);
    kvr_gpus_close(&r.gpus);
    kvr_machine_close(&r.machine);
    kvr_store_close(&r.store);
    kvr_store_unlock(&r.lock);
    kvr_session_free(&r.session);
    free(r.jobs);
    free(r.order);
    free(r.stamps);
    kvr_encoded_free(r.packs, r.config.n_models);
    kvr_sweep_free(&r.sweep);
    kvr_config_free(&r.config);
    return st;
}
