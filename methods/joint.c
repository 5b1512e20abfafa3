/* joint.c - decodes keys and values that can only be decoded jointly, frees them, and counts the
 * references to them. */
#include "methods/joint.h"

enum kvr_status kvr_joint_read(struct kvr_joint *j)
{
    enum kvr_status st;

    if (!j)
        return KVR_OK;
    kvr_joint_drop(j);
    st = j->read(j);
    if (st != KVR_OK)
        kvr_joint_drop(j);
    return st;
}

void kvr_joint_drop(struct kvr_joint *j)
{
    if (j)
        kvr_buf_free(&j->values);
}

void kvr_joint_release(struct kvr_joint **j)
{
    struct kvr_joint *old = *j;

    *j = NULL;
    if (!old || --old->n_owners > 0)
        return;
    kvr_joint_drop(old);
    old->close(old);
}
