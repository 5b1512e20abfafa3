/* suite.c - reads suites of prompts. */
#include "harness/plan/suite.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/engine/text/embed.h"
#include "harness/workload/shots.h"
#include "harness/workload/text.h"
#include "harness/workload/image.h"
#include "harness/workload/truth.h"

enum { MAX_PROMPTS = 10000, MAX_ID = 64 };

/* Checks the characters of a prompt's id, which becomes part of file names. */
static enum kvr_status check_id(const struct kvr_yaml_node *n, const char *id)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";

    if (strspn(id, allowed) != strlen(id) || strlen(id) > MAX_ID || id[0] == '.')
        return kvr_yaml_fail(n,
                             "id '%s' (%zu characters): an id or a suite's name needs 1..%d "
                             "letters, digits, '.', '_' or '-', and must not begin with '.'",
                             id, strlen(id), MAX_ID);
    return KVR_OK;
}

/* --- truth ------------------------------------------------------------------------------ */

/* Resolves a path relative to the folder of the YAML file that contains it, or to the working
 * directory if the node is in no file. The result belongs to the YAML document. */
static enum kvr_status resolve(struct kvr_yaml *doc, const struct kvr_yaml_node *file,
                               const char **out)
{
    const char *text;
    char *dir, *path, *copy;

    KVR_TRY(kvr_yaml_string(file, &text));
    dir = file->line ? kvr_path_dir(file->file) : strdup(".");
    path = dir ? kvr_path_join(dir, text) : NULL;
    copy = path ? kvr_yaml_alloc(doc, strlen(path) + 1) : NULL;
    if (copy)
        strcpy(copy, path);
    free(dir);
    free(path);
    *out = copy;
    return copy ? KVR_OK : kvr_fail(KVR_ENOMEM, "suite: out of memory");
}

/* Reads the location of a tensor, which is FILE or {file, tensor}. `what` is the name of the key in
 * messages. */
static enum kvr_status read_place(struct kvr_yaml *doc, const char *id, const char *what,
                                  const struct kvr_yaml_node *at, const char **path,
                                  const char **name)
{
    static const char *const keys[] = { "file", "tensor", NULL };
    const struct kvr_yaml_node *file = at, *tensor = NULL;

    *name = id;
    if (at->kind == KVR_YAML_MAP) {
        KVR_TRY(kvr_yaml_keys(at, keys));
        file = kvr_yaml_get(at, "file");
        tensor = kvr_yaml_get(at, "tensor");
        if (!file)
            return kvr_yaml_fail(at, "%s: the map {file, tensor} has no key 'file'", what);
    }
    if (tensor)
        KVR_TRY(kvr_yaml_string(tensor, name));
    return resolve(doc, file, path);
}

static enum kvr_status read_truth_info(struct kvr_prompt_truth *t)
{
    struct kvr_truth frames;
    enum kvr_status st = kvr_truth_open(&frames, t->path, t->tensor);

    KVR_TRY(kvr_yaml_fail_from(t->at, st));
    t->n = frames.frames.n;
    t->height = frames.frames.height;
    t->width = frames.frames.width;
    strcpy(t->sha256, frames.sha256);
    kvr_truth_close(&frames);
    return KVR_OK;
}

static const struct kvr_yaml_node *
own_or_default(const struct kvr_yaml_node *n, const struct kvr_yaml_node *defaults, const char *key)
{
    const struct kvr_yaml_node *own = kvr_yaml_get(n, key);

    return own || !defaults ? own : kvr_yaml_get(defaults, key);
}

static enum kvr_status read_truth(struct kvr_yaml *doc, const struct kvr_yaml_node *n,
                                  const struct kvr_yaml_node *defaults, struct kvr_prompt_line *p)
{
    const struct kvr_yaml_node *truth = own_or_default(n, defaults, "truth");
    const struct kvr_yaml_node *given = own_or_default(n, defaults, "given");
    struct kvr_prompt_truth *t;
    long long frames;

    if (!truth && !given)
        return KVR_OK;
    if (!truth || !given)
        return kvr_yaml_fail(truth ? truth : given,
                             "prompt '%s' has '%s' without '%s'; give both or neither", p->id,
                             truth ? "truth" : "given", truth ? "given" : "truth");
    KVR_TRY(kvr_yaml_int(given, 1, 100000, &frames));
    t = kvr_yaml_alloc(doc, sizeof *t);
    if (!t)
        return kvr_fail(KVR_ENOMEM, "suite: out of memory");
    t->at = truth;
    t->given_at = given;
    t->given = (int)frames;
    KVR_TRY(read_place(doc, p->id, "truth", t->at, &t->path, &t->tensor));
    p->truth = t;
    return read_truth_info(t);
}

