/* bench_attention_cuda.c - times attention over compressed KV caches on a device. The reference is
 * cuDNN over the decoded cache or, if cuDNN is not available, kvreel's dense kernel. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/bench_attention.h"
#include "harness/bench/bench_cudnn.h"
#include "harness/bench/rounds_cuda.h"
#include "harness/cache/attend_bytes.h"
#include "harness/cache/attend_wgmma.h"
#include "harness/cache/cache.h"
#include "harness/core/rng.h"
#include "harness/device/stream.h"

struct size {
    /* most_chunks: maximum number of chunks, including the current chunk. */
    int heads, d, tokens_per_frame, frames_per_chunk, most_chunks;
    int chunks[4]; /* measured numbers of chunks; 0 ends the list */
};
static const struct size wan = { 12, 128, 1560, 3, 14, { 1, 2, 7, 14 } };
static const struct size small = { 2, 128, 8, 3, 3, { 1, 3 } };
static const char *const methods[] = { "BF16", "RTN_INT4", "KIVI_INT2", "QUAROT_KV_INT4" };
static const enum kvr_path paths[] = { KVR_PATH_STAGED, KVR_PATH_FUSED };
static const char with_cudnn[] = "cuDNN SDPA BF16";
enum { N_METHODS = 4, N_PATHS = 2, N_SAMPLES = 48 };
_Static_assert(2 * 4 + 3 * N_METHODS * (N_PATHS + 1) <= KVR_BENCH_ATTENTION_ROWS,
               "KVR_BENCH_ATTENTION_ROWS must allow a row per measurement");

struct kit {
    struct kvr_dev *dev;
    const struct size *s;
    int rounds, n_chunks;
    int64_t n_query, n_key;
    size_t width;             /* H * D */
    struct kvr_buf all;       /* float [2][most_chunks][T,H,D]: keys and values of every chunk */
    struct kvr_buf q, out;    /* float [T,H,D] */
    struct kvr_buf raw;       /* BF16 [2][n_key,H,D]: the decoded cache */
    struct kvr_buf state;     /* running softmax sums and outputs of the dense kernel */
    struct kvr_buf parts;     /* partial results of the dense kernel's split-KV */
    struct kvr_buf busy;      /* memory of the filler work (rounds_cuda.h) */
    float *host_q, *host_out; /* [T,H,D] */
    float *k, *v;             /* [most,H,D]: the decoded cache */
    double *reference;        /* [N_SAMPLES,D]: exact attention over k, v in double */
    struct kvr_bench_cudnn cudnn;
    struct kvr_cache *cache;
};

static void kit_close(struct kit *t)
{
    kvr_bench_cudnn_close(&t->cudnn);
    kvr_buf_free(&t->all);
    kvr_buf_free(&t->q);
    kvr_buf_free(&t->out);
    kvr_buf_free(&t->raw);
    kvr_buf_free(&t->state);
    kvr_buf_free(&t->parts);
    kvr_buf_free(&t->busy);
    free(t->host_q);
    free(t->host_out);
    free(t->k);
    free(t->v);
    free(t->reference);
}

static size_t chunk_floats(const struct kit *t)
{
    return (size_t)t->n_query * t->width;
}

/* Returns the keys (`which` 0) or values (1) of a chunk. */
static float *chunk_of(const struct kit *t, int which, int chunk)
{
    return (float *)t->all.p + ((size_t)(which * t->s->most_chunks + chunk)) * chunk_floats(t);
}

static enum kvr_status draw(struct kit *t)
{
    const size_t n = chunk_floats(t);

    for (int c = 0; c < t->s->most_chunks; c++)
        for (int which = 0; which < 2; which++) {
            kvr_normal(t->host_out, n, 1, KVR_RNG_SYNTHETIC, (uint32_t)c, 1 + (uint32_t)which, 0);
            KVR_TRY(kvr_dev_put(t->dev, chunk_of(t, which, c), t->host_out, n * sizeof(float)));
        }
    kvr_normal(t->host_q, n, 1, KVR_RNG_SYNTHETIC, 0, 0, 0);
    return kvr_dev_put(t->dev, t->q.p, t->host_q, n * sizeof(float));
}

static enum kvr_status kit_open(struct kit *t)
{
    const size_t n = chunk_floats(t), all = n * (size_t)t->s->most_chunks;
    const size_t rows = (size_t)t->n_query * (size_t)t->s->heads;
    const struct kvr_attend_shape shape = { t->n_query, t->s->heads, t->s->d };
    const size_t busy = kvr_stream_emulated() ? 64 : (size_t)1 << 30;

