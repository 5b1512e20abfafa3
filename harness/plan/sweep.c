/* sweep.c - the product of the axes, group by group. */
#include "harness/plan/sweep.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/sha256.h"
#include "harness/plan/baselines.h"
#include "harness/plan/flops.h"
#include "harness/plan/filter.h"
#include "harness/plan/geometry.h"
#include "harness/plan/key_options.h"
#include "harness/plan/parts.h"
#include "harness/workload/prompt.h"
#include "harness/workload/shots.h"
#include "harness/workload/text.h"

enum { MAX_CELLS = 1000000, MAX_SOLVE_S = 600, PROBE_COST = 8 };

/* Measured: 101 000 cells in 6.6 s of a Cascade Lake core at 2.5 GHz. */
#define PLAN_S_PER_CELL 65e-6

static const char baseline_name[] = "BF16", taught[] = "teacher";
enum { DEFAULT_CHUNK = 128 };

/* One point of all axes but the method. */
struct point {
    const struct kvr_model_facts *facts;
    const struct kvr_config_model *model;
    const struct kvr_config_suite *suite;
    const struct kvr_prompt_line *prompt;
    struct kvr_settings set;
    int index[KVR_N_SETTINGS]; /* of the values */
    int repeat;
    int unmoved; /* index of the BF16 cell whose noise is not moved */
    double cost; /* of one of its cells */
};

static bool has_frames(const struct kvr_model_facts *f)
{
    return f->config->latent_is_rgb || f->decodes;
}

/* Does the prompt's text go through the model's encoder? */
static bool encodes(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;

    return p->facts->text_sha256 && !p->prompt->embedding && !c->n_vocabulary && !c->is_lm &&
           !c->random_weights;
}

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "plan: no memory");
}

enum kvr_status kvr_cell_hash(const char *text, char key[KVR_KEY_LEN])
{
    char hex[KVR_SHA256_HEX];

    KVR_TRY(kvr_sha256_hex(text, strlen(text), hex));
    memcpy(key, hex, KVR_KEY_LEN - 1);
    key[KVR_KEY_LEN - 1] = 0;
    return KVR_OK;
}

/* --- specs ------------------------------------------------------------------------------ */

char *kvr_spec_text(const json_t *j)
{
    return kvr_json_text(j, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENSURE_ASCII);
}

static enum kvr_status hash_json(const json_t *j, char key[KVR_KEY_LEN])
{
    char *text = kvr_spec_text(j);
    enum kvr_status st = text ? kvr_cell_hash(text, key) : no_memory();

    free(text);
    return st;
}

/* Of several shots a list. */
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

/* What all methods of a group share; settings that few sweeps say come without a word when they are
 * not there, so that older cells keep their keys. */
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
        return no_memory();
    /* Numbers of one GPU are not another's. */
    if (strcmp(c->set.device, "cuda") == 0)
        json_object_set_new(o, "device", json_string(c->device_is));
    /* Where the file lies is no part of it. */
    if (t)
        json_object_set_new(o, "truth",
                            json_pack("{s:s, s:i}", "sha256", t->sha256, "given", t->given));
    if (p->prompt->embedding)
        json_object_set_new(o, "embedding", embedding_json(p->prompt->embedding));
    else if (encodes(p))
        json_object_set_new(o, "encoder", json_pack("{s:s}", "sha256", p->facts->text_sha256));
    if (lm)
        json_object_set_new(o, "tokens", json_pack("{s:s}", "sha256", p->prompt->tokens->sha256));
    return kvr_settings_write_json(&p->set, false, o);
}

struct kvr_setting kvr_cell_setting(const struct kvr_cell *c, int i)
{
    struct kvr_setting s = c->method->setting[i];

    if (c->fit.at == i && c->fit.value[0])
        s.value = c->fit.value;
    return s;
}

enum kvr_status kvr_cell_scheme(const struct kvr_cell *c, const char *spec, struct kvr_scheme **out)
{
    const int n = c->method ? c->method->n_settings : 0;
    struct kvr_setting *s = calloc((size_t)n + 1, sizeof *s);
    enum kvr_status st;

    if (!s)
        return no_memory();
    for (int i = 0; i < n; i++)
        s[i] = kvr_cell_setting(c, i);
    st = kvr_scheme_open(out, spec, s, n);
    free(s);
    return st;
}

/* Without a word when the plan needs none: cells of built-in parts keep their keys. */
static enum kvr_status add_plugins(json_t *spec, const struct kvr_scheme *scheme)
{
    json_t *o = scheme ? kvr_plugins_json(scheme) : json_object();
    const bool any = json_object_size(o) > 0;

    if (!o || (any && json_object_set(spec, "plugins", o))) {
        json_decref(o);
        return no_memory();
    }
    json_decref(o);
    return KVR_OK;
}

/* The method's part of a cell's spec. *former: the same with all options that were given; NULL when
 * all of them count. */
static enum kvr_status add_method(json_t *j, struct kvr_key_options *given,
                                  const struct kvr_cell *cell, const struct kvr_scheme *scheme,
                                  json_t **former)
{
    json_t *parts = scheme ? kvr_parts_json(scheme) : json_null(), *options = NULL, *all = NULL;
    enum kvr_status st =
        parts ? kvr_key_options_json(given, cell, parts, &options, &all) : no_memory();

    if (st == KVR_OK &&
        (json_object_set_new(j, "method", json_string(cell->name)) ||
         json_object_set_new(j, "reading", json_string(cell->reading)) ||
         json_object_set_new(j, "plan", json_string(cell->plan)) ||
         json_object_set(j, "options", options) ||
         (cell->fit.at >= 0 && json_object_set_new(j, "budget_bits", json_real(cell->fit.bits))) ||
         json_object_set(j, "parts", parts)))
        st = no_memory();
    if (st == KVR_OK)
        st = add_plugins(j, scheme);
    if (st == KVR_OK && all) {
        *former = json_copy(j);
        if (!*former || json_object_set(*former, "options", all))
            st = no_memory();
    }
    json_decref(options);
    json_decref(all);
    json_decref(parts);
    return st;
}

