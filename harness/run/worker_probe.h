/* worker_probe.h - adds a probed rollout's results to a worker's answer. */
#ifndef KVR_RUN_WORKER_PROBE_H
#define KVR_RUN_WORKER_PROBE_H

#include <jansson.h>

#include "harness/workload/probe.h"

/* Adds "probes", every row of the probe; to "metrics" the overall values; to "samples" the probe's
 * own time. `answer` already has the latter two. */
enum kvr_status kvr_probe_answer(const struct kvr_probe *probe, int64_t probe_ns, json_t *answer);

#endif