    t->host_q = malloc(n * sizeof(float));
    t->host_out = malloc(n * sizeof(float));
    t->k = malloc(all * sizeof(float));
    t->v = malloc(all * sizeof(float));
    t->reference = malloc(N_SAMPLES * (size_t)t->s->d * sizeof *t->reference);
    if (!t->host_q || !t->host_out || !t->k || !t->v || !t->reference)
        return kvr_fail(KVR_ENOMEM,
                        "bench: out of memory while allocating keys and values of %zu elements",
                        all);
    KVR_TRY(kvr_buf_alloc(&t->all, t->dev, KVR_MEM_IO, 2 * all * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->q, t->dev, KVR_MEM_IO, n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->out, t->dev, KVR_MEM_IO, n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->raw, t->dev, KVR_MEM_IO, 2 * all * sizeof(kvr_bf16)));
    KVR_TRY(kvr_buf_alloc(&t->state, t->dev, KVR_MEM_SCRATCH, (2 * rows + n) * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->parts, t->dev, KVR_MEM_SCRATCH,
                          kvr_attend_parts_floats(&shape) * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->busy, t->dev, KVR_MEM_SCRATCH, busy));
    KVR_TRY(draw(t));
    return kvr_bench_cudnn_open(&t->cudnn, t->dev, t->s->heads, t->s->d, t->n_query, t->host_q);
}

/* ---- timed work -------------------------------------------------------------------------- */

/* Returns the decoded cache as one span. */
static struct kvr_attend_mma_span all_keys(const struct kit *t)
{
    const kvr_bf16 *raw = t->raw.p;

    return (struct kvr_attend_mma_span){
        .k = { .raw = raw, .dtype = KVR_BF16 },
        .v = { .raw = raw + (size_t)t->n_key * t->width, .dtype = KVR_BF16 },
        .n = t->n_key,
    };
}

/* Whether the wgmma kernel supports this BF16 span, so that it is used instead of mma.sync. */
static bool by_groups(const struct kit *t, const struct kvr_attend_shape *shape,
                      const struct kvr_attend_mma_span *span)
{
    return kvr_attend_list_supported(kvr_dev_stream(t->dev)) &&
           kvr_attend_list_accepts(shape, span);
}

static int dense_blocks(const struct kit *t)
{
    const struct kvr_attend_shape shape = { t->n_query, t->s->heads, t->s->d };
    const struct kvr_attend_mma_span span = all_keys(t);

    return by_groups(t, &shape, &span)
               ? 1
               : kvr_attend_mma_blocks(kvr_dev_stream(t->dev), &shape, &span);
}

static enum kvr_status dense(void *ctx, int iter)
{
    const struct kit *t = ctx;
    const struct kvr_attend_shape shape = { t->n_query, t->s->heads, t->s->d };
    const size_t rows = (size_t)t->n_query * (size_t)t->s->heads;
    const size_t n_parts = t->parts.n_bytes / sizeof(float);
    float *base = t->state.p;
    const struct kvr_attend_io io = { .q = t->q.p,
                                      .state = { base, base + rows, base + 2 * rows },
                                      .begins = true,
                                      .out = t->out.p };
    const struct kvr_attend_mma_span span = all_keys(t);
    struct kvr_stream *s = kvr_dev_stream(t->dev);

    (void)iter;
    if (!kvr_attend_mma_accepts(kvr_stream_block_shared(s), &shape, &span))
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "bench: the dense attention kernel does not support head_dim %d on this device; need a "
            "multiple of 16 whose tiles fit into %zu bytes of shared memory per block",
            t->s->d, kvr_stream_block_shared(s));
    if (by_groups(t, &shape, &span))
        kvr_attend_list_cuda(s, &shape, &io, &span, 1, t->parts.p, n_parts);
    else if (kvr_attend_rows_accepts(kvr_stream_block_shared(s), &shape, &span))
        kvr_attend_rows_cuda(s, &shape, &io, &span, 1, t->parts.p, n_parts);
    else
        kvr_attend_mma_cuda(s, &shape, &io, &span);
    return KVR_OK;
}

static enum kvr_status cudnn(void *ctx, int iter)
{
    struct kit *t = ctx;
    const kvr_bf16 *raw = t->raw.p;

