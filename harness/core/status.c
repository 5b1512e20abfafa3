/* status.c - stores the thread's last error message. */
#include "harness/core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The library's thread-local data must stay below 1 KiB (tools/lint/check-library.sh). This data
 * consists of the message and of pointers of the CUDA emulator. */
enum { MESSAGE_MAX = 960 };
static _Thread_local char message[MESSAGE_MAX];

/* The names of these functions are in parentheses, because tools/lint/analyzer.h defines macros
 * with the same names. */
enum kvr_status(kvr_fail)(enum kvr_status st, const char *fmt, ...)
{
    char text[MESSAGE_MAX]; /* separate, since the arguments may point into `message` */
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(message, text, sizeof message);
    return st;
}

enum kvr_status(kvr_fail_prefix)(enum kvr_status st, const char *fmt, ...)
{
    char text[MESSAGE_MAX]; /* separate, since the arguments may point into `message` */
    va_list ap;
    size_t n;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    n = strlen(text);
    for (const char *p = ": "; n < MESSAGE_MAX - 1 && *p; p++)
        text[n++] = *p;
    for (const char *p = message; n < MESSAGE_MAX - 1 && *p; p++)
        text[n++] = *p;
    text[n] = 0;
    memcpy(message, text, sizeof message);
    return st;
}

const char *kvr_error(void)
{
    return message;
}

const char *kvr_status_name(enum kvr_status st)
{
    static const char *const names[KVR_N_STATUS] = {
        "OK",           "EINVAL",    "ENOMEM",       "EIO",       "EFULL",
        "EFORMAT",      "ENOTFOUND", "EUNSUPPORTED", "ESCHEMA",   "EBUSY",
        "EINTERRUPTED", "ENAN",      "ETOLERANCE",   "EINTERNAL", "EDIVERGED",
    };

    return st >= 0 && st < KVR_N_STATUS ? names[st] : "?";
}
