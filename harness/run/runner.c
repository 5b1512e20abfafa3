/* runner.c - runs the jobs of a sweep, `jobs` workers at a time, and stores what comes back.
 *
 * One loop polls a signal descriptor and every worker's pipes, so there is no handler and no
 * global state. A candidate starts when its baseline's frames are there. */
#include "harness/run/run.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "harness/core/clock.h"
#include "harness/core/path.h"
#include "harness/run/answer.h"
#include "harness/run/choose.h"
#include "harness/run/progress.h"
#include "harness/run/spawn.h"
#include "methods/plugin.h"

enum { MAX_WORKERS = 256, TICK_MS = 1000 };

struct worker {
    struct kvr_child child;
    struct kvr_job *job; /* NULL: idle */
    int64_t start_ns, deadline_ns;
    bool timed_out, stopped;
    char started[32];
};

struct runner {
    const struct kvr_run_options *opts;
    struct kvr_run_summary *summary;
    struct kvr_config config;
    struct kvr_sweep sweep;
    struct kvr_job *jobs;
    struct kvr_store *store;
    struct kvr_session session;
    struct kvr_progress progress;
    struct worker *workers;
    int n_workers, n_running, next; /* next: all jobs before it are not WAITING */
    int timeout_s, signals;         /* signals: how often the user asked to stop */
    int signal_fd;
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

/* A row for a cell that no worker sees. */
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
        struct kvr_known known;
        struct kvr_verdict v;

        if (!j->cell->selected || j->cell->possible)
            continue;
        KVR_TRY(kvr_store_known(r->store, j->cell->key, &known));
        if (known.found && known.outcome == KVR_OUT_UNSUPPORTED)
            continue;
        KVR_TRY(store_untried(r, j, KVR_OUT_UNSUPPORTED, j->reason, &v));
        kvr_progress_say(&r->progress, "%s %s: UNSUPPORTED: %s", j->cell->prompt->id,
                         j->cell->label, j->reason);
    }
    return KVR_OK;
}

static enum kvr_status settle(struct runner *r, struct kvr_job *j, const struct kvr_verdict *v)
{
    if (v->disk_full)
        return kvr_fail(KVR_EFULL, "%s; what was measured before is in %s", v->reason,
                        r->summary->db_path);
    j->state = v->outcome == KVR_OUT_OK ? KVR_DONE : KVR_FAILED;
    snprintf(j->reason, sizeof j->reason, "%s", v->reason);
    snprintf(j->frames_path, sizeof j->frames_path, "%s", v->frames_path);
    snprintf(j->frames_sha256, sizeof j->frames_sha256, "%s", v->frames_sha256);
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

/* Where the plug-ins that a cell names are on this machine. NULL: no memory. */
static json_t *plugin_paths(const json_t *spec)
{
    json_t *named = json_object_get(spec, "plugins"), *paths = json_array();
    const struct kvr_loaded_plugin *l;

    for (int i = 0; paths && (l = kvr_plugin_at(i)) != NULL; i++)
        if (json_object_get(named, l->plugin->name))
            json_array_append_new(paths, json_string(l->path));
    return paths;
}

static char *request_text(const struct runner *r, const struct kvr_job *j)
{
    const struct kvr_job *b = &r->jobs[j->cell->baseline];
    char *reference = b == j ? NULL : kvr_path_join(r->summary->out_dir, b->frames_path);
    json_t *spec = json_loads(j->cell->spec, 0, NULL), *o;
    char *text;

    o = json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o}", "plugins", plugin_paths(spec), "spec",
                  spec, "model_dir", j->cell->model->dir, "out_dir", r->summary->out_dir, "frames",
                  json_sprintf("frames/%s.safetensors", j->cell->rollout), "video",
                  json_sprintf("videos/%s.mp4", j->cell->video), "reference",
                  reference ? json_string(reference) : json_null(), "reference_sha256",
                  reference ? json_string(b->frames_sha256) : json_null());
    text = o ? json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(o);
    free(reference);
    return text;
}

static enum kvr_status start(struct runner *r, struct worker *w, struct kvr_job *j)
{
    char *request = request_text(r, j);
    enum kvr_status st;

    if (!request)
        return kvr_fail(KVR_ENOMEM, "run: no memory for a worker's request");
    memset(w, 0, sizeof *w);
    st = kvr_child_start(&w->child, request, strlen(request), j->cell->threads);
    free(request);
    if (st != KVR_OK)
        return st;
    timestamp(w->started);
    w->start_ns = kvr_now_ns();
    w->deadline_ns = w->start_ns + (int64_t)r->timeout_s * 1000000000;
    w->job = j;
    j->state = KVR_RUNNING;
    r->n_running++;
    return KVR_OK;
}

