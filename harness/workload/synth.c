/* synth.c - draws synthetic keys, queries and values frame by frame, and writes them as a trace. */
#include "harness/workload/synth.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/workload/trace/write.h"

void kvr_synth_free(struct kvr_synth *s)
{
    free(s->mean);
    free(s->dev);
    free(s->rho);
    free(s->toward);
    memset(s, 0, sizeof *s);
}

enum kvr_status kvr_synth_outliers(struct kvr_synth *out, int head_dim, int outliers, double size,
                                   double rho, double r)
{
    const size_t d = (size_t)head_dim;

    memset(out, 0, sizeof *out);
    if (outliers < 0 || outliers > head_dim)
        return kvr_fail(KVR_EINVAL, "synth: %d outlier channels requested, need 0..%d (head_dim)",
                        outliers, head_dim);
    if (!(size >= 0 && size <= 1e4))
        return kvr_fail(KVR_EINVAL,
                        "synth: the magnitude of the outlier channels' mean is %g, need 0..1e4",
                        size);
    if (!(fabs(rho) <= 1))
        return kvr_fail(KVR_EINVAL, "synth: the correlation of adjacent frames is %g, need -1..1",
                        rho);
    if (!(fabs(r) <= 1))
        return kvr_fail(KVR_EINVAL,
                        "synth: the correlation of a token's query and key is %g, need -1..1", r);
    *out = (struct kvr_synth){
        .n_layers = 1, .n_heads = 1, .head_dim = head_dim, .n_passes = 1, .agreement = { 1 }
    };
    out->mean = calloc(KVR_SYNTH_SIDES * d, sizeof *out->mean);
    out->dev = calloc(KVR_SYNTH_SIDES * d, sizeof *out->dev);
    out->rho = calloc(KVR_SYNTH_SIDES, sizeof *out->rho);
    out->toward = calloc(1, sizeof *out->toward);
    if (!out->mean || !out->dev || !out->rho || !out->toward) {
        kvr_synth_free(out);
        return kvr_fail(KVR_ENOMEM, "synth: out of memory");
    }
    for (size_t i = 0; i < KVR_SYNTH_SIDES * d; i++)
        out->dev[i] = 1;
    /* Outlier channels are evenly spaced over the head, and their means have alternating signs. */
    for (int i = 0; i < outliers; i++) {
        const int c = (int)((int64_t)(2 * i + 1) * head_dim / (2 * outliers));

        out->mean[c] = (float)(i % 2 ? -size : size);
        out->dev[c] = (float)fmax(1, size / 4);
    }
    for (int i = 0; i < KVR_SYNTH_SIDES; i++)
        out->rho[i] = (float)rho;
    out->toward[0] = (float)r;
    return KVR_OK;
}

/* --- drawing ---------------------------------------------------------------------------- */

/* z is standard normal. A key, value or query is mean + dev * z of its channel. */
struct draw {
    const struct kvr_synth *s;
    const struct kvr_trace_layout *l;
    uint64_t seed;
    int passes;
    float *state;                   /* [L][K, V or Q][S][H or Hkv][D]: z of the last frame drawn */
    float *z[KVR_SYNTH_SIDES];      /* [F*S][heads][D]: z of the chunk */
    float *shown;                   /* [F*S][H][D]: normal samples (scratch) */
    kvr_bf16 *out[KVR_SYNTH_SIDES]; /* [F*S][heads][D]: mean + dev * z, in BF16 */
    int32_t *position;              /* [F*S][3]: frame, row and column */
};

static size_t heads_of(const struct draw *d, int side)
{
    return (size_t)(side == KVR_SYNTH_Q ? d->l->n_heads : d->l->n_kv_heads);
}

static size_t frame_elems(const struct draw *d, int side)
{
    return (size_t)d->l->tokens_per_frame * heads_of(d, side) * (size_t)d->l->head_dim;
}

/* Returns the index of the measured statistics to use for a layer and head. The measured trace may
 * have other numbers of layers and heads. */
static size_t measured(const struct draw *d, int layer, int side, size_t head)
{
    const struct kvr_synth *s = d->s;
    const size_t from = (size_t)layer * (size_t)s->n_layers / (size_t)d->l->n_layers;
    const size_t group = (size_t)d->l->n_heads / heads_of(d, side);

    return (from * KVR_SYNTH_SIDES + (size_t)side) * (size_t)s->n_heads +
           head * group % (size_t)s->n_heads;
}

/* Replaces the last frame's z in `state` by the z of `frame`: rho * z + sqrt(1 - rho^2) * eps, with
 * eps standard normal. */
