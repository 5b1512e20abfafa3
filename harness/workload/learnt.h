/* learnt.h - the vocabulary words in a model's training data.
 *
 *     struct kvr_learnt l;
 *     KVR_TRY(kvr_learnt_read(&l, cfg, "models/nano"));
 *     if (l.known && !l.word[id]) ...                 the word is in the vocabulary, not in the training data
 *     kvr_learnt_free(&l);
 *
 * The list is in learnt.json {"words": [...], "objects": n}, not in config.json, which is part of
 * the model's hash. */
#ifndef KVR_WORKLOAD_LEARNT_H
#define KVR_WORKLOAD_LEARNT_H

#include "harness/workload/prompt.h"

struct kvr_learnt {
    bool known;    /* false: the folder has no learnt.json */
    bool *word;    /* [cfg->n_vocabulary]; owned */
    int n_objects; /* objects per prompt in training: 1 or 2 */
};

/* KVR_EFORMAT: a word that is not in the vocabulary, with the word. */
enum kvr_status kvr_learnt_read(struct kvr_learnt *out, const struct kvr_model_config *cfg,
                                const char *dir);
void kvr_learnt_free(struct kvr_learnt *l);

/* The first word of the prompt outside the training data, as in the vocabulary ("size:small"), or
 * "a second object"; NULL: all words are in the training data, or the folder has no list. Borrowed
 * from `cfg`. */
const char *kvr_learnt_lacks(const struct kvr_learnt *l, const struct kvr_model_config *cfg,
                             const struct kvr_prompt *p);

#endif
