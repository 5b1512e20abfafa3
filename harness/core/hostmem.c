/* hostmem.c - /proc and control groups, read. */
#include "harness/core/hostmem.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int64_t kvr_host_peak_bytes(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    long long kib = 0;
    char line[256];

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

bool kvr_host_peak_reset(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, "5", 1) == 1; /* proc(5): reset the peak resident set size */

    if (fd >= 0)
        close(fd);
    return ok;
}

/* The number behind `key` on a line of its own; 0 when there is none. */
static int64_t keyed(const char *path, const char *key)
{
    FILE *f = fopen(path, "r");
    long long value = 0, v;
    char line[256], word[64];

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%63s %lld", word, &v) == 2 && strcmp(word, key) == 0)
            value = v;
    if (f)
        fclose(f);
    return value;
}

int64_t kvr_host_oom_kills(void)
{
    return keyed("/proc/vmstat", "oom_kill") + keyed("/sys/fs/cgroup/memory.events", "oom_kill");
}

/* user, nice, system, idle, iowait, irq, softirq, steal */
static bool read_stat(long long v[8])
{
    FILE *f = fopen("/proc/stat", "r");
    int n = 0;

    memset(v, 0, 8 * sizeof *v);
    if (f) {
        n = fscanf(f, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &v[0], &v[1], &v[2], &v[3],
                   &v[4], &v[5], &v[6], &v[7]);
        fclose(f);
    }
    return n >= 4;
}

int64_t kvr_host_busy_ns(void)
{
    long long v[8];

    if (!read_stat(v))
        return 0;
    return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) * (1000000000 / sysconf(_SC_CLK_TCK));
}

int64_t kvr_host_stolen_ns(void)
{
    long long v[8];

    return read_stat(v) ? v[7] * (1000000000 / sysconf(_SC_CLK_TCK)) : 0;
}
