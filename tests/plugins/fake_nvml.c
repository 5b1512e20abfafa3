/* fake_nvml.c - replaces NVIDIA's management library (NVML). It is not a kvreel plug-in.
 *
 * It simulates one GPU, "emulated-0". The variable KVR_TEST_GPU sets the GPU's state: "MHZ CELSIUS
 * REASONS BUSY PROCESSES" (clock, temperature, bits of throttle reasons in hexadecimal, utilization
 * in percent, number of processes), or "no driver". The library lacks two functions that kvreel
 * uses, those for the highest clock and the power limit.
 *
 * KVR_TEST_GPU_MEMORY is the calling process's GPU memory in MiB, one number per call: "100 300
 * 900". "other 5 6" reports two other processes with 5 and 6 MiB instead. "hidden" reports the
 * calling process without its memory, as NVML does if it does not know the memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct state {
    unsigned mhz, celsius, busy, processes;
    unsigned long long reasons;
};

static struct state now(void)
{
    const char *value = getenv("KVR_TEST_GPU");
    struct state s = { 1980, 40, 0, 0, 0 };

    if (value)
        sscanf(value, "%u %u %llx %u %u", &s.mhz, &s.celsius, &s.reasons, &s.busy, &s.processes);
    return s;
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
    const char *value = getenv("KVR_TEST_GPU");

    return value && strcmp(value, "no driver") == 0 ? 9 : 0;
}

EXPORT const char *nvmlErrorString(int error);
EXPORT const char *nvmlErrorString(int error)
{
    return error == 9 ? "Driver Not Loaded" : "?";
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned n);
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned n)
{
    snprintf(text, n, "999.1");
    return 0;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void)
{
    return 0;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **out);
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
    *out = NULL;
    return strncmp(uuid, "emulated-", 9) == 0 ? 0 : 6; /* NVML error 6: not found */
}

EXPORT int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *mhz);
EXPORT int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *mhz)
{
    (void)gpu;
    *mhz = which == 1 ? now().mhz : 3201;
    return 0;
}

EXPORT int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *celsius);
EXPORT int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *celsius)
{
    (void)gpu, (void)sensor;
    *celsius = now().celsius;
    return 0;
}

EXPORT int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts);
EXPORT int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts)
{
    (void)gpu;
    *milliwatts = 123456;
    return 0;
}

/* The function's name in NVML versions before it was renamed to ...EventReasons. */
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *bits);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *bits)
{
    (void)gpu;
    *bits = now().reasons;
    return 0;
}

EXPORT int nvmlDeviceGetUtilizationRates(void *gpu, unsigned used[2]);
EXPORT int nvmlDeviceGetUtilizationRates(void *gpu, unsigned used[2])
{
    (void)gpu;
    used[0] = now().busy;
    used[1] = 0;
    return 0;
}

struct process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

/* Returns number n of a text, or its last number if there are fewer, converted from MiB to
 * bytes. */
static unsigned long long number(const char *text, int n)
{
    unsigned long long x = 0;
    char *end;

    for (int i = 0; i <= n; i++) {
        const unsigned long long next = strtoull(text, &end, 10);

        if (end == text)
            break;
        x = next;
        text = end;
    }
    return x << 20;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *n, void *list);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *n, void *list)
{
    const char *value = getenv("KVR_TEST_GPU_MEMORY");
    struct process *to = list;
    static int call;

    (void)gpu;
    if (!list || !value) {
        *n = now().processes;
        return *n ? 7 : 0; /* NVML error 7: the list is too small */
    }
    if (strncmp(value, "other", 5) == 0) {
        to[0] = (struct process){ 1, number(value + 5, 0), 0, 0 };
        to[1] = (struct process){ 2, number(value + 5, 1), 0, 0 };
        *n = 2;
        return 0;
    }
    to[0] = (struct process){ (unsigned)getpid(), number(value, call++), 0, 0 };
    if (strcmp(value, "hidden") == 0)
        to[0].used_bytes = ~0ull;
    *n = 1;
    return 0;
}

EXPORT int nvmlDeviceGetEccMode(void *gpu, int *current, int *pending);
EXPORT int nvmlDeviceGetEccMode(void *gpu, int *current, int *pending)
{
    (void)gpu;
    *current = *pending = 1;
    return 0;
}
