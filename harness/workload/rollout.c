/* rollout.c - generates a video chunk by chunk with a KV cache.
 *
 * In models whose latents are RGB pixels, a latent x becomes the byte
 * floor(255 clamp((x - lo) / (hi - lo))), truncated as in the reference code. A byte of a given
 * video becomes the latent in the middle of the byte's interval, so that the conversion back gives
 * the same byte. */
#include "harness/core/clock.h"
#include "harness/device/phase.h"
#include "harness/workload/prompt.h"
#include "harness/workload/salience.h"
#include "harness/workload/shots.h"
#include "harness/workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const kvr_forcing_names[] = { "none", "teacher", "step", NULL };

struct rollout {
    const struct kvr_rollout_request *req;
    const struct kvr_model_config *config;
    struct kvr_dev *dev;
    struct kvr_dit *dit;
    struct kvr_cache *cache;
    struct kvr_prompt prompt; /* prompt in words of the vocabulary: an act (parsed text) per shot */
    struct kvr_shot_line line; /* any other prompt: the shots and their first chunks */
    int *shot;                 /* [n_chunks]: index of the shot */
    struct kvr_buf embedding; /* [text_len, text_dim] F32 in host memory: the current shot's text */
    struct kvr_rollout_result *out;
    kvr_progress_fn *progress;
    void *progress_ctx;
    int64_t t0_ns;
    int n_chunks, capacity, act;
    float *steps; /* clean latents x0 predicted in every step, for a teacher; NULL: not stored */
    float *oracle_scores; /* token salience for a non-causal method; NULL: causal method */
    bool last_step; /* commit=last_step: only chunks of a given video have a cache-update pass */
    /* Comparison of predicted latents x with the teacher's latents r: sums of |x - r|^2 and |r|^2,
     * over this chunk and over all chunks. */
    double chunk_off2, chunk_ref2, off2, ref2;
    struct kvr_cache_times cache_times; /* cumulative times at the end of the last pass */
    struct kvr_dit_times dit_times;
};

/* Stores in p how long each phase (encode, decode, attend, linear layers) took since the previous
 * pass. */
static enum kvr_status record_phases(struct rollout *r, struct kvr_pass_record *p)
{
    const struct kvr_cache_times c = r->cache_times;
    const struct kvr_dit_times d = r->dit_times;

    KVR_TRY(kvr_cache_times(r->cache, &r->cache_times));
    KVR_TRY(kvr_dit_times(r->dit, &r->dit_times));
    p->cache = (struct kvr_cache_times){
        .encode_ns = r->cache_times.encode_ns - c.encode_ns,
        .decode_ns = r->cache_times.decode_ns - c.decode_ns,
        .attend_ns = r->cache_times.attend_ns - c.attend_ns,
    };
    p->dit = (struct kvr_dit_times){
        .linear_ns = r->dit_times.linear_ns - d.linear_ns,
        .cross_ns = r->dit_times.cross_ns - d.cross_ns,
        .other_ns = r->dit_times.other_ns - d.other_ns,
        .graph_ns = r->dit_times.graph_ns - d.graph_ns,
    };
    return KVR_OK;
}

static enum kvr_status record_pass(struct rollout *r, int chunk, int index)
{
    struct kvr_rollout_result *out = r->out;
    struct kvr_pass_record *p;
    struct kvr_mem_stats mem;

    if (out->n_passes == r->capacity) /* does not occur: the array has an element for every pass */
        return KVR_OK;
    p = &out->pass[out->n_passes++];
    kvr_mem_stats(r->dev, &mem);
    p->chunk = chunk;
    p->index = index;
    p->t_ns = kvr_now_ns() - r->t0_ns;
    p->live_total = mem.live_total;
    memcpy(p->live, mem.live, sizeof p->live);
    kvr_cache_bytes(r->cache, &p->bytes);
    return r->req->phases ? record_phases(r, p) : KVR_OK;
}

/* Embeds a shot's prompt. */
static enum kvr_status embed_shot(struct rollout *r, int shot)
{
    const int64_t n = (int64_t)r->config->text_len * r->config->text_dim;

    if (r->req->embedding) {
        memcpy(r->embedding.p, r->req->embedding + (r->req->n_embeddings > 1 ? shot * n : 0),
               r->embedding.n_bytes);
        return KVR_OK;
    }
    if (r->config->random_weights)
        return kvr_model_draw_prompt(r->req->model, r->line.shot[shot].text, r->embedding.p);
    return kvr_model_embed(r->req->model, r->prompt.act[shot].ids, KVR_PROMPT_SLOTS,
                           r->embedding.p);
}

