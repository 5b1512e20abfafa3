/* range.h - ranges in a config become the lists that they stand for.
 *
 *     6..42+12      6, 18, 30, 42          {from: 6, to: 42, step: 12}
 *     16..128*2     16, 32, 64, 128        {from: 16, to: 128, times: 2}
 *     3..6          3, 4, 5, 6             {from: 3, to: 6}
 *
 * Anywhere a list may stand, options of methods included; inside a list they are spliced in.
 * What is in quotes stays text. */
#ifndef KVR_PLAN_RANGE_H
#define KVR_PLAN_RANGE_H

#include "harness/plan/yaml.h"

enum { KVR_RANGE_MAX = 1000 }; /* values of one range */

/* KVR_EINVAL with the place: a step that leads nowhere, more than KVR_RANGE_MAX values. */
enum kvr_status kvr_ranges_expand(struct kvr_yaml *y);

#endif
