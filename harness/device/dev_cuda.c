/* dev_cuda.c - a device that is a CUDA stream: of a GPU or of the CPU emulator, whichever the
 * program is linked with. */
#include "harness/device/dev_impl.h"
#include "harness/device/stream.h"

static const char *name(void)
{
    return kvr_stream_emulated() ? "emulated" : "cuda";
}

static enum kvr_status cuda_open(struct kvr_dev *dev)
{
    return kvr_stream_open(&dev->stream);
}

static void cuda_close(struct kvr_dev *dev)
{
    kvr_stream_close(&dev->stream);
}

static enum kvr_status info(struct kvr_dev *dev, struct kvr_device_info *out)
{
    return kvr_device_info(dev->stream, out);
}

static enum kvr_status cuda_alloc(struct kvr_dev *dev, void **p, size_t n)
{
    return kvr_device_alloc(dev->stream, p, n);
}

static void cuda_free(struct kvr_dev *dev, void *p)
{
    kvr_device_free(dev->stream, p);
}

static enum kvr_status put(struct kvr_dev *dev, void *to, const void *host, size_t n)
{
    return kvr_device_put(dev->stream, to, host, n);
}

static enum kvr_status get(struct kvr_dev *dev, void *host, const void *from, size_t n)
{
    return kvr_device_get(dev->stream, host, from, n);
}

static void copy(struct kvr_dev *dev, void *to, const void *from, size_t n)
{
    kvr_device_copy(dev->stream, to, from, n);
}

static void zero(struct kvr_dev *dev, void *p, size_t n)
{
    kvr_device_fill(dev->stream, p, 0, n);
}

static enum kvr_status cuda_sync(struct kvr_dev *dev)
{
    return kvr_stream_sync(dev->stream);
}

static bool was_full(const struct kvr_dev *dev)
{
    return kvr_stream_was_full(dev->stream);
}

/* Records a timing event and returns its ticket, which elapsed() takes. Returns -1 while a graph is
 * captured, because graphs do not contain events. */
static int64_t instant(struct kvr_dev *dev)
{
    return kvr_stream_capturing(dev->stream) ? -1 : kvr_stream_mark(dev->stream);
}

static enum kvr_status elapsed(struct kvr_dev *dev, int64_t a, int64_t b, int64_t *ns)
{
    return kvr_stream_elapsed(dev->stream, a, b, ns);
}

static void forget_instant(struct kvr_dev *dev, int64_t a)
{
    kvr_stream_unmark(dev->stream, a);
}

static void forget_instants(struct kvr_dev *dev)
{
    kvr_stream_forget_marks(dev->stream);
}

static enum kvr_status record_begin(struct kvr_dev *dev)
{
    return kvr_stream_capture_begin(dev->stream);
}

static enum kvr_status record_end(struct kvr_dev *dev, struct kvr_graph **out)
{
    return kvr_stream_capture_end(dev->stream, out);
}

static enum kvr_status replay(struct kvr_dev *dev, struct kvr_graph *g)
{
    return kvr_graph_launch(dev->stream, g);
}

const struct kvr_dev_kind kvr_dev_cuda = {
    .name = name,
    .open = cuda_open,
    .close = cuda_close,
    .info = info,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .put = put,
    .get = get,
    .copy = copy,
    .zero = zero,
    .sync = cuda_sync,
    .was_full = was_full,
    .instant = instant,
    .elapsed = elapsed,
    .forget_instant = forget_instant,
    .forget_instants = forget_instants,
    .record_begin = record_begin,
    .record_end = record_end,
    .replay = replay,
    .graph_close = kvr_graph_close,
};
