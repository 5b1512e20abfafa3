/* answer.c - JSON to a row; what does not parse is a row, too. */
#include "harness/run/answer.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness/core/sha256.h"

/* The arrays a row borrows; freed together. */
struct parts {
    json_t *root;
    struct kvr_row_metric *metric;
    struct kvr_row_mem *mem;
    struct kvr_row_pass *pass;
    struct kvr_row_sample *sample;
    struct kvr_row_artifact *artifact;
    struct kvr_row_probe *probe;
    char noise[128];
};

static void parts_free(struct parts *p, const struct kvr_row *r)
{
    for (int i = 0; p->metric && i < r->n_metrics; i++)
        free((void *)p->metric[i].series);
    free(p->metric);
    free(p->mem);
    free(p->pass);
    free(p->sample);
    free(p->artifact);
    free(p->probe);
    json_decref(p->root);
}

/* `input` [KVR_SHA256_HEX] is filled here and lent to the row. */
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

static double number(const json_t *v)
{
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static const char *text(const json_t *v, const char *otherwise)
{
    return json_is_string(v) ? json_string_value(v) : otherwise;
}

static bool read_metrics(const json_t *list, struct parts *p, struct kvr_row *r)
{
    size_t n = json_array_size(list);

    p->metric = calloc(n + 1, sizeof *p->metric);
    for (size_t i = 0; p->metric && i < n; i++) {
        const json_t *o = json_array_get(list, i), *series = json_object_get(o, "series");
        struct kvr_row_metric *m = &p->metric[i];
        size_t k = json_array_size(series);
        double *values = calloc(k + 1, sizeof *values);

        if (!values)
            return false;
        for (size_t j = 0; j < k; j++)
            values[j] = number(json_array_get(series, j));
        *m = (struct kvr_row_metric){
            .name = text(json_object_get(o, "name"), "?"),
            .unit = text(json_object_get(o, "unit"), "?"),
            .n = (int)integer(o, "n"),
            .value = number(json_object_get(o, "value")),
            .extra = number(json_object_get(o, "extra")),
            .missing = text(json_object_get(o, "missing"), NULL),
            .n_series = (int)k,
            .series = values,
        };
        if (!m->missing && !isfinite(m->value))
            m->missing = "not a finite number";
        r->n_metrics = (int)i + 1;
    }
    r->metric = p->metric;
    return p->metric != NULL;
}

static bool read_mem(const json_t *list, struct parts *p, struct kvr_row *r)
{
    size_t n = json_array_size(list);

    p->mem = calloc(n + 1, sizeof *p->mem);
    for (size_t i = 0; p->mem && i < n; i++) {
        const json_t *a = json_array_get(list, i);

        p->mem[i] = (struct kvr_row_mem){ text(json_array_get(a, 0), "?"),
                                          json_integer_value(json_array_get(a, 1)),
                                          json_integer_value(json_array_get(a, 2)),
                                          json_integer_value(json_array_get(a, 3)) };
    }
    r->n_mem = (int)n;
    r->mem = p->mem;
    return p->mem != NULL;
}

/* [chunk, pass, ns, bytes..., [bytes by tag], null or [ns by phase]] */
static struct kvr_row_pass read_pass(const json_t *a)
{
    const json_t *tags = json_array_get(a, 9), *phases = json_array_get(a, 10);
    struct kvr_row_pass p;
    int64_t v[9], ns[6];

    for (size_t k = 0; k < 9; k++)
        v[k] = json_integer_value(json_array_get(a, k));
    for (size_t k = 0; k < 6; k++)
        ns[k] = json_integer_value(json_array_get(phases, k));
    p = (struct kvr_row_pass){
        .chunk = (int)v[0],
        .pass = (int)v[1],
        .t_ns = v[2],
        .tokens = v[3],
        .bf16 = v[4],
        .nominal = v[5],
        .resident = v[6],
        .resident_kv = v[7],
        .live_total = v[8],
        .has_phases = json_is_array(phases),
        .encode_ns = ns[0],
        .decode_ns = ns[1],
        .attend_ns = ns[2],
        .linear_ns = ns[3],
        .cross_ns = ns[4],
        .other_ns = ns[5],
    };
    for (size_t k = 0; k < KVR_N_MEM_TAGS; k++)
        p.by_tag[k] = json_integer_value(json_array_get(tags, k));
    return p;
}

static bool read_passes(const json_t *list, struct parts *p, struct kvr_row *r)
{
    size_t n = json_array_size(list);

    p->pass = calloc(n + 1, sizeof *p->pass);
    for (size_t i = 0; p->pass && i < n; i++)
        p->pass[i] = read_pass(json_array_get(list, i));
    r->n_passes = (int)n;
    r->pass = p->pass;
    return p->pass != NULL;
}

/* [name, layer, head, step, chunk, age, value or null, n] */
static bool read_probes(const json_t *list, struct parts *p, struct kvr_row *r)
{
    size_t n = json_array_size(list);

    p->probe = calloc(n + 1, sizeof *p->probe);
    for (size_t i = 0; p->probe && i < n; i++) {
        const json_t *a = json_array_get(list, i);
        int at[5];

        for (size_t k = 0; k < 5; k++)
            at[k] = (int)json_integer_value(json_array_get(a, 1 + k));
        p->probe[i] = (struct kvr_row_probe){
            .name = text(json_array_get(a, 0), "?"),
            .layer = at[0],
            .head = at[1],
            .step = at[2],
            .chunk = at[3],
            .age = at[4],
            .value = number(json_array_get(a, 6)),
            .n = json_integer_value(json_array_get(a, 7)),
        };
    }
    r->n_probes = (int)n;
    r->probe = p->probe;
    return p->probe != NULL;
}

/* The cell's time is without that of the video, which is for looking. */
static bool read_samples(json_t *o, const json_t *warmup, int64_t cell_ns, struct parts *p,
                         struct kvr_row *r)
{
    const char *kind;
    size_t i;
    json_t *ns;

    p->sample = calloc(json_object_size(o) + json_array_size(warmup) + 1, sizeof *p->sample);
    if (!p->sample)
        return false;
    p->sample[r->n_samples++] = (struct kvr_row_sample){ "cell", 0, cell_ns - integer(o, "video") };
    json_object_foreach(o, kind, ns) p->sample[r->n_samples++] =
        (struct kvr_row_sample){ kind, 0, json_integer_value(ns) };
    json_array_foreach(warmup, i, ns) p->sample[r->n_samples++] =
        (struct kvr_row_sample){ "warmup", (int)i, json_integer_value(ns) };
    r->sample = p->sample;
    return true;
}

static bool read_artifacts(const json_t *list, struct parts *p, struct kvr_row *r)
{
    size_t n = json_array_size(list);

    p->artifact = calloc(n + 1, sizeof *p->artifact);
    for (size_t i = 0; p->artifact && i < n; i++) {
        const json_t *a = json_array_get(list, i);

        p->artifact[i] = (struct kvr_row_artifact){ text(json_array_get(a, 0), "?"),
                                                    text(json_array_get(a, 1), "?"),
                                                    json_integer_value(json_array_get(a, 2)),
                                                    text(json_array_get(a, 3), "?") };
    }
    r->n_artifacts = (int)n;
    r->artifact = p->artifact;
    return p->artifact != NULL;
}

static bool read_numbers(struct parts *p, int64_t cell_ns, struct kvr_row *r)
{
    const json_t *o = p->root;

    r->measured = true;
    r->wall_ns = integer(o, "wall_ns");
    r->bf16_bytes = integer(o, "bf16_bytes");
    r->nominal_bytes = integer(o, "nominal_bytes");
    r->resident_bytes = integer(o, "resident_bytes");
    r->max_nominal_bytes = integer(o, "max_nominal_bytes");
    r->max_resident_bytes = integer(o, "max_resident_bytes");
    r->peak_bytes = integer(o, "peak_bytes");
    r->live_start_bytes = integer(o, "live_start_bytes");
    r->live_end_bytes = integer(o, "live_end_bytes");
    r->host_peak_bytes = integer(o, "host_peak_bytes");
    r->device_bytes = integer(o, "device_bytes");
    return read_metrics(json_object_get(o, "metrics"), p, r) &&
           read_mem(json_object_get(o, "mem"), p, r) &&
           read_passes(json_object_get(o, "passes"), p, r) &&
           read_samples(json_object_get(o, "samples"), json_object_get(o, "warmup_ns"), cell_ns, p,
                        r) &&
           read_probes(json_object_get(o, "probes"), p, r) &&
           read_artifacts(json_object_get(o, "artifacts"), p, r);
}

/* Libraries that cannot pass on a failed allocation say so and abort. */
static bool died_of_memory(const struct kvr_attempt *a)
{
    static const char *const words[] = { "bad_alloc", "ut of memory", "annot allocate memory",
                                         "Thread creation failed", NULL };

    for (int i = 0; words[i]; i++)
        if (a->log_tail && strstr(a->log_tail, words[i]))
            return true;
    return false;
}

/* The worker ended without an answer: why? */
static enum kvr_outcome without_answer(const struct kvr_attempt *a, char *why, size_t n)
{
    int status = a->wait_status;

    if (a->stopped) {
        snprintf(why, n, "stopped by the user");
        return KVR_OUT_INTERRUPTED;
    }
    if (a->timed_out) {
        snprintf(why, n, "not finished after %d s", a->timeout_s);
        return KVR_OUT_TIMEOUT;
    }
    if (WIFSIGNALED(status)) {
        int sig = WTERMSIG(status);
        const char *name = sigabbrev_np(sig);

        if (sig == SIGKILL && a->oom_killed) {
            snprintf(why, n, "the kernel killed the worker: the machine was out of memory");
            return KVR_OUT_OOM_HOST;
        }
        if (a->limited && died_of_memory(a)) {
            snprintf(why, n, "worker ended by SIG%s at its memory limit", name ? name : "?");
            return KVR_OUT_OOM_HOST;
        }
        snprintf(why, n, "worker killed by signal %d (SIG%s)%s", sig, name ? name : "?",
                 sig == SIGKILL ? ": perhaps the system was out of memory" : "");
        return KVR_OUT_SIGNAL;
    }
    if (a->limited && died_of_memory(a)) {
        snprintf(why, n, "worker ended with code %d at its memory limit", WEXITSTATUS(status));
        return KVR_OUT_OOM_HOST;
    }
    snprintf(why, n, "worker ended with code %d and no answer", WEXITSTATUS(status));
    return KVR_OUT_ERROR;
}

/* Numbers that arrived and still must not be used. */
static enum kvr_outcome gate(const struct kvr_attempt *a, const struct kvr_row *r,
                             const struct kvr_verdict *v, char *why, size_t n)
{
    if (r->live_start_bytes != r->live_end_bytes) {
        snprintf(why, n, "memory: %" PRId64 " bytes live before the rollout, %" PRId64 " after",
                 r->live_start_bytes, r->live_end_bytes);
        return KVR_OUT_INVALID;
    }
    if (!v->frames_sha256[0] && !a->cell->no_frames) {
        snprintf(why, n, "the answer names no frames");
        return KVR_OUT_INVALID;
    }
    if (a->expected_frames && a->expected_frames[0] &&
        strcmp(a->expected_frames, v->frames_sha256) != 0) {
        snprintf(why, n,
                 "frames differ from an earlier run of the same cell: sha256 %.12s, "
                 "then %.12s",
                 v->frames_sha256, a->expected_frames);
        return KVR_OUT_INVALID;
    }
    return KVR_OUT_OK;
}

/* Of a rollout: not the whole of it, and nothing beside it. */
static bool is_phase(const char *kind)
{
    static const char *const others[] = { "cell", "rollout", "warmup", "video", NULL };

    for (int i = 0; others[i]; i++)
        if (strcmp(kind, others[i]) == 0)
            return false;
    return true;
}

/* What was going on beside a timed row, and time that no phase explains. An emulated device's times
 * say nothing, whoever asks for them. */
static const char *noise_of(const struct kvr_attempt *a, const struct kvr_row *r, char buf[128])
{
    int64_t explained = 0;

    snprintf(buf, 128, "%.100s", a->noise ? a->noise : "");
    for (int i = 0; i < r->n_samples; i++)
        if (is_phase(r->sample[i].kind))
            explained += r->sample[i].ns;
    if (a->cell->set.timing && explained < r->wall_ns / 10 * 9)
        strcat(buf, buf[0] ? " UNATTRIBUTED" : "UNATTRIBUTED");
    if (strcmp(a->cell->set.device, "emulated") == 0)
        strcat(buf, buf[0] ? " EMULATED" : "EMULATED");
    return buf;
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
    bool whole;

    if (!a->answer && a->reason) {
        v->outcome = a->outcome;
        snprintf(v->reason, sizeof v->reason, "%s", a->reason);
        return KVR_OK;
    }
    whole = a->answer && !a->timed_out && !a->stopped && WIFEXITED(a->wait_status) &&
            WEXITSTATUS(a->wait_status) == 0;
    p->root = whole ? json_loads(a->answer, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    outcome = text(json_object_get(p->root, "outcome"), "");
    if (!kvr_outcome_parse(outcome, &v->outcome)) {
        v->outcome = without_answer(a, v->reason, sizeof v->reason);
        return KVR_OK;
    }
    snprintf(v->reason, sizeof v->reason, "%s", text(json_object_get(p->root, "reason"), "?"));
    if (v->outcome == KVR_OUT_ERROR && strstr(v->reason, "annot allocate memory"))
        v->outcome = KVR_OUT_OOM_HOST; /* a mapping or a thread, not one of our own buffers */
    v->disk_full = strcmp(text(json_object_get(p->root, "status"), ""), "EFULL") == 0;
    if (v->outcome != KVR_OUT_OK) {
        if (!v->reason[0])
            snprintf(v->reason, sizeof v->reason, "the worker gave no reason");
        return KVR_OK;
    }
    if (!read_numbers(p, a->cell_ns, r))
        return kvr_fail(KVR_ENOMEM, "run: no memory for an answer");
    summarise(v, r);
    r->noise = noise_of(a, r, p->noise);
    v->noisy = r->noise[0] != 0;
    v->outcome = gate(a, r, v, v->reason, sizeof v->reason);
    return KVR_OK;
}

enum kvr_status kvr_attempt_store(struct kvr_store *s, const struct kvr_attempt *a,
                                  struct kvr_verdict *out)
{
    struct parts p = { 0 };
    char input[KVR_SHA256_HEX];
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
    parts_free(&p, &r);
    return st;
}
