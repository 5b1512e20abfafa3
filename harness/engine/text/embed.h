/* embed.h - encodes prompts, and files of their embeddings (packs).
 *
 *     KVR_TRY(kvr_embed(&job, "pack.safetensors", &report));     needs the encoder's 11 GB
 *     KVR_TRY(kvr_embedding_open(&e, "pack.safetensors", "mg01"));
 *     KVR_TRY(kvr_embedding_fill(&e, text_len, text_dim, P));    zeros after the last token
 *     kvr_embedding_close(&e);
 *
 * A pack is a safetensors file with one tensor F32 [tokens, dim] per prompt, named by its id. Its
 * metadata has the SHA-256 of the encoder's and the tokenizer's files. */
#ifndef KVR_TEXT_EMBED_H
#define KVR_TEXT_EMBED_H

#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"
#include "harness/core/status.h"

struct kvr_embed_prompt {
    const char *id, *text;
};

struct kvr_embed_job {
    const char *encoder, *tokenizer; /* files; the tokenizer may be a folder with spiece.model */
    const char *device;              /* device that encodes (device/names.h) */
    int max_tokens;                  /* longer texts are truncated before their end token */
    int n;
    const struct kvr_embed_prompt *prompt;
    /* Called after each batch with the number of finished texts; may be NULL. */
    void (*done)(void *ctx, int done, int n);
    void *ctx;
};

struct kvr_embed_report {
    int dim, longest, n_cut; /* texts longer than max_tokens */
    int64_t n_tokens;
};

/* Peak memory: the encoder with about 2048 tokens, plus the pack. Results on different devices
 * differ in the last bits. */
enum kvr_status kvr_embed(const struct kvr_embed_job *job, const char *out,
                          struct kvr_embed_report *report);

struct kvr_embedding {
    struct kvr_st *file;
    struct kvr_tensor rows; /* F32 or BF16 [n, dim], in the mapped file */
    int n, dim;
    char sha256[KVR_SHA256_HEX]; /* hash of the tensor's type, shape and bytes */
};
/* KVR_EIO, KVR_EFORMAT, KVR_ENOTFOUND and KVR_ENAN give file and tensor; on failure there is
 * nothing to close. */
enum kvr_status kvr_embedding_open(struct kvr_embedding *e, const char *path, const char *tensor);
void kvr_embedding_close(struct kvr_embedding *e); /* accepts {0} */
/* Writes the embedding and then zeros to P [text_len, text_dim]. KVR_EINVAL: the embedding has more
 * than text_len tokens, or is not text_dim wide. */
enum kvr_status kvr_embedding_fill(const struct kvr_embedding *e, int text_len, int text_dim,
                                   float *P);

/* Finds the encoder and tokenizer of a model folder: models_t5*.pth (or .safetensors);
 * google/umt5-xxl, tokenizer or the folder itself, with spiece.model. The paths are malloc'ed;
 * NULL: not found. */
enum kvr_status kvr_embed_find(const char *dir, char **encoder, char **tokenizer);

#endif