    (void)iter;
    return kvr_bench_cudnn_run(&t->cudnn, raw, raw + (size_t)t->n_key * t->width);
}

/* Runs one pass of a chunk through the one-layer KV cache: append and attend. If `clean`, the pass
 * is the cache-update pass, which stores the chunk. */
static enum kvr_status pass_over(const struct kit *t, int chunk, int index, bool clean)
{
    const int fpc = t->s->frames_per_chunk;
    const struct kvr_pass pass = {
        .chunk = chunk, .frame0 = chunk * fpc, .n_frames = fpc, .index = index, .clean = clean
    };

    KVR_TRY(kvr_cache_begin_pass(t->cache, &pass));
    KVR_TRY(kvr_cache_append(t->cache, 0, chunk_of(t, 0, chunk), chunk_of(t, 1, chunk)));
    KVR_TRY(kvr_cache_attend(t->cache, 0, t->q.p, t->out.p));
    return kvr_cache_end_pass(t->cache);
}

static enum kvr_status attend(void *ctx, int iter)
{
    const struct kit *t = ctx;

    return pass_over(t, t->n_chunks - 1, iter, false);
}

/* ---- check ------------------------------------------------------------------------------- */

/* Computes attention for one query of one head in double: out [D]; p [n_key] is scratch. */
static void direct(const struct kit *t, size_t row, double *p, double *out)
{
    const size_t d = (size_t)t->s->d, at = row % (size_t)t->s->heads * d;
    const float *q = t->host_q + row * d;
    double top = -INFINITY, sum = 0;

    for (int64_t j = 0; j < t->n_key; j++) {
        const float *k = t->k + (size_t)j * t->width + at;

        p[j] = 0;
        for (size_t c = 0; c < d; c++)
            p[j] += (double)q[c] * (double)k[c];
        p[j] /= sqrt((double)d);
        top = fmax(top, p[j]);
    }
    memset(out, 0, d * sizeof *out);
    for (int64_t j = 0; j < t->n_key; j++) {
        const float *v = t->v + (size_t)j * t->width + at;
        const double w = exp(p[j] - top);

        sum += w;
        for (size_t c = 0; c < d; c++)
            out[c] += w * (double)v[c];
    }
    for (size_t c = 0; c < d; c++)
        out[c] /= sum;
}

/* Returns the row (query and head) of the i-th sample. */
static size_t sample(const struct kit *t, size_t i)
{
    return i * ((size_t)t->n_query * (size_t)t->s->heads - 1) / (N_SAMPLES - 1);
}

static enum kvr_status compute_reference(struct kit *t)
{
    double *p = malloc((size_t)t->n_key * sizeof *p);

    if (!p)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    for (size_t i = 0; i < N_SAMPLES; i++)
        direct(t, sample(t, i), p, t->reference + i * (size_t)t->s->d);
    free(p);
    return KVR_OK;
}

/* Returns the relative L2 error of host_out over all samples. */
static double error_of(const struct kit *t)
{
    const size_t d = (size_t)t->s->d;
    double off = 0, size = 0;

    for (size_t i = 0; i < N_SAMPLES * d; i++) {
        const double e = (double)t->host_out[sample(t, i / d) * d + i % d] - t->reference[i];

        off += e * e;
        size += t->reference[i] * t->reference[i];
    }
    return sqrt(off / size);
}

/* Tolerance of BF16 attention, which rounds queries and softmax weights to BF16. Each rounding has
 * a relative error of at most 2^-8, RMS 0.43 x 2^-8 = 0.0017. If scores are of order 1, the
 * rounding of a query causes an equal relative error of its softmax weights. The rounding of the
 * weights adds the same error, and so does cuDNN's rounding of its output. The three errors are
 * independent, so their sum is sqrt(3) 0.0017 = 0.0029 of the output's norm. The tolerance is 2.2
 * times as large. */
static const double most_of_bf16 = 0.00637;

/* Tolerance of INT8 attention. The largest of 128 normal numbers is about 2.7, and quantization
 * with scale 2.7 / 127 has the RMS error .0061. The quantization of queries and keys causes a
 * relative error of the softmax weights of sqrt(2) .0061 = .0087, that of values adds .006. Weights
 * are rounded to multiples of 1/255 of the largest weight of their tile, which adds .0085 RMS if
 * scores are normally distributed. The root of the sum of these three squares is .0135 of the
 * output's norm. The tolerance is three times as large. */
