/* capture.h - what may not happen while a graph is captured, said alike by both kinds of device.
 *
 *     KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_device_alloc"));
 *
 * A refused call does nothing, and the capture it disturbed ends in an error that names it: a
 * graph that lacks a step must not be launched. */
#ifndef KVR_DEVICE_CAPTURE_H
#define KVR_DEVICE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

struct kvr_capture {
    bool on;
    const char *refused; /* the first call that was; NULL: none */
};

static inline enum kvr_status kvr_capture_forbids(struct kvr_capture *c, const char *call)
{
    if (!c->on)
        return KVR_OK;
    c->refused = c->refused ? c->refused : call;
    return kvr_fail(KVR_EINVAL, "stream: %s during the capture of a graph", call);
}

/* Ends it. KVR_EINVAL: there was none, or a call was refused in it. */
static inline enum kvr_status kvr_capture_ended(struct kvr_capture *c)
{
    const struct kvr_capture was = *c;

    c->on = false;
    c->refused = NULL;
    if (!was.on)
        return kvr_fail(KVR_EINVAL, "stream: no graph is being captured");
    if (was.refused)
        return kvr_fail(KVR_EINVAL, "stream: %s during the capture of a graph", was.refused);
    return KVR_OK;
}

#endif
