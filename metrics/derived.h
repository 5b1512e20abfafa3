/* derived.h - values derived from a metric's per-frame series: curves over chunks and over
 * prefixes, and degradation over the rollout.
 *
 *     struct kvr_derived d[KVR_N_DERIVED];
 *     KVR_TRY(kvr_metric_derive(m, &in, &v, prefix_step, d));
 *     for (int i = 0; i < KVR_N_DERIVED; i++)
 *         ... d[i].name, d[i].value or d[i].missing, d[i].series [d[i].n_series] ...
 *     kvr_derived_free(d);
 *
 * For metric m:
 *     m.drift   series: one value per chunk. value: value of the last chunk minus that of chunk c,
 *               the first after chunk 0 that differs from the reference (1 if none). extra: c
 *     m.prefix  series: over the first 1, 2, 3 .. times `prefix_step` frames. value: over the
 *               longest prefix; extra: its frames
 *     m.last    value: over the last third of the frames, in whole chunks if known; extra: its
 *               first frame
 *     m.p5      value: 5th percentile of the frames, from the bad end; extra: worst frame's value
 *     m.min     value: the worst frame, "m.max" where less is better; extra: its first index
 *     m.mean    arithmetic mean of the per-frame values, if the metric pools otherwise
 *     m.harmonic  n / sum(1 / (1 + x)) - 1 of the per-frame values x, where more is better: weighs
 *               bad frames more than the mean does
 * If kvr_metric.whole is set, so that m's value is not pooled from its per-frame series, only
 * m.drift is derived. A chunk's value is then the mean of the series over the chunk's frames. For a
 * metric that compares with recorded frames, c is 0. The method already affects chunk 0 in this
 * case, because chunk 0 attends to the cached frames of the recorded clip. */
#ifndef KVR_METRICS_DERIVED_H
#define KVR_METRICS_DERIVED_H

#include "metrics/metric.h"

enum { KVR_DRIFT, KVR_PREFIX, KVR_P5, KVR_MEAN, KVR_LAST, KVR_HARMONIC, KVR_WORST, KVR_N_DERIVED };

struct kvr_derived {
    char name[64]; /* name, such as "psnr.drift", or "" if this derived value is not defined for the
                    * metric */
    double value, extra;
    int n; /* number of frames that `value` is computed from */
    int n_series;
    double *series; /* owned */
    char missing[128];
};

/* Derives no values if `v` has no value or no per-frame series. The argument prefix_step is the
 * difference between successive prefix lengths, in frames, and at least 1. */
enum kvr_status kvr_metric_derive(const struct kvr_metric *m, const struct kvr_metric_input *in,
                                  const struct kvr_metric_value *v, int prefix_step,
                                  struct kvr_derived d[KVR_N_DERIVED]);
void kvr_derived_free(struct kvr_derived d[KVR_N_DERIVED]);

#endif
