/* scaled.h - extrapolates runtime and peak memory to the whole model, linearly from runs of two
 * reduced models with fewer layers.
 *
 *     KVR_TRY(kvr_report_scaled(&t, "out/cost-cut.db"));
 *
 * The table has a row per model, method and settings. Let x1 and x2 be the runtimes (or peak
 * memories) at the two smallest measured layer counts l1 < l2. The prediction for L layers is x1 +
 * (L - l1) (x2 - x1) / (l2 - l1). Both measurements include any cost that does not depend on the
 * number of layers, so the prediction includes this cost once. If the database has a measurement of
 * the whole model, the row has that value and the relative error of the prediction (columns
 * error_*). A value that cannot be extrapolated is NULL, with the reason in `missing`. Fidelity is
 * not extrapolated. */
#ifndef KVR_REPORT_SCALED_H
#define KVR_REPORT_SCALED_H

#include "harness/report/table/table.h"

enum kvr_status kvr_report_scaled(struct kvr_table **out, const char *db_path);

#endif
