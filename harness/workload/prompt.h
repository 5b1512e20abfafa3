/* prompt.h - parses English prompts for models with their own vocabulary.
 *
 *     struct kvr_prompt p;
 *     KVR_TRY(kvr_prompt_parse(cfg, "a large red disc bounces over a plain blue background",
 *                              14, &p));
 *     ... p.act[kvr_prompt_act_at(&p, chunk)].ids ...
 *
 * A prompt is one or more acts, separated by ";" or "|" ("; then" is equivalent):
 *
 *     act        = ["@" chunk ":"] object ["in front of" object]
 *                  [("over" | "on" | "against") background] ["," camera]
 *     object     = words in any order: size, colour, texture, shape, motion, direction
 *     background = kind, colour ["background"]
 *     camera     = "static camera" | "camera" ("static" | "pans" direction)
 *
 * The words are those of the model's vocabulary ("color:red" is read as "red"). Inflected forms of
 * a motion are accepted (bounce, bouncing); articles and similar words are skipped. A property that
 * an act omits keeps its value from the previous act. The defaults of the first act are: large,
 * red, solid, disc, still, no second object, a plain background, blue (white behind a blue object),
 * a static camera; a second object: large, white, solid, disc, still. A drift without a direction
 * goes right; the other motions have none.
 *
 * An act begins at its given chunk; without one, the k-th of n acts begins at floor(k * chunks /
 * n). */
#ifndef KVR_WORKLOAD_PROMPT_H
#define KVR_WORKLOAD_PROMPT_H

#include "harness/engine/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Slots: size, colour, texture, shape, motion, direction of object 1; the same for object 2;
 * background, its colour, camera; padding. */
enum { KVR_PROMPT_SLOTS = 16, KVR_MAX_ACTS = 32, KVR_PROMPT_MAX = 4096 };

struct kvr_prompt {
    int n_acts;
    struct {
        int from_chunk;            /* act 0 begins at 0; ascending */
        int ids[KVR_PROMPT_SLOTS]; /* vocabulary indices */
    } act[KVR_MAX_ACTS];
};

/* Parses `text` for a video of `n_chunks` chunks. KVR_EINVAL: a text outside the grammar; the
 * message gives an unknown word, its position (characters from 1) and the nearest known word.
 * KVR_EUNSUPPORTED: a model without a vocabulary, or without the words or the 16 slots of the
 * grammar. On failure `out` is unchanged. */
enum kvr_status kvr_prompt_parse(const struct kvr_model_config *cfg, const char *text, int n_chunks,
                                 struct kvr_prompt *out);

/* Index of the act at `chunk`. */
int kvr_prompt_act_at(const struct kvr_prompt *p, int chunk);

#ifdef __cplusplus
}
#endif
#endif
