/* check_report.h - collects comparisons. Private to harness/engine. */
#ifndef KVR_ENGINE_CHECK_REPORT_H
#define KVR_ENGINE_CHECK_REPORT_H

#include "harness/core/safetensors.h"
#include "harness/engine/check.h"

struct kvr_tolerance {
    double rel_l2, max_abs;
};

/* Compares n floats with a recorded tensor of any numeric type; a different count fails. */
enum kvr_status kvr_check_compare(struct kvr_check_report *r, const char *name, const float *x,
                                  int64_t n, const struct kvr_tensor *golden,
                                  const struct kvr_tolerance *tol);

/* Adds an entry without numbers. */
enum kvr_status kvr_check_note(struct kvr_check_report *r, const char *name,
                               enum kvr_check_status status, const char *note);

/* Calls `check` with the path of DIR/NAME; does nothing if there is no such file. */
typedef enum kvr_status kvr_check_golden_fn(struct kvr_check_report *r, const char *dir,
                                            const char *golden, const struct kvr_check_how *how);
enum kvr_status kvr_check_golden(struct kvr_check_report *r, const char *dir, const char *name,
                                 const struct kvr_check_how *how, kvr_check_golden_fn *check);

bool kvr_check_has(const struct kvr_check_report *r, const char *name);

#endif
