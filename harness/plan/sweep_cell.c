/* sweep_cell.c - builds one cell: its method, labels and keys; see sweep_impl.h. */
#include "harness/plan/sweep_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/key_options.h"
#include "harness/plan/sweep.h"

static enum kvr_status grow(struct kvr_sweep *s, struct kvr_cell **out)
{
    if (s->n_cells == MAX_CELLS)
        return kvr_fail(KVR_EINVAL,
                        "%s: the sweep has more than the limit of %d cells; shorten its lists",
                        s->config->path, MAX_CELLS);
    if ((s->n_cells & (s->n_cells - 1)) == 0) {
        size_t capacity = s->n_cells ? 2 * (size_t)s->n_cells : 1;
        struct kvr_cell *bigger = realloc(s->cell, capacity * sizeof *bigger);

        if (!bigger)
            return kvr_sweep_no_memory();
        s->cell = bigger;
    }
    *out = &s->cell[s->n_cells];
    memset(*out, 0, sizeof **out);
    return KVR_OK;
}

void kvr_sweep_free_cell(struct kvr_cell *c)
{
    if (c->former)
        free(c->former->spec);
    free(c->former);
    free(c->spec);
}

/* Makes the label of a cell from the method's name and options, or from the config's `label`. If
 * the config gives a `label`, the options follow it only if the config lists several values of an
 * option. An option with a bit budget is labelled by the budget, as in "ROLLING_WINDOW fit=3",
 * because its value depends on the model and on the number of frames; the value is in the cell's
 * spec. */
static void make_label(struct kvr_cell *cell, const struct kvr_config_method *m)
{
    bool named = m && m->label;
    size_t n;

    snprintf(cell->label, sizeof cell->label, "%s", named ? m->label : cell->plan);
    for (int i = 0; m && (!named || m->expanded) && i < m->n_settings; i++) {
        if (i == cell->fit.at)
            continue;
        n = strlen(cell->label);
        snprintf(cell->label + n, sizeof cell->label - n, " %s=%s", m->setting[i].name,
                 m->setting[i].value);
    }
    n = strlen(cell->label);
    if (cell->fit.at >= 0)
        snprintf(cell->label + n, sizeof cell->label - n, " fit=%g", cell->fit.bits);
}

/* If an option of the cell's method has a bit budget (`fit B`), finds the option's value that meets
 * the budget. */
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
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: `fit` needs a video model, but model %s is a language model", spec,
                        p->model->name);
    return kvr_fit_cache_solve(&s->fits, m, p->model, p->set.model_layers, p->set.frames,
                               s->config->stopped, &cell->fit);
}

/* Sets the cell's warning about a known limit of the method on this model, if there is one. */
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

/* Opens the cell's method for the model of point `p`. If the method does not support the model
 * (KVR_EUNSUPPORTED), marks the cell as impossible and returns KVR_OK. If the config gives an
 * invalid method, the error message names its line in the config. */
static enum kvr_status open_method(struct kvr_sweep *s, struct kvr_cell *cell,
                                   const struct point *p, struct kvr_scheme **scheme)
{
    const struct kvr_config_method *m = cell->method;
    const struct kvr_model_config *c = p->facts->config;
    const char *spec = m ? m->spec : kvr_reference_method;
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
        if (st == KVR_EINVAL) /* the options are valid, but impossible for this model's shape */
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

/* Makes the model's label, by which tables group cells. If settings reduce the number of layers or
 * denoising steps, or select a compute type other than F32, the label includes them. Such cells are
 * therefore averaged separately from cells of the full model in F32. */
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

enum kvr_status kvr_sweep_add_cell(struct kvr_sweep *s, const struct point *p,
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
    cell->no_frames = !kvr_point_has_frames(p->facts);
    cell->encodes = kvr_point_encodes(p);
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
        st = kvr_sweep_make_keys(cell, s->config, &s->key_options, p, scheme);
    }
    kvr_scheme_close(&scheme);
    if (st != KVR_OK) {
        kvr_sweep_free_cell(cell);
        return st;
    }
    s->n_cells++;
    return KVR_OK;
}

void kvr_sweep_name_video(struct kvr_cell *c)
{
    int n = snprintf(c->video, sizeof c->video, "%.64s-%s-%.8s", c->prompt->id, c->label, c->key);

    for (int i = 0; i < n && c->video[i]; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=",
                    c->video[i]))
            c->video[i] = '_';
}
