/* sweep_check.c - checks whether the combination of model, prompt and settings at a point is valid
 * and can run; see sweep_impl.h. */
#include "harness/plan/sweep_impl.h"

#include <stdio.h>
#include <string.h>

#include "harness/plan/key_options.h"
#include "harness/plan/sweep.h"
#include "harness/workload/image.h"
#include "harness/workload/prompt.h"
#include "harness/workload/shots.h"
#include "harness/workload/text.h"
#include "harness/workload/workload.h"

enum kvr_status kvr_sweep_check_labels(const struct kvr_sweep *s, int first)
{
    const struct kvr_cell *last = &s->cell[s->n_cells - 1];

    for (int i = first; i < s->n_cells - 1; i++) {
        if (strcmp(s->cell[i].label, last->label) == 0)
            return kvr_yaml_fail(
                last->method->at, "method '%s' is listed twice%s", last->label,
                strcmp(s->cell[i].key, last->key) == 0
                    ? ""
                    : "; the two entries differ, so give one of them another 'label'");
        if (strcmp(s->cell[i].key, last->key) == 0)
            return kvr_yaml_fail(
                last->method->at,
                "method '%s' equals '%s' under another label; remove one of the two", last->label,
                s->cell[i].label);
    }
    return KVR_OK;
}

/* Checks that the rollout can continue the given frames of the prompt's ground truth, and that the
 * ground truth is as long as the rollout. */
static enum kvr_status check_truth(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;
    const struct kvr_prompt_truth *t = p->prompt->truth;

    if (!t)
        return KVR_OK;
    if (t->given % c->frames_per_chunk != 0 || t->given >= p->set.frames)
        return kvr_yaml_fail(
            t->given_at,
            "prompt '%s': 'given' is %d and the rollout has %d frames; 'given' must be a multiple "
            "of %d (frames per chunk of model %s) and leave at least one chunk to generate",
            p->prompt->id, t->given, p->set.frames, c->frames_per_chunk, p->model->name);
    if (t->n < p->set.frames)
        return kvr_yaml_fail(t->at,
                             "prompt '%s': the clip '%s' of key 'truth' has %d frames, need at "
                             "least %d (frames of the rollout)",
                             p->prompt->id, t->tensor, t->n, p->set.frames);
    if (c->latent_is_rgb && (t->height != c->latent_h || t->width != c->latent_w))
        return kvr_yaml_fail(t->at,
                             "prompt '%s': the clip '%s' of key 'truth' has frames of %dx%d (width "
                             "x height), but model %s generates frames of %dx%d",
                             p->prompt->id, t->tensor, t->width, t->height, p->model->name,
                             c->latent_w, c->latent_h);
    return KVR_OK;
}

/* Checks that the model can start from the prompt's image. If kvreel has no encoder for the model's
 * latents, writes this reason to `why` [n] and returns KVR_OK. An invalid image is an error. */
static enum kvr_status check_image(const struct point *p, char *why, size_t n)
{
    const struct kvr_prompt_image *t = p->prompt->image;
    enum kvr_status st =
        t ? kvr_image_check(t->height, t->width, t->path, p->facts->config) : KVR_OK;

    if (st == KVR_EUNSUPPORTED) {
        snprintf(why, n,
                 "model %s cannot begin with an image, because kvreel cannot encode an image into "
                 "this model's latents",
                 p->model->name);
        return KVR_OK;
    }
    return st == KVR_EINVAL ? kvr_yaml_fail(t->at, "prompt '%s': %s", p->prompt->id, kvr_error())
                            : st;
}

/* Checks that the prompt's embedding has the shape that the model requires. */
static enum kvr_status check_embedding(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;
    const struct kvr_prompt_embedding *e = p->prompt->embedding;

    while (e && e->n <= c->text_len && e->dim == c->text_dim)
        e = e->next;
    if (!e)
        return KVR_OK;
    return kvr_yaml_fail(e->at,
                         "prompt '%s': its embedding has %d tokens of %d values, model %s takes up "
                         "to %d tokens of %d values",
                         p->prompt->id, e->n, e->dim, p->model->name, c->text_len, c->text_dim);
}

/* Checks that the language model can process the prompt's tokens with these settings. */
static enum kvr_status check_text(const struct point *p, char *why, size_t n)
{
    const struct kvr_model_config *c = p->facts->config;
    const struct kvr_prompt_tokens *t = p->prompt->tokens;
    const struct kvr_text_request r = { .chunk = p->set.chunk, .first = p->set.prefix };

