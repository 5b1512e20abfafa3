/* machine.c - see machine.h. */
#include "harness/core/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/isa.h"

const char *kvr_cpu_name(char *buf, size_t n)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[512];

    snprintf(buf, n, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(buf, n, "%s", colon + 1 + strspn(colon + 1, " \t"));
        break;
    }
    if (f)
        fclose(f);
    return buf;
}

double kvr_machine_load(void)
{
    double load;

    return getloadavg(&load, 1) == 1 ? load : -1;
}

const char *kvr_machine_text(char *buf, size_t n)
{
    char cpu[128], load[32] = "load unknown";

    if (kvr_machine_load() >= 0)
        snprintf(load, sizeof load, "load %.2f", kvr_machine_load());
    snprintf(buf, n, "%s, kernels %s%s, %s", kvr_cpu_name(cpu, sizeof cpu), kvr_isa_name(kvr_isa()),
             kvr_isa_forced() ? " (forced)" : "", load);
    return buf;
}
