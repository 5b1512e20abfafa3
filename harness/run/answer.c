/* answer.c - turns a worker's JSON answer into a row of the database; for an answer that cannot be
 * parsed, the row records the failure. */
#include "harness/run/answer.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness/core/json.h"
#include "harness/core/sha256.h"
#include "harness/run/spawn.h"
#include "harness/store/plan.h"
#include "harness/store/record.h"

/* JSON answer and arrays that a row points to; freed together after the row is stored. */
struct parts {
    json_t *root;
    struct kvr_row_metric *metric;
    struct kvr_row_mem *mem;
    struct kvr_row_pass *pass;
    struct kvr_row_sample *sample;
    struct kvr_row_artifact *artifact;
    struct kvr_row_probe *probe;
    int n_metrics;
    char noise[128], time_codes[192];
};

static void parts_free(struct parts *p)
{
    kvr_metrics_free(p->metric, p->n_metrics);
    free(p->mem);
    free(p->pass);
    free(p->sample);
    free(p->artifact);
    free(p->probe);
    json_decref(p->root);
}

/* Fills the fields of the database row that describe the cell and the attempt. Writes the prompt's
 * hash to input[KVR_SHA256_HEX]; the row keeps a pointer to it. */
static void fill_cell(struct kvr_row *r, const struct kvr_attempt *a, char *input)
{
    const struct kvr_cell *c = a->cell;

    *r = (struct kvr_row){
        .key = c->key,
        .rollout = c->rollout,
        .baseline = a->baseline_key,
        .spec = c->spec,
        .session = a->session,
        .method = c->label,
        .name = c->name,
        .reading = c->reading,
        .family = c->family,
        .model = c->model_label,
        .suite = c->suite->name,
        .prompt_id = c->prompt->id,
        .prompt = c->prompt->text,
        .repeat = c->repeat,
        .is_baseline = strcmp(c->key, a->baseline_key) == 0,
        .warning = c->warning[0] ? c->warning : NULL,
        .log_tail = a->log_tail ? a->log_tail : "",
        .started = a->started,
        .finished = a->finished,
        .model_sha256 = c->model_sha256,
        .input_sha256 = input,
        .noise = "",
    };
    if (kvr_sha256_hex(c->prompt->text, strlen(c->prompt->text), input) != KVR_OK)
        strcpy(input, "unknown");
}

