/* clock.h - time that only moves forward. */
#ifndef KVR_CORE_CLOCK_H
#define KVR_CORE_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nanoseconds of the monotonic clock. Only differences mean something. */
int64_t kvr_now_ns(void);

#ifdef __cplusplus
}
#endif
#endif
