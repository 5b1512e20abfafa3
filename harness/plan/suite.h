/* suite.h - a suite, which is a list of prompts with their seeds and a default number of frames.
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
 * The shots of a prompt are stored as one line of text, with the index of each shot's first chunk
 * (workload/shots.h). The line of `cut1` is `@0: a red disc; @2: a blue square`. The last shot
 * lasts to the end of the rollout. The embeddings of the shots of prompt `cut1` are the tensors
 * `cut1.1`, `cut1.2`, ... of the file `embeddings`, unless each shot names its own tensor.
 *
 * `held_out` gives a word of the prompt's text; the model was not trained on this word. The command
 * `kvreel settle`, which measures more prompts to decide claims, does not use such prompts:
 *
 *       - {id: mn181, text: a small red disc ..., held_out: small}
 *
 * With `truth`, a rollout starts with the first `given` frames of a recorded clip and is compared
 * with the rest of the clip:
 *
 *     truth: ../../models/nano/truth.safetensors    path from this file; tensor: the prompt's id
 *     given: 6                                      latent frames of the clip that open the rollout
 *     prompts:
 *       - {id: ct01, text: ...}
 *       - {id: ct02, text: ..., truth: {file: F, tensor: T}, given: 9}    or prompt by prompt
 *
 * With `image` (image to video, Wan 2.2), the first frame is an image of the video's size, at a
 * path relative to this file:
 *
 *       - {id: dog1, text: ..., image: dog.png}
 *
 * With `tokens`, the suite has texts for a language model as token ids, and `text` is only a
 * description:
 *
 *     tokens: texts.safetensors        path from this file; I32, tensor: the prompt's id
 *     prompts:
 *       - {id: gpl-3, text: the GNU GPL}
 *       - {id: mpl, text: ..., tokens: {file: F, tensor: T}}
 *
 * `embeddings` names a file of prompt embeddings that `kvreel embed` has written; kvreel then needs
 * no text encoder:
 *
 *     embeddings: pack.safetensors     path from this file; F32 or BF16 [tokens, dim], tensor: the
 *     prompts:                         prompt's id
 *       - {id: mg01, text: ...} */
#ifndef KVR_PLAN_SUITE_H
#define KVR_PLAN_SUITE_H

#include <stdint.h>

#include "harness/plan/yaml.h"

/* Frames of a recorded clip, U8 [n, height, width, 3] in a safetensors file. The struct is freed
 * with the prompt's YAML document. */
struct kvr_prompt_truth {
    const char *path, *tensor;
    char sha256[65]; /* SHA-256 of the clip's bytes */
    int n, height, width;
    int given;                                 /* number of latent frames of the clip that start the
                                                * rollout, at least 1 */
    const struct kvr_yaml_node *at, *given_at; /* for messages */
};

/* Image file with the first frame of a video (workload/image.h). The struct is freed with the
 * prompt's YAML document. */
struct kvr_prompt_image {
    const char *path;
    char sha256[65]; /* SHA-256 of the image's RGB bytes */
    int height, width;
    const struct kvr_yaml_node *at; /* for messages */
};

/* Token ids of a text, integers [n] in a safetensors file. The struct is freed with the prompt's
 * YAML document. */
struct kvr_prompt_tokens {
    const char *path, *tensor;
    char sha256[65]; /* SHA-256 of the ids */
    int n;
    const struct kvr_yaml_node *at; /* for messages */
};

/* Embedding of a prompt of n text tokens, F32 or BF16 [n, dim] in a safetensors file. The struct is
 * freed with the prompt's YAML document. */
struct kvr_prompt_embedding {
    const char *path, *tensor;
    char sha256[65]; /* SHA-256 of the embedding's type, shape and bytes (struct kvr_embedding) */
    int n, dim;
    const struct kvr_prompt_embedding *next; /* embedding of the next shot (NULL: this is the last
                                              * shot) */
    const struct kvr_yaml_node *at;          /* for messages */
};

struct kvr_prompt_line {
    const char *id, *text;
    const char *held_out; /* word in `text`; the model was not trained on this word (NULL: no such
                           * word) */
    int index;            /* index of the prompt in its suite */
    const struct kvr_yaml_node *at;               /* YAML node of `text`, for error messages */
    const struct kvr_prompt_truth *truth;         /* recorded clip (NULL: no clip) */
    const struct kvr_prompt_image *image;         /* image with the first frame (NULL: the frame is
                                                   * generated) */
    const struct kvr_prompt_tokens *tokens;       /* token ids for a language model (NULL: the
                                                   * prompt is for a video model) */
    const struct kvr_prompt_embedding *embedding; /* embedding of the prompt (NULL: a text encoder
                                                   * encodes `text`) */
};

struct kvr_suite {
    struct kvr_yaml *doc;             /* owns the strings */
    const char *name, *title, *model; /* title, model: "" if absent */
    int frames;                       /* 0 if absent */
    uint64_t seed;
    int n_prompts;
    struct kvr_prompt_line *prompt;
};

enum kvr_status kvr_suite_read(struct kvr_suite *s, const char *path);
/* Parses the YAML document s->doc. Error messages name `path`. On failure, s->doc is freed. */
enum kvr_status kvr_suite_read_doc(struct kvr_suite *s, const char *path);

/* Arguments of kvr_suite_read_lines. `name` is the name of the suite, and `path` a text file with
 * one prompt per line (prompt_list.h). `embeddings` is a safetensors file of embeddings, relative
 * to the working directory, or NULL. If n > 0, only the first n prompts are used. */
struct kvr_suite_list {
    const char *name, *path, *embeddings;
    int n;
};
/* Makes a suite from a text file. If the file is missing, *absent is true and the suite has n
 * prompts with placeholder texts. KVR_ENOTFOUND: the file is missing and n is 0. */
enum kvr_status kvr_suite_read_lines(struct kvr_suite *s, const struct kvr_suite_list *list,
                                     bool *absent);
void kvr_suite_free(struct kvr_suite *s); /* accepts {0} */

/* Reads the list `prompts` of a suite or sweep. Each prompt is a map with id and either text or
 * shots. The keys truth, given, tokens, embeddings, image and held_out are optional. If a prompt
 * omits truth, given, tokens or embeddings, the value in the map `defaults` is used. `defaults` may
 * be NULL. The caller frees *out, whose strings belong to the document of `list`. The function
 * reads every file that a prompt names, to check it and to compute its hash. */
enum kvr_status kvr_prompts_read(struct kvr_yaml *doc, const struct kvr_yaml_node *list,
                                 const struct kvr_yaml_node *defaults, struct kvr_prompt_line **out,
                                 int *n);

#endif
