/* tokens.h - the tokenizer of Wan's text encoder.
 *
 *     struct kvr_tokenizer *t;
 *     KVR_TRY(kvr_tokenizer_open(&t, "google/umt5-xxl"));     a spiece.model, or a folder with one
 *     KVR_TRY(kvr_tokenize(t, "salt &amp; pepper", 512, ids, &n));
 *     kvr_tokenizer_close(&t);
 *
 * The text is cleaned (clean.h) and split into pieces of the sentencepiece model. Wan's tokenizer
 * has no byte fallback: a run of unknown characters becomes one unknown token. The last id is
 * always the end token, even if the text is truncated. Special tokens written in a prompt ("</s>",
 * "<pad>", "<extra_id_0>") are encoded as ordinary text, unlike in Python's transformers. */
#ifndef KVR_TEXT_TOKENS_H
#define KVR_TEXT_TOKENS_H

#include "harness/core/status.h"

struct kvr_tokenizer;

enum kvr_status kvr_tokenizer_open(struct kvr_tokenizer **out, const char *path);
void kvr_tokenizer_close(struct kvr_tokenizer **t);     /* accepts NULL */
int kvr_tokenizer_count(const struct kvr_tokenizer *t); /* vocabulary size */

/* Encodes `text` to at most `max` token ids, including the end token, and sets *n to the number of
 * ids, which is at least 1. */
enum kvr_status kvr_tokenize(const struct kvr_tokenizer *t, const char *text, int max, int *ids,
                             int *n);

#endif
