/* bench_cudnn.c - see bench_cudnn.h. */
#include "harness/bench/bench_cudnn.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness/core/dtype.h"

/* If the error means that cuDNN is unavailable, stores its message as the reason and returns
 * success. */
static enum kvr_status note_unavailable(struct kvr_bench_cudnn *b, enum kvr_status st)
{
    if (st == KVR_OK || st == KVR_ENOMEM)
        return st;
    snprintf(b->why, sizeof b->why, "%s", kvr_error());
    return KVR_OK;
}

static size_t queries(const struct kvr_bench_cudnn *b)
{
    return (size_t)b->shape.n_query * (size_t)b->shape.heads * (size_t)b->shape.d;
}

static enum kvr_status put_queries(struct kvr_bench_cudnn *b, const float *q)
{
    const size_t n = queries(b);
    kvr_bf16 *rounded = malloc(n * sizeof *rounded);
    enum kvr_status st;

    if (!rounded)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    kvr_from_f32(rounded, KVR_BF16, q, n);
    st = kvr_dev_put(b->dev, b->q.p, rounded, n * sizeof *rounded);
    free(rounded);
    return st;
}

enum kvr_status kvr_bench_cudnn_open(struct kvr_bench_cudnn *b, struct kvr_dev *dev, int heads,
                                     int d, int64_t n_query, const float *q)
{
    *b = (struct kvr_bench_cudnn){ .dev = dev, .shape = { n_query, 0, heads, d } };
    KVR_TRY(note_unavailable(b, kvr_cudnn_open(&b->library, kvr_dev_stream(dev))));
    if (b->why[0])
        return KVR_OK;
    KVR_TRY(kvr_buf_alloc(&b->q, dev, KVR_MEM_IO, queries(b) * sizeof(kvr_bf16)));
    KVR_TRY(kvr_buf_alloc(&b->out, dev, KVR_MEM_IO, queries(b) * sizeof(kvr_bf16)));
    return put_queries(b, q);
}

void kvr_bench_cudnn_close(struct kvr_bench_cudnn *b)
{
    kvr_cudnn_plan_close(b->library, &b->plan);
    kvr_cudnn_close(&b->library);
    kvr_buf_free(&b->q);
    kvr_buf_free(&b->out);
    kvr_buf_free(&b->work);
}

enum kvr_status kvr_bench_cudnn_keys(struct kvr_bench_cudnn *b, int64_t n_key)
{
    if (!b->library)
        return KVR_OK;
    b->shape.n_key = n_key;
    b->why[0] = 0;
    kvr_cudnn_plan_close(b->library, &b->plan);
    KVR_TRY(note_unavailable(b, kvr_cudnn_plan_open(&b->plan, b->library, &b->shape)));
    if (b->why[0])
        return KVR_OK;
    return kvr_buf_reserve(&b->work, b->dev, KVR_MEM_SCRATCH, kvr_cudnn_plan_bytes(b->plan));
}

enum kvr_status kvr_bench_cudnn_run(struct kvr_bench_cudnn *b, const void *k, const void *v)
{
    return kvr_cudnn_attend(b->library, b->plan, b->q.p, k, v, b->out.p, b->work.p);
}

enum kvr_status kvr_bench_cudnn_get(struct kvr_bench_cudnn *b, float *out)
{
    const size_t n = queries(b);
    kvr_bf16 *raw = malloc(n * sizeof *raw);
    enum kvr_status st = raw ? kvr_dev_sync(b->dev) : kvr_fail(KVR_ENOMEM, "bench: out of memory");

    if (st == KVR_OK)
        st = kvr_dev_get(b->dev, raw, b->out.p, n * sizeof *raw);
    for (size_t i = 0; st == KVR_OK && i < n; i++)
        out[i] = kvr_bf16_to_f32(raw[i]);
    free(raw);
    return st;
}
