/* analyzer.h - contracts for clang --analyze, which sees one source at a time (tools/lint/lint.sh, -include).
 *
 * Each macro states what the function's header promises. The definition has its name in parentheses. */
#ifndef KVR_LINT_ANALYZER_H
#define KVR_LINT_ANALYZER_H

#include "harness/core/dtype.h"
#include "harness/core/status.h"
#include "harness/plan/yaml.h"

/* The status comes back: after a failure it is not KVR_OK. */
#define kvr_fail(st, ...) (kvr_fail(st, __VA_ARGS__), (st))
#define kvr_fail_prefix(st, ...) (kvr_fail_prefix(st, __VA_ARGS__), (st))
#define kvr_yaml_fail(...) (kvr_yaml_fail(__VA_ARGS__), KVR_EINVAL)

/* Writes dst, also where src is part of the same struct: a const argument makes clang keep all of the struct. */
void kvr_lint_written(void *p);
#define kvr_to_f32(dst, src, t, n) (kvr_to_f32(dst, src, t, n), kvr_lint_written(dst))

#endif
