/* dit_open.c - opens the diffusion transformer, allocates its memory, and reports its sizes. */
#include "harness/engine/dit_impl.h"

#include <stdlib.h>
#include <string.h>

#include "harness/device/names.h"
#include "methods/kernels/rope.h"

struct carver {
    char *base; /* start of the memory, or NULL to compute only its size */
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

static void lay_out_rope(const struct kvr_dit *d, struct carver *a, struct kvr_dit_rope *rope)
{
    const int64_t N = (int64_t)d->c->frames_per_chunk * d->tokens_per_frame;

    rope->cosines = carve(a, N * (d->c->dim / d->c->n_heads / 2), sizeof(double));
    rope->sines = carve(a, N * (d->c->dim / d->c->n_heads / 2), sizeof(double));
}

/* Assigns host memory to the RoPE angles and time sinusoids, which the host computes and the device
 * reads. */
static void lay_out_host(struct kvr_dit *d, struct carver *a)
{
    lay_out_rope(d, a, &d->host_rope);
    d->host_sinusoid = carve_floats(a, (int64_t)d->c->frames_per_chunk * d->c->freq_dim);
}

static void lay_out(struct kvr_dit *d, struct carver *a)
{
    const struct kvr_model_config *c = d->c;
    const int64_t F = c->frames_per_chunk, N = F * d->tokens_per_frame, dim = c->dim;
    const int64_t T = c->text_len, D = c->dim / c->n_heads;
    void **const tokens[] = { &d->flow.x, &d->flow.y, &d->q, &d->k, &d->v, &d->ctx };
    float **const frames[] = { &d->time_hidden, &d->time_embed, &d->silu };
    float **const words[] = { &d->text, &d->text_hidden, &d->text_k };

    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        *tokens[i] = carve(a, N * dim, kvr_flow_size(&d->flow));
    d->ffn =
        carve(a, N * (d->flow.narrow ? kvr_gemm_columns(d->flow.gemm, c->ffn_dim) : c->ffn_dim),
              kvr_flow_size(&d->flow));
    if (d->flow.fuses) {
        d->flow.squares = carve_floats(a, N * kvr_linear_squares(c->dim));
        d->inverses = carve_floats(a, N);
    }
    d->patches = carve_floats(a, N * c->in_dim * c->patch_h * c->patch_w);
    d->sinusoid = carve_floats(a, F * c->freq_dim);
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        *frames[i] = carve_floats(a, F * dim);
    d->time_mod = carve_floats(a, F * 6 * dim);
    d->mod = carve_floats(a, F * 6 * dim);
    d->mod_before = d->flow.narrow ? carve_floats(a, F * 6 * dim) : d->mod;
    d->head_mod = carve_floats(a, F * 2 * dim);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        *words[i] = carve_floats(a, T * dim);
    lay_out_rope(d, a, &d->rope);
    if (kvr_dit_on_device(d))
        d->prompt = carve_floats(a, T * c->text_dim);
    if (d->ops->cross_works) {
        d->cross_work.max = carve_floats(a, N * c->n_heads);
        d->cross_work.sum = carve_floats(a, N * c->n_heads);
        d->cross_work.acc = d->flow.narrow ? NULL : d->flow.y; /* unused in cross-attention */
    }
    for (int i = 0; i < c->n_layers; i++) {
        struct kvr_cross none = { 0 }, *cross = d->cross ? &d->cross[i] : &none; /* sizes only */

        cross->k = carve_floats(a, kvr_cross_k_floats((int)T, c->n_heads, (int)D));
        cross->v = carve_floats(a, kvr_cross_v_floats((int)T, c->n_heads, (int)D));
    }
}

/* Computes the RoPE angles of rows and columns, which are fixed, and the time angles of frame 0,
 * which rope_move() changes. */
static void rope_fill(struct kvr_dit *d)
{
    const struct kvr_model_config *c = d->c;
    const int head_dim = c->dim / c->n_heads, gw = c->latent_w / c->patch_w;

    for (int64_t n = 0; n < (int64_t)c->frames_per_chunk * d->tokens_per_frame; n++) {
        int at = (int)(n % d->tokens_per_frame);

        kvr_rope_angles(head_dim, 0, at / gw, at % gw, d->host_rope.cosines + n * (head_dim / 2),
                        d->host_rope.sines + n * (head_dim / 2));
    }
    d->rope_frame = -1;
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
        { m->text0, T },     { m->text2, T }, { m->time0, F }, { m->time2, F },
        { m->time_proj, F }, { m->head, N },  { b->ck, T },
    };
    const struct {
        const struct kvr_linear *l;
        enum kvr_linear_end end;
    } between[] = {
        { m->patch, KVR_LINEAR_ROUNDED }, { b->q, KVR_LINEAR_ROUNDED },  { b->o, KVR_LINEAR_ADDED },
        { b->ffn0, KVR_LINEAR_GELU },     { b->ffn2, KVR_LINEAR_ADDED },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        KVR_TRY(kvr_linear_prepare(all[i].l, all[i].m));
    for (size_t i = 0; i < sizeof between / sizeof *between; i++)
        KVR_TRY(kvr_flow_prepare(&d->flow, between[i].l, N, between[i].end));
    return KVR_OK;
}

static enum kvr_status open_memory(struct kvr_dit *d)
{
    struct carver a = { 0 }, host = { 0 };

