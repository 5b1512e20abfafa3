/* gpu_state.h - samples a GPU's clocks, temperature, power, throttle reasons and number of
 * processes while it works.
 *
 *     KVR_TRY(kvr_gpu_states_open(&g, why, sizeof why));             g NULL: see `why`
 *     if (kvr_gpu_sample(g, uuid, &s)) ... s.mhz ...
 *     kvr_gpu_states_close(&g);
 *
 * The values come from NVIDIA's management library (NVML): libnvidia-ml.so.1, or the library that
 * the environment variable KVREEL_NVML names. Without the library or a GPU all values are unknown,
 * which is not an error. */
#ifndef KVR_DEVICE_GPU_STATE_H
#define KVR_DEVICE_GPU_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Throttle reasons, with the bit values of NVML. */
enum kvr_gpu_reason {
    KVR_GPU_POWER_CAP = 0x4, /* the GPU runs at its power limit, which is normal under heavy load */
    KVR_GPU_HW_SLOWDOWN = 0x8,
    KVR_GPU_SW_THERMAL = 0x20,
    KVR_GPU_HW_THERMAL = 0x40,
    KVR_GPU_POWER_BRAKE = 0x80,
    /* All throttle reasons except the power limit. Each of these throttle reasons indicates a
     * problem of the machine. */
    KVR_GPU_SLOWED =
        KVR_GPU_HW_SLOWDOWN | KVR_GPU_SW_THERMAL | KVR_GPU_HW_THERMAL | KVR_GPU_POWER_BRAKE,
};

/* A sample of a GPU's state; values that the GPU or NVML does not report are NaN. */
struct kvr_gpu_state {
    double mhz, memory_mhz, most_mhz; /* SM clock, memory clock and maximum SM clock in MHz */
    double celsius, watts, limit_watts;
    double busy;           /* utilisation: fraction (0 to 1) of NVML's last sample period in which
                            * a kernel ran */
    double processes;      /* number of compute processes on the GPU */
    double ecc;            /* 1: ECC of the GPU's memory is on, 0: off */
    unsigned long reasons; /* kvr_gpu_reason bits; 0 if unknown */
};

struct kvr_gpu_states;

/* Loads NVML. If NVML is not available, *out is NULL and why [n] receives the reason. If NVML is
 * available, why [n] receives "NVML of driver VERSION", or "NVML" if the driver's version is
 * unknown. The only error is KVR_ENOMEM: without memory, kvreel cannot tell whether NVML is
 * available. */
enum kvr_status kvr_gpu_states_open(struct kvr_gpu_states **out, char *why, size_t n);
void kvr_gpu_states_close(struct kvr_gpu_states **g); /* accepts NULL */

/* Samples the GPU with this UUID. Returns false if `g` is NULL because NVML is not available, or if
 * NVML does not know the GPU. */
bool kvr_gpu_sample(struct kvr_gpu_states *g, const char *uuid, struct kvr_gpu_state *out);

/* Sets *bytes to the number of bytes of GPU memory that process `pid` uses. NVML may report process
 * IDs of another PID namespace. If the GPU has only one process, that process is therefore assumed
 * to be `pid`. If the memory is not known, the function returns false, sets *bytes to 0 and writes
 * the reason to why [n]. */
bool kvr_gpu_process_bytes(struct kvr_gpu_states *g, const char *uuid, int pid, int64_t *bytes,
                           char *why, size_t n);

#ifdef __cplusplus
}
#endif
#endif
