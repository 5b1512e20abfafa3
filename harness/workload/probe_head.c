/* probe_head.c - decodes the keys and values of one KV head to double precision, from the method's
 * cache and from the BF16 copy of the cache. */
#include "harness/workload/probe_impl.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t padded(int64_t n)
{
    return (n + KVR_PROBE_PAD - 1) / KVR_PROBE_PAD * KVR_PROBE_PAD;
}

int64_t kvr_probe_index_of(const struct kvr_visible *seen, int64_t tok)
{
    int64_t at = 0;

    for (int r = 0; r < seen->n; r++) {
        if (tok >= seen->run[r][0] && tok < seen->run[r][1])
            return at + tok - seen->run[r][0];
        at += seen->run[r][1] - seen->run[r][0];
    }
    return -1;
}

/* Stores a token's key (transposed) or value at token index `at` of the attention call. */
static void put(struct kvr_probe_head *x, int side, bool values, int64_t at, const double *row)
{
    if (values) {
        memcpy(x->v[side] + at * x->wide, row, (size_t)x->d * sizeof *row);
        return;
    }
    for (int c = 0; c < x->d; c++)
        x->kt[side][c * x->stride + at] = row[c];
}

/* Decodes the i-th token of a segment as attention reads it. If `dense`, attention reads decoded
 * tokens, rounded to the type of uncompressed tokens (shape->exact). On other paths, attention
 * transforms queries to the codec's space (such as Hadamard) instead of keys back from it. Here the
 * keys are transformed back, which gives the same scores up to F32 rounding. */
static void decode(const struct kvr_probe_head *x, const struct kvr_packed *p, int h, bool dense,
                   int64_t i, double *row)
{
    const int d = x->d;

    if (dense) {
        kvr_codec_decode(p, i, 1, h, 1, x->row);
        for (int c = 0; c < d; c++)
            row[c] = x->view->shape->exact == KVR_BF16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(x->row[c]))
                                                       : x->row[c];
        return;
    }
    kvr_codec_decode_rotated(p, i, 1, h, 1, x->row);
    kvr_codec_transform(p->codec, NULL, KVR_FROM_SPACE, x->row, 1, h, 1, d);
    for (int c = 0; c < d; c++)
        row[c] = x->row[c];
}

static void read_segment(struct kvr_probe_head *x, int side, const struct kvr_segment *s,
                         bool values)
{
    const bool dense = side == METHOD && kvr_path_copies(x->view->path);
    const struct kvr_packed *p = values ? &s->v : &s->k;
    const int h = x->h - s->head0; /* index among the segment's heads */
    double row[KVR_CORRECTION_MAX_D];

    if (s->kind == KVR_SEG_ZERO || !kvr_segment_has_head(s, x->h))
        return;
    assert(s->kind == KVR_SEG_POOLED || s->kind == KVR_SEG_CODED);
    if (s->kind == KVR_SEG_POOLED)
        decode(x, p, h, dense, 0, row);
    for (int64_t i = 0; i < s->n_tok; i++) {
        const int64_t at = kvr_probe_index_of(x->view->seen, kvr_segment_token(s, i));

        if (at < 0)
            continue;
        if (s->kind == KVR_SEG_CODED)
            decode(x, p, h, dense, i, row);
        put(x, side, values, at, row);
    }
}

/* Subtracts the mean over the d channels from a key x [d], and rounds it to `exact`, the type of
 * uncompressed tokens. For methods with KVR_CURRENT_DEMEAN, the cache does the same to the current
 * chunk's keys. */
static void demean(float *x, int d, enum kvr_dtype exact)
{
    kvr_bf16 rounded[KVR_CORRECTION_MAX_D];
    float sum = 0;

    for (int c = 0; c < d; c++)
        sum += x[c];
    for (int c = 0; c < d; c++)
        x[c] -= sum / (float)d;
    if (exact == KVR_BF16) {
        kvr_from_f32(rounded, KVR_BF16, x, (size_t)d);
        kvr_to_f32(x, rounded, KVR_BF16, (size_t)d);
    }
}

static void read_current(struct kvr_probe_head *x, bool values)
{
    const struct kvr_cache_view *w = x->view;
    const int d = x->d;
    const size_t size = kvr_dtype_size(w->shape->exact);
    const char *base = values ? w->v : w->k;
    double row[KVR_CORRECTION_MAX_D];

    for (int64_t t = 0; t < w->n_tok; t++) {
        kvr_to_f32(x->row, base + (size_t)((t * x->kv_heads + x->h) * d) * size, w->shape->exact,
                   (size_t)d);
        for (int c = 0; c < d; c++)
            row[c] = x->row[c];
        put(x, BF16, values, x->n_past + t, row);
        if (!values && w->scheme->opts.current == KVR_CURRENT_DEMEAN) {
            demean(x->row, d, w->shape->exact);
            for (int c = 0; c < d; c++)
                row[c] = x->row[c];
        }
        put(x, METHOD, values, x->n_past + t, row);
    }
}

