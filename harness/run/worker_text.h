/* worker_text.h - loads the inputs of a language model's cell (the text's tokens and the teacher),
 * and adds the cell's results to the worker's JSON answer. The teacher is the reference: the
 * results of a forward pass over the whole text with a BF16 KV cache (workload/text.h).
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
    const json_t *request, *spec; /* the caller sets and owns all fields before `tokens` */
    const char *out_dir;
    const struct kvr_settings *set;
    struct kvr_dev *dev;
    struct kvr_tokens tokens;
    struct kvr_teacher teacher;
    const struct kvr_text_request *req;
};

/* Reads the tokens and the teacher's keys, values and hidden states, and sets the fields of `req`
 * that the caller did not set. The teacher is read from out_dir/teacher if another cell with the
 * same text stored it. Otherwise the teacher is computed and stored there. */
enum kvr_status kvr_worker_text_open(struct kvr_worker_text *t, struct kvr_text_request *req);
void kvr_worker_text_close(struct kvr_worker_text *t); /* accepts a struct for which
                                                        * kvr_worker_text_open failed */

/* Runs the warm-up passes and adds their times to `answer`; other results are discarded. */
enum kvr_status kvr_worker_text_warm_up(struct kvr_worker_text *t, const struct kvr_scheme *scheme,
                                        json_t *answer);

/* Adds four metrics to the answer: nll (negative log-likelihood), kl (KL divergence from the
 * teacher's predictions), top1 (rate at which the most likely token is the teacher's) and mass
 * (attention weight on the prefix). A metric's value is the mean over all scored tokens, and its
 * `n` is their number. A metric's series has one value per bin of prefix lengths
 * (workload/text.h). */
enum kvr_status kvr_worker_text_answer(const struct kvr_text_result *r, json_t *answer);

#endif