static const double most_of_bytes = 3 * .0135;

static enum kvr_status check_reference(const struct kit *t, const char *name, double most)
{
    const double error = error_of(t);

    if (!(error <= most))
        return kvr_fail(KVR_ETOLERANCE,
                        "bench: %s: the attention output differs from a double-precision reference "
                        "by a relative L2 error of %g; the limit is %g",
                        name, error, most);
    return KVR_OK;
}

/* Copies `out` from the device and compares it with the reference. */
static enum kvr_status check(struct kit *t, const char *name, double most)
{
    const size_t n = chunk_floats(t) * sizeof(float);

    if (kvr_dev_sync(t->dev) != KVR_OK || kvr_dev_get(t->dev, t->host_out, t->out.p, n) != KVR_OK)
        return kvr_fail_prefix(KVR_EINTERNAL, "bench: %s", name);
    return check_reference(t, name, most);
}

/* Runs cuDNN and checks its result. If cuDNN fails or its result is wrong, it is not used as the
 * reference, and the reason is recorded. */
static enum kvr_status check_cudnn(struct kit *t)
{
    enum kvr_status st;

    if (t->cudnn.why[0])
        return KVR_OK;
    st = cudnn(t, 0);
    if (st == KVR_OK)
        st = kvr_bench_cudnn_get(&t->cudnn, t->host_out);
    if (st == KVR_OK)
        st = check_reference(t, "cuDNN", most_of_bf16);
    if (st == KVR_OK || st == KVR_ENOMEM)
        return st;
    snprintf(t->cudnn.why, sizeof t->cudnn.why, "%s", kvr_error());
    return KVR_OK;
}

/* ---- cache ------------------------------------------------------------------------------- */

/* Stores all chunks except the last in the KV cache. */
static enum kvr_status fill(struct kit *t)
{
    for (int c = 0; c < t->n_chunks - 1; c++)
        KVR_TRY(pass_over(t, c, 0, true));
    return kvr_dev_sync(t->dev);
}

static enum kvr_status put_bf16(struct kit *t, const float *x, int which)
{
    const size_t n = (size_t)t->n_key * t->width;
    kvr_bf16 *b = malloc(n * sizeof *b);
    enum kvr_status st;

    if (!b)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    kvr_from_f32(b, KVR_BF16, x, n);
    st = kvr_dev_put(t->dev, (kvr_bf16 *)t->raw.p + (size_t)which * n, b, n * sizeof *b);
    free(b);
    return st;
}

/* Decodes the KV cache to BF16, and computes the exact attention output over the BF16 values.
 * Rounding the decoded values to BF16 is thus not counted as an error of a kernel. With 2-bit
 * codes, many tokens have the same decoded value, so their equal rounding errors do not cancel.
 * With KIVI_INT2, 4680 queries and 9360 keys, they change the output by .028 of its norm. */
static enum kvr_status decode_all(struct kit *t)
{
    const size_t n = chunk_floats(t), past = (size_t)(t->n_chunks - 1) * n;
    float *const to[2] = { t->k + past, t->v + past };
    int64_t stored = 0;

    if (t->cache)
        KVR_TRY(kvr_cache_read(t->cache, 0, t->k, t->v, &stored));
    if ((size_t)stored * t->width != past)
        return kvr_fail(KVR_EINTERNAL,
                        "bench: the cache stores %lld tokens, but the benchmark expects %zu",
                        (long long)stored, past / t->width);
    for (int which = 0; which < 2; which++) {
        float *all = which ? t->v : t->k;

        KVR_TRY(
            kvr_dev_get(t->dev, to[which], chunk_of(t, which, t->n_chunks - 1), n * sizeof(float)));
        for (size_t i = 0; i < past + n; i++)
            all[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(all[i]));
    }
    KVR_TRY(put_bf16(t, t->k, 0));
    KVR_TRY(put_bf16(t, t->v, 1));
    KVR_TRY(compute_reference(t));
    return check_cudnn(t);
}

static enum kvr_status time_it(struct kit *t, kvr_round_fn *run, kvr_round_fn *reference,
                               struct kvr_bench_row *row)
{
    const struct kvr_rounds turns = { .dev = t->dev,
                                      .ctx = t,
                                      .run = run,
                                      .reference = reference,
                                      .rounds = t->rounds,
                                      .times = 1,
                                      .busy = &t->busy };
    const double flops = 4.0 * (double)t->n_query * (double)t->n_key * (double)t->width;
    struct kvr_round_times times;

