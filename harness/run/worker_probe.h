/* worker_probe.h - adds the results of a probe to a worker process's answer, a JSON object. A probe
 * compares a method's attention with attention over a BF16 KV cache (workload/probe.h). */
#ifndef KVR_RUN_WORKER_PROBE_H
#define KVR_RUN_WORKER_PROBE_H

#include <jansson.h>

#include "harness/workload/probe.h"

/* Adds all rows of the probe (kvr_probe_rows) to the answer as "probes". For the values listed in
 * worker_probe.c, adds the mean over all probed attention calls to "metrics". Adds probe_ns, the
 * time spent in the probe, to "samples". `answer` must already have "metrics" and "samples". */
enum kvr_status kvr_probe_answer(const struct kvr_probe *probe, int64_t probe_ns, json_t *answer);

#endif
