/* range.h - expands ranges in a config to lists.
 *
 *     6..42+12      6, 18, 30, 42          {from: 6, to: 42, step: 12}
 *     16..128*2     16, 32, 64, 128        {from: 16, to: 128, times: 2}
 *     3..6          3, 4, 5, 6             {from: 3, to: 6}
 *
 * A range is allowed wherever a list is allowed, including the options of a method. A range inside
 * a list is replaced by its values. Quoted text such as "3..6" is not a range. */
#ifndef KVR_PLAN_RANGE_H
#define KVR_PLAN_RANGE_H

#include "harness/plan/yaml.h"

enum { KVR_RANGE_MAX = 1000 }; /* maximum number of values of one range */

/* Replaces all ranges of the document by lists. KVR_EINVAL: a step has the wrong sign, a range
 * has more than KVR_RANGE_MAX values, or the magnitude of an end exceeds 2^53 - 1. The message
 * gives file, line and column. */
enum kvr_status kvr_ranges_expand(struct kvr_yaml *y);

#endif
