/* worker_text.h - a cell of a language model: its tokens, its teacher, what it adds to the answer.
 *
 *     struct kvr_worker_text t = { .request = r, .spec = s, .out_dir = d, .set = &set, .dev = dev
 * }; KVR_TRY(kvr_worker_text_open(&t, &req));            req.model, path and attend are there
 *     ... kvr_text_run(dev, scheme, &req, NULL, NULL, &result) ...
 *     KVR_TRY(kvr_worker_text_answer(&result, answer));
 *     kvr_worker_text_close(&t); */
#ifndef KVR_RUN_WORKER_TEXT_H
#define KVR_RUN_WORKER_TEXT_H

#include <jansson.h>

#include "harness/store/setting.h"
#include "harness/workload/text.h"

struct kvr_worker_text {
    const json_t *request, *spec; /* borrowed, as all until tokens */
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
void kvr_worker_text_close(struct kvr_worker_text *t); /* accepts a half-open one */

/* Warm-up runs as set; only their times are kept, in `answer`. */
enum kvr_status kvr_worker_text_warm_up(struct kvr_worker_text *t, const struct kvr_scheme *scheme,
                                        json_t *answer);

/* nll, kl, top1 and mass over all scored tokens, their series by bin; the number of tokens. */
enum kvr_status kvr_worker_text_answer(const struct kvr_text_result *r, json_t *answer);

#endif