/* `j` has what makes the frames; what is done with them is put to it. */
static enum kvr_status name_spec(json_t *j, const struct kvr_config *config, const struct point *p,
                                 char rollout[KVR_KEY_LEN], char key[KVR_KEY_LEN], char **spec)
{
    KVR_TRY(hash_json(j, rollout));
    if (json_object_set_new(j, "metrics", kvr_config_metrics_json(config)) ||
        (config->n_commands &&
         json_object_set_new(j, "commands",
                             kvr_config_commands_json(config->command, config->n_commands))) ||
        json_object_set_new(j, "repeat", json_integer(p->repeat)))
        return no_memory();
    KVR_TRY(kvr_settings_write_json(&p->set, true, j));
    *spec = kvr_spec_text(j);
    return *spec ? kvr_cell_hash(*spec, key) : no_memory();
}

static enum kvr_status name_former(json_t *j, const struct kvr_config *config,
                                   const struct point *p, struct kvr_cell *cell)
{
    struct kvr_former *f = cell->former = calloc(1, sizeof *f);

    return f ? name_spec(j, config, p, f->rollout, f->key, &f->spec) : no_memory();
}

/* Keys of a cell: the group's part, the method's, then what is done with the frames. */
static enum kvr_status make_keys(struct kvr_cell *cell, const struct kvr_config *config,
                                 struct kvr_key_options *given, const struct point *p,
                                 const struct kvr_scheme *scheme)
{
    json_t *j = NULL, *former = NULL;
    enum kvr_status st = group_json(p, config, &j);

    if (st == KVR_OK)
        st = hash_json(j, cell->group);
    if (st == KVR_OK)
        st = add_method(j, given, cell, scheme, &former);
    if (st == KVR_OK)
        st = name_spec(j, config, p, cell->rollout, cell->key, &cell->spec);
    if (st == KVR_OK && former)
        st = name_former(former, config, p, cell);
    json_decref(former);
    json_decref(j);
    return st;
}

static void free_cell(struct kvr_cell *c)
{
    if (c->former)
        free(c->former->spec);
    free(c->former);
    free(c->spec);
}

void kvr_cell_swap_former(struct kvr_cell *c)
{
    struct kvr_former was = { .spec = c->spec };

    memcpy(was.key, c->key, KVR_KEY_LEN);
    memcpy(was.rollout, c->rollout, KVR_KEY_LEN);
    memcpy(c->key, c->former->key, KVR_KEY_LEN);
    memcpy(c->rollout, c->former->rollout, KVR_KEY_LEN);
    c->spec = c->former->spec;
    *c->former = was;
}

/* --- cells ------------------------------------------------------------------------------ */

static enum kvr_status grow(struct kvr_sweep *s, struct kvr_cell **out)
{
    if (s->n_cells == MAX_CELLS)
        return kvr_fail(KVR_EINVAL, "%s: more than %d cells", s->config->path, MAX_CELLS);
    if ((s->n_cells & (s->n_cells - 1)) == 0) {
        size_t room = s->n_cells ? 2 * (size_t)s->n_cells : 1;
        struct kvr_cell *bigger = realloc(s->cell, room * sizeof *bigger);

        if (!bigger)
            return no_memory();
        s->cell = bigger;
    }
    *out = &s->cell[s->n_cells];
    memset(*out, 0, sizeof **out);
    return KVR_OK;
}

/* A given label speaks for its options, unless they were listed with several values. Two budgets
 * may have one answer, so a budget is told beside it. */
static void make_label(struct kvr_cell *cell, const struct kvr_config_method *m)
{
    bool named = m && m->label;
    size_t n;

    snprintf(cell->label, sizeof cell->label, "%s", named ? m->label : cell->plan);
    for (int i = 0; m && (!named || m->expanded) && i < m->n_settings; i++) {
        n = strlen(cell->label);
        snprintf(cell->label + n, sizeof cell->label - n, " %s=%s", m->setting[i].name,
                 kvr_cell_setting(cell, i).value);
    }
    n = strlen(cell->label);
    if (cell->fit.at >= 0 && cell->fit.value[0])
        snprintf(cell->label + n, sizeof cell->label - n, " fit=%g", cell->fit.bits);
}

/* Solves an option for a budget, where one asks for it. */
static enum kvr_status fit(struct kvr_sweep *s, struct kvr_cell *cell, const struct point *p,
                           const char *spec)
{
    const struct kvr_config_method *m = cell->method;
    const struct kvr_model_config *c = p->facts->config;
    double bits;
    bool asked = false;

    cell->fit = (struct kvr_fit){ .at = -1 };
    for (int i = 0; m && i < m->n_settings; i++)
        asked = asked || kvr_fit_asked(m->setting[i].value, &bits);
    if (!asked)
        return KVR_OK;
    if (c->is_lm)
        return kvr_fail(KVR_EUNSUPPORTED, "%s: budgets are solved for video models", spec);
    return kvr_fit_cache_solve(&s->fits, m, p->model, p->set.model_layers, p->set.frames,
                               s->config->stopped, &cell->fit);
}

/* What to mind when the numbers of this method on this model are read. */
static void warn(struct kvr_cell *cell, const struct kvr_scheme *p,
                 const struct kvr_model_config *c)
{
    const char *text = kvr_scheme_warning(p);

    if (!text)
        text =
            kvr_retention_warning(&p->retention, c->n_heads,
                                  c->n_kv_heads ? c->n_kv_heads : c->n_heads, c->dim / c->n_heads);
    if (text)
        snprintf(cell->warning, sizeof cell->warning, "%s", text);
}

/* Opens the method for this model; a refusal with KVR_EUNSUPPORTED makes the cell impossible,
 * any other is an error of the config. */
