/* score.h - computes all metrics of a cell: built-in metrics, derived metrics and external
 * programs. */
#ifndef KVR_RUN_SCORE_H
#define KVR_RUN_SCORE_H

#include <jansson.h>

#include "metrics/metric.h"

/* Inputs of the metrics; all pointers are borrowed. */
struct kvr_score_input {
    const json_t *metrics;  /* JSON object that maps the names of metrics to their versions, as in
                             * the cell's spec */
    const json_t *commands; /* harness/plan/commands.h (NULL: no commands) */
    const struct kvr_frames *ref, *test;
    const struct kvr_frames *truth;         /* ground truth, with at least as many frames as `test`
                                             * (NULL: no ground truth) */
    int given;                              /* number of first frames that are copied from the
                                             * ground truth */
    int chunk, lead;                        /* as in struct kvr_metric_input */
    int prefix_step;                        /* step between prefix lengths in frames
                                             * (kvr_metric_derive) */
    const struct kvr_metric_prompt *prompt; /* words of the prompt (NULL: unknown) */
    const char *video, *frames, *reference; /* paths of the cell's files, passed to external
                                             * programs (NULL: no such file) */
};

/* Returns the step between the lengths of prefixes over which metrics are computed. The step is 50
 * frames in pixel space, as in the study. A latent frame decodes to four frames in pixel space. The
 * step over latent frames is the largest multiple of the chunk length up to 12 latent frames. */
int kvr_score_prefix_step(int n_frames, int n_latent, int frames_per_chunk);

/* Paths of the weights of learned metrics in a data folder (harness/plan/find.h):
 * models/lpips/alexnet.safetensors and models/stlpips/alex_shift_tolerant.pth. A path is "" if the
 * file was not found. */
struct kvr_score_weights {
    char lpips[4096], stlpips[4096];
};
void kvr_score_weights(struct kvr_score_weights *w);
/* Sets the paths of weights in a metric's input; the strings are borrowed. */
void kvr_score_name_weights(struct kvr_metric_input *in, const struct kvr_score_weights *w);

/* Computes the metrics as a JSON list of {name, unit, n, value, extra, missing, series}. With
 * ground truth, each metric NAME that has a variant NAME_truth is also computed against the truth,
 * over the frames after the given ones; series entries of given frames are NULL. A NAME_truth
 * requested without ground truth has value NULL and a reason in `missing`. The score of an external
 * program that fails is NULL, with a reason in `missing`. A built-in metric that fails is a bug, so
 * its status is returned. */
enum kvr_status kvr_score(const struct kvr_score_input *in, json_t **out);

/* Makes the list of kvr_score() for a cell without frames: all values are NULL with the reason
 * `why`. The frames of `in` are not used. */
enum kvr_status kvr_score_null(const struct kvr_score_input *in, const char *why, json_t **out);

#endif