static enum kvr_status skip(struct runner *r, struct kvr_job *j, const struct kvr_job *baseline)
{
    struct kvr_verdict v;
    char why[640];

    snprintf(why, sizeof why, "its baseline failed: %s", baseline->reason);
    KVR_TRY(store_untried(r, j, KVR_OUT_SKIPPED, why, &v));
    return settle(r, j, &v);
}

/* The first job that can start; cells whose baseline failed are settled on the way. NULL: none
 * now. */
static enum kvr_status next_job(struct runner *r, struct kvr_job **out)
{
    *out = NULL;
    while (r->next < r->sweep.n_cells && r->jobs[r->next].state != KVR_WAITING)
        r->next++;
    for (int i = r->next; i < r->sweep.n_cells; i++) {
        struct kvr_job *j = &r->jobs[i], *b = &r->jobs[j->cell->baseline];

        if (j->state != KVR_WAITING)
            continue;
        if (b == j || b->state == KVR_DONE) {
            *out = j;
            return KVR_OK;
        }
        if (b->state == KVR_FAILED)
            KVR_TRY(skip(r, j, b));
    }
    return KVR_OK;
}

static enum kvr_status fill_workers(struct runner *r)
{
    for (int i = 0; i < r->n_workers && !r->signals; i++) {
        struct kvr_job *j;

        if (r->workers[i].job)
            continue;
        KVR_TRY(next_job(r, &j));
        if (!j)
            return KVR_OK;
        KVR_TRY(start(r, &r->workers[i], j));
    }
    return KVR_OK;
}

/* --- finishing -------------------------------------------------------------------------- */

static enum kvr_status finish(struct runner *r, struct worker *w, int wait_status)
{
    struct kvr_job *j = w->job;
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
    };
    struct kvr_verdict v;
    enum kvr_status st = store_attempt(r, j, &a, &v);

    if (st == KVR_OK)
        st = settle(r, j, &v);
    kvr_child_free(&w->child);
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
                         "stopping: %d running cells finish first; once more stops them now",
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
    read_signals(r);
    check_deadlines(r);
    kvr_progress_tick(&r->progress);
    return reap(r);
}

static enum kvr_status loop(struct runner *r)
{
    KVR_TRY(store_unsupported(r));
    for (;;) {
        KVR_TRY(fill_workers(r));
        if (r->n_running == 0)
            return KVR_OK;
        KVR_TRY(wait_for_something(r));
    }
}

static enum kvr_status catch_signals(struct runner *r)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &r->old_mask);
    sigaction(SIGPIPE, &ignore, &r->old_pipe); /* a worker may die before it reads */
    r->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (r->signal_fd < 0)
        return kvr_fail(KVR_EIO, "run: signalfd: %s", strerror(errno));
    return KVR_OK;
}

static enum kvr_status run_jobs(struct runner *r)
{
    enum kvr_status st;

    r->workers = calloc((size_t)r->n_workers, sizeof *r->workers);
    if (!r->workers)
        return kvr_fail(KVR_ENOMEM, "run: no memory for %d workers", r->n_workers);
    kvr_progress_begin(&r->progress, r->opts->progress, r->summary->to_run, r->n_workers,
                       r->summary->estimate_ns);
    r->signal_fd = -1;
    st = catch_signals(r);
    if (st == KVR_OK)
        st = loop(r);
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job)
            kvr_child_free(&r->workers[i].child);
    kvr_progress_end(&r->progress);
    read_signals(r); /* what came last must not kill us once it is unblocked */
    if (r->signal_fd >= 0)
        close(r->signal_fd);
    sigaction(SIGPIPE, &r->old_pipe, NULL);
    sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
    free(r->workers);
    return st;
}

/* --- before the first cell -------------------------------------------------------------- */

static enum kvr_status make_sweep(struct runner *r)
{
    int n = r->config.n_models;
    struct kvr_model_facts *facts = calloc((size_t)n, sizeof *facts);
    struct kvr_model **models = calloc((size_t)n, sizeof *models);
    struct kvr_dev *dev = NULL;
    enum kvr_status st =
        facts && models ? kvr_dev_open(&dev, KVR_CPU) : kvr_fail(KVR_ENOMEM, "run: no memory");

