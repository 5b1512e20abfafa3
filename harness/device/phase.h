/* phase.h - measures how much time a device spends in each phase of its work.
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
 * Phases on the CPU are timed by the host's clock, and phases on CUDA by events in the stream.
 * Beginning or ending a phase does not synchronise the device. Different phases may nest, and an
 * outer phase includes the time of inner phases. Work captured in a graph is not timed, since a
 * capture records no timing events. Only one thread at a time may use a struct kvr_phases. */
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

/* Begins phase number `phase`, which must not be in progress. If p is NULL, does nothing. */
void kvr_phase_begin(struct kvr_phases *p, int phase);
/* Ends phase number `phase`, which must be in progress. If p is NULL, does nothing. */
void kvr_phase_end(struct kvr_phases *p, int phase);

/* Synchronises the device, and writes to ns the nanoseconds spent in each phase since the last open
 * or reset. All phases must have ended. If an error is returned, including an earlier error of the
 * device, ns is unchanged. */
enum kvr_status kvr_phases_read(struct kvr_phases *p, int64_t *ns);
/* Sets the times of all phases to 0 and discards phases that have not ended. */
void kvr_phases_reset(struct kvr_phases *p);

/* Releases all timing events of the device's phases. Every phase must have ended, and the times
 * must have been read. */
void kvr_phases_forget(struct kvr_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
