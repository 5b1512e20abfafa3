/* prompt.h - parses English prompts for models with their own vocabulary.
 *
 *     struct kvr_prompt p;
 *     KVR_TRY(kvr_prompt_parse(cfg, "a large red disc bounces over a plain blue background",
 *                              14, &p));
 *     ... p.act[kvr_prompt_act_at(&p, chunk)].ids ...
 *
 * A prompt is one or more acts (parts of the video), separated by ";", "|" or "; then". The grammar
 * of an act is:
 *
 *     act        = ["@" chunk ":"] object ["in front of" object]
 *                  [("over" | "on" | "against") background] ["," camera]
 *     object     = words in any order: size, colour, texture, shape, motion, direction
 *     background = kind, colour ["background"]
 *     camera     = "static camera" | "camera" ("static" | "pans" direction)
 *
 * An entry of the model's vocabulary is a category and a word, such as "color:red"; a prompt
 * contains only the word ("red"). A motion word may be inflected (bounces, bounce, bouncing). The
 * parser ignores the words in the array `fillers` (prompt.c), such as articles. If an act does not
 * give a property of an object, the background or the camera, the property keeps its value from the
 * previous act. In the first act, object 1 is by default a large, red, solid disc without motion.
 * There is no object 2 unless the prompt names it; object 2 is by default white and otherwise has
 * the same defaults as object 1. By default the camera is static, and the background is plain and
 * blue, or plain and white if object 1 is blue. Only an object with the motion "drifts" has a
 * direction, by default right.
 *
 * An act with "@" chunk begins at that chunk. If act k of n acts, counted from 0, has no "@" chunk,
 * it begins at chunk floor(k * n_chunks / n). */
#ifndef KVR_WORKLOAD_PROMPT_H
#define KVR_WORKLOAD_PROMPT_H

#include "harness/engine/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An act of a prompt is encoded as 16 vocabulary indices: six for object 1 (size, colour, texture,
 * shape, motion, direction), six for object 2, then background, background colour and camera. The
 * last index is padding. */
enum { KVR_PROMPT_SLOTS = 16, KVR_MAX_ACTS = 32, KVR_PROMPT_MAX = 4096 };

struct kvr_prompt {
    int n_acts;
    struct {
        int from_chunk;            /* first chunk of the act: 0 for the first act, and larger for
                                    * each further act */
        int ids[KVR_PROMPT_SLOTS]; /* vocabulary indices of the act's words */
    } act[KVR_MAX_ACTS];
};

/* Parses `text` for a video of n_chunks chunks. Returns KVR_EINVAL if the text does not match the
 * grammar. For an unknown word, the error message has its position, counted in characters from 1,
 * and the most similar known word. Returns KVR_EUNSUPPORTED if the model has no vocabulary, if the
 * vocabulary lacks a default word, or if the model's text length is not KVR_PROMPT_SLOTS. After an
 * error `out` is unchanged. */
enum kvr_status kvr_prompt_parse(const struct kvr_model_config *cfg, const char *text, int n_chunks,
                                 struct kvr_prompt *out);

/* Returns the index of the act that contains `chunk`. */
int kvr_prompt_act_at(const struct kvr_prompt *p, int chunk);

#ifdef __cplusplus
}
#endif
#endif