static int64_t integer(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static const char *text(const json_t *v, const char *otherwise)
{
    return json_is_string(v) ? json_string_value(v) : otherwise;
}

/* Reads the timing samples. The cell's time excludes writing the video file. */
static enum kvr_status read_samples(const json_t *root, int64_t cell_ns, struct parts *p,
                                    struct kvr_row *r)
{
    static const char *const lists[][2] = { { "warmup_ns", "warmup" },
                                            { "abba_method_ns", "abba_method" },
                                            { "abba_reference_ns", "abba_reference" } };
    json_t *o = json_object_get(root, "samples"), *ns;
    size_t n = json_object_size(o) + 1, i;
    const char *kind;

    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        n += json_array_size(json_object_get(root, lists[k][0]));
    p->sample = calloc(n, sizeof *p->sample);
    if (!p->sample)
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating the JSON result");
    p->sample[r->n_samples++] = (struct kvr_row_sample){ "cell", 0, cell_ns - integer(o, "video") };
    json_object_foreach(o, kind, ns) p->sample[r->n_samples++] =
        (struct kvr_row_sample){ kind, 0, json_integer_value(ns) };
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        json_array_foreach(json_object_get(root, lists[k][0]), i, ns) p->sample[r->n_samples++] =
            (struct kvr_row_sample){ lists[k][1], (int)i, json_integer_value(ns) };
    r->sample = p->sample;
    return KVR_OK;
}

/* Reads the answer's list `key`, which may be absent. For example, only cells of kind `probe` have
 * a list of attention errors. */
static enum kvr_status read_list(const json_t *root, const char *key, enum kvr_record_id id,
                                 void **items, int *n)
{
    char where[64];

    snprintf(where, sizeof where, "the worker's answer: %s", key);
    return json_object_get(root, key)
               ? kvr_records_read(id, json_object_get(root, key), where, items, n)
               : KVR_OK;
}

static enum kvr_status read_numbers(struct parts *p, int64_t cell_ns, struct kvr_row *r)
{
    static const char where[] = "the worker's answer";
    const json_t *o = p->root;

    KVR_TRY(kvr_record_read(KVR_RECORD_measured, o, where, r));
    KVR_TRY(kvr_metrics_read(json_object_get(o, "metrics"), where, &p->metric, &p->n_metrics));
    KVR_TRY(read_list(o, "mem", KVR_RECORD_mem, (void **)&p->mem, &r->n_mem));
    KVR_TRY(read_list(o, "passes", KVR_RECORD_pass, (void **)&p->pass, &r->n_passes));
    KVR_TRY(read_list(o, "probes", KVR_RECORD_probe, (void **)&p->probe, &r->n_probes));
    KVR_TRY(read_list(o, "artifacts", KVR_RECORD_artifact, (void **)&p->artifact, &r->n_artifacts));
    KVR_TRY(read_samples(o, cell_ns, p, r));
    r->n_metrics = p->n_metrics;
    r->metric = p->metric;
    r->mem = p->mem;
    r->pass = p->pass;
    r->probe = p->probe;
    r->artifact = p->artifact;
    return KVR_OK;
}

/* A malformed answer fails the cell, not the sweep. */
static enum kvr_status refuse_answer(enum kvr_status st, struct kvr_row *r, struct kvr_verdict *v)
{
    if (st != KVR_EFORMAT)
        return st;
    v->outcome = KVR_OUT_ERROR;
    snprintf(v->reason, sizeof v->reason, "%s", kvr_error());
    r->measured = false;
    r->n_metrics = r->n_mem = r->n_passes = r->n_samples = r->n_probes = r->n_artifacts = 0;
    r->n_watch = 0;
    return KVR_OK;
}

/* Whether the stderr of a worker that sent no answer reports a failed allocation. Some libraries
 * abort when an allocation fails. A worker without memory for its command line cannot read its
 * request, and prints "out of memory". */
static bool died_of_memory(const struct kvr_attempt *a)
{
    static const char *const words[] = { "bad_alloc", "ut of memory", "annot allocate memory",
                                         "Thread creation failed", NULL };

    for (int i = 0; words[i]; i++)
        if (a->log_tail && strstr(a->log_tail, words[i]))
            return true;
    return false;
}

/* Outcome of a worker that ended without an answer. */
static enum kvr_outcome without_answer(const struct kvr_attempt *a, char *why, size_t n)
{
    int status = a->wait_status;

    if (a->stopped) {
        snprintf(why, n, "stopped by the user");
        return KVR_OUT_INTERRUPTED;
    }
    if (a->timed_out) {
        snprintf(why, n, "not finished after %d s, the limit (setting timeout_s)", a->timeout_s);
        return KVR_OUT_TIMEOUT;
    }
    if (a->answer_too_long) { /* kvreel closed the pipe, so that the worker's write() failed */
        snprintf(why, n, "the worker's answer is larger than %d MiB, the limit",
                 KVR_ANSWER_MAX >> 20);
        return KVR_OUT_ERROR;
    }
    if (WIFSIGNALED(status)) {
        int sig = WTERMSIG(status);
        const char *name = sigabbrev_np(sig);

        if (sig == SIGKILL && a->oom_killed) {
            snprintf(why, n, "the Linux kernel killed the worker: the machine was out of memory");
            return KVR_OUT_OOM_HOST;
        }
        if (died_of_memory(a)) {
            snprintf(why, n, "the worker process ran out of memory and was ended by signal SIG%s",
                     name ? name : "?");
            return KVR_OUT_OOM_HOST;
        }
        snprintf(why, n, "the worker process was killed by signal %d (SIG%s)%s", sig,
                 name ? name : "?", sig == SIGKILL ? ": perhaps the system was out of memory" : "");
        return KVR_OUT_SIGNAL;
    }
    if (a->answer_lost) {
        snprintf(why, n, "out of memory while reading the worker's answer");
        return KVR_OUT_OOM_HOST;
    }
    if (died_of_memory(a)) {
        snprintf(why, n, "the worker process ran out of memory and exited with code %d",
                 WEXITSTATUS(status));
        return KVR_OUT_OOM_HOST;
    }
    snprintf(why, n, "the worker process exited with code %d without a result",
             WEXITSTATUS(status));
    return KVR_OUT_ERROR;
}

/* Marks the cell INVALID if the rollout leaked memory, or if its frames are missing or differ from
 * those of an earlier run. */
static enum kvr_outcome gate(const struct kvr_attempt *a, const struct kvr_row *r,
                             const struct kvr_verdict *v, char *why, size_t n)
{
    if (r->live_start_bytes != r->live_end_bytes) {
        snprintf(why, n,
                 "memory leak: %" PRId64 " bytes were allocated before the rollout, %" PRId64
                 " bytes after it",
                 r->live_start_bytes, r->live_end_bytes);
        return KVR_OUT_INVALID;
    }
    if (!v->frames_sha256[0] && !a->cell->no_frames) {
        snprintf(why, n, "the worker's answer has no sha256 of the frames");
        return KVR_OUT_INVALID;
    }
    if (a->expected_frames && a->expected_frames[0] &&
        strcmp(a->expected_frames, v->frames_sha256) != 0) {
        snprintf(why, n,
                 "frames differ from an earlier run of the same cell: sha256 is %.12s, in the "
                 "earlier run %.12s",
                 v->frames_sha256, a->expected_frames);
        return KVR_OUT_INVALID;
    }
    return KVR_OUT_OK;
}

/* Whether a timing sample is one phase of a rollout, not a total or a measurement that overlaps
 * phases. */
static bool is_phase(const char *kind)
{
    static const char *const others[] = { "cell",        "rollout",        "warmup", "video",
                                          "abba_method", "abba_reference", NULL };

    if (strncmp(kind, "paced_", 6) == 0 || strncmp(kind, "decoded_", 8) == 0)
        return false;
    for (int i = 0; others[i]; i++)
        if (strcmp(kind, others[i]) == 0)
            return false;
    return true;
}

static void add_code(char *codes, size_t n, const char *code)
{
    const size_t k = strlen(codes);

    if (code[0])
        snprintf(codes + k, n - k, "%s%s", k ? " " : "", code);
}

/* Collects the codes of the reasons why a cell's time is not valid. Every cell: codes of
 * disturbances such as load of other programs (disturbance.h), and EMULATED on the emulated device.
 * Timed cell: UNATTRIBUTED if more than 10 % of the time is outside of all phases, and COLD if
 * there was no warm-up. Untimed cell: UNTIMED, because conditions were not controlled. EMULATED,
 * and a timed cell's disturbances and UNATTRIBUTED, also make the cell noisy. */
static void judge_time(const struct kvr_attempt *a, const struct kvr_row *r, struct parts *p)
{
    const bool timed = a->cell->set.timing;
    int64_t explained = 0;

    p->noise[0] = p->time_codes[0] = 0;
    for (int i = 0; i < r->n_samples; i++)
        if (is_phase(r->sample[i].kind))
            explained += r->sample[i].ns;
    if (timed)
        add_code(p->noise, sizeof p->noise, a->disturbed ? a->disturbed : "");
    if (timed && explained < r->wall_ns / 10 * 9)
        add_code(p->noise, sizeof p->noise, "UNATTRIBUTED");
    if (strcmp(a->cell->set.device, "emulated") == 0)
        add_code(p->noise, sizeof p->noise, "EMULATED");
    if (!timed)
        add_code(p->time_codes, sizeof p->time_codes, "UNTIMED");
    if (!timed)
        add_code(p->time_codes, sizeof p->time_codes, a->disturbed ? a->disturbed : "");
    if (timed && a->cell->set.warmup == 0)
        add_code(p->time_codes, sizeof p->time_codes, "COLD");
    add_code(p->time_codes, sizeof p->time_codes, p->noise);
}

static void summarise(struct kvr_verdict *v, const struct kvr_row *r)
{
    v->wall_ns = r->wall_ns;
    for (int i = 0; i < r->n_metrics; i++) {
        double x = r->metric[i].missing ? NAN : r->metric[i].value;

        if (strcmp(r->metric[i].name, "psnr") == 0)
            v->psnr = x;
        if (strcmp(r->metric[i].name, "ssim") == 0)
            v->ssim = x;
    }
    for (int i = 0; i < r->n_artifacts; i++)
        if (strcmp(r->artifact[i].kind, "frames") == 0) {
            snprintf(v->frames_path, sizeof v->frames_path, "%s", r->artifact[i].path);
            snprintf(v->frames_sha256, sizeof v->frames_sha256, "%s", r->artifact[i].sha256);
        }
}

static enum kvr_status judge(const struct kvr_attempt *a, struct parts *p, struct kvr_row *r,
                             struct kvr_verdict *v)
{
    const char *outcome;
    enum kvr_status st;
    bool whole;

    if (!a->answer && a->reason) {
        v->outcome = a->outcome;
        snprintf(v->reason, sizeof v->reason, "%s", a->reason);
        return KVR_OK;
    }
    whole = a->answer && !a->timed_out && !a->stopped && WIFEXITED(a->wait_status) &&
            WEXITSTATUS(a->wait_status) == 0;
    p->root = whole ? json_loads(a->answer, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    if (kvr_json_losses())
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating a worker's answer");
    outcome = text(json_object_get(p->root, "outcome"), "");
    if (!kvr_outcome_parse(outcome, &v->outcome)) {
        v->outcome = without_answer(a, v->reason, sizeof v->reason);
        return KVR_OK;
    }
    snprintf(v->reason, sizeof v->reason, "%s", text(json_object_get(p->root, "reason"), "?"));
    if (v->outcome == KVR_OUT_ERROR && strstr(v->reason, "annot allocate memory"))
        v->outcome = KVR_OUT_OOM_HOST; /* failed mmap() or thread creation */
    v->disk_full = strcmp(text(json_object_get(p->root, "status"), ""), "EFULL") == 0;
    if (v->outcome != KVR_OUT_OK) {
        if (!v->reason[0])
            snprintf(v->reason, sizeof v->reason, "the worker process failed and gave no reason");
        return KVR_OK;
    }
    st = read_numbers(p, a->cell_ns, r);
    if (st != KVR_OK)
        return refuse_answer(st, r, v);
    summarise(v, r);
    judge_time(a, r, p);
    r->noise = p->noise;
    r->time_codes = p->time_codes;
    r->watch = a->watch;
    r->n_watch = a->n_watch;
    v->noisy = r->noise[0] != 0;
    v->outcome = gate(a, r, v, v->reason, sizeof v->reason);
    return KVR_OK;
}

enum kvr_status kvr_attempt_store(struct kvr_store *s, const struct kvr_attempt *a,
                                  struct kvr_verdict *out)
{
    struct parts p = { 0 };
    char input[KVR_SHA256_HEX], why[256];
    struct kvr_row r;
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    out->psnr = out->ssim = NAN;
    fill_cell(&r, a, input);
    st = judge(a, &p, &r, out);
    r.outcome = out->outcome;
    r.reason = out->reason;
    if (st == KVR_OK && !out->disk_full)
        st = kvr_store_put(s, &r);
    if (st == KVR_OK && json_object_get(p.root, "autotune"))
        st = kvr_store_about(s, r.session, "autotune",
                             text(json_object_get(p.root, "autotune"), "?"));
    /* If the answer contains a row twice, such as one metric, the insertion violates a table
     * constraint. Then the cell fails, but the sweep continues. */
    if (st == KVR_EINTERNAL && r.measured) {
        snprintf(why, sizeof why, "the worker's answer: %.200s", kvr_error());
        kvr_fail(KVR_EFORMAT, "%s", why);
        st = refuse_answer(KVR_EFORMAT, &r, out);
        r.outcome = out->outcome;
        if (st == KVR_OK)
            st = kvr_store_put(s, &r);
    }
    parts_free(&p);
    return st;
}
