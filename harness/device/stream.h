/* stream.h - a CUDA stream and its memory, on a device or emulated.
 *
 *     struct kvr_stream *s;
 *     KVR_TRY(kvr_stream_open(&s));
 *     KVR_TRY(kvr_device_alloc(s, &x, n_bytes));
 *     KVR_TRY(kvr_device_put(s, x, host, n_bytes));
 *     kvr_fwht_cuda(s, x, rows, 128, KVR_COMPUTE_F32);    launchers return nothing
 *     KVR_TRY(kvr_stream_sync(s));                        first error since the last sync
 *     KVR_TRY(kvr_device_get(s, host, x, n_bytes));
 *     kvr_device_free(s, x);
 *     kvr_stream_close(&s);
 *
 * A program contains one of two implementations: stream_cuda.cu (nvcc) or stream_emu.cc. A
 * stream belongs to one thread. After an error, launches do nothing until a sync has returned
 * the error. */
#ifndef KVR_DEVICE_STREAM_H
#define KVR_DEVICE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"
#include "harness/device/info.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_stream;
struct kvr_graph;

/* ---- the stream -------------------------------------------------------------------------- */

/* KVR_EUNSUPPORTED, with found and needed, without a usable device. */
enum kvr_status kvr_stream_open(struct kvr_stream **out);
/* Accepts NULL. Frees remaining allocations. Close its graphs first. */
void kvr_stream_close(struct kvr_stream **s);
/* Waits, then returns and clears the first error since the last sync. */
enum kvr_status kvr_stream_sync(struct kvr_stream *s);

/* True: kernels run on the CPU under the checks of emu.cuh. */
bool kvr_stream_emulated(void);
/* Compute capability, 90 for 9.0. Emulated: the value of KVREEL_EMULATED_CAPABILITY when the stream
 * was opened, by default 0. */
int kvr_stream_capability(const struct kvr_stream *s);
/* Emulated: permutes the order of blocks, and of threads between barriers. No effect on a
 * device. */
void kvr_stream_seed(struct kvr_stream *s, uint64_t seed);
/* Successful launches of a kernel by name. */
int64_t kvr_stream_launches(const struct kvr_stream *s, const char *kernel);

/* The stream for NVIDIA's libraries: a cudaStream_t. Emulated: `s` itself. */
void *kvr_stream_native(struct kvr_stream *s);

/* Build properties of this program's kernels. */
const struct kvr_device_build *kvr_device_build(void);

enum kvr_status kvr_device_info(struct kvr_stream *s, struct kvr_device_info *out);
/* Maximum opt-in shared memory per block. Emulated: the value of KVREEL_EMULATED_SHARED when the
 * stream was opened, by default that of sm_90. */
size_t kvr_stream_block_shared(const struct kvr_stream *s);

/* UUIDs of the visible devices in the form of CUDA_VISIBLE_DEVICES; returns their number. The
 * emulated device is private to a process and has none, unless KVREEL_EMULATED_DEVICES gives a
 * number. */
int kvr_device_list(char uuid[][KVR_UUID_LEN], int most);

/* ---- memory ------------------------------------------------------------------------------ */

/* Stream-ordered device memory; freed memory is pooled. Initially undefined; emulated, reading it
 * is an error. KVR_ENOMEM gives the requested, free and total bytes. The emulated device has as
 * many bytes as KVREEL_EMULATED_BYTES said when the stream was opened, by default the machine's
 * memory. */
enum kvr_status kvr_device_alloc(struct kvr_stream *s, void **p, size_t n_bytes);
void kvr_device_free(struct kvr_stream *s, void *p); /* accepts NULL */
/* Whether an allocation has failed because the device was full. */
bool kvr_stream_was_full(const struct kvr_stream *s);

/* Stream-ordered copies; on return `put` has read and `get` has written host memory. */
enum kvr_status kvr_device_put(struct kvr_stream *s, void *device, const void *host, size_t n);
enum kvr_status kvr_device_get(struct kvr_stream *s, void *host, const void *device, size_t n);
/* Copies n bytes within the device in stream order, not overlapping; asynchronous, errors surface
 * at the next sync. */
void kvr_device_copy(struct kvr_stream *s, void *to, const void *from, size_t n);
/* Fills n bytes with `value`. */
void kvr_device_fill(struct kvr_stream *s, void *device, unsigned char value, size_t n);

/* ---- time -------------------------------------------------------------------------------- */

/* Records an event. Returns a ticket for kvr_stream_elapsed(), or -1 and an error that the next
 * sync returns. Emulated: the host's clock, since kernels run synchronously. */
int64_t kvr_stream_mark(struct kvr_stream *s);
/* Time from event a to event b; waits for b. KVR_EINVAL: invalid ticket. */
enum kvr_status kvr_stream_elapsed(struct kvr_stream *s, int64_t a, int64_t b, int64_t *ns);
/* Releases a ticket; its event is reused. Accepts -1. */
void kvr_stream_unmark(struct kvr_stream *s, int64_t ticket);
/* Releases all tickets. */
void kvr_stream_forget_marks(struct kvr_stream *s);
/* Largest number of events that existed at the same time so far. */
int64_t kvr_stream_most_marks(const struct kvr_stream *s);

/* ---- graphs ------------------------------------------------------------------------------ */

/* Starts a capture: launches, kvr_device_copy and kvr_device_fill are recorded with their arguments
 * and not run. All other device calls of this header (alloc, free, put, get, sync, mark, graph
 * launches) are refused meanwhile and make the capture fail. Run the work once before capturing: a
 * device loads a kernel's code at its first launch. */
enum kvr_status kvr_stream_capture_begin(struct kvr_stream *s);
bool kvr_stream_capturing(const struct kvr_stream *s);
/* *out is NULL after an error; the capture has ended in any case. */
enum kvr_status kvr_stream_capture_end(struct kvr_stream *s, struct kvr_graph **out);
/* Replays in stream order, on the memory used at capture. */
enum kvr_status kvr_graph_launch(struct kvr_stream *s, struct kvr_graph *g);
void kvr_graph_close(struct kvr_graph **g); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
