/* suite.h - a list of prompts with their seeds and length.
 *
 *     name: moviegen-nano
 *     title: one scene, one prompt
 *     model: nano             the intended model
 *     frames: 42              latent frames
 *     seed: 1000              the i-th prompt's seed is seed + i
 *     prompts:
 *       - {id: mg01, text: a large red disc bounces over a plain blue background}
 *       - {id: cut1, shots: [{text: a red disc, chunks: 2}, {text: a blue square}]}
 *
 * A prompt of several shots becomes one line with each shot's first chunk (workload/shots.h); the
 * last shot lasts to the end. The embeddings of the shots are the tensors `cut1.1`, `cut1.2`, ...
 * of a pack, or each shot names its own tensor.
 *
 * `held_out` marks a prompt with a word outside the model's training; `kvreel settle` skips it:
 *
 *       - {id: mn181, text: a small red disc ..., held_out: small}
 *
 * Rollouts that continue recorded clips and are compared with the clips' continuation:
 *
 *     truth: ../../models/nano/truth.safetensors    path from this file; tensor: the prompt's id
 *     given: 6                                      latent frames of the clip that open the rollout
 *     prompts:
 *       - {id: ct01, text: ...}
 *       - {id: ct02, text: ..., truth: {file: F, tensor: T}, given: 9}    or prompt by prompt
 *
 * Image to video (Wan 2.2): the first frame is an image of the video's size; path from this file:
 *
 *       - {id: dog1, text: ..., image: dog.png}
 *
 * Texts for a language model, as token ids; `text` is only a description:
 *
 *     tokens: texts.safetensors        path from this file; I32, tensor: the prompt's id
 *     prompts:
 *       - {id: gpl-3, text: the GNU GPL}
 *       - {id: mpl, text: ..., tokens: {file: F, tensor: T}}
 *
 * Prompt embeddings written by `kvreel embed`:
 *
 *     embeddings: pack.safetensors     path from this file; F32 or BF16 [tokens, dim], tensor: the
 *     prompts:                         prompt's id
 *       - {id: mg01, text: ...} */
#ifndef KVR_PLAN_SUITE_H
#define KVR_PLAN_SUITE_H

#include <stdint.h>

#include "harness/plan/yaml.h"

/* Frames of a recorded clip, U8 [n, height, width, 3] in a safetensors file. Belongs to the
 * document. */
struct kvr_prompt_truth {
    const char *path, *tensor;
    char sha256[65]; /* hash of the frames */
    int n, height, width;
    int given;                                 /* latent frames, at least 1 */
    const struct kvr_yaml_node *at, *given_at; /* for messages */
};

/* A first frame, in a file that workload/image.h reads. Belongs to the document. */
struct kvr_prompt_image {
    const char *path;
    char sha256[65]; /* hash of the image's RGB bytes */
    int height, width;
    const struct kvr_yaml_node *at; /* for messages */
};

/* Token ids, integers [n] in a safetensors file. Belongs to the document. */
struct kvr_prompt_tokens {
    const char *path, *tensor;
    char sha256[65]; /* hash of the ids */
    int n;
    const struct kvr_yaml_node *at; /* for messages */
};

/* An embedding, F32 or BF16 [n, dim] in a safetensors file. Belongs to the document. */
struct kvr_prompt_embedding {
    const char *path, *tensor;
    char sha256[65]; /* hash as in struct kvr_embedding */
    int n, dim;
    const struct kvr_prompt_embedding *next; /* embedding of the next shot; NULL: this is the last
                                              * shot */
    const struct kvr_yaml_node *at;          /* for messages */
};

struct kvr_prompt_line {
    const char *id, *text;
    const char *held_out; /* a word of the text outside the model's training; NULL: there is none */
    int index;            /* index in its suite */
    const struct kvr_yaml_node *at;               /* the text, for messages */
    const struct kvr_prompt_truth *truth;         /* NULL: no recorded clip */
    const struct kvr_prompt_image *image;         /* NULL: the first frame is generated */
    const struct kvr_prompt_tokens *tokens;       /* NULL: the prompt is not for a language model */
    const struct kvr_prompt_embedding *embedding; /* NULL: the text is encoded */
};

struct kvr_suite {
    struct kvr_yaml *doc;             /* owns the text */
    const char *name, *title, *model; /* title, model: "" if absent */
    int frames;                       /* 0 if absent */
    uint64_t seed;
    int n_prompts;
    struct kvr_prompt_line *prompt;
};

enum kvr_status kvr_suite_read(struct kvr_suite *s, const char *path);
/* Reads s->doc, which is freed on failure; `path` is used in messages. */
enum kvr_status kvr_suite_read_doc(struct kvr_suite *s, const char *path);

/* Makes a suite of this name from a text file with one prompt per line (prompt_list.h). n > 0: only the first
 * n. embeddings: path of a pack, relative to the working directory; may be NULL. */
struct kvr_suite_list {
    const char *name, *path, *embeddings;
    int n;
};
/* *absent is true if the file is missing; the suite then has n prompts without text. KVR_ENOTFOUND:
 * the file is missing and n is 0. */
enum kvr_status kvr_suite_read_lines(struct kvr_suite *s, const struct kvr_suite_list *list,
                                     bool *absent);
void kvr_suite_free(struct kvr_suite *s); /* accepts {0} */

/* Reads the `prompts` list of a suite or sweep: maps with id, text and optionally truth, given and
 * tokens, whose defaults are in `defaults` (a map, may be NULL). `out` is malloc'ed; its strings
 * belong to the document of `list`. Files of truth and tokens are read once, for a check and a
 * hash. */
enum kvr_status kvr_prompts_read(struct kvr_yaml *doc, const struct kvr_yaml_node *list,
                                 const struct kvr_yaml_node *defaults, struct kvr_prompt_line **out,
                                 int *n);

#endif