/* --- image ------------------------------------------------------------------------------ */

static enum kvr_status read_image(struct kvr_yaml *doc, const struct kvr_yaml_node *n,
                                  struct kvr_prompt_line *p)
{
    const struct kvr_yaml_node *at = kvr_yaml_get(n, "image");
    struct kvr_prompt_image *t;
    struct kvr_image image;
    enum kvr_status st;

    if (!at)
        return KVR_OK;
    if (p->truth)
        return kvr_yaml_fail(at, "prompt '%s' has both 'image' and 'truth'; use one of the two",
                             p->id);
    t = kvr_yaml_alloc(doc, sizeof *t);
    if (!t)
        return kvr_fail(KVR_ENOMEM, "suite: out of memory");
    t->at = at;
    KVR_TRY(resolve(doc, at, &t->path));
    st = kvr_image_open(&image, t->path);
    KVR_TRY(kvr_yaml_fail_from(at, st));
    t->height = image.video.frames.height;
    t->width = image.video.frames.width;
    strcpy(t->sha256, image.sha256);
    kvr_image_close(&image);
    p->image = t;
    return KVR_OK;
}

/* --- tokens ----------------------------------------------------------------------------- */

static enum kvr_status read_tokens(struct kvr_yaml *doc, const struct kvr_yaml_node *n,
                                   const struct kvr_yaml_node *defaults, struct kvr_prompt_line *p)
{
    const struct kvr_yaml_node *at = own_or_default(n, defaults, "tokens");
    struct kvr_prompt_tokens *t;
    struct kvr_tokens ids;
    enum kvr_status st;

    if (!at)
        return KVR_OK;
    t = kvr_yaml_alloc(doc, sizeof *t);
    if (!t)
        return kvr_fail(KVR_ENOMEM, "suite: out of memory");
    t->at = at;
    KVR_TRY(read_place(doc, p->id, "tokens", at, &t->path, &t->tensor));
    st = kvr_tokens_open(&ids, t->path, t->tensor);
    KVR_TRY(kvr_yaml_fail_from(at, st));
    t->n = ids.n;
    strcpy(t->sha256, ids.sha256);
    kvr_tokens_close(&ids);
    p->tokens = t;
    return KVR_OK;
}

/* --- embeddings ------------------------------------------------------------------------- */

static enum kvr_status open_embedding(struct kvr_yaml *doc, const char *id,
                                      const struct kvr_yaml_node *at,
                                      struct kvr_prompt_embedding **out)
{
    struct kvr_prompt_embedding *e = kvr_yaml_alloc(doc, sizeof *e);
    struct kvr_embedding rows;
    enum kvr_status st;

    if (!e)
        return kvr_fail(KVR_ENOMEM, "suite: out of memory");
    e->at = at;
    KVR_TRY(read_place(doc, id, "embeddings", at, &e->path, &e->tensor));
    st = kvr_embedding_open(&rows, e->path, e->tensor);
    KVR_TRY(kvr_yaml_fail_from(at, st));
    e->n = rows.n;
    e->dim = rows.dim;
    strcpy(e->sha256, rows.sha256);
    kvr_embedding_close(&rows);
    *out = e;
    return KVR_OK;
}

/* Reads the embeddings of a prompt's shots. Either all shots must have an embedding, or none. */
static enum kvr_status read_embeddings_of(struct kvr_yaml *doc, const struct kvr_yaml_node *shots,
                                          const struct kvr_yaml_node *pack,
                                          struct kvr_prompt_line *p)
{
    const struct kvr_prompt_embedding **to = &p->embedding;
    const size_t size = strlen(p->id) + 8;
    int n = 0;

