/* stream.h - a CUDA stream and its memory, on a device or emulated.
 *
 *     struct kvr_stream *s;
 *     KVR_TRY(kvr_stream_open(&s));
 *     KVR_TRY(kvr_device_alloc(s, &x, n_bytes));
 *     KVR_TRY(kvr_device_put(s, x, host, n_bytes));
 *     kvr_fwht_cuda(s, x, rows, 128, KVR_COMPUTE_F32);    launchers return nothing
 *     KVR_TRY(kvr_stream_sync(s));                        what went wrong since the last sync
 *     KVR_TRY(kvr_device_get(s, host, x, n_bytes));
 *     kvr_device_free(s, x);
 *     kvr_stream_close(&s);
 *
 * Two implementations, never in one program: stream_cuda.cu (nvcc) and stream_emu.cc. A stream
 * belongs to one thread. After an error later launches do nothing until a sync has returned it. */
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

/* KVR_EUNSUPPORTED, with what was found and what is needed, where there is no usable device. */
enum kvr_status kvr_stream_open(struct kvr_stream **out);
/* Copes with NULL. Frees memory still allocated. Graphs of the stream are closed before it. */
void kvr_stream_close(struct kvr_stream **s);
/* Wait, then return the first error since the last sync and forget it. */
enum kvr_status kvr_stream_sync(struct kvr_stream *s);

/* True: kernels run on the CPU, under the checks of emu.cuh. */
bool kvr_stream_emulated(void);
/* The device's compute capability, 90 for 9.0. Emulated: as KVREEL_EMULATED_CAPABILITY said when it
 * was opened, else 0. */
int kvr_stream_capability(const struct kvr_stream *s);
/* Emulated: another order of blocks, and of threads between barriers. On a device: nothing. */
void kvr_stream_seed(struct kvr_stream *s, uint64_t seed);
/* How often a kernel of this name has been launched without an error at the launch. */
int64_t kvr_stream_launches(const struct kvr_stream *s, const char *kernel);

/* The stream as libraries of NVIDIA's take it, a cudaStream_t. Emulated: `s` itself. */
void *kvr_stream_native(struct kvr_stream *s);

/* What the kernels of this program were built with. */
const struct kvr_device_build *kvr_device_build(void);

enum kvr_status kvr_device_info(struct kvr_stream *s, struct kvr_device_info *out);
/* Bytes of shared memory that a block may have, if it asks for them. Emulated: what sm_90 has, or
 * what KVREEL_EMULATED_SHARED said when the stream was opened. */
size_t kvr_stream_block_shared(const struct kvr_stream *s);

/* The UUIDs of the devices that this process may choose from, as CUDA_VISIBLE_DEVICES takes them:
 * how many. The emulated device is one program's own and has none, unless KVREEL_EMULATED_DEVICES
 * says how many there shall be. */
int kvr_device_list(char uuid[][KVR_UUID_LEN], int most);

/* ---- memory ------------------------------------------------------------------------------ */

/* Device memory, in stream order; what is freed is kept for the next allocation. Its first
 * content is not defined; emulated, reading it is an error. KVR_ENOMEM says how much was asked,
 * free and there in all. The emulated device has as much as KVREEL_EMULATED_BYTES says when it is
 * opened, or as the machine has. */
enum kvr_status kvr_device_alloc(struct kvr_stream *s, void **p, size_t n_bytes);
void kvr_device_free(struct kvr_stream *s, void *p); /* copes with NULL */
/* Has an allocation ever been refused because the device was full? */
bool kvr_stream_was_full(const struct kvr_stream *s);

/* Copies in stream order; `put` has read the host's memory, `get` has written it, on return. */
enum kvr_status kvr_device_put(struct kvr_stream *s, void *device, const void *host, size_t n);
enum kvr_status kvr_device_get(struct kvr_stream *s, void *host, const void *device, size_t n);
/* Within the device, in stream order; nothing waits, and what goes wrong shows at the next sync.
 * n bytes from one place to another, which do not overlap. */
void kvr_device_copy(struct kvr_stream *s, void *to, const void *from, size_t n);
/* n bytes of `value`. */
void kvr_device_fill(struct kvr_stream *s, void *device, unsigned char value, size_t n);

/* ---- time -------------------------------------------------------------------------------- */

/* Note when the stream gets here. A ticket for kvr_stream_between(), or -1 and an error that the
 * next sync returns. Emulated: the host's clock, since kernels run at the call. */
int64_t kvr_stream_mark(struct kvr_stream *s);
/* From mark a to mark b; waits until the stream has got to b. KVR_EINVAL: no such ticket. */
enum kvr_status kvr_stream_between(struct kvr_stream *s, int64_t a, int64_t b, int64_t *ns);
/* This ticket becomes void, and what stands behind it is used again. Copes with -1. */
void kvr_stream_unmark(struct kvr_stream *s, int64_t ticket);
/* All tickets become void. */
void kvr_stream_forget_marks(struct kvr_stream *s);
/* Marks that have ever been there at once: events, on a device. */
int64_t kvr_stream_most_marks(const struct kvr_stream *s);

/* ---- graphs ------------------------------------------------------------------------------ */

/* Launches, kvr_device_copy and kvr_device_fill up to the end are recorded with their arguments
 * and not run. Everything else of this header that touches the device (alloc, free, put, get,
 * sync, mark, launching a graph) is refused meanwhile, and makes the end fail. Run the work once
 * before it is captured: a device loads a kernel's code at its first launch. */
enum kvr_status kvr_stream_capture_begin(struct kvr_stream *s);
bool kvr_stream_capturing(const struct kvr_stream *s);
/* *out is NULL after an error; the capture has ended in any case. */
enum kvr_status kvr_stream_capture_end(struct kvr_stream *s, struct kvr_graph **out);
/* Run it again, in stream order, on the memory that it was captured with. */
enum kvr_status kvr_graph_launch(struct kvr_stream *s, struct kvr_graph *g);
void kvr_graph_close(struct kvr_graph **g); /* copes with NULL */

#ifdef __cplusplus
}
#endif
#endif
