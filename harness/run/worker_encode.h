/* worker_encode.h - prompts through a text encoder, in a worker: what it takes on a device is free
 * again when the process has ended.
 *
 * Request: {"encode": {encoder, tokenizer, device, max_tokens, threads, pack, prompts: [{id,
 * text}]}}; answer: outcome, status and reason, as of a cell. */
#ifndef KVR_RUN_WORKER_ENCODE_H
#define KVR_RUN_WORKER_ENCODE_H

#include <jansson.h>

#include "harness/engine/text/embed.h"

/* In the parent: in a worker that sees the GPU of this UUID ("": as they are), and waits for it.
 * KVR_EINTERRUPTED: `stopped` (NULL: never) said so, and the worker is ended. */
enum kvr_status kvr_encode_apart(const struct kvr_embed_job *job, const char *pack, int threads,
                                 const char *gpu, bool (*stopped)(void));

/* In the worker: what `encode` of the request says. */
enum kvr_status kvr_worker_encode(const json_t *encode);

#endif
