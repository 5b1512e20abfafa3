/* dit.c - the forward: patches, time, blocks, head. Formulas: Wan 2.1 causal, in the order of the
 * reference. All memory is reserved when the network is opened. */
#include "harness/engine/reuse.h"
#include "harness/engine/dit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/engine/model_impl.h"
#include "harness/engine/ops.h"

/* The reference's table of positions in time ends here. */
enum { MAX_FRAMES = 1024 };

struct kvr_dit {
    struct kvr_dev *dev;
    const struct kvr_model *m;
    const struct kvr_model_config *c;
    const struct kvr_ops *ops;
    int tokens_per_frame; /* S */
    struct kvr_buf arena;
    /* N = frames_per_chunk * S tokens, T = text_len, F = frames_per_chunk, d, f: see config */
    float *x, *y, *q, *k, *v, *ctx;         /* [N,d]; x is the residual stream */
    float *ffn;                             /* [N,f] */
    float *patches;                         /* [N, C*ph*pw]: in, and the head's out */
    float *sinusoid;                        /* [F, freq_dim] */
    float *time_hidden, *time_embed, *silu; /* [F,d] */
    float *time_mod, *mod;                  /* [F,6,d]: e0, and with one block's modulation */
    float *head_mod;                        /* [F,2,d] */
    float *text, *text_hidden, *text_k;     /* [T,d] */
    double *cosines, *sines;                /* [N, D/2] of frames from rope_frame on */
    int rope_frame;
    struct kvr_cross *cross; /* [n_layers] */
    bool has_prompt;
    kvr_dit_tap_fn *tap;
    void *tap_ctx;
    struct kvr_dit_times times;
    struct kvr_reuse reuse;
};

/* ---- open ----------------------------------------------------------------------------- */

struct carver {
    char *base; /* NULL: only count */
    size_t used;
};

static void *carve(struct carver *a, int64_t count, size_t size)
{
    void *p = a->base ? a->base + a->used : NULL;

    a->used += ((size_t)count * size + 63) / 64 * 64;
    return p;
}

static float *carve_floats(struct carver *a, int64_t count)
{
    return carve(a, count, sizeof(float));
}

static void lay_out(struct kvr_dit *d, struct carver *a)
{
    const struct kvr_model_config *c = d->c;
    const int64_t F = c->frames_per_chunk, N = F * d->tokens_per_frame, dim = c->dim;
    const int64_t T = c->text_len, D = c->dim / c->n_heads;
    float **const tokens[] = { &d->x, &d->y, &d->q, &d->k, &d->v, &d->ctx };
    float **const frames[] = { &d->time_hidden, &d->time_embed, &d->silu };
    float **const words[] = { &d->text, &d->text_hidden, &d->text_k };

    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        *tokens[i] = carve_floats(a, N * dim);
    d->ffn = carve_floats(a, N * c->ffn_dim);
    d->patches = carve_floats(a, N * c->in_dim * c->patch_h * c->patch_w);
    d->sinusoid = carve_floats(a, F * c->freq_dim);
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        *frames[i] = carve_floats(a, F * dim);
    d->time_mod = carve_floats(a, F * 6 * dim);
    d->mod = carve_floats(a, F * 6 * dim);
    d->head_mod = carve_floats(a, F * 2 * dim);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        *words[i] = carve_floats(a, T * dim);
    d->cosines = carve(a, N * D / 2, sizeof(double));
    d->sines = carve(a, N * D / 2, sizeof(double));
    for (int i = 0; i < c->n_layers; i++) {
        d->cross[i].k = carve_floats(a, kvr_cross_k_floats((int)T, c->n_heads, (int)D));
        d->cross[i].v = carve_floats(a, kvr_cross_v_floats((int)T, c->n_heads, (int)D));
    }
}

/* Row and column angles never change; those of time are those of frame 0 until rope_move. */
static void rope_fill(struct kvr_dit *d)
{
    const struct kvr_model_config *c = d->c;
    const int head_dim = c->dim / c->n_heads, gw = c->latent_w / c->patch_w;

    for (int64_t n = 0; n < (int64_t)c->frames_per_chunk * d->tokens_per_frame; n++) {
        int at = (int)(n % d->tokens_per_frame);

        kvr_rope_angles(head_dim, 0, at / gw, at % gw, d->cosines + n * (head_dim / 2),
                        d->sines + n * (head_dim / 2));
    }
    d->rope_frame = -1;
}

