/* clock.h - monotonic time. */
#ifndef KVR_CORE_CLOCK_H
#define KVR_CORE_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nanoseconds of the monotonic clock; only differences are meaningful. */
int64_t kvr_now_ns(void);

#ifdef __cplusplus
}
#endif
#endif
