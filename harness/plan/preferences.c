/* preferences.c - reads preferences from several files and the environment. A later source replaces
 * the values of an earlier source. */
#include "harness/plan/preferences.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { TEXT, NUMBER, SECONDS, FLAG };

static const struct {
    const char *key, *variable;
    enum kind kind;
    int lo, hi;
    const char *def; /* default; NULL: a key of sweeps, which has its own default */
} known[KVR_N_PREFS] = {
    [KVR_PREF_DB] = { "db", "KVREEL_DB", TEXT, 0, 0, NULL },
    [KVR_PREF_OUT] = { "out", "KVREEL_OUT", TEXT, 0, 0, NULL },
    [KVR_PREF_TIMEOUT_S] = { "timeout_s", "KVREEL_TIMEOUT_S", SECONDS, 1, 604800, NULL },
    [KVR_PREF_MEMORY_MIB] = { "memory_mib", "KVREEL_MEMORY_MIB", NUMBER, 0, 1 << 30, NULL },
    [KVR_PREF_JOBS] = { "jobs", "KVREEL_JOBS", NUMBER, 0, 1024, "0" },
    [KVR_PREF_QUIET] = { "quiet", "KVREEL_QUIET", FLAG, 0, 1, "false" },
};

static enum kvr_status take(struct kvr_preferences *s, int i, const struct kvr_yaml_node *n,
                            enum kvr_preference_rank rank)
{
    const char *text;
    char *copy, *from;
    long long number = 0;
    bool flag;

    if (known[i].kind == TEXT) {
        KVR_TRY(kvr_yaml_string(n, &text));
        if (!text[0])
            return kvr_yaml_fail(n, "%s is empty, need a path", known[i].key);
    } else if (known[i].kind == NUMBER) {
        KVR_TRY(kvr_yaml_int(n, known[i].lo, known[i].hi, &number));
    } else if (known[i].kind == SECONDS) {
        KVR_TRY(kvr_yaml_seconds(n, known[i].lo, known[i].hi, &number));
    } else {
        KVR_TRY(kvr_yaml_bool(n, &flag));
        number = flag;
    }
    copy = strdup(n->text);
    from = strdup(n->file);
    if (!copy || !from) {
        free(copy);
        free(from);
        return kvr_fail(KVR_ENOMEM, "preferences: out of memory");
    }
    free(s->v[i].text);
    free(s->v[i].from);
    s->v[i].rank = rank;
    s->v[i].text = copy;
    s->v[i].from = from;
    s->v[i].line = n->line;
    s->v[i].column = n->column;
    s->v[i].number = number;
    return KVR_OK;
}

static enum kvr_status read_keys(struct kvr_preferences *s, const struct kvr_yaml_node *root)
{
    const char *keys[KVR_N_PREFS + 1] = { NULL };

    if (!root) /* an empty file sets no preference */
        return KVR_OK;
    for (int i = 0; i < KVR_N_PREFS; i++)
        keys[i] = known[i].key;
    KVR_TRY(kvr_yaml_keys(root, keys));
    for (int i = 0; i < KVR_N_PREFS; i++) {
        const struct kvr_yaml_node *n = kvr_yaml_get(root, known[i].key);

        if (n)
            KVR_TRY(take(s, i, n, KVR_RANK_FILE));
    }
    return KVR_OK;
}

/* Reads the preferences in the file `folder` + `rest`. A missing or inaccessible file is
 * ignored. */
static enum kvr_status read_file(struct kvr_preferences *s, const char *folder, const char *rest)
{
    char path[PATH_MAX];
    struct kvr_yaml *doc;
    enum kvr_status st;