    KVR_TRY(kvr_rounds_run(&turns, &times));
    row->unit = "GFLOP/s";
    row->reference = reference == cudnn ? with_cudnn : "dense BF16";
    kvr_rounds_fill(row, &times, flops);
    return KVR_OK;
}

/* If the result is out of tolerance, removes the rate from the row and records the reason. Returns
 * any other error, which ends the benchmark. */
static enum kvr_status off_or(enum kvr_status st, struct kvr_bench_row *row)
{
    if (st != KVR_ETOLERANCE)
        return st;
    row->unit = "GFLOP/s";
    row->reference = "direct softmax";
    row->n = 0;
    row->median = row->min = row->cold = row->warm = NAN;
    kvr_bench_without(row, kvr_error());
    return KVR_OK;
}

static void name_row(const struct kit *t, struct kvr_bench_row *row, const char *path,
                     const char *method)
{
    *row = (struct kvr_bench_row){ 0 };
    snprintf(row->name, sizeof row->name, "attention.%s.%s.%lldx%lld", path, method,
             (long long)t->n_query, (long long)t->n_key);
}

/* Fills a cache of `method`, decodes it for the dense kernel, and times attention over the cache if
 * `timed`. */
static enum kvr_status cached(struct kit *t, const char *method, enum kvr_path path,
                              enum kvr_attend_as as, bool timed, struct kvr_bench_row *row)
{
    const bool bytes = as == KVR_ATTEND_INT8;
    const double most = bytes ? most_of_bytes : most_of_bf16;
    const struct size *s = t->s;
    const struct kvr_cache_shape shape = {
        .n_layers = 1,
        .n_heads = s->heads,
        .head_dim = s->d,
        .tokens_per_frame = s->tokens_per_frame,
        .frames_per_chunk = s->frames_per_chunk,
        .capacity_frames = s->frames_per_chunk * t->n_chunks,
        .exact = KVR_BF16,
        .attend = as,
    };
    struct kvr_scheme *scheme = NULL;
    enum kvr_status st = kvr_scheme_open(&scheme, method, NULL, 0);

    if (st == KVR_OK)
        st = kvr_cache_open(&t->cache, t->dev, scheme, &shape, path);
    if (st == KVR_OK)
        st = fill(t);
    if (st == KVR_OK)
        st = decode_all(t);
    if (st == KVR_OK && timed)
        st = attend(t, 0);
    if (st == KVR_OK && timed)
        st = check(t, row->name, most);
    if (st == KVR_OK && timed)
        st = time_it(t, attend, t->cudnn.why[0] ? dense : cudnn, row);
    if (st == KVR_OK && timed) /* checks the timed output */
        st = check(t, row->name, most);
    if (st == KVR_OK && bytes)
        row->error = error_of(t);
    kvr_rounds_judge(t->dev, row);
    if (bytes)
        st = off_or(st, row);
    kvr_cache_close(&t->cache);
    kvr_scheme_close(&scheme);
    return st;
}

/* Times the dense kernel over the keys and values in t->raw, which cached() has decoded from a BF16
 * cache. With one chunk there is no cache, so the function first writes that chunk to t->raw. */
static enum kvr_status bench_own(struct kit *t, struct kvr_bench_row *row)
{
    if (t->n_chunks == 1)
        KVR_TRY(decode_all(t));
    KVR_TRY(dense(t, 0));
    KVR_TRY(check(t, row->name, most_of_bf16));
    KVR_TRY(time_it(t, dense, t->cudnn.why[0] ? dense : cudnn, row));
    KVR_TRY(check(t, row->name, most_of_bf16));
    row->blocks = dense_blocks(t);
    row->reference = with_cudnn;
    if (t->cudnn.why[0])
        kvr_bench_without(row, t->cudnn.why);
    kvr_rounds_judge(t->dev, row);
    return KVR_OK;
}

/* Times cuDNN over the same decoded keys and values as the dense kernel. */
static enum kvr_status library(struct kit *t, struct kvr_bench_row *row)
{
    KVR_TRY(time_it(t, cudnn, dense, row));
    KVR_TRY(kvr_bench_cudnn_get(&t->cudnn, t->host_out));
    KVR_TRY(check_reference(t, row->name, most_of_bf16));
    kvr_rounds_judge(t->dev, row);
    return KVR_OK;
}

