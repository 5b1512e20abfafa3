/* parts.h - a method's components and options as JSON, which is part of a cell's spec and key. */
#ifndef KVR_PLAN_PARTS_H
#define KVR_PLAN_PARTS_H

#include <jansson.h>

#include "methods/method.h"

/* Returns a JSON object with one entry per kind of component of a method (codec_k, tiers, ...). The
 * entry's value names the component and gives the values of all its options, as in "sym(bits=8,
 * ...)". Two methods with equal objects compute the same results. If an option's value is a file
 * name, the object also has the file's SHA-256. Returns NULL if out of memory. The caller owns the
 * object. */
json_t *kvr_parts_json(const struct kvr_scheme *p);

/* Returns a JSON object that maps each plug-in of the method to the SHA-256 of its shared object. A
 * changed plug-in therefore changes the keys of the cells that use it. The object is empty for
 * methods without plug-ins. Returns NULL if out of memory. The caller owns the object. */
json_t *kvr_plugins_json(const struct kvr_scheme *p);

/* Opens the method of a cell's spec: the key "plan" names the method, and "options" is an object
 * whose values are strings. KVR_EFORMAT: a key is missing, an option is not a string, or the spec
 * has more than 64 options; the message starts with `where`. Other errors are those of
 * kvr_scheme_open(). */
enum kvr_status kvr_parts_open_scheme(struct kvr_scheme **out, const json_t *spec,
                                      const char *where);

#endif
