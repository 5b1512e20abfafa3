/* dit.c - the forward pass of the diffusion transformer: patch embedding, time embedding, blocks
 * and head. The network is causal Wan 2.1. The order of operations is that of the reference
 * implementation. */
#include "harness/engine/dit_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/rows.h"
#include "methods/kernels/rope.h"

/* Number of time positions in the RoPE table of the reference implementation. */
enum { MAX_FRAMES = 1024 };

/* ---- pieces --------------------------------------------------------------------------- */

/* Copies data to the host as F32 and passes it to the tap, a callback that observes tensors, if one
 * is set. */
static void show(struct kvr_dit *d, const char *name, const void *data, int64_t n, bool narrow)
{
    const size_t n_bytes = (size_t)n * (narrow ? sizeof(kvr_bf16) : sizeof(float));
    const size_t n_floats = (size_t)n * sizeof(float);
    enum kvr_status st = KVR_OK;

    if (kvr_dit_on_device(d)) {
        st = kvr_buf_reserve(&d->shown, kvr_dev_host(d->dev), KVR_MEM_IO, n_floats + n_bytes);
        if (st == KVR_OK)
            st = kvr_dev_sync(d->dev);
        if (st == KVR_OK)
            st = kvr_dev_get(d->dev, (char *)d->shown.p + (narrow ? n_floats : 0), data, n_bytes);
        if (st == KVR_OK && narrow)
            kvr_to_f32(d->shown.p, (char *)d->shown.p + n_floats, KVR_BF16, (size_t)n);
        data = d->shown.p;
    }
    if (st == KVR_OK)
        d->tap(d->tap_ctx, name, data, n);
    else if (d->tap_status == KVR_OK)
        d->tap_status = st;
}

static void tap(struct kvr_dit *d, const char *name, const float *data, int64_t n)
{
    if (d->tap)
        show(d, name, data, n, false);
}

/* Passes a tensor of block `block` to the tap, or a tensor outside of the blocks if `block` is
 * -1. */
static void tap_flow(struct kvr_dit *d, int block, const char *what, const void *data, int64_t n)
{
    char name[64];

    if (!d->tap)
        return;
    snprintf(name, sizeof name, "block%d.%s", block, what);
    show(d, block < 0 ? what : name, data, n, d->flow.narrow);
}

static void tap_block(struct kvr_dit *d, int block, const char *what, const float *data, int64_t n)
{
    char name[64];

    if (!d->tap)
        return;
    snprintf(name, sizeof name, "block%d.%s", block, what);
    show(d, name, data, n, false);
}

/* Returns the first error of show() since the last call of this function. */
static enum kvr_status taps_done(struct kvr_dit *d)
{
    const enum kvr_status st = d->tap_status;

    d->tap_status = KVR_OK;
    return st;
}

static enum kvr_status linears(struct kvr_dit *d, int64_t rows, const float *x, int n,
                               const struct kvr_linear *const *l, float *const *y)
{
    enum kvr_status st;

    kvr_phase_begin(d->phases, KVR_DIT_LINEAR);
    st = kvr_linear_run(d->m->gemm, rows, x, n, l, y);
    kvr_phase_end(d->phases, KVR_DIT_LINEAR);
    return st;
}

static enum kvr_status linear(struct kvr_dit *d, int64_t rows, const float *x,
                              const struct kvr_linear *l, float *y)
{
    return linears(d, rows, x, 1, &l, &y);
}

/* ---- norm, layers, residual ------------------------------------------------------------- */

/* Applies a norm to x and then n linear layers to the result. The tap receives the result of the
 * norm as tensor `name`. */
static enum kvr_status begin(struct kvr_dit *d, int i, const char *name, const struct kvr_rows *r,
                             const struct kvr_flow_norm *norm, int n,
                             const struct kvr_linear *const *l, void *const *y)
{
    const struct kvr_flow_in in = kvr_flow_norm(&d->flow, r, norm, d->tap != NULL);
    enum kvr_status st;

    tap_flow(d, i, name, d->flow.y, r->n * r->d);
    kvr_phase_begin(d->phases, KVR_DIT_LINEAR);
    st = kvr_flow_layers(&d->flow, r, in, n, l, y);
    kvr_phase_end(d->phases, KVR_DIT_LINEAR);
    return st;
}