/* Result rows, and the sink that receives completed rows. */
struct sink_to {
    const struct kvr_bench_sink *sink;
    struct kvr_bench_row *rows;
    int *n;
};

/* If st is KVR_OK, reports the row to->rows[*to->n] and increments *to->n. Returns st. */
static enum kvr_status emit_skip(enum kvr_status st, const struct sink_to *to)
{
    if (st == KVR_OK)
        kvr_bench_emit(to->sink, &to->rows[(*to->n)++]);
    return st;
}

static struct kvr_bench_row *next(const struct kit *t, const struct sink_to *to, const char *path,
                                  const char *method)
{
    name_row(t, &to->rows[*to->n], path, method);
    return &to->rows[*to->n];
}

static enum kvr_status cache_row(struct kit *t, const char *method, enum kvr_path path,
                                 enum kvr_attend_as as, const struct sink_to *to)
{
    struct kvr_bench_row *row =
        next(t, to, as == KVR_ATTEND_INT8 ? kvr_attend_names[as] : kvr_path_names[path], method);

    return kvr_bench_wanted(to->sink, row->name)
               ? emit_skip(cached(t, method, path, as, true, row), to)
               : KVR_OK;
}

/* Reports the rows of the dense kernel and of cuDNN, both over keys decoded from a BF16 cache. */
static enum kvr_status reference_rows(struct kit *t, const struct sink_to *to)
{
    struct kvr_bench_row *row = next(t, to, "dense", "BF16");
    struct kvr_bench_row unused = { 0 };

    if (!kvr_bench_wanted(to->sink, row->name))
        return KVR_OK;
    if (t->n_chunks > 1)
        KVR_TRY(cached(t, "BF16", KVR_PATH_STAGED, KVR_ATTEND_FLOAT, false, &unused));
    KVR_TRY(emit_skip(bench_own(t, row), to));
    if (t->cudnn.why[0])
        return KVR_OK;
    row = next(t, to, "cuDNN", "BF16");
    return kvr_bench_wanted(to->sink, row->name) ? emit_skip(library(t, row), to) : KVR_OK;
}

static enum kvr_status at_length(struct kit *t, int n_chunks, const struct sink_to *to)
{
    const bool with_bytes =
        kvr_attend_bytes_supported(kvr_dev_stream(t->dev)) && t->s->d == KVR_BYTE_D;

    t->n_chunks = n_chunks;
    t->n_key = t->n_query * n_chunks;
    KVR_TRY(kvr_bench_cudnn_keys(&t->cudnn, t->n_key));
    KVR_TRY(reference_rows(t, to));
    for (int m = 0; m < N_METHODS && n_chunks > 1; m++)
        for (int p = 0; p < N_PATHS; p++)
            KVR_TRY(cache_row(t, methods[m], paths[p], KVR_ATTEND_FLOAT, to));
    for (int m = 1; m < N_METHODS && n_chunks > 1 && with_bytes; m++) /* the first method is BF16 */
        KVR_TRY(cache_row(t, methods[m], KVR_PATH_STAGED, KVR_ATTEND_INT8, to));
    return KVR_OK;
}

enum kvr_status kvr_bench_attention_cuda(struct kvr_dev *dev, int rounds,
                                         const struct kvr_bench_sink *sink,
                                         struct kvr_bench_row *rows, int *n_rows)
{
    const struct size *s = kvr_stream_emulated() ? &small : &wan;
    struct kit t = { .dev = dev,
                     .s = s,
                     .rounds = rounds,
                     .n_query = (int64_t)s->tokens_per_frame * s->frames_per_chunk,
                     .width = (size_t)s->heads * (size_t)s->d };
    const struct sink_to to = { sink, rows, n_rows };
    enum kvr_status st;

    *n_rows = 0;
    if (rounds < 3 || rounds > KVR_BENCH_MAX_ROUNDS)
        return kvr_fail(KVR_EINVAL, "bench: %d rounds requested, need 3..%d", rounds,
                        KVR_BENCH_MAX_ROUNDS);
    st = kit_open(&t);
    for (int i = 0; i < 4 && s->chunks[i] && st == KVR_OK; i++)
        st = at_length(&t, s->chunks[i], &to);
    kit_close(&t);
    return st;
}
