/* stream.h - a CUDA stream and its device memory, on a GPU or on the emulated device.
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
 * A program contains stream_cuda.cu if built with nvcc, otherwise stream_emu.cc. Only the thread
 * that opened a stream may use it. After an error, launches do nothing until kvr_stream_sync has
 * returned that error. */
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

/* Opens a stream. Returns KVR_EUNSUPPORTED if there is no usable GPU; the message says what was
 * found and what is required. */
enum kvr_status kvr_stream_open(struct kvr_stream **out);
/* Closes the stream and frees its remaining allocations. The caller must close the stream's graphs
 * first. *s may be NULL. */
void kvr_stream_close(struct kvr_stream **s);
/* Waits for all work in the stream, then returns and clears the first error since the last sync. */
enum kvr_status kvr_stream_sync(struct kvr_stream *s);

/* Whether kernels are emulated, that is, run on the CPU, where the emulator (emu.cuh) also detects
 * memory errors and data races. */
bool kvr_stream_emulated(void);
/* Returns the compute capability times 10, for example 90 for 9.0. The environment variable
 * KVREEL_EMULATED_CAPABILITY, such as 9.0, sets the capability of the emulated device when the
 * stream is opened. The default is 0, for which the kernels for 9.0 (wgmma) are not used. */
int kvr_stream_capability(const struct kvr_stream *s);
/* Returns the number of SMs of the device. The emulated device has 132, as an H100. */
int kvr_stream_n_sm(const struct kvr_stream *s);
/* Sets the seed by which the emulated device permutes the execution order of thread blocks, and of
 * threads between barriers. The seed has no effect on a GPU. */
void kvr_stream_seed(struct kvr_stream *s, uint64_t seed);
/* Returns the number of successful launches of a kernel since the stream was opened. `kernel` is
 * the kernel's name without template arguments. */
int64_t kvr_stream_launches(const struct kvr_stream *s, const char *kernel);

/* Returns the stream handle to pass to NVIDIA's libraries, a cudaStream_t. On the emulated device
 * the handle is `s` itself. */
void *kvr_stream_native(struct kvr_stream *s);

/* Returns which compiler and GPU architectures this program's kernels were built with. */
const struct kvr_device_build *kvr_device_build(void);

enum kvr_status kvr_device_info(struct kvr_stream *s, struct kvr_device_info *out);
/* Returns the maximum opt-in shared memory per thread block, in bytes. The environment variable
 * KVREEL_EMULATED_SHARED sets this maximum for the emulated device when the stream is opened. The
 * default is the maximum of a GPU of compute capability 9.0. */
size_t kvr_stream_block_shared(const struct kvr_stream *s);

/* Writes the UUIDs of the visible GPUs, in the form of CUDA_VISIBLE_DEVICES, to `uuid`, which has
 * space for `most` UUIDs. Returns the number of UUIDs that were written. The environment variable
 * KVREEL_EMULATED_DEVICES sets the number of emulated devices that are listed, by default 0. */
int kvr_device_list(char uuid[][KVR_UUID_LEN], int most);

/* ---- memory ------------------------------------------------------------------------------ */

/* Allocates device memory in stream order; freed memory returns to a pool. The memory is
 * uninitialised, and the emulated device reports an error if a kernel reads it before it is
 * written. Returns KVR_ENOMEM with the requested, free and total bytes if device memory is
 * exhausted. The environment variable KVREEL_EMULATED_BYTES sets the memory size of the emulated
 * device when the stream is opened. The default is the size of the host's memory. */
enum kvr_status kvr_device_alloc(struct kvr_stream *s, void **p, size_t n_bytes);
void kvr_device_free(struct kvr_stream *s, void *p); /* accepts NULL */
/* Whether any allocation has failed since the stream was opened because device memory was
 * exhausted. */
bool kvr_stream_was_full(const struct kvr_stream *s);

/* Copies n bytes from host memory to device memory, in stream order. When the function returns, the
 * host memory has been read and may be overwritten. */
enum kvr_status kvr_device_put(struct kvr_stream *s, void *device, const void *host, size_t n);
/* Copies n bytes from device memory to host memory, in stream order. When the function returns, the
 * host memory has been written. */
enum kvr_status kvr_device_get(struct kvr_stream *s, void *host, const void *device, size_t n);
/* Copies n bytes asynchronously between two device buffers that must not overlap, in stream order.
 * Errors of the copy are returned by the next kvr_stream_sync. */
void kvr_device_copy(struct kvr_stream *s, void *to, const void *from, size_t n);
/* Fills n bytes of device memory with `value`, in stream order. */
void kvr_device_fill(struct kvr_stream *s, void *device, unsigned char value, size_t n);

/* ---- time -------------------------------------------------------------------------------- */

/* Records a timing event in the stream and returns its handle (ticket) for kvr_stream_elapsed().
 * After an error, -1 is returned, and the next kvr_stream_sync returns the error. The emulated
 * device runs kernels synchronously, and its events are times of the host's clock. */
int64_t kvr_stream_mark(struct kvr_stream *s);
/* Waits for the event with handle b, and sets *ns to the nanoseconds between the events a and b.
 * Returns KVR_EINVAL if a handle is invalid. */
enum kvr_status kvr_stream_elapsed(struct kvr_stream *s, int64_t a, int64_t b, int64_t *ns);
/* Releases the handle of an event, so that the event can be reused. The value -1 is ignored. */
void kvr_stream_unmark(struct kvr_stream *s, int64_t ticket);
/* Releases the handles of all events. */
void kvr_stream_forget_marks(struct kvr_stream *s);
/* Returns the maximum number of timing events that were in use at once since the stream opened. */
int64_t kvr_stream_most_marks(const struct kvr_stream *s);

/* ---- graphs ------------------------------------------------------------------------------ */

/* Starts the capture of a graph: launches, kvr_device_copy and kvr_device_fill are recorded with
 * their arguments and not executed. During capture, all other device calls of this header (alloc,
 * free, put, get, sync, mark, graph launches) do nothing and make the capture fail. The caller must
 * run the same work once before capturing it, because a GPU loads a kernel's code at the kernel's
 * first launch. */
enum kvr_status kvr_stream_capture_begin(struct kvr_stream *s);
bool kvr_stream_capturing(const struct kvr_stream *s);
/* Ends the capture and returns the graph as *out. If an error is returned, the capture has
 * nevertheless ended, and *out is NULL. */
enum kvr_status kvr_stream_capture_end(struct kvr_stream *s, struct kvr_graph **out);
/* Replays the graph in stream order; kernels access the same addresses as when the graph was
 * captured. */
enum kvr_status kvr_graph_launch(struct kvr_stream *s, struct kvr_graph *g);
void kvr_graph_close(struct kvr_graph **g); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
