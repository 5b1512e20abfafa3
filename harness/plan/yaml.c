/* yaml.c - builds a tree of nodes from libyaml's events, and reads typed values from nodes. */
#include "harness/plan/yaml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "harness/core/duration.h"
#include "harness/core/infile.h"
#include "harness/core/join.h"
#include "harness/core/opts.h"

/* Element of a list of all memory blocks of a document. They are freed when the document is
 * closed. */
struct block {
    struct block *next;
};

struct anchor {
    struct anchor *next;
    const char *name;
    struct kvr_yaml_node *node;
    bool open; /* whether the end of the anchored list or map was not yet read */
};

struct kvr_yaml {
    struct block *blocks;
    struct kvr_yaml_node *root;
    char *text;
};

struct builder {
    struct kvr_yaml *doc;
    yaml_parser_t parser;
    const char *file;
    struct anchor *anchors;
};

static void *doc_alloc(struct kvr_yaml *y, size_t n)
{
    struct block *b = calloc(1, sizeof *b + n);

    if (!b)
        return NULL;
    b->next = y->blocks;
    y->blocks = b;
    return b + 1;
}

static char *doc_strdup(struct kvr_yaml *y, const char *s, size_t n)
{
    char *copy = doc_alloc(y, n + 1);

    if (copy)
        memcpy(copy, s, n);
    return copy;
}

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "yaml: out of memory");
}

/* The name is in parentheses, because tools/lint/analyzer.h defines a macro with the same name. */
enum kvr_status(kvr_yaml_fail)(const struct kvr_yaml_node *n, const char *fmt, ...)
{
    char text[768];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n->line == 0) /* nodes of an override have no line number */
        return kvr_fail(KVR_EINVAL, "%s: %s", n->file, text);
    return kvr_fail(KVR_EINVAL, "%s:%d:%d: %s", n->file, n->line, n->column, text);
}

enum kvr_status kvr_yaml_fail_from(const struct kvr_yaml_node *n, enum kvr_status st)
{
    return st == KVR_OK || st == KVR_ENOMEM ? st : kvr_yaml_fail(n, "%s", kvr_error());
}

/* fail_at(b, m, format, ...): fails with a message that begins with the file, line and column. */
#define fail_at(b, m, ...)                                                                         \
    kvr_fail_prefix(kvr_fail(KVR_EINVAL, __VA_ARGS__), "%s:%zu:%zu", (b)->file, (m).line + 1,      \
                    (m).column + 1)

static enum kvr_status next_event(struct builder *b, yaml_event_t *e)
{
    if (yaml_parser_parse(&b->parser, e))
        return KVR_OK;
    if (b->parser.error == YAML_MEMORY_ERROR)
        return no_memory();
    if (b->parser.error == YAML_READER_ERROR)
        return kvr_fail(KVR_EINVAL, "%s: %s at byte %zu", b->file,
                        b->parser.problem ? b->parser.problem : "unreadable",
                        b->parser.problem_offset);
    return fail_at(b, b->parser.problem_mark, "%s",
                   b->parser.problem ? b->parser.problem : "not YAML");
}

static struct kvr_yaml_node *new_node(struct builder *b, enum kvr_yaml_kind kind, yaml_mark_t m)
{
    struct kvr_yaml_node *n = doc_alloc(b->doc, sizeof *n);

    if (!n)
        return NULL;
    n->kind = kind;
    n->file = b->file;
    n->line = (int)m.line + 1;
    n->column = (int)m.column + 1;
    n->weight = 1;
    return n;
}

static enum kvr_status remember(struct builder *b, const yaml_char_t *name, struct kvr_yaml_node *n,
                                bool open, struct anchor **out)
{
    struct anchor *a;

    *out = NULL;
    if (!name)
        return KVR_OK;
    a = doc_alloc(b->doc, sizeof *a);
    if (!a)
        return no_memory();
    a->name = doc_strdup(b->doc, (const char *)name, strlen((const char *)name));
    if (!a->name)
        return no_memory();
    a->node = n;
    a->open = open;
    /* A search starts at the newest anchor, so a later anchor replaces an earlier one with the
     * same name. */
    a->next = b->anchors;
    b->anchors = a;
    *out = a;
    return KVR_OK;
}

static enum kvr_status grow(struct kvr_yaml *y, struct kvr_yaml_node ***v, int n)
{
    struct kvr_yaml_node **bigger;

