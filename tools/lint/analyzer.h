/* analyzer.h - tells clang --analyze what functions in other source files do (tools/lint/lint.sh
 * passes it by -include).
 *
 * The analyzer sees one source file at a time. Each macro wraps the calls of a function and states
 * what the function's header promises. The function's definition writes its name in parentheses,
 * `(kvr_fail)(...)`, so that the macro is not expanded there. */
#ifndef KVR_LINT_ANALYZER_H
#define KVR_LINT_ANALYZER_H

#include "harness/core/dtype.h"
#include "harness/core/status.h"
#include "harness/plan/yaml.h"

/* Tells clang that kvr_fail, kvr_fail_prefix and kvr_yaml_fail return the failure status `st` (or
 * KVR_EINVAL), never KVR_OK. */
#define kvr_fail(st, ...) (kvr_fail(st, __VA_ARGS__), (st))
#define kvr_fail_prefix(st, ...) (kvr_fail_prefix(st, __VA_ARGS__), (st))
#define kvr_yaml_fail(...) (kvr_yaml_fail(__VA_ARGS__), KVR_EINVAL)

/* Tells clang that kvr_to_f32 writes dst. If the const argument src points into the same struct as
 * dst, clang otherwise assumes that the call leaves the whole struct unchanged. */
void kvr_lint_written(void *p);
#define kvr_to_f32(dst, src, t, n) (kvr_to_f32(dst, src, t, n), kvr_lint_written(dst))

#endif
