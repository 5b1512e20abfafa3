/* mem.c - allocates host and device buffers, and counts the allocated bytes of each memory tag. */
#include "harness/device/mem.h"

#include <assert.h>
#include <string.h>

#include "harness/device/dev_impl.h"

const char *kvr_mem_tag_name(enum kvr_mem_tag tag)
{
    static const char *const names[KVR_N_MEM_TAGS] = {
        "KV", "META", "SCRATCH", "WEIGHTS", "ACT", "IO",
    };

    return (unsigned)tag < KVR_N_MEM_TAGS ? names[tag] : "?";
}

void kvr_mem_stats(const struct kvr_dev *dev, struct kvr_mem_stats *out)
{
    *out = dev->stats;
}

void kvr_mem_reset_peak(struct kvr_dev *dev)
{
    struct kvr_mem_stats *s = &dev->stats;

    s->peak_total = s->live_total;
    memcpy(s->peak, s->live, sizeof s->peak);
    memcpy(s->tag_peak, s->live, sizeof s->tag_peak);
}

void kvr_mem_set_limit(struct kvr_dev *dev, size_t bytes)
{
    dev->limit_bytes = bytes;
}

void kvr_mem_fail_after(struct kvr_dev *dev, uint64_t n)
{
    dev->fail_after = n;
}

static void account(struct kvr_mem_stats *s, enum kvr_mem_tag tag, size_t n_bytes)
{
    s->live[tag] += n_bytes;
    s->live_total += n_bytes;
    s->n_allocs++;
    if (s->live[tag] > s->tag_peak[tag])
        s->tag_peak[tag] = s->live[tag];
    if (s->live_total > s->peak_total) {
        s->peak_total = s->live_total;
        memcpy(s->peak, s->live, sizeof s->peak);
    }
}

enum kvr_status kvr_buf_alloc(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                              size_t n_bytes)
{
    KVR_TRY(kvr_buf_alloc_raw(b, dev, tag, n_bytes));
    if (b->p && dev->kind->in_host)
        memset(b->p, 0, n_bytes);
    return KVR_OK;
}

enum kvr_status kvr_buf_alloc_raw(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                  size_t n_bytes)
{
    size_t live = dev->stats.live_total;
    void *p;

    assert(!b->p && "initialize the kvr_buf to zero, or free it, before allocating it");
    assert((unsigned)tag < KVR_N_MEM_TAGS);
    *b = (struct kvr_buf){ 0 };
    if (n_bytes == 0)
        return KVR_OK;
    if (dev->fail_after > 0 && --dev->fail_after == 0)
        return kvr_fail(
            KVR_ENOMEM,
            "memory: allocation of %zu bytes for %s failed on request of a test (injected failure)",
            n_bytes, kvr_mem_tag_name(tag));
    if (dev->limit_bytes > 0 && (live > dev->limit_bytes || n_bytes > dev->limit_bytes - live)) {
        dev->over_limit = true;
        return kvr_fail(
            KVR_ENOMEM,
            "memory: allocating %zu bytes for %s, while %zu bytes are in use, would exceed "
            "the limit of %zu bytes",
            n_bytes, kvr_mem_tag_name(tag), live, dev->limit_bytes);
    }
    if (dev->kind->alloc(dev, &p, n_bytes) != KVR_OK)
        return kvr_fail_prefix(KVR_ENOMEM,
                               "memory: cannot allocate memory for %s (%zu bytes in use)",
                               kvr_mem_tag_name(tag), live);
    *b = (struct kvr_buf){ .p = p, .n_bytes = n_bytes, .dev = dev, .tag = tag };
    account(&dev->stats, tag, n_bytes);
    return KVR_OK;
}

enum kvr_status kvr_buf_reserve(struct kvr_buf *b, struct kvr_dev *dev, enum kvr_mem_tag tag,
                                size_t n_bytes)
{
    if (b->p && b->n_bytes >= n_bytes)
        return KVR_OK;
    /* free the old buffer before the allocation, so that the peak never includes both buffers */
    kvr_buf_free(b);
    return kvr_buf_alloc(b, dev, tag, n_bytes);
}

void kvr_buf_free(struct kvr_buf *b)
{
    if (b->p) {
        struct kvr_mem_stats *s = &b->dev->stats;

        assert(s->live[b->tag] >= b->n_bytes && s->live_total >= b->n_bytes);
        s->live[b->tag] -= b->n_bytes;
        s->live_total -= b->n_bytes;
        b->dev->kind->free(b->dev, b->p);
    }
    *b = (struct kvr_buf){ 0 };
}
