/* worker_memory.c - see worker_memory.h. */
#include "harness/run/worker_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/device/names.h"
#include "harness/store/record.h"

enum kvr_status kvr_worker_memory_open(struct kvr_worker_memory *m, struct kvr_dev *dev)
{
    struct kvr_device_words words;

    *m = (struct kvr_worker_memory){ .on = false };
    if (kvr_dev_in_host(dev) ||
        (strcmp(kvr_dev_name(dev), "emulated") == 0 && !getenv("KVREEL_NVML")))
        return KVR_OK;
    KVR_TRY(kvr_dev_describe(dev, &words));
    m->on = words.n > 0;
    if (!m->on)
        return KVR_OK;
    snprintf(m->uuid, sizeof m->uuid, "%s", words.uuid[0]);
    KVR_TRY(kvr_gpu_states_open(&m->nvml, m->why, sizeof m->why));
    return kvr_worker_memory_end(m, dev, "context");
}

enum kvr_status kvr_worker_memory_end(struct kvr_worker_memory *m, struct kvr_dev *dev,
                                      const char *phase)
{
    struct kvr_memory_phase *p = &m->phase[m->n];
    struct kvr_device_info info;

    if (!m->on || m->n == KVR_MEMORY_PHASES)
        return KVR_OK;
    KVR_TRY(kvr_dev_sync(dev));
    KVR_TRY(kvr_dev_info(dev, &info));
    p->name = phase;
    p->pool = (int64_t)(m->held + info.taken_peak_bytes);
    if (!m->nvml)
        snprintf(p->why, sizeof p->why, "%s", m->why);
    else
        kvr_gpu_process_bytes(m->nvml, m->uuid, getpid(), &p->nvml, p->why, sizeof p->why);
    m->n++;
    return KVR_OK;
}

enum kvr_status kvr_worker_memory_hold(struct kvr_worker_memory *m, struct kvr_dev *dev)
{
    struct kvr_device_info info;

    if (!m->on)
        return KVR_OK;
    KVR_TRY(kvr_dev_sync(dev));
    KVR_TRY(kvr_dev_info(dev, &info));
    m->held = info.taken_bytes;
    return KVR_OK;
}

static enum kvr_status add_bytes(json_t *metrics, const char *what, const char *phase,
                                 int64_t bytes, const char *missing)
{
    char name[64];
    const struct kvr_row_metric m = { .name = name,
                                      .unit = "B",
                                      .n = missing ? 0 : 1,
                                      .value = missing ? NAN : (double)bytes,
                                      .extra = NAN,
                                      .missing = missing };

    snprintf(name, sizeof name, "%s_%s_bytes", what, phase);
    return json_array_append_new(metrics, kvr_metric_json(&m))
               ? kvr_fail(KVR_ENOMEM, "worker: no memory for its answer")
               : KVR_OK;
}

enum kvr_status kvr_worker_memory_answer(const struct kvr_worker_memory *m, json_t *answer)
{
    json_t *metrics = json_object_get(answer, "metrics");

    for (int i = 0; i < m->n; i++) {
        const struct kvr_memory_phase *p = &m->phase[i];

        KVR_TRY(add_bytes(metrics, "pool", p->name, p->pool, NULL));
        KVR_TRY(add_bytes(metrics, "nvml", p->name, p->nvml, p->nvml ? NULL : p->why));
    }
    return KVR_OK;
}

void kvr_worker_memory_close(struct kvr_worker_memory *m)
{
    kvr_gpu_states_close(&m->nvml);
}
