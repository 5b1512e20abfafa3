/* flow.c - see flow.h. Activations are F32, F32 rounded to BF16, or BF16. */
#include "harness/engine/flow.h"

#include <assert.h>

#include "harness/cache/rows.h"

void kvr_flow_open(struct kvr_flow *f, struct kvr_dev *dev, struct kvr_gemm *gemm, double eps)
{
    *f = (struct kvr_flow){
        .dev = dev,
        .ops = kvr_ops_of(dev),
        .gemm = gemm,
        .eps = eps,
        .rounds = kvr_gemm_compute(gemm) == KVR_BF16,
        .narrow = kvr_gemm_narrow(gemm),
        .fuses = kvr_gemm_fuses(gemm),
    };
}

size_t kvr_flow_size(const struct kvr_flow *f)
{
    return f->narrow ? sizeof(kvr_bf16) : sizeof(float);
}

enum kvr_status kvr_flow_prepare(const struct kvr_flow *f, const struct kvr_linear *l, int64_t m,
                                 enum kvr_linear_end end)
{
    return f->narrow ? kvr_linear_prepare_end(l, m, end) : kvr_linear_prepare(l, m);
}

/* Rounds F32 activations to BF16 values, if the model computes in BF16. */
static void rounded(const struct kvr_flow *f, float *x, int64_t n)
{
    if (f->rounds)
        kvr_values_round(f->dev, KVR_BF16, x, (size_t)n);
}

/* ---- norms and layers --------------------------------------------------------------------- */

static void norm_floats(struct kvr_flow *f, const struct kvr_rows *r,
                        const struct kvr_flow_norm *how)
{
    if (how->stride)
        f->ops->norm_modulate(f->dev, r, f->x, how->shift, how->factor, how->stride, f->eps, f->y);
    else
        f->ops->norm_affine(f->dev, r, f->x, how->factor, how->shift, f->eps, f->y);
}

/* Applies a norm to BF16 activations in one kernel. Writes the result to the GEMM's input buffer
 * or, if `shown`, to f->y, where a tap (dit.h) can read it. */
static struct kvr_flow_in norm_narrow(struct kvr_flow *f, const struct kvr_rows *r,
                                      const struct kvr_flow_norm *how, bool shown)
{
    const int columns = shown ? r->d : kvr_gemm_columns(f->gemm, r->d);
    kvr_bf16 *y = shown ? f->y : kvr_gemm_input(f->gemm, r->n, r->d);

    if (f->left.y == y)
        kvr_flow_flush(f, r); /* the kernel must not read and write the same buffer */
    if (how->stride)
        f->ops->norm_modulate_bf16(f->dev, r, &f->left, f->x, how->shift, how->factor, how->stride,
                                   f->eps, y, columns);
    else
        f->ops->norm_affine_bf16(f->dev, r, &f->left, f->x, how->factor, how->shift, f->eps, y,
                                 columns);
    f->left = (struct kvr_residual){ 0 };
    return (struct kvr_flow_in){ .x = shown ? y : NULL, .columns = columns };
}

struct kvr_flow_in kvr_flow_norm(struct kvr_flow *f, const struct kvr_rows *r,
                                 const struct kvr_flow_norm *how, bool shown)
{
    if (!f->narrow) {
        norm_floats(f, r, how); /* the next layer rounds its input */
        return (struct kvr_flow_in){ .x = f->y, .columns = r->d };
    }
    return norm_narrow(f, r, how, shown);
}

struct kvr_flow_in kvr_flow_floats(struct kvr_flow *f, int64_t m, int k, const float *x)
{
    if (!f->narrow)
        return (struct kvr_flow_in){ .x = x, .columns = k };
    kvr_gemm_store_input(f->gemm, m, k, x);
    return (struct kvr_flow_in){ .columns = kvr_gemm_columns(f->gemm, k) };
}

static struct kvr_linear_in narrow_in(struct kvr_flow_in in)
{
    return (struct kvr_linear_in){ in.x, in.columns };
}

/* Runs linear layers with their epilogue in one launch. *done is false if no such kernel is
 * available and nothing was launched. */
static enum kvr_status fused(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                             int n, const struct kvr_linear *const *l, enum kvr_linear_end end,
                             const struct kvr_linear_gate *gate, kvr_bf16 *const *y, bool *done)
{
    const struct kvr_linear_fused how = {
        .in = narrow_in(in),
        .end = end,
        .gate = gate,
        .squares = y[0] != f->x && end == KVR_LINEAR_ROUNDED ? f->squares : NULL,
    };

    *done = false;
    if (f->fuses)
        KVR_TRY(kvr_linear_run_fused(f->gemm, r->n, &how, n, l, y, done));
    f->squared = *done && how.squares;
    return KVR_OK;
}

enum kvr_status kvr_flow_layers(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                                int n, const struct kvr_linear *const *l, void *const *y)
{
    kvr_bf16 *narrow[KVR_LINEAR_MAX_FUSED];
    float *wide[KVR_LINEAR_MAX_FUSED];

