/* parts.h - a method's resolved parts and options as JSON: the method's part of a cell's key. */
#ifndef KVR_PLAN_PARTS_H
#define KVR_PLAN_PARTS_H

#include <jansson.h>

#include "methods/method.h"

/* An object that maps each axis of a method to the text of its part with all options. Methods with
 * equal objects are equal. A budget given as a file also has its sha256. NULL: no memory. The
 * caller owns the object. */
json_t *kvr_parts_json(const struct kvr_scheme *p);

/* An object that maps the name of each plug-in that the method uses to the SHA-256 of its file.
 * Cells of a rebuilt plug-in have other keys. Empty for built-in parts. NULL: out of memory. The
 * caller owns it. */
json_t *kvr_plugins_json(const struct kvr_scheme *p);

#endif