static enum kvr_status open_method(struct kvr_sweep *s, struct kvr_cell *cell,
                                   const struct point *p, struct kvr_scheme **scheme)
{
    const struct kvr_config_method *m = cell->method;
    const struct kvr_model_config *c = p->facts->config;
    const char *spec = m ? m->spec : baseline_name;
    const struct kvr_method *row;
    enum kvr_status st;

    snprintf(cell->plan, sizeof cell->plan, "%s", spec);
    snprintf(cell->name, sizeof cell->name, "%.*s", (int)strcspn(spec, "@+"), spec);
    cell->reading = strstr(spec, "@study") ? "study" : "intended";
    row = kvr_method_find(cell->name);
    cell->family = row ? row->family : "";
    cell->possible = true;
    st = fit(s, cell, p, spec);
    if (st == KVR_OK)
        st = kvr_cell_scheme(cell, spec, scheme);
    if (st == KVR_OK) {
        snprintf(cell->plan, sizeof cell->plan, "%s", (*scheme)->name);
        cell->reading = kvr_scheme_reading(*scheme);
        warn(cell, *scheme, c);
        st = kvr_scheme_check(*scheme, c->n_kv_heads ? c->n_kv_heads : c->n_heads,
                              c->dim / c->n_heads);
        if (st == KVR_EINVAL) /* right for other models, impossible for this one's shape */
            st = KVR_EUNSUPPORTED;
    }
    if (st == KVR_EUNSUPPORTED) {
        cell->possible = false;
        snprintf(cell->reason, sizeof cell->reason, "%.255s", kvr_error());
        return KVR_OK;
    }
    if (st == KVR_EINVAL || st == KVR_ENOTFOUND)
        return m ? kvr_yaml_fail(m->at, "%s", kvr_error()) : st;
    return st;
}

static void add_to_label(struct kvr_cell *cell, bool *first, const char *what, const char *value)
{
    const size_t n = strlen(cell->model_label);

    snprintf(cell->model_label + n, sizeof cell->model_label - n, "%c%s=%s", *first ? '/' : ',',
             what, value);
    *first = false;
}

/* Tables group by this: a part of a model is not averaged with the whole, nor what it computes in
 * BF16 with what it does in F32. */
static void label_model(struct kvr_cell *cell, const struct point *p)
{
    char number[16];
    bool first = true;

    snprintf(cell->model_label, sizeof cell->model_label, "%.80s%s", p->model->name,
             p->model->trace ? "/trace" : "");
    first = !p->model->trace;
    if (p->set.model_layers) {
        snprintf(number, sizeof number, "%d", p->set.model_layers);
        add_to_label(cell, &first, "layers", number);
    }
    if (p->set.model_steps) {
        snprintf(number, sizeof number, "%d", p->set.model_steps);
        add_to_label(cell, &first, "steps", number);
    }
    if (strcmp(p->set.compute, "f32") != 0)
        add_to_label(cell, &first, "compute", p->set.compute);
}

static enum kvr_status add_cell(struct kvr_sweep *s, const struct point *p,
                                const struct kvr_config_method *m, int baseline,
                                const char *impossible)
{
    struct kvr_scheme *scheme = NULL;
    struct kvr_cell *cell = NULL;
    enum kvr_status st;

    KVR_TRY(grow(s, &cell));
    cell->method = m;
    cell->model = p->model;
    label_model(cell, p);
    cell->no_frames = !has_frames(p->facts);
    cell->encodes = encodes(p);
    cell->max_tokens = p->facts->config->text_len;
    snprintf(cell->model_sha256, sizeof cell->model_sha256, "%s", p->facts->sha256);
    cell->suite = p->suite;
    cell->prompt = p->prompt;
    cell->set = p->set;
    cell->repeat = p->repeat;
    cell->cost = p->cost;
    cell->baseline = baseline;
    cell->selected = true;
    st = open_method(s, cell, p, &scheme);
    if (st == KVR_OK && impossible) {
        cell->possible = false;
        snprintf(cell->reason, sizeof cell->reason, "%s", impossible);
    }
    if (st == KVR_OK) {
        make_label(cell, m);
        st = make_keys(cell, s->config, &s->given, p, scheme);
    }
    kvr_scheme_close(&scheme);
    if (st != KVR_OK) {
        free_cell(cell);
        return st;
    }
    s->n_cells++;
    return KVR_OK;
}

/* Cells are known by their keys, which labels are no part of: the same thing under two of them
 * would be run twice and kept once. */
static enum kvr_status check_labels(const struct kvr_sweep *s, int first)
{
    const struct kvr_cell *last = &s->cell[s->n_cells - 1];

    for (int i = first; i < s->n_cells - 1; i++) {
        if (strcmp(s->cell[i].label, last->label) == 0)
            return kvr_yaml_fail(
                last->method->at, "method '%s' is listed twice%s", last->label,
                strcmp(s->cell[i].key, last->key) == 0 ? "" : ": give one of them another label");
        if (strcmp(s->cell[i].key, last->key) == 0)
            return kvr_yaml_fail(last->method->at, "method '%s' equals '%s' under another label",
                                 last->label, s->cell[i].label);
    }
    return KVR_OK;
}

/* Whether the rollout can go on from the prompt's truth, and be compared with it to its end. */
static enum kvr_status check_truth(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;
    const struct kvr_prompt_truth *t = p->prompt->truth;

    if (!t)
        return KVR_OK;
    if (t->given % c->frames_per_chunk != 0 || t->given >= p->set.frames)
        return kvr_yaml_fail(t->given_at,
                             "prompt '%s': %d given frames of %d, need whole chunks of %d (model "
                             "%s) and at least one chunk to generate",
                             p->prompt->id, t->given, p->set.frames, c->frames_per_chunk,
                             p->model->name);
    if (t->n < p->set.frames)
        return kvr_yaml_fail(t->at, "prompt '%s': truth '%s' has %d frames, the rollout %d",
                             p->prompt->id, t->tensor, t->n, p->set.frames);
    if (c->latent_is_rgb && (t->height != c->latent_h || t->width != c->latent_w))
        return kvr_yaml_fail(t->at,
                             "prompt '%s': truth '%s' has frames of %dx%d (width x height), model "
                             "%s makes %dx%d",
                             p->prompt->id, t->tensor, t->width, t->height, p->model->name,
                             c->latent_w, c->latent_h);
    return KVR_OK;
}

