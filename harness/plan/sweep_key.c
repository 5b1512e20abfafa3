/* sweep_key.c - writes a cell's spec and hashes its keys; see sweep_impl.h. */
#include "harness/plan/sweep_impl.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/key_options.h"
#include "harness/plan/parts.h"

static enum kvr_status hash_json(const json_t *j, char key[KVR_KEY_LEN])
{
    char *text = kvr_spec_text(j);
    enum kvr_status st = text ? kvr_cell_hash(text, key) : kvr_sweep_no_memory();

    free(text);
    return st;
}

/* Returns the SHA-256 of a prompt's embedding as a JSON object. If the prompt has several shots,
 * returns a list with one object per shot. */
static json_t *embedding_json(const struct kvr_prompt_embedding *e)
{
    json_t *list = json_array();

    if (!e->next) {
        json_decref(list);
        return json_pack("{s:s}", "sha256", e->sha256);
    }
    for (; e && list; e = e->next)
        json_array_append_new(list, json_pack("{s:s}", "sha256", e->sha256));
    return list;
}

/* Writes the part of a cell's spec (canonical JSON) that is equal for all methods of a group.
 * Optional settings that are not set are omitted, so that the keys of older cells do not change. */
static enum kvr_status group_json(const struct point *p, const struct kvr_config *c, json_t **out)
{
    const struct kvr_prompt_truth *t = p->prompt->truth;
    const bool lm = p->facts->config->is_lm;
    const char *workload = p->model->trace ? "trace" : lm ? "text" : "rollout";
    json_t *o =
        json_pack("{s:i, s:s, s:{s:s, s:s}, s:{s:s, s:s, s:s}}", "format", KVR_CELL_FORMAT,
                  "workload", workload, "model", "name", p->model->name, "sha256", p->facts->sha256,
                  "prompt", "suite", p->suite->name, "id", p->prompt->id, "text", p->prompt->text);

    *out = o;
    if (!o)
        return kvr_sweep_no_memory();
    /* Results of one GPU are not valid for another GPU, so its name is part of the key. */
    if (strcmp(c->set.device, "cuda") == 0)
        json_object_set_new(o, "device", json_string(c->device_is));
    /* The key contains the hash of the ground truth, not its path. */
    if (t)
        json_object_set_new(o, "truth",
                            json_pack("{s:s, s:i}", "sha256", t->sha256, "given", t->given));
    if (p->prompt->image)
        json_object_set_new(o, "image", json_pack("{s:s}", "sha256", p->prompt->image->sha256));
    if (p->prompt->embedding)
        json_object_set_new(o, "embedding", embedding_json(p->prompt->embedding));
    else if (kvr_point_encodes(p))
        json_object_set_new(o, "encoder", json_pack("{s:s}", "sha256", p->facts->text_sha256));
    if (lm)
        json_object_set_new(o, "tokens", json_pack("{s:s}", "sha256", p->prompt->tokens->sha256));
    return kvr_settings_write_json(&p->set, false, o);
}

/* Adds the plug-ins that the method needs. Without plug-ins nothing is added, so that the keys of
 * cells with built-in parts do not change. */
static enum kvr_status add_plugins(json_t *spec, const struct kvr_scheme *scheme)
{
    json_t *o = scheme ? kvr_plugins_json(scheme) : json_object();
    const bool any = json_object_size(o) > 0;

    if (!o || (any && json_object_set(spec, "plugins", o))) {
        json_decref(o);
        return kvr_sweep_no_memory();
    }
    json_decref(o);
    return KVR_OK;
}

/* Adds the part of a cell's spec that describes the method. Only options that change the method are
 * part of the spec. Earlier versions of kvreel included all options that the config gives. If such
 * a spec is different, sets *former to it, to find the cell in older databases. */
static enum kvr_status add_method(json_t *j, struct kvr_key_options *key_options,
                                  const struct kvr_cell *cell, const struct kvr_scheme *scheme,
                                  json_t **former)
{
    json_t *parts = scheme ? kvr_parts_json(scheme) : json_null(), *options = NULL, *all = NULL;
    enum kvr_status st = parts ? kvr_key_options_json(key_options, cell, parts, &options, &all)
                               : kvr_sweep_no_memory();

    if (st == KVR_OK &&
        (json_object_set_new(j, "method", json_string(cell->name)) ||
         json_object_set_new(j, "reading", json_string(cell->reading)) ||
         json_object_set_new(j, "plan", json_string(cell->plan)) ||
         json_object_set(j, "options", options) ||
         (cell->fit.at >= 0 && json_object_set_new(j, "budget_bits", json_real(cell->fit.bits))) ||
         json_object_set(j, "parts", parts)))
        st = kvr_sweep_no_memory();
    if (st == KVR_OK)
        st = add_plugins(j, scheme);
    if (st == KVR_OK && all) {
        *former = json_copy(j);
        if (!*former || json_object_set(*former, "options", all))
            st = kvr_sweep_no_memory();
    }
    json_decref(options);
    json_decref(all);
    json_decref(parts);
    return st;
}

/* Writes two hashes of a cell. `rollout` is the hash of the spec `j`, which contains everything
 * that determines the frames. Then metrics, external metric programs, the index of the repeat and
 * the remaining settings are added to `j`, and `key` is the hash of the result. */
static enum kvr_status name_spec(json_t *j, const struct kvr_config *config, const struct point *p,
                                 char rollout[KVR_KEY_LEN], char key[KVR_KEY_LEN], char **spec)
{
    KVR_TRY(hash_json(j, rollout));
    if (json_object_set_new(j, "metrics", kvr_config_metrics_json(config)) ||
        (config->n_commands &&
         json_object_set_new(j, "commands",
                             kvr_config_commands_json(config->command, config->n_commands))) ||
        json_object_set_new(j, "repeat", json_integer(p->repeat)))
        return kvr_sweep_no_memory();
    KVR_TRY(kvr_settings_write_json(&p->set, true, j));
    *spec = kvr_spec_text(j);
    return *spec ? kvr_cell_hash(*spec, key) : kvr_sweep_no_memory();
}

static enum kvr_status name_former(json_t *j, const struct kvr_config *config,
                                   const struct point *p, struct kvr_cell *cell)
{
    struct kvr_former *f = cell->former = calloc(1, sizeof *f);

    return f ? name_spec(j, config, p, f->rollout, f->key, &f->spec) : kvr_sweep_no_memory();
}

enum kvr_status kvr_sweep_make_keys(struct kvr_cell *cell, const struct kvr_config *config,
                                    struct kvr_key_options *key_options, const struct point *p,
                                    const struct kvr_scheme *scheme)
{
    json_t *j = NULL, *former = NULL;
    enum kvr_status st = group_json(p, config, &j);

    if (st == KVR_OK)
        st = hash_json(j, cell->group);
    if (st == KVR_OK)
        st = add_method(j, key_options, cell, scheme, &former);
    if (st == KVR_OK)
        st = name_spec(j, config, p, cell->rollout, cell->key, &cell->spec);
    if (st == KVR_OK && former)
        st = name_former(former, config, p, cell);
    json_decref(former);
    json_decref(j);
    return st;
}
