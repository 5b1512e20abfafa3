/* sampler.c - denoises chunks. Each chunk is denoised in a few steps. A step predicts x0, and then
 * computes the next sample by adding noise to x0 or by UniPC. A cache-update pass then writes the
 * chunk's K and V to the cache. */
#include "harness/engine/sampler.h"

#include <math.h>

#include "harness/device/phase.h"
#include "harness/engine/unipc.h"

struct run {
    struct kvr_dit *d;
    struct kvr_dev *dev;
    const struct kvr_ops *ops;
    struct kvr_cache *cache;
    const struct kvr_model_config *c;
    struct kvr_schedule schedule;
    kvr_noise_fn *noise;
    void *noise_ctx;
    const struct kvr_sample_hooks *hooks;
    int64_t frame_elems, n;    /* latent values per frame and per chunk */
    float *x, *x0, *out, *eps; /* sample, predicted x0, flow and noise [n], in device memory */
    struct kvr_unipc unipc;
    /* State of UniPC. `from` is the sample from which UniPC's predictor computed the sample x. m
     * has x0 of the chunk's last three steps, newest first. */
    float *from, *m[3];
    float *first;   /* given first frame of the video [frame_elems], or NULL if it is generated */
    int32_t *flag;  /* nonzero if a value of x0 is not finite, in device memory */
    float *history; /* latents of all finished chunks [chunks, n] in host memory, or NULL */
    float *host;    /* host copy of x0 or of noise [n], or NULL if the device is the CPU */
};

static enum kvr_status forward(struct run *r, const struct kvr_pass *pass, const float *x, float t,
                               float *out)
{
    float times[64]; /* timestep of each frame; a chunk has at most 64 frames */

    for (int f = 0; f < pass->n_frames; f++)
        times[f] = t;
    if (r->first && pass->chunk == 0)
        times[0] = 0;
    KVR_TRY(kvr_cache_begin_pass(r->cache, pass));
    KVR_TRY(kvr_dit_forward(r->d, r->cache, x, times, pass, out));
    return kvr_cache_end_pass(r->cache);
}

/* Returns x0 in host memory. On a GPU the function synchronizes with the device. */
static enum kvr_status host_x0(const struct run *r, const float **x0)
{
    *x0 = r->x0;
    if (!r->host)
        return KVR_OK;
    *x0 = r->host;
    KVR_TRY(kvr_dev_sync(r->dev));
    return kvr_dev_get(r->dev, r->host, r->x0, (size_t)r->n * sizeof *r->host);
}

/* Copies `from` on the host to `to` on the device, unless they are the same buffer. */
static enum kvr_status hand_over(const struct run *r, float *to, const float *from)
{
    return from == to ? KVR_OK : kvr_dev_put(r->dev, to, from, (size_t)r->n * sizeof *to);
}

static enum kvr_status draw_here(const struct run *r, const struct kvr_pass *pass, int step,
                                 float *to)
{
    struct kvr_phases *p = r->hooks ? r->hooks->noise_time : NULL;
    enum kvr_status st;

    kvr_phase_begin(p, 0);
    st = kvr_noise_to(r->dev, r->noise_ctx, pass->chunk, step, pass->frame0, pass->n_frames,
                      r->frame_elems, to);
    kvr_phase_end(p, 0);
    return st;
}

static enum kvr_status draw(const struct run *r, const struct kvr_pass *pass, int step, float *to)
{
    float *at = r->host ? r->host : to;

    if (!r->noise)
        return draw_here(r, pass, step, to);
    KVR_TRY(r->noise(r->noise_ctx, pass->chunk, step, pass->frame0, pass->n_frames, r->frame_elems,
                     at));
    return hand_over(r, to, at);
}

static enum kvr_status check_finite(const struct run *r, const struct kvr_pass *pass)
{
    const float *x0;
    int32_t bad;
    int64_t i = 0;

    r->ops->not_finite(r->dev, r->n, r->x0, r->flag);
    KVR_TRY(kvr_dev_sync(r->dev));
    KVR_TRY(kvr_dev_get(r->dev, &bad, r->flag, sizeof bad));
    if (!bad)
        return KVR_OK;
    KVR_TRY(host_x0(r, &x0));
    while (i + 1 < r->n && isfinite(x0[i]))
        i++;
    return kvr_fail(KVR_ENAN,
                    "sampler: chunk %d step %d: frame %lld: the network's output is not finite "
                    "(%g at element %lld of the frame)",
                    pass->chunk, pass->index, (long long)(pass->frame0 + i / r->frame_elems),
                    (double)x0[i], (long long)(i % r->frame_elems));
}

