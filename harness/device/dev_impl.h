/* dev_impl.h - a device's function table. Private to harness/device. A new kind of device needs a
 * value of enum kvr_backend, a struct kvr_dev_kind, and an entry in every array of KVR_N_BACKENDS
 * elements, such as kinds[] in dev.c. */
#ifndef KVR_DEVICE_DEV_IMPL_H
#define KVR_DEVICE_DEV_IMPL_H

#include "harness/device/mem.h"

struct kvr_dev_kind {
    const char *(*name)(void); /* device name on the command line */
    bool in_host;              /* whether the device's memory is host memory, which kvr_buf_alloc()
                                * sets to zero */

    /* Initialises the backend's state. Before the call, only `kind` and `host` of dev are set. */
    enum kvr_status (*open)(struct kvr_dev *dev);
    void (*close)(struct kvr_dev *dev); /* accepts a partly opened device */
    enum kvr_status (*info)(struct kvr_dev *dev, struct kvr_device_info *out);

    /* Allocates n > 0 bytes, aligned to 64 bytes. If memory is short, the
     * message of KVR_ENOMEM states the available memory. */
    enum kvr_status (*alloc)(struct kvr_dev *dev, void **p, size_t n);
    void (*free)(struct kvr_dev *dev, void *p);
    enum kvr_status (*put)(struct kvr_dev *dev, void *to, const void *host, size_t n);
    enum kvr_status (*get)(struct kvr_dev *dev, void *host, const void *from, size_t n);
    void (*copy)(struct kvr_dev *dev, void *to, const void *from, size_t n);
    void (*zero)(struct kvr_dev *dev, void *p, size_t n);
    enum kvr_status (*sync)(struct kvr_dev *dev);
    bool (*was_full)(const struct kvr_dev *dev);

    /* Records a time stamp and returns its ticket, or a negative number after a failure. */
    int64_t (*instant)(struct kvr_dev *dev);
    /* Computes the time from ticket a to ticket b, after waiting for b. The pointer is NULL if a
     * ticket is itself the time in nanoseconds. */
    enum kvr_status (*elapsed)(struct kvr_dev *dev, int64_t a, int64_t b, int64_t *ns);
    /* Releases the ticket. The pointer is NULL if `elapsed` is NULL. */
    void (*forget_instant)(struct kvr_dev *dev, int64_t a);
    void (*forget_instants)(struct kvr_dev *dev);

    /* Capture and replay of graphs. All four functions are NULL if the device does not support
     * graphs. */
    enum kvr_status (*record_begin)(struct kvr_dev *dev);
    enum kvr_status (*record_end)(struct kvr_dev *dev, struct kvr_graph **out);
    enum kvr_status (*replay)(struct kvr_dev *dev, struct kvr_graph *g);
    void (*graph_close)(struct kvr_graph **g);
};
extern const struct kvr_dev_kind kvr_dev_cpu, kvr_dev_cuda;

struct kvr_dev {
    const struct kvr_dev_kind *kind;
    enum kvr_backend backend;
    struct kvr_dev *host; /* CPU device that allocates host buffers, owned by this device; NULL if
                           * this device's memory is host memory */
    struct kvr_stream *stream; /* CUDA only */
    struct kvr_mem_stats stats;
    size_t limit_bytes;  /* limit on allocated bytes; 0: unlimited */
    bool over_limit;     /* whether any allocation has failed because of limit_bytes */
    uint64_t fail_after; /* number of allocations until an injected failure; 0: none is injected */
};

#endif