    assert(n <= KVR_LINEAR_MAX_FUSED);
    for (int i = 0; i < n; i++) {
        narrow[i] = y[i];
        wide[i] = y[i];
    }
    if (f->narrow) {
        bool done;

        KVR_TRY(fused(f, r, in, n, l, KVR_LINEAR_ROUNDED, NULL, narrow, &done));
        return done ? KVR_OK
                    : kvr_linear_run_narrow(f->gemm, r->n, narrow_in(in), n, l, KVR_LINEAR_ROUNDED,
                                            narrow);
    }
    KVR_TRY(kvr_linear_run(f->gemm, r->n, in.x, n, l, wide));
    for (int i = 0; i < n; i++)
        rounded(f, wide[i], r->n * kvr_linear_n(l[i]));
    return KVR_OK;
}

enum kvr_status kvr_flow_gelu(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                              const struct kvr_linear *l, void *y, struct kvr_flow_in *out)
{
    const int n = kvr_linear_n(l);
    kvr_bf16 *narrow = y;
    float *wide = y;

    *out = (struct kvr_flow_in){ .x = y, .columns = kvr_gemm_columns(f->gemm, n) };
    if (f->narrow) {
        bool done;

        KVR_TRY(fused(f, r, in, 1, &l, KVR_LINEAR_GELU, NULL, &narrow, &done));
        return done ? KVR_OK
                    : kvr_linear_run_narrow(f->gemm, r->n, narrow_in(in), 1, &l, KVR_LINEAR_GELU,
                                            &narrow);
    }
    KVR_TRY(kvr_linear_run(f->gemm, r->n, in.x, 1, &l, &wide));
    f->ops->gelu(f->dev, r->n * n, wide); /* the next layer rounds its input */
    return KVR_OK;
}

enum kvr_status kvr_flow_out(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                             const struct kvr_linear *l, float *y)
{
    assert(!f->narrow || !in.x);
    return kvr_linear_run(f->gemm, r->n, in.x, 1, &l, &y);
}

/* ---- residuals ---------------------------------------------------------------------------- */

void kvr_flow_flush(struct kvr_flow *f, const struct kvr_rows *r)
{
    if (f->left.y)
        f->ops->add_bf16(f->dev, r, &f->left, f->x);
    f->left = (struct kvr_residual){ 0 };
}

static enum kvr_status add_narrow(struct kvr_flow *f, const struct kvr_rows *r,
                                  struct kvr_flow_in in, const struct kvr_linear *l,
                                  const float *gate, int64_t stride, bool shown)
{
    const struct kvr_linear_gate by = { gate, stride, r->tokens_per_frame };
    void *const y[1] = { f->y };
    kvr_bf16 *const x = f->x;
    bool left = true, done;

    kvr_flow_flush(f, r); /* first add the deferred residual to x */
    if (!shown) {
        KVR_TRY(fused(f, r, in, 1, &l, KVR_LINEAR_ADDED, &by, &x, &done));
        if (done)
            return KVR_OK;
    }
    if (shown)
        KVR_TRY(kvr_flow_layers(f, r, in, 1, &l, y));
    else
        KVR_TRY(kvr_linear_run_added(f->gemm, r->n, narrow_in(in), l, &by, f->x, f->y, &left));
    if (left)
        f->left = (struct kvr_residual){ f->y, gate, stride };
    return KVR_OK;
}

enum kvr_status kvr_flow_add(struct kvr_flow *f, const struct kvr_rows *r, struct kvr_flow_in in,
                             const struct kvr_linear *l, const float *gate, int64_t stride,
                             bool shown)
{
    void *const y[1] = { f->y };

    if (f->narrow)
        return add_narrow(f, r, in, l, gate, stride, shown);
    KVR_TRY(kvr_flow_layers(f, r, in, 1, &l, y));
    f->ops->add(f->dev, r, f->y, gate, stride, f->x);
    rounded(f, f->x, r->n * r->d);
    return KVR_OK;
}

/* ---- queries and keys ---------------------------------------------------------------------- */

void kvr_flow_rms(const struct kvr_flow *f, const struct kvr_rows *r, const float *w, void *x)
{
    if (f->narrow) {
        f->ops->rms_norm_bf16(f->dev, r, w, f->eps, x);
        return;
    }
    f->ops->rms_norm(f->dev, r, w, f->eps, x);
    rounded(f, x, r->n * r->d);
}

static void rms_rope_floats(const struct kvr_flow *f, const struct kvr_rows *r, const float *w,
                            const struct kvr_flow_angles *a, float *x)
{
    if (f->ops->rms_rope) {
        f->ops->rms_rope(f->dev, r, a->head_dim, w, f->eps, a->cosines, a->sines, x);
    } else {
        f->ops->rms_norm(f->dev, r, w, f->eps, x);
        f->ops->rope(f->dev, r, a->head_dim, a->cosines, a->sines, x);
    }
    rounded(f, x, r->n * r->d);
}

void kvr_flow_rms_rope(const struct kvr_flow *f, const struct kvr_rows *r, const float *const w[2],
                       const struct kvr_flow_angles *a, void *const x[2], void *const y[2])
{
    const kvr_bf16 *const from[2] = { x[0], x[1] };
    kvr_bf16 *const to[2] = { y[0], y[1] };

    if (f->narrow) {
        f->ops->rms_rope_bf16(f->dev, r, a->head_dim, w, f->eps, a->cosines, a->sines, from, to);
        return;
    }
    assert(x[0] == y[0] && x[1] == y[1]);
    rms_rope_floats(f, r, w[0], a, x[0]);
    rms_rope_floats(f, r, w[1], a, x[1]);
}
