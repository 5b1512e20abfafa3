/* worker_trace.c - see worker_trace.h. */
#include "harness/run/worker_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/store/record.h"

static const char where[] = "worker's request";

/* Checks the hash of the trace's index only. The index has the hash of every file, which is checked
 * when the file is read. */
enum kvr_status kvr_worker_trace_open(struct kvr_trace **out, const json_t *spec,
                                      const json_t *request, const struct kvr_settings *set,
                                      struct kvr_replay_request *req)
{
    const char *dir, *sha256;
    json_t *model;

    KVR_TRY(kvr_json_object(spec, where, "model", &model));
    KVR_TRY(kvr_json_string(model, where, "sha256", &sha256));
    KVR_TRY(kvr_json_string(request, where, "model_dir", &dir));
    KVR_TRY(kvr_trace_open(out, dir));
    if (strcmp(kvr_trace_sha256(*out), sha256) != 0) {
        kvr_trace_close(out);
        return kvr_fail(KVR_EFORMAT,
                        "%s: the trace was modified after planning; run the sweep again", dir);
    }
    req->trace = *out;
    req->frames = set->frames;
    req->n_layers = set->model_layers;
    req->window_frames = set->window;
    req->sink_frames = set->sink;
    req->evict = set->evict;
    return KVR_OK;
}

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer");
}

enum kvr_status kvr_worker_trace_warm_up(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                         const struct kvr_replay_request *req, int n,
                                         json_t *answer)
{
    struct kvr_replay_request plain = *req;
    json_t *list = json_array();

    plain.compare = false;
    for (int i = 0; list && i < n; i++) {
        struct kvr_replay_result r;
        enum kvr_status st = kvr_replay_run(dev, scheme, &plain, NULL, NULL, &r);

        if (st != KVR_OK) {
            json_decref(list);
            return st;
        }
        json_array_append_new(list, json_integer(r.cost.wall_ns));
        kvr_replay_result_free(&r);
    }
    return json_object_set_new(answer, "warmup_ns", list) ? no_memory() : KVR_OK;
}

static double mse_of(const struct kvr_replay_error *e)
{
    return e->out_mse;
}

static double rel_of(const struct kvr_replay_error *e)
{
    return e->out_rel;
}

static double cos_of(const struct kvr_replay_error *e)
{
    return e->out_cos;
}

static enum kvr_status add(json_t *answer, const char *name, double value, int64_t n,
                           const char *missing, const double *series, int n_series)
{
    const struct kvr_row_metric m = { .name = name,
                                      .unit = "1",
                                      .n = (int)(n < INT32_MAX ? n : INT32_MAX),
                                      .value = value,
                                      .extra = NAN,
                                      .missing = isfinite(value) ? NULL : missing,
                                      .series = series,
                                      .n_series = n_series };

    return json_array_append_new(json_object_get(answer, "metrics"), kvr_metric_json(&m))
               ? no_memory()
               : KVR_OK;
}

static enum kvr_status add_errors(const struct kvr_replay_result *r, json_t *answer)
{
    static const struct {
        const char *name;
        double (*of)(const struct kvr_replay_error *e);
    } numbers[] = { { "attn_out_mse", mse_of },
                    { "attn_out_rel", rel_of },
                    { "attn_out_cos", cos_of } };
    const int n = r->cost.n_chunks;
    double *series = malloc((size_t)n * sizeof *series);
    enum kvr_status st = series ? KVR_OK : no_memory();

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && st == KVR_OK; i++) {
        for (int c = 0; c < n; c++)
            series[c] = numbers[i].of(&r->chunk[c]);
        st = add(answer, numbers[i].name, numbers[i].of(&r->all), r->all.queries,
                 "all recorded attention calls belong to the first chunk, which has no cached "
                 "tokens; record more frames",
                 series, n);
    }
    free(series);
    return st;
}

enum kvr_status kvr_worker_trace_answer(const struct kvr_replay_request *req,
                                        const struct kvr_replay_result *r, json_t *answer)
{
    KVR_TRY(add(answer, "recorded_rel", r->recorded_rel, r->all.queries,
                "the trace has no recorded attention outputs", NULL, 0));
    return req->compare ? add_errors(r, answer) : KVR_OK;
}
