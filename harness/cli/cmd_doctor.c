/* cmd_doctor.c - `kvreel doctor`: checks whether the machine has what measurements need. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/cli/kernels.h"
#include "harness/cli/libraries.h"
#include "harness/core/isa.h"
#include "harness/core/join.h"
#include "harness/core/machine.h"
#include "harness/core/procfile.h"
#include "harness/device/blaslt.h"
#include "harness/device/cudnn_load.h"
#include "harness/device/gpu_state.h"
#include "harness/files/media/ffmpeg.h"
#include "harness/plan/find.h"

struct doctor_opts {
    bool json;
};

static json_t *check(const char *name, bool ok, const char *found)
{
    return json_pack("{s:s, s:b, s:s}", "name", name, "ok", ok, "found", found);
}

static bool in_path(const char *program)
{
    const char *path = getenv("PATH");
    char file[1024];

    while (path && *path) {
        size_t n = strcspn(path, ":");

        snprintf(file, sizeof file, "%.*s/%s", (int)n, path, program);
        if (access(file, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static json_t *check_program(const char *program, const char *without)
{
    bool there = in_path(program);

    return check(program, there, there ? "installed" : without);
}

/* Keeps the worst error of the checks. A missing component is a valid result; only a check that
 * could not run is an error. */
static void note_worst(enum kvr_status st, enum kvr_status *worst)
{
    if (st == KVR_ENOMEM)
        *worst = st;
}

static json_t *check_models(enum kvr_status *worst)
{
    enum kvr_status st;
    char **names;
    char text[256] = "";
    bool any;

    st = kvr_find_names(&kvr_find_model, NULL, &names);
    note_worst(st, worst);
    if (st != KVR_OK)
        return check("models", false, kvr_error());
    any = names[0] != NULL;
    for (int i = 0; names[i]; i++)
        kvr_join(text, sizeof text, names[i]);
    free(names);
    return check("models", any, any ? text : "none; run from the folder that contains models/");
}

/* Checks that the CPU frequency governor is `performance`: under other governors the clock, and
 * thus timings, vary with load. */