static enum kvr_status begin_chunk(void *ctx, int chunk)
{
    struct rollout *r = ctx;

    if (r->shot[chunk] == r->act)
        return KVR_OK;
    KVR_TRY(embed_shot(r, r->shot[chunk]));
    KVR_TRY(kvr_dit_set_prompt(r->dit, r->embedding.p));
    r->act = r->shot[chunk];
    return KVR_OK;
}

/* Finds the shot of each chunk. */
static enum kvr_status find_shots(struct rollout *r)
{
    const bool grammar = !r->config->random_weights && !r->req->embedding;

    r->shot = calloc((size_t)r->n_chunks, sizeof *r->shot);
    if (!r->shot)
        return kvr_fail(KVR_ENOMEM, "rollout: out of memory while allocating %d chunks",
                        r->n_chunks);
    if (grammar)
        KVR_TRY(kvr_prompt_parse(r->config, r->req->prompt, r->n_chunks, &r->prompt));
    else
        KVR_TRY(kvr_shot_line_parse(r->req->prompt ? r->req->prompt : "", r->n_chunks, &r->line));
    if (r->req->embedding && r->line.n > 1 && r->req->n_embeddings != r->line.n)
        return kvr_fail(KVR_EINVAL,
                        "rollout: the prompt has %d shots, but %d embeddings were given: need one "
                        "embedding per shot",
                        r->line.n, r->req->n_embeddings);
    for (int i = 0; i < r->n_chunks; i++)
        r->shot[i] = grammar ? kvr_prompt_act_at(&r->prompt, i) : kvr_shot_at(&r->line, i);
    return KVR_OK;
}

/* Limit on |x0 - m| / w, where x0 is a predicted clean latent, m the middle of the config's
 * latent_range and w its half width. The bundled model stays below 1.5. The input of the next step
 * is (1 - sigma) x0 + sigma eps, with eps of unit variance. Beyond a limit of 100, x0 would hide
 * the noise eps. See docs/measuring.md. */
static const float max_half_widths = 100;

/* Fails with KVR_EDIVERGED if a predicted latent x0 [F, frame_elems] exceeds the limit
 * max_half_widths. The sampler has checked that all values are finite. */
static enum kvr_status check_range(const struct rollout *r, int chunk, int step, const float *x0,
                                   int n_frames)
{
    const struct kvr_model_config *c = r->config;
    const float middle = 0.5f * (c->latent_lo + c->latent_hi);
    const float limit = max_half_widths * 0.5f * (c->latent_hi - c->latent_lo);
    const int64_t n_frame = kvr_model_frame_elems(r->req->model), n = n_frame * n_frames;
    float most = 0;
    int64_t at = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x0[i] - middle));
    if (most <= limit)
        return KVR_OK;
    while (fabsf(x0[at] - middle) < most)
        at++;
    return kvr_fail(KVR_EDIVERGED,
                    "rollout: chunk %d step %d: frame %lld: latent element %lld is %g, need %g..%g",
                    chunk, step, (long long)((int64_t)chunk * c->frames_per_chunk + at / n_frame),
                    (long long)(at % n_frame), (double)x0[at], (double)middle - (double)limit,
                    (double)middle + (double)limit);
}

/* A teacher's array has the predicted latents x0 of every chunk and denoising step. Returns the
 * index at which those of `chunk` and `step` start. */
static size_t place_of_step(const struct rollout *r, int chunk, int step)
{
    const size_t n =
        (size_t)kvr_model_frame_elems(r->req->model) * (size_t)r->config->frames_per_chunk;

    return ((size_t)chunk * (size_t)r->config->n_steps + (size_t)step) * n;
}

/* Adds the squared differences of the predicted latents x0 and the teacher's to the chunk's sums.
 * Without step forcing, only the last step counts. */
static void compare_step(struct rollout *r, int chunk, int step, const float *x0, int n_frames)
{
    const int64_t n = kvr_model_frame_elems(r->req->model) * n_frames;
    const float *ref = r->req->teacher + place_of_step(r, chunk, step);

    if (r->req->forcing != KVR_FORCING_STEP && step < r->config->n_steps - 1)
        return;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x0[i] - (double)ref[i];

        r->chunk_off2 += d * d;
        r->chunk_ref2 += (double)ref[i] * (double)ref[i];
    }
}

