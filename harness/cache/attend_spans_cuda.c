/* attend_spans_cuda.c - attention over spans on a CUDA stream (scratch: attend_scratch_cuda.h).
 *
 * Spans are processed in order. With a BF16 cache, unquantized spans are read in place on every
 * path.
 *
 * On path `staged` with a BF16 cache, all coded spans are dequantized into BF16 scratch (`rows`),
 * with their rotation undone. One launch then computes attention over staged and unquantized spans.
 * If the scratch is too small for all coded spans, it is filled several times, with one launch
 * each. The launches merge their softmax states in order.
 *
 * Path `staged` uses F32 scratch instead for an F32 cache. With a correction, it uses F32 scratch
 * for all spans that the tensor-core kernel cannot read in place. Each launch then reads a piece of
 * at most KVR_CUDA_PIECE tokens. On path `fused`, the attention kernel dequantizes (attend_mma.h,
 * attend_wgmma.h). If the job sets int8, coded spans are dequantized in pieces and requantized to
 * INT8 for the kernel of attend_bytes.h.
 *
 * Some codecs cannot be decoded to BF16 by a single kernel (needs.wide). Their spans are decoded to
 * F32 pieces and keep their rotation. Rotated queries are multiplied with rotated keys. Rotated
 * values accumulate in a separate softmax state, which is rotated back once.
 *
 * Where the kernels support it, the first launch of a call initializes the softmax state (m, l,
 * acc) and the last launch normalizes the output. Otherwise separate passes initialize the state
 * and normalize the output. On sm_90 the wgmma kernel reads unquantized rows, on other devices the
 * mma.sync kernel.
 *
 * If spans have tokens of single heads (by_head), every head is a separate job over gathered rows.
 * kvr_attend_columns runs two passes of the F32 kernels over the keys: the first computes the
 * softmax state, and the second computes the column sums and maxima of the weights. */
#include "harness/cache/attend_bytes.h"
#include "harness/cache/attend_cuda.h"
#include "harness/cache/attend_impl.h"
#include "harness/cache/attend_mma.h"
#include "harness/cache/attend_scratch_cuda.h"
#include "harness/cache/attend_wgmma.h"
#include "harness/cache/rows.h"

#include <stdlib.h>

/* Queries [T,H,D] as F32 or BF16. The kernel may apply RMSNorm and RoPE to BF16 queries while
 * loading them. */
struct queries {
    const float *f32;
    const kvr_bf16 *bf16;
    struct kvr_query_norm norm;
};

/* Gathers the rows of one head from an unquantized span [n,H,D]. */
static struct kvr_raw take_raw(const struct kvr_attend_job *job, struct kvr_dev *dev,
                               const struct kvr_span *s, const struct kvr_cuda_head *part)
{
    const size_t width =
        (size_t)job->head_dim * kvr_dtype_size(s->raw.dtype) / sizeof(float); /* floats per row */

    kvr_rows_gather(dev, s->raw.k, width, part->list, s->t0 + s->n, 0, part->k);
    kvr_rows_gather(dev, s->raw.v, width, part->list, s->t0 + s->n, 0, part->v);
    return (struct kvr_raw){ part->k, part->v, s->raw.dtype };
}

/* Computes the part of a span that belongs to head h, or the whole span if h < 0. Returns false if
 * the span has no token of the head. */
static bool span_of_head(const struct kvr_span *s, int h, const struct kvr_raw *raw,
                         struct kvr_span *out)
{
    *out = *s;
    if (h >= 0 && !s->seg)
        out->raw = *raw;
    return h < 0 || !s->seg || kvr_segment_has_head(s->seg, h);
}

static bool decodes_bf16(const struct kvr_packed *p)
{
    return kvr_codec_decodes_bf16(p->codec, p->shape.n_heads, p->shape.head_dim);
}

/* Whether attention over a block uses rotated keys or values. If `bf16`, coded spans are staged as
 * BF16. Codecs that decode to BF16 in a single kernel then also undo their rotation. */
static bool rotated(const struct kvr_packed *p, bool bf16)
{
    return p->codec && kvr_codec_rotated(p->codec) && !(bf16 && decodes_bf16(p));
}

/* Decodes tokens [t0, t0 + n) of a span to F32 [n,H,D]. t0 is relative to the span's first
 * token. */
