/* attend_tiles.c - divides spans into tiles of up to TILE tokens, and decodes tiles of one head. A
 * tile has tokens of one or several spans, which agree in rotation, INT8 requantization and causal
 * mask. */
#include "harness/cache/attend_cpu.h"

#include <math.h>
#include <string.h>

enum { AHEAD = 8 }; /* tokens to prefetch ahead */

bool kvr_span_coded(const struct kvr_span *s)
{
    return s->seg && s->seg->kind == KVR_SEG_CODED && !kvr_codec_is_raw(s->seg->k.codec);
}

bool kvr_span_rotated(const struct kvr_span *s, bool values)
{
    const struct kvr_packed *p = s->seg ? values ? &s->seg->v : &s->seg->k : NULL;

    return p && p->codec && kvr_codec_rotated(p->codec);
}

static void load(const struct kvr_attend_job *job, const struct part *p, int h, bool values,
                 float *out)
{
    const int d = job->head_dim;
    const struct kvr_span *s = p->span;

    if (s->seg && s->seg->kind == KVR_SEG_ZERO) {
        memset(out, 0, (size_t)(p->n * d) * sizeof *out);
    } else if (s->seg) {
        kvr_codec_decode_rotated(values ? &s->seg->v : &s->seg->k, s->t0 + p->t0, p->n,
                                 h - s->seg->head0, 1, out);
    } else {
        const size_t size = kvr_dtype_size(s->raw.dtype);
        const size_t row = (size_t)job->n_heads * (size_t)d * size; /* elements of all heads */
        const char *in = (const char *)(values ? s->raw.v : s->raw.k) +
                         (size_t)(s->t0 + p->t0) * row + (size_t)(h * d) * size;

        for (int t = 0; t < p->n; t++, in += row) {
            /* Prefetches the rows of one head, because hardware prefetchers do not follow large
             * strides. */
            if (t + AHEAD < p->n)
                for (size_t b = 0; b < (size_t)d * size; b += 64)
                    __builtin_prefetch(in + AHEAD * row + b);
            kvr_to_f32(out + t * d, in, s->raw.dtype, (size_t)d);
        }
    }
}

void kvr_tile_load(const struct kvr_attend_job *job, const struct tile *tile, int h, bool values,
                   float *rows)
{
    for (int i = 0; i < tile->n_parts; i++)
        load(job, &tile->part[i], h, values, rows + tile->part[i].at * job->head_dim);
}

static void correct(const struct kvr_attend_job *job, const struct tile *tile, int h,
                    const float *q, int m, float *s, int stride)
{
    const int d = job->head_dim;
    float q2[QBLOCK * MAX_D];

    for (int i = 0; i < m * d; i++)
        q2[i] = q[i] * q[i];
    for (int i = 0; i < tile->n_parts; i++) {
        const struct part *p = &tile->part[i];
        const struct kvr_segment *seg = p->span->seg;

        if (!kvr_span_coded(p->span))
            continue;
        job->correction->apply(&(struct kvr_correction_job){
            .k = &seg->k,
            .moments = seg->moments.p,
            .t0 = p->span->t0 + p->t0,
            .n = p->n,
            .h = h - seg->head0,
            .q = q,
            .q2 = q2,
            .m = m,
            .d = d,
            .s = s + p->at,
            .stride = stride,
        });
    }
}

void kvr_tile_subtract_correction(const struct kvr_attend_job *job, const struct tile *tile, int h,
                                  const float *q, int m, float *s, int stride)
{
    for (int i = 0; i < m; i += QBLOCK)
        correct(job, tile, h, q + (int64_t)i * job->head_dim, m - i < QBLOCK ? m - i : QBLOCK,
                s + (int64_t)i * stride, stride);
}

void kvr_tile_next(const struct kvr_attend_job *job, int h, struct cursor *c, struct tile *out)
{
    out->n = out->n_parts = 0;
    out->biased = false;
    while (c->span < job->n_spans && out->n < TILE) {
        const struct kvr_span *s = &job->spans[c->span];
        const int64_t left = s->n - c->t;
        const bool rk = kvr_span_rotated(s, false), rv = kvr_span_rotated(s, true);
        const bool bytes = job->int8 && kvr_span_coded(s);

        if (left <= 0 || (h >= 0 && s->seg && !kvr_segment_has_head(s->seg, h))) {
            c->span++;
            c->t = 0;
            continue;
        }
        if (out->n && (rk != out->rot_k || rv != out->rot_v || bytes != out->bytes ||
                       s->causal != out->causal))
            break;
        out->rot_k = rk;
        out->rot_v = rv;
        out->bytes = bytes;
        out->causal = s->causal;
        struct part *p = &out->part[out->n_parts++];

        *p = (struct part){ s, c->t, left < TILE - out->n ? (int)left : TILE - out->n, out->n };
        c->t += p->n;
        out->n += p->n;
        out->biased |= s->log_m != 0;
    }
    out->biased |= out->n % PAD != 0;
}

void kvr_tile_mask_causal(const struct kvr_attend_job *job, const struct tile *tile, int64_t r0,
                          int m, float *s, int stride)
{
    for (int i = 0; i < m; i++) {
        const int64_t last = (r0 + i) / group_of(job) - tile->part[0].t0;

        /* masks all tokens if `last` is negative */
        for (int64_t j = last < 0 ? 0 : last + 1; j < tile->n; j++)
            s[i * stride + j] = -INFINITY;
    }
}

/* Stores the logarithm of the sum of e^score over the tokens of past chunks in job->past, for each
 * query row. kvr_tile_after() calls note_past() before the first tile of the current chunk.
 * finish() replaces the logarithm by the ratio of the sum to the sum over all tokens. */
static void note_past(const struct kvr_attend_job *job, const struct state *st, int h, int64_t at,
                      int m)
{
    for (int i = 0; i < m; i++)
        job->past[query_of(job, h, at - h * rows_of(job) + i)] =
            st->mx[at + i] + logf(st->sum[at + i]);
}

bool kvr_tile_after(const struct kvr_attend_job *job, const struct state *st,
                    const struct tile *tile, int h, int64_t at, int m)
{
    const int64_t r0 = at - h * rows_of(job);

    if (tile->causal && job->past && tile->part[0].t0 == 0)
        note_past(job, st, h, at, m);
    return tile->causal && tile->part[0].t0 > (r0 + m - 1) / group_of(job);
}

void kvr_state_rescale(const struct kvr_attend_job *job, const struct state *st, int64_t at, int m,
                       const float *rescale)
{
    const struct kvr_attend_kernels *f = kvr_attend_kernels();
    const int dp = padded(job->head_dim);

    for (int i = 0; i < m; i++)
        if (rescale[i] != 1.0f) {
            f->scale(st->acc + (at + i) * dp, dp, rescale[i]);
            if (st->acc_rot)
                f->scale(st->acc_rot + (at + i) * dp, dp, rescale[i]);
        }
}
