/* score.h - computes all metrics of a cell (one measured run): built-in metrics, values derived
 * from them, and scores of external programs. */
#ifndef KVR_RUN_SCORE_H
#define KVR_RUN_SCORE_H

#include <jansson.h>

#include "metrics/metric.h"

/* Inputs of the metrics. The caller owns all pointers. */
struct kvr_score_input {
    const json_t *metrics;  /* JSON object that maps each requested metric's name to its version */
    const json_t *commands; /* external metric programs (plan/commands.h; NULL: none) */
    /* ref: frames of the cell's baseline; test: frames of the cell */
    const struct kvr_frames *ref, *test;
    const struct kvr_frames *truth;         /* frames of the ground truth, at least as many as
                                             * `test` has (NULL: no ground truth) */
    int given;                              /* number of leading frames of `test` that are copies of
                                             * the ground truth */
    int chunk, lead;                        /* chunk: frames generated together (0: unknown); lead:
                                             * number of frames by which the first chunk is shorter
                                             * than the others (struct kvr_metric_input) */
    int prefix_step;                        /* metrics are also computed over prefixes of the video,
                                             * of prefix_step, 2 * prefix_step, 3 * prefix_step, ...
                                             * frames */
    const struct kvr_metric_prompt *prompt; /* for each chunk, the words of the prompt that are in
                                             * the model's vocabulary, for the metric prompt_score
                                             * (NULL: unknown) */
    const char *video, *frames, *reference; /* paths of the cell's files, passed to external
                                             * programs (NULL: no such file) */
};

/* Returns the value for prefix_step of struct kvr_score_input. For decoded videos it is 50 frames,
 * as in the published study that kvreel reproduces. For latent frames it is the largest multiple of
 * the chunk length that is at most 12 (50 / 4, rounded down), because a latent frame stands for
 * four decoded frames. For chunks of more than 12 latent frames, it is the chunk length. */
int kvr_score_prefix_step(int n_frames, int n_latent, int frames_per_chunk);

/* Paths of the weights of learned metrics in a data folder (harness/plan/find.h):
 * models/lpips/alexnet.safetensors and models/stlpips/alex_shift_tolerant.pth. A path is "" if its
 * file was not found. */
struct kvr_score_weights {
    char lpips[4096], stlpips[4096];
};
void kvr_score_weights(struct kvr_score_weights *w);
/* Sets the paths of the LPIPS and ST-LPIPS weights in a metric's input `in`. The paths point into
 * `w`, which must outlive `in`. */
void kvr_score_name_weights(struct kvr_metric_input *in, const struct kvr_score_weights *w);

/* Computes the metrics as a JSON array of {name, unit, n, value, extra, missing, series}. If there
 * is ground truth, each metric NAME that has a variant NAME_truth is also computed against the
 * ground truth. This variant excludes the first in->given frames, which are copies of the ground
 * truth: their entries in the metric's per-frame `series` are NULL. If a variant NAME_truth is
 * requested without ground truth, its value is NULL, with a reason in `missing`. If an external
 * program fails, its score is NULL, with a reason in `missing`. If a built-in metric fails, or if
 * kvreel has no memory to run a program, the function returns the status. */
enum kvr_status kvr_score(const struct kvr_score_input *in, json_t **out);

/* Like kvr_score(), for a cell without frames: all values are NULL, with the reason `why` in
 * `missing`. The frames of `in` are not used. */
enum kvr_status kvr_score_null(const struct kvr_score_input *in, const char *why, json_t **out);

#endif
