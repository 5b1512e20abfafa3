/* worker_probe.h - adds a probed rollout's results to a worker's answer. */
#ifndef KVR_RUN_WORKER_PROBE_H
#define KVR_RUN_WORKER_PROBE_H

#include <jansson.h>

#include "harness/workload/probe.h"

/* Adds the rows of the probe as "probes", its values over all layers and steps to "metrics", and
 * the time spent in the probe to "samples". `answer` must already have "metrics" and "samples". */
enum kvr_status kvr_probe_answer(const struct kvr_probe *probe, int64_t probe_ns, json_t *answer);

#endif
