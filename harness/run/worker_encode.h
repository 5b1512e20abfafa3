/* worker_encode.h - encodes prompts in a worker process, whose exit frees the device memory.
 *
 * The request to the worker is {"encode": {encoder, tokenizer, device, max_tokens, threads, pack,
 * prompts: [{id, text}]}}. The worker's JSON answer has the keys outcome, status and reason. */
#ifndef KVR_RUN_WORKER_ENCODE_H
#define KVR_RUN_WORKER_ENCODE_H

#include <jansson.h>

#include "harness/engine/text/embed.h"

/* Called in the parent process: starts a worker that sees only the GPU with UUID `gpu` ("": all
 * GPUs), and waits for it. Returns KVR_EINTERRUPTED if the callback `stopped` returned true; the
 * worker is then killed. `stopped` may be NULL. */
enum kvr_status kvr_encode_in_worker(const struct kvr_embed_job *job, const char *pack, int threads,
                                     const char *gpu, bool (*stopped)(void));

/* Called in the worker process: encodes the prompts in the request's entry `encode`. */
enum kvr_status kvr_worker_encode(const json_t *encode);

#endif