    if (!t)
        return kvr_yaml_fail(p->prompt->at,
                             "prompt '%s' has no 'tokens', which language model %s needs",
                             p->prompt->id, p->model->name);
    if (t->n < p->set.frames || p->set.frames > c->context_length)
        return kvr_yaml_fail(
            t->at,
            "prompt '%s': %d tokens requested (setting frames), need at most %d, the tokens of the "
            "prompt's text, and at most %d, the context length of model %s",
            p->prompt->id, p->set.frames, t->n, c->context_length, p->model->name);
    if (kvr_text_bins(&r, p->set.frames, NULL) == 0)
        return kvr_yaml_fail(t->at,
                             "prompt '%s': %d tokens requested (setting frames), need at least the "
                             "prefix of %d tokens and one chunk of %d tokens%s",
                             p->prompt->id, p->set.frames, p->set.prefix, p->set.chunk,
                             p->set.chunk > 1 ? "" : ", plus the next token");
    if (strcmp(p->set.kind, "probe") == 0)
        snprintf(why, n,
                 "kind probe: a language model cannot be probed, because it has grouped-query "
                 "attention (GQA) and causal chunks; use kind bench, which measures the attention "
                 "share (metric mass)");
    else if (strcmp(p->set.device, "cpu") != 0)
        snprintf(why, n,
                 "device %s: a language model has grouped-query attention (GQA) and causal chunks, "
                 "for which only device cpu has kernels; use device cpu",
                 p->set.device);
    else if (strcmp(p->set.forcing, kvr_forcing_names[KVR_FORCING_TEACHER]) != 0)
        snprintf(why, n,
                 "forcing %s: a language model always reads the prompt's text; omit forcing",
                 p->set.forcing);
    else if (strcmp(p->set.schedule, "model") != 0 || strcmp(p->set.sampler, "model") != 0)
        snprintf(why, n,
                 "schedule %s, sampler %s: a language model has no denoising steps; omit both",
                 p->set.schedule, p->set.sampler);
    else if (strcmp(p->set.on_switch, "keep") != 0 || p->set.shot_offset > 0)
        snprintf(why, n,
                 "on_switch %s, shot_offset %d: a language model's text has no shots; omit both",
                 p->set.on_switch, p->set.shot_offset);
    else if (p->set.jitter)
        snprintf(why, n, "jitter %d: a language model has no noise; omit jitter", p->set.jitter);
    return KVR_OK;
}

/* Checks that the trace can be replayed with these settings. */
static enum kvr_status check_trace(const struct kvr_sweep *s, const struct point *p, char *why,
                                   size_t n)
{
    const struct kvr_trace_info *i = kvr_trace_info(p->model->trace);
    const struct kvr_setting_values *frames = &s->config->values[KVR_SET_frames];
    const struct kvr_yaml_node *at =
        frames->n ? frames->at[p->index[KVR_SET_frames]] : p->model->at;

    if (p->set.frames > i->n_frames ||
        (p->set.frames % i->layout.frames_per_chunk != 0 && p->set.frames != i->n_frames))
        return kvr_yaml_fail(at,
                             "%d frames of trace '%s' requested, need a multiple of %d (frames per "
                             "chunk), at most %d",
                             p->set.frames, p->prompt->id, i->layout.frames_per_chunk, i->n_frames);
    if (p->set.model_layers > i->layout.n_layers)
        return kvr_yaml_fail(p->model->at, "model_layers %d: trace '%s' has only %d layers",
                             p->set.model_layers, p->prompt->id, i->layout.n_layers);
    if (p->set.chunk)
        return kvr_yaml_fail(p->model->at,
                             "chunk %d: trace '%s' has fixed chunks of %d frames; remove 'chunk'",
                             p->set.chunk, p->prompt->id, i->layout.frames_per_chunk);
    if (p->set.window && p->set.window < i->layout.frames_per_chunk + p->set.sink)
        return kvr_yaml_fail(
            p->model->at,
            "window %d: trace '%s' needs a window of at least %d frames (the sink and one chunk)",
            p->set.window, p->prompt->id, i->layout.frames_per_chunk + p->set.sink);
    if (strcmp(p->set.forcing, kvr_forcing_names[KVR_FORCING_TEACHER]) != 0)
        snprintf(why, n, "forcing %s: a trace always reads the recorded chunks; omit forcing",
                 p->set.forcing);
    else if (strcmp(p->set.schedule, "model") != 0 || strcmp(p->set.sampler, "model") != 0 ||
             p->set.model_steps)
        snprintf(why, n,
                 "schedule %s, sampler %s, model_steps %d: a trace replays recorded forward "
                 "passes; omit all three",
                 p->set.schedule, p->set.sampler, p->set.model_steps);
    else if (strcmp(p->set.on_switch, "keep") != 0 || p->set.shot_offset >= 0)
        snprintf(why, n, "on_switch %s, shot_offset %d: a trace has no shots; omit both",
                 p->set.on_switch, p->set.shot_offset);
    else if (strcmp(p->set.decoder, "vae") != 0)
        snprintf(why, n, "decoder %s: a trace has no latents to decode; omit decoder",
                 p->set.decoder);
    else if (strcmp(p->set.decoder_compute, "f32") != 0 || p->set.overlap_decode)
        snprintf(
            why, n,
            "decoder_compute %s, overlap_decode %s: a trace has no latents to decode; omit both",
            p->set.decoder_compute, p->set.overlap_decode ? "true" : "false");
    else if (strcmp(p->set.compute, "f32") != 0)
        snprintf(why, n, "compute %s: a trace has no linear layers; omit compute", p->set.compute);
    else if (p->set.jitter)
        snprintf(why, n, "jitter %d: a trace has no noise; omit jitter", p->set.jitter);
    else if (strcmp(p->set.device, "cpu") != 0 &&
             (i->layout.causal || i->layout.n_kv_heads != i->layout.n_heads))
        snprintf(why, n,
                 "device %s: the trace has grouped-query attention (GQA) or causal chunks, for "
                 "which only device cpu has kernels; use device cpu",
                 p->set.device);
    return KVR_OK;
}

