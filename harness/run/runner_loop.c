/* runner_loop.c - the loop that polls the descriptor of signals and the workers' pipes; see
 * runner_impl.h. */
#include "harness/run/runner_impl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "harness/core/clock.h"
#include "harness/run/choose.h"
#include "harness/run/disturbance.h"
#include "harness/run/progress.h"
#include "harness/run/spawn.h"

static enum kvr_status reap(struct runner *r)
{
    for (int i = 0; i < r->n_workers; i++) {
        struct worker *w = &r->workers[i];
        int status;

        if (w->job && kvr_child_reap(&w->child, &status))
            KVR_TRY(kvr_runner_finish(r, w, status));
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

static void sample_disturbances(struct runner *r)
{
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job)
            kvr_disturbance_sample(&r->workers[i].disturbance, &r->machine, kvr_now_ns());
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
        return kvr_fail(KVR_EIO, "run: cannot wait for the worker processes: poll: %s",
                        strerror(errno));
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job)
            kvr_child_read(&r->workers[i].child);
    sample_disturbances(r);
    read_signals(r);
    check_deadlines(r);
    kvr_progress_tick(&r->progress);
    return reap(r);
}

/* Counts the cells that did not start because the time budget was used up. */
static void count_open(struct runner *r)
{
    for (int i = 0; r->opts->budget_s > 0 && i < r->sweep.n_cells; i++)
        r->summary->limited += r->jobs[i].state == KVR_WAITING;
}

static enum kvr_status until_done(struct runner *r)
{
    KVR_TRY(kvr_runner_store_unsupported(r));
    for (;;) {
        KVR_TRY(kvr_runner_fill_workers(r));
        if (r->n_running == 0 && !r->waits_for_gpu) {
            count_open(r);
            return kvr_runner_judge_drift(r);
        }
        KVR_TRY(wait_for_something(r));
    }
}

/* Called while another program locks the database. Running workers continue: their pipes are read
 * and their deadlines postponed. Returns false, which ends the wait, when a second signal requests
 * a stop. */
static bool wait_for_store(void *ctx, int64_t waited_ms, int64_t step_ms)
{
    enum { SAY_AFTER_MS = 5000 };
    struct runner *r = ctx;

    if (waited_ms >= SAY_AFTER_MS && waited_ms - step_ms < SAY_AFTER_MS) /* once per wait */
        kvr_progress_say(&r->progress, "another program is writing to %s: waiting for it",
                         r->summary->db_path);
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job) {
            kvr_child_read(&r->workers[i].child);
            r->workers[i].deadline_ns += step_ms * 1000000;
        }
    read_signals(r);
    return r->signals < 2;
}

enum kvr_status kvr_runner_catch_signals(struct runner *r)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGUSR1); /* batch schedulers send it shortly before the time limit */
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &r->old_mask);
    sigaction(SIGPIPE, &ignore, &r->old_pipe); /* a worker may die before it reads */
    r->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (r->signal_fd < 0)
        return kvr_fail(KVR_EIO, "run: cannot receive signals such as Ctrl-C: signalfd: %s",
                        strerror(errno));
    return KVR_OK;
}

void kvr_runner_release_signals(struct runner *r)
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

enum kvr_status kvr_runner_loop(struct runner *r)
{
    enum kvr_status st;

    r->workers = calloc((size_t)r->n_workers, sizeof *r->workers);
    if (!r->workers)
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating %d workers", r->n_workers);
    kvr_progress_begin(&r->progress, r->opts->progress, r->summary->to_run, r->n_workers,
                       r->summary->estimate_ns);
    if (r->summary->to_run > 0)
        kvr_runner_choose_drift_job(r);
    kvr_store_wait(r->store, wait_for_store, r);
    st = until_done(r);
    kvr_store_wait(r->store, NULL, NULL);
    for (int i = 0; i < r->n_workers; i++)
        if (r->workers[i].job)
            kvr_child_free(&r->workers[i].child);
    kvr_progress_end(&r->progress);
    free(r->workers);
    return st;
}
