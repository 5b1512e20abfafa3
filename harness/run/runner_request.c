/* runner_request.c - a worker's request as JSON; see runner_impl.h. */
#include "harness/run/runner_impl.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/run/choose.h"
#include "harness/workload/shots.h"
#include "methods/plugin.h"

bool kvr_runner_wants_video(const struct runner *r, const struct kvr_cell *c)
{
    return r->config.set.videos || strstr(c->spec, "{video}");
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

/* The prompt's ground-truth file as JSON; null if the prompt has none. */
static json_t *truth_json(const struct kvr_prompt_truth *t)
{
    return t ? json_pack("{s:s, s:s}", "file", t->path, "tensor", t->tensor) : json_null();
}

static json_t *image_json(const struct kvr_prompt_image *t)
{
    return t ? json_string(t->path) : json_null();
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

/* Where the worker reads the prompt's embedding: in the suite's file, or in the pack that the
 * encoder wrote. A prompt of several shots has a list. NULL: out of memory. */
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

char *kvr_runner_request(const struct runner *r, const struct kvr_job *j, bool drift)
{
    const struct kvr_job *b = &r->jobs[j->cell->baseline];
    char *reference =
        b == j || b->cell->no_frames ? NULL : kvr_path_join(r->summary->out_dir, b->frames_path);
    json_t *spec = json_loads(j->cell->spec, 0, NULL), *memory = NULL, *device = NULL, *o;
    char *text;

    /* a drift measurement needs only the rollout's time, no frame rates */
    if (drift)
        json_object_del(json_object_get(spec, "timing"), "fps");
    if (r->config.set.memory_mib && spec)
        memory = json_integer((json_int_t)r->config.set.memory_mib << 20);
    if (r->config.set.device_mib && spec)
        device = json_integer((json_int_t)r->config.set.device_mib << 20);
    o = json_pack(
        "{s:o*, s:o*, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o}",
        "memory_bytes", memory, "device_bytes", device, "embedding", embedding_json(r, j->cell),
        "tokens", tokens_json(j->cell->prompt->tokens), "build", r->build, "truth",
        truth_json(j->cell->prompt->truth), "image", image_json(j->cell->prompt->image), "plugins",
        plugin_paths(spec), "spec", spec, "model_dir", j->cell->model->dir, "model_stamp",
        r->stamps[j->cell->model - r->config.model], "out_dir", r->summary->out_dir, "frames",
        drift ? json_sprintf("frames/drift-%.8s.safetensors", r->session.id)
              : json_sprintf("frames/%s-%.8s.safetensors", j->cell->rollout, r->build),
        "video",
        drift || !kvr_runner_wants_video(r, j->cell)
            ? json_null()
            : json_sprintf("videos/%s-%.8s.mp4", j->cell->video, r->build),
        "reference", reference ? json_string(reference) : json_null(), "reference_sha256",
        reference ? json_string(b->frames_sha256) : json_null());
    text = kvr_json_text(o, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(o);
    free(reference);
    return text;
}
