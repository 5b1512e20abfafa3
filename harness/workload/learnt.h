/* learnt.h - tells which vocabulary words occur in a model's training data.
 *
 *     struct kvr_learnt l;
 *     KVR_TRY(kvr_learnt_read(&l, cfg, "models/nano"));
 *     if (l.known && !l.word[id]) ...                 the word is not in the training data
 *     kvr_learnt_free(&l);
 *
 * These words are listed in learnt.json in the model's folder: {"words": [...], "objects": n}. n is
 * the largest number of objects in a training prompt. The list is not in config.json, so that
 * changing the list does not change the model's hash. */
#ifndef KVR_WORKLOAD_LEARNT_H
#define KVR_WORKLOAD_LEARNT_H

#include "harness/workload/prompt.h"

struct kvr_learnt {
    bool known;    /* whether the model's folder has a learnt.json; false: the training words are
                    * unknown */
    bool *word;    /* [cfg->n_vocabulary]; owned */
    int n_objects; /* largest number of objects per training prompt, 1 or 2 */
};

/* Reads learnt.json, if the model's folder has it. Returns KVR_EFORMAT if a listed word is not in
 * the vocabulary; the error message names this word. */
enum kvr_status kvr_learnt_read(struct kvr_learnt *out, const struct kvr_model_config *cfg,
                                const char *dir);
void kvr_learnt_free(struct kvr_learnt *l);

/* Returns the first word of the prompt that the training data lack, as a vocabulary entry such as
 * "size:small". Returns "a second object" if the prompt has two objects, but training prompts had
 * only one. Returns NULL in all other cases, and whenever the model's folder has no learnt.json.
 * The string is static or owned by `cfg`. */
const char *kvr_learnt_lacks(const struct kvr_learnt *l, const struct kvr_model_config *cfg,
                             const struct kvr_prompt *p);

#endif
