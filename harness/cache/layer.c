/* layer.c - opens a layer, decodes its segments, and computes their sizes. */
#include "harness/cache/layer_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/rows.h"
#include "harness/device/names.h"

enum kvr_status kvr_layer_open(struct kvr_layer *l, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme,
                               const struct kvr_layer_geometry *geo,
                               struct kvr_layer_scratch *scratch, bool dry)
{
    const struct kvr_scheme_opts *o = &scheme->opts;

    *l = (struct kvr_layer){
        .dev = dev, .scheme = scheme, .geo = *geo, .scratch = scratch, .dry = dry
    };
    for (int t = 0; t < scheme->n_tiers && !dry; t++)
        if (kvr_codec_joint(scheme->k[t])) {
            if (!kvr_dev_in_host(dev))
                return kvr_fail(
                    KVR_EUNSUPPORTED,
                    "%s: a method written in Python runs only on device cpu " KVR_DEVICE_USE_CPU,
                    scheme->name);
            KVR_TRY(kvr_codec_start_joint(scheme->k[t]));
        }
    return kvr_layer_budget(o->layer_budget, o->budget_min, o->budget_max, geo->layer,
                            geo->n_layers, &l->beta);
}

void kvr_layer_scratch_free(struct kvr_layer_scratch *s)
{
    kvr_buf_free(&s->gather);
    kvr_buf_free(&s->work);
    kvr_buf_free(&s->map);
    kvr_buf_free(&s->back);
    kvr_buf_free(&s->keep);
    kvr_buf_free(&s->weights);
    kvr_buf_free(&s->rows);
    kvr_buf_free(&s->pick);
    kvr_buf_free(&s->pick_host);
    kvr_buf_free(&s->all_keys);
    kvr_buf_free(&s->all_values);
    kvr_summaries_free(&s->summaries);
}

void kvr_layer_reset(struct kvr_layer *l)
{
    for (int i = 0; i < l->n; i++)
        kvr_segment_free(&l->seg[i]);
    l->n = 0;
    l->n_coded = 0;
    l->n_active = 0;
    l->study_side_bytes = 0;
    l->varying = (struct kvr_varying){ 0 };
    for (int i = 0; i < 2; i++) {
        kvr_buf_free(&l->state[i].buf);
        kvr_buf_free(&l->state[i].next);
        l->state[i] = (struct kvr_policy_state){ 0 };
    }
}

void kvr_layer_close(struct kvr_layer *l)
{
    kvr_layer_reset(l);
    free(l->seg);
    *l = (struct kvr_layer){ 0 };
}

/* Whether any token of the segment is in one of the runs of visible tokens `seen`. */
static bool any_visible(const struct kvr_segment *s, const struct kvr_visible *seen)
{
    for (int i = 0; i < seen->n; i++)
        if (kvr_segment_lower(s, seen->run[i][0]) < kvr_segment_lower(s, seen->run[i][1]))
            return true;
    return false;
}

void kvr_layer_evict(struct kvr_layer *l, const struct kvr_visible *seen)
{
    int n = 0;

    for (int i = 0; i < l->n; i++) {
        if (any_visible(&l->seg[i], seen))
            l->seg[n++] = l->seg[i];
        else
            kvr_segment_free(&l->seg[i]);
    }
    l->n = n;
}

enum kvr_status kvr_layer_read_joint(const struct kvr_layer *l, const struct kvr_visible *seen)
{
    for (int i = 0; i < l->n; i++)
        if (l->seg[i].k.stage[0].joint && (!seen || any_visible(&l->seg[i], seen)))
            KVR_TRY(kvr_joint_read(l->seg[i].k.stage[0].joint));
    return KVR_OK;
}

void kvr_layer_drop_joint(const struct kvr_layer *l)
{
    for (int i = 0; i < l->n; i++)
        kvr_joint_drop(l->seg[i].k.stage[0].joint);
}

int kvr_layer_spans(const struct kvr_layer *l, const struct kvr_visible *seen,
                    struct kvr_span *spans)
{
    int n = 0;

    for (int i = 0; i < l->n; i++)
        for (int r = 0; r < seen->n; r++) {
            const struct kvr_segment *s = &l->seg[i];
            const int64_t a = kvr_segment_lower(s, seen->run[r][0]);
            const int64_t b = kvr_segment_lower(s, seen->run[r][1]);

            if (a >= b)
                continue;
            if (spans && s->kind == KVR_SEG_CODED)
                spans[n] = (struct kvr_span){
                    .seg = s, .t0 = a, .n = b - a, .log_m = s->weight ? logf((float)s->weight) : 0
                };
            else if (spans)
                spans[n] = (struct kvr_span){ .seg = s, .n = 1, .log_m = logf((float)(b - a)) };
            n++;
        }
    return n;
}

