/* parts.h - a method's settled plan as JSON: the part of a cell's key that is the method. */
#ifndef KVR_PLAN_PARTS_H
#define KVR_PLAN_PARTS_H

#include <jansson.h>

#include "methods/method.h"

/* Axis -> text, options spelled out: all that makes one plan differ from another. Of a budget that
 * is a file also the file's sha256. NULL: no memory. The caller owns it. */
json_t *kvr_parts_json(const struct kvr_scheme *p);

/* The plug-ins that the plan uses, name -> sha256 of the file: another build is another cell.
 * Empty for a plan of built-in parts. NULL: no memory. The caller owns it. */
json_t *kvr_plugins_json(const struct kvr_scheme *p);

#endif
