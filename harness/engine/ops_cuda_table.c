/* ops_cuda_table.c - the table of operations on a CUDA device, with the launchers of ops_cuda.h and
 * attend_cuda.h. */
#include "harness/cache/attend_mma.h"
#include "harness/cache/attend_wgmma.h"
#include "harness/engine/linear_cuda.h"
#include "harness/engine/ops_cuda.h"

static void norm_modulate(struct kvr_dev *dev, const struct kvr_rows *r, const float *x,
                          const float *shift, const float *scale, int64_t stride, double eps,
                          float *y)
{
    kvr_norm_modulate_cuda(kvr_dev_stream(dev), r, x, shift, scale, stride, eps, y);
}

static void norm_affine(struct kvr_dev *dev, const struct kvr_rows *r, const float *x,
                        const float *w, const float *b, double eps, float *y)
{
    kvr_norm_affine_cuda(kvr_dev_stream(dev), r, x, w, b, eps, y);
}

static void rms_norm(struct kvr_dev *dev, const struct kvr_rows *r, const float *w, double eps,
                     float *x)
{
    kvr_rms_norm_cuda(kvr_dev_stream(dev), r, w, eps, x);
}

static void rope(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim, const double *cosines,
                 const double *sines, float *x)
{
    kvr_rope_cuda(kvr_dev_stream(dev), r, head_dim, cosines, sines, x);
}

static void norm_modulate_bf16(struct kvr_dev *dev, const struct kvr_rows *r,
                               const struct kvr_residual *before, kvr_bf16 *x, const float *shift,
                               const float *scale, int64_t stride, double eps, kvr_bf16 *y,
                               int columns)
{
    kvr_norm_modulate_bf16_cuda(kvr_dev_stream(dev), r, before, x, shift, scale, stride, eps, y,
                                columns);
}

static void norm_affine_bf16(struct kvr_dev *dev, const struct kvr_rows *r,
                             const struct kvr_residual *before, kvr_bf16 *x, const float *w,
                             const float *b, double eps, kvr_bf16 *y, int columns)
{
    kvr_norm_affine_bf16_cuda(kvr_dev_stream(dev), r, before, x, w, b, eps, y, columns);
}

static void rms_rope(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim, const float *w,
                     double eps, const double *cosines, const double *sines, float *x)
{
    kvr_rms_rope_cuda(kvr_dev_stream(dev), r, head_dim, w, eps, cosines, sines, x);
}

static void rms_rope_bf16(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim,
                          const float *const *w, double eps, const double *cosines,
                          const double *sines, const kvr_bf16 *const *x, kvr_bf16 *const *y)
{
    kvr_rms_rope_bf16_cuda(kvr_dev_stream(dev), r, head_dim, w, eps, cosines, sines, x, y);
}

static void rms_norm_bf16(struct kvr_dev *dev, const struct kvr_rows *r, const float *w, double eps,
                          kvr_bf16 *x)
{
    kvr_rms_norm_bf16_cuda(kvr_dev_stream(dev), r, w, eps, x);
}

static void add_bf16(struct kvr_dev *dev, const struct kvr_rows *r, const struct kvr_residual *from,
                     kvr_bf16 *x)
{
    kvr_add_bf16_cuda(kvr_dev_stream(dev), r, from, x);
}

static void add(struct kvr_dev *dev, const struct kvr_rows *r, const float *y, const float *gate,
                int64_t stride, float *x)
{
    kvr_add_cuda(kvr_dev_stream(dev), r, y, gate, stride, x);
}

static void gelu(struct kvr_dev *dev, int64_t n, float *x)
{
    kvr_gelu_cuda(kvr_dev_stream(dev), n, x);
}

static void silu(struct kvr_dev *dev, int64_t n, const float *x, float *y)
{
    kvr_silu_cuda(kvr_dev_stream(dev), n, x, y);
}

