/* libraries.h - names and versions of the libraries that this program has loaded. */
#ifndef KVR_CLI_LIBRARIES_H
#define KVR_CLI_LIBRARIES_H

#include <jansson.h>

/* Returns the versions of the loaded libraries as a JSON object that the caller owns, such as
 * {"sqlite": "3.40.1"}. The versions at run time may differ from those at compile time. Returns
 * NULL if out of memory. */
json_t *kvr_libraries_json(void);

#endif
