/* mma_reference.c - see mma_reference.h. */
#include "tests/cuda/mma_reference.h"

#include "methods/codecs/hadamard/fwht.h"

static void *copy_of(struct kvr_buf *b)
{
    return b->n_bytes ? both_in(b->p, b->n_bytes) : NULL;
}

void mma_hold(struct mma_held *out, const struct mma_case *c, const char *text, enum kvr_side side,
              enum fill fill, struct kvr_dev *dev)
{
    const struct kvr_block_shape shape = { c->n_tok, c->a.n_heads, c->a.head_dim };
    const size_t n = elements(&shape), bytes = n * kvr_dtype_size(c->raw);
    float *work = floats(n);

    *out = (struct mma_held){ .x = floats(n), .read = floats(n) };
    fill_block(out->x, &shape, fill, 7 + (uint32_t)side);
    /* Channels of different sizes, so that quantization steps differ. */
    for (size_t i = 0; i < n && c->taylor && side == KVR_K; i++)
        out->x[i] *= 0.3f * (float)(1 + i * (size_t)c->n_tok / n / 8 % 5);
    if (text) {
        out->codec = open_codec(text, side, c->study, KVR_COMPUTE_F32);
        ck_assert_int_eq(kvr_codec_encode(out->codec, dev, out->x, &shape, work, &out->packed),
                         KVR_OK);
        kvr_codec_decode_rotated(&out->packed, 0, c->n_tok, 0, c->a.n_heads, out->read);
        out->on_device = out->packed;
        for (int i = 0; i < KVR_MAX_STAGES; i++) {
            out->on_device.stage[i].codes.p = copy_of(&out->packed.stage[i].codes);
            out->on_device.stage[i].meta.p = copy_of(&out->packed.stage[i].meta);
        }
        out->source.packed = &out->on_device;
    } else {
        out->raw = malloc(bytes);
        ck_assert_ptr_nonnull(out->raw);
        kvr_from_f32(out->raw, c->raw, out->x, n);
        kvr_to_f32(out->read, out->raw, c->raw, n);
        out->source = (struct kvr_attend_mma_source){ NULL, both_in(out->raw, bytes), c->raw };
    }
    free(work);
}

void mma_release(struct mma_held *h)
{
    if (h->codec) {
        kvr_packed_free(&h->packed);
        kvr_codec_close(&h->codec);
    }
    free(h->x);
    free(h->read);
    free(h->raw);
}

struct kvr_attend_state mma_state(const struct kvr_attend_shape *a)
{
    const size_t rows = (size_t)(a->n_query * a->n_heads) * sizeof(float);

    return (struct kvr_attend_state){ both_out(rows), both_out(rows),
                                      both_out(rows * (size_t)a->head_dim) };
}

struct kvr_attend_io mma_between(const float *q, const struct kvr_attend_state *st)
{
    return (struct kvr_attend_io){ .q = q, .state = *st };
}

static double larger(double a, double b)
{
    return isfinite(b) && b > a ? b : a;
}

void mma_one_query(const struct mma_case *c, const float *q, double bias, const float *k,
                   const float *v, const float *s2, int h, double *out, double *lse,
                   struct mma_sizes *z)
{
    const int d = c->a.head_dim;
    const int64_t width = (int64_t)c->a.n_heads * d;
    double *score = calloc((size_t)c->n, sizeof *score), top = -INFINITY, sum = 0;

    ck_assert_ptr_nonnull(score);
    for (int64_t j = 0; j < c->n; j++) {
        const int64_t at = (c->t0 + j) * width + (int64_t)h * d;
        double dot = 0, size = 0, off = 0;

        for (int e = 0; e < d; e++) {
            const double x = to_bf16(q[e]), term = x * to_bf16(k[at + e]);

            dot += term;
            size += fabs(term);
            off += s2 ? x * x * (double)s2[at + e] : 0;
        }
        off /= 24.0 * d;
        score[j] = dot / sqrt(d) - off + bias;
        top = score[j] > top ? score[j] : top;
        z->S = larger(z->S, size / sqrt(d));
        z->C = larger(z->C, off);
    }
    z->B = larger(z->B, fabs(bias));
    for (int e = 0; e < d; e++)
        out[e] = 0;
    for (int64_t j = 0; j < c->n; j++) {
        const double w = exp(score[j] - top);

        sum += w;
        for (int e = 0; e < d; e++) {
            const double x = to_bf16(v[(c->t0 + j) * width + (int64_t)h * d + e]);

            out[e] += w * x;
            z->top = larger(z->top, fabs(x));
        }
    }
    for (int e = 0; e < d; e++)
        out[e] /= sum;
    *lse = top + log(sum);
    free(score);
}

