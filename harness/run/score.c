/* score.c - see score.h. */
#include "harness/run/score.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/plan/find.h"
#include "harness/run/external.h"
#include "harness/store/record.h"
#include "harness/workload/truth.h"
#include "metrics/derived.h"

enum { STUDY_STEP = 50, LATENT_STRIDE = 4 };

static const struct kvr_find lpips_folder = { "LPIPS weights", "models", "",
                                              "alexnet.safetensors" };
static const struct kvr_find stlpips_folder = { "ST-LPIPS weights", "models", "",
                                                "alex_shift_tolerant.pth" };

static void find_weights(const struct kvr_find *f, const char *folder, char *out, size_t n)
{
    char dir[PATH_MAX - 64];

    if (kvr_find_path(f, folder, NULL, dir, sizeof dir) != KVR_OK ||
        (size_t)snprintf(out, n, "%s/%s", dir, f->inside) >= n)
        out[0] = 0;
}

void kvr_score_weights(struct kvr_score_weights *w)
{
    find_weights(&lpips_folder, "lpips", w->lpips, sizeof w->lpips);
    find_weights(&stlpips_folder, "stlpips", w->stlpips, sizeof w->stlpips);
}

void kvr_score_name_weights(struct kvr_metric_input *in, const struct kvr_score_weights *w)
{
    in->lpips_weights = w->lpips[0] ? w->lpips : NULL;
    in->stlpips_weights = w->stlpips[0] ? w->stlpips : NULL;
}

int kvr_score_prefix_step(int n_frames, int n_latent, int frames_per_chunk)
{
    const int step = STUDY_STEP / LATENT_STRIDE / frames_per_chunk * frames_per_chunk;

    if (n_frames > n_latent)
        return STUDY_STEP;
    return step > 0 ? step : frames_per_chunk;
}

static enum kvr_status add(json_t *list, const char *name, const char *unit, int n, double value,
                           double extra, const char *missing, const double *series, int n_series)
{
    const bool none = missing[0];
    const struct kvr_row_metric m = { .name = name,
                                      .unit = unit,
                                      .n = n,
                                      .value = none ? NAN : value,
                                      .extra = none ? NAN : extra,
                                      .missing = none ? missing : NULL,
                                      .series = series,
                                      .n_series = n_series };

    return json_array_append_new(list, kvr_metric_json(&m))
               ? kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer")
               : KVR_OK;
}

/* Prepends `by` NaN entries to a series. */
static enum kvr_status shift(double **series, int *n, int by)
{
    double *longer = *n ? malloc((size_t)(*n + by) * sizeof *longer) : NULL;

    if (*n == 0)
        return KVR_OK;
    if (!longer)
        return kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer");
    for (int i = 0; i < by; i++)
        longer[i] = NAN;
    memcpy(longer + by, *series, (size_t)*n * sizeof *longer);
    free(*series);
    *series = longer;
    *n += by;
    return KVR_OK;
}

/* Shifts the chunk numbers of a metric that was computed without the `given` ground-truth frames,
 * so that chunks are numbered from the video's start. */
static enum kvr_status shift_drift(struct kvr_derived *d, int given, int chunk)
{
    const int by = chunk > 0 ? given / chunk : 0;

    d->extra += by;
    return shift(&d->series, &d->n_series, by);
}

static enum kvr_status add_derived(json_t *list, const struct kvr_metric *m,
                                   const struct kvr_metric_input *in,
                                   const struct kvr_metric_value *v, int prefix_step, int given)
{
    struct kvr_derived d[KVR_N_DERIVED];
    enum kvr_status st;

    KVR_TRY(kvr_metric_derive(m, in, v, prefix_step, d));
    st = shift_drift(&d[KVR_DRIFT], given, in->chunk);
    d[KVR_LAST].extra += given;
    d[KVR_WORST].extra += given;
    for (int i = 0; st == KVR_OK && i < KVR_N_DERIVED; i++)
        if (d[i].name[0])
            st = add(list, d[i].name, m->unit, d[i].n, d[i].value, d[i].extra, d[i].missing,
                     d[i].series, d[i].n_series);
    kvr_derived_free(d);
    return st;
}