/* Checks the shots (scenes with their own text) of a prompt. The embeddings of a prompt with
 * several shots must be one per shot, or none. Models with a vocabulary are skipped, because they
 * check the shots themselves. */
static enum kvr_status check_shots(const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;
    struct kvr_shot_line shots;
    enum kvr_status st;

    if (c->n_vocabulary)
        return KVR_OK;
    st = kvr_shot_line_parse(p->prompt->text, p->set.frames / c->frames_per_chunk, &shots);
    if (st != KVR_OK)
        return kvr_yaml_fail_from(p->prompt->at, kvr_fail_prefix(st, "prompt '%s'", p->prompt->id));
    if (shots.n > 1 && p->prompt->embedding && !p->prompt->embedding->next) {
        kvr_shot_line_free(&shots);
        return kvr_yaml_fail(
            p->prompt->at,
            "prompt '%s': one embedding was given for %d shots; give every shot its own embedding, "
            "or give none, so that the model's text encoder computes them",
            p->prompt->id, shots.n);
    }
    kvr_shot_line_free(&shots);
    return KVR_OK;
}

/* Fails if a trace or a language model is combined with settings that only video rollouts have. */
static enum kvr_status check_no_video(const struct kvr_sweep *s, const struct point *p)
{
    const char *kind = p->model->trace ? "is a trace" : "is a language model";

    if (p->set.abba)
        return kvr_yaml_fail(s->config->values[KVR_SET_abba].at[0],
                             "abba %d: needs a video model, but '%s' %s; omit abba", p->set.abba,
                             p->model->name, kind);
    if (p->set.fps)
        return kvr_yaml_fail(s->config->values[KVR_SET_fps].at[0],
                             "fps true: needs a video model, but '%s' %s; omit fps", p->model->name,
                             kind);
    return KVR_OK;
}

/* Checks chunks, schedule and sampler of a video model. */
static enum kvr_status check_steps(const struct kvr_sweep *s, const struct point *p)
{
    const struct kvr_model_config *c = p->facts->config;
    const struct kvr_setting_values *frames = &s->config->values[KVR_SET_frames];
    const struct kvr_yaml_node *at =
        frames->n ? frames->at[p->index[KVR_SET_frames]] : p->model->at;
    enum kvr_status st;

    if (p->set.chunk)
        return kvr_yaml_fail(at, "chunk %d: model %s has fixed chunks of %d frames; remove 'chunk'",
                             p->set.chunk, p->model->name, c->frames_per_chunk);
    if (p->set.frames % c->frames_per_chunk != 0)
        return kvr_yaml_fail(at,
                             "frames: %d must be a multiple of %d (frames per chunk of model %s)",
                             p->set.frames, c->frames_per_chunk, p->model->name);
    if (p->set.model_steps &&
        (strcmp(p->set.schedule, "model") != 0 || strcmp(p->set.sampler, "model") != 0))
        return kvr_yaml_fail(s->config->values[KVR_SET_model_steps].at[0],
                             "model_steps %d: cannot be combined with schedule %s or sampler %s, "
                             "which already set the steps",
                             p->set.model_steps, p->set.schedule, p->set.sampler);
    if (strcmp(p->set.sampler, "model") != 0) {
        struct kvr_model_config chosen = *c;

        st = kvr_schedule_choose(&chosen, p->set.schedule);
        if (st == KVR_OK)
            st = kvr_sampler_choose(&chosen, p->set.sampler);
        KVR_TRY(kvr_yaml_fail_from(s->config->values[KVR_SET_sampler].at[0], st));
    }
    return KVR_OK;
}

enum kvr_status kvr_point_check(const struct kvr_sweep *s, const struct point *p, char *why,
                                size_t n)
{
    const struct kvr_model_config *c = p->facts->config;
    struct kvr_prompt parsed;
    enum kvr_status st;

    why[0] = 0;
    if (p->model->trace || c->is_lm) {
        KVR_TRY(check_no_video(s, p));
        return p->model->trace ? check_trace(s, p, why, n) : check_text(p, why, n);
    }
    KVR_TRY(check_steps(s, p));
    KVR_TRY(check_shots(p));
    KVR_TRY(check_truth(p));
    if (p->prompt->truth && !c->latent_is_rgb) {
        snprintf(why, n,
                 "model %s cannot continue a recorded clip (key 'truth'), because kvreel cannot "
                 "encode frames into this model's latents",
                 p->model->name);
        return KVR_OK;
    }
    KVR_TRY(check_image(p, why, n));
    if (why[0])
        return KVR_OK;
    KVR_TRY(check_embedding(p));
    if (c->random_weights || p->prompt->embedding || kvr_point_encodes(p))
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
