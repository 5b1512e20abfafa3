/* bounce.c - runs a stage that has only a CPU implementation for device data: copies the input to
 * the host, runs the stage, and copies the result back. */
#include "methods/bounce.h"

#include "harness/device/stream.h"

/* Copies n bytes of device memory at `from` into a host buffer. */
static enum kvr_status fetch(struct kvr_buf *to, struct kvr_dev *dev, enum kvr_mem_tag tag,
                             const void *from, size_t n)
{
    KVR_TRY(kvr_buf_alloc(to, kvr_dev_host(dev), tag, n));
    return kvr_dev_get(dev, to->p, from, n);
}

static void free_data(struct kvr_stage_data *d)
{
    kvr_buf_free(&d->codes);
    kvr_buf_free(&d->meta);
}

static struct kvr_stage_job job_on_host(const struct kvr_stage_job *job)
{
    struct kvr_stage_job host = *job;

    host.dev = kvr_dev_host(job->dev);
    return host;
}

/* Copies the token list place.list to the host, if the job has a list. */
static enum kvr_status fetch_list(const struct kvr_stage_job *job, struct kvr_stage_job *host,
                                  struct kvr_buf *list)
{
    if (!job->place.list)
        return KVR_OK;
    KVR_TRY(fetch(list, job->dev, KVR_MEM_SCRATCH, job->place.list,
                  (size_t)job->shape.n_tok * sizeof *job->place.list));
    host->place.list = list->p;
    return KVR_OK;
}

/* Copies a stage's encoded bytes to the device. Allocates the device buffer if there is none: the
 * buffers of an EXACT stage are not allocated earlier, because their size depends on the number of
 * outliers. */
static enum kvr_status send(struct kvr_dev *dev, const struct kvr_buf *from, struct kvr_buf *to)
{
    if (!to->p)
        KVR_TRY(kvr_buf_alloc(to, dev, from->tag, from->n_bytes));
    return kvr_dev_put(dev, to->p, from->p, from->n_bytes);
}

static enum kvr_status encode(const struct kvr_stage_job *job, struct kvr_dev *dev, float *x,
                              size_t n_bytes, struct kvr_buf *copy, struct kvr_stage_data *host,
                              struct kvr_stage_data *out)
{
    KVR_TRY(kvr_dev_sync(dev)); /* reports errors of earlier kernel launches */
    KVR_TRY(fetch(copy, dev, KVR_MEM_SCRATCH, x, n_bytes));
    if (out->codes.p || out->meta.p) { /* false for EXACT stages, whose encode() allocates these */
        KVR_TRY(kvr_buf_alloc(&host->codes, job->dev, KVR_MEM_KV, out->codes.n_bytes));
        KVR_TRY(kvr_buf_alloc(&host->meta, job->dev, KVR_MEM_META, out->meta.n_bytes));
    }
    KVR_TRY(job->stage->cpu.encode(job, copy->p, host));
    if (job->stage->kind != KVR_STAGE_GRID)
        KVR_TRY(kvr_dev_put(dev, x, copy->p, n_bytes));
    out->n_entries = host->n_entries;
    KVR_TRY(send(dev, &host->codes, &out->codes));
    return send(dev, &host->meta, &out->meta);
}

enum kvr_status kvr_bounce_encode(const struct kvr_stage_job *job, float *x,
                                  struct kvr_stage_data *out)
{
    const struct kvr_block_shape *s = &job->shape;
    struct kvr_stage_job on_host = job_on_host(job);
    struct kvr_stage_data host = { 0 };
    struct kvr_buf copy = { 0 }, list = { 0 };
    enum kvr_status st = fetch_list(job, &on_host, &list);

    if (st == KVR_OK)
        st = encode(&on_host, job->dev, x,
                    (size_t)(s->n_tok * s->n_heads * s->head_dim) * sizeof *x, &copy, &host, out);
    kvr_buf_free(&list);
    kvr_buf_free(&copy);
    free_data(&host);
    return st;
}

static enum kvr_status fetch_data(struct kvr_stage_data *to, struct kvr_dev *dev,
                                  const struct kvr_stage_data *from)
{
    to->n_entries = from->n_entries;
    KVR_TRY(fetch(&to->codes, dev, KVR_MEM_KV, from->codes.p, from->codes.n_bytes));
    return fetch(&to->meta, dev, KVR_MEM_META, from->meta.p, from->meta.n_bytes);
}

/* Fills the output with NaN after a failure, because decoding and transforming functions return no
 * status. */
static void fill_nan(struct kvr_dev *dev, float *x, size_t n_bytes)
{
    kvr_device_fill(kvr_dev_stream(dev), x, 0xff, n_bytes);
}

void kvr_bounce_transform(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                          int64_t n, int h0, int nh)
{
    const size_t n_bytes = (size_t)n * (size_t)nh * (size_t)job->shape.head_dim * sizeof *x;
    const struct kvr_stage_job on_host = job_on_host(job);
    struct kvr_buf copy = { 0 };
    enum kvr_status st = fetch(&copy, job->dev, KVR_MEM_SCRATCH, x, n_bytes);

    if (st == KVR_OK) {
        job->stage->cpu.transform(&on_host, way, copy.p, n, h0, nh);
        st = kvr_dev_put(job->dev, x, copy.p, n_bytes);
    }
    if (st != KVR_OK)
        fill_nan(job->dev, x, n_bytes);
    kvr_buf_free(&copy);
}

void kvr_bounce_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                       int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const bool reads = job->stage->kind != KVR_STAGE_GRID || mode != KVR_DECODE_SET;
    const size_t n_bytes = (size_t)n * (size_t)nh * (size_t)job->shape.head_dim * sizeof *out;
    struct kvr_stage_job on_host = job_on_host(job);
    struct kvr_stage_data host = { 0 };
    struct kvr_buf copy = { 0 }, list = { 0 };
    enum kvr_status st = fetch_data(&host, job->dev, in);

    if (st == KVR_OK)
        st = fetch_list(job, &on_host, &list);
    if (st == KVR_OK)
        st = kvr_buf_alloc(&copy, on_host.dev, KVR_MEM_SCRATCH, n_bytes);
    if (st == KVR_OK && reads)
        st = kvr_dev_get(job->dev, copy.p, out, n_bytes);
    if (st == KVR_OK) {
        job->stage->cpu.decode(&on_host, &host, t0, n, h0, nh, mode, copy.p);
        st = kvr_dev_put(job->dev, out, copy.p, n_bytes);
    }
    if (st != KVR_OK)
        fill_nan(job->dev, out, n_bytes);
    kvr_buf_free(&list);
    kvr_buf_free(&copy);
    free_data(&host);
}