static enum kvr_status add_measured(json_t *list, const struct kvr_metric *m,
                                    const struct kvr_metric_input *mi, int prefix_step, int given)
{
    struct kvr_metric_value v;
    enum kvr_status st;

    KVR_TRY(kvr_metric_measure(m, mi, &v));
    st = add_derived(list, m, mi, &v, prefix_step, given);
    if (st == KVR_OK)
        st = shift(&v.series, &v.n_series, given);
    if (st == KVR_OK)
        st = add(list, m->name, m->unit, mi->test->n, v.value, v.extra, v.missing, v.series,
                 v.n_series);
    kvr_metric_value_free(&v);
    return st;
}

/* Compares the generated frames, which follow the `given` ground-truth frames, with the ground
 * truth. The generated frames start at a chunk border: if the first chunk is shorter than the
 * others, all of its frames are given. */
static enum kvr_status add_truth(json_t *list, const struct kvr_metric *m,
                                 const struct kvr_score_input *in,
                                 const struct kvr_score_weights *weights)
{
    const struct kvr_frames test = kvr_frames_from(in->test, in->given, in->test->n);
    struct kvr_metric_input mi = { .test = &test, .chunk = in->chunk };
    struct kvr_frames truth;

    kvr_score_name_weights(&mi, weights);
    if (!in->truth)
        return add(list, m->name, m->unit, 0, NAN, NAN,
                   "the prompt has no ground-truth frames (key truth of its suite)", NULL, 0);
    if (in->truth->n < in->test->n)
        return kvr_fail(KVR_EINVAL,
                        "%s: the ground truth has %d frames, need at least those of the video, %d",
                        m->name, in->truth->n, in->test->n);
    truth = kvr_frames_from(in->truth, in->given, in->test->n);
    mi.ref = &truth;
    return add_measured(list, m, &mi, in->prefix_step, in->given);
}

static enum kvr_status add_metric(json_t *list, const char *name, const struct kvr_score_input *in,
                                  const struct kvr_score_weights *weights)
{
    struct kvr_metric_input mi = {
        .ref = in->ref, .test = in->test, .chunk = in->chunk, .lead = in->lead, .prompt = in->prompt
    };
    const struct kvr_metric *m = kvr_metric_find(name), *truth;

    if (!m)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "metric '%s' does not exist in this build of kvreel; `kvreel list metrics` "
                        "lists the metrics",
                        name);
    if (m->truth)
        return add_truth(list, m, in, weights);
    kvr_score_name_weights(&mi, weights);
    KVR_TRY(add_measured(list, m, &mi, in->prefix_step, 0));
    truth = in->truth ? kvr_metric_truth_of(m) : NULL;
    if (!truth || json_object_get(in->metrics, truth->name)) /* computed separately */
        return KVR_OK;
    return add_truth(list, truth, in, weights);
}

/* --- external programs --------------------------------------------------------------------- */

struct command {
    const char *name, *unit;
    /* names of the required scores; empty: every score that the program prints */
    json_t *scores;
};

static enum kvr_status add_score(json_t *list, const struct command *c, const char *score,
                                 const json_t *value, const char *missing)
{
    char name[160];

    snprintf(name, sizeof name, "%s.%s", c->name, score);
    return add(list, name, c->unit, 1, json_number_value(value), NAN, missing, NULL, 0);
}

static enum kvr_status add_failure(json_t *list, const struct command *c, const char *why)
{
    size_t n = json_array_size(c->scores);

    if (n == 0)
        return add(list, c->name, c->unit, 0, NAN, NAN, why, NULL, 0);
    for (size_t i = 0; i < n; i++)
        KVR_TRY(add_score(list, c, json_string_value(json_array_get(c->scores, i)), NULL, why));
    return KVR_OK;
}

/* The reason why a program's output has no score; "" if it has one. */
static const char *missing(const json_t *value)
{
    const char *word = kvr_json_not_finite(value);

    if (json_is_number(value))
        return "";
    return !word          ? "the metric program printed null for this score"
           : *word == 'N' ? "the metric program printed NaN for this score"
                          : "the metric program printed infinity for this score";
}

static enum kvr_status add_scores(json_t *list, const struct command *c, json_t *got)
{
    size_t n = json_array_size(c->scores);
    const char *key;
    json_t *value;

    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(c->scores, i));

        value = json_object_get(got, name);
        KVR_TRY(add_score(
            list, c, name, value,
            value ? missing(value)
                  : "the JSON object that the metric program printed has no score of this name"));
    }
    if (n > 0)
        return KVR_OK;
    json_object_foreach(got, key, value) KVR_TRY(add_score(list, c, key, value, missing(value)));
    return KVR_OK;
}

