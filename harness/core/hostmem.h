/* hostmem.h - host memory of the process and CPU time, from the kernel. */
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

/* Resets the peak to the current resident set size. False: the kernel does not support it. */
bool kvr_host_peak_reset(void);

/* Number of processes that the OOM killer has killed on this host and in this process's control
 * group. Two different readings mean that a process was killed in between. */
int64_t kvr_host_oom_kills(void);

/* Busy CPU time of the host since boot, over all CPUs. 0: unknown. */
int64_t kvr_host_busy_ns(void);
/* Steal time: CPU time that the hypervisor withheld from this host while it had work. */
int64_t kvr_host_stolen_ns(void);

#ifdef __cplusplus
}
#endif
#endif
