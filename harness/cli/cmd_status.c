/* cmd_status.c - `kvreel status`: prints the progress of a database's sweeps, also while they
 * run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/pairs.h"
#include "harness/core/path.h"
#include "harness/report/table/table.h"
#include "harness/settle/decide.h"
#include "harness/store/lock.h"

struct status_opts {
    const char *db;
    bool json;
};

static const char sweeps[] =
    "SELECT name, config, started, coalesce(state, 'unknown'), cells, n_ok, n_failed, "
    "n_unsupported, n_excluded, n_open, n_enough, left_s, coalesce(narrowed, ''), session, "
    "coalesce((SELECT value FROM about a WHERE a.session = s.session AND a.name = 'out'), ''), "
    "(SELECT count(DISTINCT suite || '/' || prompt_id) FROM plan p WHERE p.sweep = s.sweep) "
    "FROM sweeps s ORDER BY at DESC";
enum {
    NAME,
    CONFIG,
    STARTED,
    STATE,
    CELLS,
    OK,
    FAILED,
    UNSUPPORTED,
    EXCLUDED,
    OPEN,
    ENOUGH,
    LEFT,
    NARROWED,
    SESSION,
    OUT,
    PROMPTS
};

static const char running[] =
    "SELECT coalesce(c.method, p.method), p.prompt_id, r.device, "
    "unixepoch('now') - unixepoch(r.started), r.session FROM running r JOIN about a ON a.session = "
    "r.session AND a.name = 'sweep' JOIN plan p ON p.sweep = a.value AND p.cell = r.cell LEFT JOIN "
    "cell c ON c.key = r.cell ORDER BY r.started";

static const char *duration(char buf[32], double s)
{
    if (s < 60)
        snprintf(buf, 32, "%.0f s", s);
    else if (s < 3600)
        snprintf(buf, 32, "%d min %02d s", (int)s / 60, (int)s % 60);
    else
        snprintf(buf, 32, "%.0f h %02d min", floor(s / 3600), (int)fmod(s, 3600) / 60);
    return buf;
}

static int number(const struct kvr_table *t, int row, int column)
{
    return (int)kvr_table_number(t, row, column);
}

/* State of a run; "died" if the database says that it is running, but no process holds the
 * database's lock. */
static const char *state_of(const struct kvr_table *t, int row, bool locked)
{
    const char *state = kvr_table_text(t, row, STATE);

    return strcmp(state, "running") == 0 && !locked ? "died" : state;
}

static json_t *running_json(const struct kvr_table *now, const char *session)
{
    json_t *list = json_array();

    for (int i = 0; i < now->n_rows; i++)
        if (strcmp(kvr_table_text(now, i, 4), session) == 0)
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:s, s:f}", "method", kvr_table_text(now, i, 0),
                                "prompt", kvr_table_text(now, i, 1), "device",
                                kvr_table_text(now, i, 2), "since_s", kvr_table_number(now, i, 3)));
    return list;
}

/* Reads the verdicts on pairs of methods of a sweep with the setting `until: decided`. The pairs
 * are claims in the file NAME.decide.yaml in the sweep's out folder. Sets *out to NULL if the
 * folder has no such file. */
static enum kvr_status read_pairs(const struct kvr_table *t, int row, const char *db, json_t **out)
{
    char *dir = kvr_path_dir(db);
    char *folder = dir ? kvr_path_join(dir, kvr_table_text(t, row, OUT)) : NULL;
    char path[1024];
    enum kvr_status st =
        folder ? kvr_decide_path(folder, kvr_table_text(t, row, NAME), path, sizeof path)
               : kvr_fail(KVR_ENOMEM, "status: out of memory");

    *out = NULL;
    if (st == KVR_OK && kvr_path_exists(path))
        st = kvr_decide_pairs(path, db, number(t, row, PROMPTS), out);
    free(dir);
    free(folder);
    return st;
}

/* Name of a sweep's config. Of a path outside the working folder, the database has only the file
 * name, after the word "(elsewhere)". */
static const char *config_of(const struct kvr_table *t, int row)
{
    static const char elsewhere[] = "(elsewhere)/";
    const char *config = kvr_table_text(t, row, CONFIG);

    return strncmp(config, elsewhere, sizeof elsewhere - 1) == 0 ? config + sizeof elsewhere - 1
                                                                 : config;
}

static json_t *sweep_json(const struct kvr_table *t, int i, const struct kvr_table *now,
                          bool locked, json_t *pairs)
{
    const double left = kvr_table_number(t, i, LEFT);
    const char *state = state_of(t, i, locked);
    const bool runs = strcmp(state, "running") == 0;
    json_t *list = runs ? running_json(now, kvr_table_text(t, i, SESSION)) : json_array();

    return json_pack("{s:o*, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:s, s:o}",
                     "pairs", pairs, "name", kvr_table_text(t, i, NAME), "config", config_of(t, i),
                     "started", kvr_table_text(t, i, STARTED), "state", state, "cells",
                     number(t, i, CELLS), "ok", number(t, i, OK), "failed", number(t, i, FAILED),
                     "unsupported", number(t, i, UNSUPPORTED), "excluded", number(t, i, EXCLUDED),
                     "open", number(t, i, OPEN), "enough", number(t, i, ENOUGH), "left_s",
                     isfinite(left) ? json_real(left) : json_null(), "narrowed",
                     kvr_table_text(t, i, NARROWED), "running", list);
}

