/* gpu_state.c - see gpu_state.h. Reads the state of GPUs by a few functions of NVML. Functions that
 * the installed NVML lacks are skipped. */
#include "harness/device/gpu_state.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/core/library.h"

enum {
    SUCCESS = 0,
    TOO_SMALL = 7,
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
    SENSOR_GPU = 0,
    MAX_PROCESSES = 64
};

typedef struct gpu *gpu_handle;
struct utilization {
    unsigned gpu, memory; /* % of time in which kernels run, and in which memory is accessed */
};

struct kvr_gpu_states {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*text)(int error);
    int (*version)(char *text, unsigned n);
    int (*by_uuid)(const char *uuid, gpu_handle *out);
    int (*clock)(gpu_handle g, int which, unsigned *mhz);
    int (*most_clock)(gpu_handle g, int which, unsigned *mhz);
    int (*temperature)(gpu_handle g, int sensor, unsigned *celsius);
    int (*power)(gpu_handle g, unsigned *milliwatts);
    int (*limit)(gpu_handle g, unsigned *milliwatts);
    int (*reasons)(gpu_handle g, unsigned long long *bits);
    int (*utilization)(gpu_handle g, struct utilization *out);
    int (*processes)(gpu_handle g, unsigned *n, void *list);
    int (*ecc)(gpu_handle g, int *now, int *pending);
};

/* Finds function `name` of NVML, or `other` if NVML lacks it. `to` is the address of a function
 * pointer. It is written through a void **, as the manual of dlsym() recommends. */
static void find(const struct kvr_gpu_states *g, const char *name, const char *other, void *to)
{
    *(void **)to = dlsym(g->library, name);
    if (!*(void **)to && other)
        *(void **)to = dlsym(g->library, other);
}

static void find_all(struct kvr_gpu_states *g)
{
    find(g, "nvmlInit_v2", NULL, &g->init);
    find(g, "nvmlShutdown", NULL, &g->shutdown);
    find(g, "nvmlErrorString", NULL, &g->text);
    find(g, "nvmlSystemGetDriverVersion", NULL, &g->version);
    find(g, "nvmlDeviceGetHandleByUUID", NULL, &g->by_uuid);
    find(g, "nvmlDeviceGetClockInfo", NULL, &g->clock);
    find(g, "nvmlDeviceGetMaxClockInfo", NULL, &g->most_clock);
    find(g, "nvmlDeviceGetTemperature", NULL, &g->temperature);
    find(g, "nvmlDeviceGetPowerUsage", NULL, &g->power);
    find(g, "nvmlDeviceGetEnforcedPowerLimit", NULL, &g->limit);
    find(g, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
         &g->reasons);
    find(g, "nvmlDeviceGetUtilizationRates", NULL, &g->utilization);
    find(g, "nvmlDeviceGetComputeRunningProcesses_v3", NULL, &g->processes);
    find(g, "nvmlDeviceGetEccMode", NULL, &g->ecc);
}

/* Initializes NVML. Returns false, with the reason in `why`, if NVML cannot be used. */
static bool begin(struct kvr_gpu_states *g, const char *name, char *why, size_t n)
{
    char version[80] = "";
    int rc;

    find_all(g);
    if (!g->init || !g->shutdown || !g->by_uuid) {
        snprintf(why, n, "no NVML: library %s has no function %s", name,
                 !g->init       ? "nvmlInit_v2"
                 : !g->shutdown ? "nvmlShutdown"
                                : "nvmlDeviceGetHandleByUUID");
        return false;
    }
    rc = g->init();
    if (rc != SUCCESS) {
        snprintf(why, n, "no NVML: nvmlInit_v2 failed: %s (error %d)",
                 g->text ? g->text(rc) : "no description", rc);
        return false;
    }
    if (g->version && g->version(version, sizeof version) == SUCCESS && version[0])
        snprintf(why, n, "NVML of driver %s", version);
    else
        snprintf(why, n, "NVML");
    return true;
}

enum kvr_status kvr_gpu_states_open(struct kvr_gpu_states **out, char *why, size_t n)
{
    const char *env = getenv("KVREEL_NVML"), *name = env && env[0] ? env : "libnvidia-ml.so.1";
    struct kvr_gpu_states *g = calloc(1, sizeof *g);
    enum kvr_status st;

