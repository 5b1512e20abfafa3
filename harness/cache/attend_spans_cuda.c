/* attend_spans_cuda.c - attention over spans on a CUDA stream.
 *
 * Spans are taken in order. `staged`: pieces of at most PIECE tokens are decoded into scratch, then
 * attended to. `fused`: the kernel decodes what it attends to. What is not coded is read where it
 * is on either path. What rotated values come to is kept apart and turned back once, at the end.
 *
 * A BF16 cache is attended to on tensor cores where the kernel takes the span; an F32 cache, and
 * what that kernel does not take, by the F32 kernel. */
#include "harness/cache/attend_cuda.h"
#include "harness/cache/attend_impl.h"
#include "harness/cache/attend_mma.h"
#include "harness/cache/rows.h"

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

/* Kernels read rows 16 bytes at a time: whole rows first, then what is one number per row. */
static struct kvr_attend_state state_at(float *rows_of_d, float *numbers, size_t rows)
{
    return (struct kvr_attend_state){ .mx = numbers, .sum = numbers + rows, .acc = rows_of_d };
}

static struct place place_of(const struct kvr_attend_job *job, const struct kvr_attend_scratch *s)
{
    const size_t rows = (size_t)job->n_query * (size_t)job->n_heads;
    const size_t wide = rows * (size_t)job->head_dim;
    float *tiles = s->tiles.p, *numbers = s->state.p, *base = numbers + (5 * rows + 3) / 4 * 4;

    return (struct place){
        .k = tiles,
        .v = tiles + PIECE * row_floats(job),
        .s2 = tiles + 2 * PIECE * row_floats(job),
        .row_bias = numbers,
        .plain = state_at(base, numbers + rows, rows),
        .turned = state_at(base + wide, numbers + 3 * rows, rows),
        .q_rot = base + 2 * wide,
    };
}

static enum kvr_status check(const struct kvr_attend_needs *n)
{
    if (n->int8)
        return kvr_fail(KVR_EUNSUPPORTED, "attend int8: the CPU alone multiplies bytes");
    if (n->causal || n->group > 1)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "grouped queries and a causal chunk have no kernels on a device: attention "
                        "over %d query heads of %d KV heads%s runs on the CPU alone",
                        n->n_heads * (n->group > 1 ? n->group : 1), n->n_heads,
                        n->causal ? ", causal," : "");
    if (!n->staged && n->exact != KVR_BF16)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "on a device path fused multiplies BF16 numbers; an F32 cache needs path "
                        "staged");
    if (!n->staged && n->correction && n->correction->by_steps == KVR_BY_STEPS_EXACT)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "the correction 'exact' is for diagnosis; on a device it needs path "
                        "staged");
    return KVR_OK;
}

static enum kvr_status fuses(const struct kvr_codec *k, const struct kvr_codec *v, int n_heads,
                             int head_dim)
{
    const struct kvr_block_shape block = { KVR_ATTEND_MMA_TILE, n_heads, head_dim };
    const struct kvr_packed pk = { .codec = k, .shape = block },
                            pv = { .codec = v, .shape = block };
    const struct kvr_attend_mma_span span = { .k.packed = &pk, .v.packed = &pv, .n = block.n_tok };
    const struct kvr_attend_shape shape = { 1, n_heads, head_dim };

    if (kvr_attend_mma_can(&shape, &span))
        return KVR_OK;
    return kvr_fail(KVR_EUNSUPPORTED,
                    "attention: the fused kernel of a device takes head_dim a multiple of 16 up to "
                    "%d (here %d) and not every codec (here K %s, V %s); use path staged",
                    KVR_ATTEND_MMA_MAX_D, head_dim, k->text, v->text);
}

static struct kvr_attend_bytes bytes(const struct kvr_attend_needs *n)
{
    const size_t d = (size_t)n->head_dim, rows = (size_t)n->n_heads * (size_t)n->max_query;
    const size_t tiles = n->correction ? 3 : 2, wide = n->rotated ? 3 : 1;