/* Whether the model takes the embedding that the prompt comes with. */
static enum kvr_status check_embedding(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;
    const struct kvr_prompt_embedding *e = p->prompt->embedding;

    while (e && e->n <= c->text_len && e->dim == c->text_dim)
        e = e->next;
    if (!e)
        return KVR_OK;
    return kvr_yaml_fail(
        e->at,
        "prompt '%s': an embedding of %d tokens of %d values, model %s takes up to "
        "%d of %d",
        p->prompt->id, e->n, e->dim, p->model->name, c->text_len, c->text_dim);
}

/* Whether this language model can read the prompt's tokens as the settings say. */
static enum kvr_status check_text(const struct point *p, char *why, size_t n)
{
    const struct kvr_model_config *c = p->facts->config;
    const struct kvr_prompt_tokens *t = p->prompt->tokens;
    const struct kvr_text_request r = { .chunk = p->set.chunk, .first = p->set.prefix };

    if (!t)
        return kvr_yaml_fail(p->prompt->at,
                             "prompt '%s' has no 'tokens', which language model %s reads",
                             p->prompt->id, p->model->name);
    if (t->n < p->set.frames || p->set.frames > c->context_length)
        return kvr_yaml_fail(t->at, "prompt '%s': %d tokens of %d, for a context of %d (model %s)",
                             p->prompt->id, p->set.frames, t->n, c->context_length, p->model->name);
    if (kvr_text_bins(&r, p->set.frames, NULL) == 0)
        return kvr_yaml_fail(
            t->at,
            "prompt '%s': %d tokens have no room for a prefix of %d and a chunk of "
            "%d",
            p->prompt->id, p->set.frames, p->set.prefix, p->set.chunk);
    if (strcmp(p->set.kind, "probe") == 0)
        snprintf(why, n,
                 "probe: neither grouped queries nor causal chunks; `mass` is measured in "
                 "cells of kind bench");
    else if (strcmp(p->set.device, "cpu") != 0)
        snprintf(why, n, "device %s: no kernels for grouped queries and causal chunks",
                 p->set.device);
    else if (strcmp(p->set.forcing, taught) != 0)
        snprintf(why, n, "forcing %s: a language model reads under a teacher", p->set.forcing);
    else if (strcmp(p->set.schedule, "model") != 0 || strcmp(p->set.sampler, "model") != 0)
        snprintf(why, n, "schedule %s, sampler %s: a language model denoises nothing",
                 p->set.schedule, p->set.sampler);
    else if (strcmp(p->set.on_switch, "keep") != 0 || p->set.shot_offset > 0)
        snprintf(why, n, "on_switch, shot_offset: a language model's text has no shots");
    else if (p->set.jitter)
        snprintf(why, n, "jitter: a language model has no noise");
    return KVR_OK;
}

/* Whether a trace can be replayed as the settings say. */
static enum kvr_status check_trace(const struct kvr_sweep *s, const struct point *p, char *why,
                                   size_t n)
{
    const struct kvr_trace_info *i = kvr_trace_info(p->model->trace);
    const struct kvr_setting_values *frames = &s->config->values[KVR_SET_frames];
    const struct kvr_yaml_node *at =
        frames->n ? frames->at[p->index[KVR_SET_frames]] : p->model->at;

    if (p->set.frames > i->n_frames ||
        (p->set.frames % i->layout.frames_per_chunk != 0 && p->set.frames != i->n_frames))
        return kvr_yaml_fail(at, "%d frames of trace '%s', need whole chunks of %d, at most %d",
                             p->set.frames, p->prompt->id, i->layout.frames_per_chunk, i->n_frames);
    if (p->set.model_layers > i->layout.n_layers)
        return kvr_yaml_fail(p->model->at, "model_layers %d: trace '%s' has %d",
                             p->set.model_layers, p->prompt->id, i->layout.n_layers);
    if (p->set.chunk)
        return kvr_yaml_fail(p->model->at, "chunk %d: trace '%s' has fixed chunks of %d",
                             p->set.chunk, p->prompt->id, i->layout.frames_per_chunk);
    if (p->set.window && p->set.window < i->layout.frames_per_chunk + p->set.sink)
        return kvr_yaml_fail(
            p->model->at, "window %d: trace '%s' needs the sink and a chunk: %d frames",
            p->set.window, p->prompt->id, i->layout.frames_per_chunk + p->set.sink);
    if (strcmp(p->set.forcing, taught) != 0)
        snprintf(why, n, "forcing %s: a trace is its own teacher", p->set.forcing);
    else if (strcmp(p->set.schedule, "model") != 0 || strcmp(p->set.sampler, "model") != 0 ||
             p->set.model_steps)
        snprintf(why, n, "schedule, sampler, model_steps: a trace's passes are recorded");
    else if (strcmp(p->set.on_switch, "keep") != 0 || p->set.shot_offset >= 0)
        snprintf(why, n, "on_switch, shot_offset: a trace's prompt is not known");
    else if (strcmp(p->set.decoder, "vae") != 0)
        snprintf(why, n, "decoder %s: a trace has no latents", p->set.decoder);
    else if (strcmp(p->set.compute, "f32") != 0)
        snprintf(why, n, "compute %s: a trace has no linear layers", p->set.compute);
    else if (p->set.jitter)
        snprintf(why, n, "jitter: a trace has no noise");
    else if (strcmp(p->set.device, "cpu") != 0 &&
             (i->layout.causal || i->layout.n_kv_heads != i->layout.n_heads))
        snprintf(why, n, "device %s: no kernels for grouped queries and causal chunks",
                 p->set.device);
    return KVR_OK;
}

