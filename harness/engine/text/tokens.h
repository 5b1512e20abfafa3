/* tokens.h - the ids that Wan feeds its text encoder.
 *
 *     struct kvr_tokenizer *t;
 *     KVR_TRY(kvr_tokenizer_open(&t, "google/umt5-xxl"));     a spiece.model, or a folder with one
 *     KVR_TRY(kvr_tokenize(t, "salt &amp; pepper", 512, ids, &n));
 *     kvr_tokenizer_close(&t);
 *
 * The text is cleaned (clean.h) and cut into pieces as the model file says. Wan's own tokenizer has
 * no bytes to fall back to: a run of them is one unknown piece. The end token is always there, also
 * behind a text that was cut off. Words that stand for special tokens (a literal "</s>", "<pad>",
 * "<extra_id_0>") are ordinary text here, tokens in Python's transformers. */
#ifndef KVR_TEXT_TOKENS_H
#define KVR_TEXT_TOKENS_H

#include "harness/core/status.h"

struct kvr_tokenizer;

enum kvr_status kvr_tokenizer_open(struct kvr_tokenizer **out, const char *path);
void kvr_tokenizer_close(struct kvr_tokenizer **t);     /* copes with NULL */
int kvr_tokenizer_count(const struct kvr_tokenizer *t); /* ids are below it */

/* ids [max]; *n >= 1 of them are used. */
enum kvr_status kvr_tokenize(const struct kvr_tokenizer *t, const char *text, int max, int *ids,
                             int *n);

#endif
