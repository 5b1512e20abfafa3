/* vae_cuda_table.c - the VAE's table of operations on a CUDA device, with the launchers of
 * vae_cuda.h. Attention consists of two GEMMs of linear_cuda.h per block of queries, with the
 * transpose of V as a weight. */
#include <math.h>

#include "harness/engine/linear_cuda.h"
#include "harness/engine/vae/vae_cuda.h"
#include "harness/engine/vae/vae_ops.h"

enum { QUERIES = 1024 };

static void norm(struct kvr_dev *dev, int64_t n, int channels, bool silu, const void *x,
                 const float *gamma, void *y)
{
    kvr_pixel_norm_cuda(kvr_dev_stream(dev), KVR_F32, n, channels, silu, x, gamma, y);
}

static void norm_bf16(struct kvr_dev *dev, int64_t n, int channels, bool silu, const void *x,
                      const float *gamma, void *y)
{
    kvr_pixel_norm_cuda(kvr_dev_stream(dev), KVR_BF16, n, channels, silu, x, gamma, y);
}

static void add(struct kvr_dev *dev, int64_t n, const void *y, void *x)
{
    kvr_add_pixels_cuda(kvr_dev_stream(dev), KVR_F32, n, y, x);
}

static void add_bf16(struct kvr_dev *dev, int64_t n, const void *y, void *x)
{
    kvr_add_pixels_cuda(kvr_dev_stream(dev), KVR_BF16, n, y, x);
}

static void rectify(struct kvr_dev *dev, int64_t n, const float *y, float *x)
{
    kvr_rectify_cuda(kvr_dev_stream(dev), n, y, x);
}

static void spread(struct kvr_dev *dev, int h, int w, int in, int out, int times, int which,
                   const void *from, void *to)
{
    kvr_spread_cuda(kvr_dev_stream(dev), KVR_F32, h, w, in, out, times, which, from, to);
}

static void spread_bf16(struct kvr_dev *dev, int h, int w, int in, int out, int times, int which,
                        const void *from, void *to)
{
    kvr_spread_cuda(kvr_dev_stream(dev), KVR_BF16, h, w, in, out, times, which, from, to);
}

static void unpatch(struct kvr_dev *dev, int h, int w, const void *from, void *to)
{
    kvr_unpatch_cuda(kvr_dev_stream(dev), KVR_F32, h, w, from, to);
}

static void unpatch_bf16(struct kvr_dev *dev, int h, int w, const void *from, void *to)
{
    kvr_unpatch_cuda(kvr_dev_stream(dev), KVR_BF16, h, w, from, to);
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

/* Computes attention over q [n,d], k [n,d] and v [d,n], which are contiguous. The output of a block
 * of queries overwrites the queries of the block. */
static void attend_split(struct kvr_stream *s, int64_t n, int d, float *q, float *scores)
{
    const float *k = q + n * d, *v = k + n * d;

    for (int64_t first = 0; first < n; first += QUERIES) {
        const int64_t m = n - first < QUERIES ? n - first : QUERIES;

        kvr_linear_f32_cuda(s, m, (int)n, d, q + first * d, k, NULL, scores);
        kvr_softmax_cuda(s, m, n, 1 / sqrtf((float)d), scores);
        kvr_linear_f32_cuda(s, m, d, (int)n, scores, v, NULL, q + first * d);
    }
}

static enum kvr_status attend(struct kvr_dev *dev, int threads, int64_t n, int d, const void *qkv,
                              float *scores, void *out)
{
    (void)threads;
    kvr_split_qkv_cuda(kvr_dev_stream(dev), KVR_F32, n, d, qkv, out);
    attend_split(kvr_dev_stream(dev), n, d, out, scores);
    return KVR_OK;
}

static int64_t score_floats(int threads, int64_t n, int d)
{
    (void)threads;
    (void)d;
    return (n < QUERIES ? n : QUERIES) * n;
}

/* Computes attention of BF16 pixels in F32. `scores` also has room for the F32 queries, keys and
 * values, which are stored after the scores. */
static enum kvr_status attend_bf16(struct kvr_dev *dev, int threads, int64_t n, int d,
                                   const void *qkv, float *scores, void *out)
{
    float *q = scores + score_floats(threads, n, d);

    kvr_split_qkv_cuda(kvr_dev_stream(dev), KVR_BF16, n, d, qkv, q);
    attend_split(kvr_dev_stream(dev), n, d, q, scores);
    kvr_round_pixels_cuda(kvr_dev_stream(dev), n * d, q, out);
    return KVR_OK;
}

static int64_t score_floats_bf16(int threads, int64_t n, int d)
{
    return score_floats(threads, n, d) + 3 * n * d;
}

const struct kvr_vae_ops kvr_vae_ops_cuda = {
    .norm = norm,
    .add = add,
    .rectify = rectify,
    .spread = spread,
    .unpatch = unpatch,
    .patch = patch,
    .halve = halve,
    .gather = gather,
    .attend = attend,
    .score_floats = score_floats,
};

const struct kvr_vae_ops kvr_vae_ops_cuda_bf16 = {
    .norm = norm_bf16,
    .add = add_bf16,
    .spread = spread_bf16,
    .unpatch = unpatch_bf16,
    .attend = attend_bf16,
    .score_floats = score_floats_bf16,
};