/* Shots of models that read embeddings, or draw them, begin where the video has chunks; a grammar of the
 * model's own looks at that itself. */
static enum kvr_status check_shots(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;
    struct kvr_shot_line shots;

    if (c->n_vocabulary)
        return KVR_OK;
    if (kvr_shot_line_parse(p->prompt->text, p->set.frames / c->frames_per_chunk, &shots) != KVR_OK)
        return kvr_yaml_fail(p->prompt->at, "prompt '%s': %s", p->prompt->id, kvr_error());
    if (shots.n > 1 && p->prompt->embedding && !p->prompt->embedding->next) {
        kvr_shot_line_free(&shots);
        return kvr_yaml_fail(
            p->prompt->at,
            "prompt '%s': %d shots, and one embedding: shots go through the model's "
            "text encoder",
            p->prompt->id, shots.n);
    }
    kvr_shot_line_free(&shots);
    return KVR_OK;
}

/* Whether this prompt can be had from this model for so many frames. `why` is filled when it
 * cannot although nothing is wrong with the config. */
static enum kvr_status check_point(const struct kvr_sweep *s, const struct point *p, char *why,
                                   size_t n)
{
    const struct kvr_model_config *c = p->facts->config;
    const struct kvr_setting_values *frames = &s->config->values[KVR_SET_frames];
    const struct kvr_yaml_node *at =
        frames->n ? frames->at[p->index[KVR_SET_frames]] : p->model->at;
    struct kvr_prompt parsed;
    enum kvr_status st;

    why[0] = 0;
    if (p->model->trace)
        return check_trace(s, p, why, n);
    if (c->is_lm)
        return check_text(p, why, n);
    if (p->set.chunk)
        return kvr_yaml_fail(at, "chunk %d: model %s has fixed chunks of %d frames", p->set.chunk,
                             p->model->name, c->frames_per_chunk);
    if (p->set.frames % c->frames_per_chunk != 0)
        return kvr_yaml_fail(at, "frames: %d must be a multiple of %d (frames per chunk, model %s)",
                             p->set.frames, c->frames_per_chunk, p->model->name);
    if (p->set.model_steps &&
        (strcmp(p->set.schedule, "model") != 0 || strcmp(p->set.sampler, "model") != 0))
        return kvr_yaml_fail(s->config->values[KVR_SET_model_steps].at[0],
                             "model_steps %d: schedule %s and sampler %s say which steps there are",
                             p->set.model_steps, p->set.schedule, p->set.sampler);
    if (strcmp(p->set.sampler, "model") != 0) {
        struct kvr_model_config chosen = *c;

        st = kvr_schedule_choose(&chosen, p->set.schedule);
        if (st == KVR_OK)
            st = kvr_sampler_choose(&chosen, p->set.sampler);
        if (st != KVR_OK)
            return kvr_yaml_fail(s->config->values[KVR_SET_sampler].at[0], "%s", kvr_error());
    }
    st = check_shots(p);
    if (st != KVR_OK)
        return st;
    KVR_TRY(check_truth(p));
    if (p->prompt->truth && !c->latent_is_rgb) {
        snprintf(why, n, "no encoder for the latents of model %s: it cannot continue given frames",
                 p->model->name);
        return KVR_OK;
    }
    KVR_TRY(check_embedding(p));
    if (c->random_weights || p->prompt->embedding || encodes(p))
        return KVR_OK;
    st = kvr_prompt_parse(c, p->prompt->text, p->set.frames / c->frames_per_chunk, &parsed);
    if (st == KVR_EUNSUPPORTED) {
        snprintf(why, n, "%.250s", kvr_error());
        return KVR_OK;
    }
    return st == KVR_EINVAL
               ? kvr_yaml_fail(p->prompt->at, "prompt '%s': %s", p->prompt->id, kvr_error())
               : st;
}

/* What a method adds is little beside the network; a probe computes attention once more in double
 * precision, a teacher is a rollout more. */
static double cost_of(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;
    struct kvr_model_config scheduled = *c;
    double cost;

    if (p->model->trace) /* once more in BF16, to be compared with */
        return (2 + p->set.warmup) * (strcmp(p->set.kind, "probe") == 0 ? PROBE_COST : 1) *
               kvr_trace_flop(kvr_trace_info(p->model->trace), p->set.frames, p->set.model_layers,
                              p->set.window);
    if (c->is_lm)
        return (1 + p->set.warmup) *
               kvr_text_flop(c, p->set.frames, p->set.chunk, p->set.prefix, p->set.scored);
    if (kvr_schedule_choose(&scheduled, p->set.schedule) == KVR_OK &&
        kvr_sampler_choose(&scheduled, p->set.sampler) == KVR_OK) /* reading has seen to that */
        c = &scheduled;
    cost = kvr_rollout_flop(c, p->set.frames, p->set.window);
    cost *= 1 + p->set.warmup;
    if (strcmp(p->set.kind, "probe") == 0)
        cost *= PROBE_COST;
    return strcmp(p->set.forcing, "none") != 0 ? 2 * cost : cost;
}

/* Is this the first group of its text? Its first cell makes the teacher that all others read. */
static bool teaches(const struct point *p)
{
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        if (p->index[i])
            return false;
    return p->facts->config->is_lm && p->repeat == 0;
}

/* Has the group this very cell, or a window of as many frames? */
static bool there_already(const struct kvr_sweep *s, int first)
{
    const struct kvr_cell *last = &s->cell[s->n_cells - 1];

    for (int i = first; i < s->n_cells - 1; i++) {
        const struct kvr_cell *c = &s->cell[i];

        if (strcmp(c->key, last->key) == 0 ||
            (c->fit.at >= 0 && last->fit.at >= 0 && strcmp(c->name, last->name) == 0 &&
             c->fit.predicted == last->fit.predicted))
            return true;
    }
    return false;
}

