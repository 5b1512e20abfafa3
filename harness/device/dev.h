/* dev.h - a device: memory, ordering and timing of its work.
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
 * A device is a table of functions (dev_impl.h) with state. Code that computes on devices has a
 * table per backend, indexed by kvr_dev_backend(); no other code depends on the backend. Callers
 * may query two properties: whether the host can access the device's memory, and whether the device
 * can record work.
 *
 * A device belongs to one thread at a time. */
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

/* CUDA: KVR_EUNSUPPORTED, with the reason, without a usable device. */
enum kvr_status kvr_dev_open(struct kvr_dev **out, enum kvr_backend backend);

/* Accepts NULL. Asserts that no buffer is alive. */
void kvr_dev_close(struct kvr_dev **dev);

/* Index into function tables [KVR_N_BACKENDS]. */
enum kvr_backend kvr_dev_backend(const struct kvr_dev *dev);
/* For CUDA functions; NULL on other devices. */
struct kvr_stream *kvr_dev_stream(const struct kvr_dev *dev);
enum kvr_status kvr_dev_info(struct kvr_dev *dev, struct kvr_device_info *out);

/* ---- memory ------------------------------------------------------------------------------ */

/* Whether the host can access the device's memory directly. */
bool kvr_dev_in_host(const struct kvr_dev *dev);
/* Whether the host can access memory of this backend's devices; no device needs to be open. */
bool kvr_backend_in_host(enum kvr_backend backend);
/* Host memory as a device with its own accounting; `dev` itself if its memory is host memory. */
struct kvr_dev *kvr_dev_host(struct kvr_dev *dev);

/* Copies n bytes from or to the host, in order with the device's work. On return kvr_dev_put has
 * read, and kvr_dev_get has written, the host memory. kvr_dev_get synchronises. */
enum kvr_status kvr_dev_put(struct kvr_dev *dev, void *to, const void *host, size_t n);
enum kvr_status kvr_dev_get(struct kvr_dev *dev, void *host, const void *from, size_t n);
/* Copies n bytes within the device, not overlapping. Errors surface at kvr_dev_sync. */
void kvr_dev_copy(struct kvr_dev *dev, void *to, const void *from, size_t n);
void kvr_dev_zero(struct kvr_dev *dev, void *p, size_t n);
/* Waits for all queued work; returns the first error since the last sync. */
enum kvr_status kvr_dev_sync(struct kvr_dev *dev);
/* Whether an allocation has failed because device memory, or the limit of kvr_mem_set_limit(), was
 * exhausted. */
bool kvr_dev_was_full(const struct kvr_dev *dev);

/* ---- graphs ------------------------------------------------------------------------------ */

/* Whether the device can record and replay work. If not, the functions below must not be called. */
bool kvr_dev_records(const struct kvr_dev *dev);
/* Starts recording: work up to kvr_dev_record_end() is recorded, not executed
 * (harness/device/stream.h lists the allowed calls). */
enum kvr_status kvr_dev_record_begin(struct kvr_dev *dev);
/* *out is NULL after an error; recording has ended in any case. */
enum kvr_status kvr_dev_record_end(struct kvr_dev *dev, struct kvr_graph **out);
/* Replays the work on the memory it was recorded with. */
enum kvr_status kvr_dev_replay(struct kvr_dev *dev, struct kvr_graph *g);
void kvr_dev_graph_close(struct kvr_dev *dev, struct kvr_graph **g); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