    for (int i = 0; st == KVR_OK && i < n; i++) {
        st = kvr_model_open(&models[i], dev, r->config.model[i].dir);
        if (st == KVR_OK)
            facts[i] =
                (struct kvr_model_facts){ r->config.model[i].name, kvr_model_sha256(models[i]),
                                          kvr_model_config(models[i]) };
    }
    if (st == KVR_OK)
        st = kvr_sweep_make(&r->sweep, &r->config, facts, n);
    for (int i = 0; models && i < n; i++)
        kvr_model_close(&models[i]);
    kvr_dev_close(&dev);
    free(models);
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
    return KVR_OK;
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

    if (n <= 0) {
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        n /= r->config.threads;
    }
    n = n < 1 ? 1 : n;
    return n > MAX_WORKERS ? MAX_WORKERS : n;
}

/* From the history of this database; cells it knows nothing of count as the average of those
 * it does. */
static int64_t estimate(const struct runner *r)
{
    int64_t sum = 0;
    int known = 0;

    for (int i = 0; r->store && i < r->sweep.n_cells; i++) {
        const struct kvr_cell *c = &r->sweep.cell[i];
        int64_t ns =
            r->jobs[i].state == KVR_WAITING
                ? kvr_store_typical_ns(r->store, c->model->name, c->name, c->frames, c->kind)
                : 0;

        sum += ns;
        known += ns > 0;
    }
    return known ? sum / known * r->summary->to_run / r->n_workers : 0;
}

static enum kvr_status open_store(struct runner *r)
{
    /* A dry run leaves no file behind. */
    if (r->opts->dry_run && !kvr_path_exists(r->summary->db_path))
        return KVR_OK;
    if (!r->opts->dry_run)
        KVR_TRY(make_folders(r->summary));
    return kvr_store_open(&r->store, r->summary->db_path);
}

static void say_plan(struct runner *r)
{
    const struct kvr_run_summary *s = r->summary;
    FILE *f = r->opts->progress;

    if (!f)
        return;
    fprintf(f, "%s: %d cells: %d to run, %d done before, %d unsupported; %d at a time",
            r->config.name, s->cells, s->to_run, s->done_before, s->unsupported, r->n_workers);
    if (s->estimate_ns)
        fprintf(f, "; about %.0f s", (double)s->estimate_ns / 1e9);
    fprintf(f, "\n");
    for (int i = 0; r->opts->dry_run && i < r->sweep.n_cells; i++) {
        const struct kvr_job *j = &r->jobs[i];

        if (j->cell->selected && !j->cell->possible)
            fprintf(f, "  unsupported: %s %s: %s\n", j->cell->prompt->id, j->cell->label,
                    j->reason);
        else if (j->state == KVR_WAITING)
            fprintf(f, "  to run: %s %s\n", j->cell->prompt->id, j->cell->label);
    }
}

static enum kvr_status run(struct runner *r)
{
    const struct kvr_run_options *o = r->opts;

    KVR_TRY(kvr_config_read(&r->config, o->config_path, o->overrides));
    KVR_TRY(kvr_config_load_plugins(&r->config));
    KVR_TRY(set_paths(r));
    KVR_TRY(make_sweep(r));
    KVR_TRY(kvr_sweep_select(&r->sweep, o->filter, o->shard, o->n_shards < 1 ? 1 : o->n_shards));
    KVR_TRY(open_store(r));
    KVR_TRY(kvr_choose(&r->jobs, r->store, &r->sweep, o, r->summary->out_dir, r->summary));
    r->timeout_s = o->timeout_s > 0 ? o->timeout_s : r->config.timeout_s;
    r->n_workers = count_workers(r);
    r->summary->estimate_ns = estimate(r);
    say_plan(r);
    if (o->dry_run || r->summary->cells == 0)
        return KVR_OK;
    if (r->summary->to_run == 0 && r->summary->unsupported == 0)
        return KVR_OK;
    KVR_TRY(kvr_session_gather(&r->session, o->argc, o->argv, o->config_path,
                               kvr_yaml_text_of_file(r->config.doc), r->n_workers));
    KVR_TRY(kvr_store_session(r->store, &r->session));
    return run_jobs(r);
}

enum kvr_status kvr_run(const struct kvr_run_options *opts, struct kvr_run_summary *out)
{
    struct runner r = { .opts = opts, .summary = out };
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    st = run(&r);
    kvr_store_close(&r.store);
    kvr_session_free(&r.session);
    free(r.jobs);
    kvr_sweep_free(&r.sweep);
    kvr_config_free(&r.config);
    return st;
}