static void compare_chunk(struct rollout *r, int chunk)
{
    r->off2 += r->chunk_off2;
    r->ref2 += r->chunk_ref2;
    r->out->chunk_error[chunk] = sqrt(r->chunk_off2 / r->chunk_ref2);
    r->out->latent_error = sqrt(r->off2 / r->ref2);
    r->chunk_off2 = r->chunk_ref2 = 0;
}

static enum kvr_status after_step(void *ctx, int chunk, int step, const float *x0, int n_frames)
{
    struct rollout *r = ctx;

    KVR_TRY(record_pass(r, chunk, step));
    if (r->req->teacher)
        compare_step(r, chunk, step, x0, n_frames);
    if (r->steps)
        memcpy(r->steps + place_of_step(r, chunk, step), x0,
               (size_t)kvr_model_frame_elems(r->req->model) * (size_t)n_frames * sizeof *x0);
    return check_range(r, chunk, step, x0, n_frames);
}

/* Converts latents x [F,3,H,W] to bytes rgb [F,H,W,3]. Returns the first frame with a NaN or
 * infinite value; -1: none. */
static int to_rgb(uint8_t *rgb, const float *x, int n_frames, int n_pixels, float lo, float hi)
{
    int bad = -1;

    for (int f = 0; f < n_frames; f++)
        for (int i = 0; i < n_pixels; i++)
            for (int c = 0; c < 3; c++) {
                float v = (x[((size_t)f * 3 + (size_t)c) * (size_t)n_pixels + (size_t)i] - lo) /
                          (hi - lo);

                if (bad < 0 && !isfinite(v))
                    bad = f;
                v = v > 0.0f ? v : 0.0f; /* NaN becomes 0 */
                v = v < 1.0f ? v : 1.0f;
                rgb[((size_t)f * (size_t)n_pixels + (size_t)i) * 3 + (size_t)c] =
                    (uint8_t)(255.0f * v);
            }
    return bad;
}

/* Returns the latent of a byte: the middle of [b, b + 1) / 255 scaled to [lo, hi]. Only the value 1
 * gives byte 255, so its latent is hi. */
static float latent_of(uint8_t b, float lo, float hi)
{
    return b == 255 ? hi : lo + (hi - lo) * ((float)b + 0.5f) / 255.0f;
}

static enum kvr_status given_chunk(void *ctx, int frame0, int n_frames, float *x0)
{
    const struct rollout *r = ctx;
    const struct kvr_model_config *c = r->config;
    const int64_t n_pixels = (int64_t)c->latent_h * c->latent_w;
    const uint8_t *rgb = r->req->given + frame0 * n_pixels * 3;

    for (int64_t f = 0; f < n_frames; f++)
        for (int64_t i = 0; i < n_pixels; i++)
            for (int64_t k = 0; k < 3; k++)
                x0[(f * 3 + k) * n_pixels + i] =
                    latent_of(rgb[(f * n_pixels + i) * 3 + k], c->latent_lo, c->latent_hi);
    return KVR_OK;
}

static enum kvr_status forced_step(void *ctx, int chunk, int step, int n_frames, float *x0)
{
    const struct rollout *r = ctx;

    memcpy(x0, r->req->teacher + place_of_step(r, chunk, step),
           (size_t)kvr_model_frame_elems(r->req->model) * (size_t)n_frames * sizeof *x0);
    return KVR_OK;
}

static enum kvr_status end_chunk(void *ctx, int chunk, int frame0, int n_frames, const float *x0)
{
    struct rollout *r = ctx;
    const struct kvr_model_config *c = r->config;
    int n_pixels = c->latent_h * c->latent_w, bad = -1;

    if (!r->last_step || frame0 < r->req->n_given)
        KVR_TRY(record_pass(r, chunk, c->n_steps));
    if (r->req->teacher && frame0 >= r->req->n_given)
        compare_chunk(r, chunk);
    if (c->latent_is_rgb)
        bad = to_rgb(r->out->rgb + (size_t)frame0 * (size_t)n_pixels * 3, x0, n_frames, n_pixels,
                     c->latent_lo, c->latent_hi);
    if (bad >= 0) {
        r->out->finite = false;
        return kvr_fail(KVR_ENAN,
                        "rollout: chunk %d: frame %d: a generated latent is NaN or infinite", chunk,
                        frame0 + bad);
    }
    if (r->req->chunk)
        KVR_TRY(r->req->chunk(r->req->chunk_ctx, frame0, n_frames, x0));
    if (r->progress && r->progress(r->progress_ctx, chunk + 1, r->n_chunks))
        return kvr_fail(KVR_EINTERRUPTED, "rollout: stopped by the user after chunk %d of %d",
                        chunk + 1, r->n_chunks);
    return KVR_OK;
}

