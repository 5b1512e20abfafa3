/* libraries.h - the libraries this program runs with, by name and version. */
#ifndef KVR_CLI_LIBRARIES_H
#define KVR_CLI_LIBRARIES_H

#include <jansson.h>

/* {"sqlite": "3.40.1", ...}: what is loaded now, not what it was compiled against. New
 * reference, NULL without memory. */
json_t *kvr_libraries_json(void);

#endif
