/* bench_codec_cuda.c - times encoding and decoding on a device, against a copy in device memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/bench_codec.h"
#include "harness/bench/rounds_cuda.h"
#include "harness/device/stream.h"

enum { MAX_BUFFERS = 16, MAX_ROUNDS = KVR_BENCH_MAX_ROUNDS };

/* Buffers of the benchmark. The n_buffers buffers of x, and of out, are contiguous. */
struct kit {
    struct kvr_dev *dev;
    struct kvr_block_shape shape;
    size_t n; /* number of values in a block (keys or values of a chunk) */
    int rounds, times, n_buffers;
    struct kvr_buf x, work, out; /* float: input x and output out [n_buffers,n]; scratch work [n] */
    struct kvr_buf from, to;     /* source and destination of the copy, as large as x */
    struct kvr_buf busy;
    float *host; /* [n]: the block in host memory */
    const struct kvr_codec *codec;
    struct kvr_packed packed[MAX_BUFFERS];
    size_t moved; /* bytes read and written by one launch */
};

static void kit_close(struct kit *k)
{
    kvr_buf_free(&k->x);
    kvr_buf_free(&k->work);
    kvr_buf_free(&k->out);
    kvr_buf_free(&k->from);
    kvr_buf_free(&k->to);
    kvr_buf_free(&k->busy);
    free(k->host);
}

static enum kvr_status kit_open(struct kit *k)
{
    const size_t bytes = k->n * sizeof(float);
    const bool emulated = kvr_stream_emulated();

    KVR_TRY(kvr_rounds_buffers(k->dev, bytes, MAX_BUFFERS, &k->n_buffers));
    k->times = emulated ? 1 : 2 * k->n_buffers;
    KVR_TRY(kvr_buf_alloc(&k->x, k->dev, KVR_MEM_IO, bytes * (size_t)k->n_buffers));
    KVR_TRY(kvr_buf_alloc(&k->out, k->dev, KVR_MEM_SCRATCH, bytes * (size_t)k->n_buffers));
    KVR_TRY(kvr_buf_alloc(&k->from, k->dev, KVR_MEM_IO, bytes * (size_t)k->n_buffers));
    KVR_TRY(kvr_buf_alloc(&k->to, k->dev, KVR_MEM_IO, bytes * (size_t)k->n_buffers));
    KVR_TRY(kvr_buf_alloc(&k->work, k->dev, KVR_MEM_SCRATCH, bytes));
    KVR_TRY(kvr_buf_alloc(&k->busy, k->dev, KVR_MEM_SCRATCH, emulated ? 64 : (size_t)4 << 30));
    k->host = malloc(bytes);
    if (!k->host)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    kvr_bench_values(k->host, k->n, k->shape.head_dim);
    kvr_dev_zero(k->dev, k->from.p, k->from.n_bytes);
    /* Each buffer of x receives the block with its tokens in another order. At the end, `host`
     * equals the first buffer, which verify() checks. */
    for (int i = k->n_buffers - 1; i >= 0; i--) {
        kvr_bench_rotate_rows(k->host, bytes, bytes / (size_t)k->shape.n_tok);
        KVR_TRY(kvr_dev_put(k->dev, (char *)k->x.p + bytes * (size_t)i, k->host, bytes));
    }
    return KVR_OK;
}

static void *nth(const struct kit *k, const struct kvr_buf *b, int iter)
{
    return (float *)b->p + (size_t)(iter % k->n_buffers) * k->n;
}

static enum kvr_status copy(void *ctx, int iter)
{
    const struct kit *k = ctx;

    kvr_dev_copy(k->dev, nth(k, &k->to, iter), nth(k, &k->from, iter), k->moved / 2);
    return KVR_OK;
}

static enum kvr_status encode(void *ctx, int iter)
{
    struct kit *k = ctx;
    struct kvr_packed *p = &k->packed[iter % k->n_buffers];

    kvr_packed_free(p);
    return kvr_codec_encode(k->codec, k->dev, nth(k, &k->x, iter), &k->shape, k->work.p, p);
}

static enum kvr_status decode(void *ctx, int iter)
{
    struct kit *k = ctx;

    kvr_codec_decode(&k->packed[iter % k->n_buffers], 0, k->shape.n_tok, 0, k->shape.n_heads,
                     nth(k, &k->out, iter));
    return KVR_OK;
}

static bool same(const struct kvr_buf *a, const struct kvr_buf *b)
{
    return a->n_bytes == b->n_bytes && (!a->n_bytes || memcmp(a->p, b->p, a->n_bytes) == 0);
}

/* Compares the codes `mine` and the values `decoded` of the device with the CPU's codes `want` and
 * their decoded values. */
static enum kvr_status compare(const struct kit *k, const char *name, const struct kvr_packed *mine,
                               const struct kvr_packed *want, const float *decoded)
{
    float *x = malloc(k->n * sizeof *x), expected = 0;
    size_t first = 0;

    if (!x)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    kvr_codec_decode(want, 0, k->shape.n_tok, 0, k->shape.n_heads, x);
    while (first < k->n && memcmp(&x[first], &decoded[first], sizeof *x) == 0)
        first++;
    if (first < k->n)
        expected = x[first];
    free(x);
    for (int i = 0; i < KVR_MAX_STAGES; i++)
        if (!same(&mine->stage[i].codes, &want->stage[i].codes) ||
            !same(&mine->stage[i].meta, &want->stage[i].meta))
            return kvr_fail(KVR_ETOLERANCE,
                            "bench: %s: codec stage %d (counted from 0) encodes to other bytes on "
                            "the device than on the CPU",
                            name, i);
    return first == k->n
               ? KVR_OK
               : kvr_fail(
                     KVR_ETOLERANCE,
                     "bench: %s: element %zu decodes to %g on the device, but to %g on the CPU",
                     name, first, (double)decoded[first], (double)expected);
}

