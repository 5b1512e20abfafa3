/* kernels.c - see kernels.h. */
#include "harness/cli/kernels.h"

#include <stdio.h>

#include "harness/device/device_check.h"
#include "harness/device/stream.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

const char *kvr_kernels_text(char *buf, size_t n)
{
    const struct kvr_device_build *b = kvr_device_build();
    char archs[128];

    if (b->emulated)
        snprintf(buf, n, "emulated on the CPU; `make CUDA=1` builds them for a GPU");
    else
        snprintf(buf, n, "nvcc %d.%d for %s", b->nvcc / 1000, b->nvcc % 1000 / 10,
                 kvr_device_archs(b->archs, archs, sizeof archs));
    return buf;
}

static void describe(const struct kvr_device_info *i, char *buf, size_t n)
{
    const int used = snprintf(buf, n, "%s, %.1f of %.1f GiB free", i->name,
                              (double)i->free_bytes / GIB, (double)i->total_bytes / GIB);

    if (i->major && used > 0 && (size_t)used < n)
        snprintf(buf + used, n - (size_t)used,
                 ", compute capability %d.%d, %d multiprocessors, driver supports CUDA %d.%d, CUDA "
                 "runtime %d.%d",
                 i->major, i->minor, i->n_sm, i->driver / 1000, i->driver % 1000 / 10,
                 i->runtime / 1000, i->runtime % 1000 / 10);
}

enum kvr_status kvr_kernels_device(char *buf, size_t n)
{
    struct kvr_device_info info;
    struct kvr_stream *s;
    enum kvr_status st;

    KVR_TRY(kvr_stream_open(&s));
    st = kvr_device_info(s, &info);
    kvr_stream_close(&s);
    if (st == KVR_OK)
        describe(&info, buf, n);
    return st;
}
