/* range.h - expands ranges in a config to lists.
 *
 *     6..42+12      6, 18, 30, 42          {from: 6, to: 42, step: 12}
 *     16..128*2     16, 32, 64, 128        {from: 16, to: 128, times: 2}
 *     3..6          3, 4, 5, 6             {from: 3, to: 6}
 *
 * A range may replace any list, also a list of a method's options. Inside a list the range's values
 * are inserted in its place. Quoted text is not expanded. */
#ifndef KVR_PLAN_RANGE_H
#define KVR_PLAN_RANGE_H

#include "harness/plan/yaml.h"

enum { KVR_RANGE_MAX = 1000 }; /* maximum number of values of one range */

/* KVR_EINVAL with file, line and column: a step in the wrong direction, or more than KVR_RANGE_MAX
 * values. */
enum kvr_status kvr_ranges_expand(struct kvr_yaml *y);

#endif
