/* suite.c - reading of suites. */
#include "harness/plan/suite.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROMPTS = 10000, MAX_ID = 64 };

/* An id becomes part of file names. */
static enum kvr_status check_id(const struct kvr_yaml_node *n, const char *id)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";

    if (strspn(id, allowed) != strlen(id) || strlen(id) > MAX_ID || id[0] == '.')
        return kvr_yaml_fail(n, "id '%s': letters, digits, '.', '_' and '-', at most %d", id,
                             MAX_ID);
    return KVR_OK;
}

static enum kvr_status read_prompt(const struct kvr_yaml_node *n, struct kvr_prompt_line *p)
{
    static const char *const keys[] = { "id", "text", NULL };
    const struct kvr_yaml_node *id, *text;

    KVR_TRY(kvr_yaml_keys(n, keys));
    id = kvr_yaml_get(n, "id");
    text = kvr_yaml_get(n, "text");
    if (!id || !text)
        return kvr_yaml_fail(n, "a prompt needs %s", id ? "a text" : "an id");
    KVR_TRY(kvr_yaml_string(id, &p->id));
    KVR_TRY(check_id(id, p->id));
    p->at = text;
    return kvr_yaml_string(text, &p->text);
}

enum kvr_status kvr_prompts_read(const struct kvr_yaml_node *list, struct kvr_prompt_line **out,
                                 int *n)
{
    struct kvr_prompt_line *p;

    if (list->kind != KVR_YAML_LIST || list->n == 0 || list->n > MAX_PROMPTS)
        return kvr_yaml_fail(list, "expected a list of 1..%d prompts, each {id, text}",
                             MAX_PROMPTS);
    p = calloc((size_t)list->n, sizeof *p);
    if (!p)
        return kvr_fail(KVR_ENOMEM, "suite: no memory for %d prompts", list->n);
    for (int i = 0; i < list->n; i++) {
        enum kvr_status st = read_prompt(list->item[i], &p[i]);

        p[i].index = i;
        for (int j = 0; st == KVR_OK && j < i; j++)
            if (strcmp(p[i].id, p[j].id) == 0)
                st = kvr_yaml_fail(list->item[i], "id '%s' is given twice, first at line %d",
                                   p[i].id, list->item[j]->line);
        if (st != KVR_OK) {
            free(p);
            return st;
        }
    }
    *out = p;
    *n = list->n;
    return KVR_OK;
}

static enum kvr_status optional_text(const struct kvr_yaml_node *root, const char *key,
                                     const char **out)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(root, key);

    *out = "";
    return n ? kvr_yaml_string(n, out) : KVR_OK;
}

static enum kvr_status read_suite(struct kvr_suite *s, const char *path)
{
    static const char *const keys[] = {
        "name", "title", "model", "frames", "seed", "prompts", NULL
    };
    const struct kvr_yaml_node *root = kvr_yaml_root(s->doc), *n;
    long long v = 0;

    if (!root)
        return kvr_fail(KVR_EINVAL, "%s: empty", path);
    KVR_TRY(kvr_yaml_keys(root, keys));
    if (!kvr_yaml_get(root, "name") || !kvr_yaml_get(root, "prompts"))
        return kvr_yaml_fail(root, "a suite needs a name and prompts");
    KVR_TRY(kvr_yaml_string(kvr_yaml_get(root, "name"), &s->name));
    KVR_TRY(check_id(kvr_yaml_get(root, "name"), s->name));
    KVR_TRY(optional_text(root, "title", &s->title));
    KVR_TRY(optional_text(root, "model", &s->model));
    n = kvr_yaml_get(root, "frames");
    if (n)
        KVR_TRY(kvr_yaml_int(n, 1, 100000, &v));
    s->frames = (int)v;
    v = 0;
    n = kvr_yaml_get(root, "seed");
    if (n)
        KVR_TRY(kvr_yaml_int(n, 0, LLONG_MAX / 2, &v));
    s->seed = (uint64_t)v;
    return kvr_prompts_read(kvr_yaml_get(root, "prompts"), &s->prompt, &s->n_prompts);
}

enum kvr_status kvr_suite_read(struct kvr_suite *s, const char *path)
{
    enum kvr_status st;

    memset(s, 0, sizeof *s);
    KVR_TRY(kvr_yaml_read(&s->doc, path));
    st = read_suite(s, path);
    if (st != KVR_OK)
        kvr_suite_free(s);
    return st;
}

void kvr_suite_free(struct kvr_suite *s)
{
    free(s->prompt);
    kvr_yaml_close(&s->doc);
    memset(s, 0, sizeof *s);
}