static enum kvr_status show_step(const struct run *r, const struct kvr_pass *pass)
{
    const float *x0;

    if (!r->hooks || !r->hooks->step)
        return KVR_OK;
    KVR_TRY(host_x0(r, &x0));
    return r->hooks->step(r->hooks->ctx, pass->chunk, pass->index, x0, pass->n_frames);
}

/* Reads into `to` the teacher's x0 of this step, which replaces the predicted x0 (forcing). */
static enum kvr_status take_forced(struct run *r, const struct kvr_pass *pass, int step, float *to)
{
    float *at = r->host ? r->host : to;

    KVR_TRY(r->hooks->forced(r->hooks->ctx, pass->chunk, step, pass->n_frames, at));
    return hand_over(r, to, at);
}

/* Computes the sample of the next step, (1 - sigma) x0 + sigma eps, with new noise eps. If
 * `forced`, x0 is the teacher's x0. */
static enum kvr_status renoise(struct run *r, const struct kvr_pass *pass, bool forced)
{
    const int step = pass->index;

    KVR_TRY(draw(r, pass, step, r->eps));
    if (forced)
        /* r->out is free: x0 has already been computed from the flow in it */
        KVR_TRY(take_forced(r, pass, step, r->out));
    r->ops->renoise(r->dev, r->n, forced ? r->out : r->x0, r->eps, r->schedule.renoise[step + 1],
                    r->x);
    return KVR_OK;
}

static void blend(const struct run *r, const struct kvr_unipc_weights *w, const float *x,
                  float *out)
{
    const double c[] = { w->x, w->now, w->before, w->before_2 };
    const float *const all[] = { x, r->m[0], r->m[1], r->m[2] };
    struct kvr_blend b = { 0 };

    for (int i = 0; i < KVR_BLEND_MAX; i++)
        if (c[i] != 0) {
            b.c[b.n] = c[i];
            b.x[b.n++] = all[i];
        }
    r->ops->blend(r->dev, r->n, &b, out);
}

/* Computes the next step's sample by UniPC from x0 of this step and of earlier steps, without
 * noise. */
static enum kvr_status integrate(struct run *r, const struct kvr_pass *pass, bool forced)
{
    struct kvr_unipc_weights w;
    float *oldest = r->m[2];

    r->m[2] = r->m[1];
    r->m[1] = r->m[0];
    r->m[0] = oldest;
    if (forced)
        KVR_TRY(take_forced(r, pass, pass->index, r->m[0]));
    else
        kvr_dev_copy(r->dev, r->m[0], r->x0, (size_t)r->n * sizeof *r->x0);
    if (pass->index > 0) {
        w = kvr_unipc_correct(&r->unipc, pass->index);
        blend(r, &w, r->from, r->from);
    } else {
        kvr_dev_copy(r->dev, r->from, r->x, (size_t)r->n * sizeof *r->x);
    }
    w = kvr_unipc_predict(&r->unipc, pass->index);
    blend(r, &w, r->from, r->x);
    return KVR_OK;
}

/* Replaces frame 0 of the video's first chunk x by the given frame. */
static void put_first(const struct run *r, const struct kvr_pass *pass, float *x)
{
    if (r->first && pass->chunk == 0)
        kvr_dev_copy(r->dev, x, r->first, (size_t)r->frame_elems * sizeof *x);
}

static enum kvr_status denoise_step(struct run *r, struct kvr_pass *pass)
{
    const struct kvr_schedule *s = &r->schedule;
    const int step = pass->index;
    const bool forced = r->hooks && r->hooks->forced && r->hooks->every_step;
    const bool last = step == s->n_steps - 1;

    put_first(r, pass, r->x);
    KVR_TRY(forward(r, pass, r->x, s->timestep[step], r->out));
    if (r->c->prediction == KVR_PREDICT_FLOW)
        r->ops->x0_from_flow(r->dev, r->n, r->x, r->out, s->sigma[step], r->x0);
    else
        kvr_dev_copy(r->dev, r->x0, r->out, (size_t)r->n * sizeof *r->x0);
    put_first(r, pass, r->x0);
    KVR_TRY(check_finite(r, pass));
    if (last && r->c->latent_is_rgb)
        r->ops->clamp(r->dev, r->n, r->c->latent_lo, r->c->latent_hi, r->x0);
    KVR_TRY(show_step(r, pass));
    if (last)
        return KVR_OK;
    return r->c->sampler == KVR_SAMPLER_UNIPC ? integrate(r, pass, forced)
                                              : renoise(r, pass, forced);
}

static bool last_step_stays(const struct run *r)
{
    return r->hooks && r->hooks->last_step;
}

