/* plugin_check.c - validates the ABI, the names and the functions that a plug-in exports, before
 * the plug-in is registered. */
#include <assert.h>
#include <string.h>

#include "methods/plugin.h"

#define NAME(s) #s,
static const char *const struct_names[] = { KVR_PLUGIN_STRUCTS(NAME) };
static const struct kvr_plugin_sizes sizes = { KVR_PLUGIN_STRUCTS(KVR_PLUGIN_SIZE) };
enum { N_STRUCTS = sizeof struct_names / sizeof *struct_names };
static_assert(sizeof sizes == N_STRUCTS * sizeof(size_t), "one size per struct");

static enum kvr_status check_abi(const struct kvr_plugin *p)
{
    size_t ours[N_STRUCTS], theirs[N_STRUCTS];

    if (p->abi != KVR_PLUGIN_ABI)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "the plug-in was built for ABI %d, but this program has ABI %d: rebuild the plug-in",
            p->abi, KVR_PLUGIN_ABI);
    memcpy(ours, &sizes, sizeof ours);
    memcpy(theirs, &p->sizes, sizeof theirs);
    for (int i = 0; i < N_STRUCTS; i++)
        if (theirs[i] != ours[i])
            return kvr_fail(KVR_EUNSUPPORTED,
                            "struct %s has %zu bytes in the plug-in and %zu in this program: "
                            "rebuild the plug-in",
                            struct_names[i], theirs[i], ours[i]);
    return KVR_OK;
}

/* Checks the name of a stage, policy, method or option: it must not contain the separators of
 * pipelines ('|', '+') and of option lists. */
static enum kvr_status check_name(const char *what, const char *name)
{
    if (!name || !*name)
        return kvr_fail(KVR_EINVAL, "%s has no name; give it a name of 1 to 63 characters", what);
    if (strlen(name) > 63 || strpbrk(name, " \t\n,=|+@()"))
        return kvr_fail(KVR_EINVAL,
                        "%s '%.64s' has %zu characters; need a name of 1 to 63 characters, without "
                        "blanks and ,=|+@()",
                        what, name, strlen(name));
    return KVR_OK;
}

static enum kvr_status check_option(const struct kvr_opt *o, size_t opts_size)
{
    static const size_t size[] = {
        [KVR_OPT_T_INT] = sizeof(int),           [KVR_OPT_T_FLOAT] = sizeof(double),
        [KVR_OPT_T_BOOL] = sizeof(bool),         [KVR_OPT_T_ENUM] = sizeof(int),
        [KVR_OPT_T_STRING] = KVR_OPT_STRING_MAX,
    };

    if (o->type <= KVR_OPT_T_NONE || o->type > KVR_OPT_T_STRING)
        return kvr_fail(
            KVR_EINVAL,
            "option '%s': type %d does not exist, need %d..%d (KVR_OPT_T_INT to KVR_OPT_T_STRING)",
            o->name, (int)o->type, KVR_OPT_T_INT, KVR_OPT_T_STRING);
    if (o->offset > opts_size || size[o->type] > opts_size - o->offset)
        return kvr_fail(KVR_EINVAL,
                        "option '%s': its field of %zu bytes at offset %zu lies outside the "
                        "options struct of %zu bytes",
                        o->name, size[o->type], o->offset, opts_size);
    if (!o->help || (o->type == KVR_OPT_T_ENUM && (!o->names || !o->names[0])) ||
        (o->type == KVR_OPT_T_STRING && !o->def_text))
        return kvr_fail(KVR_EINVAL, "option '%s' has no %s, but needs one", o->name,
                        !o->help                    ? "help text (.help)"
                        : o->type == KVR_OPT_T_ENUM ? "list of choices (.names)"
                                                    : "default (.def_text)");
    return KVR_OK;
}

static enum kvr_status check_part(const char *what, const char *name, const char *title,
                                  const struct kvr_opt *options, size_t opts_size)
{
    enum kvr_status st = check_name(what, name);

    if (st == KVR_OK && !title)
        st = kvr_fail(KVR_EINVAL, "%s '%s' has no title, but needs one (.title)", what, name);
    for (const struct kvr_opt *o = options; st == KVR_OK && o && o->name; o++) {
        st = check_name("option", o->name);
        if (st == KVR_OK)
            st = check_option(o, opts_size);
        if (st != KVR_OK)
            st = kvr_fail_prefix(st, "%s '%s'", what, name);
    }
    return st;
}

static enum kvr_status check_ops(const struct kvr_stage *s, const struct kvr_stage_ops *ops,
                                 const char *device)
{
    if (s->kind == KVR_STAGE_TRANSFORM && !ops->transform)
        return kvr_fail(
            KVR_EINVAL,
            "stage '%s' needs a function transform() for %s, since its kind is KVR_STAGE_TRANSFORM",
            s->name, device);
    if (s->kind != KVR_STAGE_TRANSFORM && (!ops->encode || !ops->decode))
        return kvr_fail(KVR_EINVAL,
                        "stage '%s' needs functions encode() and decode() for %s, since its kind "
                        "is not KVR_STAGE_TRANSFORM",
                        s->name, device);
    return KVR_OK;
}

