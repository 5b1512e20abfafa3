/* sweep.c - builds the cells of a sweep, the Cartesian product of the config's axes (models,
 * prompts, settings, methods). The cells of all methods at one point (a value on every other axis)
 * form a group. */
#include "harness/plan/sweep_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/baselines.h"
#include "harness/plan/filter.h"
#include "harness/plan/flops.h"
#include "harness/plan/key_options.h"
#include "harness/plan/sweep.h"
#include "harness/workload/workload.h"

bool kvr_point_has_frames(const struct kvr_model_facts *f)
{
    return f->config->latent_is_rgb || f->decodes;
}

bool kvr_point_encodes(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;

    return p->facts->text_sha256 && !p->prompt->embedding && !c->n_vocabulary && !c->is_lm &&
           !c->random_weights;
}

/* Returns the network's FLOPs of one cell. The method's own FLOPs are few in comparison and are
 * ignored. A probe (a rollout that also computes every attention call in double precision) costs
 * PROBE_COST times as much. A forced rollout costs twice as much, because its teacher is a second
 * rollout. */
static double cost_of(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;
    struct kvr_model_config scheduled = *c;
    double cost;

    if (p->model->trace) /* attention runs twice, for the method and for the BF16 reference */
        return (2 + p->set.warmup) * (strcmp(p->set.kind, "probe") == 0 ? PROBE_COST : 1) *
               kvr_trace_flop(kvr_trace_info(p->model->trace), p->set.frames, p->set.model_layers,
                              p->set.window);
    if (c->is_lm)
        return (1 + p->set.warmup) *
               kvr_text_flop(c, p->set.frames, p->set.chunk, p->set.prefix, p->set.scored);
    if (kvr_schedule_choose(&scheduled, p->set.schedule) == KVR_OK &&
        /* the values were checked when the config was read */
        kvr_sampler_choose(&scheduled, p->set.sampler) == KVR_OK)
        c = &scheduled;
    cost = kvr_rollout_flop(c, p->set.frames, p->set.window);
    cost *= 1 + p->set.warmup + (p->set.abba ? 1 + 4 * p->set.abba : 0) +
            (p->set.fps ? KVR_N_DECODERS : 0);
    if (strcmp(p->set.kind, "probe") == 0)
        cost *= PROBE_COST;
    return strcmp(p->set.forcing, "none") != 0 ? 2 * cost : cost;
}

/* Returns whether `p` is the first group of a language-model prompt. The first cell of this group
 * also runs the BF16 forward pass (the teacher), whose outputs all cells of the prompt use. */
static bool runs_teacher(const struct point *p)
{
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        if (p->index[i])
            return false;
    return p->facts->config->is_lm && p->repeat == 0;
}

/* Returns whether the last cell duplicates another cell of its group, which begins at cell `first`.
 * Two cells are duplicates if they have the same key. They are also duplicates if they have the
 * same method, and the option values found for their bit budgets give the same predicted bits per
 * element. */
static bool is_duplicate(const struct kvr_sweep *s, int first)
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

/* Returns whether the length found for a sliding window with a bit budget is at least the cell's
 * attention window (setting `window`). Such a sliding window has no effect. */
static bool window_has_no_effect(const struct kvr_cell *c)
{
    return c->fit.at >= 0 && c->set.window > 0 &&
           strtod(c->fit.value, NULL) >= (double)c->set.window;
}

/* Adds the cell of a default baseline (baselines.h) to a group. The cell is omitted if the model
 * does not support the method, if the group already contains the cell, or if the method is a
 * sliding window without effect. */
static enum kvr_status add_default_baseline(struct kvr_sweep *s, const struct point *p,
                                            const struct kvr_config_method *m, int first)
{
    struct kvr_cell *last;
    bool wanted;

    KVR_TRY(kvr_sweep_add_cell(s, p, m, first, NULL));
    last = &s->cell[s->n_cells - 1];
    wanted = last->possible && !is_duplicate(s, first) && !window_has_no_effect(last);
    last->default_baseline = true;
    if (!wanted) {
        kvr_sweep_free_cell(last);
        s->n_cells--;
    }
    return KVR_OK;
}

/* Adds the group of cells at point `p`: BF16, then the other methods in the config's order, then
 * default baselines. With `control`, the group contains only BF16. */