static enum kvr_status denoise(struct run *r, struct kvr_pass *pass)
{
    KVR_TRY(draw(r, pass, -1, r->x));
    for (pass->index = 0; pass->index < r->schedule.n_steps; pass->index++) {
        pass->clean = last_step_stays(r) && pass->index == r->schedule.n_steps - 1;
        KVR_TRY(denoise_step(r, pass));
    }
    return KVR_OK;
}

static enum kvr_status take_given(struct run *r, const struct kvr_pass *pass)
{
    float *at = r->host ? r->host : r->x0;

    KVR_TRY(r->hooks->given(r->hooks->ctx, pass->frame0, pass->n_frames, at));
    return hand_over(r, r->x0, at);
}

/* Runs the cache-update pass over the chunk x, which writes its keys and values to the cache. */
static enum kvr_status clean_pass(struct run *r, struct kvr_pass *pass, const float *x)
{
    pass->index = r->schedule.n_steps;
    pass->clean = true;
    return forward(r, pass, x, (float)r->c->context_timestep, r->out);
}

/* ---- shots ------------------------------------------------------------------------------ */

const char *const kvr_switch_names[] = { "keep", "recache", "reset", NULL };

static int shot_of(const struct run *r, int chunk)
{
    return r->hooks && r->hooks->shots.of_chunk ? r->hooks->shots.of_chunk[chunk] : 0;
}

static struct kvr_pass pass_of(const struct run *r, int chunk)
{
    const int shot = shot_of(r, chunk);

    return (struct kvr_pass){ .chunk = chunk,
                              .frame0 = chunk * r->c->frames_per_chunk,
                              .n_frames = r->c->frames_per_chunk,
                              .cut = chunk > 0 && shot != shot_of(r, chunk - 1),
                              .shift = shot ? shot * r->hooks->shots.offset : 0 };
}

static bool recaches(const struct run *r)
{
    return r->hooks && r->hooks->shots.of_chunk && r->hooks->shots.on_switch == KVR_SWITCH_RECACHE;
}

/* Clears the cache, and runs the cache-update pass with the current prompt for each earlier chunk
 * that is in the window of `chunk`. */
static enum kvr_status recache(struct run *r, int chunk)
{
    const int n = r->c->frames_per_chunk;

    KVR_TRY(kvr_cache_drop(r->cache, 0));
    for (int i = 0; i < chunk; i++) {
        struct kvr_pass pass = pass_of(r, i);

        if (!kvr_cache_in_window(r->cache, pass.frame0, n, chunk * n))
            continue;
        KVR_TRY(hand_over(r, r->x, r->history + i * r->n));
        KVR_TRY(clean_pass(r, &pass, r->x));
    }
    return KVR_OK;
}

static enum kvr_status cut_to(struct run *r, int chunk)
{
    switch (r->hooks->shots.on_switch) {
    case KVR_SWITCH_RECACHE:
        return recache(r, chunk);
    case KVR_SWITCH_RESET:
        return kvr_cache_drop(r->cache, r->hooks->shots.sink_frames);
    default:
        return KVR_OK;
    }
}

static enum kvr_status sample_chunk(struct run *r, int chunk)
{
    struct kvr_pass pass = pass_of(r, chunk);
    const bool given = r->hooks && pass.frame0 < r->hooks->n_given;
    const float *committed = r->x0, *x0;

    if (r->hooks && r->hooks->chunk_begin)
        KVR_TRY(r->hooks->chunk_begin(r->hooks->ctx, chunk));
    if (pass.cut)
        KVR_TRY(cut_to(r, chunk));
    if (given)
        KVR_TRY(take_given(r, &pass));
    else
        KVR_TRY(denoise(r, &pass));
    if (r->hooks && r->hooks->forced && !given && !r->hooks->last_step) {
        committed = r->x; /* the sample in r->x is no longer needed */
        KVR_TRY(take_forced(r, &pass, r->schedule.n_steps - 1, r->x));
    }
    if (given || !last_step_stays(r))
        KVR_TRY(clean_pass(r, &pass, committed));
    if (r->history) {
        KVR_TRY(kvr_dev_sync(r->dev));
        KVR_TRY(kvr_dev_get(r->dev, r->history + chunk * r->n, committed,
                            (size_t)r->n * sizeof *committed));
    }
    if (!r->hooks || !r->hooks->chunk_end)
        return KVR_OK;
    KVR_TRY(host_x0(r, &x0));
    return r->hooks->chunk_end(r->hooks->ctx, chunk, pass.frame0, pass.n_frames, x0);
}