/* Checks that the codes and decoded values of the first buffer equal the CPU's byte for byte. */
static enum kvr_status verify(struct kit *k, const char *name)
{
    struct kvr_dev *host = kvr_dev_host(k->dev);
    struct kvr_packed mine = { 0 }, want = { 0 };
    float *decoded = malloc(k->n * sizeof *decoded), *work = malloc(k->n * sizeof *work);
    enum kvr_status st = decoded && work ? KVR_OK : kvr_fail(KVR_ENOMEM, "bench: out of memory");

    if (st == KVR_OK)
        st = kvr_dev_sync(k->dev);
    if (st == KVR_OK)
        st = kvr_dev_get(k->dev, decoded, k->out.p, k->n * sizeof *decoded);
    if (st == KVR_OK)
        st = kvr_packed_copy(&k->packed[0], host, &mine);
    if (st == KVR_OK)
        st = kvr_codec_encode(k->codec, host, k->host, &k->shape, work, &want);
    if (st == KVR_OK)
        st = compare(k, name, &mine, &want, decoded);
    kvr_packed_free(&mine);
    kvr_packed_free(&want);
    free(decoded);
    free(work);
    return st;
}

/* Encodes all buffers, decodes the first, and checks the first. */
static enum kvr_status check(struct kit *k, const char *name)
{
    for (int i = 0; i < k->n_buffers; i++)
        KVR_TRY(encode(k, i));
    KVR_TRY(decode(k, 0));
    return verify(k, name);
}

static enum kvr_status time_one(struct kit *k, const char *what, const char *name,
                                kvr_round_fn *run, struct kvr_bench_row *row)
{
    const struct kvr_rounds t = { .dev = k->dev,
                                  .ctx = k,
                                  .run = run,
                                  .reference = copy,
                                  .rounds = k->rounds,
                                  .times = k->times,
                                  .busy = &k->busy };
    struct kvr_round_times times;

    KVR_TRY(kvr_rounds_run(&t, &times));
    *row = (struct kvr_bench_row){ .unit = "GB/s", .reference = "copy within the device" };
    snprintf(row->name, sizeof row->name, "%s.%s", what, name);
    kvr_rounds_fill(row, &times, (double)k->moved);
    kvr_rounds_judge(k->dev, row);
    return KVR_OK;
}

static enum kvr_status time_line(struct kit *k, const struct kvr_bench_line *line,
                                 struct kvr_bench_row rows[2])
{
    enum kvr_status st = check(k, line->name);

    k->moved = k->n * sizeof(float) + (st == KVR_OK ? kvr_packed_bytes(&k->packed[0]) : 0);
    if (st == KVR_OK)
        st = time_one(k, "quantise", line->name, encode, &rows[0]);
    if (st == KVR_OK)
        st = time_one(k, "dequantise", line->name, decode, &rows[1]);
    if (st == KVR_OK) /* checks the codes and values of the timed launches */
        st = verify(k, line->name);
    for (int i = 0; i < k->n_buffers; i++)
        kvr_packed_free(&k->packed[i]);
    return st;
}

enum kvr_status kvr_bench_codec_cuda(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                     int rounds, const struct kvr_bench_sink *sink,
                                     struct kvr_bench_row *rows, int *n_rows)
{
    static const struct kvr_block_shape wan = { 4680, 12, 128 }, small = { 40, 2, 128 };
    struct kit k = { .dev = dev, .rounds = rounds };
    enum kvr_status st;

    *n_rows = 0;
    if (rounds < 3 || rounds > MAX_ROUNDS)
        return kvr_fail(KVR_EINVAL, "bench: %d rounds requested, need 3..%d", rounds, MAX_ROUNDS);
    k.shape = shape ? *shape : kvr_stream_emulated() ? small : wan;
    k.n = (size_t)k.shape.n_tok * (size_t)k.shape.n_heads * (size_t)k.shape.head_dim;
    st = kit_open(&k);
    for (const struct kvr_bench_line *l = kvr_bench_lines; l->name && st == KVR_OK; l++) {
        struct kvr_codec *c = NULL;
        char name[sizeof rows->name];

        snprintf(name, sizeof name, "quantise.%s", l->name);
        if (!kvr_bench_wanted(sink, name))
            continue;
        st = kvr_codec_open(&c, l->text, l->side, false);
        if (st == KVR_OK)
            st = kvr_codec_check(c, k.shape.n_heads, k.shape.head_dim);
        k.codec = c;
        if (st == KVR_OK)
            st = time_line(&k, l, rows + *n_rows);
        for (int i = 0; st == KVR_OK && i < 2; i++)
            kvr_bench_emit(sink, &rows[(*n_rows)++]);
        kvr_codec_close(&c);
    }
    kit_close(&k);
    return st;
}
