/* cmd_submit_result.c - `kvreel submit-result`: packs one sweep into a file that `report --board`
 * verifies. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/cli/cli.h"
#include "harness/report/page/submission.h"

struct submit_result_opts {
    const char *db, *sweep, *out;
    bool json;
};

static int run(const struct kvr_call *call)
{
    const struct submit_result_opts *o = call->opts;
    struct kvr_submission_result r;
    char path[160];
    enum kvr_status st =
        kvr_submission_write(o->db, o->sweep, o->out ? o->out : "result.kvresult", &r);

    if (st != KVR_OK)
        return kvr_cli_fail(st);
    snprintf(path, sizeof path, "%s", o->out ? o->out : "result.kvresult");
    if (o->json)
        return kvr_cli_json(json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "path", path, "sweep",
                                      r.sweep, "cells", (json_int_t)r.cells, "sessions",
                                      (json_int_t)r.sessions, "bytes", (json_int_t)r.bytes,
                                      "sha256", r.sha256),
                            KVR_EXIT_OK);
    printf("%s: sweep %s, %" PRId64 " cells from %" PRId64
           " runs of `kvreel run`, %.1f MB; SHA-256 of the database: %s\n",
           path, r.sweep, r.cells, r.sessions, (double)r.bytes / 1e6, r.sha256);
    return kvr_cli_wrote(KVR_OK, KVR_EXIT_OK);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct submit_result_opts, db, "db", 0, "FILE", "kvreel.db",
                 "database of the sweep"),
    KVR_ARG_TEXT(struct submit_result_opts, sweep, "sweep", 0, "NAME", NULL,
                 "name or id of the sweep to pack; the default is the only sweep of the database"),
    KVR_ARG_TEXT(struct submit_result_opts, out, "out", 'o', "FILE", NULL,
                 "output file; the default is result.kvresult"),
    KVR_ARG_FLAG(struct submit_result_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_submit_result = {
    .name = "submit-result",
    .summary = "pack one sweep into a file that `kvreel report --board` verifies",
    .usage = "[--db FILE] [--sweep NAME] [-o FILE]",
    .examples = "  kvreel submit-result --db out/demo/demo.db -o demo.kvresult\n"
                "  kvreel report --board board demo.kvresult other.db\n",
    .details =
        "The output file is a tar archive with manifest.json, results.db, environment.json\n"
        "and configs/.\n"
        "The manifest has the size and SHA-256 of each member, and the database's checksums.\n"
        "These checksums detect damage and edits, but they are not a signature.\n",
    .args = args,
    .opts_size = sizeof(struct submit_result_opts),
    .max_words = 0,
    .run = run,
};
