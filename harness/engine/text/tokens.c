/* tokens.c - converts the ids of sentencepiece to those of Wan's tokenizer. Consecutive byte pieces
 * become one unknown token, and the end token is appended. */
#include "harness/engine/text/tokens.h"

#include <stdlib.h>

#include "harness/core/path.h"
#include "harness/engine/text/clean.h"
#include "harness/engine/text/spiece.h"

struct kvr_tokenizer {
    struct kvr_spiece *pieces;
};

enum kvr_status kvr_tokenizer_open(struct kvr_tokenizer **out, const char *path)
{
    char *inside = kvr_path_is_dir(path) ? kvr_path_join(path, "spiece.model") : NULL;
    struct kvr_tokenizer *t = calloc(1, sizeof *t);
    enum kvr_status st;

    *out = NULL;
    if (!t || (kvr_path_is_dir(path) && !inside))
        st = kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    else
        st = kvr_spiece_open(&t->pieces, inside ? inside : path);
    if (st == KVR_OK && (kvr_spiece_unknown(t->pieces) < 0 || kvr_spiece_end(t->pieces) < 0))
        st = kvr_fail(KVR_EFORMAT, "%s: the tokenizer model has no %s", path,
                      kvr_spiece_unknown(t->pieces) < 0 ? "piece for unknown text (<unk>)"
                                                        : "end token (</s>)");
    free(inside);
    if (st != KVR_OK) {
        kvr_tokenizer_close(&t);
        return st;
    }
    *out = t;
    return KVR_OK;
}

void kvr_tokenizer_close(struct kvr_tokenizer **t)
{
    if (!t || !*t)
        return;
    kvr_spiece_close(&(*t)->pieces);
    free(*t);
    *t = NULL;
}

int kvr_tokenizer_count(const struct kvr_tokenizer *t)
{
    return kvr_spiece_count(t->pieces);
}

enum kvr_status kvr_tokenize(const struct kvr_tokenizer *t, const char *text, int max, int *ids,
                             int *n)
{
    bool bytes = false;
    int *pieces, n_pieces;
    char *clean;
    enum kvr_status st;

    *n = 0;
    if (max < 1)
        return kvr_fail(KVR_EINVAL,
                        "tokens: at most %d tokens of a text were requested, need at least 1", max);
    KVR_TRY(kvr_text_clean(text, &clean));
    st = kvr_spiece_encode(t->pieces, clean, &pieces, &n_pieces);
    free(clean);
    KVR_TRY(st);
    for (int i = 0; i < n_pieces && *n < max - 1; i++) {
        const bool byte = kvr_spiece_is_byte(t->pieces, pieces[i]);

        if (!byte)
            ids[(*n)++] = pieces[i];
        else if (!bytes)
            ids[(*n)++] = kvr_spiece_unknown(t->pieces);
        bytes = byte;
    }
    ids[(*n)++] = kvr_spiece_end(t->pieces);
    free(pieces);
    return KVR_OK;
}