/* Applies a norm to x, then one linear layer and GELU. */
static enum kvr_status begin_gelu(struct kvr_dit *d, int i, const char *name,
                                  const struct kvr_rows *r, const struct kvr_flow_norm *norm,
                                  const struct kvr_linear *l, void *y, struct kvr_flow_in *out)
{
    const struct kvr_flow_in in = kvr_flow_norm(&d->flow, r, norm, d->tap != NULL);
    enum kvr_status st;

    tap_flow(d, i, name, d->flow.y, r->n * r->d);
    kvr_phase_begin(d->phases, KVR_DIT_LINEAR);
    st = kvr_flow_gelu(&d->flow, r, in, l, y, out);
    kvr_phase_end(d->phases, KVR_DIT_LINEAR);
    return st;
}

/* Applies a linear layer and adds its gated result to x. The tap receives the result of the layer
 * as tensor `name`. */
static enum kvr_status end(struct kvr_dit *d, int i, const char *name, const struct kvr_rows *r,
                           struct kvr_flow_in in, const struct kvr_linear *l, const float *gate)
{
    enum kvr_status st;

    kvr_phase_begin(d->phases, KVR_DIT_LINEAR);
    st = kvr_flow_add(&d->flow, r, in, l, gate, gate ? 6 * (int64_t)r->d : 0, d->tap != NULL);
    kvr_phase_end(d->phases, KVR_DIT_LINEAR);
    KVR_TRY(st);
    tap_flow(d, i, name, d->flow.y, r->n * r->d);
    return KVR_OK;
}

/* Returns the parameters of a modulated norm. `mod` [frames, n_rows, d] is the modulation of a
 * block or of the head; its row `row` is the shift, and row `row` + 1 is the scale. */
static struct kvr_flow_norm modulated(const struct kvr_rows *r, const float *mod, int row,
                                      int n_rows)
{
    const float *shift = mod + row * (int64_t)r->d;

    return (struct kvr_flow_norm){ shift + r->d, shift, n_rows * (int64_t)r->d };
}

static struct kvr_flow_angles angles(const struct kvr_dit *d)
{
    return (struct kvr_flow_angles){ d->c->dim / d->c->n_heads, d->rope.cosines, d->rope.sines };
}

/* ---- prompt --------------------------------------------------------------------------- */

static enum kvr_status take_prompt(struct kvr_dit *d, const float *P)
{
    const struct kvr_model *m = d->m;
    const int64_t T = d->c->text_len, dim = d->c->dim;
    const struct kvr_rows rows = { .n = T, .d = d->c->dim, .tokens_per_frame = 1 };

    d->has_prompt = false;
    if (kvr_dit_on_device(d)) {
        KVR_TRY(kvr_dev_put(d->dev, d->prompt, P, (size_t)(T * d->c->text_dim) * sizeof *P));
        P = d->prompt;
    }
    KVR_TRY(linear(d, T, P, m->text0, d->text_hidden));
    d->ops->gelu(d->dev, T * dim, d->text_hidden);
    KVR_TRY(linear(d, T, d->text_hidden, m->text2, d->text));
    tap(d, "text_embed", d->text, T * dim);
    for (int i = 0; i < d->c->n_layers; i++) {
        const struct kvr_block *b = &m->blocks[i];
        const struct kvr_linear *const kv[2] = { b->ck, b->cv };
        float *const to[2] = { d->text_k, d->text_hidden };

        KVR_TRY(linears(d, T, d->text, 2, kv, to));
        d->ops->rms_norm(d->dev, &rows, b->cross_norm_k, d->c->eps, d->text_k);
        if (d->flow.rounds) {
            kvr_values_round(d->dev, KVR_BF16, d->text_k, (size_t)(T * dim));
            kvr_values_round(d->dev, KVR_BF16, d->text_hidden, (size_t)(T * dim));
        }
        tap_block(d, i, "cross_k", d->text_k, T * dim);
        tap_block(d, i, "cross_v", d->text_hidden, T * dim);
        d->ops->cross_pack(d->dev, &d->cross[i], d->text_k, d->text_hidden);
    }
    KVR_TRY(taps_done(d));
    d->has_prompt = true;
    return KVR_OK;
}

enum kvr_status kvr_dit_set_prompt(struct kvr_dit *d, const float *P)
{
    enum kvr_status st;

