/* conform.h - contract checks that every method must pass, on one layer.
 *
 *     struct kvr_conform c = { .method = "MINE_INT4", .dev = dev };
 *     KVR_TRY(kvr_conform_shape(&c));
 *     for (const struct kvr_conform_check *k = kvr_conform_checks; k->name; k++)
 *         st = k->run(&c);         KVR_OK; KVR_EUNSUPPORTED: does not apply; else the failure
 *     ... c.finding ...
 *
 * A layer of two heads is filled with eight chunks and a truncated one, as in a rollout, and read
 * back. For plug-ins (`kvreel plugin check`); built-in methods have stricter tests. A check may
 * crash if the method does: run it in its own process. The checks change OpenMP's number of
 * threads. */
#ifndef KVR_CACHE_CONFORM_H
#define KVR_CACHE_CONFORM_H

#include "harness/device/dev.h"

struct kvr_conform {
    const char *method;    /* NAME, optionally with a reading or a correction */
    struct kvr_dev *dev;   /* a CPU device */
    struct kvr_dev *other; /* a device to compare with; NULL: no comparison */
    int head_dim;
    char finding[256]; /* finding of the last check; "" if it has none */
};

struct kvr_conform_check {
    const char *name, *asks; /* "bytes", "as many are held as the layout declares" */
    enum kvr_status (*run)(struct kvr_conform *c);
};
extern const struct kvr_conform_check kvr_conform_checks[]; /* ends with name NULL */

/* Chooses the head width: 64 channels if the method supports it, else 128, 256, 32 or 16. Fails
 * with the method's reason if it supports none. */
enum kvr_status kvr_conform_shape(struct kvr_conform *c);

#endif
