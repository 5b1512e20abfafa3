/* cmd_version.c - `kvreel version`: prints versions of the program and its libraries. */
#include "harness/cli/cli.h"
#include "harness/cli/kernels.h"
#include "harness/cli/libraries.h"
#include "harness/core/isa.h"
#include "harness/core/machine.h"
#include "harness/core/version.h"

struct version_opts {
    bool json;
};

static json_t *version_json(void)
{
    char cpu[128], kernels[192];

    return json_pack("{s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "version", kvr_version(),
                     "git", kvr_git_hash(), "dirty", kvr_git_dirty(), "compiler", kvr_compiler(),
                     "cflags", kvr_cflags(), "cpu", kvr_cpu_name(cpu, sizeof cpu), "variant",
                     kvr_isa_name(kvr_isa()), "kernels", kvr_kernels_text(kernels, sizeof kernels),
                     "load", kvr_machine_load() >= 0 ? json_real(kvr_machine_load()) : json_null(),
                     "libraries", kvr_libraries_json());
}

static void print_text(const json_t *doc)
{
    const char *key;
    json_t *value;

    printf("kvreel %s, git %s%s\n", kvr_version(), kvr_git_hash(),
           kvr_git_dirty() ? " with uncommitted changes" : "");
    printf("  compiler     %s %s\n", kvr_compiler(), kvr_cflags());
    printf("  cpu          %s\n", json_string_value(json_object_get(doc, "cpu")));
    printf("  CPU kernels  %s%s\n", kvr_isa_name(kvr_isa()),
           kvr_isa_forced() ? ", selected by --cpu or KVREEL_CPU" : "");
    printf("  CUDA kernels %s\n", json_string_value(json_object_get(doc, "kernels")));
    json_object_foreach(json_object_get(doc, "libraries"), key, value)
    {
        printf("  %-12s %s\n", key, json_string_value(value));
    }
}

static int run(const struct kvr_call *call)
{
    const struct version_opts *o = call->opts;

    return kvr_cli_result(version_json(), KVR_EXIT_OK, o->json, print_text);
}

static const struct kvr_arg args[] = {
    KVR_ARG_FLAG(struct version_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_version = {
    .name = "version",
    .summary = "print git hash, compiler, kernels, libraries and CPU",
    .usage = "[--json]",
    .examples = "  kvreel version\n  kvreel --version\n  kvreel version --json\n",
    .args = args,
    .opts_size = sizeof(struct version_opts),
    .max_words = 0,
    .run = run,
};