    if (n & (n - 1)) /* the capacity is the next power of two */
        return KVR_OK;
    bigger = doc_alloc(y, (size_t)(n ? 2 * n : 1) * sizeof **v);
    if (!bigger)
        return no_memory();
    if (n)
        memcpy(bigger, *v, (size_t)n * sizeof **v);
    *v = bigger;
    return KVR_OK;
}

static enum kvr_status add_entry(struct kvr_yaml *y, struct kvr_yaml_node *to,
                                 struct kvr_yaml_node *key, struct kvr_yaml_node *item)
{
    if (to->kind == KVR_YAML_MAP)
        KVR_TRY(grow(y, &to->key, to->n));
    KVR_TRY(grow(y, &to->item, to->n));
    if (to->kind == KVR_YAML_MAP)
        to->key[to->n] = key;
    to->item[to->n++] = item;
    to->weight += item->weight + (key ? 1 : 0);
    if (to->weight > KVR_YAML_MAX_NODES)
        return kvr_yaml_fail(item, "more than the limit of %d values after aliases are expanded",
                             KVR_YAML_MAX_NODES);
    return KVR_OK;
}

static enum kvr_status build(struct builder *b, yaml_event_t *e, int depth,
                             struct kvr_yaml_node **out);

static enum kvr_status build_scalar(struct builder *b, const yaml_event_t *e,
                                    struct kvr_yaml_node **out)
{
    const char *s = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    struct kvr_yaml_node *node;
    struct anchor *a;

    if (e->data.scalar.tag)
        return fail_at(b, e->start_mark, "YAML tag '%.200s' is not supported; remove the tag",
                       (const char *)e->data.scalar.tag);
    if (memchr(s, 0, n))
        return fail_at(b, e->start_mark, "a value contains a NUL character");
    node = new_node(b, KVR_YAML_SCALAR, e->start_mark);
    if (!node)
        return no_memory();
    node->text = doc_strdup(b->doc, s, n);
    if (!node->text)
        return no_memory();
    node->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    *out = node;
    return remember(b, e->data.scalar.anchor, node, false, &a);
}

static enum kvr_status build_alias(struct builder *b, const yaml_event_t *e,
                                   struct kvr_yaml_node **out)
{
    const char *name = (const char *)e->data.alias.anchor;
    const struct anchor *a;
    struct kvr_yaml_node *copy;

    for (a = b->anchors; a && strcmp(a->name, name) != 0; a = a->next)
        ;
    if (!a)
        return fail_at(b, e->start_mark, "alias *%.200s refers to an unknown anchor", name);
    if (a->open)
        return fail_at(b, e->start_mark, "alias *%.200s is inside its own anchor &%.200s", name,
                       name);
    copy = doc_alloc(b->doc, sizeof *copy);
    if (!copy)
        return no_memory();
    *copy = *a->node; /* an alias has the same child nodes as its anchor */
    copy->line = (int)e->start_mark.line + 1;
    copy->column = (int)e->start_mark.column + 1;
    *out = copy;
    return KVR_OK;
}

static enum kvr_status check_key(const struct builder *b, const yaml_event_t *e,
                                 const struct kvr_yaml_node *map)
{
    const char *text;

    if (e->type != YAML_SCALAR_EVENT)
        return fail_at(b, e->start_mark, "a key must be plain text, not a list or map");
    text = (const char *)e->data.scalar.value;
    for (int i = 0; i < map->n; i++)
        if (strcmp(map->key[i]->text, text) == 0)
            return kvr_fail(KVR_EINVAL, "%s:%zu:%zu: '%s' is given twice, first at line %d",
                            b->file, e->start_mark.line + 1, e->start_mark.column + 1, text,
                            map->key[i]->line);
    return KVR_OK;
}

/* Builds one entry of a list or map from its first event `e`, and deletes `e`. */
static enum kvr_status build_entry(struct builder *b, yaml_event_t *e, int depth,
                                   struct kvr_yaml_node *to)
{
    struct kvr_yaml_node *key = NULL, *item = NULL;
    enum kvr_status st = KVR_OK;

    if (to->kind == KVR_YAML_MAP) {
        st = check_key(b, e, to);
        if (st == KVR_OK)
            st = build_scalar(b, e, &key);
        yaml_event_delete(e);
        if (st != KVR_OK)
            return st;
        KVR_TRY(next_event(b, e));
    }
    st = build(b, e, depth + 1, &item);
    yaml_event_delete(e);
    return st == KVR_OK ? add_entry(b->doc, to, key, item) : st;
}

