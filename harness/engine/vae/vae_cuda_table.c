/* vae_cuda_table.c - the launchers of vae_cuda.h as a table of operations. Attention is two
 * products of the engine's own linear layers, some queries at a time: V turned stands for a weight.
 */
#include <math.h>

#include "harness/engine/linear_cuda.h"
#include "harness/engine/vae/vae_cuda.h"
#include "harness/engine/vae/vae_ops.h"

enum { QUERIES = 1024 };

static void norm(struct kvr_dev *dev, int64_t n, int channels, bool silu, const float *x,
                 const float *gamma, float *y)
{
    kvr_pixel_norm_cuda(kvr_dev_stream(dev), n, channels, silu, x, gamma, y);
}

static void rectify(struct kvr_dev *dev, int64_t n, const float *y, float *x)
{
    kvr_rectify_cuda(kvr_dev_stream(dev), n, y, x);
}

static void spread(struct kvr_dev *dev, int h, int w, int in, int out, int times, int which,
                   const float *from, float *to)
{
    kvr_spread_cuda(kvr_dev_stream(dev), h, w, in, out, times, which, from, to);
}

static void unpatch(struct kvr_dev *dev, int h, int w, const float *from, float *to)
{
    kvr_unpatch_cuda(kvr_dev_stream(dev), h, w, from, to);
}

static void patch(struct kvr_dev *dev, int h, int w, const float *from, float *to)
{
    kvr_patch_cuda(kvr_dev_stream(dev), h, w, from, to);
}

static void halve(struct kvr_dev *dev, int h, int w, int channels, const float *from, float *to)
{
    kvr_halve_cuda(kvr_dev_stream(dev), h, w, channels, from, to);
}

static void gather(struct kvr_dev *dev, int h, int w, int in, int out, int times, const float *from,
                   float *to)
{
    kvr_gather_cuda(kvr_dev_stream(dev), h, w, in, out, times, from, to);
}

/* The output of some queries takes their place. */
static enum kvr_status attend(struct kvr_dev *dev, int threads, int64_t n, int d, const float *qkv,
                              float *scores, float *out)
{
    struct kvr_stream *s = kvr_dev_stream(dev);
    const float *k = out + n * d, *v = k + n * d;

    (void)threads;
    kvr_split_qkv_cuda(s, n, d, qkv, out);
    for (int64_t first = 0; first < n; first += QUERIES) {
        const int64_t m = n - first < QUERIES ? n - first : QUERIES;
        float *q = out + first * d;

        kvr_linear_f32_cuda(s, m, (int)n, d, q, k, NULL, scores);
        kvr_softmax_cuda(s, m, n, 1 / sqrtf((float)d), scores);
        kvr_linear_f32_cuda(s, m, d, (int)n, scores, v, NULL, q);
    }
    return KVR_OK;
}

static int64_t score_floats(int threads, int64_t n)
{
    (void)threads;
    return (n < QUERIES ? n : QUERIES) * n;
}

const struct kvr_vae_ops kvr_vae_ops_cuda = {
    .norm = norm,
    .rectify = rectify,
    .spread = spread,
    .unpatch = unpatch,
    .patch = patch,
    .halve = halve,
    .gather = gather,
    .attend = attend,
    .score_floats = score_floats,
};