static enum kvr_status check_request(const struct kvr_rollout_request *req,
                                     const struct kvr_model_config *c, bool last_step)
{
    if (req->latent_frames < 1 || req->latent_frames % c->frames_per_chunk != 0)
        return kvr_fail(
            KVR_EINVAL,
            "rollout: %d latent frames requested, need a positive multiple of %d (one chunk)",
            req->latent_frames, c->frames_per_chunk);
    if (req->window_frames < 0 || req->sink_frames < 0)
        return kvr_fail(KVR_EINVAL,
                        "rollout: window is %d latent frames, sink is %d latent frames: neither "
                        "may be negative",
                        req->window_frames, req->sink_frames);
    if (req->n_given < 0 || req->n_given >= req->latent_frames ||
        req->n_given % c->frames_per_chunk != 0)
        return kvr_fail(KVR_EINVAL,
                        "rollout: %d of the %d requested frames are given; the number of given "
                        "frames must be a multiple of %d (one chunk) in 0..%d",
                        req->n_given, req->latent_frames, c->frames_per_chunk,
                        req->latent_frames - c->frames_per_chunk);
    if (req->n_given > 0 && !req->given)
        return kvr_fail(KVR_EINVAL, "rollout: the pixels of the %d given frames are missing",
                        req->n_given);
    if (req->jitter_draw < 0 || req->jitter_draw > KVR_MAX_DRAW)
        return kvr_fail(KVR_EINVAL,
                        "rollout: jitter %d (number of the rerun with perturbed noise): need 0..%d",
                        req->jitter_draw, KVR_MAX_DRAW);
    if (!(req->jitter_magnitude >= 0 && req->jitter_magnitude <= 1))
        return kvr_fail(KVR_EINVAL,
                        "rollout: jitter: the noise is perturbed by a magnitude of %g, need 0..1",
                        req->jitter_magnitude);
    if ((req->forcing != KVR_FORCING_NONE) != (req->teacher != NULL))
        return kvr_fail(
            KVR_EINVAL,
            "rollout: forcing '%s' was requested %s a teacher rollout; 'teacher' and 'step' need a "
            "teacher rollout, 'none' must have none",
            kvr_forcing_names[req->forcing], req->teacher ? "with" : "without");
    if (req->forcing == KVR_FORCING_TEACHER && last_step)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "rollout: forcing 'teacher' needs a cache-update pass to store the "
                        "teacher's chunks; use forcing 'step' with commit=last_step");
    if (req->n_given > 0 && req->first)
        return kvr_fail(KVR_EINVAL,
                        "rollout: both a first frame (image) and %d given frames were passed; use "
                        "one of the two",
                        req->n_given);
    if (req->n_given > 0 && !c->latent_is_rgb)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "rollout: %d given frames need a model with RGB latents, but this model "
                        "has latents of %d channels",
                        req->n_given, c->in_dim);
    return KVR_OK;
}

static struct kvr_cache_shape cache_shape(const struct kvr_rollout_request *req)
{
    const struct kvr_model_config *c = kvr_model_config(req->model);

    return (struct kvr_cache_shape){
        .n_layers = c->n_layers,
        .n_heads = c->n_heads,
        .head_dim = kvr_model_head_dim(req->model),
        .tokens_per_frame = kvr_model_tokens_per_frame(req->model),
        .frames_per_chunk = c->frames_per_chunk,
        .capacity_frames = req->latent_frames,
        .window_frames = req->window_frames,
        .sink_frames = req->sink_frames,
        .evict = req->evict,
        .exact = req->exact,
        .bf16 = kvr_model_compute(req->model) == KVR_BF16,
        .attend = req->attend,
        .staged_bytes = req->staged_bytes,
    };
}

static enum kvr_status open_cache(struct rollout *r, const struct kvr_scheme *scheme)
{
    const struct kvr_cache_shape shape = cache_shape(r->req);

    KVR_TRY(kvr_cache_open(&r->cache, r->dev, scheme, &shape, r->req->path));
    kvr_cache_observe(r->cache, r->req->observer, r->req->observer_ctx);
    kvr_cache_set_salience(r->cache, r->oracle_scores);
    return KVR_OK;
}

