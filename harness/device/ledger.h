/* ledger.h - what launches move, counted by the emulated device: the bytes of its memory that each
 * launch reads and those that it writes, each byte once. That is what a device has to move at least;
 * it moves no more where what is read again is still in its cache.
 *
 *     kvr_stream_account(s, true);
 *     ... launches, kvr_device_copy, kvr_device_fill ...
 *     n = kvr_stream_ledger(s, lines, MOST);
 *     kvr_stream_account(s, false);
 *
 * Emulated streams alone have it (emu_ledger.cc). */
#ifndef KVR_DEVICE_LEDGER_H
#define KVR_DEVICE_LEDGER_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_ledger_line {
    char what[64];         /* a kernel, without what it is a template of; "copy", "fill" */
    int64_t launches;      /* since the account was opened */
    int64_t read, written; /* bytes */
};

/* Open it, empty, or close it. Each launch then looks through all of the device's books. */
void kvr_stream_account(struct kvr_stream *s, bool on);
/* Lines with launches, at most so many of them; how many there are. */
int kvr_stream_ledger(const struct kvr_stream *s, struct kvr_ledger_line *lines, int most);

#ifdef __cplusplus
}
#endif
#endif
