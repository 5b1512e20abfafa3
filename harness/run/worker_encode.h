/* worker_encode.h - encodes prompts in a worker process, which frees its device memory at exit.
 *
 * Request: {"encode": {encoder, tokenizer, device, max_tokens, threads, pack, prompts: [{id,
 * text}]}}; answer: outcome, status and reason, as for a cell. */
#ifndef KVR_RUN_WORKER_ENCODE_H
#define KVR_RUN_WORKER_ENCODE_H

#include <jansson.h>

#include "harness/engine/text/embed.h"

/* In the parent: starts a worker that sees the GPU of this UUID ("": all), and waits for it.
 * KVR_EINTERRUPTED: `stopped` (NULL: never) returned true, and the worker was killed. */
enum kvr_status kvr_encode_in_worker(const struct kvr_embed_job *job, const char *pack, int threads,
                                     const char *gpu, bool (*stopped)(void));

/* In the worker: handles the request's `encode`. */
enum kvr_status kvr_worker_encode(const json_t *encode);

#endif