static void rope_move(struct kvr_dit *d, int frame0)
{
    const int head_dim = d->c->dim / d->c->n_heads, half = head_dim / 2;
    const size_t n_time = (size_t)(half - 2 * (half / 3));

    if (d->rope_frame == frame0)
        return;
    for (int f = 0; f < d->c->frames_per_chunk; f++) {
        double *co = d->cosines + (int64_t)f * d->tokens_per_frame * half;
        double *si = d->sines + (int64_t)f * d->tokens_per_frame * half;

        kvr_rope_angles(head_dim, frame0 + f, 0, 0, co, si); /* the first token is (0, 0) */
        for (int64_t n = 1; n < d->tokens_per_frame; n++) {
            memcpy(co + n * half, co, n_time * sizeof *co);
            memcpy(si + n * half, si, n_time * sizeof *si);
        }
    }
    d->rope_frame = frame0;
}

static enum kvr_status prepare_linears(const struct kvr_dit *d)
{
    const struct kvr_model *m = d->m;
    const int64_t F = d->c->frames_per_chunk, T = d->c->text_len, N = F * d->tokens_per_frame;
    const struct kvr_block *b = &m->blocks[0]; /* every block has the same shapes */
    const struct {
        const struct kvr_linear *l;
        int64_t m;
    } all[] = {
        { m->patch, N }, { m->text0, T },     { m->text2, T }, { m->time0, F },
        { m->time2, F }, { m->time_proj, F }, { m->head, N },  { b->q, N },
        { b->ck, T },    { b->ffn0, N },      { b->ffn2, N },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        KVR_TRY(kvr_linear_prepare(all[i].l, all[i].m));
    return KVR_OK;
}

enum kvr_status kvr_dit_open(struct kvr_dit **out, struct kvr_dev *dev, struct kvr_model *m)
{
    struct kvr_dit *d = calloc(1, sizeof *d);
    struct carver a = { 0 };
    enum kvr_status st;

