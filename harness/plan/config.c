/* config.c - reads the config of a sweep. If reading fails, the config is empty. */
#include "harness/plan/config.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/opts.h"
#include "harness/core/path.h"
#include "harness/plan/find.h"
#include "harness/plan/range.h"
#include "methods/plugin.h"

enum { MAX_LIST = 1000, MAX_OPTIONS = 16, MAX_METHODS = 10000 };

/* Keys of a config. The names of settings are also valid keys. */
static const char *const config_keys[] = { "name",    "question", "model",   "trace",   "plugins",
                                           "suite",   "prompts",  "tags",    "methods", "zip",
                                           "exclude", "include",  "metrics", "db",      "out",
                                           "until",   NULL };

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "config: out of memory");
}

static enum kvr_status list_length(const struct kvr_yaml_node *n, const char *key, int *out)
{
    *out = kvr_yaml_count(n);
    if (*out < 1 || *out > MAX_LIST)
        return kvr_yaml_fail(n, "%s: need a list of 1..%d values, got %d", key, MAX_LIST, *out);
    return KVR_OK;
}

/* --- models ---------------------------------------------------------------------------- */

/* Finds the folder that node `n` names, and stores its path in model `m`. `what` describes what to
 * search for, models or traces. */
static enum kvr_status find_folder(const struct kvr_config *c, const struct kvr_yaml_node *n,
                                   const struct kvr_find *what, struct kvr_config_model *m)
{
    char dir[PATH_MAX];
    const char *text;
    enum kvr_status st;
    size_t len;

    KVR_TRY(kvr_yaml_string(n, &text));
    st = kvr_find_path(what, text, c->path, dir, sizeof dir);
    KVR_TRY(kvr_yaml_fail_from(n, st));
    len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        dir[--len] = 0;
    m->at = n;
    m->dir = strdup(dir);
    return m->dir ? KVR_OK : no_memory();
}

static enum kvr_status read_model(const struct kvr_config *c, const struct kvr_yaml_node *n,
                                  struct kvr_config_model *m)
{
    const char *slash;

    KVR_TRY(find_folder(c, n, &kvr_find_model, m));
    slash = strrchr(m->dir, '/');
    m->name = slash ? slash + 1 : m->dir;
    return KVR_OK;
}

/* --- traces ---------------------------------------------------------------------------- */

/* Fills the fields of a model config that attention needs, from the header of a trace. */
static void describe_attention(struct kvr_model_config *c, const struct kvr_trace_info *i)
{
    *c = (struct kvr_model_config){ .dim = i->layout.n_heads * i->layout.head_dim,
                                    .n_heads = i->layout.n_heads,
                                    .n_kv_heads = i->layout.n_kv_heads,
                                    .n_layers = i->layout.n_layers,
                                    .frames_per_chunk = i->layout.frames_per_chunk,
                                    .n_steps = i->most_passes - 1,
                                    .window_frames = i->window_frames };
}

static enum kvr_status read_trace(struct kvr_config *c, const struct kvr_yaml_node *n,
                                  struct kvr_config_model *m)
{
    const char *base, *dot;
    enum kvr_status st;

    KVR_TRY(find_folder(c, n, &kvr_find_trace, m));
    st = kvr_trace_open(&m->trace, m->dir);
    KVR_TRY(kvr_yaml_fail_from(n, st));
    base = kvr_path_base(m->dir);
    dot = strstr(base, ".kvtrace");
    snprintf(m->id, sizeof m->id, "%.*s",
             dot && dot > base ? (int)(dot - base) : (int)sizeof m->id - 1, base);
    m->name = kvr_trace_info(m->trace)->model;
    describe_attention(&m->attention, kvr_trace_info(m->trace));
    return KVR_OK;
}

/* Adds trace `i` as a prompt of the suite that contains all traces. Tables can then average over
 * traces as over prompts. */
static enum kvr_status add_prompt(struct kvr_config *c, int i)
{
    const struct kvr_config_model *m = &c->model[i];
    const struct kvr_trace_info *info = kvr_trace_info(m->trace);

    for (int j = 0; j < i; j++)
        if (strcmp(c->model[j].id, m->id) == 0)
            return kvr_yaml_fail(m->at, "trace '%s' is listed twice", m->id);
    c->suite->prompt[i] = (struct kvr_prompt_line){
        .id = m->id, .text = info->text[0] ? info->text : m->id, .index = i, .at = m->at
    };
    c->suite->n_prompts++;
    return KVR_OK;
}