    kvr_phase_begin(d->phases, KVR_DIT_ALL);
    st = take_prompt(d, P);
    kvr_phase_end(d->phases, KVR_DIT_ALL);
    return st;
}

/* ---- forward -------------------------------------------------------------------------- */

static enum kvr_status rope_move(struct kvr_dit *d, double frame0)
{
    const int head_dim = d->c->dim / d->c->n_heads, half = head_dim / 2;
    const size_t n_time = (size_t)(half - 2 * (half / 3));
    const size_t n_bytes = (size_t)d->c->frames_per_chunk * (size_t)d->tokens_per_frame *
                           (size_t)half * sizeof(double);

    if (d->rope_frame == frame0)
        return KVR_OK;
    for (int f = 0; f < d->c->frames_per_chunk; f++) {
        double *co = d->host_rope.cosines + (int64_t)f * d->tokens_per_frame * half;
        double *si = d->host_rope.sines + (int64_t)f * d->tokens_per_frame * half;

        /* the time angles of a frame are equal for all its tokens; token 0 is at row 0, column 0 */
        kvr_rope_angles(head_dim, frame0 + f, 0, 0, co, si);
        for (int64_t n = 1; n < d->tokens_per_frame; n++) {
            memcpy(co + n * half, co, n_time * sizeof *co);
            memcpy(si + n * half, si, n_time * sizeof *si);
        }
    }
    if (kvr_dit_on_device(d)) {
        KVR_TRY(kvr_dev_put(d->dev, d->rope.cosines, d->host_rope.cosines, n_bytes));
        KVR_TRY(kvr_dev_put(d->dev, d->rope.sines, d->host_rope.sines, n_bytes));
    }
    d->rope_frame = frame0;
    return KVR_OK;
}

static enum kvr_status put_time(struct kvr_dit *d, const float *t, int n_frames)
{
    const int64_t n = (int64_t)n_frames * d->c->freq_dim;

    for (int f = 0; f < n_frames; f++)
        kvr_time_sinusoid(t[f], d->c->freq_dim, d->host_sinusoid + (int64_t)f * d->c->freq_dim);
    if (kvr_dit_on_device(d))
        KVR_TRY(kvr_dev_put(d->dev, d->sinusoid, d->host_sinusoid, (size_t)n * sizeof(float)));
    tap(d, "sinusoid", d->sinusoid, n);
    return KVR_OK;
}

static enum kvr_status embed_time(struct kvr_dit *d, int n_frames)
{
    const int64_t dim = d->c->dim;

    KVR_TRY(linear(d, n_frames, d->sinusoid, d->m->time0, d->time_hidden));
    d->ops->silu(d->dev, n_frames * dim, d->time_hidden, d->time_hidden);
    KVR_TRY(linear(d, n_frames, d->time_hidden, d->m->time2, d->time_embed));
    tap(d, "time_embed", d->time_embed, n_frames * dim);
    d->ops->silu(d->dev, n_frames * dim, d->time_embed, d->silu);
    KVR_TRY(linear(d, n_frames, d->silu, d->m->time_proj, d->time_mod));
    tap(d, "time_mod", d->time_mod, n_frames * 6 * dim);
    return KVR_OK;
}

/* Allocates the F32 buffers that are needed by attention without tensor cores, by a cache that is
 * not BF16, and by feature reuse. */
static enum kvr_status need_wide(struct kvr_dit *d, const struct kvr_rows *r)
{
    const int64_t n = r->n * r->d;

    KVR_TRY(kvr_buf_reserve(&d->wide_scratch, d->dev, KVR_MEM_ACT, 3 * (size_t)n * sizeof(float)));
    for (int i = 0; i < 3; i++)
        d->wide[i] = (float *)d->wide_scratch.p + i * n;
    d->cross_work.acc = d->wide[2];
    return KVR_OK;
}

/* Appends keys and values to the cache, converted from BF16 to F32. k is NULL if the cache already
 * has them. */
static enum kvr_status append(struct kvr_dit *d, const struct kvr_rows *r, struct kvr_cache *cache,
                              int i, const void *k, const void *v)
{
    const size_t n = (size_t)(r->n * r->d);

    if (!d->flow.narrow || !k)
        return kvr_cache_append(cache, i, k, v);
    kvr_values_to_f32(d->dev, d->wide[0], k, KVR_BF16, n);
    kvr_values_to_f32(d->dev, d->wide[1], v, KVR_BF16, n);
    return kvr_cache_append(cache, i, d->wide[0], d->wide[1]);
}

