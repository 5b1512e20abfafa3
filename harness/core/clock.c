/* clock.c - the monotonic clock. */
#include "harness/core/clock.h"

#include <time.h>

int64_t kvr_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail, because every Linux has this clock */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
