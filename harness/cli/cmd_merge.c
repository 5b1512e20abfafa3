/* cmd_merge.c - `kvreel merge`: joins the databases of shards. */
#include <errno.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/core/path.h"
#include "harness/store/merge.h"

struct merge_opts {
    const char *out;
    bool json, any_card;
};

struct state {
    struct kvr_store *store;
    json_t *shards;
    int merged, failed;
};

/* Returns whether two paths are equal strings or refer to the same file (device and inode). */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;

    return strcmp(a, b) == 0 ||
           (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* Merges one shard. An unreadable shard is reported, and the others are merged. */
static enum kvr_status merge_file(struct state *s, const char *path)
{
    struct kvr_merge m;
    enum kvr_status st = kvr_store_merge(s->store, path, &m);

    if (st == KVR_ENOMEM || st == KVR_EFULL || st == KVR_EBUSY)
        return st;
    s->merged += st == KVR_OK;
    s->failed += st != KVR_OK;
    if (st != KVR_OK)
        fprintf(stderr, "kvreel: %s\n", kvr_error());
    json_array_append_new(
        s->shards,
        st == KVR_OK ? json_pack("{s:s, s:I, s:I, s:I}", "path", path, "cells", (json_int_t)m.cells,
                                 "added", (json_int_t)m.added, "replaced", (json_int_t)m.replaced)
                     : json_pack("{s:s, s:s}", "path", path, "error", kvr_error()));
    return KVR_OK;
}

static int is_database(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');

    return dot && strcmp(dot, ".db") == 0;
}

static enum kvr_status merge_folder(struct state *s, const char *dir, const char *out)
{
    struct dirent **names;
    int n = scandir(dir, &names, is_database, alphasort);
    enum kvr_status st = n < 0 ? kvr_fail(errno == ENOMEM ? KVR_ENOMEM : KVR_EIO, "merge: %s: %s",
                                          dir, strerror(errno))
                               : KVR_OK;

    for (int i = 0; i < n; i++) {
        char *path = kvr_path_join(dir, names[i]->d_name);

        if (st == KVR_OK && !path)
            st = kvr_fail(KVR_ENOMEM, "merge: out of memory while listing folder %s", dir);
        if (st == KVR_OK && !same_file(path, out))
            st = merge_file(s, path);
        free(path);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    return st;
}

static int report(struct state *s, int64_t conflicts, const struct merge_opts *o)
{
    int code = s->failed       ? KVR_EXIT_USAGE
               : s->merged < 1 ? KVR_EXIT_NOTHING
               : conflicts     ? KVR_EXIT_TOLERANCE
                               : KVR_EXIT_OK;
    size_t i;
    json_t *x;

    if (conflicts)
        fprintf(stderr,
                "kvreel: merge: %lld pairs of attempts at the same cell have different frames; "
                "`kvreel query --db %s 'SELECT * FROM conflict'` lists them\n",
                (long long)conflicts, o->out);
    if (s->merged < 1 && s->failed < 1)
        fprintf(stderr,
                "kvreel: merge: the inputs contain no database (*.db) other than the output %s\n",
                o->out);
    if (o->json)
        return kvr_cli_json(json_pack("{s:s, s:O, s:i, s:i, s:I}", "db", o->out, "shards",
                                      s->shards, "merged", s->merged, "failed", s->failed,
                                      "conflicts", (json_int_t)conflicts),
                            code);
    json_array_foreach(s->shards, i, x) if (!json_object_get(x, "error"))
        printf("%s: %lld cells; %lld are new in %s; %lld replace a worse or earlier attempt at the "
               "same cell\n",
               json_string_value(json_object_get(x, "path")),
               (long long)json_integer_value(json_object_get(x, "cells")),
               (long long)json_integer_value(json_object_get(x, "added")), o->out,
               (long long)json_integer_value(json_object_get(x, "replaced")));
    return code;
}

/* Opens the output, but creates no database if there is nothing to merge. */
static enum kvr_status open_for(struct state *s, const struct kvr_call *call, const char *out)
{
    int err = 0; /* of the first input */

    for (int i = 0; i < call->n_words; i++) {
        if (access(call->words[i], F_OK) == 0)
            return kvr_store_open(&s->store, out);
        err = i == 0 ? errno : err;
    }
    return kvr_fail(KVR_ENOTFOUND, "merge: input %s: %s%s", call->words[0], strerror(err),
                    call->n_words > 1 ? "; no other input can be accessed" : "");
}

static int run(const struct kvr_call *call)
{
    const struct merge_opts *o = call->opts;
    struct state s = { .shards = json_array() };
    const bool made = !kvr_path_exists(o->out);
    int64_t conflicts = 0;
    enum kvr_status st = open_for(&s, call, o->out);
    int code;

    if (st == KVR_OK && o->any_card)
        kvr_store_any_card(s.store);
    for (int i = 0; st == KVR_OK && i < call->n_words; i++) {
        const char *w = call->words[i];

        if (same_file(w, o->out))
            st = kvr_fail(
                KVR_EINVAL,
                "merge: %s is both an input and the output (-o %s); remove it from the inputs", w,
                o->out);
        else
            st = kvr_path_is_dir(w) ? merge_folder(&s, w, o->out) : merge_file(&s, w);
    }
    if (st == KVR_OK)
        st = kvr_store_conflicts(s.store, &conflicts);
    kvr_store_close(&s.store);
    if (made && s.merged == 0) /* leave no empty database behind */
        remove(o->out);
    code = st == KVR_OK ? report(&s, conflicts, o) : kvr_cli_fail(st);
    json_decref(s.shards);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct merge_opts, out, "output", 'o', "FILE", "kvreel.db",
                 "target database; it is created if it does not exist"),
    KVR_ARG_FLAG(struct merge_opts, any_card, "any-card", 0,
                 "also merge databases whose cells were timed on different GPU models, which are "
                 "refused otherwise; tables still list each GPU separately"),
    KVR_ARG_FLAG(struct merge_opts, json, "json", 0,
                 "print the numbers of new and replaced cells as JSON, for each input database"),
    { 0 },
};

const struct kvr_command kvr_command_merge = {
    .name = "merge",
    .summary = "merge the databases of a sweep's shards; merging again changes nothing",
    .usage = "SHARD.db|FOLDER ... [-o FILE]",
    .examples = "  kvreel merge out/shards -o kvreel.db           # all *.db of a folder\n"
                "  kvreel merge a.db b.db -o both.db --json\n"
                "  kvreel query --db both.db 'SELECT * FROM conflict'\n",
    .details =
        "A cell is one method, prompt, seed and set of settings. A shard (`kvreel run --shard`)\n"
        "runs some of a sweep's cells and has its own database.\n"
        "If a cell has several attempts, results use an attempt with outcome OK rather than a\n"
        "failed one, and a later attempt rather than an earlier one. All attempts stay in\n"
        "table `attempt`.\n"
        "If attempts at one cell have different frames, the view `conflict` lists them and the\n"
        "exit code is 4. If a file cannot be read, the other files are merged and the exit code\n"
        "is 2.\n",
    .args = args,
    .opts_size = sizeof(struct merge_opts),
    .min_words = 1,
    .max_words = 4096,
    .run = run,
};