static void decode(const struct kvr_attend_job *job, struct kvr_dev *dev, const struct kvr_span *s,
                   int64_t t0, int64_t n, bool values, float *out)
{
    const size_t row = kvr_cuda_row_floats(job), first = (size_t)(s->t0 + t0) * row;

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

static bool is_coded(const struct kvr_span *s)
{
    return s->seg && s->seg->kind == KVR_SEG_CODED && !kvr_codec_is_raw(s->seg->k.codec);
}

/* Returns the correction that applies to a span, or NULL for an unquantized span. */
static const struct kvr_correction *corrects(const struct kvr_attend_job *job,
                                             const struct kvr_span *s)
{
    return is_coded(s) ? job->correction : NULL;
}

static bool is_exact(const struct kvr_segment *seg)
{
    return kvr_codec_is_raw(seg->k.codec) && kvr_codec_is_raw(seg->v.codec);
}

/* Whether the spans of a segment are dequantized into BF16 scratch, if the job has such scratch.
 * Segments whose codecs store BF16 rows are read in place. */
static bool is_staged(const struct kvr_segment *seg)
{
    return seg && (seg->kind == KVR_SEG_ZERO ||
                   !(kvr_codec_is_bf16(seg->k.codec) && kvr_codec_is_bf16(seg->v.codec)));
}

/* Describes a span for the tensor-core kernel in *out. Returns false if the kernel cannot read the
 * span in place, so that it must be decoded first. */
static bool read_in_place(const struct kvr_attend_job *job, size_t shared,
                          const struct kvr_attend_shape *shape, const struct kvr_span *s,
                          struct kvr_attend_mma_span *out)
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
        out->taylor = c && c->by_scales == KVR_BY_SCALES_TAYLOR;
        if (!job->fused && !out->taylor && !is_exact(s->seg))
            return false;
        if (c && c->by_scales == KVR_BY_SCALES_EXACT)
            return false;
    }
    return kvr_attend_mma_accepts(shared, shape, out);
}

/* Returns the inputs of a launch that is not the last of its call, and marks the softmax state as
 * begun. */
static struct kvr_attend_io io_of(const struct queries *q, struct kvr_cuda_sums *into)
{
    const struct kvr_attend_io io = {
        .q = q->f32,
        .q16 = q->bf16,
        .norm = q->norm,
        .state = into->state,
        .begins = !into->begun,
    };

    into->begun = true;
    return io;
}

static void begin(struct kvr_stream *stream, const struct kvr_attend_shape *shape,
                  struct kvr_cuda_sums *sums)
{
    if (!sums->begun)
        kvr_attend_begin_cuda(stream, shape, &sums->state);
    sums->begun = true;
}

/* Decodes a span piece by piece to F32 and computes attention over each piece. */
static void attend_staged(const struct kvr_attend_job *job, struct kvr_dev *dev,
                          const struct kvr_cuda_head_rows *at, const struct kvr_attend_shape *shape,
                          const struct kvr_span *s, const struct queries *q, const float *row_bias,
                          struct kvr_cuda_sums *into)
{
    const struct kvr_correction *c = corrects(job, s);
    struct kvr_stream *stream = kvr_dev_stream(dev);
    struct kvr_attend_piece piece = {
        .k = at->k,
        .v = at->v,
        .log_m = s->log_m,
        .row_bias = row_bias,
        .by_scales = c ? c->by_scales : KVR_BY_SCALES_NO,
        .s2 = at->s2,
    };

    for (int64_t t = 0; t < s->n; t += piece.n) {
        piece.n = s->n - t < KVR_CUDA_PIECE ? s->n - t : KVR_CUDA_PIECE;
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
        if (piece.by_scales != KVR_BY_SCALES_NO)
            kvr_squared_scales_cuda(stream, &s->seg->k, s->t0 + t, piece.n, at->s2);
        if (job->tensor_cores && piece.by_scales == KVR_BY_SCALES_NO &&
            kvr_attend_mma_accepts(kvr_stream_block_shared(stream), shape, &plain)) {
            const struct kvr_attend_io io = io_of(q, into);

            kvr_attend_mma_cuda(stream, shape, &io, &plain);
        } else {
            begin(stream, shape, into);
            kvr_attend_piece_cuda(stream, shape, q->f32, &piece, &into->state);
        }
    }
}