/* Prepares d->query, so that the attention kernel applies RMSNorm and RoPE to the queries while
 * loading them. Computes 1 / RMS of each token's query from the sums of squares that the GEMM of
 * the queries wrote. */
static void norm_later(struct kvr_dit *d, const struct kvr_rows *r, const float *w, bool rotates)
{
    d->ops->query_inverses(d->dev, r->n, d->flow.squares, kvr_linear_squares(r->d), r->d, d->c->eps,
                           d->inverses);
    d->query = (struct kvr_query_norm){ d->inverses, w, rotates ? d->rope.cosines : NULL,
                                        rotates ? d->rope.sines : NULL };
}

static void rotate(struct kvr_dit *d, const struct kvr_rows *r, const struct kvr_block *b, void *q,
                   void *to_q, void *to_k)
{
    const struct kvr_flow_angles a = angles(d);
    const float *const both[2] = { b->norm_q, b->norm_k }, *const keys[2] = { b->norm_k, NULL };

    if (d->query.inverses)
        kvr_flow_rms_rope(&d->flow, r, keys, &a, (void *const[2]){ d->k, NULL },
                          (void *const[2]){ to_k, NULL });
    else
        kvr_flow_rms_rope(&d->flow, r, both, &a, (void *const[2]){ q, d->k },
                          (void *const[2]){ to_q, to_k });
}

/* Computes queries, keys and values, and applies RMSNorm and RoPE to queries and keys. For queries,
 * the attention kernel may apply them later. Keys and values are written to a BF16 cache in
 * place. */
static enum kvr_status attention_inputs(struct kvr_dit *d, int i, const struct kvr_rows *r,
                                        struct kvr_cache *cache)
{
    const struct kvr_block *b = &d->m->blocks[i];
    const struct kvr_linear *const qkv[3] = { b->q, b->k, b->v };
    const struct kvr_flow_norm norm = modulated(r, d->mod, 0, 6);
    const int64_t n = r->n * r->d;
    const bool later = d->flow.fuses && !d->tap && kvr_cache_attends_bf16(cache);
    void *const q = d->flow.narrow && !later ? d->ctx : d->q; /* queries before RoPE */
    void *k = d->k, *v = d->v;                                /* keys and values after RoPE */
    kvr_bf16 *there[2];
    const bool in_place = d->flow.narrow && kvr_cache_current(cache, &there[0], &there[1]);

    if (in_place) {
        k = there[0];
        v = there[1];
    } else if (d->flow.narrow) {
        KVR_TRY(need_wide(d, r));
        k = d->wide[2];
    }
    KVR_TRY(begin(d, i, "self_attn_in", r, &norm, 3, qkv, (void *const[]){ q, d->k, v }));
    d->query = (struct kvr_query_norm){ 0 };
    if (later && d->flow.squared)
        norm_later(d, r, b->norm_q, true);
    else if (later) { /* no sums of squares for norm_later(): rotate() normalizes */
        d->q = d->ctx;
        d->ctx = q;
    }
    rotate(d, r, b, q, d->q, k);
    tap_flow(d, i, "q_rope", d->q, n);
    tap_flow(d, i, "k_rope", k, n);
    tap_flow(d, i, "v", v, n);
    return append(d, r, cache, i, in_place ? NULL : k, in_place ? NULL : v);
}

static enum kvr_status attend(struct kvr_dit *d, int i, const struct kvr_rows *r,
                              struct kvr_cache *cache)
{
    const size_t n = (size_t)(r->n * r->d);

    if (!d->flow.narrow)
        return kvr_cache_attend(cache, i, d->q, d->ctx);
    if (d->query.inverses)
        return kvr_cache_attend_normed(cache, i, d->q, &d->query, d->ctx);
    if (kvr_cache_attends_bf16(cache))
        return kvr_cache_attend_bf16(cache, i, d->q, d->ctx);
    KVR_TRY(need_wide(d, r));
    kvr_values_to_f32(d->dev, d->wide[0], d->q, KVR_BF16, n);
    KVR_TRY(kvr_cache_attend(cache, i, d->wide[0], d->wide[1]));
    kvr_values_from_f32(d->dev, d->ctx, KVR_BF16, d->wide[1], n);
    return KVR_OK;
}

