/* worker_text.h - a language model's cell in a worker: tokens, teacher, and additions to the
 * answer.
 *
 *     struct kvr_worker_text t = { .request = r, .spec = s, .out_dir = d, .set = &set, .dev = dev };
 *     KVR_TRY(kvr_worker_text_open(&t, &req));            req.model, path and attend are set
 *     ... kvr_text_run(dev, scheme, &req, NULL, NULL, &result) ...
 *     KVR_TRY(kvr_worker_text_answer(&result, answer));
 *     kvr_worker_text_close(&t); */
#ifndef KVR_RUN_WORKER_TEXT_H
#define KVR_RUN_WORKER_TEXT_H

#include <jansson.h>

#include "harness/store/setting.h"
#include "harness/workload/text.h"

struct kvr_worker_text {
    const json_t *request, *spec; /* borrowed, like all fields before `tokens` */
    const char *out_dir;
    const struct kvr_settings *set;
    struct kvr_dev *dev;
    struct kvr_tokens tokens;
    struct kvr_teacher teacher;
    const struct kvr_text_request *req;
};

/* Completes the request. The teacher is read from out_dir/teacher if another cell of the text
 * stored it, else computed and stored. */
enum kvr_status kvr_worker_text_open(struct kvr_worker_text *t, struct kvr_text_request *req);
void kvr_worker_text_close(struct kvr_worker_text *t); /* accepts a partially opened one */

/* Runs the warm-up rollouts; only their times are kept, in `answer`. */
enum kvr_status kvr_worker_text_warm_up(struct kvr_worker_text *t, const struct kvr_scheme *scheme,
                                        json_t *answer);

/* Adds nll, kl, top1 and mass over all scored tokens, their series by bin, and the number of
 * tokens. */
enum kvr_status kvr_worker_text_answer(const struct kvr_text_result *r, json_t *answer);

#endif