    if (!d)
        return kvr_fail(KVR_ENOMEM, "dit: no memory");
    d->dev = dev;
    d->m = m;
    d->c = kvr_model_config(m);
    d->ops = &kvr_ops_cpu;
    d->tokens_per_frame = kvr_model_tokens_per_frame(m);
    d->cross = calloc((size_t)d->c->n_layers, sizeof *d->cross);
    if (!d->cross) {
        free(d);
        return kvr_fail(KVR_ENOMEM, "dit: no memory");
    }
    for (int i = 0; i < d->c->n_layers; i++)
        d->cross[i] = (struct kvr_cross){ .n_keys = d->c->text_len,
                                          .n_heads = d->c->n_heads,
                                          .head_dim = d->c->dim / d->c->n_heads };
    lay_out(d, &a);
    st = kvr_buf_alloc(&d->arena, dev, KVR_MEM_ACT, a.used);
    if (st == KVR_OK) {
        a = (struct carver){ .base = d->arena.p };
        lay_out(d, &a);
        rope_fill(d);
        st = prepare_linears(d);
    }
    if (st != KVR_OK) {
        kvr_dit_close(&d);
        return st;
    }
    *out = d;
    return KVR_OK;
}

void kvr_dit_close(struct kvr_dit **pd)
{
    struct kvr_dit *d = pd ? *pd : NULL;

    if (!d)
        return;
    kvr_reuse_close(&d->reuse);
    kvr_buf_free(&d->arena);
    free(d->cross);
    free(d);
    *pd = NULL;
}

enum kvr_status kvr_dit_set_reuse(struct kvr_dit *d, const struct kvr_reuse_opts *opts)
{
    kvr_reuse_close(&d->reuse);
    if (!opts)
        return KVR_OK;
    return kvr_reuse_open(&d->reuse, d->dev, opts->threshold, opts->warmup, d->c->n_steps,
                          (int64_t)d->c->frames_per_chunk * d->tokens_per_frame * d->c->dim);
}

void kvr_dit_reuse_counts(const struct kvr_dit *d, struct kvr_reuse_counts *out)
{
    *out = (struct kvr_reuse_counts){ d->reuse.n_compared, d->reuse.n_skipped, d->reuse.total };
}

const struct kvr_model *kvr_dit_model(const struct kvr_dit *d)
{
    return d->m;
}

struct kvr_dev *kvr_dit_dev(const struct kvr_dit *d)
{
    return d->dev;
}

void kvr_dit_tap(struct kvr_dit *d, kvr_dit_tap_fn *fn, void *ctx)
{
    d->tap = fn;
    d->tap_ctx = ctx;
}

void kvr_dit_times(const struct kvr_dit *d, struct kvr_dit_times *out)
{
    *out = d->times;
}

/* ---- pieces --------------------------------------------------------------------------- */

static void tap(const struct kvr_dit *d, const char *name, const float *data, int64_t n)
{
    if (d->tap)
        d->tap(d->tap_ctx, name, data, n);
}

static void tap_block(const struct kvr_dit *d, int block, const char *what, const float *data,
                      int64_t n)
{
    char name[64];

    if (!d->tap)
        return;
    snprintf(name, sizeof name, "block%d.%s", block, what);
    d->tap(d->tap_ctx, name, data, n);
}

static enum kvr_status linears(struct kvr_dit *d, int64_t rows, const float *x, int n,
                               const struct kvr_linear *const *l, float *const *y)
{
    int64_t start = kvr_now_ns();
    enum kvr_status st = kvr_linear_run(d->m->gemm, rows, x, n, l, y);

    d->times.linear_ns += kvr_now_ns() - start;
    return st;
}

static enum kvr_status linear(struct kvr_dit *d, int64_t rows, const float *x,
                              const struct kvr_linear *l, float *y)
{
    return linears(d, rows, x, 1, &l, &y);
}

/* out[f][row] = base[row] + per_frame[f][row or 0]. */
static void add_modulation(const float *base, const float *per_frame, int n_frames, int n_rows,
                           int d, bool same_for_rows, float *out)
{
    for (int f = 0; f < n_frames; f++)
        for (int r = 0; r < n_rows; r++) {
            int64_t from = same_for_rows ? f : (int64_t)f * n_rows + r;

            for (int i = 0; i < d; i++)
                out[((int64_t)f * n_rows + r) * d + i] =
                    base[(int64_t)r * d + i] + per_frame[from * d + i];
        }
}

/* ---- prompt --------------------------------------------------------------------------- */

enum kvr_status kvr_dit_set_prompt(struct kvr_dit *d, const float *P)
{
    const struct kvr_model *m = d->m;
    const int64_t T = d->c->text_len, dim = d->c->dim;
    const struct kvr_rows rows = { .n = T, .d = d->c->dim, .tokens_per_frame = 1 };

    d->has_prompt = false;
    KVR_TRY(linear(d, T, P, m->text0, d->text_hidden));
    d->ops->gelu(T * dim, d->text_hidden);
    KVR_TRY(linear(d, T, d->text_hidden, m->text2, d->text));
    tap(d, "text_embed", d->text, T * dim);
    for (int i = 0; i < d->c->n_layers; i++) {
        const struct kvr_block *b = &m->blocks[i];
        const struct kvr_linear *const kv[2] = { b->ck, b->cv };
        float *const to[2] = { d->text_k, d->text_hidden };

        KVR_TRY(linears(d, T, d->text, 2, kv, to));
        d->ops->rms_norm(&rows, b->cross_norm_k, d->c->eps, d->text_k);
        tap_block(d, i, "cross_k", d->text_k, T * dim);
        tap_block(d, i, "cross_v", d->text_hidden, T * dim);
        d->ops->cross_pack(&d->cross[i], d->text_k, d->text_hidden);
    }
    d->has_prompt = true;
    return KVR_OK;
}

/* ---- forward -------------------------------------------------------------------------- */

static enum kvr_status embed_time(struct kvr_dit *d, const float *t, int n_frames)
{
    const int64_t dim = d->c->dim;

