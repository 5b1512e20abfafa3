/* hostmem.c - reads /proc and control groups. */
#include "harness/core/hostmem.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/procfile.h"

int64_t kvr_host_peak_bytes(void)
{
    struct kvr_procfile f;
    long long kib = 0;
    char line[256];

    kvr_procfile_open(&f, "/proc/self/status");
    while (kvr_procfile_gets(&f, line, sizeof line))
        if (sscanf(line, "VmHWM: %lld", &kib) == 1)
            break;
    kvr_procfile_close(&f);
    return kib * 1024;
}

bool kvr_host_peak_reset(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, "5", 1) == 1; /* resets the peak resident set size (proc(5)) */

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Returns the number after `key` in the line of the file that begins with `key`, or 0 if no line
 * begins with it. */
static int64_t keyed(const char *path, const char *key)
{
    struct kvr_procfile f;
    long long value = 0, v;
    char line[256], word[64];

    kvr_procfile_open(&f, path);
    while (kvr_procfile_gets(&f, line, sizeof line))
        if (sscanf(line, "%63s %lld", word, &v) == 2 && strcmp(word, key) == 0)
            value = v;
    kvr_procfile_close(&f);
    return value;
}

int64_t kvr_host_oom_kills(void)
{
    return keyed("/proc/vmstat", "oom_kill") + keyed("/sys/fs/cgroup/memory.events", "oom_kill");
}

/* Reads the CPU times in the first line of /proc/stat: user, nice, system, idle, iowait, irq,
 * softirq, steal. */
static bool read_stat(long long v[8])
{
    struct kvr_procfile f;
    char line[256];
    int n = 0;

    memset(v, 0, 8 * sizeof *v);
    kvr_procfile_open(&f, "/proc/stat");
    if (kvr_procfile_gets(&f, line, sizeof line))
        n = sscanf(line, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &v[0], &v[1], &v[2], &v[3],
                   &v[4], &v[5], &v[6], &v[7]);
    kvr_procfile_close(&f);
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
