/* mem.h - the allocator of host and device buffers, which counts allocated bytes per memory tag.
 *
 *     struct kvr_buf b = { 0 };
 *     KVR_TRY(kvr_buf_alloc(&b, dev, KVR_MEM_KV, n_bytes));
 *     ...
 *     kvr_buf_free(&b);
 *
 * Only one thread at a time may allocate or free buffers of a device. Any thread may read and write
 * the contents of host buffers. Every allocation updates the peak and each tag's bytes at the peak,
 * so that the peak is exact.
 *
 * If a device's memory is not host memory (kvr_dev_in_host), the buffer's `p` is a device pointer
 * for work in the device's stream. The host accesses such a buffer only through kvr_dev_put and
 * kvr_dev_get. */
#ifndef KVR_DEVICE_MEM_H
#define KVR_DEVICE_MEM_H

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_mem_tag {
    KVR_MEM_KV,      /* quantized and uncompressed keys and values that later chunks attend to */
    KVR_MEM_META,    /* scales, zero points, indices, masks and token lists of the KV cache */
    KVR_MEM_SCRATCH, /* temporary buffers: dequantized tiles, dequantized copies of the KV
                      * cache, and the current chunk's keys and values */
    KVR_MEM_WEIGHTS,
    KVR_MEM_ACT, /* activations, and the prompt's cross-attention keys and values */
    KVR_MEM_IO,  /* frames, noise, files */
    KVR_N_MEM_TAGS
};

const char *kvr_mem_tag_name(enum kvr_mem_tag tag); /* "KV", "META", ... */

struct kvr_mem_stats {
    size_t live[KVR_N_MEM_TAGS]; /* bytes */
    size_t live_total;
    size_t peak_total;
    size_t peak[KVR_N_MEM_TAGS];     /* bytes of each tag when live_total reached peak_total */
    size_t tag_peak[KVR_N_MEM_TAGS]; /* each tag's own peak in bytes; tags may reach their
                                      * peaks at different times */
    uint64_t n_allocs;
};

void kvr_mem_stats(const struct kvr_dev *dev, struct kvr_mem_stats *out);

/* Sets all peaks to the bytes that are allocated now. */
void kvr_mem_reset_peak(struct kvr_dev *dev);

/* Limits the device's total allocated bytes: an allocation that would exceed `bytes` fails with
 * KVR_ENOMEM; 0 removes the limit. */
void kvr_mem_set_limit(struct kvr_dev *dev, size_t bytes);

/* For tests: makes the n-th allocation from now fail with KVR_ENOMEM, where n = 1 is the next
 * allocation. If n is 0, no allocation is made to fail. */
void kvr_mem_fail_after(struct kvr_dev *dev, uint64_t n);

struct kvr_buf {
    void *p;
    size_t n_bytes;
    struct kvr_dev *dev;
    enum kvr_mem_tag tag;
};

/* Allocates a 64-byte aligned buffer, which is zeroed in host memory and uninitialised in device
 * memory. If n_bytes is 0, the function sets b->p to NULL and returns KVR_OK. `b` must be empty
 * ({0} or freed) and stays empty after an error. */
enum kvr_status kvr_buf_alloc(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                              size_t n_bytes);

/* Like kvr_buf_alloc, but host memory is not zeroed. The caller must write every byte before any
 * byte is read, stored or hashed. */
enum kvr_status kvr_buf_alloc_raw(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                  size_t n_bytes);

/* Reallocates the buffer if it is smaller than n_bytes; the buffer's contents are then lost. The
 * buffer never shrinks. */
enum kvr_status kvr_buf_reserve(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                size_t n_bytes);

/* Frees the buffer and sets it to {0}; an empty buffer is accepted. */
void kvr_buf_free(struct kvr_buf *b);

#ifdef __cplusplus
}
#endif
#endif
