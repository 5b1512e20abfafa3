/* dev.c - opens devices by kind and dispatches to the open device's functions. */
#include "harness/device/dev.h"

#include <assert.h>
#include <stdlib.h>

#include "harness/device/dev_impl.h"

static const struct kvr_dev_kind *const kinds[KVR_N_BACKENDS] = {
    [KVR_CPU] = &kvr_dev_cpu,
    [KVR_CUDA] = &kvr_dev_cuda,
};

enum kvr_status kvr_dev_open(struct kvr_dev **out, enum kvr_backend backend)
{
    struct kvr_dev *dev;
    enum kvr_status st = KVR_OK;

    *out = NULL;
    if ((unsigned)backend >= KVR_N_BACKENDS)
        return kvr_fail(KVR_EINVAL, "device: backend number %d does not exist, need 0..%d",
                        (int)backend, KVR_N_BACKENDS - 1);
    dev = calloc(1, sizeof *dev);
    if (!dev)
        return kvr_fail(KVR_ENOMEM, "device: out of memory");
    dev->kind = kinds[backend];
    dev->backend = backend;
    if (!dev->kind->in_host)
        st = kvr_dev_open(&dev->host, KVR_CPU);
    if (st == KVR_OK)
        st = dev->kind->open(dev);
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
    (*dev)->kind->close(*dev);
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

enum kvr_status kvr_dev_info(struct kvr_dev *dev, struct kvr_device_info *out)
{
    return dev->kind->info(dev, out);
}

bool kvr_dev_in_host(const struct kvr_dev *dev)
{
    return dev->kind->in_host;
}

bool kvr_backend_in_host(enum kvr_backend backend)
{
    return kinds[backend]->in_host;
}

struct kvr_dev *kvr_dev_host(struct kvr_dev *dev)
{
    return dev->host ? dev->host : dev;
}

enum kvr_status kvr_dev_put(struct kvr_dev *dev, void *to, const void *host, size_t n)
{
    return dev->kind->put(dev, to, host, n);
}

enum kvr_status kvr_dev_get(struct kvr_dev *dev, void *host, const void *from, size_t n)
{
    return dev->kind->get(dev, host, from, n);
}

void kvr_dev_copy(struct kvr_dev *dev, void *to, const void *from, size_t n)
{
    dev->kind->copy(dev, to, from, n);
}

void kvr_dev_zero(struct kvr_dev *dev, void *p, size_t n)
{
    dev->kind->zero(dev, p, n);
}

enum kvr_status kvr_dev_sync(struct kvr_dev *dev)
{
    return dev->kind->sync(dev);
}

bool kvr_dev_was_full(const struct kvr_dev *dev)
{
    return dev->over_limit || dev->kind->was_full(dev);
}

bool kvr_dev_records(const struct kvr_dev *dev)
{
    return dev->kind->record_begin != NULL;
}

enum kvr_status kvr_dev_record_begin(struct kvr_dev *dev)
{
    return dev->kind->record_begin(dev);
}

enum kvr_status kvr_dev_record_end(struct kvr_dev *dev, struct kvr_graph **out)
{
    return dev->kind->record_end(dev, out);
}

enum kvr_status kvr_dev_replay(struct kvr_dev *dev, struct kvr_graph *g)
{
    return dev->kind->replay(dev, g);
}

void kvr_dev_graph_close(struct kvr_dev *dev, struct kvr_graph **g)
{
    if (*g)
        dev->kind->graph_close(g);
}