static void patchify(struct kvr_dev *dev, const struct kvr_patching *p, const float *x, float *out)
{
    kvr_patchify_cuda(kvr_dev_stream(dev), p, x, out);
}

static void unpatchify(struct kvr_dev *dev, const struct kvr_patching *p, const float *in, float *x)
{
    kvr_unpatchify_cuda(kvr_dev_stream(dev), p, in, x);
}

/* Sets *out to the prompt's keys and values in BF16, for cross-attention on tensor cores. Returns
 * false if tensor cores do not support the device, shape or compute type. Then the prompt's keys
 * and values stay in F32. */
static bool on_tensor_cores(struct kvr_dev *dev, const struct kvr_cross *c,
                            struct kvr_attend_mma_span *out)
{
    const struct kvr_attend_shape shape = { 1, c->n_heads, c->head_dim };

    *out = (struct kvr_attend_mma_span){ .k = { .raw = c->k, .dtype = KVR_BF16 },
                                         .v = { .raw = c->v, .dtype = KVR_BF16 },
                                         .n = c->n_keys };
    return c->compute == KVR_BF16 &&
           kvr_attend_mma_accepts(kvr_stream_block_shared(kvr_dev_stream(dev)), &shape, out);
}

static void cross_pack(struct kvr_dev *dev, struct kvr_cross *c, const float *k, const float *v)
{
    const int width = c->n_heads * c->head_dim;
    const size_t n = (size_t)c->n_keys * (size_t)width * sizeof(float);
    struct kvr_attend_mma_span span;

    if (on_tensor_cores(dev, c, &span)) {
        kvr_linear_round_cuda(kvr_dev_stream(dev), c->n_keys, width, width, k, (kvr_bf16 *)c->k);
        kvr_linear_round_cuda(kvr_dev_stream(dev), c->n_keys, width, width, v, (kvr_bf16 *)c->v);
    } else {
        kvr_dev_copy(dev, c->k, k, n);
        kvr_dev_copy(dev, c->v, v, n);
    }
}

/* Computes cross-attention over the prompt's few tiles of keys, without split-KV, by the wgmma
 * kernel if the device supports it. */
static void attend_prompt(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span)
{
    if (kvr_attend_list_supported(s) && kvr_attend_list_accepts(shape, span))
        kvr_attend_list_cuda(s, shape, io, span, 1, NULL, 0);
    else
        kvr_attend_mma_cuda(s, shape, io, span);
}

static void cross_attend(struct kvr_dev *dev, const struct kvr_rows *r, const struct kvr_cross *c,
                         const struct kvr_cross_work *work, const float *q, float *out)
{
    const struct kvr_attend_shape shape = { r->n, c->n_heads, c->head_dim };
    const struct kvr_attend_io io = {
        .q = q, .state = { work->max, work->sum, work->acc }, .begins = true, .out = out
    };
    const struct kvr_attend_piece prompt = { .k = c->k, .v = c->v, .n = c->n_keys };
    struct kvr_stream *s = kvr_dev_stream(dev);
    struct kvr_attend_mma_span span;

    if (on_tensor_cores(dev, c, &span)) {
        attend_prompt(s, &shape, &io, &span);
        return;
    }
    kvr_attend_begin_cuda(s, &shape, &io.state);
    kvr_attend_piece_cuda(s, &shape, q, &prompt, &io.state);
    kvr_attend_finish_cuda(s, &shape, &io.state, out);
}

static void query_inverses(struct kvr_dev *dev, int64_t n, const float *squares, int parts,
                           int width, double eps, float *inverses)
{
    kvr_query_inverses_cuda(kvr_dev_stream(dev), n, squares, parts, width, eps, inverses);
}

