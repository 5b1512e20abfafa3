/* dev.h - a device: memory, order and time of the work that is given to it.
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
 * A device is a table of functions (dev_impl.h) and what they keep. Whoever computes on a device
 * has a table of his own for each backend, and takes the one at kvr_dev_backend(): nobody else has
 * to know which device it is. What callers do have to know are the facts below: whether the host
 * reads the device's memory, and whether it records work.
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

/* CUDA: KVR_EUNSUPPORTED, with the reason, where there is no usable device. */
enum kvr_status kvr_dev_open(struct kvr_dev **out, enum kvr_backend backend);

/* Copes with NULL. Buffers still alive are a bug of the caller: asserted. */
void kvr_dev_close(struct kvr_dev **dev);

/* The place of this device in a table of functions [KVR_N_BACKENDS]. */
enum kvr_backend kvr_dev_backend(const struct kvr_dev *dev);
/* For the functions of CUDA's tables; NULL elsewhere. */
struct kvr_stream *kvr_dev_stream(const struct kvr_dev *dev);
enum kvr_status kvr_dev_info(struct kvr_dev *dev, struct kvr_device_info *out);

/* ---- memory ------------------------------------------------------------------------------ */

/* Does the host read and write the device's memory itself? */
bool kvr_dev_in_host(const struct kvr_dev *dev);
/* The same of a device that need not be here. */
bool kvr_backend_in_host(enum kvr_backend backend);
/* The host's memory beside this device, with books of its own; `dev` itself where that is one. */
struct kvr_dev *kvr_dev_host(struct kvr_dev *dev);

/* n bytes from and to the host, in the order of what was asked of the device before. `put` has
 * read the host's memory on return, `get` has waited and written it. */
enum kvr_status kvr_dev_put(struct kvr_dev *dev, void *to, const void *host, size_t n);
enum kvr_status kvr_dev_get(struct kvr_dev *dev, void *host, const void *from, size_t n);
/* n bytes within the device; not overlapping. What goes wrong shows at kvr_dev_sync. */
void kvr_dev_copy(struct kvr_dev *dev, void *to, const void *from, size_t n);
void kvr_dev_zero(struct kvr_dev *dev, void *p, size_t n);
/* Wait for all that was asked; the first error since the last sync. */
enum kvr_status kvr_dev_sync(struct kvr_dev *dev);
/* Has an allocation ever been refused because the device's own memory was full, or by the limit of
 * kvr_mem_set_limit()? */
bool kvr_dev_was_full(const struct kvr_dev *dev);

/* ---- work that is recorded --------------------------------------------------------------- */

/* Can the device record work and do it again? Where it cannot, none of the others is called. */
bool kvr_dev_records(const struct kvr_dev *dev);
/* What is asked from here to kvr_dev_record_end() is recorded and not done
 * (harness/device/stream.h says what may be asked). */
enum kvr_status kvr_dev_record_begin(struct kvr_dev *dev);
/* *out is NULL after an error; the recording has ended in any case. */
enum kvr_status kvr_dev_record_end(struct kvr_dev *dev, struct kvr_graph **out);
/* Do it again, on the memory that it was recorded with. */
enum kvr_status kvr_dev_replay(struct kvr_dev *dev, struct kvr_graph *g);
void kvr_dev_graph_close(struct kvr_dev *dev, struct kvr_graph **g); /* copes with NULL */

#ifdef __cplusplus
}
#endif
#endif