/* scatter() for values in device memory. Consecutive tokens are decoded to their positions in
 * `out`. If the segment has a list of token indices (`listed`), its tokens are first decoded to the
 * layer's scratch and then copied to their positions. */
static void scatter_device(const struct kvr_layer *l, const struct kvr_segment *s,
                           const struct kvr_packed *p, int64_t a, int64_t b, int64_t begin,
                           size_t width, float *out)
{
    const int heads = p->shape.n_heads;
    const struct kvr_buf *work = &l->scratch->work; /* allocated when p was encoded */
    const int64_t step = (int64_t)(work->n_bytes / (width * sizeof *out));

    if (s->kind == KVR_SEG_CODED && !s->listed) {
        kvr_codec_decode(p, a, b - a, 0, heads, out + (size_t)(s->tok0 + a - begin) * width);
    } else if (s->kind == KVR_SEG_POOLED) {
        kvr_codec_decode(p, 0, 1, 0, heads, work->p);
        kvr_rows_repeat(l->dev, work->p, width, b - a,
                        out + (size_t)(kvr_segment_token(s, a) - begin) * width);
    } else {
        for (int64_t t = a, n; t < b; t += n) {
            n = b - t < step ? b - t : step;
            kvr_codec_decode(p, t, n, 0, heads, work->p);
            kvr_rows_scatter(l->dev, work->p, width, (const int32_t *)s->list.p + t, n, begin, out);
        }
    }
}

/* scatter() for a segment that has only some of the layer's heads. It copies one token at a
 * time. */
static void scatter_heads(const struct kvr_layer *l, const struct kvr_segment *s,
                          const struct kvr_packed *p, int64_t begin, int64_t end, size_t width,
                          float *out)
{
    const int d = l->geo.head_dim, heads = p->shape.n_heads;
    const bool host = kvr_dev_in_host(l->dev);

    for (int64_t i = kvr_segment_lower(s, begin); i < kvr_segment_lower(s, end); i++) {
        const int64_t t = kvr_segment_token(s, i) - begin;
        float *to = out + (size_t)t * width + (size_t)(s->head0 * d);

        if (host) {
            kvr_codec_decode(p, i, 1, 0, heads, to);
            continue;
        }
        kvr_codec_decode(p, i, 1, 0, heads, l->scratch->work.p);
        kvr_dev_copy(l->dev, to, l->scratch->work.p, (size_t)(heads * d) * sizeof *out);
    }
}

/* Decodes the tokens of a segment in [begin, end), and writes their values to their rows of `out`.
 * Row 0 of `out` is token `begin`. */
static void scatter(const struct kvr_layer *l, const struct kvr_segment *s,
                    const struct kvr_packed *p, int64_t begin, int64_t end, size_t width,
                    float *out)
{
    enum { STEP = 64 };
    const int64_t a = kvr_segment_lower(s, begin), b = kvr_segment_lower(s, end);
    const int heads = p->shape.n_heads;

    if (a >= b || s->kind == KVR_SEG_ZERO)
        return;
    if (heads != l->geo.n_heads) {
        scatter_heads(l, s, p, begin, end, width, out);
        return;
    }
    if (!kvr_dev_in_host(l->dev)) {
        scatter_device(l, s, p, a, b, begin, width, out);
        return;
    }
    if (s->kind == KVR_SEG_CODED && !s->listed) {
        const int64_t n_steps = (b - a + STEP - 1) / STEP;

#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n_steps; i++) {
            const int64_t t = a + i * STEP, n = b - t < STEP ? b - t : STEP;

            kvr_codec_decode(p, t, n, 0, heads, out + (size_t)(s->tok0 + t - begin) * width);
        }
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = a; i < b; i++)
        kvr_codec_decode(p, s->kind == KVR_SEG_CODED ? i : 0, 1, 0, heads,
                         out + (size_t)(kvr_segment_token(s, i) - begin) * width);
}

void kvr_layer_dense(const struct kvr_layer *l, int64_t begin, int64_t end, float *k, float *v,
                     uint8_t *held)
{
    const size_t width = (size_t)l->geo.n_heads * (size_t)l->geo.head_dim;
    const size_t n = (size_t)(end - begin);

    if (k)
        kvr_dev_zero(l->dev, k, n * width * sizeof *k);
    if (v)
        kvr_dev_zero(l->dev, v, n * width * sizeof *v);
    if (held)
        memset(held, 0, n);
    for (int i = 0; i < l->n; i++) {
        const struct kvr_segment *s = &l->seg[i];

        if (k)
            scatter(l, s, &s->k, begin, end, width, k);
        if (v)
            scatter(l, s, &s->v, begin, end, width, v);
        if (held)
            for (int64_t t = kvr_segment_lower(s, begin); t < kvr_segment_lower(s, end); t++)
                held[kvr_segment_token(s, t) - begin] = 1;
    }
}

