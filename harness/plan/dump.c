/* dump.c - writes a config as YAML, one key per line in flow style. */
#include "harness/plan/dump.h"

#include <ctype.h>
#include <string.h>

/* A key that is written before or after the settings. If the config lacks the key, its default
 * `def` is written; if `def` is NULL, the key is omitted. */
struct key {
    const char *key, *def;
};
static const struct key before[] = {
    { "name", NULL },    { "question", NULL }, { "model", NULL },   { "trace", NULL },
    { "plugins", NULL }, { "suite", NULL },    { "prompts", NULL }, { "tags", NULL },
    { "methods", NULL }, { NULL, NULL },
};
static const struct key after[] = {
    { "zip", NULL },   { "exclude", NULL },   { "include", NULL }, { "metrics", NULL },
    { "until", NULL }, { "db", "kvreel.db" }, { "out", "out" },    { NULL, NULL },
};

/* Returns whether a text can be written without quotes. Other texts could be read as another YAML
 * type. */
static bool plain(const struct kvr_yaml_node *n)
{
    if (n->quoted || !n->text[0])
        return false;
    for (const char *s = n->text; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("_-+./@ ", *s))
            return false;
    return n->text[0] != ' ' && n->text[strlen(n->text) - 1] != ' ' && n->text[0] != '-' &&
           n->text[0] != '@';
}

static void write_text(FILE *to, const char *s)
{
    fputc('"', to);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            fprintf(to, "\\x%02x", (unsigned char)*s);
        else
            fputc(*s, to);
    fputc('"', to);
}

static void write_node(FILE *to, const struct kvr_yaml_node *n)
{
    if (n->kind == KVR_YAML_SCALAR) {
        if (plain(n) || n->text[0] == '-')
            fputs(n->text, to);
        else
            write_text(to, n->text);
        return;
    }
    fputc(n->kind == KVR_YAML_LIST ? '[' : '{', to);
    for (int i = 0; i < n->n; i++) {
        if (i)
            fputs(", ", to);
        if (n->kind == KVR_YAML_MAP) {
            write_node(to, n->key[i]);
            fputs(": ", to);
        }
        write_node(to, n->item[i]);
    }
    fputc(n->kind == KVR_YAML_LIST ? ']' : '}', to);
}

static void write_key(FILE *to, const struct kvr_yaml_node *root, const char *key, const char *def)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(root, key);

    if (!n && !def)
        return;
    fprintf(to, "%s: ", key);
    if (!n) {
        fprintf(to, "%s   # default\n", def);
        return;
    }
    write_node(to, n);
    if (n->line)
        fprintf(to, "   # %s:%d\n", n->file, n->line);
    /* Values from the command line or environment have no line number. For an override, n->file is
     * the argument NAME=VALUE of --set; for a preference, the name of the variable or option. */
    else
        fprintf(to, "   # %s\n", strchr(n->file, '=') ? "--set" : n->file);
}

/* Writes a setting. A default that depends on other settings is written as the resulting value. */
static void write_setting(FILE *to, const struct kvr_config *c, enum kvr_setting_id id)
{
    const struct kvr_setting_row *r = &kvr_setting_rows[id];

    if (!c->values[id].is_set && id == KVR_SET_warmup)
        fprintf(to, "warmup: %d   # default: 1 with timing\n", c->set.warmup);
    else if (!c->values[id].is_set && !r->def)
        fprintf(to, "# %s: default of each suite\n", r->name);
    else
        write_key(to, kvr_yaml_root(c->doc), r->name, r->def);
}

static void write_metrics(FILE *to, const struct kvr_config *c)
{
    if (kvr_yaml_get(kvr_yaml_root(c->doc), "metrics"))
        return;
    fprintf(to, "metrics: [");
    for (int i = 0; i < c->n_metrics; i++)
        fprintf(to, "%s%s", i ? ", " : "", c->metric[i]->name);
    fprintf(to, "]   # default\n");
}

enum kvr_status kvr_config_dump(const struct kvr_config *c, FILE *to)
{
    const struct kvr_yaml_node *root = kvr_yaml_root(c->doc);

    if (!kvr_yaml_get(root, "name"))
        fprintf(to, "name: %s   # default: the file's name\n", c->name);
    for (const struct key *k = before; k->key; k++)
        write_key(to, root, k->key, k->def);
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        write_setting(to, c, (enum kvr_setting_id)i);
    for (const struct key *k = after; k->key; k++)
        write_key(to, root, k->key, k->def);
    write_metrics(to, c);
    return ferror(to)
               ? kvr_fail(KVR_EIO, "config: cannot write the resolved config to the output stream")
               : KVR_OK;
}
