/* hostmem.h - host memory of the process, OOM kills and CPU time, as reported by the kernel. */
#ifndef KVR_CORE_HOSTMEM_H
#define KVR_CORE_HOSTMEM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* VmHWM of this process: peak resident set size, in bytes, since its start or since the last reset.
 * The kernel updates the peak at every page fault, so short spikes are included. Returns 0 if the
 * peak is unknown. */
int64_t kvr_host_peak_bytes(void);

/* Resets the peak resident set size of this process to the current resident set size. Returns false
 * if the kernel does not support the reset. */
bool kvr_host_peak_reset(void);

/* Number of OOM kills so far: the kernel's count for the host plus the count for this process's
 * control group. If this number has grown between two calls, the OOM killer has ended a process in
 * between. */
int64_t kvr_host_oom_kills(void);

/* Busy CPU time of this machine since boot, in nanoseconds, including steal time and summed over
 * all CPUs; 0 if it is unknown. */
int64_t kvr_host_busy_ns(void);
/* Steal time of this virtual machine since boot, in nanoseconds, summed over all CPUs: the time in
 * which a CPU had work, but the hypervisor ran other guests. Returns 0 if it is unknown. */
int64_t kvr_host_stolen_ns(void);

#ifdef __cplusplus
}
#endif
#endif