/* Spans of the next launch. They have the same softmax state, queries and kernel. */
struct gathered {
    bool groups; /* the device supports the wgmma kernel (attend_wgmma.h) */
    bool rows;   /* the next launch uses the mma.sync kernel */
    int n;
    struct kvr_attend_mma_span span[KVR_ATTEND_LIST_SPANS];
    struct queries q;
    struct kvr_cuda_sums *into;
    const struct kvr_buf *parts;
    /* BF16 scratch [capacity,H,D] of staged spans. k is NULL if no span is staged as BF16. The
     * first `used` tokens are occupied by spans of the next launch, and also of earlier launches.
     * When the scratch is full, the spans of the next launch are launched, and `used` becomes 0. */
    kvr_bf16 *k, *v;
    int64_t capacity, used;
    float *piece; /* [n_piece,H,D], for codecs that decode to F32 */
    int64_t n_piece;
};

static void use_rows(struct gathered *list, const struct kvr_attend_job *job,
                     const struct kvr_attend_scratch *s)
{
    const size_t row = kvr_cuda_row_floats(job);

    if (!s->rows.p || job->fused || job->int8 || job->correction || !job->tensor_cores)
        return;
    list->capacity = (int64_t)(s->rows.n_bytes / (2 * row * sizeof(kvr_bf16)));
    list->k = s->rows.p;
    list->v = list->k + (size_t)list->capacity * row;
    list->piece = s->tiles.p;
    list->n_piece = (int64_t)(s->tiles.n_bytes / (row * sizeof(float)));
}

/* Launches attention over the gathered spans. `ends` is the job if this is the job's last launch,
 * and NULL otherwise. */
static void attend_gathered(struct kvr_stream *stream, const struct kvr_attend_shape *shape,
                            const struct kvr_attend_job *ends, struct gathered *list)
{
    const size_t n_parts = list->parts->n_bytes / sizeof(float);
    struct kvr_attend_io io;

    if (!list->n)
        return;
    io = io_of(&list->q, list->into);
    io.out = ends ? ends->out : NULL;
    io.out16 = ends ? ends->out16 : NULL;
    if (list->rows)
        kvr_attend_rows_cuda(stream, shape, &io, list->span, list->n, list->parts->p, n_parts);
    else
        kvr_attend_list_cuda(stream, shape, &io, list->span, list->n, list->parts->p, n_parts);
    list->n = 0;
}

static bool gather(struct kvr_stream *stream, const struct kvr_attend_shape *shape,
                   const struct kvr_attend_mma_span *span, const struct queries *q,
                   struct kvr_cuda_sums *into, struct gathered *list)
{
    const bool groups = list->groups && kvr_attend_list_accepts(shape, span);

    if (!groups && !kvr_attend_rows_accepts(kvr_stream_block_shared(stream), shape, span))
        return false;
    if (list->n == KVR_ATTEND_LIST_SPANS || list->q.f32 != q->f32 || list->q.bf16 != q->bf16 ||
        list->into != into || list->rows == groups)
        attend_gathered(stream, shape, NULL, list);
    list->rows = !groups;
    list->q = *q;
    list->into = into;
    list->span[list->n++] = *span;
    return true;
}

/* Decodes tokens [t0, t0 + n) of a span's keys or values to BF16 [n,H,D]. */
static void decode_bf16(const struct kvr_attend_job *job, struct kvr_dev *dev,
                        const struct kvr_span *s, int64_t t0, int64_t n, bool values,
                        const struct gathered *list, kvr_bf16 *out)
{
    const size_t row = kvr_cuda_row_floats(job);
    const struct kvr_packed *p = values ? &s->seg->v : &s->seg->k;

    if (s->seg->kind == KVR_SEG_ZERO) {
        kvr_dev_zero(dev, out, (size_t)n * row * sizeof *out);
        return;
    }
    if (kvr_codec_is_bf16(p->codec)) {
        kvr_dev_copy(dev, out, (const kvr_bf16 *)p->stage[0].codes.p + (size_t)(s->t0 + t0) * row,
                     (size_t)n * row * sizeof *out);
        return;
    }
    if (decodes_bf16(p)) {
        kvr_codec_decode_bf16(p, s->t0 + t0, n, 0, job->n_heads, out);
        return;
    }
    for (int64_t t = 0, m; t < n; t += m) {
        m = n - t < list->n_piece ? n - t : list->n_piece;
        decode(job, dev, s, t0 + t, m, values, list->piece);
        kvr_values_from_f32(dev, out + (size_t)t * row, KVR_BF16, list->piece, (size_t)m * row);
    }
}