static void step(const struct draw *d, int layer, int side, int frame, float *state)
{
    const size_t n = frame_elems(d, side), heads = heads_of(d, side), dim = (size_t)d->l->head_dim;

    kvr_normal(d->shown, n, d->seed, KVR_RNG_SYNTHETIC, (uint32_t)(layer * 8 + side),
               (uint32_t)frame, 0);
    for (size_t i = 0; i < n; i++) {
        const float rho = frame ? d->s->rho[measured(d, layer, side, i / dim % heads)] : 0;

        state[i] = rho * state[i] + sqrtf(1 - rho * rho) * d->shown[i];
    }
}

static size_t state_of(const struct draw *d, int layer, int side)
{
    const size_t kv = frame_elems(d, KVR_SYNTH_K), q = frame_elems(d, KVR_SYNTH_Q);

    return (size_t)layer * (2 * kv + q) + (size_t)side * kv;
}

/* Draws the samples z of the chunk's keys, values and queries. Queries have correlation `toward`
 * with the keys of their own tokens. */
static void draw_chunk(const struct draw *d, int layer, int frame0, int n_frames)
{
    const size_t dim = (size_t)d->l->head_dim, heads = (size_t)d->l->n_heads;
    const size_t group = heads / (size_t)d->l->n_kv_heads, n = frame_elems(d, KVR_SYNTH_Q);

    assert(n_frames > 0);
    for (int f = 0; f < n_frames; f++)
        for (int side = 0; side < KVR_SYNTH_SIDES; side++) {
            float *state = d->state + state_of(d, layer, side);

            step(d, layer, side, frame0 + f, state);
            memcpy(d->z[side] + (size_t)f * frame_elems(d, side), state,
                   frame_elems(d, side) * sizeof *state);
        }
    for (size_t i = 0; i < (size_t)n_frames * n; i++) {
        const size_t t = i / (heads * dim), h = i / dim % heads, c = i % dim;
        const size_t at = measured(d, layer, KVR_SYNTH_Q, h);
        const float r =
            d->s->toward[at / ((size_t)d->s->n_heads * KVR_SYNTH_SIDES) * (size_t)d->s->n_heads +
                         at % (size_t)d->s->n_heads];
        const float k = d->z[KVR_SYNTH_K][(t * (size_t)d->l->n_kv_heads + h / group) * dim + c];

        d->z[KVR_SYNTH_Q][i] = r * k + sqrtf(1 - r * r) * d->z[KVR_SYNTH_Q][i];
    }
}

/* Returns the correlation of the samples z of a pass and of the chunk's last pass, the cache-update
 * pass. If the measured trace has another number of passes, its pass at the same relative position
 * is used. */
static float agreement(const struct draw *d, int pass)
{
    if (pass == d->passes - 1)
        return 1;
    return d->s->agreement[(size_t)pass * (size_t)d->s->n_passes / (size_t)d->passes];
}

static void show_pass(const struct draw *d, int layer, int side, int chunk, int pass, int n_frames)
{
    const size_t n = (size_t)n_frames * frame_elems(d, side), heads = heads_of(d, side);
    const size_t dim = (size_t)d->l->head_dim, wide = (size_t)d->s->head_dim;
    const float a = agreement(d, pass), b = sqrtf(1 - a * a);

    if (a < 1)
        kvr_normal(d->shown, n, d->seed, KVR_RNG_SYNTHETIC, (uint32_t)(layer * 8 + 4 + side),
                   (uint32_t)(chunk * KVR_TRACE_MAX_PASSES + pass), 0);
    for (size_t i = 0; i < n; i++) {
        const size_t at = measured(d, layer, side, i / dim % heads) * wide + i % dim % wide;
        const float z = a < 1 ? a * d->z[side][i] + b * d->shown[i] : d->z[side][i];

        d->out[side][i] = kvr_f32_to_bf16(d->s->mean[at] + d->s->dev[at] * z);
    }
}

static struct kvr_tensor tensor_of(const struct draw *d, int side, int64_t n_tok)
{
    return (struct kvr_tensor){ .data = d->out[side],
                                .dtype = KVR_BF16,
                                .n_dims = 3,
                                .shape = { n_tok, (int64_t)heads_of(d, side), d->l->head_dim } };
}

static enum kvr_status put_pass(const struct draw *d, struct kvr_trace_writer *w, int layer,
                                const struct kvr_trace_pass *p)
{
    struct kvr_trace_call call = { .n_tok = (int64_t)p->n_frames * d->l->tokens_per_frame };

    for (int side = 0; side < KVR_SYNTH_SIDES; side++)
        show_pass(d, layer, side, p->chunk, p->index, p->n_frames);
    call.k = tensor_of(d, KVR_SYNTH_K, call.n_tok);
    call.v = tensor_of(d, KVR_SYNTH_V, call.n_tok);
    call.q = tensor_of(d, KVR_SYNTH_Q, call.n_tok);
    call.position = (struct kvr_tensor){ d->position, KVR_I32, 2, { call.n_tok, 3 } };
    return kvr_trace_put(w, p, layer, &call);
}