static size_t packed_nominal(const struct kvr_packed *p)
{
    const struct kvr_stage_bytes b = kvr_packed_nominal(p);

    return b.codes + b.meta;
}

size_t kvr_layer_moments_bytes(const struct kvr_layer *l, const struct kvr_codec *k, int heads)
{
    const struct kvr_correction *c = kvr_correction_at(l->scheme->opts.correction);

    return c && !kvr_codec_is_raw(k)
               ? (size_t)c->moments * (size_t)heads * (size_t)l->geo.head_dim * sizeof(kvr_f16)
               : 0;
}

void kvr_varying_add(struct kvr_varying *to, const struct kvr_varying *more)
{
    to->elements += more->elements;
    to->bytes += more->bytes;
    to->most_bits = more->most_bits > to->most_bits ? more->most_bits : to->most_bits;
}

size_t kvr_layer_held_tokens_bytes(const struct kvr_layer *l)
{
    const struct kvr_retention *part = l->scheme->retention.part;

    return part && part->keeps_tokens ? l->state[1].buf.n_bytes : 0;
}

size_t kvr_layer_nominal(const struct kvr_layer *l)
{
    const bool study = kvr_scheme_is_study(l->scheme);
    size_t total = l->study_side_bytes + kvr_layer_held_tokens_bytes(l);

    for (int i = 0; i < l->n; i++) {
        const struct kvr_segment *s = &l->seg[i];

        total += packed_nominal(&s->k) + packed_nominal(&s->v);
        if (s->kind == KVR_SEG_CODED)
            total += kvr_layer_moments_bytes(l, s->k.codec, s->k.shape.n_heads);
        if (s->listed && !study) /* for NAME@study, study_side_bytes includes the token indices */
            total += (size_t)s->n_tok * sizeof(int32_t);
    }
    return total;
}

size_t kvr_layer_resident(const struct kvr_layer *l, size_t *codes)
{
    size_t total = l->state[0].buf.n_bytes + l->state[1].buf.n_bytes;

    *codes = 0;
    for (int i = 0; i < l->n; i++) {
        const struct kvr_segment *s = &l->seg[i];

        total += kvr_segment_resident(s);
        for (int t = 0; t < KVR_MAX_STAGES; t++)
            *codes += s->k.stage[t].codes.n_bytes + s->v.stage[t].codes.n_bytes;
    }
    return total;
}

static void add_packed(const struct kvr_packed *p, bool dry, struct kvr_layer_bytes *out)
{
    if (dry && p->codec) {
        const struct kvr_stage_bytes b = kvr_packed_nominal(p);

        out->kv += b.codes;
        out->meta += b.meta;
    }
    for (int t = 0; t < KVR_MAX_STAGES && !dry; t++) {
        out->kv += p->stage[t].codes.n_bytes;
        out->meta += p->stage[t].meta.n_bytes;
    }
}

struct kvr_layer_bytes kvr_layer_segment_held(const struct kvr_layer *l,
                                              const struct kvr_segment *s)
{
    struct kvr_layer_bytes b = { 0 };

    add_packed(&s->k, l->dry, &b);
    add_packed(&s->v, l->dry, &b);
    if (s->listed)
        b.meta += (size_t)s->n_tok * sizeof(int32_t);
    if (s->kind == KVR_SEG_CODED)
        b.meta += kvr_layer_moments_bytes(l, s->k.codec, s->k.shape.n_heads);
    return b;
}

void kvr_layer_count_produced(struct kvr_layer *l, const struct kvr_segment *s)
{
    const struct kvr_layer_bytes b = kvr_layer_segment_held(l, s);

    l->new_bytes.kv += b.kv;
    l->new_bytes.meta += b.meta;
}

struct kvr_layer_bytes kvr_layer_held(const struct kvr_layer *l)
{
    struct kvr_layer_bytes total = { .meta = l->state[0].buf.n_bytes + l->state[1].buf.n_bytes };

    for (int i = 0; i < l->n; i++) {
        const struct kvr_layer_bytes b = kvr_layer_segment_held(l, &l->seg[i]);

        total.kv += b.kv;
        total.meta += b.meta;
    }
    return total;
}
