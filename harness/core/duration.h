/* duration.h - reads durations of options and settings.
 *
 *     if (!kvr_duration_parse("30m", &seconds))   1800
 *         return kvr_fail(KVR_EINVAL, "--budget '%s': need " KVR_DURATION_FORM, text);
 *     ... check that `seconds` is in range ... */
#ifndef KVR_CORE_DURATION_H
#define KVR_CORE_DURATION_H

#include <stdbool.h>

/* Description of the accepted texts for error messages. */
#define KVR_DURATION_FORM                                                                          \
    "a time such as 90s, 30m or 2h, in whole seconds (without a unit: seconds)"

/* Parses a number with the unit s, m or h, or without a unit, which means seconds. Returns false if
 * `text` is none, or if it is not a whole number of seconds. *seconds may be negative or
 * non-finite, so callers check its range. */
bool kvr_duration_parse(const char *text, double *seconds);

#endif