    for (int f = 0; f < n_frames; f++)
        kvr_time_sinusoid(t[f], d->c->freq_dim, d->sinusoid + (int64_t)f * d->c->freq_dim);
    tap(d, "sinusoid", d->sinusoid, (int64_t)n_frames * d->c->freq_dim);
    KVR_TRY(linear(d, n_frames, d->sinusoid, d->m->time0, d->time_hidden));
    d->ops->silu(n_frames * dim, d->time_hidden, d->time_hidden);
    KVR_TRY(linear(d, n_frames, d->time_hidden, d->m->time2, d->time_embed));
    tap(d, "time_embed", d->time_embed, n_frames * dim);
    d->ops->silu(n_frames * dim, d->time_embed, d->silu);
    KVR_TRY(linear(d, n_frames, d->silu, d->m->time_proj, d->time_mod));
    tap(d, "time_mod", d->time_mod, n_frames * 6 * dim);
    return KVR_OK;
}

static enum kvr_status self_attention(struct kvr_dit *d, int i, const struct kvr_rows *r,
                                      struct kvr_cache *cache)
{
    const struct kvr_block *b = &d->m->blocks[i];
    const int head_dim = r->d / d->c->n_heads;
    const int64_t n = r->n * r->d, stride = 6 * (int64_t)r->d;
    const struct kvr_linear *const qkv[3] = { b->q, b->k, b->v };
    float *const to[3] = { d->q, d->k, d->v };

    d->ops->norm_modulate(r, d->x, d->mod, d->mod + r->d, stride, d->c->eps, d->y);
    tap_block(d, i, "self_attn_in", d->y, n);
    KVR_TRY(linears(d, r->n, d->y, 3, qkv, to));
    d->ops->rms_norm(r, b->norm_q, d->c->eps, d->q);
    d->ops->rms_norm(r, b->norm_k, d->c->eps, d->k);
    d->ops->rope(r, head_dim, d->cosines, d->sines, d->q);
    d->ops->rope(r, head_dim, d->cosines, d->sines, d->k);
    tap_block(d, i, "q_rope", d->q, n);
    tap_block(d, i, "k_rope", d->k, n);
    tap_block(d, i, "v", d->v, n);
    KVR_TRY(kvr_cache_append(cache, i, d->k, d->v));
    KVR_TRY(kvr_cache_attend(cache, i, d->q, d->ctx));
    tap_block(d, i, "self_attn_ctx", d->ctx, n);
    KVR_TRY(linear(d, r->n, d->ctx, b->o, d->y));
    tap_block(d, i, "self_attn_out", d->y, n);
    d->ops->add(r, d->y, d->mod + 2 * r->d, stride, d->x);
    return KVR_OK;
}

static enum kvr_status cross_attention(struct kvr_dit *d, int i, const struct kvr_rows *r)
{
    const struct kvr_block *b = &d->m->blocks[i];
    int64_t start;

    d->ops->norm_affine(r, d->x, b->norm3_w, b->norm3_b, d->c->eps, d->y);
    tap_block(d, i, "cross_attn_in", d->y, r->n * r->d);
    KVR_TRY(linear(d, r->n, d->y, b->cq, d->q));
    d->ops->rms_norm(r, b->cross_norm_q, d->c->eps, d->q);
    start = kvr_now_ns();
    d->ops->cross_attend(r, &d->cross[i], d->q, d->ctx);
    d->times.cross_ns += kvr_now_ns() - start;
    KVR_TRY(linear(d, r->n, d->ctx, b->co, d->y));
    tap_block(d, i, "cross_attn_out", d->y, r->n * r->d);
    d->ops->add(r, d->y, NULL, 0, d->x);
    return KVR_OK;
}

static enum kvr_status feed_forward(struct kvr_dit *d, int i, const struct kvr_rows *r)
{
    const struct kvr_block *b = &d->m->blocks[i];
    const int64_t stride = 6 * (int64_t)r->d;