static enum kvr_status read_traces(struct kvr_config *c, const struct kvr_yaml_node *root)
{
    static const char *const others[] = { "model", "suite", "prompts" };
    const struct kvr_yaml_node *n = kvr_yaml_get(root, "trace");
    int count;

    for (int i = 0; i < 3; i++)
        if (kvr_yaml_get(root, others[i]))
            return kvr_yaml_fail(
                kvr_yaml_get(root, others[i]),
                "'%s' cannot be combined with 'trace': a trace has its own model and prompt",
                others[i]);
    KVR_TRY(list_length(n, "trace", &count));
    c->model = calloc((size_t)count, sizeof *c->model);
    c->suite = calloc(1, sizeof *c->suite);
    if (!c->model || !c->suite)
        return no_memory();
    c->n_suites = 1;
    c->suite->name = "traces";
    c->suite->prompt = calloc((size_t)count, sizeof *c->suite->prompt);
    if (!c->suite->prompt)
        return no_memory();
    for (int i = 0; i < count; i++) {
        c->n_models++;
        KVR_TRY(read_trace(c, kvr_yaml_at(n, i), &c->model[i]));
        KVR_TRY(add_prompt(c, i));
    }
    /* A suite needs a nonzero default of `frames`. apply_trace_defaults() replaces it by each
     * trace's own number. */
    c->suite->frames = kvr_trace_info(c->model[0].trace)->n_frames;
    return KVR_OK;
}

static enum kvr_status read_models(struct kvr_config *c, const struct kvr_yaml_node *root)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(root, "model");
    int count;

    if (kvr_yaml_get(root, "trace"))
        return read_traces(c, root);
    if (!n)
        return kvr_yaml_fail(root, "the sweep has no key 'model' (a model, or a list of models)");
    KVR_TRY(list_length(n, "model", &count));
    c->model = calloc((size_t)count, sizeof *c->model);
    if (!c->model)
        return no_memory();
    for (int i = 0; i < count; i++) {
        KVR_TRY(read_model(c, kvr_yaml_at(n, i), &c->model[i]));
        c->n_models++;
        for (int j = 0; j < i; j++)
            if (strcmp(c->model[i].name, c->model[j].name) == 0)
                return kvr_yaml_fail(c->model[i].at, "model '%s' is listed twice",
                                     c->model[i].name);
    }
    return KVR_OK;
}

/* --- plug-ins --------------------------------------------------------------------------- */

/* Finds a file relative to the working directory, or otherwise relative to the config's folder. If
 * it is in neither, the path is returned unchanged. */
static enum kvr_status find_file(const struct kvr_config *c, const struct kvr_yaml_node *n,
                                 char **out)
{
    const char *text;
    char *dir, *sibling;

    KVR_TRY(kvr_yaml_string(n, &text));
    dir = kvr_path_dir(c->path);
    sibling = dir ? kvr_path_join(dir, text) : NULL;
    free(dir);
    if (!sibling)
        return no_memory();
    if (!kvr_path_exists(text) && kvr_path_exists(sibling)) {
        *out = sibling;
        return KVR_OK;
    }
    free(sibling);
    *out = strdup(text);
    return *out ? KVR_OK : no_memory();
}

static enum kvr_status find_plugin(const struct kvr_config *c, const struct kvr_yaml_node *n,
                                   char **out)
{
    KVR_TRY(find_file(c, n, out));
    return kvr_path_exists(*out)
               ? KVR_OK
               : kvr_yaml_fail(n, "plug-in file '%s' not found at %s", n->text, *out);
}

static enum kvr_status read_plugins(struct kvr_config *c, const struct kvr_yaml_node *root)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(root, "plugins");
    int count;

    if (!n)
        return KVR_OK;
    KVR_TRY(list_length(n, "plugins", &count));
    c->plugin = calloc((size_t)count, sizeof *c->plugin);
    if (!c->plugin)
        return no_memory();
    for (int i = 0; i < count; i++) {
        c->plugin[i].at = kvr_yaml_at(n, i);
        c->n_plugins++;
        KVR_TRY(find_plugin(c, c->plugin[i].at, &c->plugin[i].path));
    }
    return KVR_OK;
}

enum kvr_status kvr_config_load_plugins(const struct kvr_config *c)
{
    for (int i = 0; i < c->n_plugins; i++)
        KVR_TRY(kvr_yaml_fail_from(c->plugin[i].at, kvr_plugin_load(c->plugin[i].path)));
    return KVR_OK;
}

/* --- suites and prompts ----------------------------------------------------------------- */

static enum kvr_status pick_by_id(struct kvr_config_suite *s, const struct kvr_yaml_node *n,
                                  struct kvr_prompt_line *out)
{
    const char *id;

