/* joint.h - keys and values that one stage codes jointly and another process decodes.
 *
 * The stage stores into its two blocks like any other: codes in the key block, side information in
 * the value block. The blocks also share a kvr_joint, which decodes both. Attention calls
 * kvr_joint_read first, so that a failure returns a status, and drops the values afterwards.
 * Decoding without a prior read triggers the read; if that fails, the output is NaN. */
#ifndef KVR_METHODS_JOINT_H
#define KVR_METHODS_JOINT_H

#include "harness/core/status.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_joint {
    int n_owners;          /* blocks that share it */
    struct kvr_buf values; /* K, then V, [T,H,D] F32, SCRATCH; empty until read */
    enum kvr_status (*read)(struct kvr_joint *j);
    void (*close)(struct kvr_joint *j); /* frees j and everything but `values` */
};

/* Decodes now, even if already decoded; j may be NULL. KVR_ENAN: the result is not finite. */
enum kvr_status kvr_joint_read(struct kvr_joint *j);
/* Frees the decoded values. */
void kvr_joint_drop(struct kvr_joint *j);
/* Releases one owner's reference. */
void kvr_joint_release(struct kvr_joint **j);

#ifdef __cplusplus
}
#endif
#endif
