/* bands.h - mean of a curve over prompts with its confidence interval, point by point. */
#ifndef KVR_REPORT_BANDS_H
#define KVR_REPORT_BANDS_H

#include "harness/report/table.h"

/* `in` has columns method, family, is_baseline, settings, x and value, one row per prompt and x,
 * rows of one point adjacent. *out replaces value by y (mean), lo and hi (95 % interval, NULL for
 * one prompt) and n. With least < most, intervals are clipped to [least, most], the range of
 * possible values. The caller closes *out. KVR_ENOMEM. */
enum kvr_status kvr_bands(struct kvr_table **out, const struct kvr_table *in, double least,
                          double most);

#endif
