/* joint.h - joint coding: one codec stage encodes keys and values together, and decodes them
 * together, in another process.
 *
 * The stage stores codes in the key block and side information in the value block. The two blocks
 * also share one struct kvr_joint, whose function `read` decodes both blocks. Before attention,
 * kvr_joint_read decodes keys and values, and returns an error if decoding fails. After attention,
 * kvr_joint_drop frees the decoded values. If a block is decoded without a previous kvr_joint_read,
 * the stage calls kvr_joint_read itself, and on failure the decoded values are NaN. */
#ifndef KVR_METHODS_JOINT_H
#define KVR_METHODS_JOINT_H

#include "harness/core/status.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_joint {
    int n_owners;          /* number of blocks that share this struct */
    struct kvr_buf values; /* decoded K, then V, each F32 [T,H,D], with the memory tag
                            * KVR_MEM_SCRATCH; empty until kvr_joint_read */
    enum kvr_status (*read)(struct kvr_joint *j);
    void (*close)(struct kvr_joint *j); /* frees j and all that it owns, except `values` */
};

/* Decodes keys and values into j->values, even if they are already decoded. If j is NULL, the
 * function does nothing and returns KVR_OK. Fails with KVR_ENAN if a decoded value is not
 * finite. */
enum kvr_status kvr_joint_read(struct kvr_joint *j);
/* Frees the decoded values. */
void kvr_joint_drop(struct kvr_joint *j);
/* Releases one block's reference and sets *j to NULL; the last release frees the struct and the
 * decoded values. */
void kvr_joint_release(struct kvr_joint **j);

#ifdef __cplusplus
}
#endif
#endif
