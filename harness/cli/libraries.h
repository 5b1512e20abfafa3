/* libraries.h - names and versions of the libraries that this program has loaded. */
#ifndef KVR_CLI_LIBRARIES_H
#define KVR_CLI_LIBRARIES_H

#include <jansson.h>

/* Returns a JSON object that maps the name of each loaded library to its version at run time, which
 * may differ from the version at compile time. The caller owns the object. Returns NULL if out of
 * memory. */
json_t *kvr_libraries_json(void);

#endif