static enum kvr_status open_run(struct run *r, int n_chunks, struct kvr_buf *buf,
                                struct kvr_buf *host, struct kvr_buf *history)
{
    const bool solves = r->c->sampler == KVR_SAMPLER_UNIPC;
    const size_t n_bytes = (size_t)r->n * sizeof(float);
    float **const all[] = {
        &r->x, &r->x0, &r->out, &r->eps, &r->from, &r->m[0], &r->m[1], &r->m[2]
    };
    const size_t n_arrays = solves ? 8 : 4;
    const float *first = r->hooks ? r->hooks->first : NULL;
    const size_t n_first = first ? (size_t)r->frame_elems * sizeof *first : 0;

    KVR_TRY(
        kvr_buf_alloc(buf, r->dev, KVR_MEM_ACT, n_arrays * n_bytes + n_first + sizeof *r->flag));
    for (size_t i = 0; i < n_arrays; i++)
        *all[i] = (float *)buf->p + (int64_t)i * r->n;
    r->first = first ? (float *)buf->p + (int64_t)n_arrays * r->n : NULL;
    r->flag = (void *)((char *)buf->p + n_arrays * n_bytes + n_first);
    if (first)
        KVR_TRY(kvr_dev_put(r->dev, r->first, first, n_first));
    if (!kvr_dev_in_host(r->dev))
        KVR_TRY(kvr_buf_alloc(host, kvr_dev_host(r->dev), KVR_MEM_IO, n_bytes));
    r->host = host->p;
    if (recaches(r))
        KVR_TRY(
            kvr_buf_alloc(history, kvr_dev_host(r->dev), KVR_MEM_IO, (size_t)n_chunks * n_bytes));
    r->history = history->p;
    return KVR_OK;
}

static enum kvr_status sample(struct run *r, int n_chunks, float *latents)
{
    const size_t n_bytes = (size_t)r->n * sizeof *latents;

    kvr_cache_reset(r->cache);
    for (int chunk = 0; chunk < n_chunks; chunk++) {
        KVR_TRY(sample_chunk(r, chunk));
        if (latents)
            KVR_TRY(kvr_dev_get(r->dev, latents + chunk * r->n, r->x0, n_bytes));
    }
    return kvr_dev_sync(r->dev);
}

enum kvr_status kvr_sample(struct kvr_dit *d, struct kvr_cache *cache, int n_frames,
                           kvr_noise_fn *noise, void *noise_ctx,
                           const struct kvr_sample_hooks *hooks, float *latents)
{
    const struct kvr_model *m = kvr_dit_model(d);
    struct run r = { .d = d,
                     .dev = kvr_dit_dev(d),
                     .ops = kvr_ops_of(kvr_dit_dev(d)),
                     .cache = cache,
                     .c = kvr_model_config(m),
                     .noise = noise,
                     .noise_ctx = noise_ctx,
                     .hooks = hooks,
                     .frame_elems = kvr_model_frame_elems(m) };
    struct kvr_buf buf = { 0 }, host = { 0 }, history = { 0 };
    enum kvr_status st;

    if (n_frames < 1 || n_frames % r.c->frames_per_chunk)
        return kvr_fail(KVR_EINVAL,
                        "sampler: %d frames were requested, need a multiple of %d (one chunk)",
                        n_frames, r.c->frames_per_chunk);
    if (hooks &&
        (hooks->n_given < 0 || hooks->n_given > n_frames || hooks->n_given % r.c->frames_per_chunk))
        return kvr_fail(KVR_EINVAL,
                        "sampler: %d of %d frames are given; the number of given frames must be "
                        "a multiple of %d (one chunk)",
                        hooks->n_given, n_frames, r.c->frames_per_chunk);
    if (hooks && hooks->first && hooks->n_given)
        return kvr_fail(KVR_EINVAL,
                        "sampler: a first frame (an image) and %d given frames were passed; use "
                        "only one of the two",
                        hooks->n_given);
    r.n = r.frame_elems * r.c->frames_per_chunk;
    kvr_schedule_make(&r.schedule, r.c);
    if (r.c->sampler == KVR_SAMPLER_UNIPC)
        kvr_unipc_make(&r.unipc, r.c->n_steps, r.c->timestep_shift);
    if (r.c->rounded_timesteps && kvr_model_compute(m) == KVR_BF16)
        kvr_schedule_round(&r.schedule);
    st = open_run(&r, n_frames / r.c->frames_per_chunk, &buf, &host, &history);
    if (st == KVR_OK)
        st = sample(&r, n_frames / r.c->frames_per_chunk, latents);
    kvr_buf_free(&history);
    kvr_buf_free(&host);
    kvr_buf_free(&buf);
    return st;
}