static enum kvr_status cross_attend(struct kvr_dit *d, int i, const struct kvr_rows *r)
{
    const size_t n = (size_t)(r->n * r->d);
    const struct kvr_cross *cross = &d->cross[i];

    if (!d->flow.narrow) {
        d->ops->cross_attend(d->dev, r, cross, &d->cross_work, d->q, d->ctx);
        return KVR_OK;
    }
    if (d->ops->cross_attend_bf16(d->dev, r, cross, &d->cross_work, d->q, d->ctx))
        return KVR_OK;
    KVR_TRY(need_wide(d, r));
    kvr_values_to_f32(d->dev, d->wide[0], d->q, KVR_BF16, n);
    d->ops->cross_attend(d->dev, r, cross, &d->cross_work, d->wide[0], d->wide[1]);
    kvr_values_from_f32(d->dev, d->ctx, KVR_BF16, d->wide[1], n);
    return KVR_OK;
}

static enum kvr_status self_attention(struct kvr_dit *d, int i, const struct kvr_rows *r,
                                      struct kvr_cache *cache)
{
    const struct kvr_flow_in ctx = { .x = d->ctx, .columns = r->d };
    enum kvr_status st;

    KVR_TRY(attention_inputs(d, i, r, cache));
    kvr_phase_begin(d->phases, KVR_DIT_ATTEND);
    st = attend(d, i, r, cache);
    kvr_phase_end(d->phases, KVR_DIT_ATTEND);
    KVR_TRY(st);
    tap_flow(d, i, "self_attn_ctx", d->ctx, r->n * r->d);
    return end(d, i, "self_attn_out", r, ctx, d->m->blocks[i].o, d->mod + 2 * r->d);
}

static enum kvr_status cross_attention(struct kvr_dit *d, int i, const struct kvr_rows *r)
{
    const struct kvr_block *b = &d->m->blocks[i];
    const struct kvr_flow_norm norm = { b->norm3_w, b->norm3_b, 0 };
    const struct kvr_flow_in ctx = { .x = d->ctx, .columns = r->d };
    enum kvr_status st = KVR_OK;
    bool done = false, later;

    KVR_TRY(begin(d, i, "cross_attn_in", r, &norm, 1, (const struct kvr_linear *const[]){ b->cq },
                  &d->q));
    later = d->flow.squared && !d->tap;
    if (later)
        norm_later(d, r, b->cross_norm_q, false);
    else
        kvr_flow_rms(&d->flow, r, b->cross_norm_q, d->q);
    kvr_phase_begin(d->phases, KVR_DIT_CROSS);
    if (later)
        done = d->ops->cross_attend_normed(d->dev, r, &d->cross[i], &d->cross_work, d->q, &d->query,
                                           d->ctx);
    if (later && !done) /* no attention kernel that normalizes the queries was available */
        kvr_flow_rms(&d->flow, r, b->cross_norm_q, d->q);
    if (!done)
        st = cross_attend(d, i, r);
    kvr_phase_end(d->phases, KVR_DIT_CROSS);
    KVR_TRY(st);
    return end(d, i, "cross_attn_out", r, ctx, b->co, NULL);
}

static enum kvr_status feed_forward(struct kvr_dit *d, int i, const struct kvr_rows *r)
{
    const struct kvr_block *b = &d->m->blocks[i];
    const struct kvr_flow_norm norm = modulated(r, d->mod, 3, 6);
    struct kvr_flow_in hidden;

    KVR_TRY(begin_gelu(d, i, "ffn_in", r, &norm, b->ffn0, d->ffn, &hidden));
    return end(d, i, "ffn_out", r, hidden, b->ffn2, d->mod + 5 * r->d);
}

static enum kvr_status head(struct kvr_dit *d, const struct kvr_rows *r,
                            const struct kvr_patching *p, float *out)
{
    const struct kvr_flow_norm norm = modulated(r, d->head_mod, 0, 2);
    struct kvr_flow_in in;
    enum kvr_status st;

    d->ops->add_modulation(d->dev, p->n_frames, 2, r->d, d->m->head_modulation, d->time_embed, true,
                           d->head_mod);
    in = kvr_flow_norm(&d->flow, r, &norm, false);
    kvr_phase_begin(d->phases, KVR_DIT_LINEAR);
    st = kvr_flow_out(&d->flow, r, in, d->m->head, d->patches);
    kvr_phase_end(d->phases, KVR_DIT_LINEAR);
    KVR_TRY(st);
    tap(d, "head", d->patches, r->n * kvr_linear_n(d->m->head));
    d->ops->unpatchify(d->dev, p, d->patches, out);
    return KVR_OK;
}