    KVR_TRY(kvr_yaml_string(n, &id));
    for (int i = 0; i < s->suite.n_prompts; i++)
        if (strcmp(s->suite.prompt[i].id, id) == 0) {
            *out = s->suite.prompt[i];
            return KVR_OK;
        }
    return kvr_yaml_fail(n, "suite '%s' has no prompt '%s'; it has %d prompts, '%s' to '%s'",
                         s->name, id, s->suite.n_prompts, s->suite.prompt[0].id,
                         s->suite.prompt[s->suite.n_prompts - 1].id);
}

/* `pick` selects prompts of the suite: NULL for all, a number for the first prompts, a list for the
 * prompts with these ids. */
static enum kvr_status pick_prompts(struct kvr_config_suite *s, const struct kvr_yaml_node *pick)
{
    int all = s->suite.n_prompts;
    long long n = all;

    if (pick && pick->kind == KVR_YAML_MAP)
        return kvr_yaml_fail(
            pick, "prompts: need a number of prompts or a list of prompt ids, found a map");
    if (pick && pick->kind == KVR_YAML_SCALAR)
        KVR_TRY(kvr_yaml_int(pick, 1, all, &n));
    if (pick && pick->kind == KVR_YAML_LIST) {
        int count;

        KVR_TRY(list_length(pick, "prompts", &count));
        n = count;
    }
    s->prompt = calloc((size_t)n, sizeof *s->prompt);
    if (!s->prompt)
        return no_memory();
    for (int i = 0; i < n; i++) {
        if (!pick || pick->kind == KVR_YAML_SCALAR) {
            s->prompt[i] = s->suite.prompt[i];
            continue;
        }
        KVR_TRY(pick_by_id(s, pick->item[i], &s->prompt[i]));
        for (int j = 0; j < i; j++)
            if (s->prompt[i].index == s->prompt[j].index)
                return kvr_yaml_fail(pick->item[i], "prompt '%s' is listed twice", s->prompt[i].id);
    }
    s->n_prompts = (int)n;
    return KVR_OK;
}

/* Copies a path into the memory of the YAML document. If the file exists, the copy is its absolute
 * path with symbolic links resolved, which does not depend on the working directory. */
static enum kvr_status keep_path(const struct kvr_config *c, const struct kvr_yaml_node *n,
                                 const char **out)
{
    /* realpath() writes to `real` instead of allocating memory */
    char real[PATH_MAX], *found = NULL, *copy;
    const char *resolved;

    KVR_TRY(find_file(c, n, &found));
    resolved = realpath(found, real);
    copy = kvr_yaml_alloc(c->doc, strlen(resolved ? resolved : found) + 1);
    if (copy)
        strcpy(copy, resolved ? resolved : found);
    free(found);
    *out = copy;
    return copy ? KVR_OK : no_memory();
}

/* Reads a suite whose prompts are the lines of a text file, given as {suite: NAME, file: TEXT,
 * prompts: 10, embeddings: PACK}. */
static enum kvr_status read_list(const struct kvr_config *c, const struct kvr_yaml_node *n,
                                 const struct kvr_yaml_node *pick, struct kvr_config_suite *s)
{
    const struct kvr_yaml_node *file = kvr_yaml_get(n, "file"), *e = kvr_yaml_get(n, "embeddings");
    struct kvr_suite_list list = { 0 };
    long long count = 0;

    KVR_TRY(kvr_yaml_string(kvr_yaml_get(n, "suite"), &list.name));
    KVR_TRY(keep_path(c, file, &list.path));
    if (e)
        KVR_TRY(keep_path(c, e, &list.embeddings));
    if (e && !kvr_path_exists(list.embeddings))
        return kvr_yaml_fail(e, "embeddings file '%s' not found at %s", e->text, list.embeddings);
    if (pick && pick->kind == KVR_YAML_SCALAR)
        KVR_TRY(kvr_yaml_int(pick, 1, 10000, &count));
    list.n = (int)count;
    KVR_TRY(kvr_yaml_fail_from(file, kvr_suite_read_lines(&s->suite, &list, &s->absent)));
    s->list = list.path;
    s->name = s->suite.name;
    return pick_prompts(s, pick);
}

