/* scaled.h - times and peaks of a whole model from parts of it: a line through two numbers of layers.
 *
 *     KVR_TRY(kvr_report_scaled(&t, "out/cost-cut.db"));
 *
 * A row per model, method and settings. With x1 and x2 measured in l1 < l2 layers, the two smallest, all L
 * layers take x1 + (L - l1) (x2 - x1) / (l2 - l1): what does not grow with layers counts once. Where the whole
 * model was measured, too, it stands beside, and error_* is how far the line is off. What cannot be scaled is
 * NULL, and `missing` says why; fidelity is in no column. */
#ifndef KVR_REPORT_SCALED_H
#define KVR_REPORT_SCALED_H

#include "harness/report/table.h"

enum kvr_status kvr_report_scaled(struct kvr_table **out, const char *db_path);

#endif
