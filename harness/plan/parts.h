/* parts.h - the parts and options of a method as JSON, which enter the cell's key. */
#ifndef KVR_PLAN_PARTS_H
#define KVR_PLAN_PARTS_H

#include <jansson.h>

#include "methods/method.h"

/* Returns a JSON object that maps each axis of a method (codec, tiers, ...) to the text of its part
 * with all options. Two methods with equal objects compute the same results. If an option is a
 * file, the object also has the file's SHA-256. Returns NULL if out of memory. The caller owns the
 * object. */
json_t *kvr_parts_json(const struct kvr_scheme *p);

/* Returns a JSON object that maps each plug-in of the method to the SHA-256 of its shared object,
 * so that rebuilding a plug-in changes the keys of its cells. The object is empty for methods
 * without plug-ins. Returns NULL if out of memory. The caller owns the object. */
json_t *kvr_plugins_json(const struct kvr_scheme *p);

#endif
