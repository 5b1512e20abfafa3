/* noise.c - maps chunk, step and frame to streams of the random number generator. */
#include "harness/engine/noise.h"

#include <math.h>

#include "harness/core/rng.h"
#include "harness/engine/draw_cuda.h"

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

static double rescale_of(double magnitude)
{
    return 1 / sqrt(1 + magnitude * magnitude);
}

/* Perturbs the noise x [n_elems] by normal numbers eta: x becomes (x + magnitude eta) / sqrt(1 +
 * magnitude^2). eta is the stream (a, step) of the generator, from element `first` on. For initial
 * noise, a is the frame, and step is 0. For noise between denoising steps, a is the chunk, and step
 * is 1 or more. */
static void move(const struct kvr_noise *n, uint32_t a, int step, uint64_t first, float *x,
                 int64_t n_elems)
{
    const double rescale = rescale_of(n->magnitude);
    float eta[256];

    for (int64_t i = 0; i < n_elems; i += 256) {
        const int64_t count = n_elems - i < 256 ? n_elems - i : 256;

        kvr_normal(eta, (size_t)count, n->seed, KVR_RNG_JITTER, a,
                   (uint32_t)n->draw << 8 | (uint32_t)step, first + (uint64_t)i);
        for (int64_t j = 0; j < count; j++)
            x[i + j] = (float)(((double)x[i + j] + n->magnitude * (double)eta[j]) * rescale);
    }
}

enum kvr_status kvr_noise_moved(void *ctx, int chunk, int step, int frame0, int n_frames,
                                int64_t frame_elems, float *dst)
{
    const struct kvr_noise *n = ctx;
    uint64_t seed = n->seed;

    KVR_TRY(kvr_noise_philox(&seed, chunk, step, frame0, n_frames, frame_elems, dst));
    for (int f = 0; n->draw && f < n_frames; f++)
        if (step < 0)
            move(n, (uint32_t)(frame0 + f), 0, 0, dst + f * frame_elems, frame_elems);
        else
            move(n, (uint32_t)chunk, step + 1, (uint64_t)(f * frame_elems), dst + f * frame_elems,
                 frame_elems);
    return KVR_OK;
}

typedef enum kvr_status noise_fn(struct kvr_dev *dev, const struct kvr_noise *n, int chunk,
                                 int step, int frame0, int n_frames, int64_t frame_elems,
                                 float *dst);

static enum kvr_status noise_cpu(struct kvr_dev *dev, const struct kvr_noise *n, int chunk,
                                 int step, int frame0, int n_frames, int64_t frame_elems,
                                 float *dst)
{
    struct kvr_noise from = *n;

    (void)dev;
    return kvr_noise_moved(&from, chunk, step, frame0, n_frames, frame_elems, dst);
}

static enum kvr_status noise_cuda(struct kvr_dev *dev, const struct kvr_noise *n, int chunk,
                                  int step, int frame0, int n_frames, int64_t frame_elems,
                                  float *dst)
{
    const bool initial = step < 0;
    struct kvr_draw_normal d = {
        .seed = n->seed,
        .use = initial ? KVR_RNG_NOISE : KVR_RNG_RENOISE,
        .a = (uint32_t)(initial ? frame0 : chunk),
        .b = initial ? 0 : (uint32_t)step,
        .moved = n->draw != 0,
        .eta_b = (uint32_t)n->draw << 8 | (uint32_t)(step + 1),
        .magnitude = n->magnitude,
        .rescale = rescale_of(n->magnitude),
    };

    if (!initial) { /* one stream for all frames of the chunk */
        kvr_draw_normal_cuda(kvr_dev_stream(dev), &d, n_frames * frame_elems, dst);
        return KVR_OK;
    }
    for (int f = 0; f < n_frames; f++, d.a++)
        kvr_draw_normal_cuda(kvr_dev_stream(dev), &d, frame_elems, dst + f * frame_elems);
    return KVR_OK;
}

enum kvr_status kvr_noise_to(struct kvr_dev *dev, const struct kvr_noise *n, int chunk, int step,
                             int frame0, int n_frames, int64_t frame_elems, float *dst)
{
    static noise_fn *const draws[KVR_N_BACKENDS] = {
        [KVR_CPU] = noise_cpu, [KVR_CUDA] = noise_cuda
    };

    return draws[kvr_dev_backend(dev)](dev, n, chunk, step, frame0, n_frames, frame_elems, dst);
}
