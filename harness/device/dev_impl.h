/* dev_impl.h - a device's function table. Private to harness/device. A new kind of device needs a
 * value of enum kvr_backend, a struct kvr_dev_kind, and an entry in every array of KVR_N_BACKENDS
 * elements, such as kinds[] in dev.c. */
#ifndef KVR_DEVICE_DEV_IMPL_H
#define KVR_DEVICE_DEV_IMPL_H

#include "harness/device/mem.h"

struct kvr_dev_kind {
    const char *(*name)(void); /* returns the device's name: "cpu", "cuda" or "emulated" */
    bool in_host;              /* whether the device's memory is host memory */

    /* Initialises the backend's state. Before the call, only `kind` and `host` of dev are set. */
    enum kvr_status (*open)(struct kvr_dev *dev);
    void (*close)(struct kvr_dev *dev); /* also called if `open` failed or was not called */
    enum kvr_status (*info)(struct kvr_dev *dev, struct kvr_device_info *out);

    /* Allocates n > 0 bytes, aligned to 64 bytes. If there is not enough memory, the message of
     * KVR_ENOMEM states the available memory. */
    enum kvr_status (*alloc)(struct kvr_dev *dev, void **p, size_t n);
    void (*free)(struct kvr_dev *dev, void *p);
    enum kvr_status (*put)(struct kvr_dev *dev, void *to, const void *host, size_t n);
    enum kvr_status (*get)(struct kvr_dev *dev, void *host, const void *from, size_t n);
    void (*copy)(struct kvr_dev *dev, void *to, const void *from, size_t n);
    void (*zero)(struct kvr_dev *dev, void *p, size_t n);
    enum kvr_status (*sync)(struct kvr_dev *dev);
    bool (*was_full)(const struct kvr_dev *dev);

    /* Records a time stamp and returns a ticket that identifies it, or a negative number after a
     * failure. */
    int64_t (*instant)(struct kvr_dev *dev);
    /* Waits for ticket b, and computes the time from ticket a to ticket b. `elapsed` is NULL if the
     * tickets that `instant` returns are themselves times in nanoseconds. */
    enum kvr_status (*elapsed)(struct kvr_dev *dev, int64_t a, int64_t b, int64_t *ns);
    /* Releases ticket a. `forget_instant` is NULL if `elapsed` is NULL, because tickets that are
     * times need no release. */
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
    struct kvr_dev *host; /* on a CUDA device, the CPU device that allocates host buffers and that
                           * the CUDA device owns; NULL if kind->in_host is true */
    struct kvr_stream *stream; /* CUDA only */
    struct kvr_mem_stats stats;
    size_t limit_bytes;  /* limit on allocated bytes; 0: unlimited */
    bool over_limit;     /* whether any allocation has failed because of limit_bytes */
    uint64_t fail_after; /* n: the n-th allocation from now fails (for tests); 0: no failure is
                          * injected */
};

#endif
