/* worker_encode.c - encodes texts in a worker process: the parent's functions, which send the
 * request and wait, and the worker's functions, which read the request and encode. */
#include "harness/run/worker_encode.h"

#include <omp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/run/spawn.h"

enum { LOOK_MS = 100 }; /* interval of checking `stopped` while the worker writes nothing */

static const char where[] = "worker's request";

/* --- the parent ------------------------------------------------------------------------- */

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating the prompts");
}

static char *request_of(const struct kvr_embed_job *job, const char *pack, int threads)
{
    json_t *prompts = json_array(), *request;
    char *text = NULL;
    int lost = !prompts;

    for (int i = 0; !lost && i < job->n; i++)
        lost = json_array_append_new(
            prompts, json_pack("{s:s, s:s}", "id", job->prompt[i].id, "text", job->prompt[i].text));
    if (lost) {
        json_decref(prompts);
        return NULL;
    }
    request =
        json_pack("{s:{s:s, s:s, s:s, s:i, s:i, s:s, s:o}}", "encode", "encoder", job->encoder,
                  "tokenizer", job->tokenizer, "device", job->device, "max_tokens", job->max_tokens,
                  "threads", threads, "pack", pack, "prompts", prompts);
    if (request)
        text = kvr_json_text(request, JSON_COMPACT);
    json_decref(request);
    return text;
}

static enum kvr_status find_status(const char *name)
{
    for (int i = KVR_OK; i < KVR_N_STATUS; i++)
        if (strcmp(kvr_status_name((enum kvr_status)i), name) == 0)
            return (enum kvr_status)i;
    return KVR_EINTERNAL;
}

static enum kvr_status read_answer(const struct kvr_child *c)
{
    json_t *answer = c->answer ? json_loads(c->answer, 0, NULL) : NULL;
    const char *outcome = json_string_value(json_object_get(answer, "outcome"));
    const char *status = json_string_value(json_object_get(answer, "status"));
    const char *reason = json_string_value(json_object_get(answer, "reason"));
    enum kvr_status st = KVR_OK;

    if (!outcome || !status || !reason)
        st = kvr_fail(
            KVR_EINTERNAL,
            "text encoder: the process ended without a result; the end of the process's output: %s",
            c->tail);
    else if (strcmp(outcome, "OK") != 0)
        st = kvr_fail(find_status(status), "text encoder: %s", reason);
    json_decref(answer);
    return st;
}

enum kvr_status kvr_encode_in_worker(const struct kvr_embed_job *job, const char *pack, int threads,
                                     const char *gpu, bool (*stopped)(void))
{
    char *request = request_of(job, pack, threads);
    struct kvr_child c = { 0 };
    bool ended = false;
    int status;
    enum kvr_status st;

    if (!request)
        return no_memory();
    st = kvr_child_start(&c, request, strlen(request), threads, gpu);
    while (st == KVR_OK && !ended) {
        struct pollfd ready[] = { { .fd = c.out, .events = POLLIN },
                                  { .fd = c.err, .events = POLLIN } };

        poll(ready, 2, LOOK_MS);
        kvr_child_read(&c);
        ended = kvr_child_reap(&c, &status);
        if (!ended && stopped && stopped())
            st = kvr_fail(KVR_EINTERRUPTED, "text encoder: interrupted");
    }
    if (st == KVR_OK)
        st = read_answer(&c);
    kvr_child_free(&c);
    free(request);
    return st;
}

/* --- the worker ------------------------------------------------------------------------- */

static enum kvr_status read_prompts(const json_t *list, struct kvr_embed_prompt *to)
{
    const json_t *o;
    size_t i;

    json_array_foreach(list, i, o)
    {
        KVR_TRY(kvr_json_string(o, where, "id", &to[i].id));
        KVR_TRY(kvr_json_string(o, where, "text", &to[i].text));
    }
    return KVR_OK;
}

enum kvr_status kvr_worker_encode(const json_t *encode)
{
    struct kvr_embed_job job = { 0 };
    struct kvr_embed_report report;
    struct kvr_embed_prompt *prompt;
    const char *pack;
    int threads;
    json_t *list;
    enum kvr_status st;

    KVR_TRY(kvr_json_string(encode, where, "encoder", &job.encoder));
    KVR_TRY(kvr_json_string(encode, where, "tokenizer", &job.tokenizer));
    KVR_TRY(kvr_json_string(encode, where, "device", &job.device));
    KVR_TRY(kvr_json_string(encode, where, "pack", &pack));
    KVR_TRY(kvr_json_int_in(encode, where, "max_tokens", 1, 1 << 16, &job.max_tokens));
    KVR_TRY(kvr_json_int_in(encode, where, "threads", 1, 1024, &threads));
    KVR_TRY(kvr_json_array(encode, where, "prompts", &list));
    job.n = (int)json_array_size(list);
    prompt = calloc((size_t)job.n + 1, sizeof *prompt);
    if (!prompt)
        return no_memory();
    job.prompt = prompt;
    omp_set_num_threads(threads);
    st = read_prompts(list, prompt);
    if (st == KVR_OK)
        st = kvr_embed(&job, pack, &report);
    free(prompt);
    return st;
}