    lay_out(d, &a);
    KVR_TRY(kvr_buf_alloc(&d->arena, d->dev, KVR_MEM_ACT, a.used));
    a = (struct carver){ .base = d->arena.p };
    lay_out(d, &a);
    d->host_rope = d->rope;
    d->host_sinusoid = d->sinusoid;
    if (!kvr_dit_on_device(d))
        return KVR_OK;
    lay_out_host(d, &host);
    KVR_TRY(kvr_buf_alloc(&d->host, kvr_dev_host(d->dev), KVR_MEM_ACT, host.used));
    host = (struct carver){ .base = d->host.p };
    lay_out_host(d, &host);
    return KVR_OK;
}

size_t kvr_dit_bytes(const struct kvr_model_config *c)
{
    struct kvr_dit d = { .c = c,
                         .ops = kvr_ops_cpu(),
                         .tokens_per_frame =
                             c->latent_h / c->patch_h * (c->latent_w / c->patch_w) };
    struct carver a = { 0 };

    lay_out(&d, &a);
    return a.used;
}

static enum kvr_status check_shapes(const struct kvr_dit *d)
{
    const int head_dim = d->c->dim / d->c->n_heads;

    if (d->ops->max_head_dim && head_dim > d->ops->max_head_dim)
        return kvr_fail(KVR_EUNSUPPORTED, "dit: head_dim is %d, device %s supports at most %d",
                        head_dim, kvr_dev_name(d->dev), d->ops->max_head_dim);
    return KVR_OK;
}

enum kvr_status kvr_dit_open(struct kvr_dit **out, struct kvr_dev *dev, struct kvr_model *m)
{
    struct kvr_dit *d;
    enum kvr_status st;

    if (kvr_model_is_lm(m))
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "dit: a language model was given, need a video model, which generates frames");
    d = calloc(1, sizeof *d);
    if (!d)
        return kvr_fail(KVR_ENOMEM, "dit: out of memory");
    d->dev = dev;
    d->m = m;
    d->c = kvr_model_config(m);
    d->ops = kvr_ops_of(dev);
    kvr_flow_open(&d->flow, dev, m->gemm, d->c->eps);
    d->tokens_per_frame = kvr_model_tokens_per_frame(m);
    d->cross = calloc((size_t)d->c->n_layers, sizeof *d->cross);
    if (!d->cross) {
        free(d);
        return kvr_fail(KVR_ENOMEM, "dit: out of memory");
    }
    for (int i = 0; i < d->c->n_layers; i++)
        d->cross[i] = (struct kvr_cross){ .n_keys = d->c->text_len,
                                          .n_heads = d->c->n_heads,
                                          .head_dim = d->c->dim / d->c->n_heads,
                                          .compute = kvr_gemm_compute(m->gemm) };
    st = check_shapes(d);
    if (st == KVR_OK)
        st = open_memory(d);
    if (st == KVR_OK) {
        rope_fill(d);
        st = prepare_linears(d);
    }
    if (st == KVR_OK)
        st = kvr_phases_open(&d->phases, dev, KVR_DIT_N_PHASES);
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
    kvr_dev_graph_close(d->dev, &d->recording.graph);
    kvr_reuse_close(&d->reuse);
    kvr_phases_close(&d->phases);
    kvr_gemm_free_scratch(d->m->gemm); /* the scratch of linear layers */
    kvr_buf_free(&d->arena);
    kvr_buf_free(&d->wide_scratch);
    kvr_buf_free(&d->host);
    kvr_buf_free(&d->shown);
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

void kvr_dit_set_graphs(struct kvr_dit *d, bool on)
{
    kvr_dev_graph_close(d->dev, &d->recording.graph);
    d->recording = (struct kvr_dit_recording){ 0 };
    d->graphs = on && kvr_dev_records(d->dev);
}

void kvr_dit_graph_counts(const struct kvr_dit *d, struct kvr_graph_counts *out)
{
    *out = d->graph_counts;
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

enum kvr_status kvr_dit_times(const struct kvr_dit *d, struct kvr_dit_times *out)
{
    int64_t ns[KVR_DIT_N_PHASES];

    KVR_TRY(kvr_phases_read(d->phases, ns));
    *out = (struct kvr_dit_times){
        .linear_ns = ns[KVR_DIT_LINEAR],
        .cross_ns = ns[KVR_DIT_CROSS],
        .other_ns = ns[KVR_DIT_ALL] - ns[KVR_DIT_LINEAR] - ns[KVR_DIT_CROSS] - ns[KVR_DIT_ATTEND] -
                    ns[KVR_DIT_GRAPH],
        .graph_ns = ns[KVR_DIT_GRAPH],
    };
    return KVR_OK;
}