static enum kvr_status read_suite(const struct kvr_config *c, const struct kvr_yaml_node *n,
                                  const struct kvr_yaml_node *pick, struct kvr_config_suite *s)
{
    static const char *const keys[] = { "suite", "prompts", "file", "embeddings", NULL };
    const struct kvr_yaml_node *name_at = n;
    char path[PATH_MAX];
    const char *name;
    enum kvr_status st;

    if (n->kind == KVR_YAML_MAP) {
        KVR_TRY(kvr_yaml_keys(n, keys));
        name_at = kvr_yaml_get(n, "suite");
        if (!name_at)
            return kvr_yaml_fail(n,
                                 "a suite given as a map needs the key 'suite' (the suite's name)");
        if (kvr_yaml_get(n, "prompts"))
            pick = kvr_yaml_get(n, "prompts");
        if (kvr_yaml_get(n, "file"))
            return read_list(c, n, pick, s);
        if (kvr_yaml_get(n, "embeddings"))
            return kvr_yaml_fail(kvr_yaml_get(n, "embeddings"),
                                 "'embeddings' needs 'file' (a text file of prompts); for the "
                                 "prompts of a suite file, set 'embeddings' in that file");
    }
    KVR_TRY(kvr_yaml_string(name_at, &name));
    st = kvr_find_path(&kvr_find_suite, name, c->path, path, sizeof path);
    KVR_TRY(kvr_yaml_fail_from(name_at, st));
    KVR_TRY(kvr_suite_read(&s->suite, path));
    s->name = s->suite.name;
    s->frames = s->suite.frames;
    s->seed = s->suite.seed;
    return pick_prompts(s, pick);
}

static enum kvr_status read_suites(struct kvr_config *c, const struct kvr_yaml_node *root)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(root, "suite");
    const struct kvr_yaml_node *prompts = kvr_yaml_get(root, "prompts");
    int count, n_own = 0; /* number of suites with their own key `prompts` */

    if (c->n_suites) /* suites exist already if the config lists traces */
        return KVR_OK;
    if (n && prompts && prompts->kind == KVR_YAML_LIST && prompts->n > 0 &&
        prompts->item[0]->kind == KVR_YAML_MAP)
        return kvr_yaml_fail(prompts, "use 'prompts' or 'suite', not both");
    if (!n && !prompts)
        return kvr_yaml_fail(root,
                             "the sweep has neither 'suite' nor 'prompts' (a list of {id, text})");
    if (!n) {
        c->suite = calloc(1, sizeof *c->suite);
        if (!c->suite)
            return no_memory();
        c->n_suites = 1;
        c->suite->name = "inline";
        return kvr_prompts_read(c->doc, prompts, NULL, &c->suite->prompt, &c->suite->n_prompts);
    }
    KVR_TRY(list_length(n, "suite", &count));
    c->suite = calloc((size_t)count, sizeof *c->suite);
    if (!c->suite)
        return no_memory();
    for (int i = 0; i < count; i++) {
        const struct kvr_yaml_node *entry = kvr_yaml_at(n, i);

        c->n_suites++;
        KVR_TRY(read_suite(c, entry, prompts, &c->suite[i]));
        n_own += entry->kind == KVR_YAML_MAP && kvr_yaml_get(entry, "prompts");
        for (int j = 0; j < i; j++)
            if (strcmp(c->suite[i].name, c->suite[j].name) == 0)
                return kvr_yaml_fail(entry, "suite '%s' is listed twice", c->suite[i].name);
    }
    if (prompts && n_own == count)
        return kvr_yaml_fail(prompts, "'prompts' would have no effect: each suite has its own "
                                      "'prompts'; remove one of the two");
    return KVR_OK;
}

/* --- methods ---------------------------------------------------------------------------- */

static enum kvr_status add_method(struct kvr_config *c, const struct kvr_config_method *m)
{
    struct kvr_config_method *bigger;

    if (c->n_methods == MAX_METHODS)
        return kvr_yaml_fail(m->at, "methods: more than the limit of %d methods", MAX_METHODS);
    bigger = realloc(c->method, ((size_t)c->n_methods + 1) * sizeof *bigger);
    if (!bigger)
        return no_memory();
    c->method = bigger;
    c->method[c->n_methods++] = *m;
    return KVR_OK;
}

