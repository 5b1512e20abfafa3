/* prompt_words.h - the words of a prompt per chunk, for the metric prompt_score. */
#ifndef KVR_RUN_PROMPT_WORDS_H
#define KVR_RUN_PROMPT_WORDS_H

#include <limits.h>

#include "harness/engine/model.h"
#include "metrics/metric.h"

struct kvr_prompt_words {
    struct kvr_metric_prompt prompt;
    const char **word; /* owned; the words themselves belong to the config */
    char probe[PATH_MAX];
};

/* `config` must outlive `s`. Without a vocabulary, or for a prompt it cannot parse, prompt.n_chunks
 * is 0. KVR_ENOMEM. */
enum kvr_status kvr_prompt_words_open(struct kvr_prompt_words *s, const char *model_dir,
                                      const struct kvr_model_config *config, const char *text,
                                      int n_chunks);
void kvr_prompt_words_close(struct kvr_prompt_words *s); /* accepts {0} */

#endif
