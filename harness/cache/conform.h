/* conform.h - conformance checks of a compression method, run on a single cache layer.
 *
 *     struct kvr_conform c = { .method = "MINE_INT4", .dev = dev };
 *     KVR_TRY(kvr_conform_shape(&c));
 *     for (const struct kvr_conform_check *k = kvr_conform_checks; k->name; k++)
 *         st = k->run(&c);         KVR_OK; KVR_EUNSUPPORTED: does not apply; else the failure
 *     ... c.finding ...
 *
 * A check stores eight full chunks and a shorter ninth chunk in a layer of two heads, as a rollout
 * would, and then decodes the layer. The checks are for plug-ins (`kvreel plugin check`); the tests
 * of built-in methods are stricter. A faulty method may crash a check, so run each check in its own
 * process. Some checks change the process's number of OpenMP threads while they run. */
#ifndef KVR_CACHE_CONFORM_H
#define KVR_CACHE_CONFORM_H

#include "harness/device/dev.h"

struct kvr_conform {
    const char *method;    /* name of the method, optionally with a correction, such as
                            * "MINE_INT4+taylor"; variants NAME@study are not supported */
    struct kvr_dev *dev;   /* a CPU device */
    struct kvr_dev *other; /* a device whose results are compared with those of `dev`; NULL skips
                            * the comparison */
    int head_dim;
    char finding[256]; /* result that the last check measured, such as the quantization error, as
                        * text; empty if the check measures nothing */
};

struct kvr_conform_check {
    const char *name, *asks; /* name of the check and the requirement that it tests, such as "bytes"
                              * and "allocated bytes equal the bytes that the codec declares, and
                              * none leak" */
    enum kvr_status (*run)(struct kvr_conform *c);
};
extern const struct kvr_conform_check kvr_conform_checks[]; /* the last element has name NULL */

/* Sets c->head_dim to the first of 64, 128, 256, 32 and 16 that the method supports. If the method
 * supports none of these values, fails with the method's own error message. */
enum kvr_status kvr_conform_shape(struct kvr_conform *c);

#endif
