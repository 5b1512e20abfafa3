/* device_check.c - rejects an unsuitable device, with an error that names the device found, the
 * requirement and the alternatives. */
#include "harness/device/device_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness/core/join.h"
#include "harness/device/names.h"

#define INSTEAD "; device cpu needs no GPU " KVR_DEVICE_USE_CPU

static int major_of(int version)
{
    return version / 1000;
}

static int minor_of(int version)
{
    return version % 1000 / 10;
}

static enum kvr_status judge_driver(const struct kvr_device_facts *f)
{
    if (f->driver == 0)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "device cuda: no NVIDIA driver is loaded, need a driver for CUDA %d.%d" INSTEAD,
            major_of(f->runtime), minor_of(f->runtime));
    /* A driver supports every CUDA runtime with the driver's major version, also runtimes with a
     * newer minor version. */
    if (f->driver_refused || major_of(f->driver) < major_of(f->runtime))
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "device cuda: the driver supports CUDA %d.%d, this build needs CUDA %d.%d" INSTEAD,
            major_of(f->driver), minor_of(f->driver), major_of(f->runtime), minor_of(f->runtime));
    return KVR_OK;
}

enum kvr_status kvr_device_check_facts(const struct kvr_device_facts *f)
{
    char archs[128];

    KVR_TRY(judge_driver(f));
    if (f->error)
        return kvr_fail(KVR_EUNSUPPORTED, "device cuda: %s" INSTEAD, f->error);
    if (f->n_devices <= 0 && f->visible)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "device cuda: CUDA_VISIBLE_DEVICES='%s' selects no GPU" INSTEAD,
                        f->visible);
    if (f->n_devices <= 0)
        return kvr_fail(KVR_EUNSUPPORTED, "device cuda: the driver found no GPU" INSTEAD);
    if (f->major < KVR_DEVICE_OLDEST_MAJOR ||
        (f->major == KVR_DEVICE_OLDEST_MAJOR && f->minor < KVR_DEVICE_OLDEST_MINOR))
        return kvr_fail(KVR_EUNSUPPORTED,
                        "device cuda: %s has compute capability %d.%d, need %d.%d or newer" INSTEAD,
                        f->name ? f->name : "GPU 0", f->major, f->minor, KVR_DEVICE_OLDEST_MAJOR,
                        KVR_DEVICE_OLDEST_MINOR);
    if (f->no_image)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "device cuda: %s has compute capability %d.%d, but this program's kernels were built "
            "for %s: build it with nvcc -gencode arch=compute_%d%d,code=sm_%d%d" INSTEAD,
            f->name ? f->name : "GPU 0", f->major, f->minor,
            kvr_device_archs(f->archs, archs, sizeof archs), f->major, f->minor, f->major,
            f->minor);
    return KVR_OK;
}

const char *kvr_device_archs(const char *archs, char *buf, size_t n)
{
    const char *p = archs;
    char item[32], *end;

    buf[0] = 0;
    for (long v = strtol(p, &end, 10); end != p; v = strtol(p, &end, 10)) {
        snprintf(item, sizeof item, "%ld.%ld", v / 100, v / 10 % 10);
        kvr_join(buf, n, item);
        p = *end == ',' ? end + 1 : end;
    }
    return buf;
}

enum kvr_status kvr_device_too_small(const char *device, size_t asked, size_t free_bytes,
                                     size_t total_bytes)
{
    return kvr_fail(
        KVR_ENOMEM,
        "device %s: out of memory: %zu bytes requested, but only %zu of %zu bytes are free", device,
        asked, free_bytes, total_bytes);
}