/* Adds one method for every combination of the listed values of its options. */
static enum kvr_status expand_options(struct kvr_config *c, const struct kvr_config_method *base,
                                      const struct kvr_yaml_node *options)
{
    int digit[MAX_OPTIONS] = { 0 }, size[MAX_OPTIONS], n = options->n, i;
    bool several = false;

    assert(n >= 0 && n <= MAX_OPTIONS);
    for (i = 0; i < n; i++) {
        KVR_TRY(list_length(options->item[i], options->key[i]->text, &size[i]));
        several = several || size[i] > 1;
    }
    do {
        struct kvr_config_method m = *base;
        enum kvr_status st;

        m.n_settings = n;
        m.expanded = several;
        m.setting = calloc((size_t)n + 1, sizeof *m.setting);
        if (!m.setting)
            return no_memory();
        for (i = 0; i < n; i++) {
            st = kvr_yaml_string(kvr_yaml_at(options->item[i], digit[i]), &m.setting[i].value);

            m.setting[i].name = options->key[i]->text;
            if (st != KVR_OK) {
                free(m.setting);
                return st;
            }
        }
        st = add_method(c, &m);
        if (st != KVR_OK) {
            free(m.setting);
            return st;
        }
        for (i = n - 1; i >= 0 && ++digit[i] == size[i]; i--)
            digit[i] = 0;
    } while (i >= 0);
    return KVR_OK;
}

static enum kvr_status read_method(struct kvr_config *c, const struct kvr_yaml_node *n)
{
    static const char *const keys[] = { "method", "options", "label", NULL };
    struct kvr_config_method m = { .at = n };
    const struct kvr_yaml_node *name, *options, *label;

    if (n->kind != KVR_YAML_MAP) {
        KVR_TRY(kvr_yaml_string(n, &m.spec));
        return add_method(c, &m);
    }
    KVR_TRY(kvr_yaml_keys(n, keys));
    name = kvr_yaml_get(n, "method");
    options = kvr_yaml_get(n, "options");
    label = kvr_yaml_get(n, "label");
    if (!name)
        return kvr_yaml_fail(n,
                             "a method given as a map needs the key 'method' (the method's name)");
    KVR_TRY(kvr_yaml_string(name, &m.spec));
    m.at = name;
    if (label)
        KVR_TRY(kvr_yaml_string(label, &m.label));
    if (!options)
        return add_method(c, &m);
    if (options->kind != KVR_YAML_MAP || options->n > MAX_OPTIONS)
        return kvr_yaml_fail(options,
                             "options: need a map of at most %d options, found %s (%d elements)",
                             MAX_OPTIONS, kvr_yaml_kind_name(options), options->n);
    return expand_options(c, &m, options);
}

/* --- groups of methods ------------------------------------------------------------------ */

static bool listed(const struct kvr_config *c, const char *spec)
{
    for (int i = 0; i < c->n_methods; i++)
        if (strcmp(c->method[i].spec, spec) == 0 && c->method[i].n_settings == 0 &&
            !c->method[i].label)
            return true;
    return false;
}

/* Adds a method of a group, with the suffix that the config gives to the group, such as "@study". A
 * method that is already listed is not added. */
static enum kvr_status add_member(struct kvr_config *c, const struct kvr_yaml_node *at,
                                  const char *name, const char *suffix)
{
    struct kvr_config_method m = { .at = at };
    size_t n = strlen(name) + strlen(suffix) + 1;
    char *spec = kvr_yaml_alloc(c->doc, n);

    if (!spec)
        return no_memory();
    snprintf(spec, n, "%s%s", name, suffix);
    m.spec = spec;
    return listed(c, spec) ? KVR_OK : add_method(c, &m);
}

/* Adds the methods of the group `spec`: "study33", "all", a family ("family:RTN" or "RTN") or one
 * of the config's `tags`, with an optional suffix. *found is false if `spec` is not a group. */
static enum kvr_status add_group(struct kvr_config *c, const struct kvr_yaml_node *at,
                                 const char *spec, bool *found)
{
    const struct kvr_yaml_node *tags = kvr_yaml_get(kvr_yaml_root(c->doc), "tags"), *tag;
    const size_t n = strcspn(spec, "@+");
    const struct kvr_method *m;
    const char *member, *suffix = spec + n, *family;
    char name[96];

    snprintf(name, sizeof name, "%.*s", (int)n, spec);
    *found = false;
    if (kvr_method_find(name))
        return KVR_OK;
    tag = kvr_yaml_get(tags, name);
    for (int i = 0; tag && i < kvr_yaml_count(tag); i++) {
        KVR_TRY(kvr_yaml_string(kvr_yaml_at(tag, i), &member));
        KVR_TRY(add_member(c, at, member, suffix));
        *found = true;
    }
    family = strncmp(name, "family:", 7) == 0 ? name + 7 : name;
    for (int i = 0; !tag && (m = kvr_method_at(i)) != NULL; i++) {
        if (!(strcmp(name, "all") == 0 || (strcmp(name, "study33") == 0 && m->study) ||
              strcmp(family, m->family) == 0))
            continue;
        KVR_TRY(add_member(c, at, m->name, suffix));
        *found = true;
    }
    return KVR_OK;
}

