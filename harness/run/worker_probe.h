/* worker_probe.h - adds a probed rollout's results to a worker's answer. */
#ifndef KVR_RUN_WORKER_PROBE_H
#define KVR_RUN_WORKER_PROBE_H

#include <jansson.h>

#include "harness/workload/probe.h"

/* Adds every row of the probe as "probes", its overall values to "metrics", and the probe's own
 * time to "samples". `answer` must already have "metrics" and "samples". */
enum kvr_status kvr_probe_answer(const struct kvr_probe *probe, int64_t probe_ns, json_t *answer);

#endif
