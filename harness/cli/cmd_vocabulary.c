/* cmd_vocabulary.c - `kvreel vocabulary`: lists the words of prompts and marks the ones that the
 * model has learnt. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/path.h"
#include "harness/plan/find.h"
#include "harness/workload/learnt.h"

struct vocabulary_opts {
    const char *model;
    bool json;
};

/* Returns the word of a vocabulary entry "SLOT:WORD", such as "color:red". The entries "<none>" and
 * "dir:-" stand for an omitted word. */
static const char *word_of(const char *entry)
{
    const char *colon = strchr(entry, ':');

    return colon && strcmp(colon + 1, "-") != 0 ? colon + 1 : NULL;
}

static json_t *word_json(const char *entry, const char *word, const struct kvr_learnt *l, int id)
{
    return json_pack("{s:s%, s:s, s:o}", "slot", entry, (size_t)(word - 1 - entry), "word", word,
                     "learnt", l->known ? json_boolean(l->word[id]) : json_null());
}

static enum kvr_status fill(json_t *doc, const char *dir, const struct kvr_model_config *c)
{
    json_t *words = json_object_get(doc, "words");
    struct kvr_learnt l;
    bool ok = true;

    if (!c->n_vocabulary)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "vocabulary: model %s takes prompt embeddings and has no vocabulary; "
                        "`--model nano` has one",
                        dir);
    KVR_TRY(kvr_learnt_read(&l, c, dir));
    for (int i = 0; i < c->n_vocabulary; i++) {
        const char *word = word_of(c->vocabulary[i]);

        if (word)
            ok = ok && !json_array_append_new(words, word_json(c->vocabulary[i], word, &l, i));
    }
    ok = ok &&
         !json_object_set_new(doc, "objects", l.known ? json_integer(l.n_objects) : json_null());
    kvr_learnt_free(&l);
    return ok ? KVR_OK : kvr_fail(KVR_ENOMEM, "vocabulary: out of memory");
}

/* Writes a word as it appears in a prompt: "pans left" for the entry "pan-left". */
static void put_word(FILE *to, const char *before, const char *word)
{
    if (strncmp(word, "pan-", 4) == 0)
        fprintf(to, "%spans %s", before, word + 4);
    else
        fprintf(to, "%s%s", before, word);
}

/* Writes the words of one slot that the model has learnt (learnt true) or has not learnt (false).
 * Returns the number of words. */
static int put_slot(FILE *to, const json_t *words, const char *slot, bool learnt)
{
    int n = 0;
    size_t i;
    json_t *w;

    json_array_foreach(words, i, w)
    {
        if (strcmp(json_string_value(json_object_get(w, "slot")), slot) != 0 ||
            !json_is_false(json_object_get(w, "learnt")) != learnt)
            continue;
        if (to)
            put_word(to, n ? ", " : "", json_string_value(json_object_get(w, "word")));
        n++;
    }
    return n;
}

static void print_words(const json_t *words, bool learnt)
{
    static const char *const slots[][2] = { { "size", "size" },     { "color", "colour" },
                                            { "shape", "shape" },   { "tex", "texture" },
                                            { "motion", "motion" }, { "dir", "direction" },
                                            { "bg", "background" }, { "cam", "camera" } };

    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        if (put_slot(NULL, words, slots[i][0], learnt) == 0)
            continue;
        printf("  %-11s ", slots[i][1]);
        put_slot(stdout, words, slots[i][0], learnt);
        printf("\n");
    }
}

static void print(const json_t *doc)
{
    const json_t *words = json_object_get(doc, "words"), *objects = json_object_get(doc, "objects");

    if (json_is_null(objects)) {
        printf("words of the prompt grammar; the model's folder does not say which the model has "
               "learnt\n");
        print_words(words, true);
        return;
    }
    printf("learnt\n");
    print_words(words, true);
    printf("\nin the grammar but not learnt: the model draws a blur or the nearest learnt word\n");
    print_words(words, false);
    if (json_integer_value(objects) < 2)
        printf("  %-11s one in front of the other, so that they overlap\n", "two objects");
}

static int run(const struct kvr_call *call)
{
    const struct vocabulary_opts *o = call->opts;
    struct kvr_model_config c = { 0 };
    char dir[1024];
    char *path = NULL;
    json_t *doc = json_pack("{s:s, s:[]}", "model", o->model, "words");
    enum kvr_status st = doc ? kvr_find_path(&kvr_find_model, o->model, NULL, dir, sizeof dir)
                             : kvr_fail(KVR_ENOMEM, "vocabulary: out of memory");

    if (st == KVR_OK && !(path = kvr_path_join(dir, "config.json")))
        st = kvr_fail(KVR_ENOMEM, "vocabulary: out of memory");
    if (st == KVR_OK)
        st = kvr_model_config_read(&c, path);
    if (st == KVR_OK)
        st = fill(doc, dir, &c);
    kvr_model_config_free(&c);
    free(path);
    return kvr_cli_result(doc, st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st), o->json, print);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct vocabulary_opts, model, "model", 0, "NAME", "nano",
                 "model name or model folder"),
    KVR_ARG_FLAG(struct vocabulary_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_vocabulary = {
    .name = "vocabulary",
    .summary = "list the words allowed in a model's prompts, and which words the model has learnt",
    .usage = "[--model NAME] [--json]",
    .examples = "  kvreel vocabulary\n"
                "  kvreel vocabulary --json | jq -r '.words[] | select(.learnt).word'\n",
    .details =
        "A prompt describes objects, a background and a camera in plain words:\n"
        "  a large red disc bounces over a plain blue background, static camera\n"
        "A semicolon separates two acts of a prompt; '@N:' before an act says that it begins\n"
        "at chunk N.\n",
    .args = args,
    .opts_size = sizeof(struct vocabulary_opts),
    .max_words = 0,
    .run = run,
};
