/* bands.h - averages the curves of a metric over prompts, with a pointwise confidence interval of
 * the mean. */
#ifndef KVR_PLOT_BANDS_H
#define KVR_PLOT_BANDS_H

#include "harness/report/table/table.h"

/* The table `in` has the columns method, family, is_baseline, settings, x and value. Each row is
 * the value of one prompt at one x. A curve is one method with one combination of settings. Rows of
 * the same curve and x must be adjacent. *out has, instead of `value`, the columns y (mean over
 * prompts), lo and hi (95 % interval, NULL for one prompt) and n. If least < most, intervals are
 * clipped to [least, most], the range of the metric. The caller closes *out. KVR_ENOMEM. */
enum kvr_status kvr_bands(struct kvr_table **out, const struct kvr_table *in, double least,
                          double most);

#endif