    if ((size_t)snprintf(path, sizeof path, "%s%s", folder, rest) >= sizeof path)
        return kvr_fail(KVR_EINVAL, "preferences: the path %.100s...%s has more than %d characters",
                        folder, rest, PATH_MAX - 1);
    if (access(path, F_OK) != 0)
        return KVR_OK;
    KVR_TRY(kvr_yaml_read(&doc, path));
    st = read_keys(s, kvr_yaml_root(doc));
    kvr_yaml_close(&doc);
    return st;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static enum kvr_status read_files(struct kvr_preferences *s)
{
    const char *etc = variable("KVREEL_ETC"), *xdg = variable("XDG_CONFIG_HOME"),
               *home = variable("HOME");

    KVR_TRY(read_file(s, etc ? etc : "/etc/kvreel", "/config.yaml"));
    if (xdg && xdg[0] == '/') /* the XDG specification requires that relative paths are ignored */
        KVR_TRY(read_file(s, xdg, "/kvreel/config.yaml"));
    else if (home)
        KVR_TRY(read_file(s, home, "/.config/kvreel/config.yaml"));
    return read_file(s, "", "kvreel.yaml");
}

static enum kvr_status read_environment(struct kvr_preferences *s)
{
    for (int i = 0; i < KVR_N_PREFS; i++) {
        const char *value = variable(known[i].variable);
        const struct kvr_yaml_node n = { .kind = KVR_YAML_SCALAR,
                                         .file = known[i].variable,
                                         .text = value,
                                         .quoted = known[i].kind == TEXT };

        if (value)
            KVR_TRY(take(s, i, &n, KVR_RANK_ENVIRONMENT));
    }
    return KVR_OK;
}

enum kvr_status kvr_preferences_read(struct kvr_preferences *s)
{
    enum kvr_status st;

    memset(s, 0, sizeof *s);
    st = read_files(s);
    if (st == KVR_OK)
        st = read_environment(s);
    if (st != KVR_OK)
        kvr_preferences_free(s);
    return st;
}

void kvr_preferences_free(struct kvr_preferences *s)
{
    for (int i = 0; i < KVR_N_PREFS; i++) {
        free(s->v[i].text);
        free(s->v[i].from);
    }
    memset(s, 0, sizeof *s);
}

enum kvr_status kvr_preferences_option(struct kvr_preferences *s, enum kvr_preference_key key,
                                       const char *text, const char *option)
{
    const struct kvr_yaml_node n = {
        .kind = KVR_YAML_SCALAR, .file = option, .text = text, .quoted = known[key].kind == TEXT
    };

    return take(s, (int)key, &n, KVR_RANK_OPTION);
}

int kvr_preferences_number(const struct kvr_preferences *s, enum kvr_preference_key key, int def)
{
    return s->v[key].rank == KVR_RANK_NONE ? def : (int)s->v[key].number;
}

enum kvr_status kvr_preferences_apply(const struct kvr_preferences *s,
                                      enum kvr_preference_rank rank, struct kvr_yaml *sweep)
{
    for (int i = 0; i < KVR_N_PREFS; i++) {
        const struct kvr_yaml_node node = { .kind = KVR_YAML_SCALAR,
                                            .file = s->v[i].from,
                                            .line = s->v[i].line,
                                            .column = s->v[i].column,
                                            .text = s->v[i].text,
                                            .quoted = known[i].kind == TEXT };

        if (s->v[i].rank != rank || known[i].def)
            continue;
        if (rank == KVR_RANK_FILE && kvr_yaml_get(kvr_yaml_root(sweep), known[i].key))
            continue;
        KVR_TRY(kvr_yaml_put(sweep, known[i].key, &node));
    }
    return KVR_OK;
}

enum kvr_status kvr_preferences_dump(const struct kvr_preferences *s, FILE *to)
{
    for (int i = 0; i < KVR_N_PREFS; i++) {
        if (!known[i].def)
            continue;
        fprintf(to, "# %s: %s   # ", known[i].key, s->v[i].text ? s->v[i].text : known[i].def);
        if (s->v[i].line)
            fprintf(to, "%s:%d\n", s->v[i].from, s->v[i].line);
        else
            fprintf(to, "%s\n", s->v[i].from ? s->v[i].from : "default");
    }
    return ferror(to)
               ? kvr_fail(KVR_EIO, "preferences: cannot write the preferences to the output stream")
               : KVR_OK;
}
