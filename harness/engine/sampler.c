/* sampler.c - noise to clean chunks: a few steps of x0, re-noised in between, then the pass that
 * leaves the cache. */
#include "harness/engine/sampler.h"

#include <math.h>
#include <string.h>

#include "harness/core/rng.h"

struct run {
    struct kvr_dit *d;
    struct kvr_cache *cache;
    const struct kvr_model_config *c;
    struct kvr_schedule schedule;
    kvr_noise_fn *noise;
    void *noise_ctx;
    const struct kvr_sample_hooks *hooks;
    int64_t frame_elems, n; /* values of a frame, of a chunk */
    float *x, *x0, *out, *eps;
};

enum kvr_status kvr_noise_philox(void *ctx, int chunk, int step, int frame0, int n_frames,
                                 int64_t frame_elems, float *dst)
{
    const uint64_t seed = *(const uint64_t *)ctx;

    for (int f = 0; f < n_frames; f++) {
        float *to = dst + f * frame_elems;

        if (step < 0)
            kvr_normal(to, (size_t)frame_elems, seed, KVR_RNG_NOISE, (uint32_t)(frame0 + f), 0, 0);
        else
            kvr_normal(to, (size_t)frame_elems, seed, KVR_RNG_RENOISE, (uint32_t)chunk,
                       (uint32_t)step, (uint64_t)(f * frame_elems));
    }
    return KVR_OK;
}

void kvr_x0_from_flow(int64_t n, const float *x, const float *flow, float sigma, float *x0)
{
    for (int64_t i = 0; i < n; i++)
        x0[i] = (float)((double)x[i] - (double)sigma * (double)flow[i]);
}

void kvr_renoise(int64_t n, const float *x0, const float *eps, float sigma, float *x)
{
    const float keep = 1.0f - sigma;

    for (int64_t i = 0; i < n; i++)
        x[i] = keep * x0[i] + sigma * eps[i];
}

static void clamp(int64_t n, float lo, float hi, float *x)
{
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] < lo ? lo : x[i];

        x[i] = v > hi ? hi : v;
    }
}

static bool all_finite(int64_t n, const float *x)
{
    float sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * 0.0f; /* NaN as soon as one value is not finite */
    return sum == 0;
}

static enum kvr_status forward(struct run *r, const struct kvr_pass *pass, const float *x, float t,
                               float *out)
{
    float times[64]; /* frames_per_chunk is at most 64 */

    for (int f = 0; f < pass->n_frames; f++)
        times[f] = t;
    KVR_TRY(kvr_cache_begin_pass(r->cache, pass));
    KVR_TRY(kvr_dit_forward(r->d, r->cache, x, times, pass, out));
    return kvr_cache_end_pass(r->cache);
}

static enum kvr_status not_finite(const struct run *r, const struct kvr_pass *pass)
{
    int64_t i = 0;

    while (i + 1 < r->n && isfinite(r->x0[i]))
        i++;
    return kvr_fail(KVR_ENAN,
                    "sampler: chunk %d step %d: frame %lld: the network's output is not finite "
                    "(%g at value %lld of the frame)",
                    pass->chunk, pass->index, (long long)(pass->frame0 + i / r->frame_elems),
                    (double)r->x0[i], (long long)(i % r->frame_elems));
}

static enum kvr_status denoise_step(struct run *r, struct kvr_pass *pass)
{
    const struct kvr_schedule *s = &r->schedule;
    const int step = pass->index;
    const bool last = step == s->n_steps - 1;

    KVR_TRY(forward(r, pass, r->x, s->timestep[step], r->out));
    if (r->c->prediction == KVR_PREDICT_FLOW)
        kvr_x0_from_flow(r->n, r->x, r->out, s->sigma[step], r->x0);
    else
        memcpy(r->x0, r->out, (size_t)r->n * sizeof *r->x0);
    if (!all_finite(r->n, r->x0))
        return not_finite(r, pass);
    if (last && r->c->latent_is_rgb)
        clamp(r->n, r->c->latent_lo, r->c->latent_hi, r->x0);
    if (r->hooks && r->hooks->step)
        KVR_TRY(r->hooks->step(r->hooks->ctx, pass->chunk, step, r->x0, pass->n_frames));
    if (last)
        return KVR_OK;
    KVR_TRY(r->noise(r->noise_ctx, pass->chunk, step, pass->frame0, pass->n_frames, r->frame_elems,
                     r->eps));
    kvr_renoise(r->n, r->x0, r->eps, s->sigma[step + 1], r->x);
    return KVR_OK;
}

