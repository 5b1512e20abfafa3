/* worker_metric.c - see worker_metric.h. */
#include "harness/run/worker_metric.h"

#include <math.h>

#include "harness/store/record.h"

enum kvr_status kvr_worker_metric(json_t *metrics, const char *name, const char *unit, int n,
                                  double value, const char *missing)
{
    const struct kvr_row_metric m = { .name = name,
                                      .unit = unit,
                                      .n = n,
                                      .value = missing ? NAN : value,
                                      .extra = NAN,
                                      .missing = missing };

    return json_array_append_new(metrics, kvr_metric_json(&m))
               ? kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer")
               : KVR_OK;
}