static enum kvr_status prepare(struct rollout *r, const struct kvr_scheme *scheme)
{
    const struct kvr_model_config *c = r->config;
    struct kvr_rollout_result *out = r->out;

    r->n_chunks = r->req->latent_frames / c->frames_per_chunk;
    KVR_TRY(find_shots(r));
    r->capacity = r->n_chunks * (c->n_steps + 1);
    out->pass = calloc((size_t)r->capacity, sizeof *out->pass);
    if (c->latent_is_rgb) {
        out->n = r->req->latent_frames;
        out->height = c->latent_h;
        out->width = c->latent_w;
        out->rgb = calloc((size_t)out->n * (size_t)out->height * (size_t)out->width, 3);
    }
    if (r->req->keep_latents && !c->latent_is_rgb) {
        out->latents = malloc((size_t)r->req->latent_frames *
                              (size_t)kvr_model_frame_elems(r->req->model) * sizeof *out->latents);
        if (!out->latents)
            return kvr_fail(KVR_ENOMEM, "rollout: out of memory while allocating %d frames",
                            r->req->latent_frames);
    }
    if (r->req->teacher) {
        out->n_chunks = r->n_chunks;
        out->chunk_error = malloc((size_t)r->n_chunks * sizeof *out->chunk_error);
        out->latent_error = NAN;
        for (int i = 0; out->chunk_error && i < r->n_chunks; i++)
            out->chunk_error[i] = NAN;
    }
    if (!out->pass || (c->latent_is_rgb && !out->rgb) || (r->req->teacher && !out->chunk_error))
        return kvr_fail(KVR_ENOMEM, "rollout: out of memory while allocating %d frames",
                        r->req->latent_frames);
    kvr_phases_forget(r->dev);
    KVR_TRY(kvr_buf_alloc(&r->embedding, kvr_dev_host(r->dev), KVR_MEM_ACT,
                          (size_t)c->text_len * (size_t)c->text_dim * sizeof(float)));
    KVR_TRY(kvr_dit_open(&r->dit, r->dev, r->req->model));
    kvr_dit_set_graphs(r->dit, r->req->graphs);
    KVR_TRY(kvr_dit_set_reuse(r->dit, scheme->reuses ? &scheme->reuse : NULL));
    return open_cache(r, scheme);
}

/* Generates all chunks. The time for drawing noise between passes is a separate phase. */
static enum kvr_status sample(struct rollout *r, struct kvr_sample_hooks *hooks)
{
    struct kvr_noise noise = { r->req->seed, r->req->jitter_draw, r->req->jitter_magnitude };
    enum kvr_status st;

    KVR_TRY(kvr_phases_open(&hooks->noise_time, r->dev, 1));
    r->t0_ns = kvr_now_ns();
    st = kvr_sample(r->dit, r->cache, r->req->latent_frames, NULL, &noise, hooks, r->out->latents);
    r->out->wall_ns = kvr_now_ns() - r->t0_ns;
    if (st == KVR_OK)
        st = kvr_phases_read(hooks->noise_time, &r->out->noise_ns);
    kvr_phases_close(&hooks->noise_time);
    return st;
}

static enum kvr_status generate(struct rollout *r)
{
    struct kvr_sample_hooks hooks = {
        .ctx = r,
        .shots = { r->shot, r->req->shot_offset, r->req->on_switch, r->req->sink_frames },
        .chunk_begin = begin_chunk,
        .step = after_step,
        .chunk_end = end_chunk,
        .n_given = r->req->n_given,
        .given = given_chunk,
        .first = r->req->first,
        .forced = r->req->teacher ? forced_step : NULL,
        .every_step = r->req->forcing == KVR_FORCING_STEP,
        .last_step = r->last_step,
    };
    struct kvr_rollout_result *out = r->out;
    const enum kvr_status st = sample(r, &hooks);

    kvr_dit_graph_counts(r->dit, &out->graphs);
    kvr_dit_reuse_counts(r->dit, &out->reuse);
    kvr_cache_bytes(r->cache, &out->bytes);
    kvr_mem_stats(r->dev, &out->mem);
    if (st != KVR_OK)
        return st;
    KVR_TRY(kvr_dit_times(r->dit, &out->dit));
    return kvr_cache_times(r->cache, &out->cache);
}

