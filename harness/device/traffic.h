/* traffic.h - measures the compulsory global-memory traffic of kernel launches on the emulated
 * device. Each launch counts the distinct bytes that it reads and writes, as if a GPU's caches
 * retained all reused data.
 *
 *     kvr_stream_account(s, true);
 *     ... launches, kvr_device_copy, kvr_device_fill ...
 *     n = kvr_stream_traffic(s, lines, MOST);
 *     kvr_stream_account(s, false);
 *
 * These functions exist only if the kernels are emulated (emu_traffic.cc). */
#ifndef KVR_DEVICE_TRAFFIC_H
#define KVR_DEVICE_TRAFFIC_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_traffic_line {
    char what[64];         /* kernel name without template arguments, "copy" or "fill" */
    int64_t launches;      /* number of launches, copies or fills since accounting was enabled */
    int64_t read, written; /* bytes */
};

/* If `on` is true, enables traffic accounting with all counts at zero; otherwise disables it and
 * discards the counts. While accounting is enabled, each launch scans the emulator's shadow memory
 * of all device memory, which is slow. */
void kvr_stream_account(struct kvr_stream *s, bool on);
/* Writes the traffic of every kernel, of copies and of fills to `lines`, one element each. `lines`
 * has `most` elements. Returns the number of elements that are needed, which may exceed `most`. */
int kvr_stream_traffic(const struct kvr_stream *s, struct kvr_traffic_line *lines, int most);

#ifdef __cplusplus
}
#endif
#endif
