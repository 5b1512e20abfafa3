/* values.c - names the list of values of each command-line option, and fills the list. */
#include "harness/cli/values.h"

#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/isa.h"
#include "harness/core/join.h"
#include "harness/plan/find.h"
#include "harness/report/plot/curves.h"
#include "harness/report/plot/plot.h"
#include "harness/report/report.h"
#include "harness/store/setting.h"
#include "metrics/metric.h"

static const struct {
    const char *command, *option; /* command "*": every command; option "": positional arguments */
    const char *kind;
} rows[] = {
    { "*", "method", "methods" },      { "*", "against", "methods" },
    { "*", "metric", "metrics" },      { "*", "metrics", "metrics" },
    { "*", "model", "models" },        { "*", "suite", "suites" },
    { "*", "geometry", "geometries" }, { "*", "table", "tables" },
    { "*", "device", "devices" },      { "*", "compute", "compute" },
    { "*", "path", "paths" },          { "*", "cpu", "cpus" },
    { "*", "set", "settings" },        { "*", "retry", "outcomes" },
    { "*", "retries", "repeats" },     { "plot", "format", "pictures" },
    { "*", "format", "formats" },      { "show", "", "methods" },
    { "score", "", "metrics" },        { "plot", "", "figures" },
    { "list", "", "lists" },           { "stats", "", "statistics" },
    { "stats", "unit", "units" },      { "bench", "", "benchmarks" },
    { "reproduce", "", "studies" },    { "completion", "", "shells" },
    { "man", "", "commands" },
};

const char *kvr_values_kind(const char *command, const char *option)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((strcmp(rows[i].command, "*") == 0 || strcmp(rows[i].command, command) == 0) &&
            strcmp(rows[i].option, option) == 0)
            return rows[i].kind;
    return NULL;
}

/* Value lists that no other table of the program contains; each ends with NULL. */
static const struct {
    const char *kind, *words[16];
} fixed[] = {
    { "devices", { "cpu", "cuda", "emulated" } },
    { "compute", { "f32", "bf16" } },
    { "paths", { "staged", "fused", "dense" } },
    { "cpus", { "portable", "avx2", "avxvnni", "avx512", "vnni", "neon" } },
    { "formats", { "txt", "md", "csv", "json", "latex", "jsonl" } },
    { "pictures", { "svg", "png", "pdf" } },
    { "lists", { "methods", "readings", "metrics", "models", "suites" } },
    { "statistics",
      { "paired", "windows", "growth", "distribution", "sensitivity", "timing", "coverage",
        "runs" } },
    { "units", { "prompt", "seed" } },
    { "benchmarks", { "codec", "attention", "gemm", "metrics", "kernels" } },
    { "studies", { "study33", "jensen", "pafu" } },
    { "shells", { "bash", "zsh", "fish" } },
    { "outcomes",
      { "failed", "failed:TIMEOUT", "failed:OOM_HOST", "failed:OOM_DEVICE", "failed:SIGNAL",
        "failed:NAN", "failed:DIVERGED", "failed:INVALID", "failed:ERROR" } },
    { "repeats", { "OOM_HOST:1", "OOM_DEVICE:1", "TIMEOUT:1", "SIGNAL:1", "ERROR:1" } },
};

static enum kvr_status methods(FILE *to)
{
    const struct kvr_method *m;
    char spec[128];

    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++)
        for (int r = 0; kvr_method_spec(m, r, spec, sizeof spec); r++)
            fprintf(to, "%s\n", spec);
    return KVR_OK;
}

static enum kvr_status metrics(FILE *to)
{
    for (const struct kvr_metric *const *m = kvr_metrics; *m; m++)
        fprintf(to, "%s\n", (*m)->name);
    return KVR_OK;
}

static enum kvr_status found(FILE *to, const struct kvr_find *what)
{
    char **names;

    KVR_TRY(kvr_find_names(what, NULL, &names));
    for (int i = 0; names[i]; i++)
        fprintf(to, "%s\n", names[i]);
    free(names);
    return KVR_OK;
}

static enum kvr_status models(FILE *to)
{
    return found(to, &kvr_find_model);
}

static enum kvr_status suites(FILE *to)
{
    return found(to, &kvr_find_suite);
}

static enum kvr_status geometries(FILE *to)
{
    fputs("wan-1.3b\nwan-14b\n", to);
    return models(to);
}

static enum kvr_status tables(FILE *to)
{
    for (const struct kvr_report *r = kvr_reports; r->name; r++)
        fprintf(to, "%s\n", r->name);
    return KVR_OK;
}

static enum kvr_status figures(FILE *to)
{
    for (const struct kvr_plot_spec *p = kvr_plots; p->name; p++)
        fprintf(to, "%s\n", p->name);
    for (const struct kvr_curves_spec *c = kvr_curves; c->name; c++)
        fprintf(to, "%s\n", c->name);
    fputs("claims\n", to);
    return KVR_OK;
}

static enum kvr_status settings(FILE *to)
{
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        fprintf(to, "%s=\n", kvr_setting_rows[i].name);
    return KVR_OK;
}

static enum kvr_status commands(FILE *to)
{
    for (int i = 0; kvr_commands[i]; i++)
        if (!kvr_commands[i]->hidden)
            fprintf(to, "%s\n", kvr_commands[i]->name);
    return KVR_OK;
}

static const struct {
    const char *kind;
    enum kvr_status (*write)(FILE *to);
} writers[] = {
    { "methods", methods },   { "metrics", metrics },   { "models", models },
    { "suites", suites },     { "tables", tables },     { "figures", figures },
    { "settings", settings }, { "commands", commands }, { "geometries", geometries },
};

/* Writes the names of all kinds of values to buf [n], as "methods, metrics, ...". */
static const char *all_kinds(char *buf, size_t n)
{
    buf[0] = 0;
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
        kvr_join(buf, n, writers[i].kind);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        kvr_join(buf, n, fixed[i].kind);
    return buf;
}

enum kvr_status kvr_values_write(const char *kind, FILE *to)
{
    char all[512];

    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
        if (strcmp(writers[i].kind, kind) == 0)
            return writers[i].write(to);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (strcmp(fixed[i].kind, kind) != 0)
            continue;
        for (const char *const *w = fixed[i].words; *w; w++)
            fprintf(to, "%s\n", *w);
        return KVR_OK;
    }
    return kvr_fail(KVR_EINVAL,
                    "completion: '%s' is not a list of completion words, need one of %s", kind,
                    all_kinds(all, sizeof all));
}
