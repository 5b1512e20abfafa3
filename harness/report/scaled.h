/* scaled.h - extrapolates time and peak memory to all layers, linearly from two numbers of layers.
 *
 *     KVR_TRY(kvr_report_scaled(&t, "out/cost-cut.db"));
 *
 * A row per model, method and settings. With x1 and x2 measured at the two smallest numbers of
 * layers l1 < l2, the prediction for L layers is x1 + (L - l1) (x2 - x1) / (l2 - l1). A part that
 * is independent of the layers is thus counted once. If the whole model was measured, the row has
 * that value and the prediction's error, error_*. A value that cannot be extrapolated is NULL, with
 * the reason in `missing`. Fidelity is not extrapolated. */
#ifndef KVR_REPORT_SCALED_H
#define KVR_REPORT_SCALED_H

#include "harness/report/table.h"

enum kvr_status kvr_report_scaled(struct kvr_table **out, const char *db_path);

#endif
