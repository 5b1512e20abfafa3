/* clock.c - see clock.h. */
#include "harness/core/clock.h"

#include <time.h>

int64_t kvr_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail, because every Linux has this clock */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void kvr_utc_now(char out[KVR_UTC_BYTES])
{
    const time_t now = time(NULL);
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(out, KVR_UTC_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm);
}
