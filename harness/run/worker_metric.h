/* worker_metric.h - adds a metric to a worker process's JSON answer.
 *
 *     KVR_TRY(kvr_worker_metric(json_object_get(answer, "metrics"), "fps_vae", "1/s", 1, fps, NULL)); */
#ifndef KVR_RUN_WORKER_METRIC_H
#define KVR_RUN_WORKER_METRIC_H

#include <jansson.h>

#include "harness/core/status.h"

/* Adds a metric whose `value` summarizes n samples. If `missing` is not NULL, the metric has no
 * value, and `missing` is the reason. KVR_ENOMEM. */
enum kvr_status kvr_worker_metric(json_t *metrics, const char *name, const char *unit, int n,
                                  double value, const char *missing);

#endif
