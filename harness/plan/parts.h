/* parts.h - a method's resolved parts and options as JSON: the method's part of a cell's key. */
#ifndef KVR_PLAN_PARTS_H
#define KVR_PLAN_PARTS_H

#include <jansson.h>

#include "methods/method.h"

/* Axis -> text with all options: everything that distinguishes methods. A budget given as a file also has its
 * sha256. NULL: no memory. The caller owns it. */
json_t *kvr_parts_json(const struct kvr_scheme *p);

/* The plug-ins that the method uses, name -> SHA-256 of the file: a rebuilt plug-in makes another
 * cell. Empty for built-in parts. NULL: out of memory. The caller owns it. */
json_t *kvr_plugins_json(const struct kvr_scheme *p);

#endif
