/* bands.h - a curve's mean over prompts with its interval, point by point. */
#ifndef KVR_REPORT_BANDS_H
#define KVR_REPORT_BANDS_H

#include "harness/report/table.h"

/* `in` has columns method, family, is_baseline, settings, x and value, one row per prompt and x,
 * rows of one point together. Out: the same without value, and y, the mean, lo and hi, its 95 %
 * interval (NULL of one prompt), and n. Where least < most, no value can lie beyond them, and no
 * interval does. The caller closes it. KVR_ENOMEM. */
enum kvr_status kvr_bands(struct kvr_table **out, const struct kvr_table *in, double least,
                          double most);

#endif