static enum kvr_status add_group(struct kvr_sweep *s, struct point *p, bool control)
{
    const struct kvr_config *c = s->config;
    const struct kvr_config_method *base = NULL;
    int first = s->n_cells;
    char why[256];

    if (c->stopped && c->stopped())
        return kvr_fail(KVR_EINTERRUPTED, "%s: planning was interrupted", c->path);
    KVR_TRY(kvr_point_check(s, p, why, sizeof why));
    p->cost = cost_of(p);
    for (int i = 0; i < c->n_methods; i++)
        if (!base && kvr_is_reference(&c->method[i]))
            base = &c->method[i];
    if (p->set.jitter == 0 && p->repeat == 0)
        p->unperturbed = first;
    KVR_TRY(kvr_sweep_add_cell(s, p, base, p->set.jitter ? p->unperturbed : first,
                               why[0] ? why : NULL));
    if (runs_teacher(p))
        s->cell[first].cost += kvr_teacher_flop(p->facts->config, p->set.frames);
    for (int i = 0; i < c->n_methods && !control; i++) {
        if (&c->method[i] == base)
            continue;
        KVR_TRY(kvr_sweep_add_cell(s, p, &c->method[i], first, why[0] ? why : NULL));
        KVR_TRY(kvr_sweep_check_labels(s, first));
    }
    for (int i = 0; i < s->default_baselines->n && !control && !why[0]; i++)
        KVR_TRY(add_default_baseline(s, p, &s->default_baselines->method[i], first));
    return KVR_OK;
}

/* Returns whether all zipped axes (config key `zip`), which advance together, have the same index.
 * Other combinations of their values are not part of the sweep. */
static bool zipped_axes_agree(const struct kvr_sweep *s, const struct point *p)
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

/* Copies the seed from the trace. The numbers of frames and of sink frames are also copied, unless
 * the sweep sets them. */
static void apply_trace_defaults(const struct kvr_config *c, struct point *p)
{
    const struct kvr_trace_info *i = kvr_trace_info(p->model->trace);

    if (c->values[KVR_SET_frames].n == 0)
        p->set.frames = i->n_frames;
    if (c->values[KVR_SET_sink].n == 0)
        p->set.sink = i->sink_frames;
    p->set.seed = (int64_t)i->seed;
}

/* Sets the settings of point `p` that depend on the model, suite or prompt. A setting that has no
 * effect on this kind of run is set to its default. */
static void apply_defaults(const struct kvr_sweep *s, struct point *p)
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
        apply_trace_defaults(c, p);
    else if (p->facts->config->is_lm)
        p->set.chunk = p->set.chunk ? p->set.chunk : DEFAULT_CHUNK;
    if ((p->model->trace || p->facts->config->is_lm) && strcmp(p->set.forcing, "none") == 0)
        /* traces and language models are always teacher-forced */
        p->set.forcing = kvr_forcing_names[KVR_FORCING_TEACHER];
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const enum kvr_setting_id id = (enum kvr_setting_id)i;

        if (!kvr_setting_counts(id, p->set.kind))
            kvr_setting_put(&p->set, id, kvr_setting_number(&none, id), kvr_setting_rows[i].def);
    }
}

/* Returns the number of BF16 draws (reruns with slightly perturbed noise) to add at point `p`.
 * Draws are added only to unforced rollouts of video models (kind `bench`, not `probe`), and only
 * if the sweep does not set `jitter`. If the config does not give the number (`control`), timed
 * sweeps and sweeps of fewer than FEWEST methods besides BF16 have no draws. Other sweeps have one
 * draw per SHARE methods besides BF16, at least 1 and at most MOST. */
static int control_draws(const struct kvr_config *c, const struct point *p)
{
    enum { FEWEST = 3, MOST = 4, SHARE = 4 };
    int others = 0;

    if (c->values[KVR_SET_jitter].is_set || strcmp(p->set.kind, "bench") != 0 ||
        strcmp(p->set.forcing, "none") != 0 || !kvr_point_has_frames(p->facts))
        return 0;
    if (c->set.control != KVR_CONTROL_AUTO)
        return c->set.control;
    for (int i = 0; i < c->n_methods; i++)
        others += !kvr_is_reference(&c->method[i]);
    if (c->set.timing || others < FEWEST)
        return 0;
    return others < SHARE ? 1 : others / SHARE < MOST ? others / SHARE : MOST;
}

