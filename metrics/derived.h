/* derived.h - what follows from a metric's values per frame: curves over chunks and prefixes,
 * and how much the end of a rollout is worse than its beginning.
 *
 *     struct kvr_derived d[KVR_N_DERIVED];
 *     KVR_TRY(kvr_metric_derive(m, &in, &v, prefix_step, d));
 *     for (int i = 0; i < KVR_N_DERIVED; i++)
 *         ... d[i].name, d[i].value or d[i].missing, d[i].series [d[i].n_series] ...
 *     kvr_derived_free(d);
 *
 * Of metric m:
 *     m.drift   series: one value per chunk. value: the last chunk less the first chunk in which
 *               test and reference differ (or the second, when none does before it): what the
 *               rollout lost from where the cache first mattered to its end. extra: that chunk
 *     m.prefix  series: over the first 1, 2, 3 .. times `prefix_step` frames. value: over the
 *               longest of these; extra: its frames
 *     m.last    value: over the last third of the frames, in whole chunks where these are known;
 *               extra: its first frame
 *     m.p5      value: the frame that 5 % of the frames are not better than; extra: the worst
 *     m.min     value: the worst frame, "m.max" where less is better; extra: the first such frame
 *     m.mean    plain mean of the values per frame, where the metric pools otherwise
 *     m.harmonic  n / sum(1 / (1 + x)) - 1 of the values x per frame, where more is better: few bad
 *               frames weigh more than in a mean
 * Of one that belongs to the whole video, m.drift alone: its series pooled over chunks. Of one
 * against the truth, m.drift counts from chunk 0, which reads the cache of what was given. */
#ifndef KVR_METRICS_DERIVED_H
#define KVR_METRICS_DERIVED_H

#include "metrics/metric.h"

enum { KVR_DRIFT, KVR_PREFIX, KVR_P5, KVR_MEAN, KVR_LAST, KVR_HARMONIC, KVR_WORST, KVR_N_DERIVED };

struct kvr_derived {
    char name[64]; /* "" when there is nothing of this kind */
    double value, extra;
    int n; /* frames that value was pooled over */
    int n_series;
    double *series; /* owned */
    char missing[128];
};

/* `v` without a value, or without a series, derives nothing. prefix_step >= 1. */
enum kvr_status kvr_metric_derive(const struct kvr_metric *m, const struct kvr_metric_input *in,
                                  const struct kvr_metric_value *v, int prefix_step,
                                  struct kvr_derived d[KVR_N_DERIVED]);
void kvr_derived_free(struct kvr_derived d[KVR_N_DERIVED]);

#endif
