/* gpu_state.h - what a GPU does while somebody computes on it: its clocks, heat and power, what
 * slows it, and who else is on it.
 *
 *     KVR_TRY(kvr_gpu_states_open(&g, why, sizeof why));             g NULL: `why` says it
 *     if (kvr_gpu_look(g, uuid, &s)) ... s.mhz ...
 *     kvr_gpu_states_close(&g);
 *
 * NVIDIA's management library is asked, libnvidia-ml.so.1 or what KVREEL_NVML names. It is loaded
 * when it is there: without it, as without a GPU, nothing is known, and that is no error. */
#ifndef KVR_DEVICE_GPU_STATE_H
#define KVR_DEVICE_GPU_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What holds a GPU below the clock it was asked for, as the library's bits. */
enum kvr_gpu_reason {
    KVR_GPU_POWER_CAP = 0x4, /* its own limit of power: the rule, under heavy load */
    KVR_GPU_HW_SLOWDOWN = 0x8,
    KVR_GPU_SW_THERMAL = 0x20,
    KVR_GPU_HW_THERMAL = 0x40,
    KVR_GPU_POWER_BRAKE = 0x80,
    /* All but its own limit: a machine in trouble. */
    KVR_GPU_SLOWED =
        KVR_GPU_HW_SLOWDOWN | KVR_GPU_SW_THERMAL | KVR_GPU_HW_THERMAL | KVR_GPU_POWER_BRAKE,
};

/* NaN: this GPU, or this library, does not say. */
struct kvr_gpu_state {
    double mhz, memory_mhz, most_mhz; /* of the multiprocessors now, of memory, what it could be */
    double celsius, watts, limit_watts;
    double busy;           /* share of the last moments in which a kernel ran */
    double processes;      /* that compute on it */
    double ecc;            /* 1: memory is corrected, 0: not */
    unsigned long reasons; /* kvr_gpu_reason bits; 0 where they are not said */
};

struct kvr_gpu_states;

/* *out NULL: nothing can be asked, and why [n] says "no NVML: REASON". Else why is "NVML VERSION of
 * the driver", or "NVML" where the library does not say its version. KVR_ENOMEM alone is a failure:
 * whether there is something to ask is not known then. */
enum kvr_status kvr_gpu_states_open(struct kvr_gpu_states **out, char *why, size_t n);
void kvr_gpu_states_close(struct kvr_gpu_states **g); /* copes with NULL */

/* False: it cannot be asked; `g` may be NULL. */
bool kvr_gpu_look(struct kvr_gpu_states *g, const char *uuid, struct kvr_gpu_state *out);

#ifdef __cplusplus
}
#endif
#endif