/* Whether the new span extends the last span of the list: it must be adjacent in memory and have
 * the same queries, softmax state and multiplicity. */
static bool continues(const struct gathered *list, const struct kvr_attend_mma_span *span,
                      size_t row, const struct queries *q, const struct kvr_cuda_sums *into)
{
    const struct kvr_attend_mma_span *last;

    if (!list->n)
        return false;
    last = &list->span[list->n - 1];
    return last->k.raw && last->k.dtype == KVR_BF16 && !last->row_bias &&
           (const kvr_bf16 *)last->k.raw >= list->k && (const kvr_bf16 *)last->k.raw < list->v &&
           (const kvr_bf16 *)last->k.raw + (size_t)last->n * row == span->k.raw &&
           last->log_m == span->log_m && list->q.f32 == q->f32 && list->q.bf16 == q->bf16 &&
           list->into == into;
}

/* Dequantizes a coded span into BF16 scratch and adds it to the next launch. If the scratch is
 * full, attention over its spans is launched first. */
static void stage(const struct kvr_attend_job *job, struct kvr_dev *dev,
                  const struct kvr_attend_shape *shape, const struct kvr_span *s,
                  const struct queries *q, struct kvr_cuda_sums *into, struct gathered *list)
{
    struct kvr_stream *stream = kvr_dev_stream(dev);
    const size_t row = kvr_cuda_row_floats(job);

    for (int64_t t = 0, n; t < s->n; t += n) {
        if (list->used == list->capacity) {
            attend_gathered(stream, shape, NULL, list);
            list->used = 0;
        }
        n = s->n - t < list->capacity - list->used ? s->n - t : list->capacity - list->used;
        kvr_bf16 *k = list->k + (size_t)list->used * row, *v = list->v + (size_t)list->used * row;
        const struct kvr_attend_mma_span plain = { .k = { .raw = k, .dtype = KVR_BF16 },
                                                   .v = { .raw = v, .dtype = KVR_BF16 },
                                                   .n = n,
                                                   .log_m = s->log_m };

        kvr_phase_begin(job->phases, KVR_ATTEND_DECODE);
        decode_bf16(job, dev, s, t, n, false, list, k);
        decode_bf16(job, dev, s, t, n, true, list, v);
        kvr_phase_end(job->phases, KVR_ATTEND_DECODE);
        if (continues(list, &plain, row, q, into)) {
            list->span[list->n - 1].n += n;
        } else if (!gather(stream, shape, &plain, q, into, list)) {
            const struct kvr_attend_io io = io_of(q, into);

            kvr_attend_mma_cuda(stream, shape, &io, &plain);
        }
        list->used += n;
    }
}

/* Coded tokens that are requantized to INT8 for the next launch. They have the same softmax state
 * and queries. */
struct as_bytes {
    struct kvr_byte_rows rows;
    int n;
    int64_t n_tiles;
    struct kvr_byte_span span[KVR_ATTEND_BYTES_SPANS];
    struct queries q;
    struct kvr_cuda_sums *into;
    const struct kvr_buf *parts;
};

static void attend_as_bytes(struct kvr_stream *stream, const struct kvr_attend_shape *shape,
                            struct as_bytes *list)
{
    struct kvr_attend_io io;

    if (!list->n)
        return;
    io = io_of(&list->q, list->into);
    kvr_attend_bytes_cuda(stream, shape, &io, list->span, list->n, &list->rows, list->parts->p,
                          list->parts->n_bytes / sizeof(float));
    list->n = 0;
    list->n_tiles = 0;
}

/* Decodes a span piece by piece and requantizes each piece to INT8. The vector mu, which is
 * subtracted from all keys of a launch, is the mean of the first KVR_BYTE_MEAN keys of its first
 * piece. */
static void stage_as_bytes(const struct kvr_attend_job *job, struct kvr_dev *dev,
                           const struct kvr_cuda_head_rows *at,
                           const struct kvr_attend_shape *shape, const struct kvr_span *s,
                           const struct queries *q, struct kvr_cuda_sums *into,
                           struct as_bytes *list)
{
    struct kvr_stream *stream = kvr_dev_stream(dev);
    int64_t n;