    for (int i = 0; i < shots->n; i++) {
        const struct kvr_yaml_node *own = kvr_yaml_get(shots->item[i], "embeddings");
        struct kvr_prompt_embedding *e;
        char *id;

        if (!own && !pack)
            continue;
        id = kvr_yaml_alloc(doc, size);
        if (!id)
            return kvr_fail(KVR_ENOMEM, "suite: out of memory");
        snprintf(id, size, "%s.%d", p->id, i + 1);
        KVR_TRY(open_embedding(doc, id, own ? own : pack, &e));
        *to = e;
        to = &e->next;
        n++;
    }
    return n == 0 || n == shots->n
               ? KVR_OK
               : kvr_yaml_fail(shots,
                               "prompt '%s': only %d of %d shots have embeddings; give an "
                               "embedding to every shot or to none",
                               p->id, n, shots->n);
}

static enum kvr_status read_embedding(struct kvr_yaml *doc, const struct kvr_yaml_node *n,
                                      const struct kvr_yaml_node *defaults,
                                      struct kvr_prompt_line *p)
{
    const struct kvr_yaml_node *at = own_or_default(n, defaults, "embeddings");
    const struct kvr_yaml_node *shots = kvr_yaml_get(n, "shots");
    struct kvr_prompt_embedding *e;

    if (shots)
        return read_embeddings_of(doc, shots, at, p);
    if (!at)
        return KVR_OK;
    KVR_TRY(open_embedding(doc, p->id, at, &e));
    p->embedding = e;
    return KVR_OK;
}

/* --- shots ------------------------------------------------------------------------------ */

/* Reads the text and the number of chunks of a shot. The last shot may omit the number; it then
 * extends to the end of the video. */
static enum kvr_status read_shot(const struct kvr_yaml_node *n, bool last, const char **text,
                                 int *n_chunks)
{
    static const char *const keys[] = { "text", "chunks", "embeddings", NULL };
    const struct kvr_yaml_node *at, *chunks;
    long long x = 0;

    KVR_TRY(kvr_yaml_keys(n, keys));
    at = kvr_yaml_get(n, "text");
    chunks = kvr_yaml_get(n, "chunks");
    if (!at || (!chunks && !last))
        return kvr_yaml_fail(
            n, "%s",
            at ? "the shot has no 'chunks' (its length in chunks); only the last shot may omit it"
               : "the shot has no 'text'");
    KVR_TRY(kvr_yaml_string(at, text));
    if (chunks)
        KVR_TRY(kvr_yaml_int(chunks, 1, 100000, &x));
    *n_chunks = (int)x;
    if (!(*text)[0] || strchr(*text, ';') || strchr(*text, '|'))
        return kvr_yaml_fail(at, "text '%.80s' of a shot: must not be empty or contain ';' or '|'",
                             *text);
    return KVR_OK;
}

/* Converts the list of shots to one line of text that contains the first chunk of each shot
 * (workload/shots.h). */
static enum kvr_status read_shots(struct kvr_yaml *doc, const struct kvr_yaml_node *list,
                                  const char **out)
{
    size_t size = 1, at = 0;
    char *line;
    int from = 0;

    if (list->kind != KVR_YAML_LIST || list->n == 0 || list->n > KVR_MAX_SHOTS)
        return kvr_yaml_fail(
            list, "shots: need a list of 1..%d shots {text, chunks}, found %s (%d elements)",
            KVR_MAX_SHOTS, kvr_yaml_kind_name(list), list->n);
    for (int i = 0; i < list->n; i++) {
        const char *text;
        int n;

        KVR_TRY(read_shot(list->item[i], i == list->n - 1, &text, &n));
        size += strlen(text) + 32;
    }
    line = kvr_yaml_alloc(doc, size);
    if (!line)
        return kvr_fail(KVR_ENOMEM, "suite: out of memory while allocating %d shots", list->n);
    for (int i = 0; i < list->n; i++) {
        const char *text;
        int n;

        KVR_TRY(read_shot(list->item[i], i == list->n - 1, &text, &n));
        at += (size_t)snprintf(line + at, size - at, "%s@%d: %s", i ? "; " : "", from, text);
        from += n;
    }
    *out = line;
    return KVR_OK;
}

/* --- prompts ---------------------------------------------------------------------------- */

