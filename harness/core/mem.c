/* mem.c - allocation with exact books per tag, on the host and on a CUDA stream. */
#include "harness/core/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device/stream.h"

enum { ALIGNMENT = 64 }; /* one cache line, one AVX-512 register */

struct kvr_dev {
    enum kvr_backend backend;
    struct kvr_stream *stream; /* CUDA, else NULL */
    struct kvr_dev *host;      /* CUDA: owned; CPU: NULL */
    struct kvr_mem_stats stats;
    size_t limit_bytes;  /* 0: none */
    uint64_t fail_after; /* allocations until the injected failure; 0: none */
};

const char *kvr_mem_tag_name(enum kvr_mem_tag tag)
{
    static const char *const names[KVR_N_MEM_TAGS] = {
        "KV", "META", "SCRATCH", "WEIGHTS", "ACT", "IO",
    };

    return (unsigned)tag < KVR_N_MEM_TAGS ? names[tag] : "?";
}

static enum kvr_status open_cuda(struct kvr_dev *dev)
{
    KVR_TRY(kvr_dev_open(&dev->host, KVR_CPU));
    return kvr_stream_open(&dev->stream);
}

enum kvr_status kvr_dev_open(struct kvr_dev **out, enum kvr_backend backend)
{
    struct kvr_dev *dev;
    enum kvr_status st;

    *out = NULL;
    if (backend != KVR_CPU && backend != KVR_CUDA)
        return kvr_fail(KVR_EINVAL, "device: backend %d, need 0..%d", (int)backend,
                        KVR_N_BACKENDS - 1);
    dev = calloc(1, sizeof *dev);
    if (!dev)
        return kvr_fail(KVR_ENOMEM, "device: no memory");
    dev->backend = backend;
    st = backend == KVR_CUDA ? open_cuda(dev) : KVR_OK;
    if (st != KVR_OK) {
        kvr_dev_close(&dev);
        return st;
    }
    *out = dev;
    return KVR_OK;
}

void kvr_dev_close(struct kvr_dev **dev)
{
    if (!*dev)
        return;
    assert((*dev)->stats.live_total == 0 && "a buffer outlives its device");
    kvr_stream_close(&(*dev)->stream);
    kvr_dev_close(&(*dev)->host);
    free(*dev);
    *dev = NULL;
}

enum kvr_backend kvr_dev_backend(const struct kvr_dev *dev)
{
    return dev->backend;
}

struct kvr_stream *kvr_dev_stream(const struct kvr_dev *dev)
{
    return dev->stream;
}

struct kvr_dev *kvr_dev_host(struct kvr_dev *dev)
{
    return dev->host ? dev->host : dev;
}

enum kvr_status kvr_dev_put(struct kvr_dev *dev, void *to, const void *host, size_t n)
{
    if (dev->stream)
        return kvr_device_put(dev->stream, to, host, n);
    if (n)
        memcpy(to, host, n);
    return KVR_OK;
}

enum kvr_status kvr_dev_get(struct kvr_dev *dev, void *host, const void *from, size_t n)
{
    if (dev->stream)
        return kvr_device_get(dev->stream, host, from, n);
    if (n)
        memcpy(host, from, n);
    return KVR_OK;
}

void kvr_dev_copy(struct kvr_dev *dev, void *to, const void *from, size_t n)
{
    if (dev->stream)
        kvr_device_copy(dev->stream, to, from, n);
    else if (n)
        memcpy(to, from, n);
}

void kvr_dev_zero(struct kvr_dev *dev, void *p, size_t n)
{
    if (dev->stream)
        kvr_device_fill(dev->stream, p, 0, n);
    else if (n)
        memset(p, 0, n);
}

enum kvr_status kvr_dev_sync(struct kvr_dev *dev)
{
    return dev->stream ? kvr_stream_sync(dev->stream) : KVR_OK;
}

void kvr_mem_stats(const struct kvr_dev *dev, struct kvr_mem_stats *out)
{
    *out = dev->stats;
}

