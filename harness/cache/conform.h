/* conform.h - what every method has to keep to, tried on one layer of it.
 *
 *     struct kvr_conform c = { .method = "MINE_INT4", .dev = dev };
 *     KVR_TRY(kvr_conform_shape(&c));
 *     for (const struct kvr_conform_check *k = kvr_conform_checks; k->name; k++)
 *         st = k->run(&c);         KVR_OK; KVR_EUNSUPPORTED: does not apply; else what is wrong
 *     ... c.said ...
 *
 * A layer of two heads is filled chunk by chunk, eight chunks and one cut short, as a rollout does,
 * and read back. For plug-ins (`kvreel plugin check`): what is built in is tried by the tests over
 * the registry, which ask for more. A check may crash when the method does: run it in a process of
 * its own. The checks change OpenMP's number of threads. */
#ifndef KVR_CACHE_CONFORM_H
#define KVR_CACHE_CONFORM_H

#include "harness/device/dev.h"

struct kvr_conform {
    const char *method;    /* NAME, with a reading or a correction behind it */
    struct kvr_dev *dev;   /* of the CPU */
    struct kvr_dev *other; /* a device to compare with, NULL: none */
    int head_dim;
    char said[256]; /* what a check found out, "" before it */
};

struct kvr_conform_check {
    const char *name, *asks; /* "bytes", "as many are held as the layout declares" */
    enum kvr_status (*run)(struct kvr_conform *c);
};
extern const struct kvr_conform_check kvr_conform_checks[]; /* ends with name NULL */

/* How wide the heads are: 64 channels where the method takes these, else 128, 256, 32 or 16. Fails
 * where it takes none, with the method's own reason. */
enum kvr_status kvr_conform_shape(struct kvr_conform *c);

#endif