    if (list->q.f32 != q->f32 || list->into != into)
        attend_as_bytes(stream, shape, list);
    list->q = *q;
    list->into = into;
    for (int64_t t = 0; t < s->n; t += n) {
        const bool goes_on = t && list->n;

        n = s->n - t < KVR_CUDA_PIECE ? s->n - t : KVR_CUDA_PIECE;
        if (list->n_tiles + KVR_CUDA_PIECE_TILES > list->rows.n_tiles ||
            (!goes_on && list->n == KVR_ATTEND_BYTES_SPANS))
            attend_as_bytes(stream, shape, list);
        kvr_phase_begin(job->phases, KVR_ATTEND_DECODE);
        decode(job, dev, s, t, n, false, at->k);
        decode(job, dev, s, t, n, true, at->v);
        if (!list->n)
            kvr_byte_mean_cuda(stream, job->n_heads, at->k, n, list->rows.mu);
        kvr_byte_rows_cuda(stream, job->n_heads, at->k, at->v, n, list->n_tiles, &list->rows);
        kvr_phase_end(job->phases, KVR_ATTEND_DECODE);
        if (t && list->n)
            list->span[list->n - 1].n += n;
        else
            list->span[list->n++] = (struct kvr_byte_span){ n, s->log_m };
        list->n_tiles += (n + KVR_BYTE_TILE - 1) / KVR_BYTE_TILE;
    }
}

static void attend_span(const struct kvr_attend_job *job, struct kvr_dev *dev,
                        struct kvr_cuda_head_rows *at, const struct kvr_attend_shape *shape,
                        const struct kvr_span *s, struct gathered *list, struct as_bytes *as_bytes)
{
    struct queries q = { job->q, job->q16, job->norm };
    struct kvr_cuda_sums *into =
        s->seg && rotated(&s->seg->v, list->k) ? &at->rotated_v : &at->plain;
    const struct kvr_correction *c = corrects(job, s);
    const float *row_bias = NULL;
    struct kvr_attend_mma_span in_place;

    if (s->seg && rotated(&s->seg->k, list->k))
        q = (struct queries){ .f32 = at->q_rot };
    if (c && c->rows_cuda) {
        c->rows_cuda(kvr_dev_stream(dev), &s->seg->k.shape, s->seg->moments.p, q.f32, job->n_query,
                     at->row_bias);
        row_bias = at->row_bias;
    }
    if (list->k && is_staged(s->seg)) {
        stage(job, dev, shape, s, &q, into, list);
    } else if (job->int8 && is_coded(s)) {
        stage_as_bytes(job, dev, at, shape, s, &q, into, as_bytes);
    } else if (read_in_place(job, kvr_stream_block_shared(kvr_dev_stream(dev)), shape, s,
                             &in_place)) {
        in_place.row_bias = row_bias;
        if (!gather(kvr_dev_stream(dev), shape, &in_place, &q, into, list)) {
            const struct kvr_attend_io io = io_of(&q, into);

            kvr_attend_mma_cuda(kvr_dev_stream(dev), shape, &io, &in_place);
        }
    } else {
        attend_staged(job, dev, at, shape, s, &q, row_bias, into);
    }
}

/* Finds the codecs whose rotations apply to the job's keys and to its values. */
static void find_spaces(const struct kvr_attend_job *job, bool bf16, const struct kvr_codec **k,
                        const struct kvr_codec **v)
{
    *k = *v = NULL;
    for (int i = 0; i < job->n_spans; i++) {
        const struct kvr_segment *seg = job->spans[i].seg;

        if (seg && rotated(&seg->k, bf16))
            *k = seg->k.codec;
        if (seg && rotated(&seg->v, bf16))
            *v = seg->v.codec;
    }
}

/* Whether attention reads all spans as BF16 rows, either in place or from BF16 scratch. The kernels
 * for such rows can normalize the queries while loading them. */
