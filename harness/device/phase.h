/* phase.h - how long the phases of work on a device take.
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
 * On the CPU the host's clock; on CUDA the device's own time between two places of the stream, so
 * that begin and end wait for nothing. Phases may enclose one another: each counts all the time
 * between its own begin and end. While work is recorded nothing is timed: a graph has no marks in
 * it. One thread at a time. */
#ifndef KVR_DEVICE_PHASE_H
#define KVR_DEVICE_PHASE_H

#include <stdint.h>

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_phases;

enum kvr_status kvr_phases_open(struct kvr_phases **out, struct kvr_dev *dev, int n_phases);
void kvr_phases_close(struct kvr_phases **p); /* copes with NULL */

/* p NULL: nothing is measured. An end without a begin, or a second begin, is a bug: asserted. */
void kvr_phase_begin(struct kvr_phases *p, int phase);
void kvr_phase_end(struct kvr_phases *p, int phase);

/* Waits for the device. Nanoseconds of every phase since open or reset, all phases ended. On an
 * error, the device's own among them, ns is not written. */
enum kvr_status kvr_phases_read(struct kvr_phases *p, int64_t *ns);
/* Start again from 0. What was begun and not ended is forgotten. */
void kvr_phases_reset(struct kvr_phases *p);

/* A device keeps the instants of all its phases until they are forgotten. Read before, and begin no
 * phase across it. */
void kvr_phases_forget(struct kvr_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
