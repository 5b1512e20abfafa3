/* clock.h - monotonic time, and the date in UTC. */
#ifndef KVR_CORE_CLOCK_H
#define KVR_CORE_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nanoseconds of the monotonic clock; only differences are meaningful. */
int64_t kvr_now_ns(void);

enum { KVR_UTC_BYTES = 32 };
/* Writes the current time in UTC, such as "2026-01-31T12:00:00Z". */
void kvr_utc_now(char out[KVR_UTC_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
