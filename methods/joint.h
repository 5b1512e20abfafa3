/* joint.h - keys and values that a stage codes as one, and reads in a process of its own.
 *
 * What such a stage stores lies in its two blocks as any stage's does: the codes in that of the
 * keys, side information in that of the values. Beside them the blocks share a kvr_joint, which can
 * decode both at once: attention reads it before it begins, so that a failure has a status, and
 * drops it afterwards. Whoever decodes without having read it gets it read, or NaN. */
#ifndef KVR_METHODS_JOINT_H
#define KVR_METHODS_JOINT_H

#include "harness/core/status.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_joint {
    int n_owners;          /* of the two blocks */
    struct kvr_buf values; /* K, then V, [T,H,D] F32, SCRATCH; empty: not read */
    enum kvr_status (*read)(struct kvr_joint *j);
    void (*close)(struct kvr_joint *j); /* frees what is beside `values`, and j */
};

/* Decode now, whatever was decoded before; j may be NULL. KVR_ENAN: what came is not finite. */
enum kvr_status kvr_joint_read(struct kvr_joint *j);
/* Forget what was decoded. */
void kvr_joint_drop(struct kvr_joint *j);
/* One owner less. */
void kvr_joint_release(struct kvr_joint **j);

#ifdef __cplusplus
}
#endif
#endif