static json_t *check_governor(void)
{
    struct kvr_procfile f;
    char text[128];
    bool ok = true;

    kvr_procfile_open(&f, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if (kvr_procfile_gets(&f, text, sizeof text)) {
        text[strcspn(text, "\n")] = '\0';
        ok = strcmp(text, "performance") == 0;
    } else {
        snprintf(text, sizeof text, "unknown on this system");
    }
    kvr_procfile_close(&f);
    if (!ok)
        strncat(text, "; set it to performance for steady times", sizeof text - strlen(text) - 1);
    return check("cpu governor", ok, text);
}

static json_t *check_cpu(void)
{
    char name[128], text[192];

    snprintf(text, sizeof text, "%s, %ld cores", kvr_cpu_name(name, sizeof name),
             sysconf(_SC_NPROCESSORS_ONLN));
    return check("cpu", true, text);
}

/* Lists the kernel variant in use, and the other usable ones. */
static json_t *check_variants(void)
{
    const char *refused = kvr_isa_refused();
    char usable[128], compiled[128], text[640];

    snprintf(text, sizeof text, "%s, %s; this CPU runs %s; compiled: %s%s%s",
             kvr_isa_name(kvr_isa()),
             kvr_isa_forced() ? "forced by name" : "the fastest variant that this CPU supports",
             kvr_isa_names(usable, sizeof usable, kvr_isa_usable),
             kvr_isa_names(compiled, sizeof compiled, kvr_isa_compiled),
             refused ? "; AMX tiles refused: " : "", refused ? refused : "");
    return check("CPU kernels", true, text);
}

static json_t *check_kernels(void)
{
    char text[192];

    return check("CUDA kernels", true, kvr_kernels_text(text, sizeof text));
}

static json_t *check_device(enum kvr_status *worst)
{
    char text[512];
    const enum kvr_status st = kvr_kernels_device(text, sizeof text);
    const bool ok = st == KVR_OK;

    note_worst(st, worst);
    return check("device", ok, ok ? text : kvr_error());
}

/* Reports which library reads a GPU's clocks and temperature. Timed runs store both and mark times
 * at reduced clocks as noisy. */
static json_t *check_gpu_state(enum kvr_status *worst)
{
    char text[256];
    struct kvr_gpu_states *g;
    json_t *found;

    note_worst(kvr_gpu_states_open(&g, text, sizeof text), worst);
    found = check("GPU state", g != NULL, text);
    kvr_gpu_states_close(&g);
    return found;
}

/* Checks whether an NVIDIA library can be loaded for CUDA devices. If not, the text states that
 * kvreel's own kernels replace it. */
static json_t *check_library(const char *name, enum kvr_status (*find)(char *words, size_t n),
                             enum kvr_status *worst)
{
    char words[64], text[640];
    const enum kvr_status st = find(words, sizeof words);
    const bool ok = st == KVR_OK;

    note_worst(st, worst);
    snprintf(text, sizeof text, ok ? "%s" : "kvreel's own kernels (%s)", ok ? words : kvr_error());
    return check(name, ok || kvr_stream_emulated(), text);
}

/* Checks for FFmpeg's libraries, which read and write videos and images. */
static json_t *check_videos(enum kvr_status *worst)
{
    const struct kvr_ffmpeg *ff;
    const enum kvr_status st = kvr_ffmpeg_open(&ff);
    char text[640];

    note_worst(st, worst);
    if (st != KVR_OK)
        snprintf(text, sizeof text,
                 "unavailable: %s; sweeps then need --set videos=false (no video files)",
                 kvr_error());
    return check("videos", st == KVR_OK, st == KVR_OK ? "FFmpeg's libraries found" : text);
}

/* Checks for cuDNN, whose attention is the speed reference of `kvreel bench` on a GPU; without
 * cuDNN, the reference is kvreel's dense kernel. */
static json_t *check_reference(enum kvr_status *worst)
{
    char words[64], text[640];
    const enum kvr_status st = kvr_cudnn_name(words, sizeof words);
    const bool ok = st == KVR_OK;

    note_worst(st, worst);
    snprintf(text, sizeof text, ok ? "%s" : "kvreel's dense kernel (%s)", ok ? words : kvr_error());
    return check("reference", ok || kvr_stream_emulated(), text);
}

static int run(const struct kvr_call *call)
{
    const struct doctor_opts *o = call->opts;
    json_t *list = json_array();
    enum kvr_status worst = KVR_OK;
    json_t *entry;
    size_t i;

    json_array_append_new(list, check_cpu());
    json_array_append_new(list, check_variants());
    json_array_append_new(list, check_governor());
    json_array_append_new(list, check_kernels());
    json_array_append_new(list, check_device(&worst));
    json_array_append_new(list, check_gpu_state(&worst));
    json_array_append_new(list, check_library("linear layers", kvr_blaslt_find, &worst));
    json_array_append_new(list, check_library("convolutions", kvr_cudnn_name, &worst));
    json_array_append_new(list, check_reference(&worst));
    json_array_append_new(list, check_models(&worst));
    json_array_append_new(list,
                          check("working folder", access(".", W_OK) == 0,
                                access(".", W_OK) == 0
                                    ? "writable"
                                    : "read-only; give --db and --out paths in a writable folder"));
    json_array_append_new(
        list, check_program("gnuplot",
                            "missing: plots are written only as gnuplot scripts and data files"));
    json_array_append_new(list, check_videos(&worst));
    json_array_append_new(list, check_program("ffmpeg", "missing: optional, for viewing videos"));
    if (worst != KVR_OK) {
        json_decref(list);
        return kvr_cli_fail(
            kvr_fail(worst, "doctor: out of memory while building the list of checks"));
    }
    if (o->json)
        return kvr_cli_json(list, KVR_EXIT_OK);
    json_array_foreach(list, i, entry)
    {
        printf("%-5s %-15s %s\n", json_is_true(json_object_get(entry, "ok")) ? "ok" : "note",
               json_string_value(json_object_get(entry, "name")),
               json_string_value(json_object_get(entry, "found")));
    }
    json_decref(list);
    return KVR_EXIT_OK;
}

static const struct kvr_arg args[] = {
    KVR_ARG_FLAG(struct doctor_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_doctor = {
    .name = "doctor",
    .summary = "check what this machine has: CPU, GPU, libraries",
    .usage = "[--json]",
    .examples = "  kvreel doctor\n  kvreel doctor --json\n",
    .args = args,
    .opts_size = sizeof(struct doctor_opts),
    .max_words = 0,
    .run = run,
};
