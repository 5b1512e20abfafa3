/* hostmem.h - the process's host memory and processor time, from the kernel. */
#ifndef KVR_CORE_HOSTMEM_H
#define KVR_CORE_HOSTMEM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* VmHWM: peak resident set size since the process started or since the last reset. The kernel
 * updates it at page faults, so short spikes are included. 0: unknown. */
int64_t kvr_host_peak_bytes(void);

/* Reset the peak to the current resident set size. False: the kernel does not support it. */
bool kvr_host_peak_reset(void);

/* Number of processes killed by the OOM killer on this host and in this process's control group. If
 * two readings differ, a process was killed in between. */
int64_t kvr_host_oom_kills(void);

/* Processor time that the host has been busy since boot, over all CPUs. 0: unknown. */
int64_t kvr_host_busy_ns(void);
/* Processor time that the hypervisor took from this host while it had work (steal). */
int64_t kvr_host_stolen_ns(void);

#ifdef __cplusplus
}
#endif
#endif