static enum kvr_status run(struct rollout *r, const struct kvr_scheme *scheme)
{
    struct kvr_rollout_result *out = r->out;
    struct kvr_dev *dev = r->dev;
    struct kvr_mem_stats mem;
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    r->act = -1;
    r->config = kvr_model_config(r->req->model);
    r->last_step = scheme->opts.commit == KVR_COMMIT_LAST_STEP;
    KVR_TRY(check_request(r->req, r->config, r->last_step));
    kvr_mem_reset_peak(dev);
    kvr_mem_stats(dev, &mem);
    out->live_at_start = mem.live_total;
    out->finite = true;
    st = prepare(r, scheme);
    if (st == KVR_OK)
        st = generate(r);
    kvr_cache_close(&r->cache);
    kvr_dit_close(&r->dit);
    kvr_buf_free(&r->embedding);
    kvr_shot_line_free(&r->line);
    free(r->shot);
    r->shot = NULL;
    kvr_mem_stats(dev, &mem);
    out->live_at_end = mem.live_total;
    if (st != KVR_OK)
        kvr_rollout_result_free(out);
    return st;
}

struct kvr_rollout_request kvr_rollout_bare(const struct kvr_rollout_request *req)
{
    struct kvr_rollout_request bare = *req;

    bare.keep_latents = false;
    bare.observer = NULL;
    bare.chunk = NULL;
    bare.phases = false;
    return bare;
}

/* Runs the rollout of ctx (struct rollout *) with method BF16. The observer records queries and
 * keys, from which salience.h computes the token salience that a non-causal method needs. */
static enum kvr_status roll_bf16(void *ctx, const struct kvr_scheme *bf16,
                                 kvr_cache_observer_fn *observer, void *observer_ctx)
{
    const struct rollout *r = ctx;
    struct kvr_rollout_request bare = kvr_rollout_bare(r->req);
    struct kvr_rollout_result result;

    bare.forcing = KVR_FORCING_NONE;
    bare.teacher = NULL;
    bare.observer = observer;
    bare.observer_ctx = observer_ctx;
    KVR_TRY(kvr_rollout_run(r->dev, bf16, &bare, NULL, NULL, &result));
    kvr_rollout_result_free(&result);
    return KVR_OK;
}

enum kvr_status kvr_rollout_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                const struct kvr_rollout_request *req, kvr_progress_fn *progress,
                                void *progress_ctx, struct kvr_rollout_result *out)
{
    struct rollout r = {
        .req = req, .dev = dev, .out = out, .progress = progress, .progress_ctx = progress_ctx
    };
    const struct kvr_cache_shape shape = cache_shape(req);
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    KVR_TRY(check_request(req, kvr_model_config(req->model),
                          scheme->opts.commit == KVR_COMMIT_LAST_STEP));
    KVR_TRY(kvr_salience_measure(scheme, &shape, roll_bf16, &r, &r.oracle_scores));
    st = run(&r, scheme);
    free(r.oracle_scores);
    return st;
}

enum kvr_status kvr_rollout_reference(struct kvr_dev *dev, const struct kvr_rollout_request *req,
                                      float **teacher)
{
    const size_t n = (size_t)req->latent_frames * (size_t)kvr_model_frame_elems(req->model) *
                     (size_t)kvr_model_config(req->model)->n_steps;
    struct kvr_rollout_request plain = kvr_rollout_bare(req);
    struct kvr_rollout_result result;
    struct rollout r = { .req = &plain, .dev = dev, .out = &result };
    struct kvr_scheme *scheme = NULL;
    enum kvr_status st;

    *teacher = NULL;
    plain.forcing = KVR_FORCING_NONE;
    plain.teacher = NULL;
    KVR_TRY(check_request(&plain, kvr_model_config(req->model), false));
    r.steps = calloc(n, sizeof *r.steps);
    if (!r.steps)
        return kvr_fail(KVR_ENOMEM,
                        "rollout: out of memory while allocating the reference's %d frames",
                        req->latent_frames);
    st = kvr_scheme_open(&scheme, kvr_reference_method, NULL, 0);
    if (st == KVR_OK)
        st = run(&r, scheme);
    kvr_scheme_close(&scheme);
    if (st != KVR_OK) {
        free(r.steps);
        return st;
    }
    kvr_rollout_result_free(&result);
    *teacher = r.steps;
    return KVR_OK;
}

void kvr_rollout_result_free(struct kvr_rollout_result *r)
{
    free(r->rgb);
    free(r->latents);
    free(r->pass);
    free(r->chunk_error);
    memset(r, 0, sizeof *r);
}
