/* learnt.c - reads from a model's folder the list of prompt words that the model has learnt. */
#include "harness/workload/learnt.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/path.h"

/* Index of the shape of the second object among a prompt's KVR_PROMPT_SLOTS words; that word is
 * "<none>" if the video has one object. */
enum { SECOND_SHAPE = 9 };

void kvr_learnt_free(struct kvr_learnt *l)
{
    free(l->word);
    memset(l, 0, sizeof *l);
}

static enum kvr_status take(struct kvr_learnt *l, const struct kvr_model_config *c,
                            const char *path, size_t at, const json_t *word)
{
    const char *text = json_string_value(word);

    if (!text)
        return kvr_fail(KVR_EFORMAT,
                        "%s: words[%zu] is not a string; need words of the model's vocabulary",
                        path, at);
    for (int i = 0; i < c->n_vocabulary; i++)
        if (strcmp(c->vocabulary[i], text) == 0) {
            l->word[i] = true;
            return KVR_OK;
        }
    return kvr_fail(KVR_EFORMAT,
                    "%s: words[%zu]: '%s' is not one of the %d words of the model's vocabulary",
                    path, at, text, c->n_vocabulary);
}

static enum kvr_status read(struct kvr_learnt *l, const struct kvr_model_config *c,
                            const char *path)
{
    json_t *root, *words;
    enum kvr_status st;

    KVR_TRY(kvr_json_load(&root, path));
    st = kvr_json_int_in(root, path, "objects", 1, 2, &l->n_objects);
    if (st == KVR_OK)
        st = kvr_json_array(root, path, "words", &words);
    for (size_t i = 0; st == KVR_OK && i < json_array_size(words); i++)
        st = take(l, c, path, i, json_array_get(words, i));
    /* The list lacks the vocabulary entries <pad> and <none>, which every model knows. */
    for (int i = 0; st == KVR_OK && i < c->n_vocabulary; i++)
        l->word[i] = l->word[i] || c->vocabulary[i][0] == '<';
    json_decref(root);
    l->known = st == KVR_OK;
    return st;
}

enum kvr_status kvr_learnt_read(struct kvr_learnt *l, const struct kvr_model_config *c,
                                const char *dir)
{
    char *path = kvr_path_join(dir, "learnt.json");
    enum kvr_status st = KVR_OK;

    memset(l, 0, sizeof *l);
    l->word = calloc((size_t)c->n_vocabulary + 1, sizeof *l->word);
    if (!path || !l->word)
        st = kvr_fail(KVR_ENOMEM, "learnt: out of memory");
    else if (kvr_path_exists(path))
        st = read(l, c, path);
    if (st != KVR_OK)
        kvr_learnt_free(l);
    free(path);
    return st;
}

const char *kvr_learnt_lacks(const struct kvr_learnt *l, const struct kvr_model_config *c,
                             const struct kvr_prompt *p)
{
    for (int a = 0; l->known && a < p->n_acts; a++) {
        const int *ids = p->act[a].ids;

        for (int s = 0; s < KVR_PROMPT_SLOTS; s++)
            if (!l->word[ids[s]])
                return c->vocabulary[ids[s]];
        if (l->n_objects < 2 && c->vocabulary[ids[SECOND_SHAPE]][0] != '<')
            return "a second object";
    }
    return NULL;
}
