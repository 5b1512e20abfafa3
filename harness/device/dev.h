/* dev.h - the interface of a device, the CPU or a GPU: memory, copies, synchronisation and graphs.
 *
 *     struct kvr_dev *dev;
 *     KVR_TRY(kvr_dev_open(&dev, KVR_CUDA));
 *     struct kvr_buf b = { 0 };
 *     KVR_TRY(kvr_buf_alloc(&b, dev, KVR_MEM_KV, n_bytes));        harness/device/mem.h
 *     KVR_TRY(kvr_dev_put(dev, b.p, host, n_bytes));
 *     ...
 *     kvr_buf_free(&b);
 *     kvr_dev_close(&dev);
 *
 * A device is a function table (dev_impl.h) with state. A module that computes on devices also has
 * its own function tables, one per backend, indexed by kvr_dev_backend(). A module without such
 * tables may depend only on two properties of a device: whether the host can access its memory
 * (kvr_dev_in_host), and whether it can record work in a graph (kvr_dev_records).
 *
 * Only one thread at a time may use a device. */
#ifndef KVR_DEVICE_DEV_H
#define KVR_DEVICE_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"
#include "harness/device/info.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_backend { KVR_CPU, KVR_CUDA, KVR_N_BACKENDS };

struct kvr_dev;
struct kvr_graph;
struct kvr_stream;

/* Opens a device. Returns KVR_EUNSUPPORTED with the reason if the backend is CUDA and there is no
 * usable GPU. */
enum kvr_status kvr_dev_open(struct kvr_dev **out, enum kvr_backend backend);

/* Closes the device, and asserts that all its buffers have been freed. *dev may be NULL. */
void kvr_dev_close(struct kvr_dev **dev);

/* Returns the device's backend, which is the index into function tables [KVR_N_BACKENDS]. */
enum kvr_backend kvr_dev_backend(const struct kvr_dev *dev);
/* Returns the CUDA stream of the device, or NULL on a CPU device. */
struct kvr_stream *kvr_dev_stream(const struct kvr_dev *dev);
enum kvr_status kvr_dev_info(struct kvr_dev *dev, struct kvr_device_info *out);

/* ---- memory ------------------------------------------------------------------------------ */

/* Whether the host can access the device's memory directly. */
bool kvr_dev_in_host(const struct kvr_dev *dev);
/* Whether the host can access the memory of this backend's devices directly. The function may be
 * called when no device is open. */
bool kvr_backend_in_host(enum kvr_backend backend);
/* Returns the CPU device whose memory statistics count the host buffers that belong to `dev`. If
 * the memory of `dev` is host memory, returns `dev` itself. */
struct kvr_dev *kvr_dev_host(struct kvr_dev *dev);

/* Copies n bytes from host memory to the device, in order with the device's work. When the function
 * returns, the host memory has been read and may be overwritten. */
enum kvr_status kvr_dev_put(struct kvr_dev *dev, void *to, const void *host, size_t n);
/* Copies n bytes from the device to host memory, in order with the device's work, and synchronises
 * the device. */
enum kvr_status kvr_dev_get(struct kvr_dev *dev, void *host, const void *from, size_t n);
/* Copies n bytes between two device buffers that must not overlap. Errors of the copy are returned
 * by the next kvr_dev_sync. */
void kvr_dev_copy(struct kvr_dev *dev, void *to, const void *from, size_t n);
/* Sets n bytes of the device's memory to zero. The next kvr_dev_sync returns errors of this
 * operation. */
void kvr_dev_zero(struct kvr_dev *dev, void *p, size_t n);
/* Waits for all queued work of the device, and returns the first error since the last call of
 * kvr_dev_sync. */
enum kvr_status kvr_dev_sync(struct kvr_dev *dev);
/* Whether any allocation has failed since the device was opened because device memory was exhausted
 * or the limit of kvr_mem_set_limit() would have been exceeded. */
bool kvr_dev_was_full(const struct kvr_dev *dev);

/* ---- graphs ------------------------------------------------------------------------------ */

/* Whether the device can record work in a graph and replay it. If the device cannot,
 * kvr_dev_record_begin(), kvr_dev_record_end() and kvr_dev_replay() must not be called. */
bool kvr_dev_records(const struct kvr_dev *dev);
/* Starts recording a graph: work until kvr_dev_record_end() is recorded and not executed. The
 * allowed calls are listed in harness/device/stream.h. */
enum kvr_status kvr_dev_record_begin(struct kvr_dev *dev);
/* Ends the recording and returns the graph as *out. If an error is returned, the recording has
 * nevertheless ended, and *out is NULL. */
enum kvr_status kvr_dev_record_end(struct kvr_dev *dev, struct kvr_graph **out);
/* Replays the recorded work; kernels access the same addresses as when the work was recorded. */
enum kvr_status kvr_dev_replay(struct kvr_dev *dev, struct kvr_graph *g);
void kvr_dev_graph_close(struct kvr_dev *dev, struct kvr_graph **g); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