static enum kvr_status read_methods(struct kvr_config *c, const struct kvr_yaml_node *root)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(root, "methods");
    int count;

    if (!n)
        return kvr_yaml_fail(root, "the sweep has no key 'methods' (a list of methods)");
    KVR_TRY(list_length(n, "methods", &count));
    for (int i = 0; i < count; i++) {
        const struct kvr_yaml_node *entry = kvr_yaml_at(n, i);
        bool group = false;

        if (entry->kind == KVR_YAML_SCALAR)
            KVR_TRY(add_group(c, entry, entry->text, &group));
        if (!group)
            KVR_TRY(read_method(c, entry));
    }
    return KVR_OK;
}

/* --- metrics ---------------------------------------------------------------------------- */

json_t *kvr_config_metrics_json(const struct kvr_config *c)
{
    json_t *o = json_object();

    for (int i = 0; o && i < c->n_metrics; i++)
        json_object_set_new(o, c->metric[i]->name, json_integer(c->metric[i]->version));
    return o;
}

static enum kvr_status require_metric(const struct kvr_yaml_node *at, const char *name,
                                      const struct kvr_metric **out)
{
    const char *known[64] = { 0 };
    const char *near;

    *out = kvr_metric_find(name);
    if (*out)
        return KVR_OK;
    for (int i = 0; i < 63 && kvr_metrics[i]; i++)
        known[i] = kvr_metrics[i]->name;
    near = kvr_nearest(name, known);
    return kvr_yaml_fail(at, "unknown metric '%s'; %s%s%s", name, near ? "did you mean '" : "",
                         near ? near : "`kvreel list metrics` lists all metrics", near ? "'?" : "");
}

static enum kvr_status read_metric(struct kvr_config *c, const struct kvr_yaml_node *at,
                                   const char *name)
{
    KVR_TRY(require_metric(at, name, &c->metric[c->n_metrics]));
    for (int j = 0; j < c->n_metrics; j++)
        if (c->metric[j] == c->metric[c->n_metrics])
            return kvr_yaml_fail(at, "metric '%s' is listed twice", name);
    c->n_metrics++;
    return KVR_OK;
}

static enum kvr_status read_command(struct kvr_config *c, const struct kvr_yaml_node *at)
{
    if (c->n_commands == KVR_MAX_COMMANDS)
        return kvr_yaml_fail(at, "metrics: more than the limit of %d metric commands",
                             KVR_MAX_COMMANDS);
    KVR_TRY(kvr_config_command_read(at, &c->command[c->n_commands]));
    for (int j = 0; j < c->n_commands; j++)
        if (strcmp(c->command[j].name, c->command[c->n_commands].name) == 0)
            return kvr_yaml_fail(
                at, "two metric commands have the name '%s': give one of them another 'name'",
                c->command[j].name);
    c->n_commands++;
    return KVR_OK;
}

/* Reads the list of metrics. An element is a metric's name, or a map with the command of an
 * external metric. The default is PSNR and SSIM, and no metric for traces, which have no frames. */
static enum kvr_status read_metrics(struct kvr_config *c, const struct kvr_yaml_node *root)
{
    static const char *const def[] = { "psnr", "ssim" };
    const struct kvr_yaml_node *n = kvr_yaml_get(root, "metrics");
    int count = 0;

    if (n)
        KVR_TRY(list_length(n, "metrics", &count));
    c->metric = calloc((size_t)count + 2, sizeof *c->metric);
    c->command = calloc(KVR_MAX_COMMANDS, sizeof *c->command);
    if (!c->metric || !c->command)
        return no_memory();
    for (int i = 0; i < count; i++) {
        const struct kvr_yaml_node *at = kvr_yaml_at(n, i);
        const char *name;

        if (at->kind == KVR_YAML_MAP) {
            KVR_TRY(read_command(c, at));
            continue;
        }
        KVR_TRY(kvr_yaml_string(at, &name));
        KVR_TRY(read_metric(c, at, name));
    }
    for (int i = 0; i < 2 && count == c->n_commands && !c->model[0].trace; i++)
        KVR_TRY(read_metric(c, root, def[i]));
    return KVR_OK;
}

static enum kvr_status read_text(const struct kvr_yaml_node *root, const char *key, const char *def,
                                 const char **out)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(root, key);

    *out = def;
    return n ? kvr_yaml_string(n, out) : KVR_OK;
}

