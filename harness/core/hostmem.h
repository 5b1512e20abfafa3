/* hostmem.h - what the process takes of the host's memory, as the kernel counts it. */
#ifndef KVR_CORE_HOSTMEM_H
#define KVR_CORE_HOSTMEM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* VmHWM: the most that was resident at one time since the process began or since the last reset.
 * The kernel raises it when pages come, so no spike is too short to be seen. 0: not known. */
int64_t kvr_host_peak_bytes(void);

/* Let the peak begin again at what is resident now. False: the kernel does not offer that. */
bool kvr_host_peak_reset(void);

/* How many processes the kernel has killed for want of memory: on this host, and in the control
 * group of this process. Two counts that differ say that one of them was killed in between. */
int64_t kvr_host_oom_kills(void);

/* Processor time that the whole host has spent working since it started, all CPUs together. 0: not
 * known. */
int64_t kvr_host_busy_ns(void);
/* Of that, what a hypervisor gave to others while this host had work. */
int64_t kvr_host_stolen_ns(void);

#ifdef __cplusplus
}
#endif
#endif
