/* worker_probe.h - adds the probe's results to a worker process's answer, a JSON object. */
#ifndef KVR_RUN_WORKER_PROBE_H
#define KVR_RUN_WORKER_PROBE_H

#include <jansson.h>

#include "harness/workload/probe.h"

/* Adds all probe values to the answer as "probes". Adds the values over all layers and passes to
 * "metrics", and the time spent in the probe to "samples". `answer` must already have "metrics" and
 * "samples". */
enum kvr_status kvr_probe_answer(const struct kvr_probe *probe, int64_t probe_ns, json_t *answer);

#endif