static enum kvr_status check_stage(const struct kvr_stage *s)
{
    KVR_TRY(check_part("stage", s->name, s->title, s->options, s->opts_size));
    if (strcmp(kvr_stage_name_now(s->name), s->name) != 0)
        return kvr_fail(KVR_EINVAL,
                        "stage '%s': this name is a former name of stage '%s'; choose another name",
                        s->name, kvr_stage_name_now(s->name));
    if (s->kind != KVR_STAGE_TRANSFORM && s->kind != KVR_STAGE_SHIFT &&
        s->kind != KVR_STAGE_EXACT && s->kind != KVR_STAGE_GRID)
        return kvr_fail(KVR_EINVAL,
                        "stage '%s': kind %d does not exist, need %d..%d (KVR_STAGE_TRANSFORM to "
                        "KVR_STAGE_GRID)",
                        s->name, (int)s->kind, KVR_STAGE_TRANSFORM, KVR_STAGE_GRID);
    KVR_TRY(check_ops(s, &s->cpu, "the CPU"));
    if (s->cuda)
        KVR_TRY(check_ops(s, s->cuda, "CUDA"));
    if (!s->layout && s->kind != KVR_STAGE_TRANSFORM)
        return kvr_fail(
            KVR_EINVAL,
            "stage '%s' stores bytes, so it needs a function layout() that returns their format",
            s->name);
    if (!s->table != !s->table_size)
        return kvr_fail(KVR_EINVAL,
                        "stage '%s': the field .table_size is %zu, but the field .table (function "
                        "that writes the table) is %s; set both fields or neither",
                        s->name, s->table_size, s->table ? "set" : "NULL");
    if (!s->noise && s->kind == KVR_STAGE_EXACT)
        return kvr_fail(
            KVR_EINVAL,
            "stage '%s' stores outliers exactly, so it needs a function noise() that lists them",
            s->name);
    return KVR_OK;
}

static enum kvr_status check_tiers(const struct kvr_tiers *t)
{
    KVR_TRY(check_part("tiers", t->name, t->title, t->options, t->opts_size));
    if (t->n_tiers < 1 || t->n_tiers > KVR_MAX_TIERS)
        return kvr_fail(KVR_EINVAL, "tiers '%s' has %d tiers, need 1..%d", t->name, t->n_tiers,
                        KVR_MAX_TIERS);
    for (int i = 0; i < t->n_tiers; i++) {
        const enum kvr_status st = check_name("tier", t->tier_names[i]);

        if (st != KVR_OK)
            return kvr_fail_prefix(st, "tiers '%s': tier_names[%d]", t->name, i);
    }
    if (!t->assign)
        return kvr_fail(KVR_EINVAL, "tiers '%s' have no function assign(), but need one", t->name);
    return KVR_OK;
}

static enum kvr_status check_retention(const struct kvr_retention *r)
{
    KVR_TRY(check_part("retention", r->name, r->title, r->options, r->opts_size));
    if (!r->assign == !r->thin)
        return kvr_fail(KVR_EINVAL, "retention '%s' has %s; define exactly one of these functions",
                        r->name,
                        r->assign ? "both assign() and thin()" : "neither assign() nor thin()");
    return KVR_OK;
}

static enum kvr_status check_method(const struct kvr_method *m)
{
    KVR_TRY(check_name("method", m->name));
    if (!m->family || !m->title || !m->paper || !m->k || !m->v)
        return kvr_fail(KVR_EINVAL,
                        "method '%s' has no %s; family, title, paper, k and v are all required",
                        m->name,
                        !m->family  ? "family"
                        : !m->title ? "title"
                        : !m->paper ? "paper"
                        : !m->k     ? "k"
                                    : "v");
    if (m->study)
        return kvr_fail(KVR_EINVAL,
                        "method '%s' sets the field .study, which only the 33 methods of the study "
                        "may set; remove it",
                        m->name);
    return KVR_OK;
}

/* Calls `check` for each element of the plug-in's list p->list, for example p->stages. The
 * element's name must differ from all registered names of its kind and from the earlier names of
 * the list. */
#define CHECK_LIST(list, what, check, at)                                                          \
    for (int i = 0; p->list && p->list[i]; i++) {                                                  \
        const enum kvr_status st = check(p->list[i]);                                              \
                                                                                                   \
        if (st != KVR_OK && (!p->list[i]->name || !*p->list[i]->name))                             \
            return kvr_fail_prefix(st, "." #list "[%d]", i);                                       \
        if (st != KVR_OK)                                                                          \
            return st;                                                                             \
        for (int j = 0; (at)(j); j++)                                                              \
            if (!strcmp((at)(j)->name, p->list[i]->name))                                          \
                return kvr_fail(KVR_EINVAL, what ": the name '%s' exists already; choose another", \
                                p->list[i]->name);                                                 \
        for (int j = 0; j < i; j++)                                                                \
            if (!strcmp(p->list[j]->name, p->list[i]->name))                                       \
                return kvr_fail(KVR_EINVAL, what " '%s' is listed twice", p->list[i]->name);       \
    }

static enum kvr_status check(const struct kvr_plugin *p)
{
    const struct kvr_loaded_plugin *l;

    KVR_TRY(check_abi(p));
    KVR_TRY(check_name("plug-in", p->name));
    if (!p->version)
        return kvr_fail(KVR_EINVAL, "plug-in '%s' has no version; set its field .version", p->name);
    for (int i = 0; (l = kvr_plugin_at(i)) != NULL; i++)
        if (!strcmp(l->plugin->name, p->name))
            return kvr_fail(KVR_EINVAL,
                            "a plug-in named '%s' is already loaded, from %s; choose another name",
                            p->name, l->path);
    CHECK_LIST(stages, "stage", check_stage, kvr_stage_at)
    CHECK_LIST(tiers, "tiers", check_tiers, kvr_tiers_at)
    CHECK_LIST(retention, "retention", check_retention, kvr_retention_at)
    CHECK_LIST(methods, "method", check_method, kvr_method_at)
    return KVR_OK;
}

enum kvr_status kvr_plugin_check(const struct kvr_plugin *p, const char *path)
{
    enum kvr_status st = check(p);

    return st == KVR_OK ? KVR_OK : kvr_fail_prefix(st, "plug-in %s", path);
}