static bool cross_attend_normed(struct kvr_dev *dev, const struct kvr_rows *r,
                                const struct kvr_cross *c, const struct kvr_cross_work *work,
                                const kvr_bf16 *q, const struct kvr_query_norm *norm, kvr_bf16 *out)
{
    const struct kvr_attend_shape shape = { r->n, c->n_heads, c->head_dim };
    const struct kvr_attend_io io = { .q16 = q,
                                      .norm = *norm,
                                      .state = { work->max, work->sum, work->acc },
                                      .begins = true,
                                      .out16 = out };
    struct kvr_attend_mma_span span;

    if (!on_tensor_cores(dev, c, &span))
        return false;
    if (q)
        attend_prompt(kvr_dev_stream(dev), &shape, &io, &span);
    return true;
}

static bool cross_attend_bf16(struct kvr_dev *dev, const struct kvr_rows *r,
                              const struct kvr_cross *c, const struct kvr_cross_work *work,
                              const kvr_bf16 *q, kvr_bf16 *out)
{
    const struct kvr_query_norm none = { .inverses = NULL };

    return cross_attend_normed(dev, r, c, work, q, &none, out);
}

static void add_modulation(struct kvr_dev *dev, int n_frames, int n_rows, int d, const float *base,
                           const float *per_frame, bool same_for_rows, float *out)
{
    kvr_add_modulation_cuda(kvr_dev_stream(dev), n_frames, n_rows, d, base, per_frame,
                            same_for_rows, out);
}

static void subtract(struct kvr_dev *dev, int64_t n, const float *x, const float *y, float *out)
{
    kvr_subtract_cuda(kvr_dev_stream(dev), n, x, y, out);
}

static void l1(struct kvr_dev *dev, int64_t n, const float *x, const float *y, double *sums)
{
    kvr_l1_cuda(kvr_dev_stream(dev), n, x, y, sums);
}

static void x0_from_flow(struct kvr_dev *dev, int64_t n, const float *x, const float *flow,
                         float sigma, float *x0)
{
    kvr_x0_from_flow_cuda(kvr_dev_stream(dev), n, x, flow, sigma, x0);
}

static void renoise(struct kvr_dev *dev, int64_t n, const float *x0, const float *eps, float sigma,
                    float *x)
{
    kvr_renoise_cuda(kvr_dev_stream(dev), n, x0, eps, sigma, x);
}

static void blend(struct kvr_dev *dev, int64_t n, const struct kvr_blend *b, float *out)
{
    kvr_blend_cuda(kvr_dev_stream(dev), n, b, out);
}

static void clamp(struct kvr_dev *dev, int64_t n, float lo, float hi, float *x)
{
    kvr_clamp_cuda(kvr_dev_stream(dev), n, lo, hi, x);
}

static void not_finite(struct kvr_dev *dev, int64_t n, const float *x, int32_t *flag)
{
    kvr_dev_zero(dev, flag, sizeof *flag);
    kvr_not_finite_cuda(kvr_dev_stream(dev), n, x, flag);
}

const struct kvr_ops kvr_ops_cuda = {
    .norm_modulate = norm_modulate,
    .norm_affine = norm_affine,
    .rms_norm = rms_norm,
    .rope = rope,
    .norm_modulate_bf16 = norm_modulate_bf16,
    .norm_affine_bf16 = norm_affine_bf16,
    .rms_norm_bf16 = rms_norm_bf16,
    .add_bf16 = add_bf16,
    .rms_rope = rms_rope,
    .rms_rope_bf16 = rms_rope_bf16,
    .add = add,
    .gelu = gelu,
    .silu = silu,
    .patchify = patchify,
    .unpatchify = unpatchify,
    .cross_pack = cross_pack,
    .cross_attend = cross_attend,
    .cross_attend_bf16 = cross_attend_bf16,
    .query_inverses = query_inverses,
    .cross_attend_normed = cross_attend_normed,
    .add_modulation = add_modulation,
    .subtract = subtract,
    .l1 = l1,
    .x0_from_flow = x0_from_flow,
    .renoise = renoise,
    .blend = blend,
    .clamp = clamp,
    .not_finite = not_finite,
    .max_head_dim = KVR_OPS_MAX_HEAD_DIM,
    .cross_works = true,
};
