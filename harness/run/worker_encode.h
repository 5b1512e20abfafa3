/* worker_encode.h - encodes prompts in a worker process, whose exit frees the device memory.
 *
 * The request to the worker is {"encode": {encoder, tokenizer, device, max_tokens, threads, pack,
 * prompts: [{id, text}]}}. The answer has outcome, status and reason, like the answer for a
 * cell. */
#ifndef KVR_RUN_WORKER_ENCODE_H
#define KVR_RUN_WORKER_ENCODE_H

#include <jansson.h>

#include "harness/engine/text/embed.h"

/* Called in the parent process: starts a worker that sees only the GPU with UUID `gpu` ("": all
 * GPUs), and waits for it. KVR_EINTERRUPTED: the callback `stopped` (may be NULL) returned true,
 * and the worker was killed. */
enum kvr_status kvr_encode_in_worker(const struct kvr_embed_job *job, const char *pack, int threads,
                                     const char *gpu, bool (*stopped)(void));

/* Encodes the prompts of the request's entry `encode`, in the worker process. */
enum kvr_status kvr_worker_encode(const json_t *encode);

#endif