/* Writes all passes and layers of a chunk. After each pass but the last, the layer's `state` is
 * restored, so that each pass draws the same z. */
static enum kvr_status put_chunk(const struct draw *d, struct kvr_trace_writer *w, int chunk,
                                 int n_frames, float *saved_state)
{
    const int S = d->l->tokens_per_frame, frame0 = chunk * d->l->frames_per_chunk;
    const size_t layer_elems = state_of(d, 1, 0);

    for (int t = 0; t < n_frames * S; t++) {
        d->position[3 * t] = frame0 + t / S;
        d->position[3 * t + 1] = 0;
        d->position[3 * t + 2] = t % S;
    }
    for (int i = 0; i < d->passes; i++) {
        const struct kvr_trace_pass p = { .chunk = chunk,
                                          .index = i,
                                          .n_frames = n_frames,
                                          .clean = i == d->passes - 1,
                                          .queries = true };

        for (int l = 0; l < d->l->n_layers; l++) {
            float *state = d->state + (size_t)l * layer_elems;

            memcpy(saved_state, state, layer_elems * sizeof *saved_state);
            draw_chunk(d, l, frame0, n_frames);
            KVR_TRY(put_pass(d, w, l, &p));
            if (!p.clean)
                memcpy(state, saved_state, layer_elems * sizeof *saved_state);
        }
    }
    return KVR_OK;
}

static enum kvr_status put_chunks(const struct draw *d, struct kvr_trace_writer *w, int frames,
                                  float *saved_state, kvr_trace_progress_fn *progress, void *ctx)
{
    const int chunk = d->l->frames_per_chunk, n = (frames + chunk - 1) / chunk;

    for (int c = 0; c < n; c++) {
        const int here = frames - c * chunk < chunk ? frames - c * chunk : chunk;

        KVR_TRY(put_chunk(d, w, c, here, saved_state));
        if (progress && progress(ctx, c + 1, n))
            return kvr_fail(KVR_EINTERRUPTED, "synth: stopped by the user after chunk %d of %d",
                            c + 1, n);
    }
    return KVR_OK;
}

enum kvr_status kvr_synth_write(const struct kvr_synth *s, const struct kvr_trace_info *info,
                                int frames, int passes, const char *dir,
                                kvr_trace_progress_fn *progress, void *ctx, int64_t *bytes)
{
    struct draw d = { .s = s, .l = &info->layout, .seed = info->seed, .passes = passes };
    struct kvr_trace_writer *w = NULL;
    float *saved_state = NULL;
    size_t chunk;
    bool allocated = true;
    enum kvr_status st;

    if (frames < 1 || frames > KVR_TRACE_MAX_FRAMES)
        return kvr_fail(KVR_EINVAL, "synth: %d latent frames requested, need 1..%d", frames,
                        KVR_TRACE_MAX_FRAMES);
    if (passes < 1 || passes > KVR_TRACE_MAX_PASSES)
        return kvr_fail(KVR_EINVAL, "synth: %d forward passes per chunk requested, need 1..%d",
                        passes, KVR_TRACE_MAX_PASSES);
    KVR_TRY(kvr_trace_create(&w, dir, info));
    chunk = (size_t)d.l->frames_per_chunk;
    d.state = calloc(state_of(&d, d.l->n_layers, 0), sizeof *d.state);
    saved_state = malloc(state_of(&d, 1, 0) * sizeof *saved_state);
    d.shown = malloc(chunk * frame_elems(&d, KVR_SYNTH_Q) * sizeof *d.shown);
    d.position = malloc(chunk * (size_t)d.l->tokens_per_frame * 3 * sizeof *d.position);
    for (int i = 0; i < KVR_SYNTH_SIDES; i++) {
        d.z[i] = malloc(chunk * frame_elems(&d, i) * sizeof *d.z[i]);
        d.out[i] = malloc(chunk * frame_elems(&d, i) * sizeof *d.out[i]);
        allocated = allocated && d.z[i] && d.out[i];
    }
    st = allocated && d.state && saved_state && d.shown && d.position
             ? put_chunks(&d, w, frames, saved_state, progress, ctx)
             : kvr_fail(KVR_ENOMEM, "synth: out of memory while allocating a frame of %d layers",
                        d.l->n_layers);
    if (st == KVR_OK)
        st = kvr_trace_finish(&w, bytes);
    kvr_trace_drop(&w);
    for (int i = 0; i < KVR_SYNTH_SIDES; i++) {
        free(d.z[i]);
        free(d.out[i]);
    }
    free(d.state);
    free(saved_state);
    free(d.shown);
    free(d.position);
    return st;
}
