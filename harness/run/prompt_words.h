/* prompt_words.h - parses a prompt into the words that describe each chunk, which are an input of
 * the metric prompt_score. */
#ifndef KVR_RUN_PROMPT_WORDS_H
#define KVR_RUN_PROMPT_WORDS_H

#include <limits.h>

#include "harness/engine/model.h"
#include "metrics/metric.h"

struct kvr_prompt_words {
    struct kvr_metric_prompt prompt;
    const char **word; /* words [n_chunks, n_slots], n_slots words per chunk. The struct owns the
                        * array; the model config owns the strings. */
    char probe[PATH_MAX];
};

/* Parses the prompt `text` with the model's vocabulary. If the model has no vocabulary or the
 * prompt cannot be parsed, prompt.n_chunks is 0. `config` must outlive `s`, because `s` points to
 * the strings of `config`. KVR_ENOMEM. */
enum kvr_status kvr_prompt_words_open(struct kvr_prompt_words *s, const char *model_dir,
                                      const struct kvr_model_config *config, const char *text,
                                      int n_chunks);
void kvr_prompt_words_close(struct kvr_prompt_words *s); /* accepts {0} */

#endif
