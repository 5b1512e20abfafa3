/* phase.h - time spent in phases of work on a device.
 *
 *     enum { LINEAR, CROSS, N_PHASES };
 *     struct kvr_phases *p;
 *     KVR_TRY(kvr_phases_open(&p, dev, N_PHASES));
 *     kvr_phase_begin(p, LINEAR);
 *     ...                                        launches, or work of the CPU
 *     kvr_phase_end(p, LINEAR);
 *     KVR_TRY(kvr_phases_read(p, ns));           ns[N_PHASES], since open or reset
 *     kvr_phases_close(&p);
 *
 * Phases on the CPU are timed by the host's clock, phases on CUDA by events in the stream; begin
 * and end do not synchronise. Phases may nest: each counts all time between its begin and end.
 * Recorded work is not timed, since graphs contain no events. One thread at a time. */
#ifndef KVR_DEVICE_PHASE_H
#define KVR_DEVICE_PHASE_H

#include <stdint.h>

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_phases;

enum kvr_status kvr_phases_open(struct kvr_phases **out, struct kvr_dev *dev, int n_phases);
void kvr_phases_close(struct kvr_phases **p); /* accepts NULL */

/* p NULL: no measurement. Asserts that begin and end are paired. */
void kvr_phase_begin(struct kvr_phases *p, int phase);
void kvr_phase_end(struct kvr_phases *p, int phase);

/* Synchronises. Nanoseconds of every phase since open or reset; all phases must have ended. On an
 * error, including the device's own, ns is unchanged. */
enum kvr_status kvr_phases_read(struct kvr_phases *p, int64_t *ns);
/* Sets all times to 0 and discards phases that have not ended. */
void kvr_phases_reset(struct kvr_phases *p);

/* Releases all time stamps of the device's phases. All phases must have ended and been read. */
void kvr_phases_forget(struct kvr_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