double mma_score_bound(const struct mma_case *c, const struct mma_sizes *z, bool cpu)
{
    return c->a.head_dim * 4 * mma_u * (z->S + z->C) + 8 * mma_u * (z->S + z->C + z->B) +
           2 * mma_half * z->C + (cpu ? 2 * mma_half * (z->S + z->C) : 0);
}

double mma_bound(const struct mma_case *c, const struct mma_sizes *z, bool cpu)
{
    const double e = 2 * mma_score_bound(c, z, cpu) + 16 * mma_u + 2 * (double)c->n * mma_u;

    return z->top * ((1 + mma_half) * (cpu ? 1 + mma_half : 1) * exp(e) - 1);
}

void mma_within(const double *want, const float *got, int64_t n, double tol, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        const double g = (double)got[i];

        if ((isnan(want[i]) && isnan(g)) || want[i] == g)
            continue;
        if (!(fabs(want[i] - g) <= tol))
            ck_abort_msg("%s[%lld]: %g, not %g; may differ by %g", what, (long long)i, g, want[i],
                         tol);
    }
}

void mma_same_bits(const float *want, const float *got, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(!memcmp(&want[i], &got[i], sizeof *got) || (isnan(want[i]) && isnan(got[i])),
                      "%s: value %lld is %g, not %g", what, (long long)i, (double)got[i],
                      (double)want[i]);
}

bool mma_lists_here(void)
{
    return kvr_stream_emulated() || kvr_attend_list_supported(both_stream);
}

void mma_by_kernel(const struct kvr_attend_shape *a, int how, const struct kvr_attend_io *io,
                   const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                   size_t n_parts)
{
    struct kvr_attend_io of = *io;

    if (how == BY_LIST)
        kvr_attend_list_cuda(both_stream, a, io, span, n_spans, parts, n_parts);
    else if (how == BY_ROWS)
        kvr_attend_rows_cuda(both_stream, a, io, span, n_spans, parts, n_parts);
    for (int i = 0; i < n_spans && how == BY_SPAN; i++, of.begins = false) {
        of.out = i + 1 < n_spans ? NULL : io->out;
        of.out16 = i + 1 < n_spans ? NULL : io->out16;
        kvr_attend_mma_cuda(both_stream, a, &of, &span[i]);
    }
}

void mma_ends_alike(const struct kvr_attend_shape *a, int how,
                    const struct kvr_attend_mma_span *span, int n_spans, float *parts,
                    size_t n_parts, const float *q, const char *what)
{
    const size_t n = (size_t)(a->n_query * a->n_heads * a->head_dim);
    float *rounded = floats(n), *want = floats(n), *got = floats(n);
    kvr_bf16 *q16 = malloc(n * sizeof *q16), *got16 = malloc(n * sizeof *got16);
    float *d_out = both_out(n * sizeof *got), *d_q;
    kvr_bf16 *d_out16 = both_out(n * sizeof *got16), *d_q16;
    struct kvr_attend_state st = mma_state(a);
    struct kvr_attend_io io;

    ck_assert(q16 && got16);
    kvr_from_f32(q16, KVR_BF16, q, n);
    kvr_to_f32(rounded, q16, KVR_BF16, n);
    d_q = both_in(rounded, n * sizeof *rounded);
    d_q16 = both_in(q16, n * sizeof *q16);
    io = mma_between(d_q, &st);
    kvr_attend_begin_cuda(both_stream, a, &st);
    mma_by_kernel(a, how, &io, span, n_spans, parts, n_parts);
    kvr_attend_finish_cuda(both_stream, a, &st, d_out);
    both_get(want, d_out, n * sizeof *want, what);
    st = mma_state(a);
    io = (struct kvr_attend_io){ .q = d_q, .state = st, .begins = true, .out = d_out };
    mma_by_kernel(a, how, &io, span, n_spans, parts, n_parts);
    both_get(got, d_out, n * sizeof *got, what);
    mma_same_bits(want, got, (int64_t)n, what);
    st = mma_state(a);
    io = (struct kvr_attend_io){ .q16 = d_q16, .state = st, .begins = true, .out16 = d_out16 };
    mma_by_kernel(a, how, &io, span, n_spans, parts, n_parts);
    both_get(got16, d_out16, n * sizeof *got16, what);
    for (size_t i = 0; i < n; i++) {
        want[i] = (float)to_bf16(want[i]);
        got[i] = kvr_bf16_to_f32(got16[i]);
    }
    mma_same_bits(want, got, (int64_t)n, what);
    free(rounded);
    free(want);
    free(got);
    free(q16);
    free(got16);
}
