/* dev_cpu.c - implements a device by the host CPU, where all work is synchronous. */
#include "harness/device/dev_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"

enum { ALIGNMENT = 64 }; /* bytes of a cache line and of an AVX-512 register */

static const char *name(void)
{
    return "cpu";
}

static enum kvr_status cpu_open(struct kvr_dev *dev)
{
    (void)dev;
    return KVR_OK;
}

static void cpu_close(struct kvr_dev *dev)
{
    (void)dev;
}

static enum kvr_status info(struct kvr_dev *dev, struct kvr_device_info *out)
{
    (void)dev;
    *out = (struct kvr_device_info){ .name = "none" };
    return KVR_OK;
}

static enum kvr_status cpu_alloc(struct kvr_dev *dev, void **p, size_t n)
{
    (void)dev;
    if (n > PTRDIFF_MAX - ALIGNMENT || posix_memalign(p, ALIGNMENT, n) != 0)
        return kvr_fail(KVR_ENOMEM, "the host is out of memory: cannot allocate %zu bytes", n);
    return KVR_OK;
}

static void cpu_free(struct kvr_dev *dev, void *p)
{
    (void)dev;
    free(p);
}

static void copy(struct kvr_dev *dev, void *to, const void *from, size_t n)
{
    (void)dev;
    if (n)
        memcpy(to, from, n);
}

static enum kvr_status move(struct kvr_dev *dev, void *to, const void *from, size_t n)
{
    copy(dev, to, from, n);
    return KVR_OK;
}

static void zero(struct kvr_dev *dev, void *p, size_t n)
{
    (void)dev;
    if (n)
        memset(p, 0, n);
}

static enum kvr_status cpu_sync(struct kvr_dev *dev)
{
    (void)dev;
    return KVR_OK;
}

/* Always returns false, because a failed allocation means that the host, not a device, is out of
 * memory. */
static bool was_full(const struct kvr_dev *dev)
{
    (void)dev;
    return false;
}

static int64_t instant(struct kvr_dev *dev)
{
    (void)dev;
    return kvr_now_ns();
}

static void forget_instants(struct kvr_dev *dev)
{
    (void)dev;
}

const struct kvr_dev_kind kvr_dev_cpu = {
    .name = name,
    .in_host = true,
    .open = cpu_open,
    .close = cpu_close,
    .info = info,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .put = move,
    .get = move,
    .copy = copy,
    .zero = zero,
    .sync = cpu_sync,
    .was_full = was_full,
    .instant = instant,
    .forget_instants = forget_instants,
};