static void print_sweep(const json_t *o)
{
    const json_t *left = json_object_get(o, "left_s"), *list = json_object_get(o, "running"), *c;
    const char *narrowed = json_string_value(json_object_get(o, "narrowed"));
    const json_int_t open = json_integer_value(json_object_get(o, "open"));
    static const char *const words[] = { "ok", "failed", "unsupported", "excluded", "open", NULL };
    const char *state = json_string_value(json_object_get(o, "state"));
    char text[32];
    size_t i;

    printf("%s (%s): %s, started %s\n  %lld cells:", json_string_value(json_object_get(o, "name")),
           json_string_value(json_object_get(o, "config")),
           open && strcmp(state, "done") == 0 ? "not all cells finished"
                                              : state, /* run ended, cells missing */
           json_string_value(json_object_get(o, "started")),
           (long long)json_integer_value(json_object_get(o, "cells")));
    for (int k = 0; words[k]; k++)
        printf("%s %lld %s", k ? "," : "",
               (long long)json_integer_value(json_object_get(o, words[k])), words[k]);
    if (json_integer_value(json_object_get(o, "enough")))
        printf(", %lld unnecessary (the config's stop rule `until` is met)",
               (long long)json_integer_value(json_object_get(o, "enough")));
    printf("%s%s\n", narrowed[0] ? "; this run was restricted by " : "", narrowed);
    json_array_foreach(list, i, c)
        printf("  running: prompt %s, method %s%s%s, for %s\n",
               json_string_value(json_object_get(c, "prompt")),
               json_string_value(json_object_get(c, "method")),
               json_string_value(json_object_get(c, "device"))[0] ? " on " : "",
               json_string_value(json_object_get(c, "device")),
               duration(text, json_number_value(json_object_get(c, "since_s"))));
    kvr_cli_print_pairs(json_object_get(o, "pairs"));
    if (open && json_is_real(left))
        printf("  time left: about %s at the current rate\n",
               duration(text, json_real_value(left)));
    else if (open)
        printf("  time left: unknown until a cell finishes\n");
}

static enum kvr_status read_all(const char *db, json_t **out)
{
    struct kvr_table *t = NULL, *now = NULL;
    char who[256];
    bool locked;
    json_t *list = json_array();
    enum kvr_status st = kvr_store_locked(db, &locked, who);

    if (st == KVR_OK)
        st = kvr_table_query(&t, db, sweeps, NULL);
    if (st == KVR_OK)
        st = kvr_table_query(&now, db, running, NULL);
    for (int i = 0; st == KVR_OK && i < t->n_rows; i++) {
        json_t *pairs;

        st = read_pairs(t, i, db, &pairs);
        json_array_append_new(list, sweep_json(t, i, now, locked, pairs));
    }
    kvr_table_close(&t);
    kvr_table_close(&now);
    *out =
        json_pack("{s:o, s:o}", "writer", locked ? json_string(who) : json_null(), "sweeps", list);
    return st;
}

static int run(const struct kvr_call *call)
{
    const struct status_opts *o = call->opts;
    json_t *doc = NULL, *list, *one;
    enum kvr_status st = read_all(o->db, &doc);
    size_t i;
    int code;

    list = json_object_get(doc, "sweeps");
    code = json_array_size(list) ? KVR_EXIT_OK : KVR_EXIT_NOTHING;
    if (st != KVR_OK) {
        json_decref(doc);
        return kvr_cli_fail(st);
    }
    if (o->json)
        return kvr_cli_json(doc, code);
    json_array_foreach(list, i, one) print_sweep(one);
    if (code == KVR_EXIT_NOTHING)
        fprintf(stderr,
                "kvreel: status: database %s has no plan of a sweep (`kvreel run` stores the plan "
                "when it starts)\n",
                o->db);
    json_decref(doc);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct status_opts, db, "db", 0, "FILE", "kvreel.db", "database of the sweeps"),
    KVR_ARG_FLAG(struct status_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_status = {
    .name = "status",
    .summary = "show the progress of a database's sweeps and the estimated time left",
    .usage = "[options]",
    .examples = "  kvreel status --db out/demo/demo.db            # while the sweep runs\n"
                "  kvreel status --db all.db --json | jq .sweeps[].open\n",
    .details =
        "An excluded cell matches a rule of the config. An unsupported cell has settings\n"
        "that its method does not support. An open cell is planned but not finished. A\n"
        "failed cell was tried and has no result.\n"
        "A run has `died` if the database says that it is running, but its process no longer\n"
        "exists.\n",
    .args = args,
    .opts_size = sizeof(struct status_opts),
    .min_words = 0,
    .max_words = 0,
    .run = run,
};
