/* score.h - every metric of a cell: the built-in ones, what follows from them, and programs. */
#ifndef KVR_RUN_SCORE_H
#define KVR_RUN_SCORE_H

#include <jansson.h>

#include "metrics/metric.h"

/* Borrowed. */
struct kvr_score_input {
    const json_t *metrics;  /* {"psnr": 1, ...}: names and versions, as in the cell's spec */
    const json_t *commands; /* harness/plan/commands.h; NULL: none */
    const struct kvr_frames *ref, *test;
    const struct kvr_frames *truth; /* as many frames as test, and more; NULL: there is none */
    int given;                      /* frames at the beginning that are the truth's own */
    int chunk, lead;                /* as in struct kvr_metric_input */
    int prefix_step;                /* frames */
    const struct kvr_metric_prompt *prompt; /* NULL: not known */
    const char *video, *frames, *reference; /* paths; NULL: there is none */
};

/* Prefixes are of 50 pixel frames, as the study has them; of latent frames, four of which a
 * pixel frame stands for, whole chunks of at most 12. */
int kvr_score_prefix_step(int n_frames, int n_latent, int frames_per_chunk);

/* Where the weights of learned metrics are, below a data folder (harness/plan/find.h):
 * models/lpips/alexnet.safetensors, models/stlpips/alex_shift_tolerant.pth. "": not there. */
struct kvr_score_weights {
    char lpips[4096], stlpips[4096];
};
void kvr_score_weights(struct kvr_score_weights *w);
/* Names them in the input of a metric, which borrows them. */
void kvr_score_name_weights(struct kvr_metric_input *in, const struct kvr_score_weights *w);

/* A list of {name, unit, n, value, extra, missing, series}. Where there is a truth, each metric
 * that has a NAME_truth has that, too: over the frames behind the given ones, whose places in the
 * series are NULL. Asked for by name where there is no truth it is NULL with that reason. A program
 * that fails gives NULL with the reason; a built-in metric that fails is the status, because that
 * is our own fault. */
enum kvr_status kvr_score(const struct kvr_score_input *in, json_t **out);

/* The same of a cell without frames: everything NULL, with this reason. `in` needs no frames. */
enum kvr_status kvr_score_nothing(const struct kvr_score_input *in, const char *why, json_t **out);

#endif
