/* suite.h - a list of prompts with their seeds and length.
 *
 *     name: moviegen-nano
 *     title: one scene, one prompt
 *     model: nano             the model it was written for
 *     frames: 42              latent frames
 *     seed: 1000              the i-th prompt's seed is seed + i
 *     prompts:
 *       - {id: mg01, text: a large red disc bounces over a plain blue background} */
#ifndef KVR_PLAN_SUITE_H
#define KVR_PLAN_SUITE_H

#include <stdint.h>

#include "harness/plan/yaml.h"

struct kvr_prompt_line {
    const char *id, *text;
    int index;                      /* place in its suite */
    const struct kvr_yaml_node *at; /* the text, for messages */
};

struct kvr_suite {
    struct kvr_yaml *doc;             /* owns the text */
    const char *name, *title, *model; /* title, model: "" when absent */
    int frames;                       /* 0 when absent */
    uint64_t seed;
    int n_prompts;
    struct kvr_prompt_line *prompt;
};

enum kvr_status kvr_suite_read(struct kvr_suite *s, const char *path);
void kvr_suite_free(struct kvr_suite *s); /* copes with {0} */

/* The `prompts` list of a suite or of a sweep: maps of id and text. `out` is malloc'ed. */
enum kvr_status kvr_prompts_read(const struct kvr_yaml_node *list, struct kvr_prompt_line **out,
                                 int *n);

#endif