static enum kvr_status denoise(struct run *r, struct kvr_pass *pass)
{
    KVR_TRY(r->noise(r->noise_ctx, pass->chunk, -1, pass->frame0, pass->n_frames, r->frame_elems,
                     r->x));
    for (pass->index = 0; pass->index < r->schedule.n_steps; pass->index++)
        KVR_TRY(denoise_step(r, pass));
    return KVR_OK;
}

static enum kvr_status sample_chunk(struct run *r, int chunk)
{
    struct kvr_pass pass = { .chunk = chunk,
                             .frame0 = chunk * r->c->frames_per_chunk,
                             .n_frames = r->c->frames_per_chunk };

    if (r->hooks && r->hooks->chunk_begin)
        KVR_TRY(r->hooks->chunk_begin(r->hooks->ctx, chunk));
    if (r->hooks && pass.frame0 < r->hooks->n_given)
        KVR_TRY(r->hooks->given(r->hooks->ctx, pass.frame0, pass.n_frames, r->x0));
    else
        KVR_TRY(denoise(r, &pass));
    pass.index = r->schedule.n_steps;
    pass.clean = true;
    KVR_TRY(forward(r, &pass, r->x0, (float)r->c->context_timestep, r->out));
    if (r->hooks && r->hooks->chunk_end)
        KVR_TRY(r->hooks->chunk_end(r->hooks->ctx, chunk, pass.frame0, pass.n_frames, r->x0));
    return KVR_OK;
}

enum kvr_status kvr_sample(struct kvr_dit *d, struct kvr_cache *cache, int n_frames,
                           kvr_noise_fn *noise, void *noise_ctx,
                           const struct kvr_sample_hooks *hooks, float *latents)
{
    const struct kvr_model *m = kvr_dit_model(d);
    struct run r = { .d = d,
                     .cache = cache,
                     .c = kvr_model_config(m),
                     .noise = noise,
                     .noise_ctx = noise_ctx,
                     .hooks = hooks,
                     .frame_elems = kvr_model_frame_elems(m) };
    struct kvr_buf buf = { 0 };
    enum kvr_status st = KVR_OK;

    if (n_frames < 1 || n_frames % r.c->frames_per_chunk)
        return kvr_fail(KVR_EINVAL, "sampler: %d frames, need a multiple of %d", n_frames,
                        r.c->frames_per_chunk);
    if (hooks &&
        (hooks->n_given < 0 || hooks->n_given > n_frames || hooks->n_given % r.c->frames_per_chunk))
        return kvr_fail(KVR_EINVAL, "sampler: %d given frames of %d, need a multiple of %d",
                        hooks->n_given, n_frames, r.c->frames_per_chunk);
    r.n = r.frame_elems * r.c->frames_per_chunk;
    kvr_schedule_make(&r.schedule, r.c);
    KVR_TRY(kvr_buf_alloc(&buf, kvr_dit_dev(d), KVR_MEM_ACT, (size_t)(4 * r.n) * sizeof(float)));
    r.x = buf.p;
    r.x0 = r.x + r.n;
    r.out = r.x0 + r.n;
    r.eps = r.out + r.n;
    kvr_cache_reset(cache);
    for (int chunk = 0; chunk < n_frames / r.c->frames_per_chunk && st == KVR_OK; chunk++) {
        st = sample_chunk(&r, chunk);
        if (st == KVR_OK && latents)
            memcpy(latents + chunk * r.n, r.x0, (size_t)r.n * sizeof *latents);
    }
    kvr_buf_free(&buf);
    return st;
}
