/* mem.h - the tagged allocator, which accounts for all significant memory.
 *
 *     struct kvr_buf b = { 0 };
 *     KVR_TRY(kvr_buf_alloc(&b, dev, KVR_MEM_KV, n_bytes));
 *     ...
 *     kvr_buf_free(&b);
 *
 * Only one thread at a time may allocate and free on a device; any thread may access CPU buffers.
 * The peak is exact: every allocation updates it, with each tag's share at that instant.
 *
 * If memory is not host memory (kvr_dev_in_host), `p` is a device pointer, valid in stream order;
 * the host accesses it only through kvr_dev_put and kvr_dev_get. */
#ifndef KVR_DEVICE_MEM_H
#define KVR_DEVICE_MEM_H

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_mem_tag {
    KVR_MEM_KV,      /* codes and exact keys and values read by later chunks */
    KVR_MEM_META,    /* scales, zero points, indices, masks, token lists of the cache */
    KVR_MEM_SCRATCH, /* decoded pieces, dense copies, the current chunk */
    KVR_MEM_WEIGHTS,
    KVR_MEM_ACT, /* activations, cross-attention cache */
    KVR_MEM_IO,  /* frames, noise, files */
    KVR_N_MEM_TAGS
};

const char *kvr_mem_tag_name(enum kvr_mem_tag tag); /* "KV", "META", ... */

struct kvr_mem_stats {
    size_t live[KVR_N_MEM_TAGS]; /* bytes */
    size_t live_total;
    size_t peak_total;
    size_t peak[KVR_N_MEM_TAGS];     /* each tag's bytes when peak_total was reached */
    size_t tag_peak[KVR_N_MEM_TAGS]; /* each tag's own peak */
    uint64_t n_allocs;
};

void kvr_mem_stats(const struct kvr_dev *dev, struct kvr_mem_stats *out);

/* Resets the peak to the current usage. */
void kvr_mem_reset_peak(struct kvr_dev *dev);

/* Allocations beyond a live_total of `bytes` fail with KVR_ENOMEM; 0 removes the limit. */
void kvr_mem_set_limit(struct kvr_dev *dev, size_t bytes);

/* For tests: the n-th allocation from now fails with KVR_ENOMEM (1: the next one); n = 0: no
 * allocation fails. */
void kvr_mem_fail_after(struct kvr_dev *dev, uint64_t n);

struct kvr_buf {
    void *p;
    size_t n_bytes;
    struct kvr_dev *dev;
    enum kvr_mem_tag tag;
};

/* 64-byte aligned; zeroed in host memory, uninitialised elsewhere. n_bytes 0 gives p == NULL and
 * KVR_OK. `b` must be empty ({0} or freed) and stays empty on failure. */
enum kvr_status kvr_buf_alloc(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                              size_t n_bytes);

/* kvr_buf_alloc without zeroing in host memory, for callers that write every byte before any byte
 * is read, stored or hashed. */
enum kvr_status kvr_buf_alloc_raw(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                  size_t n_bytes);

/* Ensures a size of at least n_bytes, discarding the contents; never shrinks. For growing
 * scratch. */
enum kvr_status kvr_buf_reserve(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                size_t n_bytes);

/* Leaves {0}. Accepts an empty buffer. */
void kvr_buf_free(struct kvr_buf *b);

#ifdef __cplusplus
}
#endif
#endif
