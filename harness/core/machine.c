/* machine.c - see machine.h. */
#include "harness/core/machine.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/isa.h"
#include "harness/core/procfile.h"

static const char cpuinfo[] = "/proc/cpuinfo";

/* Copies to out [n] the value after "KEY : " of the first processor in /proc/cpuinfo that has this
 * key. Returns false if no processor has it. */
static bool cpu_field(const char *key, char *out, size_t n)
{
    const size_t len = strlen(key);
    struct kvr_procfile f;
    char line[8192];
    bool found = false;

    kvr_procfile_open(&f, cpuinfo);
    while (!found && kvr_procfile_gets(&f, line, sizeof line)) {
        const char *colon = strchr(line, ':');

        if (!colon || strncmp(line, key, len) != 0 ||
            line + len + strspn(line + len, " \t") != colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, n, "%s", colon + 1 + strspn(colon + 1, " \t"));
        found = true;
    }
    kvr_procfile_close(&f);
    return found;
}

/* Copies to out [n] the value of the /proc/cpuinfo key `x86` or, if it is absent, of the key `arm`.
 * If both are absent, the value is "unknown". */
static void either_field(const char *x86, const char *arm, char *out, size_t n)
{
    if (!cpu_field(x86, out, n) && !cpu_field(arm, out, n))
        snprintf(out, n, "unknown");
}

const char *kvr_cpu_name(char *buf, size_t n)
{
    char name[128], family[32], model[32], stepping[32];

    if (!cpu_field("model name", name, sizeof name))
        snprintf(name, sizeof name, "unknown");
    either_field("cpu family", "CPU implementer", family, sizeof family);
    either_field("model", "CPU part", model, sizeof model);
    either_field("stepping", "CPU revision", stepping, sizeof stepping);
    if (strcmp(family, "unknown") == 0)
        snprintf(buf, n, "%s", name);
    else
        snprintf(buf, n, "%s (%s/%s/%s)", name, family, model, stepping);
    return buf;
}

double kvr_machine_load(void)
{
    double load;

    return getloadavg(&load, 1) == 1 ? load : -1;
}

const char *kvr_machine_text(char *buf, size_t n)
{
    char cpu[256], load[32] = "load unknown";

    if (kvr_machine_load() >= 0)
        snprintf(load, sizeof load, "load average %.2f", kvr_machine_load());
    snprintf(buf, n, "%s, kernels %s%s, %s", kvr_cpu_name(cpu, sizeof cpu), kvr_isa_name(kvr_isa()),
             kvr_isa_forced() ? " (forced)" : "", load);
    return buf;
}

/* --- facts ------------------------------------------------------------------------------ */

/* Copies to out [n] the first line of a file below /sys/devices/system/cpu. Returns false if the
 * file is absent or empty. */
static bool cpu_file(const char *name, char *out, size_t n)
{
    struct kvr_procfile f;
    char path[160];
    bool ok;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/%s", name);
    kvr_procfile_open(&f, path);
    ok = kvr_procfile_gets(&f, out, n);
    kvr_procfile_close(&f);
    if (ok)
        out[strcspn(out, "\n")] = 0;
    return ok && out[0];
}

/* Reports the CPU flags by which kvreel and its libraries select code paths. */
static void report_isa(kvr_fact_fn *fn, void *ctx)
{
    static const char *const isa_flags[] = { "sse4_2",      "avx",         "f16c",     "fma",
                                             "avx2",        "avx512f",     "avx512bw", "avx512vl",
                                             "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile",
                                             "asimd",       "asimddp",     "i8mm",     "bf16",
                                             "sve",         "sve2",        NULL };
    char flags[8192], text[256] = "", *save = NULL;
    size_t n = 0;

    if (!cpu_field("flags", flags, sizeof flags) && !cpu_field("Features", flags, sizeof flags))
        flags[0] = 0;
    for (char *w = strtok_r(flags, " ", &save); w; w = strtok_r(NULL, " ", &save))
        for (int i = 0; isa_flags[i]; i++)
            if (strcmp(w, isa_flags[i]) == 0 && n < sizeof text)
                n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", w);
    fn(ctx, "cpu_isa", text[0] ? text : "unknown");
}

