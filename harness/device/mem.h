/* mem.h - the tagged allocator: every allocation that matters is counted here.
 *
 *     struct kvr_buf b = { 0 };
 *     KVR_TRY(kvr_buf_alloc(&b, dev, KVR_MEM_KV, n_bytes));
 *     ...
 *     kvr_buf_free(&b);
 *
 * A device belongs to one thread at a time for alloc and free; buffers of the CPU may be
 * read and written by any thread. The peak is exact: it is taken at every
 * allocation, together with what each tag held at that instant.
 *
 * Where memory is not the host's (kvr_dev_in_host), `p` is the device's, in the order of what the
 * device is asked; the host reaches it by kvr_dev_put and kvr_dev_get alone. */
#ifndef KVR_DEVICE_MEM_H
#define KVR_DEVICE_MEM_H

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_mem_tag {
    KVR_MEM_KV,      /* codes and exact keys and values that later chunks read */
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
    size_t peak[KVR_N_MEM_TAGS];     /* what each tag held when peak_total was reached */
    size_t tag_peak[KVR_N_MEM_TAGS]; /* each tag's own highest, at its own instant */
    uint64_t n_allocs;
};

void kvr_mem_stats(const struct kvr_dev *dev, struct kvr_mem_stats *out);

/* Forget the past peak: the next one starts from what is live now. */
void kvr_mem_reset_peak(struct kvr_dev *dev);

/* Refuse to let live_total pass `bytes` (KVR_ENOMEM); 0 lifts the limit. */
void kvr_mem_set_limit(struct kvr_dev *dev, size_t bytes);

/* For tests: the n-th allocation from now fails with KVR_ENOMEM (1 = the next); 0 = none. */
void kvr_mem_fail_after(struct kvr_dev *dev, uint64_t n);

struct kvr_buf {
    void *p;
    size_t n_bytes;
    struct kvr_dev *dev;
    enum kvr_mem_tag tag;
};

/* 64-byte aligned; zero filled in the host's memory, without content elsewhere. n_bytes 0 gives p
 * == NULL and KVR_OK. `b` must be empty ({0} or freed). On failure it stays empty. */
enum kvr_status kvr_buf_alloc(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                              size_t n_bytes);

/* The same without content in the host's memory, too: for who writes every byte before any is read,
 * stored or hashed. */
enum kvr_status kvr_buf_alloc_raw(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                  size_t n_bytes);

/* Make `b` at least n_bytes large, contents lost; shrinks never. For scratch that grows. */
enum kvr_status kvr_buf_reserve(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                size_t n_bytes);

/* Leaves {0}. Copes with an empty one. */
void kvr_buf_free(struct kvr_buf *b);

#ifdef __cplusplus
}
#endif
#endif
