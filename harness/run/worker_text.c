/* worker_text.c - see worker_text.h. */
#include "harness/run/worker_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/store/record.h"

static const char where[] = "worker's request";

/* Opens the token file and checks it against the plan's hash. */
static enum kvr_status open_tokens(struct kvr_worker_text *t)
{
    const char *file, *tensor, *sha256;
    json_t *source, *spec;

    KVR_TRY(kvr_json_object(t->spec, where, "tokens", &spec));
    KVR_TRY(kvr_json_string(spec, where, "sha256", &sha256));
    KVR_TRY(kvr_json_object(t->request, where, "tokens", &source));
    KVR_TRY(kvr_json_string(source, where, "file", &file));
    KVR_TRY(kvr_json_string(source, where, "tensor", &tensor));
    KVR_TRY(kvr_tokens_open(&t->tokens, file, tensor));
    if (strcmp(t->tokens.sha256, sha256) != 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s' was modified after planning: its sha256 is %.12s, the "
                        "plan has %.12s; run the sweep again",
                        file, tensor, t->tokens.sha256, sha256);
    return KVR_OK;
}

/* Path of the teacher's file, out_dir/teacher/HASH.safetensors; the hash covers model, tokens,
 * length, compute type and build. NULL: out of memory. */
static char *teacher_path(const struct kvr_worker_text *t, const struct kvr_text_request *req)
{
    const char *build = json_string_value(json_object_get(t->request, "build"));
    char text[512], hex[KVR_SHA256_HEX], name[64];

    snprintf(text, sizeof text, "%s %s %d %s %.64s", kvr_model_sha256(req->model), t->tokens.sha256,
             t->set->frames, t->set->compute, build ? build : "");
    if (kvr_sha256_hex(text, strlen(text), hex) != KVR_OK)
        return NULL;
    snprintf(name, sizeof name, "teacher/%.32s.safetensors", hex);
    return kvr_path_join(t->out_dir, name);
}

static enum kvr_status open_teacher(struct kvr_worker_text *t, const struct kvr_text_request *req)
{
    char *path = teacher_path(t, req);
    enum kvr_status st =
        path ? kvr_text_teacher(t->dev, req->model, &t->tokens, t->set->frames, path, &t->teacher)
             : kvr_fail(KVR_ENOMEM, "worker: out of memory");

    free(path);
    return st;
}

enum kvr_status kvr_worker_text_open(struct kvr_worker_text *t, struct kvr_text_request *req)
{
    enum kvr_status st = open_tokens(t);

    if (st == KVR_OK)
        st = open_teacher(t, req);
    if (st != KVR_OK) {
        kvr_worker_text_close(t);
        return st;
    }
    req->tokens = &t->tokens;
    req->teacher = &t->teacher;
    req->chunk = t->set->chunk;
    req->first = t->set->prefix;
    req->scored = t->set->scored;
    req->window_tokens = t->set->window;
    req->sink_tokens = t->set->sink;
    req->evict = t->set->evict;
    t->req = req;
    return KVR_OK;
}

void kvr_worker_text_close(struct kvr_worker_text *t)
{
    kvr_teacher_free(&t->teacher);
    kvr_tokens_close(&t->tokens);
}

enum kvr_status kvr_worker_text_warm_up(struct kvr_worker_text *t, const struct kvr_scheme *scheme,
                                        json_t *answer)
{
    json_t *list = json_array();

    for (int i = 0; list && i < t->set->warmup; i++) {
        struct kvr_text_result r;
        enum kvr_status st = kvr_text_run(t->dev, scheme, t->req, NULL, NULL, &r);

        if (st != KVR_OK) {
            json_decref(list);
            return st;
        }
        json_array_append_new(list, json_integer(r.cost.wall_ns));
        kvr_text_result_free(&r);
    }
    return json_object_set_new(answer, "warmup_ns", list)
               ? kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer")
               : KVR_OK;
}

static double nll_of(const struct kvr_text_bin *b)
{
    return b->nll;
}

static double kl_of(const struct kvr_text_bin *b)
{
    return b->kl;
}

static double top1_of(const struct kvr_text_bin *b)
{
    return b->top1;
}

static double mass_of(const struct kvr_text_bin *b)
{
    return b->mass;
}

static double tokens_of(const struct kvr_text_bin *b)
{
    return (double)b->tokens;
}

enum kvr_status kvr_worker_text_answer(const struct kvr_text_result *r, json_t *answer)
{
    static const struct {
        const char *name, *unit;
        double (*of)(const struct kvr_text_bin *b);
    } numbers[] = {
        { "nll", "nat", nll_of },
        { "kl", "nat", kl_of },
        { "top1", "1", top1_of },
        { "mass", "1", mass_of },
        { "tokens_scored", "1", tokens_of },
    };
    json_t *list = json_object_get(answer, "metrics");
    double series[KVR_TEXT_MAX_BINS];

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct kvr_row_metric m = { .name = numbers[i].name,
                                          .unit = numbers[i].unit,
                                          .n = (int)r->all.tokens,
                                          .value = numbers[i].of(&r->all),
                                          .extra = NAN,
                                          .series = series,
                                          .n_series = r->n_bins };

        for (int b = 0; b < r->n_bins; b++)
            series[b] = numbers[i].of(&r->bin[b]);
        if (json_array_append_new(list, kvr_metric_json(&m)))
            return kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer");
    }
    return KVR_OK;
}
