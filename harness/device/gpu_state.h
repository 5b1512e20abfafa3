/* gpu_state.h - a GPU's state during work: clocks, temperature, power, throttle reasons, other
 * processes.
 *
 *     KVR_TRY(kvr_gpu_states_open(&g, why, sizeof why));             g NULL: see `why`
 *     if (kvr_gpu_sample(g, uuid, &s)) ... s.mhz ...
 *     kvr_gpu_states_close(&g);
 *
 * Loads NVIDIA's management library, libnvidia-ml.so.1 or the one named by KVREEL_NVML, if present.
 * Without the library or a GPU all values are unknown, which is not an error. */
#ifndef KVR_DEVICE_GPU_STATE_H
#define KVR_DEVICE_GPU_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Throttle reasons: NVML's bits. */
enum kvr_gpu_reason {
    KVR_GPU_POWER_CAP = 0x4, /* power limit: normal under heavy load */
    KVR_GPU_HW_SLOWDOWN = 0x8,
    KVR_GPU_SW_THERMAL = 0x20,
    KVR_GPU_HW_THERMAL = 0x40,
    KVR_GPU_POWER_BRAKE = 0x80,
    /* All reasons but the power limit. Any of these means that the machine has a problem. */
    KVR_GPU_SLOWED =
        KVR_GPU_HW_SLOWDOWN | KVR_GPU_SW_THERMAL | KVR_GPU_HW_THERMAL | KVR_GPU_POWER_BRAKE,
};

/* NaN: not reported by this GPU or library. */
struct kvr_gpu_state {
    double mhz, memory_mhz, most_mhz; /* current SM clock, memory clock, maximum SM clock */
    double celsius, watts, limit_watts;
    double busy;           /* utilisation: share of recent time, 0 to 1, in which a kernel ran */
    double processes;      /* compute processes */
    double ecc;            /* 1: ECC on, 0: off */
    unsigned long reasons; /* kvr_gpu_reason bits; 0 if unknown */
};

struct kvr_gpu_states;

/* *out NULL: unavailable, and why [n] is "no NVML: REASON". Otherwise why is "NVML VERSION of the
 * driver", or "NVML" without a version. The only failure is KVR_ENOMEM, since availability is then
 * unknown. */
enum kvr_status kvr_gpu_states_open(struct kvr_gpu_states **out, char *why, size_t n);
void kvr_gpu_states_close(struct kvr_gpu_states **g); /* accepts NULL */

/* False: unavailable; `g` may be NULL. */
bool kvr_gpu_sample(struct kvr_gpu_states *g, const char *uuid, struct kvr_gpu_state *out);

/* Writes the device memory of process `pid` to *bytes. NVML may report process IDs of another
 * namespace; if the GPU has only one process, its memory is then written. False: *bytes is 0 and
 * why [n] gives the reason, for example several processes of another namespace. */
bool kvr_gpu_process_bytes(struct kvr_gpu_states *g, const char *uuid, int pid, int64_t *bytes,
                           char *why, size_t n);

#ifdef __cplusplus
}
#endif
#endif
