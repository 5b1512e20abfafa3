/* analyzer.h - declarations for clang --analyze, which sees one source at a time (tools/lint/lint.sh, -include). */
#ifndef KVR_LINT_ANALYZER_H
#define KVR_LINT_ANALYZER_H

#include "harness/core/status.h"

/* The status comes back: after a failure it is not KVR_OK. */
#define kvr_fail(st, ...) (kvr_fail(st, __VA_ARGS__), (st))
#define kvr_fail_prefix(st, ...) (kvr_fail_prefix(st, __VA_ARGS__), (st))

#endif