static void report_caches(kvr_fact_fn *fn, void *ctx)
{
    static const char *const names[] = { "cache_l1d", "cache_l1i", "cache_l2", "cache_l3" };
    char text[4][80] = { "unknown", "unknown", "unknown", "unknown" };

    for (int i = 0; i < 8; i++) {
        char file[64], level[16], type[32], size[32], shared[32];
        int at;

        snprintf(file, sizeof file, "cpu0/cache/index%d/level", i);
        if (!cpu_file(file, level, sizeof level))
            break;
        snprintf(file, sizeof file, "cpu0/cache/index%d/type", i);
        if (!cpu_file(file, type, sizeof type))
            continue;
        snprintf(file, sizeof file, "cpu0/cache/index%d/size", i);
        if (!cpu_file(file, size, sizeof size))
            continue;
        snprintf(file, sizeof file, "cpu0/cache/index%d/shared_cpu_list", i);
        if (!cpu_file(file, shared, sizeof shared))
            snprintf(shared, sizeof shared, "?");
        at = level[0] == '1' ? type[0] == 'I' : level[0] - '0';
        if (at >= 0 && at < 4)
            snprintf(text[at], sizeof text[at], "%s of cpus %s", size, shared);
    }
    for (int i = 0; i < 4; i++)
        fn(ctx, names[i], text[i]);
}

/* Reports as `name` the value after "KEY:" in /proc/self/status. */
static void report_allowed(kvr_fact_fn *fn, void *ctx, const char *name, const char *key)
{
    const size_t len = strlen(key);
    struct kvr_procfile f;
    char line[1024], text[1024] = "unknown";

    kvr_procfile_open(&f, "/proc/self/status");
    while (kvr_procfile_gets(&f, line, sizeof line)) {
        if (strncmp(line, key, len) != 0 || line[len] != ':')
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(text, sizeof text, "%s", line + len + 1 + strspn(line + len + 1, " \t"));
    }
    kvr_procfile_close(&f);
    fn(ctx, name, text);
}

/* Whether a list of processor numbers such as "0-3,8" contains a processor of the set `mine`. */
static bool intersects(const char *list, const cpu_set_t *mine)
{
    while (*list) {
        char *end;
        const long first = strtol(list, &end, 10),
                   last = *end == '-' ? strtol(end + 1, &end, 10) : first;

        if (end == list)
            return false;
        for (long i = first; i >= 0 && i <= last && i < CPU_SETSIZE; i++)
            if (CPU_ISSET((size_t)i, mine))
                return true;
        list = end + (*end == ',');
    }
    return false;
}

/* Reports the NUMA nodes of the processors that this process may use. */
static void report_cpu_nodes(kvr_fact_fn *fn, void *ctx)
{
    char text[256] = "";
    cpu_set_t mine;
    size_t n = 0;

    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        CPU_ZERO(&mine);
    for (int i = 0; i < 64 && n < sizeof text; i++) {
        char file[64], list[1024];

        snprintf(file, sizeof file, "../node/node%d/cpulist", i);
        if (cpu_file(file, list, sizeof list) && intersects(list, &mine))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", n ? "," : "", i);
    }
    fn(ctx, "cpu_nodes", text[0] ? text : "unknown");
}

void kvr_machine_facts(kvr_fact_fn *fn, void *ctx)
{
    static const char *const fields[][3] = {
        { "cpu_vendor", "vendor_id", "CPU implementer" },
        { "cpu_family", "cpu family", "CPU architecture" },
        { "cpu_model", "model", "CPU part" },
        { "cpu_stepping", "stepping", "CPU revision" },
        { "cpu_microcode", "microcode", "CPU variant" },
    };
    char text[256];

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        either_field(fields[i][1], fields[i][2], text, sizeof text);
        fn(ctx, fields[i][0], text);
    }
    report_isa(fn, ctx);
    snprintf(text, sizeof text, "%s%s", kvr_isa_name(kvr_isa()),
             kvr_isa_forced() ? " (forced)" : "");
    fn(ctx, "kernels", text);
    report_caches(fn, ctx);
    if (!cpu_file("cpu0/cpufreq/scaling_governor", text, sizeof text))
        snprintf(text, sizeof text, "none: no cpufreq here");
    fn(ctx, "governor", text);
    if (!cpu_file("smt/control", text, sizeof text))
        snprintf(text, sizeof text, "unknown");
    fn(ctx, "smt", text);
    report_allowed(fn, ctx, "cpus", "Cpus_allowed_list");
    report_allowed(fn, ctx, "memory_nodes", "Mems_allowed_list");
    report_cpu_nodes(fn, ctx);
}

double kvr_machine_mhz(void)
{
    struct kvr_procfile f;
    char line[8192];
    double most = 0;

    kvr_procfile_open(&f, cpuinfo);
    while (kvr_procfile_gets(&f, line, sizeof line)) {
        const char *colon = strchr(line, ':');
        const double mhz = colon && strncmp(line, "cpu MHz", 7) == 0 ? strtod(colon + 1, NULL) : 0;

        most = mhz > most ? mhz : most;
    }
    kvr_procfile_close(&f);
    return most;
}