static enum kvr_status build_collection(struct builder *b, const yaml_event_t *e, int depth,
                                        struct kvr_yaml_node **out)
{
    bool map = e->type == YAML_MAPPING_START_EVENT;
    yaml_event_type_t end = map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    const yaml_char_t *tag = map ? e->data.mapping_start.tag : e->data.sequence_start.tag;
    const yaml_char_t *name = map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor;
    struct kvr_yaml_node *node;
    struct anchor *a;

    if (tag)
        return fail_at(b, e->start_mark, "YAML tag '%.200s' is not supported; remove the tag",
                       (const char *)tag);
    if (depth >= KVR_YAML_MAX_DEPTH)
        return fail_at(b, e->start_mark,
                       "lists and maps are nested deeper than the limit of %d levels",
                       KVR_YAML_MAX_DEPTH);
    node = new_node(b, map ? KVR_YAML_MAP : KVR_YAML_LIST, e->start_mark);
    if (!node)
        return no_memory();
    KVR_TRY(remember(b, name, node, true, &a));
    for (;;) {
        yaml_event_t child;

        KVR_TRY(next_event(b, &child));
        if (child.type == end) {
            yaml_event_delete(&child);
            break;
        }
        KVR_TRY(build_entry(b, &child, depth, node));
    }
    if (a)
        a->open = false;
    *out = node;
    return KVR_OK;
}

/* Builds the node that begins with event `e`. The caller deletes `e`. */
static enum kvr_status build(struct builder *b, yaml_event_t *e, int depth,
                             struct kvr_yaml_node **out)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return build_scalar(b, e, out);
    case YAML_ALIAS_EVENT:
        return build_alias(b, e, out);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return build_collection(b, e, depth, out);
    default:
        return fail_at(b, e->start_mark, "need a scalar, a list or a map");
    }
}

static enum kvr_status build_document(struct builder *b, struct kvr_yaml_node **root)
{
    bool seen = false;

    *root = NULL;
    for (;;) {
        yaml_event_t e;
        enum kvr_status st = KVR_OK;
        bool end;

        KVR_TRY(next_event(b, &e));
        end = e.type == YAML_STREAM_END_EVENT;
        if (e.type == YAML_DOCUMENT_START_EVENT && seen)
            st = fail_at(b, e.start_mark,
                         "the file has a second YAML document, only one is allowed");
        else if (e.type == YAML_DOCUMENT_START_EVENT)
            seen = true;
        else if (e.type != YAML_STREAM_START_EVENT && e.type != YAML_DOCUMENT_END_EVENT && !end)
            st = build(b, &e, 0, root);
        yaml_event_delete(&e);
        if (st != KVR_OK || end)
            return st;
    }
}

static enum kvr_status parse_into(struct kvr_yaml *y, const char *text, size_t n, const char *name,
                                  struct kvr_yaml_node **root)
{
    struct builder b = { .doc = y };
    enum kvr_status st;

    b.file = doc_strdup(y, name, strlen(name));
    if (!b.file)
        return no_memory();
    if (n > KVR_YAML_MAX_BYTES)
        return kvr_fail(KVR_EINVAL, "%s: the file has %zu bytes, at most %d are allowed", name, n,
                        KVR_YAML_MAX_BYTES);
    if (!yaml_parser_initialize(&b.parser))
        return no_memory();
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, n);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    st = build_document(&b, root);
    yaml_parser_delete(&b.parser);
    return st;
}

enum kvr_status kvr_yaml_read_text(struct kvr_yaml **out, const char *text, size_t n,
                                   const char *name)
{
    struct kvr_yaml *y = calloc(1, sizeof *y);
    enum kvr_status st;

    *out = NULL;
    if (!y)
        return no_memory();
    st = parse_into(y, text, n, name, &y->root);
    if (st == KVR_OK) {
        y->text = doc_strdup(y, text, n);
        st = y->text ? KVR_OK : no_memory();
    }
    if (st != KVR_OK) {
        kvr_yaml_close(&y);
        return st;
    }
    *out = y;
    return KVR_OK;
}

enum kvr_status kvr_yaml_load(char **text, size_t *n, const char *path)
{
    enum kvr_status st = KVR_OK;
    FILE *f;

