/* cmd_import.c - `kvreel import`: imports scores that another program gave to a sweep's videos. */
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/path.h"
#include "harness/store/vbench.h"

struct import_opts {
    const char *db;
    bool json;
};

static enum kvr_status import(const struct import_opts *o, const char *file,
                              struct kvr_vbench_result *r)
{
    struct kvr_store *s;
    enum kvr_status st;

    if (!kvr_path_exists(o->db))
        return kvr_fail(KVR_ENOTFOUND, "import: --db %s: database not found", o->db);
    KVR_TRY(kvr_store_open(&s, o->db));
    st = kvr_store_vbench(s, file, r);
    kvr_store_close(&s);
    return st;
}

static int run(const struct kvr_call *call)
{
    const struct import_opts *o = call->opts;
    struct kvr_vbench_result r = { 0 };
    const json_t *name;
    enum kvr_status st;
    size_t i;
    int code;

    if (strcmp(call->words[0], "vbench") != 0)
        return kvr_cli_fail(kvr_fail(
            KVR_EINVAL,
            "import: unknown source '%s', need vbench; usage: kvreel import vbench FILE --db DB",
            call->words[0]));
    st = import(o, call->words[1], &r);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    code = r.stored ? KVR_EXIT_OK : KVR_EXIT_NOTHING;
    json_array_foreach(r.unmatched, i, name)
        fprintf(stderr,
                "kvreel: import: %s: no cell matches the video %s by file name, so its scores are "
                "not stored\n",
                o->db, json_string_value(name));
    json_array_foreach(r.empty, i, name) fprintf(
        stderr,
        "kvreel: import: %s: %s: no videos in this VBench dimension, so nothing is stored for it\n",
        call->words[1], json_string_value(name));
    if (o->json)
        return kvr_cli_json(json_pack("{s:i, s:i, s:i, s:i, s:o, s:o}", "dimensions", r.dimensions,
                                      "videos", r.videos, "matched", r.matched, "stored", r.stored,
                                      "unmatched", r.unmatched, "empty", r.empty),
                            code);
    printf("%d VBench dimensions with %d scores of videos; %d of these scores are of videos in "
           "database %s; %d metric values stored\n",
           r.dimensions, r.videos, r.matched, o->db, r.stored);
    kvr_vbench_free(&r);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct import_opts, db, "db", 0, "FILE", "kvreel.db",
                 "database of the sweep that generated the videos"),
    KVR_ARG_FLAG(struct import_opts, json, "json", 0,
                 "print the numbers of imported scores, and the names of videos that the database "
                 "does not have, as JSON"),
    { 0 },
};

const struct kvr_command kvr_command_import = {
    .name = "import",
    .summary = "import VBench scores of a sweep's videos into the sweep's database",
    .usage = "vbench FILE [options]",
    .examples = "  kvreel import vbench evaluation_results/run_eval_results.json --db out/demo.db\n"
                "  kvreel query --db out/demo.db \"SELECT * FROM metric WHERE name LIKE "
                "'vbench.%'\"\n",
    .details = "FILE is a result file of VBench. A cell is one method, prompt, seed and set of\n"
               "settings. Videos are matched with cells by file name. Percentages are stored as\n"
               "fractions; cosine similarities are stored unchanged, in -1..1.\n"
               "The exit code is 5 if no video belongs to a cell.\n",
    .args = args,
    .opts_size = sizeof(struct import_opts),
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
