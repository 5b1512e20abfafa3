/* embed.h - encodes prompts to text embeddings, and reads and writes packs, the files of such
 * embeddings.
 *
 *     KVR_TRY(kvr_embed(&job, "pack.safetensors", &report));     needs the encoder's 11 GB
 *     KVR_TRY(kvr_embedding_open(&e, "pack.safetensors", "mg01"));
 *     KVR_TRY(kvr_embedding_fill(&e, text_len, text_dim, P));    zeros after the last token
 *     kvr_embedding_close(&e);
 *
 * A pack is a safetensors file with one tensor F32 [tokens, dim] per prompt, whose name is the
 * prompt's id. The pack's metadata has the SHA-256 of the encoder file and of the tokenizer
 * file. */
#ifndef KVR_TEXT_EMBED_H
#define KVR_TEXT_EMBED_H

#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"
#include "harness/core/status.h"

struct kvr_embed_prompt {
    const char *id, *text;
};

struct kvr_embed_job {
    const char *encoder, *tokenizer; /* path of the encoder's weight file, and path of the
                                      * tokenizer's spiece.model or of its folder */
    const char *device;              /* name of the encoder's device (device/names.h) */
    int max_tokens;                  /* maximum number of tokens per text, including the end token;
                                      * longer texts are truncated */
    int n;
    const struct kvr_embed_prompt *prompt;
    /* Called after each batch, when `done` of the n texts are encoded; may be NULL. */
    void (*done)(void *ctx, int done, int n);
    void *ctx;
};

struct kvr_embed_report {
    int dim, longest, n_cut; /* n_cut: number of texts with max_tokens tokens, that is, texts that
                              * were truncated or have exactly this length */
    int64_t n_tokens;
};

/* Encodes all prompts of the job and writes the pack `out`. The peak memory is what encoding about
 * 2048 tokens in one batch needs, plus the size of the pack. Embeddings computed on different
 * devices differ in the last bits. */
enum kvr_status kvr_embed(const struct kvr_embed_job *job, const char *out,
                          struct kvr_embed_report *report);

struct kvr_embedding {
    struct kvr_st *file;
    struct kvr_tensor rows; /* the embedding [n, dim], F32 or BF16, in the mapped file */
    int n, dim;
    char sha256[KVR_SHA256_HEX]; /* hash of the embedding's type, shape and bytes */
};
/* Opens the embedding named `tensor` in a pack. Errors name the file and the tensor; after an error
 * the caller need not close `e`. */
enum kvr_status kvr_embedding_open(struct kvr_embedding *e, const char *path, const char *tensor);
void kvr_embedding_close(struct kvr_embedding *e); /* accepts {0} */
/* Writes the embedding's rows, then rows of zeros, to P [text_len, text_dim]. Returns KVR_EINVAL if
 * the embedding has more than text_len rows, or if its dim is not text_dim. */
enum kvr_status kvr_embedding_fill(const struct kvr_embedding *e, int text_len, int text_dim,
                                   float *P);

/* Finds the text encoder and the tokenizer of a model folder. The encoder is a file models_t5*.pth
 * or models_t5*.safetensors. The tokenizer is the file spiece.model in google/umt5-xxl, in
 * tokenizer, or in the folder itself. Each path is malloc'ed, or NULL if there is no such file. */
enum kvr_status kvr_embed_find(const char *dir, char **encoder, char **tokenizer);

#endif