/* A window that holds all that the cell's own window shows is no shorter one. */
static bool shows_all(const struct kvr_cell *c)
{
    return c->fit.at >= 0 && c->set.window > 0 &&
           strtod(c->fit.value, NULL) >= (double)c->set.window;
}

/* What nobody asked for is no hole where it cannot be. */
static enum kvr_status add_unasked(struct kvr_sweep *s, const struct point *p,
                                   const struct kvr_config_method *m, int first)
{
    struct kvr_cell *last;
    bool wanted;

    KVR_TRY(add_cell(s, p, m, first, NULL));
    last = &s->cell[s->n_cells - 1];
    wanted = last->possible && !there_already(s, first) && !shows_all(last);
    if (!last->warning[0])
        snprintf(last->warning, sizeof last->warning, "%s", kvr_baseline_note);
    if (!wanted) {
        free_cell(last);
        s->n_cells--;
    }
    return KVR_OK;
}

/* The group of one point: the baseline, then every other method in its order. Of a control the
 * baseline alone. */
static enum kvr_status add_group(struct kvr_sweep *s, struct point *p, bool control)
{
    const struct kvr_config *c = s->config;
    const struct kvr_config_method *base = NULL;
    int first = s->n_cells;
    char why[256];

    if (c->stopped && c->stopped())
        return kvr_fail(KVR_EINTERRUPTED, "%s: interrupted while it was planned", c->path);
    KVR_TRY(check_point(s, p, why, sizeof why));
    p->cost = cost_of(p);
    for (int i = 0; i < c->n_methods; i++)
        if (!base && kvr_is_reference(&c->method[i]))
            base = &c->method[i];
    if (p->set.jitter == 0 && p->repeat == 0)
        p->unmoved = first;
    KVR_TRY(add_cell(s, p, base, p->set.jitter ? p->unmoved : first, why[0] ? why : NULL));
    if (teaches(p))
        s->cell[first].cost += kvr_teacher_flop(p->facts->config, p->set.frames);
    for (int i = 0; i < c->n_methods && !control; i++) {
        if (&c->method[i] == base)
            continue;
        KVR_TRY(add_cell(s, p, &c->method[i], first, why[0] ? why : NULL));
        KVR_TRY(check_labels(s, first));
    }
    for (int i = 0; i < s->unasked->n && !control && !why[0]; i++)
        KVR_TRY(add_unasked(s, p, &s->unasked->method[i], first));
    return KVR_OK;
}

/* --- the product ------------------------------------------------------------------------ */

/* Axes that are zipped stand at the same place. */
static bool in_step(const struct kvr_sweep *s, const struct point *p)
{
    int at = -1;

    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        if (!(s->config->zip >> i & 1))
            continue;
        if (at >= 0 && p->index[i] != at)
            return false;
        at = p->index[i];
    }
    return true;
}

/* Length and sink are what was recorded where the sweep does not say; the seed always. */
static void settle_trace(const struct kvr_config *c, struct point *p)
{
    const struct kvr_trace_info *i = kvr_trace_info(p->model->trace);

    if (c->values[KVR_SET_frames].n == 0)
        p->set.frames = i->n_frames;
    if (c->values[KVR_SET_sink].n == 0)
        p->set.sink = i->sink_frames;
    p->set.seed = (int64_t)i->seed;
}

/* What hangs on the model, the suite or the prompt; and a setting that means nothing in this kind
 * of run is what it is without one. */
static void settle(const struct kvr_sweep *s, struct point *p)
{
    const struct kvr_config *c = s->config;
    struct kvr_settings none;

    kvr_settings_defaults(&none);
    if (p->set.window == KVR_WINDOW_OF_MODEL)
        p->set.window = p->facts->config->window_frames;
    if (p->set.sink == KVR_SINK_OF_MODEL)
        p->set.sink = p->facts->config->sink_frames;
    if (c->values[KVR_SET_frames].n == 0)
        p->set.frames = p->suite->frames;
    if (c->values[KVR_SET_seed].n == 0)
        p->set.seed = (int64_t)p->suite->seed;
    p->set.seed += p->prompt->index;
    if (p->model->trace)
        settle_trace(c, p);
    else if (p->facts->config->is_lm)
        p->set.chunk = p->set.chunk ? p->set.chunk : DEFAULT_CHUNK;
    if ((p->model->trace || p->facts->config->is_lm) && strcmp(p->set.forcing, "none") == 0)
        p->set.forcing = taught; /* there is nothing else: what is stored says so */
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const enum kvr_setting_id id = (enum kvr_setting_id)i;

        if (!kvr_setting_counts(id, p->set.kind))
            kvr_setting_put(&p->set, id, kvr_setting_number(&none, id), kvr_setting_rows[i].def);
    }
}

/* Draws of the BF16 rollout alone, where the sweep does not say what it wants moved. They are for
 * the distance of two free rollouts, so that nothing without frames needs them, nothing under a
 * teacher, which leaves BF16 what it is, and nobody who asks for times. */
static int control_draws(const struct kvr_config *c, const struct point *p)
{
    enum { MOST = 4, SHARE = 4 };
    int others = 0;

    if (c->values[KVR_SET_jitter].said || strcmp(p->set.kind, "bench") != 0 ||
        strcmp(p->set.forcing, "none") != 0 || !has_frames(p->facts))
        return 0;
    if (c->set.control != KVR_CONTROL_AUTO)
        return c->set.control;
    for (int i = 0; i < c->n_methods; i++)
        others += !kvr_is_reference(&c->method[i]);
    if (c->set.timing || others / SHARE == 0)
        return 0;
    return others / SHARE < MOST ? others / SHARE : MOST;
}