/* "configs/demo.yaml" -> "demo". The name is stored in the memory of c->path, after the path. */
static const char *name_of_file(struct kvr_config *c)
{
    char *copy = c->path + strlen(c->path) + 1;
    const char *slash = strrchr(c->path, '/');
    char *dot;

    strcpy(copy, slash ? slash + 1 : c->path);
    dot = strrchr(copy, '.');
    if (dot && dot != copy)
        *dot = 0;
    return copy;
}

static enum kvr_status check_keys(const struct kvr_yaml_node *root)
{
    enum { N = sizeof config_keys / sizeof *config_keys - 1 };
    const char *keys[N + KVR_N_SETTINGS + 1] = { NULL };

    for (int i = 0; i < N; i++)
        keys[i] = config_keys[i];
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        keys[N + i] = kvr_setting_rows[i].name;
    return kvr_yaml_keys(root, keys);
}

static enum kvr_status read_settings(struct kvr_config *c, const struct kvr_yaml_node *root)
{
    KVR_TRY(kvr_setting_values_read(c->values, root));
    KVR_TRY(kvr_zip_read(&c->zip, c->values, root));
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        kvr_setting_choose(&c->set, (enum kvr_setting_id)i, &c->values[i], 0);
    if (!c->values[KVR_SET_warmup].is_set) /* by default, timed sweeps run a warm-up */
        c->set.warmup = c->set.timing;
    if (c->set.abba > 0 && !c->set.timing)
        return kvr_yaml_fail(kvr_yaml_get(root, "abba"),
                             "'abba: %d' (blocks of paired rollouts) needs 'timing: true'",
                             c->set.abba);
    return KVR_OK;
}

static bool has_metric(const struct kvr_config *c, const char *name)
{
    for (int i = 0; i < c->n_metrics; i++) {
        assert(c->metric[i]); /* guaranteed by require_metric() */
        if (strcmp(c->metric[i]->name, name) == 0)
            return true;
    }
    return strcmp(name, "nll") == 0; /* the metric of all cells of language models */
}

/* Reads the metric of `until: decided METRIC`; without METRIC, chooses SSIM, PSNR or NLL. The
 * sweep's metrics must have been read before. */
static enum kvr_status read_decided(struct kvr_config *c, const struct kvr_yaml_node *root)
{
    static const char *const usual[] = { "ssim", "psnr", "nll" };
    const struct kvr_yaml_node *n = kvr_yaml_get(root, "until");
    const struct kvr_metric *m;
    int i = 0;

    if (!c->decide[0])
        return KVR_OK;
    c->decide += strlen("decided");
    c->decide += strspn(c->decide, " ");
    while (!c->decide[0] && !has_metric(c, usual[i]))
        i++;
    c->decide = c->decide[0] ? c->decide : usual[i];
    m = kvr_metric_find(c->decide);
    if (!has_metric(c, c->decide) || (m && m->direction == 0))
        return kvr_yaml_fail(n,
                             "'until: decided %s': need one of the sweep's metrics whose better "
                             "direction (higher or lower) is known",
                             c->decide);
    if (c->n_models > 1 || c->model[0].trace)
        return kvr_yaml_fail(
            n, "'until: decided' needs exactly one model with prompts, got %d %s%s", c->n_models,
            c->model[0].trace ? "trace" : "model", c->n_models > 1 ? "s" : "");
    for (i = 0; i < KVR_N_SETTINGS; i++)
        if (c->values[i].n > 1 && i != KVR_SET_seed)
            return kvr_yaml_fail(n,
                                 "'until: decided' needs exactly one value of '%s', not %d values",
                                 kvr_setting_rows[i].name, c->values[i].n);
    return KVR_OK;
}

/* Reads the key `until`, such as "ci_width 1%". */
static enum kvr_status read_until(struct kvr_config *c, const struct kvr_yaml_node *root)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(root, "until");
    const char *text;
    char end, more;

    c->decide = "";
    if (!n)
        return KVR_OK;
    KVR_TRY(kvr_yaml_string(n, &text));
    if (strcmp(text, "decided") == 0 || strncmp(text, "decided ", 8) == 0) {
        c->decide = text;
        return KVR_OK;
    }
    if (sscanf(text, "ci_width %lf%c%c", &c->until, &end, &more) != 2 || end != '%' ||
        !(c->until >= 0.01 && c->until <= 100))
        return kvr_yaml_fail(
            n, "until: '%s': expected 'ci_width N%%' with N from 0.01 to 100, or 'decided METRIC'",
            text);
    c->until /= 100;
    if (!c->set.timing)
        return kvr_yaml_fail(n, "'until: ci_width' needs 'timing: true' in the sweep");
    if (c->set.repeats < 7)
        return kvr_yaml_fail(n, "'until: ci_width' needs 'repeats' of at least 7, not %d",
                             c->set.repeats);
    return KVR_OK;
}

