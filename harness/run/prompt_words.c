/* prompt_words.c - see prompt_words.h. */
#include "harness/run/prompt_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/workload/prompt.h"

enum kvr_status kvr_prompt_words_open(struct kvr_prompt_words *s, const char *model_dir,
                                      const struct kvr_model_config *config, const char *text,
                                      int n_chunks)
{
    struct kvr_prompt parsed;
    enum kvr_status st;

    *s = (struct kvr_prompt_words){ 0 };
    if (config->n_vocabulary == 0)
        return KVR_OK;
    st = kvr_prompt_parse(config, text, n_chunks, &parsed);
    if (st != KVR_OK)
        return st == KVR_ENOMEM ? st : KVR_OK;
    s->word = calloc((size_t)n_chunks * KVR_PROMPT_SLOTS, sizeof *s->word);
    if (!s->word)
        return kvr_fail(KVR_ENOMEM, "out of memory while allocating the words of a prompt");
    for (int c = 0; c < n_chunks; c++)
        for (int i = 0; i < KVR_PROMPT_SLOTS; i++)
            s->word[c * KVR_PROMPT_SLOTS + i] =
                config->vocabulary[parsed.act[kvr_prompt_act_at(&parsed, c)].ids[i]];
    s->prompt.n_chunks = n_chunks;
    s->prompt.n_slots = KVR_PROMPT_SLOTS;
    s->prompt.word = s->word;
    if ((size_t)snprintf(s->probe, sizeof s->probe, "%s/probe.safetensors", model_dir) <
            sizeof s->probe &&
        access(s->probe, R_OK) == 0)
        s->prompt.probe = s->probe;
    return KVR_OK;
}

void kvr_prompt_words_close(struct kvr_prompt_words *s)
{
    free(s->word);
    *s = (struct kvr_prompt_words){ 0 };
}
