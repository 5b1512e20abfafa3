/* cmd_fsck.c - `kvreel fsck`: reports the damage of a database and copies the intact rest to a new
 * one. */
#include "harness/cli/cli.h"
#include "harness/core/json.h"
#include "harness/store/check.h"

struct fsck_opts {
    const char *output;
    bool json;
};

static void print(void *ctx, const char *what)
{
    (void)ctx;
    printf("%s\n", what);
}

static void collect(void *ctx, const char *what)
{
    json_array_append_new(ctx, kvr_json_words(what));
}

static int report(const struct fsck_opts *o, const char *db, const struct kvr_check_result *r,
                  json_t *problems)
{
    const int code = r->problems ? KVR_EXIT_TOLERANCE : KVR_EXIT_OK;

    if (o->json)
        return kvr_cli_json(
            json_pack("{s:s, s:b, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:s?, s:O}", "db", db,
                      "checksums", r->checksummed, "problems", r->problems, "cells",
                      (json_int_t)r->cells, "lost_cells", (json_int_t)r->lost_cells, "sessions",
                      (json_int_t)r->sessions, "lost_sessions", (json_int_t)r->lost_sessions,
                      "sweeps", (json_int_t)r->sweeps, "lost_sweeps", (json_int_t)r->lost_sweeps,
                      "saved", o->output[0] ? o->output : NULL, "found", problems),
            code);
    if (!r->checksummed && !r->problems)
        printf("%s: no damage found, but an earlier version of kvreel wrote this database without "
               "checksums; `kvreel merge %s -o NEW.db` copies it to a database with checksums\n",
               db, db);
    else
        printf(
            "%s: %lld cells intact, %lld damaged; %lld sessions (executions of `kvreel run`) "
            "intact, %lld damaged; %lld sweep plans intact, %lld damaged; %d problems found%s%s\n",
            db, (long long)r->cells, (long long)r->lost_cells, (long long)r->sessions,
            (long long)r->lost_sessions, (long long)r->sweeps, (long long)r->lost_sweeps,
            r->problems, o->output[0] ? "; intact rows are in " : "", o->output);
    return code;
}

static int run(const struct kvr_call *call)
{
    const struct fsck_opts *o = call->opts;
    const char *db = call->words[0];
    json_t *problems = json_array();
    kvr_problem_fn *fn = o->json ? collect : print;
    struct kvr_check_result r;
    enum kvr_status st;
    int code;

    if (!problems)
        return kvr_cli_fail(kvr_fail(KVR_ENOMEM, "fsck: out of memory while checking %s", db));
    st = o->output[0] ? kvr_store_rescue(db, o->output, fn, problems, &r)
                      : kvr_store_check(db, fn, problems, &r);
    code = st == KVR_OK ? report(o, db, &r, problems) : kvr_cli_fail(st);
    json_decref(problems);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(
        struct fsck_opts, output, "output", 'o', "FILE", "",
        "new database to which intact rows are copied; without it, the database is only checked"),
    KVR_ARG_FLAG(struct fsck_opts, json, "json", 0,
                 "print the numbers of intact and damaged rows, and the problems, as JSON"),
    { 0 },
};

const struct kvr_command kvr_command_fsck = {
    .name = "fsck",
    .summary = "check a database's checksums, and copy intact rows to a new database",
    .usage = "DB [-o NEW.db]",
    .examples = "  kvreel fsck kvreel.db\n"
                "  kvreel fsck kvreel.db -o saved.db      # save the intact rows\n",
    .details =
        "A cell is one measured method, prompt, seed and set of settings. Every cell has a\n"
        "checksum of its rows in all tables. A session (one execution of `kvreel run`) has a\n"
        "checksum of its metadata, and a sweep has a checksum of its plan.\n"
        "`kvreel merge` and `kvreel report` refuse a database whose rows do not match their\n"
        "checksums. `kvreel fsck` never changes the database that it checks.\n"
        "The exit code is 4 if damage was found.\n",
    .args = args,
    .opts_size = sizeof(struct fsck_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