static enum kvr_status read_keys(struct kvr_config *c)
{
    const struct kvr_yaml_node *root = kvr_yaml_root(c->doc);

    if (!root)
        return kvr_fail(KVR_EINVAL,
                        "%s: the config is empty; need at least model, suite and methods", c->path);
    KVR_TRY(check_keys(root));
    KVR_TRY(read_text(root, "name", name_of_file(c), &c->name));
    KVR_TRY(read_text(root, "question", "", &c->question));
    KVR_TRY(read_text(root, "db", "kvreel.db", &c->db));
    KVR_TRY(read_text(root, "out", "out", &c->out));
    KVR_TRY(read_settings(c, root));
    KVR_TRY(read_until(c, root));
    KVR_TRY(read_models(c, root));
    KVR_TRY(read_plugins(c, root));
    KVR_TRY(read_suites(c, root));
    KVR_TRY(read_methods(c, root));
    KVR_TRY(read_metrics(c, root));
    KVR_TRY(read_decided(c, root));
    return kvr_rules_read(&c->rules, root);
}

/* Applies preference files, then environment variables, then command-line overrides. A later layer
 * replaces the values of an earlier layer. */
static enum kvr_status apply_layers(struct kvr_config *c, const struct kvr_preferences *s,
                                    const char *const *overrides)
{
    const struct kvr_yaml_node *root = kvr_yaml_root(c->doc);

    if (!root || root->kind != KVR_YAML_MAP) /* read_keys() reports it */
        s = NULL;
    if (s) {
        KVR_TRY(kvr_preferences_apply(s, KVR_RANK_FILE, c->doc));
        KVR_TRY(kvr_preferences_apply(s, KVR_RANK_ENVIRONMENT, c->doc));
    }
    for (int i = 0; overrides && overrides[i]; i++)
        KVR_TRY(kvr_yaml_override(c->doc, overrides[i]));
    return s ? kvr_preferences_apply(s, KVR_RANK_OPTION, c->doc) : KVR_OK;
}

static enum kvr_status copy_path(struct kvr_config *c, const char *path)
{
    const size_t n = strlen(path) + 1;

    c->path = calloc(2, n); /* the path and, after it, room for the sweep's name */
    if (!c->path)
        return no_memory();
    memcpy(c->path, path, n);
    return KVR_OK;
}

enum kvr_status kvr_config_read_from(struct kvr_config *c, const struct kvr_config_source *s)
{
    enum kvr_status st;

    memset(c, 0, sizeof *c);
    st = s->text ? kvr_yaml_read_text(&c->doc, s->text, s->n_text, s->path)
                 : kvr_yaml_read(&c->doc, s->path);
    if (st == KVR_OK)
        st = copy_path(c, s->path);
    if (st == KVR_OK)
        st = apply_layers(c, s->preferences, s->overrides);
    if (st == KVR_OK)
        st = kvr_ranges_expand(c->doc);
    if (st == KVR_OK)
        st = read_keys(c);
    if (st != KVR_OK)
        kvr_config_free(c);
    return st;
}

enum kvr_status kvr_config_read(struct kvr_config *c, const char *path,
                                const char *const *overrides)
{
    return kvr_config_read_from(
        c, &(struct kvr_config_source){ .path = path, .overrides = overrides });
}

enum kvr_status kvr_config_read_text(struct kvr_config *c, const char *text, const char *path,
                                     const char *const *overrides)
{
    return kvr_config_read_from(
        c, &(struct kvr_config_source){
               .path = path, .text = text, .n_text = strlen(text), .overrides = overrides });
}

void kvr_config_free(struct kvr_config *c)
{
    for (int i = 0; i < c->n_models; i++) {
        kvr_trace_close(&c->model[i].trace);
        free(c->model[i].dir);
    }
    for (int i = 0; i < c->n_suites; i++) {
        free(c->suite[i].prompt);
        kvr_suite_free(&c->suite[i].suite);
    }
    for (int i = 0; i < c->n_methods; i++)
        free(c->method[i].setting);
    for (int i = 0; i < c->n_plugins; i++)
        free(c->plugin[i].path);
    free(c->plugin);
    kvr_rules_free(&c->rules);
    kvr_setting_values_free(c->values);
    free(c->model);
    free(c->suite);
    free(c->method);
    free(c->metric);
    free(c->command);
    free(c->path);
    kvr_yaml_close(&c->doc);
    memset(c, 0, sizeof *c);
}