/* Adds the groups of cells at point `p` for all repeats and draws. Probes (rollouts that compare
 * every attention call with attention over a BF16 cache) are deterministic and are not repeated. A
 * probe takes much longer than another rollout, so a sweep may limit the number of probed prompts.
 * Repeats measure the variation of times. Draws (reruns with slightly perturbed noise) measure the
 * variation of fidelity and are not repeated. */
static enum kvr_status over_repeats(struct kvr_sweep *s, struct point *p)
{
    const struct kvr_config *c = s->config;
    const bool probe = strcmp(p->set.kind, "probe") == 0;
    struct kvr_settings none;
    int draws, control;

    apply_defaults(s, p);
    if (probe && c->set.probe_prompts && p->prompt - p->suite->prompt >= c->set.probe_prompts)
        return KVR_OK;
    draws = p->set.jitter;
    kvr_settings_defaults(&none);
    p->set.jitter = 0;
    p->set.jitter_bits = none.jitter_bits; /* without jitter, jitter_bits has no effect */
    for (p->repeat = 0; p->repeat < (probe ? 1 : c->set.repeats); p->repeat++)
        KVR_TRY(add_group(s, p, false));
    p->repeat = 0;
    p->set.jitter_bits = c->set.jitter_bits;
    control = control_draws(c, p);
    for (p->set.jitter = 1; p->set.jitter <= draws + control; p->set.jitter++)
        KVR_TRY(add_group(s, p, control > 0));
    return KVR_OK;
}

/* Advances the indices of the axes to the next point; the last axis changes fastest. Returns false
 * after the last point. */
static bool next_point(const struct kvr_config *c, int index[KVR_N_SETTINGS])
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
        return kvr_yaml_fail(
            kvr_yaml_root(c->doc),
            "the sweep has no 'frames', and suite '%s' gives no default; add 'frames' (number of "
            "latent frames) to the sweep",
            p->suite->name);
    memset(p->index, 0, sizeof p->index);
    do {
        p->set = c->set;
        for (int i = 0; i < KVR_N_SETTINGS; i++)
            if (kvr_setting_rows[i].flags & KVR_SET_AXIS)
                kvr_setting_choose(&p->set, (enum kvr_setting_id)i, &c->values[i], p->index[i]);
        if (zipped_axes_agree(s, p))
            KVR_TRY(over_repeats(s, p));
    } while (next_point(c, p->index));
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
                return kvr_fail(KVR_EINTERNAL,
                                "plan: model %s was not loaded before its cells were planned",
                                p.model->name);
            for (int k = 0; k < p.suite->n_prompts; k++) {
                if (p.model->trace && k != m)
                    continue; /* model m is a trace, and the suite's prompt m is its prompt */
                p.prompt = &p.suite->prompt[k];
                KVR_TRY(over_settings(s, &p));
            }
        }
    return KVR_OK;
}

static enum kvr_status apply_rule(struct kvr_sweep *s, const struct kvr_rule *rule)
{
    struct kvr_filter *f;

    KVR_TRY(kvr_yaml_fail_from(rule->at, kvr_filter_open(&f, rule->when)));
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
    s->default_baselines = malloc(sizeof *s->default_baselines);
    if (!s->default_baselines)
        return kvr_sweep_no_memory();
    st = kvr_baselines_make(s->default_baselines, config);
    if (st == KVR_OK)
        st = kvr_sweep_check_size(s);
    if (st == KVR_OK)
        st = over_models(s, facts, n_facts);
    for (int i = 0; st == KVR_OK && i < config->rules.n; i++)
        st = apply_rule(s, &config->rules.rule[i]);
    for (int i = 0; st == KVR_OK && i < s->n_cells; i++)
        kvr_sweep_name_video(&s->cell[i]);
    if (st != KVR_OK)
        kvr_sweep_free(s);
    return st;
}

void kvr_sweep_free(struct kvr_sweep *s)
{
    for (int i = 0; i < s->n_cells; i++)
        kvr_sweep_free_cell(&s->cell[i]);
    free(s->cell);
    free(s->default_baselines);
    kvr_fit_cache_free(&s->fits);
    kvr_key_options_free(&s->key_options);
    memset(s, 0, sizeof *s);
}