/* A probe's numbers would be the same again: it is not repeated. It takes far longer than a timed
 * rollout, so a sweep may ask for it on some of its prompts. Repeats show how far time moves, draws
 * how far fidelity does: one of the two at a time. */
static enum kvr_status over_repeats(struct kvr_sweep *s, struct point *p)
{
    const struct kvr_config *c = s->config;
    const bool probe = strcmp(p->set.kind, "probe") == 0;
    struct kvr_settings none;
    int draws, control;

    settle(s, p);
    if (probe && c->set.probe_prompts && p->prompt - p->suite->prompt >= c->set.probe_prompts)
        return KVR_OK;
    draws = p->set.jitter;
    kvr_settings_defaults(&none);
    p->set.jitter = 0;
    p->set.jitter_bits = none.jitter_bits; /* nothing is moved by it */
    for (p->repeat = 0; p->repeat < (probe ? 1 : c->set.repeats); p->repeat++)
        KVR_TRY(add_group(s, p, false));
    p->repeat = 0;
    p->set.jitter_bits = c->set.jitter_bits;
    control = control_draws(c, p);
    for (p->set.jitter = 1; p->set.jitter <= draws + control; p->set.jitter++)
        KVR_TRY(add_group(s, p, control > 0));
    return KVR_OK;
}

/* The next place of the axes, the last turning fastest. false: there is none. */
static bool next_place(const struct kvr_config *c, int index[KVR_N_SETTINGS])
{
    for (int i = KVR_N_SETTINGS - 1; i >= 0; i--) {
        if (++index[i] < c->values[i].n)
            return true;
        index[i] = 0;
    }
    return false;
}

static enum kvr_status over_settings(struct kvr_sweep *s, struct point *p)
{
    const struct kvr_config *c = s->config;

    if (c->values[KVR_SET_frames].n == 0 && !p->suite->frames)
        return kvr_yaml_fail(kvr_yaml_root(c->doc), "no 'frames', and suite '%s' has none",
                             p->suite->name);
    memset(p->index, 0, sizeof p->index);
    do {
        p->set = c->set;
        for (int i = 0; i < KVR_N_SETTINGS; i++)
            if (kvr_setting_rows[i].flags & KVR_SET_AXIS)
                kvr_setting_choose(&p->set, (enum kvr_setting_id)i, &c->values[i], p->index[i]);
        if (in_step(s, p))
            KVR_TRY(over_repeats(s, p));
    } while (next_place(c, p->index));
    return KVR_OK;
}

static enum kvr_status over_models(struct kvr_sweep *s, const struct kvr_model_facts *facts,
                                   int n_facts)
{
    const struct kvr_config *c = s->config;

    for (int m = 0; m < c->n_models; m++)
        for (int i = 0; i < c->n_suites; i++) {
            struct point p = { .model = &c->model[m], .suite = &c->suite[i] };

            const struct kvr_model_facts recorded = {
                .name = p.model->name,
                .sha256 = p.model->trace ? kvr_trace_sha256(p.model->trace) : NULL,
                .config = &p.model->attention
            };

            for (int k = 0; k < n_facts && !p.model->trace; k++)
                if (strcmp(facts[k].name, p.model->name) == 0)
                    p.facts = &facts[k];
            if (p.model->trace)
                p.facts = &recorded;
            if (!p.facts)
                return kvr_fail(KVR_EINTERNAL, "plan: model %s was not loaded", p.model->name);
            for (int k = 0; k < p.suite->n_prompts; k++) {
                if (p.model->trace && k != m)
                    continue; /* another trace's */
                p.prompt = &p.suite->prompt[k];
                KVR_TRY(over_settings(s, &p));
            }
        }
    return KVR_OK;
}

/* --- names of videos -------------------------------------------------------------------- */

/* For who looks at them: prompt and method. The key behind, so that no other cell, of this sweep or
 * of another into the same folder, wants the name. */
static void name_video(struct kvr_cell *c)
{
    int n = snprintf(c->video, sizeof c->video, "%.64s-%s-%.8s", c->prompt->id, c->label, c->key);

    for (int i = 0; i < n && c->video[i]; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=",
                    c->video[i]))
            c->video[i] = '_';
}

/* --- how many --------------------------------------------------------------------------- */

/* No fewer than there will be, before the first is made. */
static double count_cells(const struct kvr_sweep *s)
{
    const struct kvr_config *c = s->config;
    double n = c->set.repeats + c->set.jitter, prompts = 0;
    int zipped = 1;

    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const int k = c->values[i].n > 1 ? c->values[i].n : 1;

        if (!(kvr_setting_rows[i].flags & KVR_SET_AXIS))
            continue;
        if (c->zip >> i & 1)
            zipped = k;
        else
            n *= k;
    }
    for (int i = 0; i < c->n_suites; i++)
        prompts += c->suite[i].n_prompts;
    return n * zipped * prompts * c->n_models * (c->n_methods + s->unasked->n);
}

static bool asks_to_solve(const struct kvr_config_method *m)
{
    double bits;

    for (int i = 0; i < m->n_settings; i++)
        if (kvr_fit_asked(m->setting[i].value, &bits))
            return true;
    return false;
}

/* How long one budget takes with each model and length, in all. Lengths of suites and traces are
 * few and short beside a list of them. */
static double seconds_a_budget(const struct kvr_config *c)
{
    const struct kvr_setting_values *frames = &c->values[KVR_SET_frames];
    struct kvr_geometry geo;
    double s = 0;

    for (int m = 0; m < c->n_models; m++) {
        if (kvr_geometry_of(&c->model[m], c->set.model_layers, &geo) != KVR_OK)
            continue; /* the cells will say it */
        for (int i = 0; i < frames->n; i++) {
            struct kvr_settings set = c->set;

            kvr_setting_choose(&set, KVR_SET_frames, frames, i);
            s += kvr_fit_seconds(&geo, set.frames);
        }
    }
    return s;
}

