/* worker_memory.c - see worker_memory.h. */
#include "harness/run/worker_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/device/names.h"
#include "harness/run/worker_metric.h"

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

enum kvr_status kvr_worker_memory_answer(const struct kvr_worker_memory *m, json_t *answer)
{
    json_t *metrics = json_object_get(answer, "metrics");

    for (int i = 0; i < m->n; i++) {
        const struct kvr_memory_phase *p = &m->phase[i];
        char name[64];

        snprintf(name, sizeof name, "pool_%s_bytes", p->name);
        KVR_TRY(kvr_worker_metric(metrics, name, "B", 1, (double)p->pool, NULL));
        snprintf(name, sizeof name, "nvml_%s_bytes", p->name);
        KVR_TRY(kvr_worker_metric(metrics, name, "B", p->nvml ? 1 : 0, (double)p->nvml,
                                  p->nvml ? NULL : p->why));
    }
    return KVR_OK;
}

void kvr_worker_memory_close(struct kvr_worker_memory *m)
{
    kvr_gpu_states_close(&m->nvml);
}
