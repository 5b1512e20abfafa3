/* score.h - all metrics of a cell: built-in, derived, and external programs. */
#ifndef KVR_RUN_SCORE_H
#define KVR_RUN_SCORE_H

#include <jansson.h>

#include "metrics/metric.h"

/* Borrowed. */
struct kvr_score_input {
    const json_t *metrics;  /* {"psnr": 1, ...}: names and versions, as in the cell's spec */
    const json_t *commands; /* harness/plan/commands.h; NULL: no commands */
    const struct kvr_frames *ref, *test;
    const struct kvr_frames *truth;         /* at least as many frames as test; NULL: no ground
                                             * truth */
    int given;                              /* leading frames copied from the truth */
    int chunk, lead;                        /* as in struct kvr_metric_input */
    int prefix_step;                        /* in frames (kvr_metric_derive) */
    const struct kvr_metric_prompt *prompt; /* NULL: unknown */
    const char *video, *frames, *reference; /* paths of the cell's files for commands; NULL: no such
                                             * file */
};

/* Prefix step: 50 pixel frames, as in the study; for latent frames, each of four pixel frames,
 * whole chunks of at most 12. */
int kvr_score_prefix_step(int n_frames, int n_latent, int frames_per_chunk);

/* Weights of learned metrics below a data folder (harness/plan/find.h):
 * models/lpips/alexnet.safetensors, models/stlpips/alex_shift_tolerant.pth. "": not found. */
struct kvr_score_weights {
    char lpips[4096], stlpips[4096];
};
void kvr_score_weights(struct kvr_score_weights *w);
/* Sets the paths in a metric's input, which borrows them. */
void kvr_score_name_weights(struct kvr_metric_input *in, const struct kvr_score_weights *w);

/* A list of {name, unit, n, value, extra, missing, series}. With ground truth, a metric that has a
 * NAME_truth is also computed under that name, over the frames after the given ones; the series
 * entries of given frames are NULL. A NAME_truth that is requested without ground truth is NULL,
 * with the reason. A failed program gives NULL with the reason; a failed built-in metric is a bug
 * and is returned as status. */
enum kvr_status kvr_score(const struct kvr_score_input *in, json_t **out);

/* The list for a cell without frames: all values are NULL with the reason `why`. `in` needs no
 * frames. */
enum kvr_status kvr_score_null(const struct kvr_score_input *in, const char *why, json_t **out);

#endif
