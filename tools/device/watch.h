/* watch.h - a measurement by name, which may be left out and takes no longer than a limit
 * (tools/device/run.sh):
 *
 *     KVR_BENCH_SKIP      names, a line each, that are left out
 *     KVR_BENCH_LIMIT_S   a line "> NAME" on stderr before each; one that takes longer ends the process
 *                         with status 124 */
#ifndef KVR_DEVICE_WATCH_H
#define KVR_DEVICE_WATCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void watch_too_long(int sig)
{
    static const char line[] = "takes too long\n";

    (void)sig;
    _exit(write(STDERR_FILENO, line, sizeof line - 1) < 0 ? 125 : 124);
}

/* false: it is to be left out. Ends the watch of what was measured before. */
static inline bool watch_begin(const char *name)
{
    const char *limit = getenv("KVR_BENCH_LIMIT_S"), *skip = getenv("KVR_BENCH_SKIP");
    const size_t n = strlen(name);

    for (const char *at = skip; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strcspn(at, "\n") == n && !strncmp(at, name, n))
            return false;
    if (limit && *limit) {
        fprintf(stderr, "> %s\n", name);
        signal(SIGALRM, watch_too_long);
        alarm((unsigned)atoi(limit));
    }
    return true;
}

static inline void watch_end(void)
{
    alarm(0);
}

#endif
