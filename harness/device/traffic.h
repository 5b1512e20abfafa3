/* traffic.h - compulsory memory traffic of launches on the emulated device: distinct bytes of
 * global memory read and written per launch, as if the cache kept all reused data.
 *
 *     kvr_stream_account(s, true);
 *     ... launches, kvr_device_copy, kvr_device_fill ...
 *     n = kvr_stream_traffic(s, lines, MOST);
 *     kvr_stream_account(s, false);
 *
 * Emulated streams only (emu_traffic.cc). */
#ifndef KVR_DEVICE_TRAFFIC_H
#define KVR_DEVICE_TRAFFIC_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_traffic_line {
    char what[64];         /* kernel name without template arguments; "copy", "fill" */
    int64_t launches;      /* since accounting was enabled */
    int64_t read, written; /* bytes */
};

/* Enables accounting, from zero, or disables it. Each launch then scans the shadow of all device
 * memory. */
void kvr_stream_account(struct kvr_stream *s, bool on);
/* Writes at most `most` lines; returns the number of lines. */
int kvr_stream_traffic(const struct kvr_stream *s, struct kvr_traffic_line *lines, int most);

#ifdef __cplusplus
}
#endif
#endif