static enum kvr_status check_solving(const struct kvr_sweep *s)
{
    const struct kvr_config *c = s->config;
    int n = 0;
    double seconds;

    for (int i = 0; i < c->n_methods; i++)
        n += asks_to_solve(&c->method[i]);
    for (int i = 0; i < s->unasked->n; i++)
        n += asks_to_solve(&s->unasked->method[i]);
    seconds = n ? n * seconds_a_budget(c) : 0;
    if (seconds <= MAX_SOLVE_S)
        return KVR_OK;
    return kvr_fail(KVR_EINVAL,
                    "%s: solving its %d budgets (`fit` and default baselines) takes about %.0f s, "
                    "at most %d: use fewer budgets, `baselines: none`, or fewer values of frames",
                    c->path, n, seconds, MAX_SOLVE_S);
}

static enum kvr_status check_size(const struct kvr_sweep *s)
{
    const double n = count_cells(s);

    if (n > MAX_CELLS)
        return kvr_fail(KVR_EINVAL,
                        "%s: about %.3g cells, at most %d: planning alone takes about %.0f s; "
                        "split the sweep or shorten its lists",
                        s->config->path, n, MAX_CELLS, n * PLAN_S_PER_CELL);
    return check_solving(s);
}

/* --- rules ------------------------------------------------------------------------------ */

static enum kvr_status apply_rule(struct kvr_sweep *s, const struct kvr_rule *rule)
{
    struct kvr_filter *f;

    if (kvr_filter_open(&f, rule->when) != KVR_OK)
        return kvr_yaml_fail(rule->at, "%s", kvr_error());
    for (int i = 0; i < s->n_cells; i++) {
        struct kvr_cell *c = &s->cell[i];

        if (!c->possible || kvr_filter_match(f, c) == rule->include)
            continue;
        c->possible = false;
        c->excluded = true;
        snprintf(c->reason, sizeof c->reason, "excluded: %.240s", rule->reason);
    }
    kvr_filter_close(&f);
    return KVR_OK;
}

enum kvr_status kvr_sweep_make(struct kvr_sweep *s, const struct kvr_config *config,
                               const struct kvr_model_facts *facts, int n_facts)
{
    enum kvr_status st;

    memset(s, 0, sizeof *s);
    s->config = config;
    s->unasked = malloc(sizeof *s->unasked);
    if (!s->unasked)
        return no_memory();
    st = kvr_baselines_make(s->unasked, config);
    if (st == KVR_OK)
        st = check_size(s);
    if (st == KVR_OK)
        st = over_models(s, facts, n_facts);
    for (int i = 0; st == KVR_OK && i < config->rules.n; i++)
        st = apply_rule(s, &config->rules.rule[i]);
    for (int i = 0; st == KVR_OK && i < s->n_cells; i++)
        name_video(&s->cell[i]);
    if (st != KVR_OK)
        kvr_sweep_free(s);
    return st;
}

void kvr_sweep_free(struct kvr_sweep *s)
{
    for (int i = 0; i < s->n_cells; i++)
        free_cell(&s->cell[i]);
    free(s->cell);
    free(s->unasked);
    kvr_fit_cache_free(&s->fits);
    kvr_key_options_free(&s->given);
    memset(s, 0, sizeof *s);
}

/* --- shards ----------------------------------------------------------------------------- */

struct place {
    uint64_t root; /* of the baseline that all of a group hang on in the end */
    int index;
};

static int by_root(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->root != y->root)
        return (x->root > y->root) - (x->root < y->root);
    return x->index - y->index;
}

static double weight(const struct kvr_cell *c)
{
    return c->possible ? c->cost : 0;
}

/* Keeps the cells of one shard. All cells stand in one row, groups together in the order of their
 * keys; it is cut into parts of one cost, and what a cut parts from its baseline has that once
 * more. */
static enum kvr_status keep_shard(struct kvr_sweep *s, int shard, int n_shards)
{
    struct place *row = malloc(((size_t)s->n_cells + 1) * sizeof *row);
    double all = 0, before = 0;

    if (!row)
        return no_memory();
    for (int i = 0; i < s->n_cells; i++) {
        char head[17] = { 0 };
        int root = i;

        while (s->cell[root].baseline != root)
            root = s->cell[root].baseline;
        memcpy(head, s->cell[root].key, 16);
        row[i] = (struct place){ strtoull(head, NULL, 16), i };
        all += weight(&s->cell[i]);
    }
    qsort(row, (size_t)s->n_cells, sizeof *row, by_root);
    for (int i = 0; i < s->n_cells; i++) {
        struct kvr_cell *c = &s->cell[row[i].index];
        const double middle = before + weight(c) / 2;
        const int part = all > 0 ? (int)(middle / all * n_shards) : 0;

        c->selected = (part < n_shards ? part : n_shards - 1) == shard;
        before += weight(c);
    }
    free(row);
    return KVR_OK;
}

enum kvr_status kvr_sweep_select(struct kvr_sweep *s, const char *filter, int shard, int n_shards)
{
    struct kvr_filter *f = NULL;

    if (n_shards < 1 || shard < 0 || shard >= n_shards)
        return kvr_fail(KVR_EINVAL, "shard %d of %d: need 0 <= i < N", shard, n_shards);
    KVR_TRY(keep_shard(s, shard, n_shards));
    if (filter)
        KVR_TRY(kvr_filter_open(&f, filter));
    for (int i = 0; f && i < s->n_cells; i++)
        s->cell[i].selected = s->cell[i].selected && kvr_filter_match(f, &s->cell[i]);
    for (int i = s->n_cells - 1; i >= 0; i--) /* a baseline stands before what needs it */
        if (s->cell[i].selected)
            s->cell[s->cell[i].baseline].selected = true;
    kvr_filter_close(&f);
    return KVR_OK;
}