static bool all_rows(const struct kvr_attend_job *job, bool bf16, struct kvr_stream *stream,
                     const struct kvr_attend_shape *shape)
{
    const size_t shared = kvr_stream_block_shared(stream);
    struct kvr_attend_mma_span span;

    for (int i = 0; i < job->n_spans; i++) {
        const struct kvr_segment *seg = job->spans[i].seg;

        if (bf16 && is_staged(seg)) {
            if (rotated(&seg->k, bf16) || rotated(&seg->v, bf16))
                return false;
            continue;
        }
        if ((seg && (seg->kind == KVR_SEG_ZERO || !is_exact(seg))) ||
            !read_in_place(job, shared, shape, &job->spans[i], &span) ||
            !kvr_attend_rows_accepts(shared, shape, &span))
            return false;
    }
    return true;
}

/* Returns a copy of the job with normalized queries. The queries of the copy are unchanged if they
 * need no normalization, or if the kernel normalizes them while loading (all_rows). */
static struct kvr_attend_job with_norm(const struct kvr_attend_job *job, bool bf16,
                                       struct kvr_stream *stream,
                                       const struct kvr_attend_shape *shape)
{
    const struct kvr_attend_io io = { .q16 = job->q16, .norm = job->norm, .out16 = job->out16 };
    struct kvr_attend_job done = *job;

    if (job->norm.inverses && !all_rows(job, bf16, stream, shape)) {
        done.q16 = kvr_attend_norm_cuda(stream, shape, &io).q16;
        done.norm = (struct kvr_query_norm){ .inverses = NULL };
    }
    return done;
}

/* Computes attention of head h, whose unquantized rows are `raw`, or of all heads if h < 0. */
static void run_heads(const struct kvr_attend_job *of, struct kvr_attend_scratch *s, int h,
                      const struct kvr_raw *raw)
{
    struct kvr_stream *stream = kvr_dev_stream(s->dev);
    const struct kvr_attend_shape shape = { of->n_query, of->n_heads, of->head_dim };
    struct gathered list = { .parts = &s->parts };
    const size_t n_q = (size_t)(of->n_query * of->n_heads) * (size_t)of->head_dim;
    struct kvr_cuda_head_rows at = kvr_cuda_head_rows_of(of, s);
    const struct kvr_codec *k_space, *v_space;
    struct kvr_attend_io end;
    struct as_bytes as_bytes = { .parts = &s->parts };

    list.groups = of->tensor_cores && kvr_attend_list_supported(stream);
    use_rows(&list, of, s);
    const struct kvr_attend_job normed = with_norm(of, list.k, stream, &shape), *job = &normed;

    if (job->int8)
        as_bytes.rows = kvr_cuda_byte_rows(s, job->n_heads);
    find_spaces(job, list.k, &k_space, &v_space);
    if (k_space) {
        kvr_values_to_f32(s->dev, at.q_rot, job->q16 ? (const void *)job->q16 : job->q,
                          job->q16 ? KVR_BF16 : KVR_F32, n_q);
        kvr_codec_transform(k_space, s->dev, KVR_QUERY_TO_SPACE, at.q_rot, job->n_query, 0,
                            job->n_heads, job->head_dim);
    }
    for (int i = 0; i < job->n_spans; i++) {
        struct kvr_span span;

        if (span_of_head(&job->spans[i], h, raw, &span))
            attend_span(job, s->dev, &at, &shape, &span, &list, &as_bytes);
    }
    attend_as_bytes(stream, &shape, &as_bytes);
    const bool ends = list.n && list.into == &at.plain && !v_space;

    attend_gathered(stream, &shape, ends ? job : NULL, &list);
    if (ends)
        return;
    if (v_space) {
        begin(stream, &shape, &at.plain);
        begin(stream, &shape, &at.rotated_v);
        kvr_codec_transform(v_space, s->dev, KVR_FROM_SPACE, at.rotated_v.state.acc, job->n_query,
                            0, job->n_heads, job->head_dim);
    }
    end = io_of(&(struct queries){ .f32 = NULL }, &at.plain);
    end.out = job->out;
    end.out16 = job->out16;
    if (v_space)
        kvr_attend_merge_end_cuda(stream, &shape, &end, &at.rotated_v.state);
    else
        kvr_attend_separate_passes_cuda(stream, &shape, &end);
}