/* Sets flow.x to the embeddings of the patches of the latents. */
static enum kvr_status embed_patches(struct kvr_dit *d, const struct kvr_rows *r,
                                     const struct kvr_patching *p, const float *latents)
{
    struct kvr_flow_in in;
    enum kvr_status st;

    d->ops->patchify(d->dev, p, latents, d->patches);
    kvr_phase_begin(d->phases, KVR_DIT_LINEAR);
    in = kvr_flow_floats(&d->flow, r->n, kvr_linear_k(d->m->patch), d->patches);
    st = kvr_flow_layers(&d->flow, r, in, 1, (const struct kvr_linear *const[]){ d->m->patch },
                         &d->flow.x);
    kvr_phase_end(d->phases, KVR_DIT_LINEAR);
    d->flow.left = (struct kvr_residual){ 0 };
    tap_flow(d, -1, "patch_tokens", d->flow.x, r->n * r->d);
    return st;
}

/* ---- reuse of features -------------------------------------------------------------------- */

/* Returns in F32 the input of the first block or the output of the last block (flow.x), which
 * feature reuse stores and compares. */
static enum kvr_status wide_x(struct kvr_dit *d, const struct kvr_rows *r, float **out)
{
    kvr_flow_flush(&d->flow, r);
    *out = d->flow.x;
    if (!d->flow.narrow)
        return KVR_OK;
    KVR_TRY(need_wide(d, r));
    kvr_values_to_f32(d->dev, d->wide[0], d->flow.x, KVR_BF16, (size_t)(r->n * r->d));
    *out = d->wide[0];
    return KVR_OK;
}

static enum kvr_status reuse_skip(struct kvr_dit *d, const struct kvr_rows *r,
                                  const struct kvr_pass *pass, bool *skip)
{
    const size_t n = (size_t)(r->n * r->d);
    float *x;

    *skip = false;
    if (!d->reuse.on)
        return KVR_OK;
    KVR_TRY(wide_x(d, r, &x));
    KVR_TRY(kvr_reuse_skip(&d->reuse, pass, x, skip));
    if (*skip && d->flow.narrow)
        kvr_values_from_f32(d->dev, d->flow.x, KVR_BF16, x, n);
    else if (*skip && d->flow.rounds)
        kvr_values_round(d->dev, KVR_BF16, x, n);
    return KVR_OK;
}

static enum kvr_status check_pass(const struct kvr_dit *d, const struct kvr_pass *pass)
{
    if (pass->n_frames != d->c->frames_per_chunk)
        return kvr_fail(
            KVR_EINVAL,
            "dit: a forward pass over %d latent frames was requested, need %d (one chunk)",
            pass->n_frames, d->c->frames_per_chunk);
    if (pass->frame0 < 0 || !(pass->shift >= 0) ||
        pass->frame0 + pass->shift > MAX_FRAMES - pass->n_frames)
        return kvr_fail(
            KVR_EINVAL,
            "dit: latent frames %d..%d, shifted by the shot's offset of %g, would have RoPE "
            "positions %g..%g, need 0..%d: generate fewer frames",
            pass->frame0, pass->frame0 + pass->n_frames - 1, pass->shift,
            pass->frame0 + pass->shift, pass->frame0 + pass->n_frames - 1 + pass->shift,
            MAX_FRAMES - 1);
    if (!d->has_prompt)
        return kvr_fail(KVR_EINVAL, "dit: a forward pass was requested before a prompt was set");
    return KVR_OK;
}

/* Runs the forward pass on the device. The host has already written the RoPE angles and the
 * sinusoids of the timesteps. */
static enum kvr_status network(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                               const struct kvr_pass *pass, float *out)
{
    const struct kvr_model_config *c = d->c;
    const struct kvr_patching p = { pass->n_frames, c->in_dim,  c->latent_h,
                                    c->latent_w,    c->patch_h, c->patch_w };
    const struct kvr_rows r = { .n = (int64_t)pass->n_frames * d->tokens_per_frame,
                                .d = c->dim,
                                .tokens_per_frame = d->tokens_per_frame };
    float *end_x;
    bool skip;

