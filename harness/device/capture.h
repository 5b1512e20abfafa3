/* capture.h - detects operations that are forbidden during graph capture, for CUDA devices and the
 * emulated device.
 *
 *     KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_device_alloc"));
 *
 * A forbidden call does nothing. The capture then ends with an error that names this call, because
 * a graph without that operation must not be launched. */
#ifndef KVR_DEVICE_CAPTURE_H
#define KVR_DEVICE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

struct kvr_capture {
    bool on;
    const char *refused; /* name of the first forbidden call, or NULL */
};

static inline enum kvr_status kvr_capture_forbids(struct kvr_capture *c, const char *call)
{
    if (!c->on)
        return KVR_OK;
    c->refused = c->refused ? c->refused : call;
    return kvr_fail(KVR_EINVAL, "stream: %s during the capture of a graph", call);
}

/* Ends the capture. Returns KVR_EINVAL if no capture was active, or if a forbidden call was
 * made. */
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