    return (struct kvr_attend_bytes){
        .tiles = n->staged ? tiles * PIECE * (size_t)n->n_heads * d * sizeof(float) : 0,
        .state = ((5 * rows + 3) / 4 * 4 + wide * rows * d) * sizeof(float),
    };
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

static bool is_exact(const struct kvr_segment *seg)
{
    return kvr_codec_is_exact(seg->k.codec) && kvr_codec_is_exact(seg->v.codec);
}

/* The span as tensor cores read it where it is; false: it has to be decoded first. */
static bool read_in_place(const struct kvr_attend_job *job, const struct kvr_attend_shape *shape,
                          const struct kvr_span *s, struct kvr_attend_mma_span *out)
{
    const struct kvr_correction *c = corrects(job, s);

    if (!job->tensor_cores)
        return false;
    *out = (struct kvr_attend_mma_span){ .t0 = s->t0, .n = s->n, .log_m = s->log_m };
    if (!s->seg) {
        out->k = (struct kvr_attend_mma_source){ .raw = s->raw.k, .dtype = s->raw.dtype };
        out->v = (struct kvr_attend_mma_source){ .raw = s->raw.v, .dtype = s->raw.dtype };
    } else if (s->seg->kind != KVR_SEG_ZERO) {
        out->k.packed = &s->seg->k;
        out->v.packed = &s->seg->v;
        out->taylor = c && c->by_steps == KVR_BY_STEPS_TAYLOR;
        if (!job->fused && !out->taylor && !is_exact(s->seg))
            return false;
        if (c && c->by_steps == KVR_BY_STEPS_EXACT)
            return false;
    }
    return kvr_attend_mma_can(shape, out);
}

/* Decode a piece, attend to it, and so on. */
static void attend_staged(const struct kvr_attend_job *job, struct kvr_dev *dev,
                          const struct place *at, const struct kvr_attend_shape *shape,
                          const struct kvr_span *s, const float *q, const float *row_bias,
                          const struct kvr_attend_state *into)
{
    const struct kvr_correction *c = corrects(job, s);
    struct kvr_stream *stream = kvr_dev_stream(dev);
    struct kvr_attend_piece piece = {
        .k = at->k,
        .v = at->v,
        .log_m = s->log_m,
        .row_bias = row_bias,
        .by_steps = c ? c->by_steps : KVR_BY_STEPS_NO,
        .s2 = at->s2,
    };

    for (int64_t t = 0; t < s->n; t += piece.n) {
        piece.n = s->n - t < PIECE ? s->n - t : PIECE;
        const struct kvr_attend_mma_span plain = {
            .k = { .raw = at->k, .dtype = KVR_F32 },
            .v = { .raw = at->v, .dtype = KVR_F32 },
            .n = piece.n,
            .log_m = s->log_m,
            .row_bias = row_bias,
        };

        kvr_phase_begin(job->phases, KVR_ATTEND_DECODE);
        decode(job, dev, s, t, piece.n, false, at->k);
        decode(job, dev, s, t, piece.n, true, at->v);
        kvr_phase_end(job->phases, KVR_ATTEND_DECODE);
        if (piece.by_steps != KVR_BY_STEPS_NO)
            kvr_squared_steps_cuda(stream, &s->seg->k, s->t0 + t, piece.n, at->s2);
        if (job->tensor_cores && piece.by_steps == KVR_BY_STEPS_NO &&
            kvr_attend_mma_can(shape, &plain))
            kvr_attend_mma_cuda(stream, shape, q, &plain, into);
        else
            kvr_attend_piece_cuda(stream, shape, q, &piece, into);
    }
}

static void attend_span(const struct kvr_attend_job *job, struct kvr_dev *dev,
                        const struct place *at, const struct kvr_attend_shape *shape,
                        const struct kvr_span *s)
{
    const float *q = s->seg && rotated(&s->seg->k) ? at->q_rot : job->q;
    const struct kvr_attend_state *into = s->seg && rotated(&s->seg->v) ? &at->turned : &at->plain;
    const struct kvr_correction *c = corrects(job, s);
    const float *row_bias = NULL;
    struct kvr_attend_mma_span in_place;

    if (c && c->rows_cuda) {
        c->rows_cuda(kvr_dev_stream(dev), &s->seg->k.shape, s->seg->moments.p, q, job->n_query,
                     at->row_bias);
        row_bias = at->row_bias;
    }
    if (read_in_place(job, shape, s, &in_place)) {
        in_place.row_bias = row_bias;
        kvr_attend_mma_cuda(kvr_dev_stream(dev), shape, q, &in_place, into);
    } else {
        attend_staged(job, dev, at, shape, s, q, row_bias, into);
    }
}

static void run(const struct kvr_attend_job *job, struct kvr_attend_scratch *s)
{
    struct kvr_stream *stream = kvr_dev_stream(s->dev);
    const struct kvr_attend_shape shape = { job->n_query, job->n_heads, job->head_dim };
    const struct place at = place_of(job, s);
    const int64_t rows = job->n_query * job->n_heads;
    const struct kvr_codec *k_space = NULL, *v_space = NULL; /* whose transform leads there */

    for (int i = 0; i < job->n_spans; i++) {
        const struct kvr_segment *seg = job->spans[i].seg;

        if (seg && rotated(&seg->k))
            k_space = seg->k.codec;
        if (seg && rotated(&seg->v))
            v_space = seg->v.codec;
    }
    kvr_attend_begin_cuda(stream, &shape, &at.plain);
    if (k_space) {
        kvr_dev_copy(s->dev, at.q_rot, job->q,
                     (size_t)rows * (size_t)job->head_dim * sizeof *job->q);
        kvr_codec_transform(k_space, s->dev, KVR_QUERY_TO_SPACE, at.q_rot, job->n_query, 0,
                            job->n_heads, job->head_dim);
    }
    if (v_space)
        kvr_attend_begin_cuda(stream, &shape, &at.turned);
    for (int i = 0; i < job->n_spans; i++)
        attend_span(job, s->dev, &at, &shape, &job->spans[i]);
    if (v_space) {
        kvr_codec_transform(v_space, s->dev, KVR_FROM_SPACE, at.turned.acc, job->n_query, 0,
                            job->n_heads, job->head_dim);
        kvr_attend_merge_cuda(stream, &shape, &at.plain, &at.turned);
    }
    kvr_attend_finish_cuda(stream, &shape, &at.plain, job->out);
}

const struct kvr_attend_kind kvr_attend_cuda = {
    .bytes = bytes,
    .check = check,
    .fuses = fuses,
    .run = run,
};
