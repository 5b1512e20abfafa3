/* attend_device.c - attention over spans on a CUDA stream.
 *
 * Spans are taken in order. `staged`: pieces of at most PIECE tokens are decoded into scratch, then
 * attended to. What rotated values come to is kept apart and turned back once, at the end. */
#include "harness/cache/attend.h"
#include "harness/cache/attend_cuda.h"
#include "harness/cache/rows.h"
#include "methods/kernels/kernels_cuda.h"

enum { PIECE = 1024 };

/* Where things lie in the scratch. */
struct place {
    float *k, *v, *s2;                     /* [PIECE,H,D]: one piece; squared steps of its keys */
    float *row_bias;                       /* [T,H] */
    struct kvr_attend_state plain, turned; /* what queries have come to; of rotated values */
    float *q_rot;                          /* [T,H,D] */
};

static size_t row_floats(const struct kvr_attend_job *job)
{
    return (size_t)job->n_heads * (size_t)job->head_dim;
}

static struct kvr_attend_state state_at(float *base, size_t rows)
{
    return (struct kvr_attend_state){ .mx = base, .sum = base + rows, .acc = base + 2 * rows };
}

static struct place place_of(const struct kvr_attend_job *job, const struct kvr_attend_scratch *s)
{
    const size_t rows = (size_t)job->n_query * (size_t)job->n_heads;
    const size_t state = rows * (size_t)(2 + job->head_dim);
    float *tiles = s->tiles.p, *base = s->state.p;

    return (struct place){
        .k = tiles,
        .v = tiles + PIECE * row_floats(job),
        .s2 = tiles + 2 * PIECE * row_floats(job),
        .row_bias = base,
        .plain = state_at(base + rows, rows),
        .turned = state_at(base + rows + state, rows),
        .q_rot = base + rows + 2 * state,
    };
}

enum kvr_status kvr_attend_device_reserve(struct kvr_attend_scratch *s,
                                          const struct kvr_attend_needs *n)
{
    const size_t d = (size_t)n->head_dim, rows = (size_t)n->n_heads * (size_t)n->max_query;
    const size_t state = rows * (2 + d), tiles = n->corrected ? 3 : 2;

    KVR_TRY(kvr_buf_reserve(&s->tiles, s->dev, KVR_MEM_SCRATCH,
                            tiles * PIECE * (size_t)n->n_heads * d * sizeof(float)));
    return kvr_buf_reserve(&s->state, s->dev, KVR_MEM_SCRATCH,
                           (rows + (n->rotated ? 2 * state + rows * d : state)) * sizeof(float));
}

static bool rotated(const struct kvr_packed *p)
{
    return p->codec && kvr_codec_rotated(p->codec);
}

/* Tokens [t0, t0 + n) of a span, from its first on, as F32 [n,H,D]. */
static void decode(const struct kvr_attend_job *job, struct kvr_dev *dev, const struct kvr_span *s,
                   int64_t t0, int64_t n, bool values, float *out)
{
    const size_t row = row_floats(job), first = (size_t)(s->t0 + t0) * row;

    if (!s->seg)
        kvr_values_to_f32(dev, out,
                          (const char *)(values ? s->raw.v : s->raw.k) +
                              first * kvr_dtype_size(s->raw.dtype),
                          s->raw.dtype, (size_t)n * row);
    else if (s->seg->kind == KVR_SEG_ZERO)
        kvr_dev_zero(dev, out, (size_t)n * row * sizeof *out);
    else
        kvr_codec_decode_rotated(values ? &s->seg->v : &s->seg->k, s->t0 + t0, n, 0, job->n_heads,
                                 out);
}

/* The correction of a span, where it has one. */
static const struct kvr_correction *corrects(const struct kvr_attend_job *job,
                                             const struct kvr_span *s)
{
    return s->seg && s->seg->kind == KVR_SEG_CODED && !kvr_codec_is_exact(s->seg->k.codec)
               ? job->correction
               : NULL;
}

static void attend_span(const struct kvr_attend_job *job, struct kvr_dev *dev,
                        const struct place *at, const struct kvr_attend_shape *shape,
                        const struct kvr_span *s)
{
    const float *q = s->seg && rotated(&s->seg->k) ? at->q_rot : job->q;
    const struct kvr_attend_state *into = s->seg && rotated(&s->seg->v) ? &at->turned : &at->plain;
    const struct kvr_correction *c = corrects(job, s);
    struct kvr_stream *stream = kvr_dev_stream(dev);
    struct kvr_attend_piece piece = { .k = at->k, .v = at->v, .log_m = s->log_m };

    if (c && c->rows_cuda) {
        c->rows_cuda(stream, &s->seg->k.shape, s->seg->moments.p, q, job->n_query, at->row_bias);
        piece.row_bias = at->row_bias;
    } else if (c) {
        piece.by_steps = c->by_steps;
        piece.s2 = at->s2;
    }
    for (int64_t t = 0; t < s->n; t += piece.n) {
        piece.n = s->n - t < PIECE ? s->n - t : PIECE;
        kvr_phase_begin(job->phases, KVR_ATTEND_DECODE);
        decode(job, dev, s, t, piece.n, false, at->k);
        decode(job, dev, s, t, piece.n, true, at->v);
        kvr_phase_end(job->phases, KVR_ATTEND_DECODE);
        if (piece.by_steps != KVR_BY_STEPS_NO)
            kvr_squared_steps_cuda(stream, &s->seg->k, s->t0 + t, piece.n, at->s2);
        kvr_attend_piece_cuda(stream, shape, q, &piece, into);
    }
}

enum kvr_status kvr_attend_device(const struct kvr_attend_job *job, struct kvr_attend_scratch *s)
{
    struct kvr_stream *stream = kvr_dev_stream(s->dev);
    const struct kvr_attend_shape shape = { job->n_query, job->n_heads, job->head_dim };
    const struct place at = place_of(job, s);
    const int64_t rows = job->n_query * job->n_heads;
    bool turned_keys = false, turned_values = false;

    for (int i = 0; i < job->n_spans; i++) {
        const struct kvr_segment *seg = job->spans[i].seg;

        turned_keys |= seg && rotated(&seg->k);
        turned_values |= seg && rotated(&seg->v);
    }
    kvr_phase_begin(job->phases, KVR_ATTEND_PHASE);
    kvr_attend_begin_cuda(stream, &shape, &at.plain);
    if (turned_keys) {
        kvr_dev_copy(s->dev, at.q_rot, job->q,
                     (size_t)rows * (size_t)job->head_dim * sizeof *job->q);
        kvr_fwht_cuda(stream, at.q_rot, rows, job->head_dim, KVR_COMPUTE_F32);
    }
    if (turned_values)
        kvr_attend_begin_cuda(stream, &shape, &at.turned);
    for (int i = 0; i < job->n_spans; i++)
        attend_span(job, s->dev, &at, &shape, &job->spans[i]);
    if (turned_values) {
        kvr_fwht_cuda(stream, at.turned.acc, rows, job->head_dim, KVR_COMPUTE_F32);
        kvr_attend_merge_cuda(stream, &shape, &at.plain, &at.turned);
    }
    kvr_attend_finish_cuda(stream, &shape, &at.plain, job->out);
    kvr_phase_end(job->phases, KVR_ATTEND_PHASE);
    return KVR_OK;
}
