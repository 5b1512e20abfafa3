/* learnt.h - which words of a model's vocabulary its training has taught it.
 *
 *     struct kvr_learnt l;
 *     KVR_TRY(kvr_learnt_read(&l, cfg, "models/nano"));
 *     if (l.told && !l.word[id]) ...                 the grammar knows the word, the model does not
 *     kvr_learnt_free(&l);
 *
 * The list is a file of its own, learnt.json {"words": [...], "objects": n}: what is said of a
 * model does not change the model, and config.json is part of what its hash is of. */
#ifndef KVR_WORKLOAD_LEARNT_H
#define KVR_WORKLOAD_LEARNT_H

#include "harness/workload/prompt.h"

struct kvr_learnt {
    bool told;     /* false: the folder has no learnt.json, nothing is known */
    bool *word;    /* [cfg->n_vocabulary]; owned */
    int n_objects; /* objects of a prompt that were learnt: 1 or 2 */
};

/* KVR_EFORMAT names a word that the vocabulary has not. */
enum kvr_status kvr_learnt_read(struct kvr_learnt *out, const struct kvr_model_config *cfg,
                                const char *dir);
void kvr_learnt_free(struct kvr_learnt *l);

/* The first word of the prompt that was not in training, as in the vocabulary ("size:small"), or
 * "a second object"; NULL: none, or the model does not list them. Borrowed from `cfg`. */
const char *kvr_learnt_lacks(const struct kvr_learnt *l, const struct kvr_model_config *cfg,
                             const struct kvr_prompt *p);

#endif
