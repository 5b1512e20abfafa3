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
 * Two implementations, never in one program: stream_cuda.cu (nvcc) and emu.cc. A stream belongs
 * to one thread. After an error later launches do nothing until a sync has returned it. */
#ifndef KVR_CUDA_STREAM_H
#define KVR_CUDA_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"

/* A table's CUDA entry; NULL where CUDA is not part of the build. */
#ifdef KVR_HAVE_CUDA
#define KVR_IF_CUDA(f) (f)
#else
#define KVR_IF_CUDA(f) NULL
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_stream;

/* KVR_EUNSUPPORTED, with the reason, where there is no usable device. */
enum kvr_status kvr_stream_open(struct kvr_stream **out);
/* Copes with NULL. Frees memory still allocated. */
void kvr_stream_close(struct kvr_stream **s);
/* Wait, then return the first error since the last sync and forget it. */
enum kvr_status kvr_stream_sync(struct kvr_stream *s);

/* True: kernels run on the CPU, under the checks of emu.cuh. */
bool kvr_stream_emulated(void);
/* Emulated: another order of blocks, and of threads between barriers. On a device: nothing. */
void kvr_stream_seed(struct kvr_stream *s, uint64_t seed);
/* How often a kernel of this name has been launched without an error at the launch. */
int64_t kvr_stream_launches(const struct kvr_stream *s, const char *kernel);

/* Device memory. Its first content is not defined; emulated, reading it is an error. */
enum kvr_status kvr_device_alloc(struct kvr_stream *s, void **p, size_t n_bytes);
void kvr_device_free(struct kvr_stream *s, void *p); /* copes with NULL */
/* Copies in stream order; `put` has read the host's memory, `get` has written it, on return. */
enum kvr_status kvr_device_put(struct kvr_stream *s, void *device, const void *host, size_t n);
enum kvr_status kvr_device_get(struct kvr_stream *s, void *host, const void *device, size_t n);

#ifdef __cplusplus
}
#endif
#endif
