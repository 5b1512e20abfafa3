/* cmd_reproduce.c - `kvreel reproduce`: compares published numbers with measured ones. */
#include "harness/cli/cli.h"
#include "harness/report/reproduce/reproduce.h"

struct reproduce_opts {
    const char *db, *format, *quantity;
    bool json, measured;
};

static int run(const struct kvr_call *call)
{
    const struct reproduce_opts *o = call->opts;
    enum kvr_table_format format;
    struct kvr_reproduction r;
    enum kvr_status st = kvr_table_format_parse(o->json ? "json" : o->format, &format);
    int code;

    if (st == KVR_OK)
        st = kvr_reproduce(&r, call->words[0], o->db, o->quantity, o->measured);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    code = r.n[KVR_VERDICT_OUT] ? KVR_EXIT_TOLERANCE : KVR_EXIT_OK;
    code = kvr_cli_wrote(kvr_table_write(r.table, format, stdout), code);
    if (r.n[KVR_VERDICT_OUT])
        fprintf(stderr,
                "kvreel: reproduce: %d values published in %s differ from kvreel's values by more "
                "than the table's tolerance\n",
                r.n[KVR_VERDICT_OUT], call->words[0]);
    kvr_reproduction_free(&r);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(
        struct reproduce_opts, db, "db", 0, "FILE", NULL,
        "database with measured values; without it, only values that kvreel computes without "
        "measuring (compression and peak memory) are compared with the published ones"),
    KVR_ARG_FLAG(struct reproduce_opts, measured, "measured", 0,
                 "for study33: compare only measured values with the published ones, and no values "
                 "that kvreel computes without measuring"),
    KVR_ARG_TEXT(struct reproduce_opts, quantity, "quantity", 0, "NAME", NULL,
                 "compare one quantity (column of the published table) only, such as compression, "
                 "peak_vram_gib or ssim"),
    KVR_ARG_TEXT(struct reproduce_opts, format, "format", 'f', "FORMAT", "txt",
                 "output format: txt, md, csv, json, jsonl or latex"),
    KVR_ARG_FLAG(struct reproduce_opts, json, "json", 0, "print JSON, the same as --format json"),
    { 0 },
};

const struct kvr_command kvr_command_reproduce = {
    .name = "reproduce",
    .summary = "compare published numbers with kvreel's, and give a verdict on each",
    .usage = "study33|jensen|jensen-llm|pafu [options]",
    .examples = "  kvreel reproduce study33 --quantity compression\n"
                "  kvreel reproduce study33 --db out/study33.db --format md\n"
                "  kvreel reproduce study33 --measured --db out/wan-study33.db\n"
                "  kvreel reproduce jensen --db out/corrections.db\n"
                "  kvreel reproduce jensen-llm --db out/partial-prefill.db\n",
    .details =
        "The exit code is 4 if one of kvreel's values differs from the published one by more\n"
        "than the tolerance. Values measured under other conditions than the published ones\n"
        "are not compared; docs/reproduction.md explains the reasons, named H1 to H10.\n",
    .args = args,
    .opts_size = sizeof(struct reproduce_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
