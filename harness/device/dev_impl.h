/* dev_impl.h - what a device is made of. Private to harness/device: a new kind of device is a
 * value of enum kvr_backend, a table of this type, a line in dev.c, and its tables elsewhere. */
#ifndef KVR_DEVICE_DEV_IMPL_H
#define KVR_DEVICE_DEV_IMPL_H

#include "harness/device/mem.h"

struct kvr_dev_kind {
    const char *(*name)(void); /* as commands call it */
    bool in_host;              /* memory is the host's, and comes zero filled */

    /* What else the device keeps; `dev` is empty but for its kind and host. */
    enum kvr_status (*open)(struct kvr_dev *dev);
    void (*close)(struct kvr_dev *dev); /* copes with what `open` left half done */
    enum kvr_status (*info)(struct kvr_dev *dev, struct kvr_device_info *out);

    /* n > 0 bytes, aligned to 64. KVR_ENOMEM says what there was. */
    enum kvr_status (*alloc)(struct kvr_dev *dev, void **p, size_t n);
    void (*free)(struct kvr_dev *dev, void *p);
    enum kvr_status (*put)(struct kvr_dev *dev, void *to, const void *host, size_t n);
    enum kvr_status (*get)(struct kvr_dev *dev, void *host, const void *from, size_t n);
    void (*copy)(struct kvr_dev *dev, void *to, const void *from, size_t n);
    void (*zero)(struct kvr_dev *dev, void *p, size_t n);
    enum kvr_status (*sync)(struct kvr_dev *dev);
    bool (*was_full)(const struct kvr_dev *dev);

    /* An instant of the device's order: a number below 0 where none can be taken. */
    int64_t (*instant)(struct kvr_dev *dev);
    /* NULL: instants are nanoseconds. Else from one to another; waits for the later one. */
    enum kvr_status (*between)(struct kvr_dev *dev, int64_t a, int64_t b, int64_t *ns);
    /* This instant is asked for no more; NULL with `between`. */
    void (*forget_instant)(struct kvr_dev *dev, int64_t a);
    void (*forget_instants)(struct kvr_dev *dev);

    /* NULL, all four: it records nothing. */
    enum kvr_status (*record_begin)(struct kvr_dev *dev);
    enum kvr_status (*record_end)(struct kvr_dev *dev, struct kvr_graph **out);
    enum kvr_status (*replay)(struct kvr_dev *dev, struct kvr_graph *g);
    void (*graph_close)(struct kvr_graph **g);
};
extern const struct kvr_dev_kind kvr_dev_cpu, kvr_dev_cuda;

struct kvr_dev {
    const struct kvr_dev_kind *kind;
    enum kvr_backend backend;
    struct kvr_dev *host;      /* owned; NULL where memory is the host's */
    struct kvr_stream *stream; /* CUDA's own */
    struct kvr_mem_stats stats;
    size_t limit_bytes;  /* 0: none */
    bool over_limit;     /* an allocation was refused by it */
    uint64_t fail_after; /* allocations until the injected failure; 0: none */
};

#endif