/* Finds how the method's cache stores each past token of head x->h (x->fate): encoded, pooled, as
 * zero, or not at all (dropped). */
static void find_fates(struct kvr_probe_head *x)
{
    static const uint8_t fate_of[] = { [KVR_SEG_CODED] = KVR_FATE_CODED,
                                       [KVR_SEG_POOLED] = KVR_FATE_POOLED,
                                       [KVR_SEG_ZERO] = KVR_FATE_ZERO };

    memset(x->fate, KVR_FATE_DROPPED, (size_t)x->n_past * sizeof *x->fate);
    memset(x->log_m, 0, (size_t)x->n_past * sizeof *x->log_m);
    for (int i = 0; i < x->layer[METHOD]->n; i++) {
        const struct kvr_segment *s = &x->layer[METHOD]->seg[i];

        for (int64_t t = 0; t < s->n_tok && kvr_segment_has_head(s, x->h); t++) {
            const int64_t at = kvr_probe_index_of(x->view->seen, kvr_segment_token(s, t));

            if (at < 0)
                continue;
            x->fate[at] = s->summary ? KVR_FATE_POOLED : fate_of[s->kind];
            x->serial[at] = s->serial;
            x->log_m[at] = s->weight ? log((double)s->weight) : 0;
        }
    }
}

void kvr_probe_head_read(struct kvr_probe_head *x, int h)
{
    x->h = h;
    x->hq = h * (x->view->shape->n_heads / x->kv_heads);
    find_fates(x);
    for (int side = 0; side < N_SIDES; side++) {
        memset(x->kt[side], 0, (size_t)x->d * (size_t)x->stride * sizeof(double));
        memset(x->v[side], 0, (size_t)x->wide * (size_t)x->stride * sizeof(double));
        for (int i = 0; i < x->layer[side]->n; i++)
            for (int values = 0; values < 2; values++)
                read_segment(x, side, &x->layer[side]->seg[i], values);
    }
    for (int values = 0; values < 2; values++)
        read_current(x, values);
}

static enum kvr_status alloc(struct kvr_probe_head *x)
{
    const size_t n = (size_t)x->stride, d = (size_t)x->d, wide = (size_t)x->wide;
    bool ok = true;

    for (int side = 0; side < N_SIDES; side++) {
        x->kt[side] = malloc(d * n * sizeof(double));
        x->v[side] = malloc(wide * n * sizeof(double));
        ok = ok && x->kt[side] && x->v[side];
    }
    x->fate = calloc((size_t)x->n_past + 1, sizeof *x->fate);
    x->log_m = calloc((size_t)x->n_past + 1, sizeof *x->log_m);
    x->age = calloc((size_t)x->n_past + 1, sizeof *x->age);
    x->token = calloc((size_t)x->n_past + 1, sizeof *x->token);
    x->serial = calloc((size_t)x->n_past + 1, sizeof *x->serial);
    x->row = malloc(d * sizeof *x->row);
    if (ok && x->fate && x->log_m && x->age && x->token && x->serial && x->row)
        return KVR_OK;
    kvr_probe_head_close(x);
    return kvr_fail(KVR_ENOMEM, "probe: out of memory while allocating %lld keys", (long long)x->n);
}

enum kvr_status kvr_probe_head_open(struct kvr_probe_head *x, const struct kvr_cache_view *view,
                                    const struct kvr_layer *bf16)
{
    const struct kvr_cache_shape *s = view->shape;
    const int64_t chunk = (int64_t)s->frames_per_chunk * s->tokens_per_frame;
    int64_t at = 0;

    *x = (struct kvr_probe_head){ .view = view, .layer = { view->past, bf16 }, .d = s->head_dim };
    x->kv_heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    for (int r = 0; r < view->seen->n; r++)
        x->n_past += view->seen->run[r][1] - view->seen->run[r][0];
    x->n = x->n_past + view->n_tok;
    x->wide = (int)padded(x->d);
    x->stride = padded(x->n);
    KVR_TRY(alloc(x));
    for (int r = 0; r < view->seen->n; r++)
        for (int64_t t = view->seen->run[r][0]; t < view->seen->run[r][1]; t++) {
            x->token[at] = t;
            x->age[at++] = view->pass->chunk - (int)(t / chunk);
        }
    find_fates(x); /* of head 0; kvr_probe_head_read() replaces them */
    return KVR_OK;
}

void kvr_probe_head_close(struct kvr_probe_head *x)
{
    for (int side = 0; side < N_SIDES; side++) {
        free(x->kt[side]);
        free(x->v[side]);
    }
    free(x->fate);
    free(x->log_m);
    free(x->age);
    free(x->token);
    free(x->serial);
    free(x->row);
    *x = (struct kvr_probe_head){ 0 };
}