/* Gathers the rows of a head from the job's unquantized span, which is the current chunk. */
static struct kvr_raw raw_of_head(const struct kvr_attend_job *job, struct kvr_attend_scratch *s,
                                  const struct kvr_cuda_head *part)
{
    struct kvr_raw raw = { 0 };

    for (int i = 0; i < job->n_spans; i++)
        if (!job->spans[i].seg)
            raw = take_raw(job, s->dev, &job->spans[i], part);
    return raw;
}

static void run(const struct kvr_attend_job *job, struct kvr_attend_scratch *s)
{
    const size_t d = (size_t)job->head_dim;

    if (!job->by_head) {
        run_heads(job, s, -1, NULL);
        return;
    }
    for (int h = 0; h < job->n_heads; h++) {
        const struct kvr_cuda_head part = kvr_cuda_head_part(job, s, h);
        const struct kvr_raw raw = raw_of_head(job, s, &part);
        struct kvr_attend_job one = *job;

        one.n_heads = 1;
        one.q = part.q;
        one.out = part.out;
        kvr_rows_gather(s->dev, job->q, d, part.list, job->n_query, 0, part.q);
        run_heads(&one, s, h, &raw);
        kvr_rows_scatter(s->dev, part.out, d, part.list, job->n_query, 0, job->out);
    }
}

/* ---- columns ------------------------------------------------------------------------------- */

/* A pass over the keys of a job. If `out` is NULL, the pass updates the softmax state; otherwise it
 * computes the sum and the maximum of the weights of every token. */
struct column_walk {
    const struct kvr_column_job *job;
    const struct kvr_attend_job *attend; /* job of the current heads with the sampled queries */
    struct kvr_dev *dev;
    struct kvr_cuda_head_rows at;
    struct kvr_attend_shape shape;
    int h;      /* the current head, or -1 for all heads */
    float *out; /* [KVR_CUDA_PIECE,H][2], in host memory */
};

static enum kvr_status add_columns(const struct column_walk *w, const struct kvr_span *s, int64_t t,
                                   int64_t n)
{
    const int heads = w->shape.n_heads, all = w->job->attend->n_heads;

    KVR_TRY(kvr_dev_get(w->dev, w->out, w->at.v, (size_t)(2 * n * heads) * sizeof *w->out));
    for (int64_t i = 0; i < n; i++) {
        const int64_t token = kvr_column_token(w->job, s, s->t0 + t + i);

        for (int h = 0; h < heads; h++) {
            const int64_t to = token * all + (w->h > 0 ? w->h : 0) + h;
            const float *from = w->out + 2 * (i * heads + h);

            w->job->sum[to] += from[0];
            w->job->max[to] = from[1] > w->job->max[to] ? from[1] : w->job->max[to];
        }
    }
    return KVR_OK;
}

static enum kvr_status walk_span(const struct column_walk *w, const struct kvr_span *s, bool second)
{
    const struct kvr_correction *c = corrects(w->attend, s);
    struct kvr_stream *stream = kvr_dev_stream(w->dev);
    const float *q = s->seg && rotated(&s->seg->k, false) ? w->at.q_rot : w->attend->q;
    struct kvr_attend_piece piece = {
        .k = w->at.k,
        .v = w->at.k, /* a placeholder, since the attention output is not used */
        .log_m = s->log_m,
        .by_scales = c ? c->by_scales : KVR_BY_SCALES_NO,
        .s2 = w->at.s2,
    };

    if (c && c->rows_cuda) {
        c->rows_cuda(stream, &s->seg->k.shape, s->seg->moments.p, q, w->shape.n_query,
                     w->at.row_bias);
        piece.row_bias = w->at.row_bias;
    }
    for (int64_t t = 0; t < s->n; t += piece.n) {
        piece.n = s->n - t < KVR_CUDA_PIECE ? s->n - t : KVR_CUDA_PIECE;
        decode(w->attend, w->dev, s, t, piece.n, false, w->at.k);
        if (piece.by_scales != KVR_BY_SCALES_NO)
            kvr_squared_scales_cuda(stream, &s->seg->k, s->t0 + t, piece.n, w->at.s2);
        if (!second) {
            kvr_attend_piece_cuda(stream, &w->shape, q, &piece, &w->at.plain.state);
            continue;
        }
        kvr_attend_columns_cuda(stream, &w->shape, q, &piece, &w->at.plain.state, w->at.v);
        KVR_TRY(add_columns(w, s, t, piece.n));
    }
    return KVR_OK;
}