/* Adds the score NAME.sandbox, which tells how the metric program ran: 1 in a sandbox, 0 without
 * one because the user asked for none. If no sandbox was available, the score has no value, but the
 * reason `unsandboxed`. */
static enum kvr_status add_sandbox_score(json_t *list, const struct command *c,
                                         enum kvr_sandbox_kind wanted, const char *unsandboxed)
{
    char name[160];

    snprintf(name, sizeof name, "%s.sandbox", c->name);
    return add(list, name, "1", 1, wanted != KVR_SANDBOX_NONE, NAN, unsandboxed ? unsandboxed : "",
               NULL, 0);
}

static enum kvr_status read_sandbox(const json_t *o, const char *where, enum kvr_sandbox_kind *out)
{
    const char *word = NULL;

    KVR_TRY(kvr_json_string_opt(o, where, "sandbox", &word));
    *out = word ? KVR_SANDBOX_NONE : KVR_SANDBOX_BEST;
    if (!word || strcmp(word, "none") == 0)
        return KVR_OK;
    return kvr_fail(KVR_EINVAL, "%s: sandbox '%s' is not allowed; the only allowed value is none",
                    where, word);
}

static enum kvr_status add_command(json_t *list, const json_t *o, const struct kvr_score_input *in)
{
    static const char where[] = "a command of the sweep";
    struct kvr_external e = { .video = in->video,
                              .frames = in->frames,
                              .reference = in->reference };
    struct command c;
    const char *unsandboxed;
    json_t *got;
    enum kvr_status st;

    KVR_TRY(kvr_json_string(o, where, "name", &c.name));
    KVR_TRY(kvr_json_string(o, where, "unit", &c.unit));
    KVR_TRY(kvr_json_array(o, where, "scores", &c.scores));
    KVR_TRY(kvr_json_string(o, where, "command", &e.command));
    KVR_TRY(kvr_json_int_in(o, where, "timeout_s", 1, 86400, &e.timeout_s));
    KVR_TRY(read_sandbox(o, where, &e.sandbox));
    st = kvr_external_run(&e, &got, &unsandboxed);
    if (st == KVR_OK)
        st = add_scores(list, &c, got);
    else if (st != KVR_ENOMEM) /* a lack of memory is kvreel's failure, not the program's */
        st = add_failure(list, &c, kvr_error());
    if (st == KVR_OK)
        st = add_sandbox_score(list, &c, e.sandbox, unsandboxed);
    json_decref(got);
    return st;
}

enum kvr_status kvr_score(const struct kvr_score_input *in, json_t **out)
{
    struct kvr_score_weights weights;
    json_t *list = json_array(), *version, *command;
    enum kvr_status st = list ? KVR_OK : kvr_fail(KVR_ENOMEM, "worker: out of memory");
    const char *name;
    size_t i;

    kvr_score_weights(&weights);
    json_object_foreach((json_t *)in->metrics, name, version) if (st == KVR_OK) st =
        add_metric(list, name, in, &weights);
    json_array_foreach(in->commands, i, command) if (st == KVR_OK) st =
        add_command(list, command, in);
    if (st != KVR_OK) {
        json_decref(list);
        return st;
    }
    *out = list;
    return KVR_OK;
}

enum kvr_status kvr_score_null(const struct kvr_score_input *in, const char *why, json_t **out)
{
    json_t *list = json_array(), *version, *command;
    enum kvr_status st = list ? KVR_OK : kvr_fail(KVR_ENOMEM, "worker: out of memory");
    const char *name;
    size_t i;

    json_object_foreach((json_t *)in->metrics, name, version)
    {
        const struct kvr_metric *m = kvr_metric_find(name);

        if (st == KVR_OK)
            st = add(list, name, m ? m->unit : "1", 0, NAN, NAN, why, NULL, 0);
    }
    json_array_foreach(in->commands, i, command)
    {
        const struct command c = { .name = json_string_value(json_object_get(command, "name")),
                                   .unit = json_string_value(json_object_get(command, "unit")),
                                   .scores = json_object_get(command, "scores") };

        if (st == KVR_OK)
            st = add_failure(list, &c, why);
    }
    if (st != KVR_OK) {
        json_decref(list);
        return st;
    }
    *out = list;
    return KVR_OK;
}
