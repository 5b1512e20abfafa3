/* check_report.h - builds the report of kvr_engine_check. Private to harness/engine. */
#ifndef KVR_ENGINE_CHECK_REPORT_H
#define KVR_ENGINE_CHECK_REPORT_H

#include "harness/core/safetensors.h"
#include "harness/engine/check.h"

struct kvr_tolerance {
    double rel_l2, max_abs;
};

/* Compares x [n] with the recorded tensor `golden`, and appends the result to the report as entry
 * `name`. The recorded tensor may have any numeric type. The comparison fails if golden does not
 * have n elements. */
enum kvr_status kvr_check_compare(struct kvr_check_report *r, const char *name, const float *x,
                                  int64_t n, const struct kvr_tensor *golden,
                                  const struct kvr_tolerance *tol);

/* Adds a report entry that has a status and a note, but no error values. */
enum kvr_status kvr_check_note(struct kvr_check_report *r, const char *name,
                               enum kvr_check_status status, const char *note);

/* Calls `check` with the path DIR/NAME if that file exists, and otherwise does nothing. */
typedef enum kvr_status kvr_check_golden_fn(struct kvr_check_report *r, const char *dir,
                                            const char *golden, const struct kvr_check_how *how);
enum kvr_status kvr_check_golden(struct kvr_check_report *r, const char *dir, const char *name,
                                 const struct kvr_check_how *how, kvr_check_golden_fn *check);

bool kvr_check_has(const struct kvr_check_report *r, const char *name);

#endif