/* Gathers the sampled queries [n,heads,D] of the current heads. `list` is device memory for their
 * row indices. */
static enum kvr_status take_queries(const struct column_walk *w, const float *q, int32_t *list,
                                    float *out)
{
    const int64_t n = w->shape.n_query * w->shape.n_heads;
    const int all = w->job->attend->n_heads;
    int32_t *row = malloc((size_t)n * sizeof *row);
    enum kvr_status st;

    if (!row)
        return kvr_fail(
            KVR_ENOMEM,
            "attention: out of host memory while allocating the indices of %lld query rows",
            (long long)n);
    for (int64_t i = 0; i < n; i++)
        row[i] = (int32_t)(kvr_column_row(w->job, i / w->shape.n_heads) * all +
                           (w->h > 0 ? w->h : 0) + i % w->shape.n_heads);
    st = kvr_dev_put(w->dev, list, row, (size_t)n * sizeof *row);
    if (st == KVR_OK)
        kvr_rows_gather(w->dev, q, (size_t)w->shape.head_dim, list, n, 0, out);
    free(row);
    return st;
}

/* Computes the column sums and maxima of head h, or of all heads if h < 0. */
static enum kvr_status columns_of(const struct kvr_column_job *job, struct kvr_attend_scratch *s,
                                  int h, float *capacity)
{
    const int heads = h < 0 ? job->attend->n_heads : 1;
    const int64_t n = kvr_column_rows(job);
    struct kvr_attend_job one = *job->attend;
    const struct kvr_codec *k_space, *v_space;
    struct column_walk w = { .job = job, .attend = &one, .dev = s->dev, .h = h, .out = capacity };
    struct kvr_raw raw = { 0 };
    float *q;

    if (h >= 0) {
        const struct kvr_cuda_head part = kvr_cuda_head_part(job->attend, s, h);

        raw = raw_of_head(job->attend, s, &part);
    }
    one.n_heads = heads;
    one.n_query = n;
    find_spaces(&one, false, &k_space, &v_space);
    w.at = kvr_cuda_head_rows_of(&one, s);
    w.shape = (struct kvr_attend_shape){ n, heads, one.head_dim };
    q = w.at.rotated_v.state.acc; /* unused memory, since column passes read no values */
    KVR_TRY(take_queries(&w, job->attend->q, (int32_t *)w.at.rotated_v.state.mx, q));
    one.q = q;
    if (k_space) {
        kvr_dev_copy(s->dev, w.at.q_rot, q, (size_t)(n * heads) * (size_t)one.head_dim * sizeof *q);
        kvr_codec_transform(k_space, s->dev, KVR_QUERY_TO_SPACE, w.at.q_rot, n, 0, heads,
                            one.head_dim);
    }
    kvr_attend_begin_cuda(kvr_dev_stream(s->dev), &w.shape, &w.at.plain.state);
    for (int second = 0; second < 2; second++)
        for (int i = 0; i < one.n_spans; i++) {
            struct kvr_span span;

            if (span_of_head(&one.spans[i], h, &raw, &span))
                KVR_TRY(walk_span(&w, &span, second));
        }
    return KVR_OK;
}

enum kvr_status kvr_columns_cuda(const struct kvr_column_job *job, struct kvr_attend_scratch *s)
{
    const int heads = job->attend->n_heads;
    float *capacity = malloc(2 * KVR_CUDA_PIECE * (size_t)heads * sizeof *capacity);
    enum kvr_status st = KVR_OK;

    if (!capacity)
        return kvr_fail(
            KVR_ENOMEM,
            "attention: out of memory while allocating the attention weights of %d keys",
            KVR_CUDA_PIECE);
    if (!job->attend->by_head)
        st = columns_of(job, s, -1, capacity);
    for (int h = 0; h < heads && job->attend->by_head && st == KVR_OK; h++)
        st = columns_of(job, s, h, capacity);
    free(capacity);
    return st;
}

const struct kvr_attend_kind kvr_attend_cuda = {
    .bytes = kvr_cuda_scratch_bytes,
    .check = kvr_cuda_attend_check,
    .fuses = kvr_cuda_attend_fuses,
    .bf16 = kvr_cuda_attends_bf16,
    .run = run,
    .columns = kvr_columns_cuda,
    .prepare = kvr_cuda_scratch_prepare,
};