static enum kvr_status read_prompt(struct kvr_yaml *doc, const struct kvr_yaml_node *n,
                                   const struct kvr_yaml_node *defaults, struct kvr_prompt_line *p)
{
    static const char *const keys[] = { "id",     "text",       "shots",    "truth", "given",
                                        "tokens", "embeddings", "held_out", "image", NULL };
    const struct kvr_yaml_node *id, *text, *shots, *word;

    if (n->kind != KVR_YAML_MAP)
        return kvr_yaml_fail(n, "a prompt needs a map {id: NAME, text: TEXT}, found %s",
                             kvr_yaml_kind_name(n));
    KVR_TRY(kvr_yaml_keys(n, keys));
    id = kvr_yaml_get(n, "id");
    text = kvr_yaml_get(n, "text");
    shots = kvr_yaml_get(n, "shots");
    if (!id)
        return kvr_yaml_fail(
            n, "the prompt has no 'id'; each prompt needs the keys 'id' and 'text' (or 'shots')");
    KVR_TRY(kvr_yaml_string(id, &p->id));
    KVR_TRY(check_id(id, p->id));
    if (!text && !shots)
        return kvr_yaml_fail(n, "prompt '%s' has neither 'text' nor 'shots'", p->id);
    if (text && shots)
        return kvr_yaml_fail(
            shots, "prompt '%s' has both 'text' and 'shots'; remove one of the two", p->id);
    p->at = text ? text : shots;
    KVR_TRY(text ? kvr_yaml_string(text, &p->text) : read_shots(doc, shots, &p->text));
    word = kvr_yaml_get(n, "held_out");
    if (word)
        KVR_TRY(kvr_yaml_string(word, &p->held_out));
    if (word && !strstr(p->text, p->held_out))
        return kvr_yaml_fail(word,
                             "held_out '%s': the text of prompt '%s' does not contain this word",
                             p->held_out, p->id);
    KVR_TRY(read_truth(doc, n, defaults, p));
    KVR_TRY(read_image(doc, n, p));
    KVR_TRY(read_tokens(doc, n, defaults, p));
    return read_embedding(doc, n, defaults, p);
}

enum kvr_status kvr_prompts_read(struct kvr_yaml *doc, const struct kvr_yaml_node *list,
                                 const struct kvr_yaml_node *defaults, struct kvr_prompt_line **out,
                                 int *n)
{
    struct kvr_prompt_line *p;

    if (list->kind != KVR_YAML_LIST || list->n == 0 || list->n > MAX_PROMPTS)
        return kvr_yaml_fail(
            list, "prompts: need a list of 1..%d prompts {id, text}, found %s (%d elements)",
            MAX_PROMPTS, kvr_yaml_kind_name(list), list->n);
    p = calloc((size_t)list->n, sizeof *p);
    if (!p)
        return kvr_fail(KVR_ENOMEM, "suite: out of memory while allocating %d prompts", list->n);
    for (int i = 0; i < list->n; i++) {
        enum kvr_status st = read_prompt(doc, list->item[i], defaults, &p[i]);

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
    static const char *const keys[] = { "name",  "title",  "model",      "frames",  "seed", "truth",
                                        "given", "tokens", "embeddings", "prompts", NULL };
    const struct kvr_yaml_node *root = kvr_yaml_root(s->doc), *n;
    long long v = 0;

    if (!root)
        return kvr_fail(KVR_EINVAL, "%s: the suite is empty; need the keys 'name' and 'prompts'",
                        path);
    KVR_TRY(kvr_yaml_keys(root, keys));
    if (!kvr_yaml_get(root, "name") || !kvr_yaml_get(root, "prompts"))
        return kvr_yaml_fail(root, "the suite has no '%s'; need the keys 'name' and 'prompts'",
                             kvr_yaml_get(root, "name") ? "prompts" : "name");
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
    return kvr_prompts_read(s->doc, kvr_yaml_get(root, "prompts"), root, &s->prompt, &s->n_prompts);
}

enum kvr_status kvr_suite_read_doc(struct kvr_suite *s, const char *path)
{
    const enum kvr_status st = read_suite(s, path);

    if (st != KVR_OK)
        kvr_suite_free(s);
    return st;
}

enum kvr_status kvr_suite_read(struct kvr_suite *s, const char *path)
{
    memset(s, 0, sizeof *s);
    KVR_TRY(kvr_yaml_read(&s->doc, path));
    return kvr_suite_read_doc(s, path);
}

void kvr_suite_free(struct kvr_suite *s)
{
    free(s->prompt);
    kvr_yaml_close(&s->doc);
    memset(s, 0, sizeof *s);
}
