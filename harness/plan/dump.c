/* dump.c - flow YAML on one line per key. */
#include "harness/plan/dump.h"

#include <ctype.h>
#include <string.h>

/* Of keys that the config does not have: what stands for them. NULL: nothing does. */
static const struct {
    const char *key, *def;
} defaults[] = {
    { "name", NULL },         { "question", NULL },    { "model", NULL },
    { "model_layers", NULL }, { "model_steps", NULL }, { "plugins", NULL },
    { "suite", NULL },        { "prompts", NULL },     { "tags", NULL },
    { "methods", NULL },      { "frames", NULL },      { "window", "model" },
    { "sink", "0" },          { "evict", "false" },    { "path", "staged" },
    { "seed", NULL },         { "zip", NULL },         { "exclude", NULL },
    { "include", NULL },      { "kind", "bench" },     { "repeats", "1" },
    { "timing", "false" },    { "warmup", NULL },      { "order_seed", "0" },
    { "threads", "1" },       { "probe_every", "1" },  { "probe_prompts", "0" },
    { "memory_mib", "0" },    { "timeout_s", "600" },  { "metrics", NULL },
    { "db", "kvreel.db" },    { "out", "out" },        { "device", "cpu" },
    { "compute", "f32" },     { "graphs", "false" },
};

/* Words that YAML or this program would read as something else go in quotes. */
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
    else /* an override's "file" is the assignment; else a variable's name, or an option's */
        fprintf(to, "   # %s\n", strchr(n->file, '=') ? "--set" : n->file);
}

/* What a default hangs on is said as it came out. */
static void write_derived(FILE *to, const struct kvr_config *c)
{
    const struct kvr_yaml_node *root = kvr_yaml_root(c->doc);

    if (!kvr_yaml_get(root, "name"))
        fprintf(to, "name: %s   # default: the file's name\n", c->name);
    if (!kvr_yaml_get(root, "warmup"))
        fprintf(to, "warmup: %d   # default: 1 with timing\n", c->warmup);
    if (!kvr_yaml_get(root, "frames"))
        fprintf(to, "# frames: of each suite\n");
    if (!kvr_yaml_get(root, "seed"))
        fprintf(to, "# seed: of each suite\n");
    if (kvr_yaml_get(root, "metrics"))
        return;
    fprintf(to, "metrics: [");
    for (int i = 0; i < c->n_metrics; i++)
        fprintf(to, "%s%s", i ? ", " : "", c->metric[i]->name);
    fprintf(to, "]   # default\n");
}

enum kvr_status kvr_config_dump(const struct kvr_config *c, FILE *to)
{
    const struct kvr_yaml_node *root = kvr_yaml_root(c->doc);

    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        write_key(to, root, defaults[i].key, defaults[i].def);
    for (int i = 0; i < root->n; i++) { /* keys that the table above does not know, if any */
        bool known = false;

        for (size_t k = 0; k < sizeof defaults / sizeof *defaults; k++)
            known = known || strcmp(defaults[k].key, root->key[i]->text) == 0;
        if (!known)
            write_key(to, root, root->key[i]->text, NULL);
    }
    write_derived(to, c);
    return ferror(to) ? kvr_fail(KVR_EIO, "config: it could not be written") : KVR_OK;
}