    *out = NULL;
    st = g ? kvr_library_open(&g->library, name, RTLD_NOW | RTLD_LOCAL)
           : kvr_fail(KVR_ENOMEM, "NVML: out of memory");
    if (st != KVR_OK)
        snprintf(why, n, "no NVML: %s", kvr_error());
    else if (begin(g, name, why, n))
        *out = g;
    if (*out)
        return KVR_OK;
    if (g && g->library)
        dlclose(g->library);
    free(g);
    return st == KVR_ENOMEM ? st : KVR_OK;
}

void kvr_gpu_states_close(struct kvr_gpu_states **g)
{
    if (!*g)
        return;
    (*g)->shutdown();
    dlclose((*g)->library);
    free(*g);
    *g = NULL;
}

static double mhz_of(int (*ask)(gpu_handle g, int which, unsigned *mhz), gpu_handle gpu, int which)
{
    unsigned mhz;

    return ask && ask(gpu, which, &mhz) == SUCCESS ? mhz : NAN;
}

static double watts_of(int (*ask)(gpu_handle g, unsigned *milliwatts), gpu_handle gpu)
{
    unsigned milliwatts;

    return ask && ask(gpu, &milliwatts) == SUCCESS ? milliwatts / 1000.0 : NAN;
}

/* Counts the processes that run compute work on a GPU. For a buffer of size 0, NVML returns only
 * the number of processes. */
static double count_processes(const struct kvr_gpu_states *g, gpu_handle gpu)
{
    unsigned n = 0;
    const int rc = g->processes ? g->processes(gpu, &n, NULL) : -1;

    return rc == SUCCESS || rc == TOO_SMALL ? n : NAN;
}

/* The element that nvmlDeviceGetComputeRunningProcesses_v3() writes: nvmlProcessInfo_t of nvml.h,
 * which this file does not include. */
struct process {
    unsigned pid;
    unsigned long long used_bytes; /* ~0: not available */
    unsigned gpu_instance, compute_instance;
};

bool kvr_gpu_process_bytes(struct kvr_gpu_states *g, const char *uuid, int pid, int64_t *bytes,
                           char *why, size_t n)
{
    struct process list[MAX_PROCESSES] = { 0 };
    unsigned count = MAX_PROCESSES;
    const struct process *own = NULL;
    gpu_handle gpu;
    int rc;

    *bytes = 0;
    if (!g || g->by_uuid(uuid, &gpu) != SUCCESS || !g->processes) {
        snprintf(why, n,
                 g && !g->processes ? "NVML: this driver cannot list the processes of GPU %s"
                                    : "NVML: GPU %s was not found",
                 uuid);
        return false;
    }
    rc = g->processes(gpu, &count, list);
    if (rc != SUCCESS) {
        snprintf(why, n, "NVML: cannot list the processes of GPU %s: %s (error %d)", uuid,
                 g->text ? g->text(rc) : "no description", rc);
        return false;
    }
    for (unsigned i = 0; i < count; i++)
        if (list[i].pid == (unsigned)pid || count == 1)
            own = &list[i];
    if (!own)
        snprintf(why, n, "NVML: process %d is not among the GPU's %u processes", pid, count);
    else if (own->used_bytes == ~0ull)
        snprintf(why, n, "NVML: the driver does not report the memory that each process uses");
    else
        *bytes = (int64_t)own->used_bytes;
    return *bytes > 0;
}

bool kvr_gpu_sample(struct kvr_gpu_states *g, const char *uuid, struct kvr_gpu_state *out)
{
    struct utilization used;
    unsigned long long bits;
    unsigned celsius;
    gpu_handle gpu;
    int now, pending;

    if (!g || g->by_uuid(uuid, &gpu) != SUCCESS)
        return false;
    *out = (struct kvr_gpu_state){
        .mhz = mhz_of(g->clock, gpu, CLOCK_SM),
        .memory_mhz = mhz_of(g->clock, gpu, CLOCK_MEMORY),
        .most_mhz = mhz_of(g->most_clock, gpu, CLOCK_SM),
        .celsius = NAN,
        .watts = watts_of(g->power, gpu),
        .limit_watts = watts_of(g->limit, gpu),
        .busy = NAN,
        .processes = count_processes(g, gpu),
        .ecc = NAN,
    };
    if (g->temperature && g->temperature(gpu, SENSOR_GPU, &celsius) == SUCCESS)
        out->celsius = celsius;
    if (g->utilization && g->utilization(gpu, &used) == SUCCESS)
        out->busy = used.gpu / 100.0;
    if (g->reasons && g->reasons(gpu, &bits) == SUCCESS)
        out->reasons = (unsigned long)bits;
    if (g->ecc && g->ecc(gpu, &now, &pending) == SUCCESS)
        out->ecc = now != 0;
    return true;
}