void kvr_mem_reset_peak(struct kvr_dev *dev)
{
    struct kvr_mem_stats *s = &dev->stats;

    s->peak_total = s->live_total;
    memcpy(s->peak, s->live, sizeof s->peak);
    memcpy(s->tag_peak, s->live, sizeof s->tag_peak);
}

void kvr_mem_set_limit(struct kvr_dev *dev, size_t bytes)
{
    dev->limit_bytes = bytes;
}

void kvr_mem_fail_after(struct kvr_dev *dev, uint64_t n)
{
    dev->fail_after = n;
}

static void book(struct kvr_mem_stats *s, enum kvr_mem_tag tag, size_t n_bytes)
{
    s->live[tag] += n_bytes;
    s->live_total += n_bytes;
    s->n_allocs++;
    if (s->live[tag] > s->tag_peak[tag])
        s->tag_peak[tag] = s->live[tag];
    if (s->live_total > s->peak_total) {
        s->peak_total = s->live_total;
        memcpy(s->peak, s->live, sizeof s->peak);
    }
}

enum kvr_status kvr_buf_alloc(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                              size_t n_bytes)
{
    KVR_TRY(kvr_buf_alloc_raw(b, dev, tag, n_bytes));
    if (b->p && !dev->stream)
        memset(b->p, 0, n_bytes);
    return KVR_OK;
}

enum kvr_status kvr_buf_alloc_raw(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                  size_t n_bytes)
{
    size_t live = dev->stats.live_total;
    void *p;

    assert(!b->p && "the buffer still holds memory");
    assert((unsigned)tag < KVR_N_MEM_TAGS);
    *b = (struct kvr_buf){ 0 };
    if (n_bytes == 0)
        return KVR_OK;
    if (dev->fail_after > 0 && --dev->fail_after == 0)
        return kvr_fail(KVR_ENOMEM, "memory: %zu bytes for %s: injected failure", n_bytes,
                        kvr_mem_tag_name(tag));
    if (dev->limit_bytes > 0 && (live > dev->limit_bytes || n_bytes > dev->limit_bytes - live))
        return kvr_fail(KVR_ENOMEM, "memory: %zu bytes for %s over %zu in use pass the limit %zu",
                        n_bytes, kvr_mem_tag_name(tag), live, dev->limit_bytes);
    if (dev->stream) {
        if (kvr_device_alloc(dev->stream, &p, n_bytes) != KVR_OK)
            return kvr_fail_prefix(KVR_ENOMEM, "memory: %s (%zu in use)", kvr_mem_tag_name(tag),
                                   live);
    } else {
        if (n_bytes > PTRDIFF_MAX - ALIGNMENT || posix_memalign(&p, ALIGNMENT, n_bytes) != 0)
            return kvr_fail(KVR_ENOMEM, "memory: the machine has no %zu bytes for %s (%zu in use)",
                            n_bytes, kvr_mem_tag_name(tag), live);
    }
    *b = (struct kvr_buf){ .p = p, .n_bytes = n_bytes, .dev = dev, .tag = tag };
    book(&dev->stats, tag, n_bytes);
    return KVR_OK;
}

enum kvr_status kvr_buf_reserve(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                size_t n_bytes)
{
    if (b->p && b->n_bytes >= n_bytes)
        return KVR_OK;
    kvr_buf_free(b); /* first, so that old and new never count together in the peak */
    return kvr_buf_alloc(b, dev, tag, n_bytes);
}

void kvr_buf_free(struct kvr_buf *b)
{
    if (b->p) {
        struct kvr_mem_stats *s = &b->dev->stats;

        assert(s->live[b->tag] >= b->n_bytes && s->live_total >= b->n_bytes);
        s->live[b->tag] -= b->n_bytes;
        s->live_total -= b->n_bytes;
        if (b->dev->stream)
            kvr_device_free(b->dev->stream, b->p);
        else
            free(b->p);
    }
    *b = (struct kvr_buf){ 0 };
}