    KVR_TRY(embed_time(d, pass->n_frames));
    KVR_TRY(embed_patches(d, &r, &p, x));
    KVR_TRY(reuse_skip(d, &r, pass, &skip));
    for (int i = 0; i < c->n_layers && !skip; i++) {
        float *const before = d->mod;

        d->mod = d->mod_before;
        d->mod_before = before;
        d->ops->add_modulation(d->dev, pass->n_frames, 6, c->dim, d->m->blocks[i].modulation,
                               d->time_mod, false, d->mod);
        KVR_TRY(self_attention(d, i, &r, cache));
        KVR_TRY(cross_attention(d, i, &r));
        KVR_TRY(feed_forward(d, i, &r));
        if (d->tap)
            kvr_flow_flush(&d->flow, &r);
        tap_flow(d, i, "out", d->flow.x, r.n * r.d);
    }
    if (!skip && d->reuse.on) {
        KVR_TRY(wide_x(d, &r, &end_x));
        kvr_reuse_keep(&d->reuse, pass, end_x);
    }
    KVR_TRY(head(d, &r, &p, out));
    return taps_done(d);
}

/* ---- graphs --------------------------------------------------------------------------- */

/* Whether this forward pass runs the same operations on the same addresses as an earlier pass of
 * its chunk, so that both can use one CUDA graph. */
static bool repeats(struct kvr_dit *d, const struct kvr_cache *cache, const struct kvr_pass *pass)
{
    if (!d->graphs || d->tap || d->reuse.on || d->recording.failed || pass->clean)
        return false;
    if (pass->index > 0)
        return kvr_cache_only_reads(cache);
    /* the first pass of a chunk: the open graph has addresses of the chunk before */
    kvr_dev_graph_close(d->dev, &d->recording.graph);
    return false;
}

static enum kvr_status record(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                              const struct kvr_pass *pass, float *out)
{
    struct kvr_dit_recording *r = &d->recording;
    enum kvr_status st, ended;

    kvr_dev_graph_close(d->dev, &r->graph);
    *r = (struct kvr_dit_recording){ .cache = cache, .x = x, .out = out, .frame0 = pass->frame0 };
    KVR_TRY(kvr_dev_sync(d->dev)); /* reports earlier errors before the capture */
    KVR_TRY(kvr_dev_record_begin(d->dev));
    st = network(d, cache, x, pass, out);
    ended = kvr_dev_record_end(d->dev, &r->graph);
    r->failed = st != KVR_OK || ended != KVR_OK;
    if (r->failed)
        kvr_dev_graph_close(d->dev, &r->graph);
    else
        d->graph_counts.captured++;
    return KVR_OK;
}

/* Launches the CUDA graph of the forward pass, which is captured first if necessary. If the capture
 * fails, the pass runs without a graph and reports its own errors. */
static enum kvr_status network_by_graph(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                                        const struct kvr_pass *pass, float *out)
{
    const struct kvr_dit_recording *r = &d->recording;
    enum kvr_status st;

    if (!r->graph || r->cache != cache || r->x != x || r->out != out || r->frame0 != pass->frame0)
        KVR_TRY(record(d, cache, x, pass, out));
    if (!r->graph)
        return network(d, cache, x, pass, out);
    kvr_phase_begin(d->phases, KVR_DIT_GRAPH);
    st = kvr_dev_replay(d->dev, r->graph);
    kvr_phase_end(d->phases, KVR_DIT_GRAPH);
    d->graph_counts.launched++;
    return st;
}

static enum kvr_status forward(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                               const float *t, const struct kvr_pass *pass, float *out)
{
    KVR_TRY(rope_move(d, pass->frame0 + pass->shift));
    KVR_TRY(put_time(d, t, pass->n_frames));
    return repeats(d, cache, pass) ? network_by_graph(d, cache, x, pass, out)
                                   : network(d, cache, x, pass, out);
}

enum kvr_status kvr_dit_forward(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                                const float *t, const struct kvr_pass *pass, float *out)
{
    enum kvr_status st;

    KVR_TRY(check_pass(d, pass));
    kvr_phase_begin(d->phases, KVR_DIT_ALL);
    st = forward(d, cache, x, t, pass, out);
    kvr_phase_end(d->phases, KVR_DIT_ALL);
    return st;
}
