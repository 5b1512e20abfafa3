/* runner_drift.c - measures the drift of a timed run by repeating its first baseline; see
 * runner_impl.h. */
#include "harness/run/runner_impl.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/run/choose.h"
#include "harness/run/progress.h"

/* Maximum relative change of a baseline's time between the beginning and the end of a timed
 * session. If it is exceeded, the session's times are noisy. */
static const double max_drift = 0.02;

struct kvr_job *kvr_runner_drift_due(const struct runner *r, bool cells_left)
{
    const int half = (r->summary->to_run + 1) / 2;

    if (!r->drift_job || r->n_running > 0 || r->n_drift == N_DRIFT)
        return NULL;
    if (r->n_drift == 0 || (r->n_drift == 1 && r->n_started >= half) || !cells_left)
        return r->drift_job;
    return NULL;
}

void kvr_runner_choose_drift_job(struct runner *r)
{
    for (int i = 0; i < r->sweep.n_cells; i++) {
        struct kvr_job *j = &r->jobs[r->order[i]];

        if (!j->cell->set.timing || j->cell->baseline != r->order[i])
            continue;
        if (j->state == KVR_WAITING) {
            r->drift_job = NULL; /* chosen when the first baseline has been measured */
            return;
        }
        if (j->state == KVR_DONE && !r->drift_job)
            r->drift_job = j;
    }
}

enum kvr_status kvr_runner_finish_drift(struct runner *r, struct worker *w)
{
    json_t *answer =
        w->child.answer ? json_loads(w->child.answer, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const int64_t ns = json_integer_value(json_object_get(answer, "wall_ns"));
    char name[64], *path;
    enum kvr_status st = KVR_OK;

    json_decref(answer);
    if (kvr_json_losses())
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating a worker's answer");
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

enum kvr_status kvr_runner_judge_drift(struct runner *r)
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
                     "the BF16 baseline took from %.3f to %.3f s in this run, at most %g %% more "
                     "is allowed: all times of this run are NOISY",
                     (double)lo / 1e9, (double)hi / 1e9, 100 * max_drift);
    r->summary->noisy = r->summary->ok;
    return kvr_store_noisy(r->store, r->session.id, "DRIFT");
}