    d->ops->norm_modulate(r, d->x, d->mod + 3 * r->d, d->mod + 4 * r->d, stride, d->c->eps, d->y);
    tap_block(d, i, "ffn_in", d->y, r->n * r->d);
    KVR_TRY(linear(d, r->n, d->y, b->ffn0, d->ffn));
    d->ops->gelu(r->n * d->c->ffn_dim, d->ffn);
    KVR_TRY(linear(d, r->n, d->ffn, b->ffn2, d->y));
    tap_block(d, i, "ffn_out", d->y, r->n * r->d);
    d->ops->add(r, d->y, d->mod + 5 * r->d, stride, d->x);
    return KVR_OK;
}

static enum kvr_status head(struct kvr_dit *d, const struct kvr_rows *r,
                            const struct kvr_patching *p, float *out)
{
    const int64_t stride = 2 * (int64_t)r->d;

    add_modulation(d->m->head_modulation, d->time_embed, p->n_frames, 2, r->d, true, d->head_mod);
    d->ops->norm_modulate(r, d->x, d->head_mod, d->head_mod + r->d, stride, d->c->eps, d->y);
    KVR_TRY(linear(d, r->n, d->y, d->m->head, d->patches));
    tap(d, "head", d->patches, r->n * kvr_linear_n(d->m->head));
    d->ops->unpatchify(p, d->patches, out);
    return KVR_OK;
}

enum kvr_status kvr_dit_forward(struct kvr_dit *d, struct kvr_cache *cache, const float *x,
                                const float *t, const struct kvr_pass *pass, float *out)
{
    const struct kvr_model_config *c = d->c;
    const struct kvr_patching p = { pass->n_frames, c->in_dim,  c->latent_h,
                                    c->latent_w,    c->patch_h, c->patch_w };
    const struct kvr_rows r = { .n = (int64_t)pass->n_frames * d->tokens_per_frame,
                                .d = c->dim,
                                .tokens_per_frame = d->tokens_per_frame };
    struct kvr_cache_times before, after;
    int64_t start = kvr_now_ns();
    int64_t linear_before = d->times.linear_ns, cross_before = d->times.cross_ns;

    if (pass->n_frames != c->frames_per_chunk)
        return kvr_fail(KVR_EINVAL, "dit: a pass of %d frames, the model's chunks have %d",
                        pass->n_frames, c->frames_per_chunk);
    if (pass->frame0 < 0 || pass->frame0 > MAX_FRAMES - pass->n_frames)
        return kvr_fail(KVR_EINVAL, "dit: frames %d..%d, positions end at %d", pass->frame0,
                        pass->frame0 + pass->n_frames - 1, MAX_FRAMES - 1);
    if (!d->has_prompt)
        return kvr_fail(KVR_EINVAL, "dit: no prompt was set");
    kvr_cache_times(cache, &before);
    rope_move(d, pass->frame0);
    KVR_TRY(embed_time(d, t, pass->n_frames));
    d->ops->patchify(&p, x, d->patches);
    KVR_TRY(linear(d, r.n, d->patches, d->m->patch, d->x));
    tap(d, "patch_tokens", d->x, r.n * r.d);
    const bool skip = kvr_reuse_skip(&d->reuse, pass, d->x);

    for (int i = 0; i < c->n_layers && !skip; i++) {
        add_modulation(d->m->blocks[i].modulation, d->time_mod, pass->n_frames, 6, c->dim, false,
                       d->mod);
        KVR_TRY(self_attention(d, i, &r, cache));
        KVR_TRY(cross_attention(d, i, &r));
        KVR_TRY(feed_forward(d, i, &r));
        tap_block(d, i, "out", d->x, r.n * r.d);
    }
    if (!skip)
        kvr_reuse_keep(&d->reuse, pass, d->x);
    KVR_TRY(head(d, &r, &p, out));
    kvr_cache_times(cache, &after);
    d->times.other_ns += kvr_now_ns() - start - (d->times.linear_ns - linear_before) -
                         (d->times.cross_ns - cross_before) - (after.encode_ns - before.encode_ns) -
                         (after.decode_ns - before.decode_ns) -
                         (after.attend_ns - before.attend_ns) - (after.watch_ns - before.watch_ns);
    return KVR_OK;
}
