/* watch.h - lets benchmark programs skip measurements by name and limits the time of each
 * measurement. tools/device/run.sh sets the environment variables:
 *
 *     KVR_BENCH_SKIP      names of the measurements to skip, one per line
 *     KVR_BENCH_LIMIT_S   time limit of each measurement in seconds: prints "> NAME" on stderr before
 *                         it, and ends the process with status 124 if it takes longer */
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

/* Returns false if KVR_BENCH_SKIP contains `name`. Otherwise starts the time limit of this
 * measurement, which replaces that of the previous measurement. */
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