    *text = NULL;
    *n = 0;
    KVR_TRY(kvr_infile_open_text(&f, path));
    *text = malloc(KVR_YAML_MAX_BYTES + 1);
    if (*text)
        *n = fread(*text, 1, KVR_YAML_MAX_BYTES + 1, f);
    else
        st = no_memory();
    if (ferror(f)) {
        st = kvr_fail(KVR_EIO, "%s: %s", path, strerror(errno));
        free(*text);
        *text = NULL;
    }
    fclose(f);
    return st;
}

enum kvr_status kvr_yaml_read(struct kvr_yaml **out, const char *path)
{
    enum kvr_status st;
    char *text;
    size_t n;

    *out = NULL;
    KVR_TRY(kvr_yaml_load(&text, &n, path));
    st = kvr_yaml_read_text(out, text, n, path);
    free(text);
    return st;
}

void kvr_yaml_close(struct kvr_yaml **y)
{
    if (!*y)
        return;
    for (struct block *b = (*y)->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(*y);
    *y = NULL;
}

const struct kvr_yaml_node *kvr_yaml_root(const struct kvr_yaml *y)
{
    return y->root;
}

struct kvr_yaml_node *kvr_yaml_root_to_change(struct kvr_yaml *y)
{
    return y->root;
}

void *kvr_yaml_alloc(struct kvr_yaml *y, size_t n)
{
    return doc_alloc(y, n);
}

const char *kvr_yaml_text_of_file(const struct kvr_yaml *y)
{
    return y->text;
}

/* Sets the line and column of an override's nodes to 0, because they are in no file. */
static void clear_location(struct kvr_yaml_node *n)
{
    n->line = n->column = 0;
    for (int i = 0; n->kind != KVR_YAML_SCALAR && i < n->n; i++) {
        if (n->kind == KVR_YAML_MAP)
            clear_location(n->key[i]);
        clear_location(n->item[i]);
    }
}

static enum kvr_status set_entry(struct kvr_yaml *y, struct kvr_yaml_node *key,
                                 struct kvr_yaml_node *value)
{
    for (int i = 0; i < y->root->n; i++)
        if (strcmp(y->root->key[i]->text, key->text) == 0) {
            y->root->item[i] = value;
            return KVR_OK;
        }
    return add_entry(y, y->root, key, value);
}

enum kvr_status kvr_yaml_override(struct kvr_yaml *y, const char *assignment)
{
    const char *eq = strchr(assignment, '=');
    struct kvr_yaml_node *value = NULL, *key;

    if (!eq || eq == assignment)
        return kvr_fail(KVR_EINVAL, "'%s': an override must have the form key=value", assignment);
    if (!y->root || y->root->kind != KVR_YAML_MAP)
        return kvr_fail(KVR_EINVAL, "'%s': cannot override, since the config is not a map of keys",
                        assignment);
    KVR_TRY(parse_into(y, eq + 1, strlen(eq + 1), assignment, &value));
    key = doc_alloc(y, sizeof *key);
    if (!key)
        return no_memory();
    key->text = doc_strdup(y, assignment, (size_t)(eq - assignment));
    if (!key->text)
        return no_memory();
    key->file = doc_strdup(y, assignment, strlen(assignment));
    if (!key->file)
        return no_memory();
    if (!value)
        return kvr_yaml_fail(key, "no value after '='; need key=value");
    clear_location(value);
    return set_entry(y, key, value);
}

enum kvr_status kvr_yaml_put(struct kvr_yaml *y, const char *key, const struct kvr_yaml_node *value)
{
    struct kvr_yaml_node *item = doc_alloc(y, sizeof *item), *name = doc_alloc(y, sizeof *name);

    if (!item || !name)
        return no_memory();
    *item = *value;
    item->weight = 1;
    item->file = doc_strdup(y, value->file, strlen(value->file));
    item->text = doc_strdup(y, value->text, strlen(value->text));
    name->text = doc_strdup(y, key, strlen(key));
    if (!item->file || !item->text || !name->text)
        return no_memory();
    name->file = item->file;
    name->line = value->line;
    name->column = value->column;
    if (!y->root || y->root->kind != KVR_YAML_MAP)
        return kvr_yaml_fail(item, "the config is not a map of keys");
    return set_entry(y, name, item);
}

const struct kvr_yaml_node *kvr_yaml_get(const struct kvr_yaml_node *map, const char *key)
{
    if (!map || map->kind != KVR_YAML_MAP)
        return NULL;
    for (int i = 0; i < map->n; i++)
        if (strcmp(map->key[i]->text, key) == 0)
            return map->item[i];
    return NULL;
}

const char *kvr_yaml_kind_name(const struct kvr_yaml_node *n)
{
    static const char *const names[] = { "a single value", "a list", "a map" };

    return names[n->kind];
}

static enum kvr_status unknown_key(const struct kvr_yaml_node *key, const char *const *allowed)
{
    const char *near = kvr_nearest(key->text, allowed);
    char list[320];

    if (near)
        return kvr_yaml_fail(key, "'%s' is not a known key; did you mean '%s'?", key->text, near);
    return kvr_yaml_fail(key, "'%s' is not a known key; need one of %s", key->text,
                         kvr_join_all(list, sizeof list, allowed));
}

enum kvr_status kvr_yaml_keys(const struct kvr_yaml_node *n, const char *const *allowed)
{
    if (n->kind != KVR_YAML_MAP)
        return kvr_yaml_fail(n, "expected a map of keys, found %s", kvr_yaml_kind_name(n));
    for (int i = 0; i < n->n; i++) {
        const char *word = n->key[i]->text;
        int j = 0;

        while (allowed[j] && strcmp(allowed[j], word) != 0)
            j++;
        if (allowed[j] || strncmp(word, KVR_YAML_EXTENSION, strlen(KVR_YAML_EXTENSION)) == 0)
            continue;
        return unknown_key(n->key[i], allowed);
    }
    return KVR_OK;
}

enum kvr_status kvr_yaml_string(const struct kvr_yaml_node *n, const char **out)
{
    if (n->kind != KVR_YAML_SCALAR)
        return kvr_yaml_fail(n, "expected text, found %s", kvr_yaml_kind_name(n));
    if (!n->text[0] || (!n->quoted && (!strcmp(n->text, "~") || !strcmp(n->text, "null"))))
        return kvr_yaml_fail(n, "expected text, found an empty value");
    *out = n->text;
    return KVR_OK;
}

enum kvr_status kvr_yaml_int(const struct kvr_yaml_node *n, long long lo, long long hi,
                             long long *out)
{
    long long v;
    char *end;

    if (n->kind != KVR_YAML_SCALAR)
        return kvr_yaml_fail(n, "expected a whole number, found %s", kvr_yaml_kind_name(n));
    errno = 0;
    /* quoted numbers are accepted, because templating tools add quotes */
    v = strtoll(n->text, &end, 10);
    if (end == n->text || *end)
        return kvr_yaml_fail(n, "expected a whole number, got '%s'%s", n->text,
                             n->quoted && strstr(n->text, "..") ? "; write a range without quotes"
                                                                : "");
    if (errno || v < lo || v > hi)
        return kvr_yaml_fail(n, "%s is out of range, need %lld..%lld", n->text, lo, hi);
    *out = v;
    return KVR_OK;
}

enum kvr_status kvr_yaml_seconds(const struct kvr_yaml_node *n, long long lo, long long hi,
                                 long long *out)
{
    double seconds;

    if (n->kind != KVR_YAML_SCALAR)
        return kvr_yaml_fail(n, "expected a time, found %s", kvr_yaml_kind_name(n));
    if (!kvr_duration_parse(n->text, &seconds))
        return kvr_yaml_fail(n, "'%s': need " KVR_DURATION_FORM, n->text);
    if (!(seconds >= (double)lo && seconds <= (double)hi))
        return kvr_yaml_fail(n, "%s is out of range, need %lld..%lld seconds", n->text, lo, hi);
    *out = (long long)seconds;
    return KVR_OK;
}

enum kvr_status kvr_yaml_bool(const struct kvr_yaml_node *n, bool *out)
{
    if (n->kind != KVR_YAML_SCALAR)
        return kvr_yaml_fail(n, "expected true or false, found %s", kvr_yaml_kind_name(n));
    if (strcmp(n->text, "true") == 0)
        *out = true;
    else if (strcmp(n->text, "false") == 0)
        *out = false;
    else
        return kvr_yaml_fail(n, "expected true or false, got '%s'", n->text);
    return KVR_OK;
}

int kvr_yaml_count(const struct kvr_yaml_node *n)
{
    return n->kind == KVR_YAML_LIST ? n->n : 1;
}

const struct kvr_yaml_node *kvr_yaml_at(const struct kvr_yaml_node *n, int i)
{
    return n->kind == KVR_YAML_LIST ? n->item[i] : n;
}
